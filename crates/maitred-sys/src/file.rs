//! Reading into room that was never written to.

use std::os::fd::BorrowedFd;

use rustix::io::{Errno, pread};

/// Appends up to `bytes` of a file, from `offset` on, to `out`, and gives back how many those were: fewer only at the end of
/// the file. The kernel writes into the vector's spare capacity, which is not cleared for that first.
///
/// # Errors
/// As pread(2), `INTR` included; nothing is appended then.
pub fn append_at(file: BorrowedFd<'_>, out: &mut Vec<u8>, bytes: usize, offset: u64) -> Result<usize, Errno> {
    out.reserve(bytes);
    let room = out.spare_capacity_mut();
    let room = room.get_mut(..bytes).unwrap_or_default();
    let (read, _) = pread(file, room, offset)?;
    let (read, before) = (read.len(), out.len());
    // SAFETY: rustix gives back as initialised what the kernel has written, which is the first `read` bytes of the spare
    // capacity, and nothing has changed the vector since.
    unsafe { out.set_len(before + read) };
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn bytes_of_a_file_are_appended() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut out = b"ab".to_vec();
        assert_eq!(append_at(file.as_fd(), &mut out, 3, 4), Ok(3));
        assert_eq!(append_at(file.as_fd(), &mut out, 0, 4), Ok(0));
        assert_eq!(append_at(file.as_fd(), &mut out, 100, 8), Ok(2));
        assert_eq!(append_at(file.as_fd(), &mut out, 100, 10), Ok(0));
        assert_eq!(out, b"ab45689");
        let (reader, _writer) = std::io::pipe().unwrap();
        assert_eq!(append_at(reader.as_fd(), &mut out, 1, 0), Err(Errno::SPIPE));
        assert_eq!(out, b"ab45689");
    }
}
