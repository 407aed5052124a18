//! Commands about the servers of a pool: `POST /upstreams/NAME/ACTION?address=…`. The master checks whether there is such a pool.

use maitred_http::uri::decode_parameter;

use maitred_config::{Address, Pool};
use maitred_control::Command;
use maitred_control::servers::{ServerEntry, UpstreamCommand};

/// What a query says.
#[derive(Debug, Default)]
struct Said {
    address: Option<Address>,
    weight: Option<u16>,
    backup: bool,
}

/// The command that a target stands for; what is wrong with it, as a text for the client; `None` if it is none.
pub(super) fn command(path: &str, query: Option<&str>) -> Option<Result<Command, String>> {
    let (name, action) = path.strip_prefix("/upstreams/")?.split_once('/')?;
    if !Pool::is_name(name) || !["add", "drain", "remove", "weight", "reset"].contains(&action) {
        return None;
    }
    let wanted = read(query.unwrap_or_default()).and_then(|said| meant(action, said));
    Some(wanted.map(|wanted| Command::Upstream(name.to_owned(), wanted)))
}

fn meant(action: &str, said: Said) -> Result<UpstreamCommand, String> {
    if action == "reset" {
        return Ok(UpstreamCommand::Reset);
    }
    let address = said.address.ok_or("`address` is missing")?;
    Ok(match action {
        "drain" => UpstreamCommand::Drain(address),
        "remove" => UpstreamCommand::Remove(address),
        "weight" => UpstreamCommand::Weight(address, said.weight.ok_or("`weight` is missing")?),
        _ => UpstreamCommand::Add { address, weight: said.weight, backup: said.backup },
    })
}

fn read(query: &str) -> Result<Said, String> {
    let mut said = Said::default();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = String::from_utf8(decode_parameter(value)).map_err(|_| "the query is not UTF-8")?;
        match name {
            "address" => said.address = Some(address(&value)?),
            "weight" => said.weight = Some(weight(&value)?),
            "backup" => said.backup = value != "false",
            _ => return Err("the query takes `address`, `weight` and `backup`".to_owned()),
        }
    }
    Ok(said)
}

/// Names are not looked up: this thread never waits.
fn address(text: &str) -> Result<Address, String> {
    let hint = "it takes an IP address with a port, such as 192.0.2.1:8080, or unix:/path";
    let address: Address = text.parse().map_err(|_| format!("`address`: {hint}"))?;
    let usable = match &address {
        Address::Inet(address) => address.port() != 0,
        Address::Unix(path) => path.is_absolute() && path.as_os_str().len() <= Address::PATH_BYTES_MAX,
    };
    if usable { Ok(address) } else { Err(format!("`address`: {hint}")) }
}

fn weight(text: &str) -> Result<u16, String> {
    let range = ServerEntry::WEIGHT_MIN..=ServerEntry::WEIGHT_MAX;
    let weight = text.parse().ok().filter(|weight| range.contains(weight));
    weight.ok_or_else(|| format!("`weight` takes {} to {}", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_strictly() {
        let server = || "192.0.2.1:80".parse::<Address>().unwrap();
        let asked = |wanted| Some(Ok(Command::Upstream("a_b".to_owned(), wanted)));
        let read = |target: &str| {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            command(path, Some(query))
        };
        let add = |address, weight, backup| asked(UpstreamCommand::Add { address, weight, backup });
        assert_eq!(read("/upstreams/a_b/add?address=192.0.2.1:80"), add(server(), None, false));
        assert_eq!(
            read("/upstreams/a_b/add?address=unix%3A%2Fs&weight=1000&backup"),
            add(Address::Unix("/s".into()), Some(1000), true)
        );
        assert_eq!(
            read("/upstreams/a_b/drain?address=192.0.2.1%3A80"),
            asked(UpstreamCommand::Drain(server()))
        );
        assert_eq!(
            read("/upstreams/a_b/remove?address=192.0.2.1:80"),
            asked(UpstreamCommand::Remove(server()))
        );
        assert_eq!(
            read("/upstreams/a_b/weight?address=192.0.2.1:80&weight=7"),
            asked(UpstreamCommand::Weight(server(), 7))
        );
        assert_eq!(read("/upstreams/a_b/reset"), asked(UpstreamCommand::Reset));
        for none in ["/upstreams/a_b", "/upstreams/a%62/reset", "/upstreams/a_b/reset/", "/upstreams//add"] {
            assert_eq!(read(none), None, "{none}");
        }
        for wrong in [
            "add",
            "add?address=example.com:80",
            "add?address=192.0.2.1",
            "add?address=192.0.2.1:0",
            "add?address=unix:s",
            "add?address=192.0.2.1:80&weight=0",
            "add?address=192.0.2.1:80&weight=1001",
            "add?address=192.0.2.1:80&color=1",
            "add?address=%ff",
            "drain",
            "weight?address=192.0.2.1:80",
        ] {
            assert!(matches!(read(&format!("/upstreams/a_b/{wrong}")), Some(Err(_))), "{wrong}");
        }
    }
}
