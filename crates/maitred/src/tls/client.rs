//! Clients' certificates: who may have signed them, and what applications are told of them.

use std::fmt::Write as _;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConnection};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use super::material::{Bytes, hex};
use crate::config::ClientAuth;

/// Longest subject that is passed on, in bytes. A longer one is left out as a whole, because its beginning may be somebody
/// else's name.
const SUBJECT_BYTES_MAX: usize = 1024;

/// The fields that tell an application about its client's certificate, in the order of [`Identity::fields`]; there are none
/// without one. A request that comes with one of them is lying.
pub const FIELDS: [&str; 4] =
    ["X-SSL-Client-Verify", "X-SSL-Client-S-DN", "X-SSL-Client-Serial", "X-SSL-Client-Fingerprint"];

/// Who a client has shown itself to be, with a certificate that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The subject, as RFC 4514 writes it, in ASCII: `CN=Alice,O=Example`. Empty if it has more than [`SUBJECT_BYTES_MAX`] bytes.
    pub subject: String,
    /// The serial number, in hexadecimal capitals, as OpenSSL shows it.
    pub serial: String,
    /// SHA-256 of the certificate, in hexadecimal.
    pub fingerprint: String,
}

/// Checks clients' certificates as configured. With revocation lists, all certificates but the root have to be on none, and to
/// have one of their issuer's that is not out of date: what cannot be known is not good, as OpenSSL has it.
///
/// # Errors
/// A text, if no root or a list cannot be used.
pub fn verifier(
    wanted: &ClientAuth,
    roots: &[Bytes],
    crls: &[Bytes],
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let optional = match wanted {
        ClientAuth::Off => return Ok(Arc::new(NoClientAuth)),
        ClientAuth::Optional(_) => true,
        ClientAuth::Required(_) => false,
    };
    let mut store = RootCertStore::empty();
    for root in roots {
        let added = store.add(CertificateDer::from(root.0.as_slice()));
        added.map_err(|error| format!("client_ca: a certificate cannot be used: {error}"))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(store), Arc::clone(super::provider()));
    let builder = if optional { builder.allow_unauthenticated() } else { builder };
    let builder = match crls {
        [] => builder,
        crls => builder
            .with_crls(crls.iter().map(|list| CertificateRevocationListDer::from(list.0.clone())))
            .enforce_revocation_expiration(),
    };
    builder.build().map_err(|error| match crls {
        [] => format!("client_ca: {error}"),
        _ => format!("client_ca, client_crl: {error}"),
    })
}

impl Identity {
    /// Who is at the other end of a session whose handshake is complete; `None` if the client has shown no certificate.
    pub fn of(session: &ServerConnection) -> Option<Identity> {
        Identity::read(session.peer_certificates()?.first()?)
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

/// A name in text: the most specific part first (RFC 4514 section 2.1).
pub(super) fn rfc_4514(name: &X509Name<'_>) -> String {
    let parts: Vec<String> = name
        .iter_rdn()
        .map(|part| {
            let attributes: Vec<String> = part.iter().map(attribute).collect();
            attributes.join("+")
        })
        .collect();
    parts.into_iter().rev().collect::<Vec<_>>().join(",")
}

/// `CN=Alice`; a type without a short name stands as `1.2.3=#` with the value's DER.
fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let kind = attribute.attr_type().to_id_string();
    match (short_name(&kind), attribute.as_str()) {
        (Some(short), Ok(text)) => format!("{short}={}", escaped(text)),
        _ => {
            let value = attribute.attr_value();
            let der = x509_parser::der_parser::asn1_rs::ToDer::to_der_vec(value).unwrap_or_default();
            format!("{kind}=#{}", hex(&der))
        }
    }
}

/// The table of RFC 4514 section 3, and those that OpenSSL, and so nginx and HAProxy, write in the same way.
fn short_name(oid: &str) -> Option<&'static str> {
    Some(match oid {
        "2.5.4.3" => "CN",
        "2.5.4.4" => "SN",
        "2.5.4.5" => "serialNumber",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "street",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "2.5.4.12" => "title",
        "2.5.4.42" => "GN",
        "0.9.2342.19200300.100.1.1" => "UID",
        "0.9.2342.19200300.100.1.25" => "DC",
        "1.2.840.113549.1.9.1" => "emailAddress",
        _ => return None,
    })
}

/// RFC 4514 section 2.4. Bytes that are not printable ASCII are escaped too, so that the text can stand in a header field.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for (at, byte) in text.bytes().enumerate() {
        let first = at == 0;
        let last = at + 1 == text.len();
        match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b'#' if first => out.push_str("\\#"),
            b' ' if first || last => out.push_str("\\ "),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\{byte:02X}");
            }
        }
    }
    out
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
