//! Keys and certificates of the configuration in force: read by the master, handed to worker processes, and read again when
//! their files change.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::surroundings::Surroundings;
use maitred_base::unix_time;
use maitred_config::{Certificate, Config};
use maitred_tls::material::Material;
use maitred_tls::self_signed;
use maitred_tls::watch::Stamps;

/// How often the files are looked at. Looking is a stat(2) of each.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub struct Certificates {
    /// What worker processes have, or get when they start.
    pub material: Material,
    /// The files as they were when they were last read.
    stamps: Stamps,
    /// What was wrong with them then, if it was; whether the log has it.
    broken: Option<(String, bool)>,
    looked_at: Instant,
}

impl Certificates {
    /// Reads the files; `None` if neither a listener nor a pool has TLS.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn load(config: &Config, around: &Surroundings) -> Result<Option<Certificates>, String> {
        if !config.has_tls() {
            return Ok(None);
        }
        // Before the files are read: what changes meanwhile is seen at the next look.
        let stamps = Stamps::of(config);
        let material = read(config, around)?;
        Ok(Some(Certificates { material, stamps, broken: None, looked_at: Instant::now() }))
    }

    /// When the files are to be looked at next; `None` if there are none.
    pub fn next_look(&self) -> Option<Instant> {
        (!self.stamps.is_empty()).then(|| self.looked_at + LOOK_EVERY)
    }

    /// Looks whether files have changed, and reads them if they have. Gives back whether there is new material.
    ///
    /// Certificate and key are two files, which an operator or a tool replaces one after the other: an error is
    /// reported when it is still there at the next look, and then once.
    pub fn look(&mut self, config: &Config, around: &Surroundings, now: Instant) -> bool {
        self.looked_at = now;
        // So that older keys can not be found out here either; this fails only where sealing does, and that is logged.
        let _ = around.tickets.borrow_mut().advance(unix_time::secs());
        self.material.tickets = around.tickets.borrow().clone();
        let stamps = self.stamps.again();
        let retry = matches!(self.broken, Some((_, false)));
        if stamps == self.stamps && !retry {
            return false;
        }
        let challenges = std::mem::take(&mut self.material.challenges);
        let changed = std::mem::replace(&mut self.stamps, stamps) != self.stamps;
        match read(config, around) {
            Ok(mut material) => {
                material.tickets = self.material.tickets.clone();
                let new = material != self.material;
                self.material = Material { challenges, ..material };
                self.broken = None;
                if new {
                    tracing::info!("certificates have changed, and are in use");
                }
                new
            }
            Err(why) => {
                self.material.challenges = challenges;
                if !changed {
                    tracing::error!(
                        "certificates have changed, but cannot be used; the previous ones stay in use: {why}"
                    );
                }
                self.broken = Some((why, !changed));
                false
            }
        }
    }

    /// What a worker process gets.
    ///
    /// # Errors
    /// What memfd_create(2) and its like say.
    pub fn seal(&mut self, around: &Surroundings) -> io::Result<OwnedFd> {
        let mut tickets = around.tickets.borrow_mut();
        tickets.advance(unix_time::secs()).map_err(|_| io::Error::other("no keys of session tickets"))?;
        self.material.tickets = tickets.clone();
        self.material.seal()
    }
}

fn read(config: &Config, around: &Surroundings) -> Result<Material, String> {
    let mut certificates = config.sites.iter().flat_map(|site| &site.certificates);
    if certificates.any(|certificate| *certificate == Certificate::SelfSigned)
        && around.self_signed.get().is_none()
    {
        // Only set here, so that it is empty.
        let _ = around.self_signed.set(self_signed::make(unix_time::secs())?);
    }
    let (tickets, datagrams) = (around.tickets.borrow().clone(), around.datagrams.clone());
    Material::load(config, around.self_signed.get(), tickets, datagrams)
}

