//! TYPES of admin.rs

use std::net::IpAddr;

use crate::config::Pool;
use crate::control::{Command, PoolCommand};

/// Whether `Host` names this machine itself: nothing, `localhost`, or a loopback address, with or without a port. Any other
/// name may be in a stranger's hands, who lets it point here once his page is loaded (DNS rebinding).
pub(in crate::worker) fn is_local(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.is_empty()
        || host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// What `/pool/NAME/restart`, `/pool/NAME/drain/SLOT` and `/pool/NAME/scale/N` ask for; the master knows whether there is such a
/// pool.
pub(in crate::worker) fn pool_command(path: &str) -> Option<Command> {
    let (name, wanted) = path.strip_prefix("/pool/")?.split_once('/')?;
    let number =
        |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
    let wanted = match wanted.split_once('/') {
        None if wanted == "restart" => PoolCommand::Restart,
        Some(("drain", slot)) => PoolCommand::Drain(number(slot)?),
        Some(("scale", workers)) => PoolCommand::Scale(number(workers)?),
        _ => return None,
    };
    Pool::is_name(name).then(|| Command::Pool(name.to_owned(), wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_pool_commands_are_strict() {
        let asked = |wanted| Some(Command::Pool("we_b-1".to_owned(), wanted));
        assert_eq!(pool_command("/pool/we_b-1/restart"), asked(PoolCommand::Restart));
        assert_eq!(pool_command("/pool/we_b-1/drain/0"), asked(PoolCommand::Drain(0)));
        assert_eq!(pool_command("/pool/we_b-1/scale/65535"), asked(PoolCommand::Scale(65535)));
        for path in [
            "/pool/web",
            "/pool/web/",
            "/pool//restart",
            "/pool/web/restart/",
            "/pool/web/restart/1",
            "/pool/web/drain",
            "/pool/web/drain/",
            "/pool/web/drain/+1",
            "/pool/web/drain/-1",
            "/pool/web/scale/65536",
            "/pool/web/scale/1/2",
            "/pool/web/remove",
            "/pool/w%65b/restart",
            "/pool/../reload",
            "/pools/web/restart",
        ] {
            assert_eq!(pool_command(path), None, "{path}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in ["", "localhost", "LocalHost:80", "127.0.0.1", "127.3.2.1:9180", "[::1]", "[::1]:9180"] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "example.com",
            "example.com:9180",
            "localhost.example.com",
            "127.0.0.1.example.com",
            "192.0.2.1",
            "[2001:db8::1]:80",
            "0.0.0.0",
            "admin",
            "localhost:80:80",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
