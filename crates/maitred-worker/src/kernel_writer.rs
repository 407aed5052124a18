//! Gives the kernel the records of a session that it encrypts.
//!
//! rustls writes whole records, header included, whose content is not encrypted
//! ([`Transmit::leave_plain`](maitred_tls::ktls::transmit::Transmit::leave_plain)). The kernel wants the content and its type.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use maitred_sys::ktls;
use rustix::net::{SendFlags, send};

use crate::connection::tls::Record;
use maitred_tls::ktls::transmit::Transmit;

/// Bytes of a record's header: type, version, length (RFC 8446 section 5.1).
const HEADER_BYTES: usize = 5;
/// `handshake`
const HANDSHAKE: u8 = 22;
/// `application_data`
const CONTENT: u8 = 23;
/// `key_update`, the type of the message at the front of a handshake record (RFC 8446 section 4).
const KEY_UPDATE: u8 = 24;

/// A socket whose records the kernel encrypts.
#[derive(Debug)]
pub(super) struct KernelWriter<'a> {
    pub(super) socket: BorrowedFd<'a>,
    pub(super) record: &'a mut Record,
    /// The keys that follow key updates.
    pub(super) next: &'a mut VecDeque<Arc<Transmit>>,
}

/// The record at the front of these bytes, and how much of them is its header.
fn front(bytes: &[u8], before: Record) -> io::Result<(Record, usize)> {
    if before.left > 0 {
        return Ok((before, 0));
    }
    let [kind, _, _, high, low, content @ ..] = bytes else { return Err(io::ErrorKind::InvalidData.into()) };
    let last = (*kind, content.first()) == (HANDSHAKE, Some(&KEY_UPDATE));
    Ok((Record { kind: *kind, left: usize::from(u16::from_be_bytes([*high, *low])), last }, HEADER_BYTES))
}

impl io::Write for KernelWriter<'_> {
    /// Each call has at most one record, as rustls keeps them apart.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let (mut record, header) = front(bytes, *self.record)?;
        let content = bytes.get(header..).unwrap_or_default();
        let content = content.get(..record.left).unwrap_or(content);
        let sent = match record.kind {
            _ if content.is_empty() => 0,
            CONTENT => send(self.socket, content, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?,
            kind => ktls::send_record(self.socket, kind, content)?,
        };
        record.left -= sent;
        if (record.left, record.last) == (0, true) {
            let next = self.next.pop_front().ok_or(io::ErrorKind::InvalidData)?;
            ktls::set_keys(self.socket, &next.keys())?;
        }
        *self.record = record;
        Ok(header + sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn content_is_given_without_its_header_however_it_comes() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (mut record, mut next) = (Record::default(), VecDeque::new());
        let mut writer = KernelWriter { socket: ours.as_fd(), record: &mut record, next: &mut next };
        assert_eq!(writer.write(b"\x17\x03\x03\x00\x05con").unwrap(), 8);
        assert_eq!(writer.write(b"te\x17\x03\x03\x00\x00").unwrap(), 2);
        assert_eq!(writer.write(b"\x17\x03\x03\x00\x00").unwrap(), 5);
        assert_eq!(writer.write(b"\x17\x03\x03\x00\x02nt").unwrap(), 7);
        assert!(writer.write(b"\x17\x03").is_err());
        drop(ours);
        let mut got = String::new();
        theirs.read_to_string(&mut got).unwrap();
        assert_eq!(got, "content");
    }

    #[test]
    fn keys_follow_a_key_update_and_nothing_else() {
        let nothing = Record::default();
        let (record, header) = front(b"\x16\x03\x03\x00\x05\x18\x00\x00\x01\x00", nothing).unwrap();
        assert_eq!((record, header), (Record { kind: 22, left: 5, last: true }, 5));
        assert!(!front(b"\x16\x03\x03\x00\x01\x04", nothing).unwrap().0.last);
        assert!(!front(b"\x17\x03\x03\x00\x01\x18", nothing).unwrap().0.last);
        assert_eq!(front(b"rest", record).unwrap(), (record, 0));
    }
}
