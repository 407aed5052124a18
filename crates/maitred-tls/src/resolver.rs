//! Which certificate a client gets.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{SignatureAlgorithm, SignatureScheme};

use super::material::Material;
use super::on_demand::Wanted;
use maitred_config::{Config, HostPattern, Site};

/// The protocol of a challenge of a certificate authority (RFC 8737 section 6.2).
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// The certificates of all sites, in the form that a lookup needs. Never changed: new material makes a new one.
#[derive(Debug)]
pub struct Resolver {
    /// Per site; a site without certificates has those of the default one.
    sites: Vec<Arc<[Arc<CertifiedKey>]>>,
    /// The first site that has some: for names of no site, and for clients that ask for none.
    default: Arc<[Arc<CertifiedKey>]>,
    exact: HashMap<Box<str>, usize>,
    /// `.example.com` → site.
    suffixes: HashMap<Box<str>, usize>,
    challenges: HashMap<Box<str>, Arc<CertifiedKey>>,
    /// Certificates that were made on demand, by their names.
    on_demand: HashMap<Box<str>, Arc<[Arc<CertifiedKey>]>>,
    /// The sites whose names have those; and whether names of no site do.
    on_demand_sites: Vec<bool>,
    on_demand_others: bool,
    /// The names for which there is none yet.
    wanted: Arc<Wanted>,
}

impl Resolver {
    /// # Errors
    /// A text, if a certificate of the material cannot be used.
    pub fn new(config: &Config, material: &Material, wanted: &Arc<Wanted>) -> Result<Resolver, String> {
        let mut own = Vec::new();
        for pairs in &material.sites {
            let certified: Result<Vec<_>, String> =
                pairs.iter().map(|pair| pair.certified().map(Arc::new)).collect();
            let mut certified = certified?;
            // Stable: within a kind, the order of the file holds.
            certified.sort_by_key(|one| one.key.algorithm() == SignatureAlgorithm::RSA);
            own.push(Arc::<[_]>::from(certified));
        }
        let some = own.iter().find(|certified| !certified.is_empty());
        let default = some.cloned().unwrap_or_else(|| Arc::from(Vec::new()));
        // No client is shown another site's certificate only because an automatic one is not there yet: the handshake fails.
        let borrows = |own: &Arc<[_]>, site: &Site| own.is_empty() && !site.acme && !site.on_demand;
        let sites = own.into_iter().zip(&config.sites);
        let sites = sites.map(|(own, site)| if borrows(&own, site) { Arc::clone(&default) } else { own });
        let sites = sites.collect();
        let (mut exact, mut suffixes) = (HashMap::new(), HashMap::new());
        for (number, site) in config.sites.iter().enumerate() {
            for host in &site.hosts {
                match host {
                    HostPattern::Exact(name) => exact.insert(name.as_str().into(), number),
                    HostPattern::Suffix(suffix) => suffixes.insert(suffix.as_str().into(), number),
                };
            }
        }
        let challenges = material
            .challenges
            .iter()
            .map(|(name, pair)| Ok((name.to_ascii_lowercase().into(), Arc::new(pair.for_challenge()?))))
            .collect::<Result<_, String>>()?;
        let on_demand = material.on_demand.iter();
        let on_demand = on_demand
            .map(|(name, pair)| Ok((name.as_str().into(), Arc::from([Arc::new(pair.certified()?)]))))
            .collect::<Result<_, String>>()?;
        let on_demand_sites = config.sites.iter().map(|site| site.on_demand).collect();
        let on_demand_others = config.sites.iter().any(|site| site.on_demand && site.hosts.is_empty());
        let wanted = Arc::clone(wanted);
        Ok(Resolver {
            sites,
            default,
            exact,
            suffixes,
            challenges,
            on_demand,
            on_demand_sites,
            on_demand_others,
            wanted,
        })
    }

    /// Whether a client has to wait: its certificate is one on demand, which is not there, and was asked for.
    pub fn awaits(&self, hello: &ClientHello<'_>) -> bool {
        let Some(name) = hello.server_name().filter(|_| !is_challenge(hello)) else { return false };
        let (_, on_demand) = self.site(Some(name));
        on_demand && !self.on_demand.contains_key(name) && self.wanted.note(name, Instant::now())
    }

    /// The site of a name, and whether its names have certificates on demand.
    fn site(&self, name: Option<&str>) -> (Option<usize>, bool) {
        let site = name.and_then(|name| {
            let parents = || name.match_indices('.').filter_map(|(at, _)| self.suffixes.get(name.get(at..)?));
            self.exact.get(name).or_else(|| parents().next()).copied()
        });
        let on_demand = match site {
            Some(site) => self.on_demand_sites.get(site).copied().unwrap_or(false),
            None => self.on_demand_others,
        };
        (site, on_demand)
    }

    /// The certificates of the site that this name belongs to: the exact name, then the longest `*.name`, then the default.
    fn certificates(&self, name: Option<&str>) -> &[Arc<CertifiedKey>] {
        let (site, on_demand) = self.site(name);
        if let (true, Some(name)) = (on_demand, name) {
            return self.on_demand.get(name).map(|own| &own[..]).unwrap_or_else(|| {
                self.wanted.note(name, Instant::now());
                &[]
            });
        }
        site.and_then(|site| self.sites.get(site)).unwrap_or(&self.default)
    }

    /// What a client gets that asks for `name` and can check `schemes`, the best first.
    pub(super) fn choose(
        &self,
        name: Option<&str>,
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        let certificates = self.certificates(name);
        certificates.iter().find(|one| one.key.choose_scheme(schemes).is_some()).cloned()
    }
}

/// Whether it is a certificate authority that asks, about a challenge.
fn is_challenge(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut offered| offered.any(|one| one == ACME_TLS))
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // rustls gives the name in lower case.
        let name = hello.server_name();
        if is_challenge(&hello) {
            return self.challenges.get(name?).cloned();
        }
        // A client that can check none of them is shown the first, so that rustls finds out what is not in common and says
        // handshake_failure (8446-4.4.2.2), not access_denied, which speaks of a client that is not wanted.
        let any = || self.certificates(name).first().cloned();
        self.choose(name, hello.signature_schemes()).or_else(any)
    }
}
