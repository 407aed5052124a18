//! TLS sessions whose records the kernel encrypts ([`ktls`](maitred_tls::ktls)).
//!
//! A session begins with rustls. When the first long file is to be sent, or the first response of an application process, its
//! keys go to the kernel, and stay there. If the kernel does not take them, nothing has changed, and nothing is tried again for
//! this session.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd};

use maitred_sys::ktls;
use rustix::io::Errno;

use super::Clients;
use super::tls_session::flush;
use crate::connection::tls::{Record, Sender, TlsSession};
use crate::keys::{ConnKey, TlsKey};
use maitred_tls::ktls::transmit::RECORDS_MAX;

/// Bytes of a file that are worth giving keys to the kernel: two system calls for each connection. Not measured on real hardware.
pub(crate) const BY_KERNEL_BYTES_MIN: u64 = 64 * 1024;

/// Gives the keys of a session to the kernel.
fn give(secure: &mut TlsSession, socket: BorrowedFd<'_>) -> std::io::Result<bool> {
    let Sender::Noted(Some(transmit)) = &secure.sender else { return Ok(false) };
    ktls::attach(socket)?;
    ktls::set_keys(socket, &transmit.keys())?;
    transmit.leave_plain();
    secure.sender = Sender::Kernel { record: Record::default(), next: VecDeque::new() };
    Ok(true)
}

/// Whether so many records were sent with the kernel's keys that there should be no more requests on them.
pub(super) fn is_worn_out(socket: BorrowedFd<'_>) -> bool {
    ktls::sent_records(socket).is_ok_and(|records| records >= RECORDS_MAX)
}

impl Clients {
    /// Whether the kernel encrypts what this session sends, from now on at the latest.
    ///
    /// # Errors
    /// As sending: what was encrypted before has to leave first.
    pub(crate) fn send_by_kernel(&mut self, index: ConnKey, session: TlsKey) -> Result<bool, Errno> {
        let connection = self.connections.get(index).ok_or(Errno::CONNRESET)?;
        let secure = self.tls_sessions.get_mut(session).ok_or(Errno::CONNRESET)?;
        let socket = connection.socket.as_ref().ok_or(Errno::CONNRESET)?.as_fd();
        let ready = match secure.sender {
            Sender::Session => return Ok(false),
            Sender::Noted(_) => secure.settled && !secure.closed,
            Sender::Kernel { .. } => true,
        };
        let sent = flush(secure, socket)?;
        if !ready || !sent {
            return if secure.is_by_kernel() { Err(Errno::AGAIN) } else { Ok(false) };
        }
        if secure.is_by_kernel() {
            return Ok(true);
        }
        let given = give(secure, socket);
        if !matches!(given, Ok(true)) {
            // Also a session of TLS 1.2.
            secure.sender = Sender::Session;
        }
        match given {
            Ok(given) => {
                self.row.tls_by_kernel.add(u64::from(given));
                Ok(given)
            }
            Err(error) => {
                self.row.tls_kernel_refused.add(1);
                self.log_limited(|| {
                    tracing::info!("the kernel does not encrypt TLS, and this process goes on to: {error}");
                });
                Ok(false)
            }
        }
    }
}
