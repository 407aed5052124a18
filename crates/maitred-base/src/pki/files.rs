//! Certificates and keys from files: read, and checked against one another.
//!
//! The configuration checks them when it is read, so that an error names its place; the master reads them again for the
//! material that it hands on. Configuration and master use these functions.

use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::{Error, InconsistentKeys};
use x509_parser::prelude::{CertificateRevocationList, FromDer, GeneralName, X509Certificate};
use zeroize::{Zeroize as _, Zeroizing};

use super::bytes::Bytes;
use super::name::rfc_4514;
use super::pair::{Pair, check_match};

/// Largest file that is read: a bundle of a thousand certificates has less.
pub const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// What is wrong with a file, and what may help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which file.
    pub part: Part,
    /// What is wrong, to follow the name of its key: "there is no such file".
    pub text: String,
    /// What to do about it; may be empty.
    pub hint: &'static str,
}

/// The files of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `certificate`, or `client_ca`
    Certificate,
    /// `key`
    Key,
    /// `ocsp`
    Ocsp,
}

/// What a certificate says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The first second at which it is good, in Unix time.
    pub not_before: i64,
    /// The last one.
    pub not_after: i64,
    /// The names that it is for, as it has them.
    pub names: Vec<String>,
    /// Whether each certificate of the file is signed by the one behind it, as far as their names say.
    pub in_order: bool,
    /// The certificate itself.
    der: CertificateDer<'static>,
}

/// Reads a whole file of at most [`FILE_BYTES_MAX`] bytes.
///
/// # Errors
/// What open(2) or read(2) say; `FileTooLarge` for a larger one.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let file = std::fs::File::open(path)?;
    // At once as large as it gets: a vector that grows leaves copies behind, and there may be a key in it.
    let length = file.metadata()?.len().min(FILE_BYTES_MAX);
    let mut content = Vec::with_capacity(usize::try_from(length).unwrap_or(0).saturating_add(64));
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content)?;
    match content.len() as u64 > FILE_BYTES_MAX {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(content),
    }
}

/// The names that the agent has certificates of, below its directory `state`, sorted; none if it cannot be read. A name has no
/// byte that could lead elsewhere.
pub fn automatic_names(state: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(state.join("certificates")) else { return Vec::new() };
    let plain = |name: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
        !name.starts_with(['.', '_']) && name.bytes().all(plain)
    };
    let names = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(".pem").filter(|name| plain(name)).map(str::to_owned)
    });
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

/// The same of a file that the process for certificates has put there: the master may be root, and that process may be under an
/// attacker's control, who would have it read another file, or wait at a pipe. `path` is two levels below the directory of that
/// process.
///
/// # Errors
/// As [`read`]; `ELOOP` if there is a symbolic link on the way.
pub fn read_of_agent(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let base = path.ancestors().nth(2).ok_or(io::ErrorKind::InvalidInput)?;
    let below = path.strip_prefix(base).map_err(|_| io::ErrorKind::InvalidInput)?;
    let directory = std::fs::File::open(base)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let file = std::fs::File::from(rustix::fs::openat2(&directory, below, flags, Mode::empty(), resolve)?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("this is not a regular file"));
    }
    let mut content =
        Vec::with_capacity(usize::try_from(found.len().min(FILE_BYTES_MAX)).unwrap_or(0).saturating_add(64));
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content)?;
    match content.len() as u64 > FILE_BYTES_MAX {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(content),
    }
}

/// The message to the operator about a file that cannot be read.
pub fn unreadable(error: &io::Error, path: &Path) -> String {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".into(),
        io::ErrorKind::IsADirectory => "this is a directory".into(),
        io::ErrorKind::PermissionDenied => "it may not be read: permission denied".into(),
        io::ErrorKind::FileTooLarge => format!("it has more than {FILE_BYTES_MAX} bytes"),
        _ => error.to_string(),
    };
    format!("{why}: {}", path.display())
}

/// The certificates of a PEM file, at least one.
///
/// # Errors
/// A [`Fault`] of the part [`Part::Certificate`].
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let fault = |text: String, hint| Fault { part: Part::Certificate, text, hint };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| fault(format!("this is not valid PEM: {error}"), ""))?;
    match found.is_empty() {
        false => Ok(found),
        true if pem.first() == Some(&0x30) => Err(fault(
            "there is no certificate in PEM in it".into(),
            "this looks like DER: `openssl x509 -inform der -in FILE -out FILE.pem` converts it",
        )),
        true => Err(fault(
            "there is no certificate in PEM in it".into(),
            "it starts with -----BEGIN CERTIFICATE-----",
        )),
    }
}

