//! Which certificate a client gets.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{SignatureAlgorithm, SignatureScheme};

use super::material::Material;
use super::on_demand::Wanted;
use maitred_config::{Config, Named, SiteNames};

/// The protocol of a challenge of a certificate authority (RFC 8737 section 6.2).
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// Certificates of one site, the best first.
type Certificates = Arc<[Arc<CertifiedKey>]>;

/// The certificates of all sites, in the form that a lookup needs. Never changed: new material makes a new one.
#[derive(Debug)]
pub(crate) struct Resolver {
    names: SiteNames,
    /// Per site.
    sites: Vec<OfSite>,
    /// Per listener, for names of no site that answers there, and for clients that ask for none.
    listeners: Vec<OfListener>,
    challenges: HashMap<Box<str>, Arc<CertifiedKey>>,
    /// Certificates that were made on demand, by their names.
    on_demand: HashMap<Box<str>, Certificates>,
    /// The names for which there is none yet.
    wanted: Arc<Wanted>,
}

#[derive(Debug)]
struct OfSite {
    own: Certificates,
    /// Whether the site has the certificates of the listener: it has none of its own, and is not to get any. No client is shown
    /// another site's certificate only because an automatic one is not there yet: the handshake fails.
    borrows: bool,
    /// Whether the site's names have certificates on demand.
    on_demand: bool,
}

#[derive(Debug)]
struct OfListener {
    /// The certificates of the first site that answers there and has some.
    default: Certificates,
    /// Names of no site have certificates on demand.
    on_demand: bool,
}

/// The certificates for the clients of one listener.
#[derive(Debug)]
pub(crate) struct AtListener {
    all: Arc<Resolver>,
    listener: u16,
}

impl AtListener {
    /// For the listener of this index.
    pub(crate) fn new(all: &Arc<Resolver>, listener: usize) -> AtListener {
        AtListener { all: Arc::clone(all), listener: u16::try_from(listener).unwrap_or(u16::MAX) }
    }
}

impl Resolver {
    /// # Errors
    /// A text, if a certificate of the material cannot be used.
    pub(crate) fn new(
        config: &Config,
        material: &Material,
        wanted: &Arc<Wanted>,
    ) -> Result<Resolver, String> {
        let mut sites = Vec::new();
        for (pairs, site) in material.sites.iter().zip(&config.sites) {
            let certified: Result<Vec<_>, String> =
                pairs.iter().map(|pair| pair.certified().map(Arc::new)).collect();
            let mut certified = certified?;
            // Stable: within a kind, the order of the file holds.
            certified.sort_by_key(|one| one.key.algorithm() == SignatureAlgorithm::RSA);
            let borrows = certified.is_empty() && !site.acme && !site.on_demand;
            sites.push(OfSite { own: certified.into(), borrows, on_demand: site.on_demand });
        }
        let of_listener = |listener| {
            let here = || config.sites.iter().zip(&sites).filter(move |(site, _)| site.answers_at(listener));
            let some = here().map(|(_, of_site)| &of_site.own).find(|own| !own.is_empty());
            OfListener {
                default: some.cloned().unwrap_or_else(|| Arc::from(Vec::new())),
                on_demand: here().any(|(site, _)| site.on_demand && site.hosts.is_empty()),
            }
        };
        let listeners = (0..config.listens.len()).map(of_listener).collect();
        let challenges = material
            .challenges
            .iter()
            .map(|(name, pair)| Ok((name.to_ascii_lowercase().into(), Arc::new(pair.for_challenge()?))))
            .collect::<Result<_, String>>()?;
        let on_demand = material.on_demand.iter();
        let on_demand = on_demand
            .map(|(name, pair)| Ok((name.as_str().into(), Arc::from([Arc::new(pair.certified()?)]))))
            .collect::<Result<_, String>>()?;
        let names = SiteNames::new(&config.sites, config.listens.len());
        let wanted = Arc::clone(wanted);
        Ok(Resolver { names, sites, listeners, challenges, on_demand, wanted })
    }

    /// Whether a client of this listener has to wait: its certificate is one on demand, which is not there, and was asked for.
    pub(crate) fn awaits(&self, listener: u16, hello: &ClientHello<'_>) -> bool {
        let Some(name) = hello.server_name().filter(|_| !is_challenge(hello)) else { return false };
        let (_, on_demand) = self.site(listener, Some(name));
        on_demand && !self.on_demand.contains_key(name) && self.wanted.note(name, Instant::now())
    }

    /// The site of a name at a listener, and whether the name has a certificate on demand.
    fn site(&self, listener: u16, name: Option<&str>) -> (Option<&OfSite>, bool) {
        let found = name.map(|name| self.names.find(Some(listener), name));
        let site =
            found.filter(|found| found.named == Named::Here).and_then(|found| self.sites.get(found.site));
        let of_listener = || self.listeners.get(usize::from(listener)).is_some_and(|of| of.on_demand);
        let on_demand = match (site, found) {
            (Some(site), _) => site.on_demand,
            // The certificate of the name's site is not for this listener.
            (None, Some(found)) if found.named == Named::Elsewhere => false,
            (None, _) => of_listener(),
        };
        (site, on_demand)
    }

    /// The certificates of the site at a listener that this name belongs to: the exact name, then the longest `*.name`, then the
    /// default.
    fn certificates(&self, listener: u16, name: Option<&str>) -> &[Arc<CertifiedKey>] {
        let (site, on_demand) = self.site(listener, name);
        if let (true, Some(name)) = (on_demand, name) {
            return self.on_demand.get(name).map(|own| &own[..]).unwrap_or_else(|| {
                self.wanted.note(name, Instant::now());
                &[]
            });
        }
        match site.filter(|site| !site.borrows) {
            Some(site) => &site.own,
            None => self.listeners.get(usize::from(listener)).map_or(&[], |of| &of.default),
        }
    }

    /// What a client of a listener gets that asks for `name` and can check `schemes`, the best first.
    pub(super) fn choose(
        &self,
        listener: u16,
        name: Option<&str>,
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        let certificates = self.certificates(listener, name);
        certificates.iter().find(|one| one.key.choose_scheme(schemes).is_some()).cloned()
    }
}

/// Whether it is a certificate authority that asks, about a challenge.
fn is_challenge(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut offered| offered.any(|one| one == ACME_TLS))
}

impl ResolvesServerCert for AtListener {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // rustls gives the name in lower case.
        let (all, name) = (&self.all, hello.server_name());
        if is_challenge(&hello) {
            return all.challenges.get(name?).cloned();
        }
        // A client that can check none of them is shown the first, so that rustls finds out what is not in common and says
        // handshake_failure (8446-4.4.2.2), not access_denied, which speaks of a client that is not wanted.
        let any = || all.certificates(self.listener, name).first().cloned();
        all.choose(self.listener, name, hello.signature_schemes()).or_else(any)
    }
}
