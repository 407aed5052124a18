//! Listening sockets: all buckets of each address, bound in a fixed order, and kept as long as a configuration has them.
//!
//! - An address that the configuration in force already has keeps its sockets, whatever else changes: no queued connection is
//!   reset by a reload. More buckets are added to it; fewer are not taken away, because connections may be queued in them.
//! - Sockets that a service manager passed are used as they are, and their number is the number of buckets.
//! - An address that another process listens on is an error. `SO_REUSEPORT` alone would share it silently with every
//!   process of the same user.
//! - `[::]` takes IPv4 connections too, unless the configuration has an IPv4 address with the same port; every other
//!   IPv6 address is for IPv6 only.
//!
//! When a reload adds buckets to an address in use and is then refused, connections that the kernel has put into the added
//! buckets meanwhile are reset with them. Nothing else loses a queued connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use maitred_sys::sockopt;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt as option};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities};

use super::unix_sockets::{self, SocketFile};
use maitred_config::{Address, Listen};
use maitred_control::affinity::steering;
use maitred_control::affinity::topology::Cpu;

/// How long the kernel may hold a new connection back for `defer_accept`.
const DEFER_ACCEPT: Duration = Duration::from_secs(1);

/// All listening sockets of one address.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// The address as it was asked for.
    pub asked: Address,
    /// Where the sockets are bound: `asked`, with the kernel's choice of port if that was 0.
    pub local: Address,
    /// Sockets, one per bucket, in the order in which they were bound. Never empty.
    pub buckets: Vec<Rc<OwnedFd>>,
    /// Whether a service manager passed them.
    pub inherited: bool,
    /// The file of a Unix socket that this server has made.
    pub file: Option<Rc<SocketFile>>,
}

/// Finds out on real sockets whether `SO_REUSEPORT` lets two of them share an address.
pub(crate) fn detect_reuseport() -> bool {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let share = || -> io::Result<()> {
        let first = socket(any)?;
        option::set_socket_reuseport(&first, true)?;
        rustix::net::bind(&first, &any)?;
        let second = socket(any)?;
        option::set_socket_reuseport(&second, true)?;
        rustix::net::bind(&second, &local_address(&first)?)?;
        Ok(())
    };
    share().is_ok()
}

/// The sockets of every listen entry, in its order: those of `present` where the address is there, new ones otherwise.
/// `threads` is the number of event-loop threads.
///
/// # Errors
/// A text for the operator that names the address. What was bound before the error is closed again.
pub(crate) fn bind_all(
    listens: &[Listen],
    threads: u16,
    reuseport: bool,
    present: &[Group],
) -> Result<Vec<Group>, String> {
    let mut free: Vec<&Group> = present.iter().collect();
    let mut bound: Vec<Group> = Vec::with_capacity(listens.len());
    for listen in listens {
        let wanted = usize::from(listen.buckets.count(threads, reuseport));
        let kept = free.iter().position(|group| group.asked == listen.address);
        let group = match kept {
            Some(index) => extended(free.swap_remove(index), listen, wanted, listens)?,
            None => match &listen.address {
                Address::Unix(path) => bind_unix(listen, path)?,
                Address::Inet(at) => {
                    let others = present.iter().chain(&bound);
                    bind_group(listen, *at, wanted, reuseport, listens)
                        .map_err(|error| explain(&listen.address, &error, others))?
                }
            },
        };
        bound.push(group);
    }
    Ok(bound)
}

/// Whether this process could bind the address, if nothing else uses it: the machine has it, and the port is not for others.
/// Binds nothing but a port that the kernel chooses, for an instant: the port itself may be about to be bound by a server that
/// starts.
///
/// # Errors
/// What [`bind_all`] would say.
pub(crate) fn judge(address: &Address, at: SocketAddr) -> Result<(), String> {
    let any_port = SocketAddr::new(at.ip(), 0);
    let bound = socket(any_port).and_then(|socket| Ok(rustix::net::bind(&socket, &any_port)?));
    let judged = match bound {
        Ok(()) if is_privileged(at.port()) && !may_bind_privileged() => Err(Errno::ACCESS.into()),
        other => other,
    };
    judged.map_err(|error| explain(address, &error, [].iter()))
}

