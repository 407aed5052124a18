//! The file with the master's process id.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::own_files::may_make;

/// A written file; removed when this is dropped, unless another process has written it since.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    content: String,
}

impl PidFile {
    /// Writes it, whole or not at all, with mode 0644.
    ///
    /// # Errors
    /// A text for the operator that names the file.
    pub(crate) fn write(path: &Path) -> Result<Self, String> {
        let content = format!("{}\n", std::process::id());
        let written = write_whole(path, &content);
        written.map_err(|error| format!("pid file {}: {error}", path.display()))?;
        Ok(PidFile { path: path.to_owned(), content })
    }

    /// Whether [`PidFile::write`] could write it: it makes a file beside it, and moves that there.
    ///
    /// # Errors
    /// A text for the operator that names the file.
    pub(crate) fn judge(path: &Path) -> Result<(), String> {
        let judged = match path.is_dir() {
            true => Err(rustix::io::Errno::ISDIR.into()),
            false => may_make(path),
        };
        judged.map_err(|error| format!("pid file {}: {error}", path.display()))
    }

    /// A file that this process has written before another program was put into it.
    pub(crate) fn left(path: PathBuf) -> Self {
        PidFile { path, content: format!("{}\n", std::process::id()) }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn write_whole(path: &Path, content: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
    // A leftover of an earlier process with the same number, if it is there at all.
    let _ = std::fs::remove_file(&temporary);
    let mut file = File::options().write(true).create_new(true).mode(0o644).open(&temporary)?;
    let renamed = file.write_all(content.as_bytes()).and_then(|()| std::fs::rename(&temporary, path));
    if renamed.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    renamed
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if std::fs::read_to_string(&self.path).is_ok_and(|found| found == self.content) {
            // Left behind, it names a process that is gone, as after a crash; the next start replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_there_as_long_as_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("maitred.pid");
        std::fs::write(&path, "999999999\n").unwrap();
        let file = PidFile::write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        drop(file);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_successors_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("maitred.pid");
        let file = PidFile::write(&path).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        drop(file);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n");
        assert!(PidFile::write(Path::new("/no/such/dir/pid")).unwrap_err().contains("/no/such/dir/pid"));
    }
}
