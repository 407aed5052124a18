//! `[[listen]]`: where the server listens.

use std::fmt;
use std::net::{AddrParseError, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::values::Network;

/// `[[listen]]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listen {
    /// `name`, as that of a pool ([`Pool::is_name`](super::Pool::is_name)); all addresses of an entry have the same.
    pub name: Option<String>,
    /// `address`; port 0 lets the kernel choose.
    pub address: Address,
    /// `unix_mode`, `unix_user`, `unix_group`: of the file of a Unix socket.
    pub unix_file: UnixFile,
    /// `buckets`; one for a Unix socket.
    pub buckets: Buckets,
    /// `backlog`: length of each bucket's accept queue, in connections.
    pub backlog: u32,
    /// `steer_by_cpu`: attach the classic-BPF program that picks the bucket of the CPU that received the SYN.
    pub steer_by_cpu: bool,
    /// `defer_accept`: let the kernel hold a new connection until its first bytes are there (tcp(7)).
    pub defer_accept: bool,
    /// `proxy_protocol`: the peers that may connect and have to send a PROXY header first; `None` if it is off. Never empty.
    pub proxy_protocol_from: Option<Vec<Network>>,
    /// `tls`; `None` is cleartext.
    pub tls: Option<Tls>,
    /// `http2`: by ALPN over TLS, and by prior knowledge in cleartext (RFC 9113 sections 3.2 and 3.3).
    pub http2: bool,
    /// `redirect_http`: answer everything with a redirect to `https`. Only of a cleartext listener, and only if there is
    /// one with TLS.
    pub redirect_http: bool,
    /// `redirect_status`: the status of these redirects.
    pub redirect_status: u16,
    /// `http3`: QUIC at the UDP port of the same number. Only of an IP address with TLS 1.3.
    pub http3: bool,
    /// `misdirected`: what is asked over TLS for a site that answers elsewhere only.
    pub misdirected: Misdirected,
}

/// `misdirected = "421" | "default_site"`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Misdirected {
    /// 421 (Misdirected Request, RFC 9110 section 15.5.20).
    #[default]
    Refused,
    /// The default site of the listener answers, as it does in cleartext.
    DefaultSite,
}

/// Who may connect to a Unix socket: connecting takes the permission to write its file (unix(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnixFile {
    /// Permissions, at most 0o777.
    pub mode: u32,
    /// The number of the owner; `None` is the master's account.
    pub owner: Option<u32>,
    /// The number of the group; `None` is the master's, or that of the directory if this has the bit for that.
    pub group: Option<u32>,
}

impl Default for UnixFile {
    fn default() -> UnixFile {
        UnixFile { mode: 0o660, owner: None, group: None }
    }
}

/// `tls = { … }` of a listener. At least one site has a certificate then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tls {
    /// `versions`: never empty, ascending.
    pub versions: Vec<TlsVersion>,
    /// `ciphers`: some of [`CIPHERS`](maitred_base::pki::choice::CIPHERS), at least one for each of the versions.
    pub ciphers: Vec<String>,
    /// `curves`: some of [`CURVES`](maitred_base::pki::choice::CURVES), likewise.
    pub curves: Vec<String>,
    /// `client_auth`, with `client_ca`.
    pub client_auth: ClientAuth,
    /// `client_crl`: revocation lists; only with `client_auth`.
    pub client_crl: Option<PathBuf>,
    /// `early_data`: whether a resumed session may bring a request in its first flight (RFC 8446 section 2.3).
    pub early_data: bool,
    /// `tickets`: whether sessions can be resumed at all.
    pub tickets: bool,
    /// `keylog`: where session secrets are written, for debugging.
    pub keylog: Option<PathBuf>,
    /// `ktls`: whether the kernel encrypts where it can. `"auto"` is off until it is known where that is cheaper.
    pub ktls: bool,
}