/// Whether a port takes CAP_NET_BIND_SERVICE (ip(7)).
fn is_privileged(port: u16) -> bool {
    let first_free = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first_free = first_free.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1024);
    port != 0 && u32::from(port) < first_free
}

fn may_bind_privileged() -> bool {
    let has = |sets: CapabilitySets| sets.effective.contains(CapabilitySet::NET_BIND_SERVICE);
    capabilities(None).map_or_else(|_| rustix::process::geteuid().is_root(), has)
}

/// A group that stays, with buckets added if it has too few.
fn extended(group: &Group, listen: &Listen, wanted: usize, listens: &[Listen]) -> Result<Group, String> {
    let mut group = group.clone();
    let Address::Inet(local) = group.local else { return Ok(group) };
    while group.buckets.len() < wanted && !group.inherited {
        let add = || {
            let socket = bind_one(listen, local, true, listens)?;
            rustix::net::listen(&socket, backlog(listen))?;
            Ok(socket)
        };
        let socket = add().map_err(|error: io::Error| explain(&listen.address, &error, [].iter()))?;
        group.buckets.push(Rc::new(socket));
    }
    Ok(group)
}

fn bind_unix(listen: &Listen, path: &Path) -> Result<Group, String> {
    let (socket, file) = unix_sockets::bind(path, &listen.unix_file, backlog(listen))
        .map_err(|why| format!("address {}: {why}", listen.address))?;
    let (asked, local) = (listen.address.clone(), listen.address.clone());
    Ok(Group { asked, local, buckets: vec![Rc::new(socket)], inherited: false, file: Some(Rc::new(file)) })
}

fn bind_group(
    listen: &Listen,
    at: SocketAddr,
    wanted: usize,
    reuseport: bool,
    listens: &[Listen],
) -> io::Result<Group> {
    if at.port() != 0 {
        // Without SO_REUSEPORT, so that another listener on the address is noticed; closed again at once.
        drop(bind_one(listen, at, false, listens)?);
    }
    let first = bind_one(listen, at, reuseport, listens)?;
    let local = local_address(&first)?;
    let mut buckets = vec![first];
    while buckets.len() < wanted {
        buckets.push(bind_one(listen, local, reuseport, listens)?);
    }
    // The kernel numbers the buckets in the order in which they begin to listen.
    for bucket in &buckets {
        rustix::net::listen(bucket, backlog(listen))?;
    }
    let buckets = buckets.into_iter().map(Rc::new).collect();
    Ok(Group { asked: at.into(), local: local.into(), buckets, inherited: false, file: None })
}

fn bind_one(listen: &Listen, at: SocketAddr, reuseport: bool, listens: &[Listen]) -> io::Result<OwnedFd> {
    let socket = socket(at)?;
    option::set_socket_reuseaddr(&socket, true)?;
    if reuseport {
        option::set_socket_reuseport(&socket, true)?;
    }
    if at.is_ipv6() {
        option::set_ipv6_v6only(&socket, is_only_ipv6(listen, at, listens))?;
    }
    // Accepted sockets inherit it.
    option::set_tcp_nodelay(&socket, true)?;
    if listen.defer_accept {
        sockopt::defer_accept(&socket, DEFER_ACCEPT)?;
    }
    rustix::net::bind(&socket, &at)?;
    Ok(socket)
}

/// Whether an address of IPv6 takes no connections of IPv4.
pub(super) fn is_only_ipv6(listen: &Listen, at: SocketAddr, listens: &[Listen]) -> bool {
    let same_port = |other: &Listen| {
        let other = other.address.inet();
        other.is_some_and(|other| other.is_ipv4() && Some(other.port()) == listen.address.port())
    };
    !at.ip().is_unspecified() || listens.iter().any(same_port)
}

fn socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
}

fn backlog(listen: &Listen) -> i32 {
    i32::try_from(listen.backlog).unwrap_or(i32::MAX)
}

fn local_address(socket: &OwnedFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(rustix::net::getsockname(socket)?)?)
}

