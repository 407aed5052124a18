//! Files that belong to a configuration: its own, and those of secrets.

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// All files of a configuration. A host with thousands of sites has many in one file; each file here costs a few system calls at
/// each reload.
pub(super) const FILES_MAX: usize = 1024;

/// The largest file of a secret. Keys and tokens have a few hundred bytes, a bundle of certificates some tens of thousands.
pub(super) const SECRET_BYTES_MAX: u64 = 64 * 1024;
/// The text of a file. A pipe with a name is refused: opening one waits for a writer, which in a reload would stop the master.
/// Pipes that a shell makes (`/dev/stdin`, `/dev/fd/63`) have their writer already.
pub(super) fn contents(path: &Path) -> io::Result<String> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if std::fs::metadata(path)?.file_type().is_fifo() && !path.starts_with("/dev") {
        return Err(invalid("this is a pipe, and no reload could read it again".to_owned()));
    }
    String::from_utf8(std::fs::read(path)?).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        invalid(format!("line {line} is not UTF-8"))
    })
}

/// Why a file could not be read, in words.
pub(super) fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".into(),
        io::ErrorKind::PermissionDenied => "it may not be read: permission denied".into(),
        io::ErrorKind::IsADirectory => "this is a directory".into(),
        _ => error.to_string(),
    }
}

/// The file of a secret: a regular file of at most [`SECRET_BYTES_MAX`].
pub(super) fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    // Opening a pipe would wait for a writer.
    let found = std::fs::metadata(path)?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        return Err(invalid("this is not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(SECRET_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > SECRET_BYTES_MAX {
        true => Err(invalid("a secret has at most 64 KiB")),
        false => Ok(bytes),
    }
}
