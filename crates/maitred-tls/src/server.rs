//! The configurations of rustls, one per listener.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, SHA256};
use rustls::client::ClientConfig;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ServerConfig, ServerSessionMemoryCache, StoresServerSessions,
};
use rustls::time_provider::DefaultTimeProvider;
use rustls::version::{TLS12, TLS13};

use super::client;
use super::early::{self, SKIPPED_BYTES_MAX};
use super::key_log::KeyLogFile;
use super::ktls;
use super::material::Material;
use super::on_demand::Wanted;
use super::resolver::{ACME_TLS, AtListener, Resolver};
use super::tickets::{NoTickets, Ticketer};
use crate::quic::endpoint::{self, Bounds, Keys};
use maitred_base::budget::Budget;
use maitred_base::pki::files::Leaf;
use maitred_base::pki::{Bytes, choice};
use maitred_config::{ClientAuth, Config, OnDemand, Tls, TlsVersion};

/// Tickets that a client gets in a handshake of TLS 1.3: as each should be used once (RFC 8446 section C.4), a browser can
/// open two connections with them.
const TICKETS_PER_HANDSHAKE: usize = 2;
/// Sessions that are kept in memory with `early_data`, about 300 bytes each: 12 MiB.
const EARLY_SESSIONS_MAX: usize = 40_000;
/// Requests at a time that clients are granted over QUIC: as many as RFC 9114 section 6.1 recommends at least. The library has a
/// place for each of them from the beginning: more would cost 4 KiB for each idle connection.
const STREAMS_MAX: u32 = 100;
/// By so much QUIC's own idle timeout, at which a connection ends without a word, comes later than that of the server, which says
/// GOAWAY.
const IDLE_MARGIN: Duration = Duration::from_secs(5);

/// What carries a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Carrier {
    Tcp,
    Quic,
}

/// What a resumed session rests on, as a hash: sessions with another basis are not resumed.
type Basis = [u8; 32];
type KeptSessions = (Basis, Arc<dyn StoresServerSessions>);

/// A certificate in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Index of its site in the configuration.
    pub site: usize,
    /// Which of the site's it is.
    pub number: usize,
    /// The first name that it is for.
    pub name: String,
    /// The last second of the certificate, in Unix time.
    pub not_after: u64,
}

/// What all threads share for TLS. Made once for a worker process; its certificates can be replaced.
#[derive(Debug)]
pub struct TlsServer {
    /// What the listeners and sites are; `None` without TLS.
    config: Option<Config>,
    key_logs: BTreeMap<usize, Arc<KeyLogFile>>,
    /// Per listener with early data: the sessions that may bring some, and the [`Basis`] that they began on. A session is used
    /// once, and only by this process, so that a request that is played again is not answered early (RFC 8446 section 8.1).
    /// Sessions of QUIC are apart from those of TCP.
    sessions: Mutex<BTreeMap<(usize, Carrier), KeptSessions>>,
    present: RwLock<Vec<Option<Arc<ServerConfig>>>>,
    /// Per listener: what connections over QUIC begin with, where there are any.
    over_quic: RwLock<Vec<Option<Arc<quinn_proto::ServerConfig>>>>,
    quic: Option<Keys>,
    /// Per pool: what sessions with its servers begin with.
    towards: RwLock<Vec<Option<Arc<ClientConfig>>>>,
    shown: RwLock<Vec<CertificateFacts>>,
    wanted: Arc<Wanted>,
    /// What all listeners find certificates by.
    resolver: RwLock<Option<Arc<Resolver>>>,
    /// Handshakes that wait for certificates on demand.
    waiting: Arc<Budget>,
}

impl TlsServer {
    /// For a configuration without TLS.
    pub fn none() -> TlsServer {
        TlsServer {
            config: None,
            key_logs: BTreeMap::new(),
            sessions: Mutex::default(),
            present: RwLock::default(),
            over_quic: RwLock::default(),
            quic: None,
            towards: RwLock::default(),
            shown: RwLock::default(),
            wanted: Arc::default(),
            resolver: RwLock::default(),
            waiting: Budget::new(0),
        }
    }

