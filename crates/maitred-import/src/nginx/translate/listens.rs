//! `listen` and `server_name`.

use super::context::Context;
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;
use crate::report::Kind;

/// An address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listen<'a> {
    /// As `address` takes it.
    pub(crate) address: String,
    /// Whether it has TLS.
    pub(crate) tls: bool,
    /// Whether its server takes what no other one names.
    pub(crate) default: bool,
    /// Whether connections begin with a PROXY header.
    pub(crate) proxy: bool,
    /// Whether there is HTTP/3 at its address, too.
    pub(crate) http3: bool,
    /// Where it stands; nowhere, if it is the default.
    pub(crate) directive: Option<&'a Directive>,
}

impl Listen<'_> {
    /// Whether it is a Unix socket.
    pub(crate) fn is_unix(&self) -> bool {
        self.address.starts_with("unix:")
    }
}

/// A server block.
pub(crate) struct Server<'a> {
    /// The directive.
    pub(crate) directive: &'a Directive,
    /// What holds in it.
    pub(crate) scope: Scope<'a>,
    /// The addresses of the server.
    pub(crate) listens: Vec<Listen<'a>>,
    /// The names of the server.
    pub(crate) names: Vec<String>,
    /// The server's names that only a condition can say.
    pub(crate) patterns: Vec<String>,
    /// Whether the server does no more than to redirect to https, at the same host.
    pub(crate) redirects: bool,
}

/// The addresses of a server block.
pub(crate) fn of<'a>(cx: &Context<'a>, scope: &Scope<'a>) -> Vec<Listen<'a>> {
    let own = scope.own();
    let ssl = own.iter().any(|directive| directive.name == "ssl" && directive.arg(0) == "on");
    let mut found = Vec::new();
    let mut given = false;
    let mut quic = Vec::new();
    for directive in own.iter().filter(|directive| directive.name == "listen") {
        given = true;
        if directive.args.iter().any(|arg| arg == "quic") {
            quic.push(directive);
            continue;
        }
        let has = |name: &str| directive.args.iter().skip(1).any(|arg| arg == name);
        match address(directive.arg(0)) {
            Ok(address) => {
                cx.translated(directive);
                found.push(Listen {
                    address,
                    tls: ssl || has("ssl"),
                    default: has("default_server") || has("default"),
                    proxy: has("proxy_protocol"),
                    http3: false,
                    directive: Some(directive),
                });
            }
            Err(why) => cx.not_possible(directive, why),
        }
    }
    if !given {
        found.push(Listen {
            address: if ssl { ":443" } else { ":80" }.into(),
            tls: ssl,
            default: false,
            proxy: false,
            http3: false,
            directive: None,
        });
    }
    http3(cx, scope, &quic, &mut found);
    found
}

/// `listen … quic` is a key of the address with TLS beside it, and `http3 off` takes it back.
fn http3(cx: &Context<'_>, scope: &Scope<'_>, quic: &[&Directive], found: &mut [Listen<'_>]) {
    let switch = scope.last("http3");
    if let (Some(switch), false) = (switch, quic.is_empty()) {
        cx.translated(switch);
    }
    for directive in quic {
        let at = address(directive.arg(0)).ok().filter(|_| switch.is_none_or(|one| one.arg(0) != "off"));
        let beside = |listen: &&mut Listen<'_>| {
            listen.tls && !listen.proxy && at.as_ref().is_some_and(|address| *address == listen.address)
        };
        match found.iter_mut().find(beside) {
            Some(listen) => {
                listen.http3 = true;
                cx.say(directive, Kind::Translated, "`http3 = true` at the address");
            }
            None => cx.say(directive, Kind::Choice, "clients of HTTP/3 use HTTP/2 instead"),
        }
    }
}

fn address(text: &str) -> Result<String, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return match path.starts_with('/') {
            true => Ok(text.to_owned()),
            false => Err("a Unix socket has an absolute path".into()),
        };
    }
    if let Ok(port) = text.parse::<u16>() {
        return Ok(format!(":{port}"));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !port.contains(']') => {
            (host, port.parse::<u16>().map_err(|_| "the port is no number".to_owned())?)
        }
        _ => (text, 80),
    };
    match host {
        "*" | "0.0.0.0" => Ok(format!(":{port}")),
        "localhost" => Ok(format!("127.0.0.1:{port}")),
        host if host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>().is_ok() => {
            Ok(format!("{host}:{port}"))
        }
        _ => Err("an address to listen on is a number, and no name".into()),
    }
}

/// The names of a server, as `hosts` takes them; and those that only a condition of `Host` can say.
pub(crate) fn names(cx: &Context<'_>, scope: &Scope<'_>) -> (Vec<String>, Vec<String>) {
    let (mut names, mut patterns): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for directive in scope.own().iter().filter(|directive| directive.name == "server_name") {
        let mut wrong = None;
        for name in &directive.args {
            match host(name) {
                Ok(Name::Hosts(found)) => names.extend(found),
                Ok(Name::Pattern(found)) => patterns.push(found),
                Err(why) => wrong = Some(why),
            }
        }
        match wrong {
            None => cx.translated(directive),
            Some(why) => cx.not_possible(directive, why),
        }
    }
    let mut seen: Vec<String> = Vec::new();
    names.retain(|name| {
        let new = !seen.contains(name);
        seen.push(name.clone());
        new
    });
    (names, patterns)
}

/// What a name of nginx is.
enum Name {
    /// Names for `hosts`.
    Hosts(Vec<String>),
    /// A value of `Host` for `match`.
    Pattern(String),
}

fn host(name: &str) -> Result<Name, String> {
    let lower = name.to_ascii_lowercase();
    if lower.is_empty() || lower == "_" || lower == "*" || lower == "$hostname" || lower == "default_server" {
        return Ok(Name::Hosts(Vec::new()));
    }
    if let Some(regex) = name.strip_prefix('~') {
        return Ok(Name::Pattern(format!("~{}", values::regex(regex, true)?)));
    }
    if let Some(below) = lower.strip_prefix('.') {
        return Ok(Name::Hosts(vec![below.to_owned(), format!("*.{below}")]));
    }
    if let Some(before) = lower.strip_suffix(".*").filter(|before| !before.contains('*')) {
        return Ok(Name::Pattern(format!("{before}.*")));
    }
    let rest = lower.strip_prefix("*.").unwrap_or(&lower);
    if rest.contains('*') {
        return Err("a `*` stands at the beginning of a name only".into());
    }
    let valid = |label: &str| {
        let known = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        !label.is_empty() && label.len() < 64 && known && !label.starts_with('-') && !label.ends_with('-')
    };
    match rest.trim_end_matches('.').split('.').all(valid) || rest.starts_with('[') {
        true => Ok(Name::Hosts(vec![lower.trim_end_matches('.').to_owned()])),
        // `!`, `${DOMAIN}` and the like are names that no client sends.
        false => Err("this is no name that a client can send".into()),
    }
}
