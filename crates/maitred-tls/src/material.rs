//! What the master hands to a worker process for TLS: keys and certificates, the roots of clients' certificates, the seed of
//! the keys of session tickets, and the secret of QUIC.

use std::fs::File;
use std::io;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use maitred_sys::memfile;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::client;
use super::tickets::Seed;
use super::upstream::UpstreamMaterial;
use crate::quic::secrets::Secret;
use maitred_base::pki::{Bytes, Pair, files};
use maitred_config::{Certificate, ClientAuth, Config, certificate_path};

/// Largest material, in bytes: a thousand sites with a chain of four certificates each have a quarter of it.
const MATERIAL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Material {
    /// One per site: its certificates, in the order of the file.
    pub sites: Vec<Vec<Pair>>,
    /// One per listener: the certificates that clients' certificates have to lead to.
    pub client_roots: Vec<Vec<Bytes>>,
    /// One per listener: the revocation lists that clients' certificates must not be on.
    #[serde(default)]
    pub client_crls: Vec<Vec<Bytes>>,
    /// Certificates that answer a challenge of a certificate authority (TLS-ALPN-01, RFC 8737), by the name they are for.
    pub challenges: Vec<(String, Pair)>,
    /// Certificates that were made on demand, by their names.
    #[serde(default)]
    pub on_demand: Vec<(String, Pair)>,
    /// One per pool: what servers are spoken to with, if that is TLS.
    #[serde(default)]
    pub upstreams: Vec<Option<UpstreamMaterial>>,
    /// Where the keys of session tickets come from.
    pub tickets: Seed,
    /// What connection ids, stateless resets and tokens of QUIC are made with. The secret has no default: a secret that is not
    /// the master's would be none, or not that of the processes before.
    pub datagrams: Secret,
}

/// Bytes on their way to a file, overwritten when they are there.
struct Wiped<'a> {
    file: &'a mut File,
    pending: Zeroizing<Vec<u8>>,
}

/// Bytes that wait to be written.
const PENDING_BYTES: usize = 16 * 1024;

impl Write for Wiped<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.pending.len() >= PENDING_BYTES {
            self.flush()?;
        }
        let room = PENDING_BYTES.saturating_sub(self.pending.len()).min(bytes.len());
        self.pending.extend_from_slice(bytes.get(..room).unwrap_or_default());
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.pending)?;
        self.pending.clear();
        Ok(())
    }
}

impl Material {
    /// Reads all files that the configuration names. `self_signed` is what [`Certificate::SelfSigned`] stands for.
    ///
    /// # Errors
    /// A text for the operator, about the first file that cannot be used.
    pub fn load(
        config: &Config,
        self_signed: Option<&Pair>,
        tickets: Seed,
        datagrams: Secret,
    ) -> Result<Material, String> {
        let sites = sites(config, self_signed)?;
        let roots = |listen: &maitred_config::Listen| match listen.tls.as_ref().map(|tls| &tls.client_auth) {
            None | Some(ClientAuth::Off) => Ok(Vec::new()),
            Some(ClientAuth::Optional(path) | ClientAuth::Required(path)) => {
                let pem = files::read(path)
                    .map_err(|error| format!("client_ca: {}", files::unreadable(&error, path)))?;
                let found = files::certificates(&pem)
                    .map_err(|fault| format!("client_ca: {}: {}", path.display(), fault.text))?;
                Ok(found.into_iter().map(|der| Bytes(der.to_vec())).collect())
            }
        };
        let client_roots = config.listens.iter().map(roots).collect::<Result<_, String>>()?;
        let crls = |listen: &maitred_config::Listen| match listen
            .tls
            .as_ref()
            .and_then(|tls| tls.client_crl.as_ref())
        {
            None => Ok(Vec::new()),
            Some(path) => {
                let pem = files::read(path)
                    .map_err(|error| format!("client_crl: {}", files::unreadable(&error, path)))?;
                let found = files::revocation_lists(&pem)
                    .map_err(|fault| format!("client_crl: {}: {}", path.display(), fault.text))?;
                Ok(found.into_iter().map(|der| Bytes(der.to_vec())).collect())
            }
        };
        let client_crls: Vec<Vec<Bytes>> = config.listens.iter().map(crls).collect::<Result<_, String>>()?;
        for (listen, crls) in config.listens.iter().zip(&client_crls) {
            if let (Some(tls), [_, ..]) = (&listen.tls, crls.as_slice()) {
                // Not every list that is one can be used; worker processes get none that cannot.
                client::verifier(&tls.client_auth, &roots(listen)?, crls)?;
            }
        }
        let on_demand = on_demand(config);
        let upstreams = config.pools.iter().map(UpstreamMaterial::load).collect::<Result<_, String>>()?;
        let challenges = Vec::new();
        Ok(Material {
            sites,
            client_roots,
            client_crls,
            challenges,
            on_demand,
            upstreams,
            tickets,
            datagrams,
        })
    }

