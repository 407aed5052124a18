//! Keys and certificates of the configuration in force: read by the master, handed to worker processes, and read again when
//! their files change.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::prepare::Surroundings;
use crate::config::{Certificate, Config};
use crate::tls::material::Material;
use crate::tls::self_signed;
use crate::tls::watch::Stamps;

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

/// The present time, as Unix time.
pub fn unix_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

impl Certificates {
    /// Reads the files; `None` if no listener has TLS.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn load(config: &Config, around: &Surroundings) -> Result<Option<Certificates>, String> {
        if config.listens.iter().all(|listen| listen.tls.is_none()) {
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
    /// Certificate and key are two files, and whoever replaces them does so one after the other: what is wrong is said
    /// when it is still wrong at the next look, and then once.
    pub fn look(&mut self, config: &Config, around: &Surroundings, now: Instant) -> bool {
        self.looked_at = now;
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
                    tracing::error!("certificates have changed, and those from before stay in use: {why}");
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
        tickets.advance(unix_secs()).map_err(|_| io::Error::other("no keys of session tickets"))?;
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
        let _ = around.self_signed.set(self_signed::make(unix_secs())?);
    }
    Material::load(config, around.self_signed.get(), around.tickets.borrow().clone())
}
