//! The file with the token that commands by a TCP admin address take. A process that can read it may send commands.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::rand::{GetRandomFlags, getrandom};

use maitred_base::pki::{Bytes, hex};

/// Random bytes of a token; in the file they are hexadecimal digits.
const TOKEN_BYTES: usize = 32;

/// See the module. Removed when this is dropped.
#[derive(Debug)]
pub(crate) struct AdminToken {
    path: PathBuf,
    token: Bytes,
}

impl AdminToken {
    /// Creates the file, with mode 0600. An existing one of this account that no other account can read stays, so that a new
    /// image of the server has the token of the old one.
    ///
    /// # Errors
    /// A text for the operator that names the file.
    pub(crate) fn make(path: &Path) -> Result<AdminToken, String> {
        let failed = |error: io::Error| format!("admin_token {}: {error}", path.display());
        let token = match kept(path).map_err(failed)? {
            Some(token) => token,
            None => write_new(path).map_err(failed)?,
        };
        Ok(AdminToken { path: path.to_owned(), token: Bytes(token.into_bytes()) })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What has to be said, as it stands in the file.
    pub(crate) fn token(&self) -> &Bytes {
        &self.token
    }
}

impl Drop for AdminToken {
    fn drop(&mut self) {
        // A token that stays is used again by the next start.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn options() -> std::fs::OpenOptions {
    let mut options = File::options();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    options
}

fn kept(path: &Path) -> io::Result<Option<String>> {
    let file = match options().read(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("there is something of this name that is no file"));
    }
    let mut text = String::new();
    file.take(2 * TOKEN_BYTES as u64 + 2).read_to_string(&mut text)?;
    let token = text.trim_end();
    let private = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
    let whole = token.len() == 2 * TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    Ok((private && whole).then(|| token.to_owned()))
}

fn write_new(path: &Path) -> io::Result<String> {
    let mut random = [0; TOKEN_BYTES];
    if getrandom(&mut random, GetRandomFlags::empty())? < TOKEN_BYTES {
        return Err(io::Error::other("there are no random numbers"));
    }
    let token = hex(&random);
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?
        .write_all(format!("{token}\n").as_bytes())?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_private_kept_and_goes_with_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let token = AdminToken::make(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!((text.trim_end().as_bytes(), text.len()), (&*token.token().0, 65));
        assert_eq!(AdminToken::make(&path).unwrap().token(), token.token(), "the next image has the same");
        assert!(!path.exists(), "and it goes with its owner");
        // A token that others could have read is not kept.
        std::fs::write(&path, &text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_ne!(AdminToken::make(&path).unwrap().token(), token.token());
        drop(token);
        assert_ne!(AdminToken::make(&path).unwrap().path().to_owned(), PathBuf::new());
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::os::unix::fs::symlink(dir.path().join("other"), &path).unwrap();
        assert!(AdminToken::make(&path).is_err());
        assert!(!dir.path().join("other").exists());
    }
}