    /// As a sealed memory file, to hand on.
    ///
    /// # Errors
    /// What memfd_create(2) and its like say.
    pub fn seal(&self) -> io::Result<OwnedFd> {
        memfile::sealed_by("maitred-tls", |file| {
            let mut wiped = Wiped { file, pending: Zeroizing::new(Vec::with_capacity(PENDING_BYTES)) };
            serde_json::to_writer(&mut wiped, self)?;
            wiped.flush()
        })
    }

    /// From a memory file that [`Material::seal`] made.
    ///
    /// # Errors
    /// What read(2) says; `InvalidData` if it is something else.
    pub fn open(file: OwnedFd) -> io::Result<Material> {
        let text = Zeroizing::new(memfile::read(file, MATERIAL_BYTES_MAX)?);
        serde_json::from_slice(&text).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

/// The certificates of each site.
fn sites(config: &Config, self_signed: Option<&Pair>) -> Result<Vec<Vec<Pair>>, String> {
    let mut sites = Vec::new();
    for site in &config.sites {
        let mut pairs = Vec::new();
        for certificate in &site.certificates {
            match certificate {
                Certificate::Automatic(path) => pairs.extend(automatic(path)),
                other => pairs.push(load(other, self_signed)?),
            }
        }
        sites.push(pairs);
    }
    Ok(sites)
}

/// What is stored for names of sites on demand. Others of the same directory are of sites that have been there.
fn on_demand(config: &Config) -> Vec<(String, Pair)> {
    let Some(most) = config.on_demand_names_max() else { return Vec::new() };
    let names = files::automatic_names(&config.server.state);
    let names = names.into_iter().filter(|name| config.is_on_demand(name)).take(most);
    let pairs = names.filter_map(|name| {
        let pair = automatic(&certificate_path(&config.server.state, &name))?;
        Some((name, pair))
    });
    pairs.collect()
}

/// An automatic certificate may not be there yet, and one that is broken is replaced by the agent that gets them.
fn automatic(path: &Path) -> Option<Pair> {
    match files::load(path, path, None, &files::read_of_agent) {
        Ok((pair, _)) => Some(pair),
        Err((fault, _)) => {
            if path.exists() {
                tracing::warn!("the automatic certificate {} cannot be used: {}", path.display(), fault.text);
            }
            None
        }
    }
}

fn load(certificate: &Certificate, self_signed: Option<&Pair>) -> Result<Pair, String> {
    match certificate {
        Certificate::SelfSigned => {
            self_signed.cloned().ok_or_else(|| "the self-signed certificate was not made".to_owned())
        }
        Certificate::Automatic(path) => automatic(path).ok_or_else(|| "it is not there yet".to_owned()),
        Certificate::Files { certificate, key, ocsp } => {
            match files::load(certificate, key, ocsp.as_deref(), &files::read) {
                Ok((pair, _)) => Ok(pair),
                // The text names the file itself where it cannot be read.
                Err((fault, path)) if fault.text.ends_with(&path.display().to_string()) => Err(fault.text),
                Err((fault, path)) => Err(format!("{}: {}", path.display(), fault.text)),
            }
        }
    }
}