/// The certificate revocation lists of a PEM file, one at least (RFC 5280 section 5).
///
/// # Errors
/// A [`Fault`].
pub fn revocation_lists(pem: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, Fault> {
    let fault = |text: String, hint| Fault { part: Part::Certificate, text, hint };
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| fault(format!("this is not valid PEM: {error}"), ""))?;
    if found.is_empty() {
        let hint = match pem.first() {
            Some(0x30) => "this looks like DER: `openssl crl -inform der -in FILE -out FILE.pem` converts it",
            _ => "it starts with -----BEGIN X509 CRL-----",
        };
        return Err(fault("there is no revocation list in PEM in it".into(), hint));
    }
    Ok(found)
}

/// What is said of a revocation list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// Whose it is, as RFC 4514 writes it.
    pub issuer: String,
    /// The same in DER.
    pub issuer_der: Vec<u8>,
    /// When the next one is due, in Unix time; until then this one is good.
    pub next_update: Option<i64>,
}

impl List {
    /// Reads one in DER; `None` if it is none.
    pub fn read(der: &[u8]) -> Option<List> {
        let (_, list) = CertificateRevocationList::from_der(der).ok()?;
        Some(List {
            issuer: rfc_4514(list.issuer()),
            issuer_der: list.issuer().as_raw().to_vec(),
            next_update: list.next_update().map(|time| time.timestamp()),
        })
    }
}

/// The subject of a certificate in DER: as DER, and as RFC 4514 writes it. `None` if it is none.
pub fn subject(der: &[u8]) -> Option<(Vec<u8>, String)> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some((certificate.subject().as_raw().to_vec(), rfc_4514(certificate.subject())))
}

/// The private key of a PEM file: PKCS #8, PKCS #1 (RSA) or SEC 1 (EC).
///
/// # Errors
/// A [`Fault`] of the part [`Part::Key`].
pub fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, Fault> {
    const ENCRYPTED: [&[u8]; 2] = [b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED"];
    let fault = |text: String, hint| Fault { part: Part::Key, text, hint };
    if ENCRYPTED.iter().any(|mark| memchr::memmem::find(pem, mark).is_some()) {
        return Err(fault(
            "the key is encrypted with a passphrase; Maitred needs a key without one".into(),
            "`openssl pkey -in FILE -out FILE.plain` takes it off; keep that file readable by root only",
        ));
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => fault(
            "there is no private key in PEM in it".into(),
            "it starts with -----BEGIN PRIVATE KEY-----, or with the kind of key before PRIVATE",
        ),
        error => fault(format!("this is not valid PEM: {error}"), ""),
    })
}

/// An OCSP response that says that all went well (RFC 6960 section 4.2.1): a SEQUENCE that begins with the ENUMERATED 0.
///
/// # Errors
/// A [`Fault`] of the part [`Part::Ocsp`].
pub(crate) fn staple(der: Vec<u8>) -> Result<Bytes, Fault> {
    let fault = |text: &str, hint| Fault { part: Part::Ocsp, text: text.into(), hint };
    let body = match der.get(..2) {
        Some([0x30, length]) if *length < 0x80 => Some(2),
        Some([0x30, length]) => Some(2 + usize::from(*length & 0x7f)),
        _ => None,
    };
    match body.and_then(|at| der.get(at..at.checked_add(3)?)) {
        Some([0x0a, 1, 0]) => Ok(Bytes(der)),
        Some([0x0a, 1, _]) => Err(fault("the responder did not answer well", "ask it again")),
        _ => Err(fault(
            "this is not an OCSP response in DER",
            "`openssl ocsp -issuer CA.pem -cert CERT.pem -url URL -respout FILE` gets one",
        )),
    }
}

/// Puts certificates, key and staple together, if they go together.
///
/// # Errors
/// A [`Fault`] of the part that is wrong; that they do not match is the key's.
pub(crate) fn pair(
    chain: Vec<CertificateDer<'static>>,
    mut key: PrivateKeyDer<'static>,
    ocsp: Option<Bytes>,
) -> Result<(Pair, Leaf), Fault> {
    let leaf = chain.first().ok_or(Fault {
        part: Part::Certificate,
        text: "there is no certificate in it".into(),
        hint: "",
    })?;
    let leaf = Leaf { in_order: in_order(&chain), ..Leaf::read(leaf)? };
    let made = Pair {
        chain: chain.iter().map(|der| Bytes(der.to_vec())).collect(),
        key: Bytes(key.secret_der().to_vec()),
        ocsp,
    };
    key.zeroize();
    match made.unchecked().and_then(|made| check_match(&made)) {
        Ok(()) => Ok((made, leaf)),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(Fault {
            part: Part::Key,
            text: "this is not the key of the certificate".into(),
            hint: "`certificate` begins with the site's own certificate, and those of its issuers follow",
        }),
        Err(Error::InvalidCertificate(why)) => Err(Fault {
            part: Part::Certificate,
            text: format!("the certificate cannot be used: {why}"),
            hint: "",
        }),
        Err(error) => Err(Fault {
            part: Part::Key,
            text: format!("the key cannot be used: {error}"),
            hint: "RSA keys of 2048 to 8192 bits, ECDSA keys on P-256, P-384 and P-521, and Ed25519 keys are known",
        }),
    }
}

