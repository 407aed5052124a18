//! Which files have changed: by what stat(2) says of them, so that the master can look every few seconds.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use maitred_config::{Certificate, ClientAuth, Config};

/// What tells one state of a file from another; `None` if it is not there.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// What the files were like when they were last looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamps(BTreeMap<PathBuf, Stamp>);

impl Stamps {
    /// Looks at all files of certificates, keys, staples, roots and revocation lists.
    pub fn of(config: &Config) -> Stamps {
        // A new file changes its directory.
        let directory = config.on_demand_names_max().map(|_| config.server.state.join("certificates"));
        let paths = paths(config).into_iter().map(Path::to_owned).chain(directory);
        Stamps(paths.map(|path| (path.clone(), stamp(&path))).collect())
    }

    /// Looks at one file.
    pub fn of_file(path: &Path) -> Stamps {
        Stamps(BTreeMap::from([(path.to_owned(), stamp(path))]))
    }

    /// Whether there is nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Looks again.
    pub fn again(&self) -> Stamps {
        Stamps(self.0.keys().map(|path| (path.clone(), stamp(path))).collect())
    }
}

fn paths(config: &Config) -> Vec<&Path> {
    let certificates = config.sites.iter().flat_map(|site| &site.certificates);
    let mut paths: Vec<&Path> = Vec::new();
    for certificate in certificates {
        if let Certificate::Files { certificate, key, ocsp } = certificate {
            paths.extend([certificate, key].into_iter().chain(ocsp).map(PathBuf::as_path));
        }
        if let Certificate::Automatic(path) = certificate {
            paths.push(path);
        }
    }
    for tls in config.listens.iter().filter_map(|listen| listen.tls.as_ref()) {
        if let ClientAuth::Optional(path) | ClientAuth::Required(path) = &tls.client_auth {
            paths.push(path);
        }
        paths.extend(tls.client_crl.as_deref());
    }
    for tls in config.pools.iter().filter_map(|pool| pool.tls.as_ref()) {
        paths.extend(tls.ca.as_deref());
        paths.extend(tls.identity.iter().flat_map(|(certificate, key)| [certificate.as_path(), key]));
    }
    paths
}

fn stamp(path: &Path) -> Stamp {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}
