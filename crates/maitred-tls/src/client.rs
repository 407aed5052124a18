//! Clients' certificates: whether they are checked, and what of them is passed to applications.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::ServerConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::NoClientAuth;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer, X509Certificate};

use maitred_base::pki::{Bytes, clients, hex, rfc_4514};
use maitred_config::ClientAuth;

/// Longest subject that is passed on, in bytes. A longer one is left out as a whole, because its beginning may be another
/// client's name.
const SUBJECT_BYTES_MAX: usize = 1024;

/// The fields that tell an application about its client's certificate, in the order of [`Identity::fields`]; there are none
/// without one. A request that comes with one of them is lying.
pub const FIELDS: [&str; 4] =
    ["X-SSL-Client-Verify", "X-SSL-Client-S-DN", "X-SSL-Client-Serial", "X-SSL-Client-Fingerprint"];

/// The identity that a client has shown, with a certificate that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The subject, as RFC 4514 writes it, in ASCII: `CN=Alice,O=Example`. Empty if it has more than [`SUBJECT_BYTES_MAX`] bytes.
    pub subject: String,
    /// The serial number, in hexadecimal capitals, as OpenSSL shows it.
    pub serial: String,
    /// SHA-256 of the certificate, in hexadecimal.
    pub fingerprint: String,
}

/// Checks clients' certificates as configured ([`clients::verifier`]).
///
/// # Errors
/// A text, if no root or a list cannot be used.
pub fn verifier(
    wanted: &ClientAuth,
    roots: &[Bytes],
    crls: &[Bytes],
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    match wanted {
        ClientAuth::Off => Ok(Arc::new(NoClientAuth)),
        ClientAuth::Optional(_) => clients::verifier(true, roots, crls),
        ClientAuth::Required(_) => clients::verifier(false, roots, crls),
    }
}

impl Identity {
    /// The client's identity in a session whose handshake is complete; `None` if the client has shown no certificate.
    pub fn of(session: &ServerConnection) -> Option<Identity> {
        Identity::read(session.peer_certificates()?.first()?)
    }

    /// The same of what the QUIC library has of the client: its chain, as `peer_identity` of
    /// [`quinn_proto::crypto::Session`] gives it.
    pub fn of_chain(chain: &dyn std::any::Any) -> Option<Identity> {
        Identity::read(chain.downcast_ref::<Vec<CertificateDer<'static>>>()?.first()?)
    }

    fn read(der: &CertificateDer<'_>) -> Option<Identity> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let subject = rfc_4514(parsed.subject());
        Some(Identity {
            subject: if subject.len() <= SUBJECT_BYTES_MAX { subject } else { String::new() },
            serial: serial(parsed.raw_serial()),
            fingerprint: hex(digest(&SHA256, der).as_ref()),
        })
    }

    /// The values of [`FIELDS`].
    pub fn fields(&self) -> [&str; 4] {
        ["SUCCESS", &self.subject, &self.serial, &self.fingerprint]
    }
}

/// The number without the zero byte that only says that it is positive.
fn serial(der: &[u8]) -> String {
    let digits = hex(match der {
        [0, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    });
    digits.to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SerialNumber};

    use super::*;

    fn identity(change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        change(&mut params);
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        Identity::read(made.der()).unwrap()
    }

    #[test]
    fn a_subject_is_written_as_openssl_does() {
        let found = identity(|params| {
            let name = &mut params.distinguished_name;
            name.push(DnType::CountryName, "DE");
            name.push(DnType::OrganizationName, "Example, Inc.");
            name.push(DnType::CustomDnType(vec![0, 9, 2342, 19200300, 100, 1, 1]), "alice");
            name.push(DnType::CommonName, " Zoë #1 \r\nX-Evil: 1");
            params.serial_number = Some(SerialNumber::from_slice(&[0x00, 0xab, 0x01]));
        });
        assert_eq!(found.subject, "CN=\\ Zo\\C3\\AB #1 \\0D\\0AX-Evil: 1,UID=alice,O=Example\\, Inc.,C=DE");
        assert_eq!(found.serial, "AB01");
        assert_eq!(found.fingerprint.len(), 64);
    }

    #[test]
    fn an_unknown_kind_of_attribute_is_shown_by_its_number() {
        let found = identity(|params| {
            params.distinguished_name.push(DnType::CustomDnType(vec![1, 2, 3, 4]), "x");
        });
        assert_eq!(found.subject, "1.2.3.4=#0c0178");
    }

    #[test]
    fn a_subject_that_is_too_long_is_left_out() {
        let found = identity(|params| {
            params.distinguished_name.push(DnType::CommonName, "a".repeat(SUBJECT_BYTES_MAX))
        });
        assert_eq!(found.subject, "");
        assert_eq!(found.fields()[0], "SUCCESS");
    }
}