    /// `key_logs` are open files by the number of the listener.
    ///
    /// # Errors
    /// A text, if the material cannot be used.
    pub fn new(
        config: &Config,
        material: &Material,
        key_logs: Vec<(usize, OwnedFd)>,
    ) -> Result<TlsServer, String> {
        let server = TlsServer {
            sessions: Mutex::new(BTreeMap::new()),
            key_logs: key_logs.into_iter().map(|(at, file)| (at, Arc::new(KeyLogFile::new(file)))).collect(),
            config: Some(config.clone()),
            present: RwLock::default(),
            over_quic: RwLock::default(),
            quic: Some(Keys::new(&material.datagrams)?),
            towards: RwLock::default(),
            shown: RwLock::default(),
            wanted: Arc::default(),
            resolver: RwLock::default(),
            waiting: Budget::new(waiting_max(config)),
        };
        server.replace(material)?;
        Ok(server)
    }

    /// The configuration of the next session on a listener; `None` is cleartext.
    pub fn config(&self, listen: usize) -> Option<Arc<ServerConfig>> {
        self.present.read().unwrap_or_else(PoisonError::into_inner).get(listen)?.clone()
    }

    /// What the next connections over QUIC begin with on a listener; `None` without HTTP/3.
    pub fn over_quic(&self, listen: usize) -> Option<Arc<quinn_proto::ServerConfig>> {
        self.over_quic.read().unwrap_or_else(PoisonError::into_inner).get(listen)?.clone()
    }

    /// The keys of QUIC; `None` without TLS.
    pub fn quic(&self) -> Option<&Keys> {
        self.quic.as_ref()
    }

    /// Whether the kernel is to encrypt what sessions on a listener send.
    pub fn by_kernel(&self, listen: usize) -> bool {
        let listen = self.config.as_ref().and_then(|config| config.listens.get(listen));
        listen.and_then(|listen| listen.tls.as_ref()).is_some_and(|tls| tls.ktls)
    }

    /// The configuration of the next session with a server of a pool; `None` if it is not spoken to over TLS.
    pub fn towards(&self, pool: usize) -> Option<Arc<ClientConfig>> {
        self.towards.read().unwrap_or_else(PoisonError::into_inner).get(pool)?.clone()
    }

    /// The names that clients have asked for, and that are to have certificates on demand.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Whether what a client says first is looked at before its session begins, because it may have to wait.
    #[inline]
    pub fn looks_first(&self) -> bool {
        self.waiting.max() > 0
    }

    /// Whether a client of this listener has to wait: its certificate is one on demand, which is not there, and was asked for.
    pub fn awaits(&self, listener: u16, hello: &ClientHello<'_>) -> bool {
        let resolver = self.resolver.read().unwrap_or_else(PoisonError::into_inner);
        resolver.as_ref().is_some_and(|resolver| resolver.awaits(listener, hello))
    }

    /// How many handshakes wait, and may.
    pub fn waiting(&self) -> &Arc<Budget> {
        &self.waiting
    }

    /// For how long each may wait.
    pub fn wait_timeout(&self) -> Duration {
        self.on_demand().map_or(Duration::ZERO, |on_demand| on_demand.wait_timeout)
    }

    fn on_demand(&self) -> Option<&OnDemand> {
        self.config.as_ref()?.acme.as_ref()?.on_demand.as_ref()
    }

    /// A name that is to have none for now.
    pub fn later(&self, name: &str) {
        self.wanted.later(name, Instant::now());
    }

    /// Names that are to have none for a while: as long as the configuration says.
    pub fn refused(&self, name: &str) {
        if let Some(on_demand) = self.on_demand() {
            self.wanted.refused(name, on_demand.refused_time, Instant::now());
        }
    }

