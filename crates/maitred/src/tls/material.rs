//! What the master hands to a worker process for TLS: keys and certificates, the roots of clients' certificates, and the
//! seed of the keys of session tickets.

use std::fmt;
use std::fs::File;
use std::io;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use maitred_sys::memfile;
use rustls::InconsistentKeys;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::{Zeroize as _, Zeroizing};

use super::tickets::Seed;
use super::{client, files};
use crate::config::{Certificate, ClientAuth, Config};

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
    /// Where the keys of session tickets come from.
    pub tickets: Seed,
}

/// Certificates with the key of the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The server's certificate, and those that lead from it to a root, in DER.
    pub chain: Vec<Bytes>,
    /// The private key, in DER: PKCS #8, PKCS #1 or SEC 1.
    pub key: Bytes,
    /// An OCSP response to staple, in DER.
    pub ocsp: Option<Bytes>,
}

/// Bytes that are written as hexadecimal digits, and not shown. What they were is overwritten when they are dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Drop for Bytes {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes", self.0.len())
    }
}

impl Serialize for Bytes {
    /// Digit by digit to where they go, with no text of all of them in between.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&Hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Digits)
    }
}

/// Takes a text where it stands.
struct Digits;

impl Visitor<'_> for Digits {
    type Value = Bytes;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("hexadecimal digits")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Bytes, E> {
        unhex(text).ok_or_else(|| E::custom("not hexadecimal"))
    }
}

/// Shows bytes as hexadecimal digits, in lower case.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |value: u8| char::from(*DIGITS.get(usize::from(value)).unwrap_or(&b'0'));
        self.0.iter().try_for_each(|byte| {
            fmt::Write::write_char(out, digit(byte >> 4))?;
            fmt::Write::write_char(out, digit(byte & 15))
        })
    }
}

/// Hexadecimal digits, in lower case.
pub fn hex(bytes: &[u8]) -> String {
    Hex(bytes).to_string()
}

fn unhex(text: &str) -> Option<Bytes> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    // At once as large as it gets: one that grows leaves copies behind.
    let mut bytes = Bytes(Vec::with_capacity(pairs.len()));
    for [high, low] in pairs {
        bytes.0.push(digit(high)? << 4 | digit(low)?);
    }
    Some(bytes)
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
    pub fn load(config: &Config, self_signed: Option<&Pair>, tickets: Seed) -> Result<Material, String> {
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
        let roots = |listen: &crate::config::Listen| match listen.tls.as_ref().map(|tls| &tls.client_auth) {
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
        let crls = |listen: &crate::config::Listen| match listen
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
        Ok(Material { sites, client_roots, client_crls, challenges: Vec::new(), tickets })
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

/// An automatic certificate may not be there yet, and one that is broken is replaced by whoever gets them.
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

impl Pair {
    /// As rustls takes it, for a challenge: its certificate has a critical extension (RFC 8737 section 3), which whoever checks
    /// that certificate and key fit together does not know.
    ///
    /// # Errors
    /// A text, if the key cannot be used.
    pub fn for_challenge(&self) -> Result<CertifiedKey, String> {
        self.unchecked().map_err(|error| error.to_string())
    }

    /// As rustls takes it.
    ///
    /// # Errors
    /// A text, if certificate and key cannot be used; what [`Material::load`] gave back can be.
    pub fn certified(&self) -> Result<CertifiedKey, String> {
        let mut made = self.unchecked().map_err(|error| error.to_string())?;
        check_match(&made).map_err(|error| error.to_string())?;
        made.ocsp = self.ocsp.as_ref().map(|der| der.0.clone());
        Ok(made)
    }

    /// Certificates and key, whether or not they go together. Nothing of the key is copied but by the library.
    pub(super) fn unchecked(&self) -> Result<CertifiedKey, rustls::Error> {
        let chain = self.chain.iter().map(|der| CertificateDer::from(der.0.clone())).collect();
        let key = PrivateKeyDer::try_from(self.key.0.as_slice())
            .map_err(|error| rustls::Error::General(error.to_owned()))?;
        Ok(CertifiedKey::new(chain, any_supported_type(&key)?))
    }
}

/// Whether the key is that of the first certificate, as far as that can be seen.
pub(super) fn check_match(made: &CertifiedKey) -> Result<(), rustls::Error> {
    match made.keys_match() {
        // As the library does in `CertifiedKey::from_der`.
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(()),
        Err(error) => Err(error),
    }
}