/// The public key of a certificate, with what says of which kind it is (SubjectPublicKeyInfo, RFC 5280 section 4.1.2.7), in DER.
pub fn public_key(der: &[u8]) -> Option<Vec<u8>> {
    let (_, parsed) = X509Certificate::from_der(der).ok()?;
    Some(parsed.public_key().raw.to_vec())
}

/// Reads and checks the files of one certificate. The path of the file that is wrong comes with the error.
///
/// # Errors
/// A [`Fault`] of the file that cannot be read or used.
pub fn load<'p>(
    certificate: &'p Path,
    key: &'p Path,
    ocsp: Option<&'p Path>,
    read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<(Pair, Leaf), (Fault, &'p Path)> {
    let get = |part, path: &'p Path| {
        read(path).map_err(|error| (Fault { part, text: unreadable(&error, path), hint: "" }, path))
    };
    // The key may be in the same file.
    let chain = Zeroizing::new(get(Part::Certificate, certificate)?);
    let chain = certificates(&chain).map_err(|fault| (fault, certificate))?;
    let pem = Zeroizing::new(get(Part::Key, key)?);
    let der = private_key(&pem).map_err(|fault| (fault, key))?;
    let staple = match ocsp {
        Some(path) => Some(staple(get(Part::Ocsp, path)?).map_err(|fault| (fault, path))?),
        None => None,
    };
    pair(chain, der, staple)
        .map_err(|fault| if fault.part == Part::Key { (fault, key) } else { (fault, certificate) })
}

impl Leaf {
    /// # Errors
    /// A [`Fault`] if this is no certificate.
    pub fn read(der: &CertificateDer<'_>) -> Result<Leaf, Fault> {
        let parsed = X509Certificate::from_der(der);
        let (_, parsed) = parsed.map_err(|error| Fault {
            part: Part::Certificate,
            text: format!("this is not a certificate: {error}"),
            hint: "",
        })?;
        let names = parsed.subject_alternative_name().ok().flatten();
        let names = names.iter().flat_map(|extension| &extension.value.general_names);
        let validity = parsed.validity();
        Ok(Leaf {
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            names: names.filter_map(shown).collect(),
            in_order: true,
            der: der.clone().into_owned(),
        })
    }

    /// Whether a client that asks for such a host takes the certificate. `.example.com` stands for the names with one more
    /// label, since no certificate is good for others.
    pub fn covers(&self, host: &str) -> bool {
        let name = match host.starts_with('.') {
            false => host.trim_matches(['[', ']']).to_owned(),
            true => format!("any-label-at-all{host}"),
        };
        let Ok(name) = ServerName::try_from(name) else { return false };
        ParsedCertificate::try_from(&self.der).is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
    }

    /// Whether the certificate is good at this moment, in Unix time.
    pub fn is_good_at(&self, unix_secs: u64) -> bool {
        let now = i64::try_from(unix_secs).unwrap_or(i64::MAX);
        (self.not_before..=self.not_after).contains(&now)
    }
}

/// Whether each certificate names the one behind it as its issuer. A client may find a way through others, but need not.
fn in_order(chain: &[CertificateDer<'_>]) -> bool {
    let names = |der: &CertificateDer<'_>| {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        Some((parsed.issuer().as_raw().to_vec(), parsed.subject().as_raw().to_vec()))
    };
    let names: Vec<_> = chain.iter().map(names).collect();
    names.windows(2).all(|pair| match pair {
        [Some((issuer, _)), Some((_, subject))] => issuer == subject,
        _ => false,
    })
}

/// A name of a certificate, for people.
fn shown(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(|octets| std::net::IpAddr::from(octets).to_string());
            let v6 = || <[u8; 16]>::try_from(*bytes).map(|octets| std::net::IpAddr::from(octets).to_string());
            v4.or_else(|_| v6()).ok()
        }
        _ => None,
    }
}
