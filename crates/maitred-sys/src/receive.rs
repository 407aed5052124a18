//! Bytes of a Unix socket, and the descriptors that may come with them, straight into a buffer's spare room.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Descriptors that one message can carry (`SCM_MAX_FD` of the kernel).
const DESCRIPTORS_MAX: usize = 253;
/// `CMSG_SPACE` of so many, in words, for the alignment of `cmsghdr`.
const CONTROL_WORDS: usize = 16 / 8 + (DESCRIPTORS_MAX * size_of::<RawFd>()).div_ceil(8);

/// Appends what has come, up to the buffer's capacity, and gives back how many bytes that were. Descriptors that came along are
/// appended to `descriptors`, with close-on-exec; were there no room for them, the kernel would close them here and now.
///
/// # Errors
/// What recvmsg(2) says.
pub fn receive(socket: impl AsFd, bytes: &mut Vec<u8>, descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let room = bytes.spare_capacity_mut();
    let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let mut control = [const { MaybeUninit::<u64>::uninit() }; CONTROL_WORDS];
    // SAFETY: a msghdr is a C structure of integers and pointers, for all of which zero is a value.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the descriptor is open for the length of the borrow; the message describes two buffers that live here, and that
    // no other code uses meanwhile.
    let received = unsafe {
        libc::recvmsg(
            socket.as_fd().as_raw_fd(),
            &raw mut message,
            libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT,
        )
    };
    let Ok(received) = usize::try_from(received) else { return Err(io::Error::last_os_error()) };
    let filled = bytes.len() + received;
    // SAFETY: the kernel has written `received` bytes, no more than there was room for, behind those that were there.
    unsafe { bytes.set_len(filled) };
    // SAFETY: the kernel has written `msg_controllen` bytes of well-formed entries into the control buffer, which is aligned for
    // them; the macros of cmsg(3) stay within these.
    unsafe {
        let mut entry = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(header) = entry.as_ref() {
            if header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_RIGHTS {
                let length: libc::size_t = header.cmsg_len as _;
                let length = length - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                for nth in 0..length / size_of::<RawFd>() {
                    // SAFETY: as above; the descriptor was made by this call, and has no other owner.
                    descriptors.push(OwnedFd::from_raw_fd(data.add(nth).read_unaligned()));
                }
            }
            entry = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(received)
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Read, Write};
    use std::os::unix::net::UnixStream;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    #[test]
    fn bytes_are_appended_up_to_the_capacity() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut bytes = Vec::with_capacity(8);
        bytes.extend_from_slice(b"ab");
        let mut descriptors = Vec::new();
        assert_eq!(
            receive(&ours, &mut bytes, &mut descriptors).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        theirs.write_all(b"0123456789").unwrap();
        let room = bytes.capacity() - 2;
        assert_eq!(receive(&ours, &mut bytes, &mut descriptors).unwrap(), room.min(10));
        assert!(bytes.starts_with(b"ab012345") && descriptors.is_empty());
        drop(theirs);
        let mut rest = Vec::with_capacity(20);
        while receive(&ours, &mut rest, &mut descriptors).unwrap() > 0 {}
        assert_eq!(rest.len(), 10 - room.min(10));
    }

    #[test]
    fn descriptors_come_along() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let passed = [writer.as_fd(); 253];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        assert!(control.push(SendAncillaryMessage::ScmRights(&passed)));
        sendmsg(&theirs, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        drop(writer);
        let (mut bytes, mut descriptors) = (Vec::with_capacity(10), Vec::new());
        assert_eq!(receive(&ours, &mut bytes, &mut descriptors).unwrap(), 1);
        assert_eq!((bytes.as_slice(), descriptors.len()), (&b"x"[..], 253));
        let last = descriptors.pop().unwrap();
        assert!(rustix::io::fcntl_getfd(&last).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        drop(descriptors);
        rustix::io::write(&last, b"y").unwrap();
        drop(last);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "y");
    }
}