    /// The certificates in use, for the status.
    pub fn certificates(&self) -> Vec<CertificateFacts> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// New certificates for the sessions that begin from now on. If they cannot be used, nothing changes.
    ///
    /// # Errors
    /// A text about what is wrong with them.
    pub fn replace(&self, material: &Material) -> Result<(), String> {
        let Some(config) = &self.config else { return Ok(()) };
        let resolver = Arc::new(Resolver::new(config, material, &self.wanted)?);
        let (mut configs, mut over_quic) = (Vec::new(), Vec::new());
        for (number, listen) in config.listens.iter().enumerate() {
            let Some(tls) = &listen.tls else {
                configs.push(None);
                over_quic.push(None);
                continue;
            };
            let mut made = self.build((number, Carrier::Tcp), tls, material, &resolver)?;
            made.alpn_protocols = alpn(listen.http2, !material.challenges.is_empty());
            configs.push(Some(Arc::new(made)));
            let quic = self.quic.as_ref().filter(|_| listen.http3);
            let made = quic.map(|keys| self.build_quic(number, tls, keys, (config, material, &resolver)));
            over_quic.push(made.transpose()?);
        }
        let towards = self.made_towards(config, material)?;
        *self.towards.write().unwrap_or_else(PoisonError::into_inner) = towards;
        *self.present.write().unwrap_or_else(PoisonError::into_inner) = configs;
        *self.over_quic.write().unwrap_or_else(PoisonError::into_inner) = over_quic;
        // Last: a handshake that goes on because a certificate is there finds it in use.
        *self.resolver.write().unwrap_or_else(PoisonError::into_inner) = Some(resolver);
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = facts(material);
        Ok(())
    }

    /// Of pools.
    fn made_towards(
        &self,
        config: &Config,
        material: &Material,
    ) -> Result<Vec<Option<Arc<ClientConfig>>>, String> {
        let pools = config.pools.iter().zip(&material.upstreams);
        let made = pools.map(|(pool, material)| {
            let (Some(tls), Some(material)) = (&pool.tls, material) else { return Ok(None) };
            let made = material.config(tls).map_err(|error| format!("pool.{}: {error}", pool.name));
            made.map(|made| Some(Arc::new(made)))
        });
        made.collect()
    }

    /// The same for QUIC: TLS 1.3 without records of its own, so that nothing of the kernel's can be used.
    fn build_quic(
        &self,
        number: usize,
        tls: &Tls,
        keys: &Keys,
        (config, material, resolver): (&Config, &Material, &Arc<Resolver>),
    ) -> Result<Arc<quinn_proto::ServerConfig>, String> {
        let tls = Tls { ktls: false, versions: vec![TlsVersion::V13], ..tls.clone() };
        let mut made = self.build((number, Carrier::Quic), &tls, material, resolver)?;
        made.alpn_protocols = vec![endpoint::ALPN.to_vec()];
        if tls.early_data {
            // No other number is allowed (RFC 9001 section 4.6.1): how much comes early is bounded by QUIC's windows.
            made.max_early_data_size = u32::MAX;
        }
        let limits = &config.limits;
        let bounds = Bounds {
            streams_max: limits.streams_per_connection_max.min(STREAMS_MAX),
            unidirectional_max: maitred_http::h3::UNIDIRECTIONAL_STREAMS_MAX,
            idle: limits.keep_alive_timeout.max(limits.head_timeout) + IDLE_MARGIN,
        };
        endpoint::server_config(made, keys, bounds)
    }