impl Default for Tls {
    fn default() -> Tls {
        Tls {
            versions: vec![TlsVersion::V12, TlsVersion::V13],
            ciphers: maitred_base::pki::choice::CIPHERS.iter().map(ToString::to_string).collect(),
            curves: maitred_base::pki::choice::CURVES.iter().map(ToString::to_string).collect(),
            client_auth: ClientAuth::Off,
            client_crl: None,
            early_data: false,
            tickets: true,
            keylog: None,
            ktls: false,
        }
    }
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TlsVersion {
    /// RFC 5246, with what RFC 9325 leaves of it.
    V12,
    /// RFC 8446.
    V13,
}

/// Whether clients show certificates, and the file of the authorities that may have signed them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientAuth {
    /// Clients are not asked.
    Off,
    /// Clients are asked; one that shows none is taken all the same.
    Optional(PathBuf),
    /// Clients are asked; one that shows none is refused.
    Required(PathBuf),
}

/// `buckets = "auto" | "per-thread" | N`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Buckets {
    /// max(1, threads / 8), as in the 2014 nginx patch.
    Auto,
    /// A bucket for each thread.
    PerThread,
    /// As many as said; 1 to [`Buckets::MAX`].
    Number(u16),
}

impl Buckets {
    /// The most listening sockets of one address: one per thread of the largest machine that is planned for.
    pub(crate) const MAX: u16 = 256;

    /// How many listening sockets an address gets for a number of threads.
    pub fn count(self, threads: u16, reuseport: bool) -> u16 {
        if !reuseport {
            return 1;
        }
        match self {
            Buckets::Auto => (threads / 8).max(1),
            Buckets::PerThread => threads.clamp(1, Buckets::MAX),
            Buckets::Number(number) => number.clamp(1, Buckets::MAX),
        }
    }
}

/// An address to listen on. The text form is `127.0.0.1:80` or `unix:/run/x.sock`, also where it is serialised.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Address {
    /// An IP address with a port.
    Inet(SocketAddr),
    /// The path of a Unix socket, absolute, in UTF-8.
    Unix(PathBuf),
}

impl Address {
    /// What the text form of a Unix socket begins with.
    pub(crate) const UNIX: &'static str = "unix:";

    /// Bytes of the longest path that a socket can be bound to: `sun_path` has 108, the last of which is 0 (unix(7)).
    pub const PATH_BYTES_MAX: usize = 107;

    /// The IP address with its port, if it is one.
    pub fn inet(&self) -> Option<SocketAddr> {
        match self {
            Address::Inet(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }

    /// The path of the Unix socket, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Address::Inet(_) => None,
            Address::Unix(path) => Some(path),
        }
    }

    /// The port, of an IP address.
    pub fn port(&self) -> Option<u16> {
        self.inet().map(|address| address.port())
    }

    /// Whether two sockets can have it: the kernel chooses a port for each.
    pub fn is_any_port(&self) -> bool {
        self.port() == Some(0)
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address::Inet(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Inet(address) => address.fmt(out),
            Address::Unix(path) => write!(out, "{}{}", Address::UNIX, path.display()),
        }
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

impl FromStr for Address {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Address, AddrParseError> {
        match text.strip_prefix(Address::UNIX) {
            Some(path) => Ok(Address::Unix(path.into())),
            None => text.parse().map(Address::Inet),
        }
    }
}

impl TryFrom<String> for Address {
    type Error = AddrParseError;

    fn try_from(text: String) -> Result<Address, AddrParseError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_and_read_as_text() {
        for text in ["127.0.0.1:80", "[::1]:0", "unix:/run/x.sock"] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            let json = serde_json::to_string(&address).unwrap();
            assert_eq!(json, format!("{text:?}"), "as a socket address was, which other executables read");
            assert_eq!(serde_json::from_str::<Address>(&json).unwrap(), address);
        }
        assert!("/run/x.sock".parse::<Address>().is_err());
    }
}
