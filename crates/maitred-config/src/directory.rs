//! The configuration of `maitred serve DIR`: no file, one site.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::build::DEFAULT_USER;
use super::identity::Identity;
use super::listen::Tls;
use super::logs::AccessFormat;
use super::meaning::{AdminAddress, Certificate, Config, Files};
use super::report::Failure;
use super::{Lookup as _, Origin, System, read};

/// All defaults, and nothing that depends on the directory.
const TEXT: &str =
    "[server]\nshare_user = true\n[[listen]]\naddress = \":8080\"\n[[site]]\nroot = \".\"\nlisting = true\n";

impl Config {
    /// Serves one directory on one address: with listings, an access log on standard output (for people if that is a
    /// `terminal`), and an admin socket in the user's runtime directory if there is one.
    pub fn for_directory(dir: &Path, listen: SocketAddr, terminal: bool) -> Result<Config, Failure> {
        let refused =
            |why: &dyn std::fmt::Display| Failure::Refused(format!("cannot serve {}: {why}", dir.display()));
        let base = dir.canonicalize().map_err(|error| refused(&error))?;
        System.directory(&base).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotADirectory => refused(&"this is not a directory"),
            _ => refused(&error),
        })?;
        let origin = Origin { name: dir.display().to_string(), base };
        let (mut config, _) = read(TEXT, &origin, &System).map_err(Failure::Invalid)?;
        for entry in &mut config.listens {
            entry.address = listen.into();
        }
        config.log.access = if terminal { AccessFormat::Human } else { AccessFormat::Combined };
        // The one line that it prints says what there is to say; what goes wrong comes on top of it.
        config.log.level = "warn".into();
        config.server.admin = AdminAddress::of_user(listen.port());
        Ok(config)
    }

    /// Serves as the account of this name, if root starts the server. Without a name, as that of the package, if there is one and
    /// it may look into the directory; otherwise as root.
    pub fn serve_as(&mut self, dir: &Path, name: Option<&str>) -> Result<(), Failure> {
        let refused = |why: String| Failure::Refused(format!("--user: {why}"));
        if let Some(name) = name {
            if !System.is_root() {
                return Err(refused("only root can change to another account, and this is not root".into()));
            }
            let found = System.user(name).map_err(|error| refused(error.to_string()))?;
            self.server.user = Some(found.ok_or_else(|| refused(format!("there is no account {name:?}")))?);
        } else if System.is_root() {
            let found = System.user(DEFAULT_USER).unwrap_or_default();
            self.server.user = found.filter(|user| may_list(user, dir));
        }
        Ok(())
    }

    /// Speaks TLS on all its addresses, with a certificate that the master makes.
    pub fn use_self_signed(&mut self) {
        for listen in &mut self.listens {
            listen.tls = Some(Tls::default());
        }
        for site in &mut self.sites {
            site.certificates = vec![Certificate::SelfSigned];
        }
    }

    /// Changes how all files of all sites are served.
    pub fn for_all_files(&mut self, change: impl Fn(&mut Files)) {
        for site in &mut self.sites {
            site.files.as_mut().map(&change);
            for route in &mut site.routes {
                if let super::Target::Files(files) = &mut route.target {
                    change(files);
                }
            }
        }
    }
}

impl Identity {
    /// The name of the account that processes have in production if root starts the server and names none: that of the package.
    ///
    /// # Errors
    /// When there is no such account.
    pub fn for_production() -> Result<Option<String>, Failure> {
        if !System.is_root() {
            return Ok(None);
        }
        let refused = |why: String| Failure::Refused(format!("as root, for a domain: {why}"));
        let found = System.user(DEFAULT_USER).map_err(|error| refused(error.to_string()))?;
        found.map(|user| Some(user.name)).ok_or_else(|| {
            refused(format!(
                "the application needs an account without privileges: name one with --user, or make `{DEFAULT_USER}` (useradd \
                 --system --no-create-home --shell /usr/sbin/nologin {DEFAULT_USER})"
            ))
        })
    }
}

/// Whether an account may search a directory and all above it, and list it, as far as modes say.
fn may_list(user: &Identity, dir: &Path) -> bool {
    let Ok(dir) = dir.canonicalize() else { return false };
    dir.ancestors().all(|path| {
        let Ok(found) = path.metadata() else { return false };
        let needed = if path == dir { 0o5 } else { 0o1 };
        let shift = match (found.uid() == user.uid, found.gid() == user.gid) {
            (true, _) => 6,
            (false, true) => 3,
            (false, false) => 0,
        };
        found.mode() >> shift & needed == needed
    })
}

impl AdminAddress {
    /// Where `maitred serve` has its admin socket: `$XDG_RUNTIME_DIR/maitred-PORT.sock`, if there is such a directory.
    /// With port 0 the process id stands there instead, so that several servers do not meet.
    pub fn of_user(port: u16) -> Option<AdminAddress> {
        let dir = user_runtime_dir()?;
        let name = match port {
            0 => format!("maitred-pid-{}.sock", std::process::id()),
            _ => format!("maitred-{port}.sock"),
        };
        Some(AdminAddress::Unix(dir.join(name)))
    }

    /// What `--admin` takes: `unix:PATH`, or a loopback address and a port.
    pub fn parse(text: &str) -> Result<AdminAddress, String> {
        super::build::admin_address(text)
    }
}

/// `$XDG_RUNTIME_DIR`, when it is an absolute path to a directory.
pub fn user_runtime_dir() -> Option<std::path::PathBuf> {
    let dir = std::path::PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    (dir.is_absolute() && dir.is_dir()).then_some(dir)
}

impl std::fmt::Display for AdminAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AdminAddress::Unix(path) => write!(out, "unix:{}", path.display()),
            AdminAddress::Tcp(address) => write!(out, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_becomes_one_site() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::for_directory(dir.path(), "127.0.0.1:0".parse().unwrap(), true).unwrap();
        assert_eq!(config.listens[0].address.to_string(), "127.0.0.1:0");
        assert_eq!(config.log.access, AccessFormat::Human);
        assert_eq!(config.log.level, "warn");
        let files = config.sites[0].files.as_ref().unwrap();
        assert_eq!(files.root, dir.path().canonicalize().unwrap());
        assert!(files.listing);
        assert!(config.sites[0].hosts.is_empty());
    }

    #[test]
    fn an_account_that_may_not_look_does_not_serve() {
        let dir = tempfile::tempdir().unwrap();
        let mode =
            |mode| std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(mode));
        let (own, stranger) = (rustix::process::geteuid().as_raw(), u32::MAX - 1);
        let user = |uid| Identity::new("x", uid, u32::MAX - 1);
        for (bits, owner, other) in
            [(0o700, true, false), (0o755, true, true), (0o711, true, false), (0o055, false, true)]
        {
            mode(bits).unwrap();
            let may = (may_list(&user(own), dir.path()), may_list(&user(stranger), dir.path()));
            assert_eq!(may, (owner, other), "{bits:o}");
        }
    }

    #[test]
    fn what_is_no_directory_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for path in [file.path(), Path::new("/no/such/directory")] {
            let refused = Config::for_directory(path, "127.0.0.1:0".parse().unwrap(), false).unwrap_err();
            assert!(refused.to_string().contains("cannot serve"), "{refused}");
        }
    }
}
