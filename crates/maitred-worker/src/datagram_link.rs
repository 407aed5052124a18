//! Datagrams that one worker process passes to an earlier one, of whose connections they are, over the socket by which that one
//! passes its idle connections on.
//!
//! A single process reads the UDP sockets. The next one says over the link when it begins ([`Word::TakesOver`]); the one before
//! stops then, and gets what is for its connections ([`Word::Datagrams`]). The earlier process goes on sending by the sockets
//! themselves. What finds no room in the link is lost, as it may be on any way.
//!
//! ```text
//! byte   0         1      2        3     4 … 21   22 … 39   40       41 … 56       57 58    59 …
//!        version   kind   socket   ECN   local    remote    has-IP   destination   stride   datagrams
//! ```
//!
//! Another version of the executable may be at the other end: a change needs another version here.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use quinn_proto::EcnCodepoint;
use rustix::net::{SendFlags, send};

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 59;

/// Bytes of the longest word: datagrams that the kernel has put together.
pub(crate) const WORD_BYTES_MAX: usize = HEADER_BYTES + 65_536;

/// Datagrams from one client, of one size but for the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Batch<'b> {
    /// Where the sockets are bound that it has come by.
    pub(crate) local: SocketAddr,
    /// The number of the socket in their group.
    pub(crate) socket: u8,
    /// The client.
    pub(crate) remote: SocketAddr,
    /// The address that it has sent them to.
    pub(crate) destination: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    /// Bytes of each.
    pub(crate) stride: usize,
    pub(crate) bytes: &'b [u8],
}

/// What is said over a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word<'b> {
    /// The later process reads the sockets of this address from now on.
    TakesOver(SocketAddr),
    /// Datagrams for the earlier process.
    Datagrams(Batch<'b>),
}

impl Batch<'_> {
    /// The client as a socket has it that is bound there: at one of IPv6, those of IPv4 are mapped. An address in another form
    /// would be another address for its connection.
    pub(crate) fn seen_remote(&self) -> SocketAddr {
        match (self.local, self.remote.ip()) {
            (SocketAddr::V6(_), IpAddr::V4(ip)) => {
                SocketAddr::new(ip.to_ipv6_mapped().into(), self.remote.port())
            }
            _ => self.remote,
        }
    }
}

fn put_address(address: SocketAddr, out: &mut Vec<u8>) {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    out.extend_from_slice(&ip.octets());
    out.extend_from_slice(&address.port().to_be_bytes());
}

fn address(bytes: &[u8; 18]) -> SocketAddr {
    let [ip @ .., high, low] = bytes;
    (Ipv6Addr::from(*ip).to_canonical(), u16::from_be_bytes([*high, *low])).into()
}

impl<'b> Word<'b> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Word::TakesOver(local) => {
                out.extend_from_slice(&[VERSION, 0, 0, 0]);
                put_address(*local, out);
            }
            Word::Datagrams(batch) => {
                let ecn = batch.ecn.map_or(0, |ecn| ecn as u8);
                out.extend_from_slice(&[VERSION, 1, batch.socket, ecn]);
                put_address(batch.local, out);
                put_address(batch.remote, out);
                out.push(u8::from(batch.destination.is_some()));
                let ip = match batch.destination {
                    Some(IpAddr::V4(ip)) => ip.to_ipv6_mapped(),
                    Some(IpAddr::V6(ip)) => ip,
                    None => Ipv6Addr::UNSPECIFIED,
                };
                out.extend_from_slice(&ip.octets());
                out.extend_from_slice(&(u16::try_from(batch.stride).unwrap_or(u16::MAX)).to_be_bytes());
                out.extend_from_slice(batch.bytes);
            }
        }
    }

    /// What has come. `None` for what another version may mean.
    pub(crate) fn read(bytes: &'b [u8]) -> Option<Word<'b>> {
        let ([version, kind, socket, ecn], rest) = bytes.split_first_chunk::<4>()?;
        let (local, rest) = rest.split_first_chunk::<18>()?;
        if *version != VERSION {
            return None;
        }
        let local = address(local);
        if *kind == 0 {
            return Some(Word::TakesOver(local));
        }
        let (remote, rest) = rest.split_first_chunk::<18>()?;
        let ([has_ip], rest) = rest.split_first_chunk::<1>()?;
        let (ip, rest) = rest.split_first_chunk::<16>()?;
        let (stride, bytes) = rest.split_first_chunk::<2>()?;
        let stride = usize::from(u16::from_be_bytes(*stride));
        let destination = (*has_ip != 0).then(|| Ipv6Addr::from(*ip).to_canonical());
        let ecn = EcnCodepoint::from_bits(*ecn);
        let batch =
            Batch { local, socket: *socket, remote: address(remote), destination, ecn, stride, bytes };
        (*kind == 1 && stride > 0 && !bytes.is_empty()).then_some(Word::Datagrams(batch))
    }

    /// Says it. False: there was no room, or the other end has gone.
    pub(crate) fn say(&self, link: BorrowedFd<'_>) -> bool {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        self.write(&mut out);
        send(link, &out, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_the_same_for_both_processes() {
        let seen = |local: &str, remote: &str| {
            let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
            let batch =
                Batch { local, socket: 0, remote, destination: None, ecn: None, stride: 1, bytes: b"d" };
            let mut bytes = Vec::new();
            Word::Datagrams(batch).write(&mut bytes);
            match Word::read(&bytes) {
                Some(Word::Datagrams(batch)) => batch.seen_remote().to_string(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(seen("127.0.0.1:443", "192.0.2.1:5000"), "192.0.2.1:5000");
        assert_eq!(seen("[::]:443", "[::ffff:192.0.2.1]:5000"), "[::ffff:192.0.2.1]:5000");
        assert_eq!(seen("[::]:443", "[2001:db8::1]:5000"), "[2001:db8::1]:5000");
    }

    #[test]
    fn words_come_back() {
        let batch = Batch {
            local: "0.0.0.0:443".parse().unwrap(),
            socket: 7,
            remote: "[2001:db8::1]:5000".parse().unwrap(),
            destination: "192.0.2.1".parse().ok(),
            ecn: Some(EcnCodepoint::Ce),
            stride: 1200,
            bytes: b"datagram",
        };
        let others = [Batch { destination: None, ecn: None, ..batch }, batch];
        let words = others.map(Word::Datagrams).into_iter().chain([Word::TakesOver(batch.local)]);
        for word in words {
            let mut bytes = Vec::new();
            word.write(&mut bytes);
            assert_eq!(Word::read(&bytes), Some(word));
            bytes[0] = VERSION + 1;
            assert_eq!(Word::read(&bytes), None, "another version");
        }
        let mut bytes = Vec::new();
        Word::Datagrams(batch).write(&mut bytes);
        assert_eq!(bytes.len(), HEADER_BYTES + batch.bytes.len());
        (0..=HEADER_BYTES).for_each(|end| assert_eq!(Word::read(&bytes[..end]), None, "{end}"));
    }
}