    fn build(
        &self,
        (number, carrier): (usize, Carrier),
        tls: &Tls,
        material: &Material,
        resolver: &Arc<Resolver>,
    ) -> Result<ServerConfig, String> {
        let versions: Vec<_> = tls
            .versions
            .iter()
            .map(|version| match version {
                TlsVersion::V12 => &TLS12,
                TlsVersion::V13 => &TLS13,
            })
            .collect();
        let roots = material.client_roots.get(number).map(Vec::as_slice).unwrap_or_default();
        let crls = material.client_crls.get(number).map(Vec::as_slice).unwrap_or_default();
        let mut provider = choice::provider(&tls.ciphers, &tls.curves);
        if tls.ktls {
            provider = Arc::new(ktls::transmit::wrapped(&provider));
        }
        if tls.early_data && carrier == Carrier::Tcp {
            provider = Arc::new(early::announcing(&provider));
        }
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(client::verifier(&tls.client_auth, roots, crls)?)
            .with_cert_resolver(Arc::new(AtListener::new(resolver, number)));
        config.send_tls13_tickets = if tls.tickets { TICKETS_PER_HANDSHAKE } else { 0 };
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = Arc::new(NoTickets);
        let basis = basis(carrier, tls, roots, crls);
        if tls.early_data {
            // rustls takes early data only with sessions that are kept, not with those in tickets.
            config.session_storage = self.sessions_of((number, carrier), basis);
            config.max_early_data_size = SKIPPED_BYTES_MAX;
            // Answers to it do not wait for the end of the handshake: nothing is received while one is sent, so that a
            // long one would wait for ever.
            config.send_half_rtt_data = true;
        } else if tls.tickets {
            let ticketer = Ticketer::new(&material.tickets, basis, Arc::new(DefaultTimeProvider));
            config.ticketer = Arc::new(ticketer.map_err(|_| "the keys of session tickets cannot be made")?);
        }
        if let Some(file) = self.key_logs.get(&number) {
            config.key_log = Arc::clone(file) as _;
        }
        Ok(config)
    }

    /// The sessions of a listener, or none yet if they began on another basis.
    fn sessions_of(&self, number: (usize, Carrier), basis: Basis) -> Arc<dyn StoresServerSessions> {
        let mut all = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(&number) {
            Some((same, kept)) if *same == basis => Arc::clone(kept),
            _ => {
                let fresh: Arc<dyn StoresServerSessions> = ServerSessionMemoryCache::new(EARLY_SESSIONS_MAX);
                all.insert(number, (basis, Arc::clone(&fresh)));
                fresh
            }
        }
    }
}

/// How many handshakes may wait for certificates on demand; 0 if no site has those.
fn waiting_max(config: &Config) -> u64 {
    let on_demand = config.acme.as_ref().and_then(|acme| acme.on_demand.as_ref());
    let any = config.sites.iter().any(|site| site.on_demand);
    on_demand.filter(|_| any).map_or(0, |on_demand| on_demand.waiting_max.into())
}

/// What the status shows of certificates.
fn facts(material: &Material) -> Vec<CertificateFacts> {
    let sites = material.sites.iter().enumerate();
    let pairs = sites.flat_map(|(site, pairs)| pairs.iter().enumerate().map(move |pair| (site, pair)));
    let facts = pairs.filter_map(|(site, (number, pair))| {
        let leaf = Leaf::read(&pair.chain.first()?.0.as_slice().into()).ok()?;
        let name = leaf.names.first().cloned().unwrap_or_default();
        Some(CertificateFacts { site, number, name, not_after: leaf.not_after.try_into().unwrap_or(0) })
    });
    facts.collect()
}

/// The protocols that are offered, the best first.
fn alpn(http2: bool, challenges: bool) -> Vec<Vec<u8>> {
    let offered = [(http2, &b"h2"[..]), (true, b"http/1.1"), (challenges, ACME_TLS)];
    offered.iter().filter(|(is, _)| *is).map(|(_, name)| name.to_vec()).collect()
}

/// A ticket must not carry a client past a check of certificates that another listener, or an earlier configuration, did
/// not make.
fn basis(carrier: Carrier, tls: &Tls, roots: &[Bytes], crls: &[Bytes]) -> Basis {
    let mut hash = Context::new(&SHA256);
    if carrier == Carrier::Quic {
        hash.update(b"quic");
    }
    hash.update(match tls.client_auth {
        ClientAuth::Off => b"off",
        ClientAuth::Optional(_) => b"opt",
        ClientAuth::Required(_) => b"req",
    });
    // A client that was revoked since must not come back with a ticket.
    for part in [roots, crls] {
        hash.update(&(part.len() as u64).to_be_bytes());
        for der in part {
            hash.update(&(der.0.len() as u64).to_be_bytes());
            hash.update(&der.0);
        }
    }
    let mut basis = [0; 32];
    basis.copy_from_slice(hash.finish().as_ref());
    basis
}

#[cfg(test)]
mod tests;
