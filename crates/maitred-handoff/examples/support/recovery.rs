//! The recovery socket: where a worker gets another channel when the server's worker process has died (PROTOCOL.md, section 8).

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use maitred_handoff::RECOVERY_VARIABLE;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// How long to wait for another channel.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// The socket, if the server has passed one.
pub(crate) fn passed() -> io::Result<Option<OwnedFd>> {
    let number = std::env::var(RECOVERY_VARIABLE).ok().and_then(|number| number.parse().ok());
    number.map(maitred_sys::inherit::take).transpose()
}

/// The next channel; `None` at the end.
///
/// # Errors
/// What recvmsg(2) says: `WouldBlock`, if the socket does not block.
pub(crate) fn next_channel(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut byte = [0];
    loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => break,
        }
    }
    let mut passed = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    Ok(passed.next().and_then(|mut rights| rights.next()))
}
