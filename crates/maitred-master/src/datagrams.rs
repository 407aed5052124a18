//! UDP sockets for QUIC: a group for each listen entry with `http3`, at the address and port of its TCP sockets.
//!
//! - A group has one socket for each event-loop thread, bound in a fixed order. The place of a socket in that order is part of
//!   the connection ids of its thread ([`maitred_tls::quic::ids`]), by which the kernel chooses among them. So a group stays what
//!   it is for as long as configurations have its address with `http3`, over reloads and upgrades, also when the number of
//!   threads changes: the kernel moves the last socket of a group into the place of one that is closed.
//! - A port that another process has is an error, as for TCP.
//! - A service manager's UDP sockets are not used: it would not bind as many, nor in an order that is known here.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use maitred_sys::sockopt;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt as option};

use super::sockets::{self, Group};
use maitred_config::Listen;
use maitred_tls::quic::ids::Mask;

/// The most sockets of a group: the number of one is a byte of an id.
pub(crate) const SOCKETS_MAX: u16 = 255;

/// How many bytes each socket may hold for a thread that is busy: 20 ms at 100 MB a second. The system's bound
/// (`net.core.rmem_max`), which is often a tenth of it, holds for who is not root.
const RECEIVE_BYTES: usize = 2 * 1024 * 1024;

/// The groups of all listen entries, in their order; `None` for one without `http3`. `bound` are their TCP sockets, `present` the
/// groups that are there.
///
/// # Errors
/// A text for the operator that names the address. What was bound before the error is closed again.
pub(crate) fn bind_all<'a>(
    listens: &[Listen],
    bound: &[Group],
    threads: u16,
    (reuseport, mask): (bool, Mask),
    present: impl Iterator<Item = &'a Group> + Clone,
) -> Result<Vec<Option<Group>>, String> {
    let wanted = if reuseport { threads.clamp(1, SOCKETS_MAX) } else { 1 };
    let group = |(listen, tcp): (&Listen, &Group)| {
        let Some(at) = tcp.local.inet().filter(|_| listen.http3) else { return Ok(None) };
        if let Some(kept) = present.clone().find(|group| group.local == tcp.local) {
            return Ok(Some(kept.clone()));
        }
        let only_ipv6 = sockets::is_only_ipv6(listen, at, listens);
        let sockets = bind_group(at, only_ipv6, (wanted, reuseport)).map_err(|error| explain(at, &error))?;
        if let (Some(first), true) = (sockets.first(), reuseport)
            && let Err(error) = sockopt::steer_datagrams(first, mask.constants(), wanted)
        {
            // Connections last only as long as their clients keep their addresses: the kernel chooses by these.
            tracing::warn!(%error, "address {at}: datagrams of QUIC cannot be steered by their connection ids");
        }
        let buckets = sockets.into_iter().map(Rc::new).collect();
        let (asked, local) = (tcp.asked.clone(), tcp.local.clone());
        Ok(Some(Group { asked, local, buckets, inherited: false, file: None }))
    };
    listens.iter().zip(bound).map(group).collect()
}

fn bind_group(at: SocketAddr, only_ipv6: bool, (wanted, reuseport): (u16, bool)) -> io::Result<Vec<OwnedFd>> {
    // Without SO_REUSEPORT, so that another socket on the port is noticed; closed again at once.
    drop(bind_one(at, only_ipv6, false)?);
    (0..wanted).map(|_| bind_one(at, only_ipv6, reuseport)).collect()
}

/// Never with `SO_REUSEADDR`, with which any two UDP sockets of one user share a port.
fn bind_one(at: SocketAddr, only_ipv6: bool, reuseport: bool) -> io::Result<OwnedFd> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    if reuseport {
        option::set_socket_reuseport(&socket, true)?;
    }
    if at.is_ipv6() {
        option::set_ipv6_v6only(&socket, only_ipv6)?;
    }
    // A smaller buffer costs datagrams when a thread is late, and nothing else. Over the bound it is for who may.
    let _ = option::set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES)
        .or_else(|_| option::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES));
    rustix::net::bind(&socket, &at)?;
    Ok(socket)
}

fn explain(at: SocketAddr, error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ADDRINUSE) => format!(
            "UDP port of address {at}, for `http3`, is in use by another process, or still by connections of this server \
             from before `http3` was taken out; stop that one, wait for these, or choose another address"
        ),
        Some(Errno::ACCESS) => format!(
            "UDP port of address {at}, for `http3`: no permission; ports below 1024 need root or CAP_NET_BIND_SERVICE"
        ),
        _ => format!("UDP port of address {at}, for `http3`: {error}"),
    }
}

#[cfg(test)]
mod tests;
