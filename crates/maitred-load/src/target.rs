//! Where the load goes, and whether it may.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

/// A server to put under load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Where to connect to.
    pub address: SocketAddr,
    /// Host and port as given, for the `Host` field.
    pub authority: String,
    /// The host by itself, without brackets: the name that TLS verifies.
    pub host: String,
    /// Whether TLS is spoken.
    pub is_tls: bool,
}

impl Target {
    /// Reads `http://HOST[:PORT]` or `https://HOST[:PORT]`. The host is `localhost` or a loopback or private address; anything else could be
    /// the server of another operator, and needs `is_own`.
    ///
    /// # Errors
    /// What is wrong with it, in words for the user.
    pub fn parse(url: &str, is_own: bool) -> Result<Target, String> {
        let (rest, is_tls) = match url.split_once("://") {
            Some(("http", rest)) => (rest, false),
            Some(("https", rest)) => (rest, true),
            _ => return Err(format!("{url:?} is no URL such as http://127.0.0.1:8080")),
        };
        let authority = match rest.split_once('/') {
            Some((authority, "")) => authority,
            Some(_) => return Err(format!("{url:?} has a path: the paths are those of the workload")),
            None => rest,
        };
        let port_default = if is_tls { 443 } else { 80 };
        let (host, port) = split_port(authority, port_default)
            .ok_or_else(|| format!("{authority:?} is no host and port"))?;
        let is_clean = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        if host.is_empty() || !authority.bytes().all(is_clean) {
            return Err(format!("{authority:?} is no host and port"));
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let literal = bare.parse::<IpAddr>();
        let address = match literal {
            Ok(ip) => SocketAddr::new(ip, port),
            Err(_) if host == "localhost" || is_own => resolve(host, port)?,
            Err(_) => {
                return Err(format!(
                    "{host:?} is a name, whose address may belong to others: give the address, or say --i-own-this-host"
                ));
            }
        };
        if address.ip().is_unspecified() || address.port() == 0 {
            return Err(format!("{authority:?} is no address to connect to"));
        }
        if !is_near(address.ip()) && !is_own {
            return Err(format!(
                "{address} is a public address: load on a server of others is an attack. \
                 If it is yours, say --i-own-this-host"
            ));
        }
        Ok(Target { address, authority: authority.to_owned(), host: bare.to_owned(), is_tls })
    }
}

fn split_port(authority: &str, default: u16) -> Option<(&str, u16)> {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            Some((host, port.parse().ok()?)).filter(|(host, _)| host.starts_with('[') || !host.contains(':'))
        }
        _ => Some((authority, default)),
    }
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let mut found = (host, port).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
    found.next().ok_or_else(|| format!("{host} has no address"))
}

/// Whether an address is this machine's or its network's: loopback, private (RFC 1918, RFC 4193), link-local.
fn is_near(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

impl Default for Target {
    fn default() -> Self {
        Target {
            address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 80),
            authority: "127.0.0.1".to_owned(),
            host: "127.0.0.1".to_owned(),
            is_tls: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_addresses_are_taken() {
        for (url, address) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://127.0.0.1:8080/", "127.0.0.1:8080"),
            ("http://127.0.0.1", "127.0.0.1:80"),
            ("http://[::1]:81", "[::1]:81"),
            ("http://[::1]", "[::1]:80"),
            ("https://127.0.0.1", "127.0.0.1:443"),
            ("https://[::1]:8443", "[::1]:8443"),
            ("http://10.1.2.3:8080", "10.1.2.3:8080"),
        ] {
            let target = Target::parse(url, false).unwrap();
            assert_eq!(target.address.to_string(), address);
        }
        assert!(Target::parse("http://localhost:1", false).unwrap().address.ip().is_loopback());
        let target = Target::parse("https://[::1]:81", false).unwrap();
        assert_eq!(
            (target.authority.as_str(), target.host.as_str(), target.is_tls),
            ("[::1]:81", "::1", true)
        );
        assert!(!Target::parse("http://127.0.0.1", false).unwrap().is_tls);
    }

    #[test]
    fn what_could_be_somebody_elses_needs_leave() {
        for url in [
            "http://192.0.2.1",
            "https://192.0.2.1",
            "http://[2001:db8::1]:80",
            "http://[::ffff:192.0.2.1]:80",
            "http://100.64.0.1",
        ] {
            assert!(Target::parse(url, false).unwrap_err().contains("--i-own-this-host"), "{url}");
            assert!(Target::parse(url, true).is_ok(), "{url}");
        }
        assert!(Target::parse("http://example.com", false).unwrap_err().contains("is a name"));
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for url in [
            "127.0.0.1:80",
            "https://",
            "ftp://127.0.0.1",
            "http://",
            "http://127.0.0.1:port",
            "http://127.0.0.1:99999",
            "http://127.0.0.1/path",
            "http://user@127.0.0.1",
            "http://127.0.0.1\r\nX: y",
            "http://0.0.0.0:80",
            "http://127.0.0.1:0",
            "http://::1:80",
        ] {
            assert!(Target::parse(url, true).is_err(), "{url}");
        }
    }
}