#[cfg(test)]
mod tests {
    use std::cell::{OnceCell, RefCell};
    use std::path::Path;

    use rcgen::PKCS_ECDSA_P256_SHA256;

    use super::*;
    use maitred_testing::{Authority, config, write};
    use maitred_tls::quic::secrets::Secret;
    use maitred_tls::tickets::Seed;

    const SITE: &str = "listen = [{ address = \":1\", tls = {} }]\n[[site]]\nroot = \".\"\n\
                        certificates = [{ certificate = \"a.pem\", key = \"a-key.pem\" }]\n";

    fn around() -> Surroundings {
        Surroundings {
            reuseport: true,
            inherited: Vec::new(),
            terminal: false,
            tickets: RefCell::new(Seed::new(unix_time::secs()).unwrap()),
            datagrams: Secret::new().unwrap(),
            self_signed: OnceCell::new(),
        }
    }

    fn place(dir: &Path, name: &str, content: &str) {
        let beside = dir.join("beside");
        std::fs::write(&beside, content).unwrap();
        std::fs::rename(beside, dir.join(name)).unwrap();
    }

    #[test]
    fn a_pair_is_taken_once_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("Test");
        let make = || authority.sign(&["localhost"], &PKCS_ECDSA_P256_SHA256);
        let (first, second) = (make(), make());
        write(dir.path(), "a", &first);
        let (config, around) = (config(dir.path(), SITE), around());
        let mut certificates = Certificates::load(&config, &around).unwrap().unwrap();
        let before = certificates.material.clone();
        let mut look = || {
            let new = certificates.look(&config, &around, Instant::now());
            (new, certificates.broken.clone().map(|(_, said)| said), certificates.material == before)
        };
        assert_eq!(look(), (false, None, true), "nothing has changed");
        place(dir.path(), "a.pem", &second.certificate);
        assert_eq!(look(), (false, Some(false), true), "the key may be on its way");
        assert_eq!(look(), (false, Some(true), true), "it is not: that is said");
        assert_eq!(look(), (false, Some(true), true), "once");
        place(dir.path(), "a-key.pem", &second.key);
        assert_eq!(look(), (true, None, false));
        place(dir.path(), "a-key.pem", &second.key);
        assert_eq!(look(), (false, None, false), "another file of the same content");
        std::fs::remove_file(dir.path().join("a.pem")).unwrap();
        assert_eq!(look(), (false, Some(false), false));
        place(dir.path(), "a.pem", &second.certificate);
        assert_eq!(look(), (false, None, false), "it is back before an error was reported");
    }

    #[test]
    fn challenges_outlive_new_files() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("Test");
        write(dir.path(), "a", &authority.sign(&["localhost"], &PKCS_ECDSA_P256_SHA256));
        let (config, around) = (config(dir.path(), SITE), around());
        let mut certificates = Certificates::load(&config, &around).unwrap().unwrap();
        let pair = certificates.material.sites[0][0].clone();
        certificates.material.challenges.push(("localhost".into(), pair));
        write(dir.path(), "a", &authority.sign(&["localhost"], &PKCS_ECDSA_P256_SHA256));
        assert!(certificates.look(&config, &around, Instant::now()));
        assert_eq!(certificates.material.challenges.len(), 1);
    }

    #[test]
    fn files_are_looked_at_only_if_there_are_some() {
        let dir = tempfile::tempdir().unwrap();
        let text = "[[listen]]\naddress = \":1\"\n[[site]]\nroot = \".\"\n";
        let (mut config, around) = (config(dir.path(), text), around());
        assert!(Certificates::load(&config, &around).unwrap().is_none(), "no TLS");
        config.use_self_signed();
        let certificates = Certificates::load(&config, &around).unwrap().unwrap();
        assert_eq!(certificates.next_look(), None);
        let again = Certificates::load(&config, &around).unwrap().unwrap();
        assert_eq!(again.material, certificates.material, "one certificate for the life of the master");
    }
}
