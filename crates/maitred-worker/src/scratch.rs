//! Buffers of a thread that every connection uses for a moment.

/// A buffer that is taken out for a use, and put back. A panic in between ends one connection only: the buffer that was lost with
/// it is made anew at the next use.
#[derive(Debug)]
pub(super) struct Scratch {
    buffer: Vec<u8>,
    capacity: usize,
}

impl Scratch {
    /// A buffer for this many bytes.
    pub(super) fn new(capacity: usize) -> Scratch {
        Scratch { buffer: Vec::with_capacity(capacity), capacity }
    }

    /// The buffer, empty, with room for at least as many bytes as it was made for.
    #[inline]
    pub(super) fn take(&mut self) -> Vec<u8> {
        let buffer = std::mem::take(&mut self.buffer);
        if buffer.capacity() < self.capacity { Vec::with_capacity(self.capacity) } else { buffer }
    }

    /// Takes the buffer back. The content is dropped.
    #[inline]
    pub(super) fn put_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.buffer = buffer;
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use maitred_sys::file::append_at;

    use super::*;

    #[test]
    fn a_buffer_that_was_lost_in_a_panic_is_there_for_the_next_step() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, b"0123456789").unwrap();
        let mut scratch = Scratch::new(4);
        let lost = catch_unwind(AssertUnwindSafe(|| {
            let _taken = scratch.take();
            std::panic::resume_unwind(Box::new("in the middle of a step"));
        }));
        assert!(lost.is_err());
        // A piece of a file read into no room would look like the end of the file.
        let mut piece = scratch.take();
        let room = piece.capacity();
        assert_eq!(append_at(file.as_fd(), &mut piece, room, 2), Ok(room));
        assert!(room >= 4, "{room} bytes");
    }

    #[test]
    fn a_buffer_that_was_put_back_is_taken_again_empty() {
        let mut scratch = Scratch::new(100);
        let mut taken = scratch.take();
        taken.extend_from_slice(b"of an earlier connection");
        let place = taken.as_ptr();
        scratch.put_back(taken);
        let again = scratch.take();
        assert!(again.is_empty() && again.as_ptr() == place);
        // A buffer that is too small, put back in its place, is not used.
        scratch.put_back(Vec::new());
        assert!(scratch.take().capacity() >= 100);
    }
}
