//! A thread that closes descriptors which may make close(2) wait, in a descriptor table of its own.
//!
//! Closing the last copy of a socket closes what was passed through it and never received: a socket that lingers, which the
//! other process has set up, delays that for any time. In the table of the process such a descriptor is a danger until it is
//! closed: a child that is forked just before has a copy, which is then the last one, and waits in exec(2). So a descriptor that
//! is to be closed leaves the table of the process at once, and is in that of the thread only.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The first descriptor that is not a standard one.
const FIRST: RawFd = 3;

/// The way to such a thread, which ends when this is dropped and everything is closed.
#[derive(Debug)]
pub struct Closer {
    socket: OwnedFd,
    /// Held from when a descriptor is sent until it is closed here, so that the thread, which takes it in between, never closes
    /// its copy first.
    handing: Arc<Mutex<()>>,
}

impl Closer {
    /// Starts the thread, and returns when it has its table.
    ///
    /// # Errors
    /// When there are no descriptors or no thread; on kernels before 5.9, which cannot do this.
    pub fn start(name: &str) -> io::Result<Closer> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let handing = Arc::new(Mutex::new(()));
        let (number, lock) = (theirs.as_raw_fd(), Arc::clone(&handing));
        let (ready, is_ready) = mpsc::channel();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let own = leave_table(number);
            let failed = own.as_ref().err().map(io::Error::kind);
            if ready.send(failed).is_ok()
                && let Ok(own) = own
            {
                close_all(&own, &lock);
            }
        })?;
        match is_ready.recv() {
            Ok(None) => Ok(Closer { socket: ours, handing }),
            Ok(Some(kind)) => Err(kind.into()),
            Err(_) => Err(io::ErrorKind::Other.into()),
        }
    }

    /// Has it close a descriptor, which is not in the table of this process any more then.
    ///
    /// # Errors
    /// The descriptor itself, if the thread is behind with too many.
    pub fn close(&self, descriptor: OwnedFd) -> Result<(), OwnedFd> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let passed = [descriptor.as_fd()];
        if !control.push(SendAncillaryMessage::ScmRights(&passed)) {
            return Err(descriptor);
        }
        let handing = lock(&self.handing);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent =
            rustix::io::retry_on_intr(|| sendmsg(&self.socket, &[IoSlice::new(b"x")], &mut control, flags));
        if sent.is_err() {
            return Err(descriptor);
        }
        // Not the last one: the other is under way, or waits for the lock.
        drop(descriptor);
        drop(handing);
        Ok(())
    }
}

fn lock(handing: &Mutex<()>) -> MutexGuard<'_, ()> {
    handing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the calling thread a table with this descriptor and the standard ones alone, and the descriptor there.
fn leave_table(number: RawFd) -> io::Result<OwnedFd> {
    let (Ok(first), Ok(kept)) = (u32::try_from(FIRST), u32::try_from(number)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    if kept < first {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let close_range = |from: u32, to: u32, flags: libc::c_uint| {
        // SAFETY: what is closed is in the new table, of which only this thread uses a descriptor, and only `number`.
        match unsafe { libc::syscall(libc::SYS_close_range, from, to, flags) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    close_range(kept + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    if kept > first {
        close_range(first, kept - 1, 0)?;
    }
    // SAFETY: it is open in the table of this thread, where it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Closes what comes, until there is no sender left.
fn close_all(own: &OwnedFd, handing: &Mutex<()>) {
    let mut byte = [0; 1];
    loop {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let flags = RecvFlags::CMSG_CLOEXEC;
        match recvmsg(own, &mut [IoSliceMut::new(&mut byte)], &mut control, flags) {
            Ok(received) if received.bytes > 0 => {}
            Err(rustix::io::Errno::INTR) => continue,
            Ok(_) | Err(_) => return,
        }
        for message in control.drain() {
            let RecvAncillaryMessage::ScmRights(descriptors) = message else { continue };
            for descriptor in descriptors {
                drop(lock(handing));
                // A socket does not linger then; anything else refuses this.
                let _ = rustix::net::sockopt::set_socket_linger(&descriptor, None);
                drop(descriptor);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::*;

    /// How long closing takes.
    const LINGERS: Duration = Duration::from_secs(5);

    /// A socket through which one was passed that lingers, and the far end of that.
    fn held_up() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far_end, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        while socket.write(&[0; 65536]).is_ok() {}
        rustix::net::sockopt::set_socket_linger(&socket, Some(LINGERS)).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let passed = [socket.as_fd()];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        assert!(control.push(SendAncillaryMessage::ScmRights(&passed)));
        sendmsg(&theirs, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        (ours.into(), far_end)
    }

    /// Whether the thread waits, by what the kernel says that it does.
    fn waits_in_close(name: &str) -> bool {
        std::fs::read_dir("/proc/self/task").unwrap().any(|task| {
            let task = task.unwrap().path();
            let is_it = std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name);
            let call = std::fs::read_to_string(task.join("syscall")).unwrap_or_default();
            let close = format!("{} ", libc::SYS_close);
            is_it && call.starts_with(&close)
        })
    }

    #[test]
    fn what_waits_to_be_closed_is_in_no_table_that_a_child_could_get() {
        let closer = Closer::start("test-closer").unwrap();
        let began = Instant::now();
        let (first, _far_end) = held_up();
        closer.close(first).unwrap();
        while !waits_in_close("test-closer") {
            assert!(began.elapsed() < LINGERS, "the thread does not close it");
            std::thread::yield_now();
        }
        let (mut reader, writer) = std::io::pipe().unwrap();
        let number = writer.as_raw_fd();
        let writer = OwnedFd::from(writer);
        closer.close(writer).unwrap();
        let target = std::fs::read_link(format!("/proc/self/fd/{}", reader.as_raw_fd())).unwrap();
        let same = std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok_and(|link| link == target);
        assert!(!same, "it is still in the table of this process");
        assert!(began.elapsed() < LINGERS, "handing over has waited");
        // The writer is closed when the descriptor before it is.
        assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0);
        assert!(began.elapsed() >= LINGERS / 2);
    }

    #[test]
    fn the_thread_has_nothing_but_what_it_was_given() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let closer = Closer::start("test-closer-2").unwrap();
        drop(writer);
        assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0, "no copy of it is left");
        let (mut reader, writer) = std::io::pipe().unwrap();
        closer.close(writer.into()).unwrap();
        assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0);
    }
}