/// Sets what a configuration can change about sockets that stay: backlog, held-back connections, steering. Failures are
/// returned as texts for the log: the sockets work without. `homes` and `online` are what [`steering::table`] needs.
pub(crate) fn apply(group: &Group, listen: &Listen, homes: &[Option<u16>], online: &[Cpu]) -> Vec<String> {
    let mut failures = Vec::new();
    let mut note = |what: &str, result: io::Result<()>| {
        if let Err(error) = result {
            failures.push(format!("address {}: {what}: {error}", group.asked));
        }
    };
    if !group.inherited {
        for bucket in &group.buckets {
            note("backlog", rustix::net::listen(bucket, backlog(listen)).map_err(Into::into));
            if group.local.inet().is_some() {
                let hold = if listen.defer_accept { DEFER_ACCEPT } else { Duration::ZERO };
                note("defer_accept", sockopt::defer_accept(bucket, hold));
            }
        }
        if let Some(file) = &group.file {
            note("its file", file.give(&listen.unix_file).map_err(io::Error::other));
        }
    }
    if let (Some(first), Ok(buckets), true) =
        (group.buckets.first(), u16::try_from(group.buckets.len()), group.buckets.len() > 1)
    {
        if listen.steer_by_cpu {
            let table = steering::table(homes, buckets, online);
            note("steer_by_cpu", sockopt::steer_by_cpu(first, &table, buckets));
        } else {
            note("steer_by_cpu", sockopt::steer_by_hash(first));
        }
    }
    failures
}

/// Sorts what a service manager passed: listeners by address.
///
/// # Errors
/// A text that names what cannot be used.
pub(crate) fn sort_inherited(passed: Vec<(OwnedFd, String)>) -> Result<Vec<Group>, String> {
    let mut groups: Vec<Group> = Vec::new();
    for (socket, name) in passed {
        if option::socket_type(&socket).is_ok_and(|kind| kind == SocketType::DGRAM) {
            return Err(format!(
                "the socket {name:?} from the service manager is one for datagrams; Maitred binds those by itself: take \
                 `ListenDatagram` out of its unit"
            ));
        }
        let listening = option::socket_acceptconn(&socket)
            .map_err(|error| format!("the socket {name:?} from the service manager: {error}"))?;
        if !listening {
            return Err(format!("the socket {name:?} from the service manager does not listen"));
        }
        let prepared = rustix::io::ioctl_fionbio(&socket, true);
        prepared.map_err(|error| format!("the socket {name:?} from the service manager: {error}"))?;
        let local = match local_address(&socket) {
            Ok(local) => {
                // A failure costs latency, nothing else.
                let _ = option::set_tcp_nodelay(&socket, true);
                Address::Inet(local)
            }
            Err(_) => {
                let _ = sockopt::refuse_descriptors(&socket);
                let path = unix_sockets::path_of(&socket)
                    .map_err(|why| format!("the socket {name:?} from the service manager: {why}"))?;
                Address::Unix(path)
            }
        };
        let socket = Rc::new(socket);
        match groups.iter_mut().find(|group| group.local == local) {
            Some(group) => group.buckets.push(socket),
            None => {
                let asked = local.clone();
                groups.push(Group { asked, local, buckets: vec![socket], inherited: true, file: None });
            }
        }
    }
    Ok(groups)
}

fn explain<'a>(address: &Address, error: &io::Error, others: impl Iterator<Item = &'a Group>) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ADDRINUSE) => match others.into_iter().find(|group| overlap(&group.local, address)) {
            Some(ours) => format!(
                "address {address} overlaps with {}, which this server listens on; stop it and start it to change that",
                ours.local
            ),
            None => format!(
                "address {address} is in use by another process; stop that one, or choose another address"
            ),
        },
        Some(Errno::ACCESS) => format!(
            "address {address}: no permission; ports below 1024 need root, CAP_NET_BIND_SERVICE, or a socket from the service manager"
        ),
        Some(Errno::ADDRNOTAVAIL) => format!("address {address}: this machine does not have it"),
        _ => format!("address {address}: {error}"),
    }
}

fn overlap(a: &Address, b: &Address) -> bool {
    let (Address::Inet(a), Address::Inet(b)) = (a, b) else { return a == b };
    let any = |ip: IpAddr| ip.is_unspecified();
    a.port() == b.port() && (a.ip() == b.ip() || any(a.ip()) || any(b.ip()))
}

/// Where a person reaches an address: a wildcard is shown as loopback.
pub(crate) fn reachable(local: &Address) -> Address {
    let Address::Inet(local) = local else { return local.clone() };
    let ip = match local.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, local.port()).into()
}

#[cfg(test)]
mod tests;
