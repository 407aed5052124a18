//! Keys, certificate requests, and what stands in a certificate.

use instant_acme::CertificateIdentifier;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair, RsaKeySize};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

use maitred_base::pki::{Bytes, Pair};
use maitred_config::KeyType;

/// A key, and the request for a certificate of it.
pub(crate) struct Request {
    /// The key, in PEM (PKCS #8).
    pub key: String,
    /// The request, in DER (RFC 2986).
    pub request: Vec<u8>,
}

/// What is to be known of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The first second of the certificate, in Unix time.
    pub not_before: u64,
    /// The last second of the certificate.
    pub not_after: u64,
    /// The DNS names that it is for, in lower case, sorted.
    pub names: Vec<String>,
    /// Some of its serial number; differs from certificate to certificate.
    pub seed: u64,
    /// How it is called in renewal information (RFC 9773 section 4.1), if it has what that takes.
    pub identifier: Option<CertificateIdentifier<'static>>,
}

/// A new key and a request for these names.
///
/// # Errors
/// A text.
pub(crate) fn request(names: &[String], key_type: KeyType) -> Result<Request, String> {
    let key = match key_type {
        KeyType::P256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
        KeyType::P384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
        KeyType::Rsa2048 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048),
    };
    let key = key.map_err(|error| format!("making a key: {error}"))?;
    let request = params(names).and_then(|params| params.serialize_request(&key));
    let request = request.map_err(|error| format!("making a certificate request: {error}"))?;
    Ok(Request { key: key.serialize_pem(), request: request.der().to_vec() })
}

/// The certificate that answers a TLS-ALPN-01 challenge, and its key (RFC 8737 section 3). `digest` is the SHA-256 of the key
/// authorisation.
///
/// # Errors
/// A text.
pub(crate) fn for_challenge(name: &str, digest: &[u8]) -> Result<Pair, String> {
    let make = || {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = params(&[name.to_owned()])?;
        params.custom_extensions.push(CustomExtension::new_acme_identifier(digest));
        let chain = vec![Bytes(params.self_signed(&key)?.der().to_vec())];
        Ok::<_, rcgen::Error>(Pair { chain, key: Bytes(key.serialize_der()), ocsp: None })
    };
    make().map_err(|error| format!("making a certificate for a challenge: {error}"))
}

/// The names are alternative names, and nothing else stands in the subject.
fn params(names: &[String]) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params)
}

/// What the first certificate of a PEM text says.
///
/// # Errors
/// A text, when there is none or it cannot be read.
pub fn facts(pem: &str) -> Result<Facts, String> {
    let leaf = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| error.to_string())?;
    let (_, parsed) = X509Certificate::from_der(&leaf).map_err(|error| error.to_string())?;
    let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
    let alternative = parsed.subject_alternative_name().map_err(|error| error.to_string())?;
    let mut names: Vec<String> = alternative
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect();
    names.sort();
    let tail = parsed.raw_serial().iter().rev().take(8);
    Ok(Facts {
        not_before: seconds(parsed.validity().not_before),
        not_after: seconds(parsed.validity().not_after),
        names,
        seed: tail.fold(0, |seed, byte| (seed << 8) | u64::from(*byte)),
        identifier: CertificateIdentifier::try_from(&leaf).ok().map(CertificateIdentifier::into_owned),
    })
}

/// Whether the key is the one of the first certificate, both in PEM.
///
/// # Errors
/// A text, when either cannot be read.
pub fn is_key_of(key: &str, chain: &str) -> Result<bool, String> {
    let key = KeyPair::from_pem(key).map_err(|error| error.to_string())?;
    let leaf = CertificateDer::from_pem_slice(chain.as_bytes()).map_err(|error| error.to_string())?;
    let (_, parsed) = X509Certificate::from_der(&leaf).map_err(|error| error.to_string())?;
    Ok(*parsed.public_key().subject_public_key.data == *rcgen::PublicKeyData::der_bytes(&key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["b.example".to_owned(), "a.example".to_owned()]
    }

    #[test]
    fn a_certificate_says_its_names_and_times() {
        let key = KeyPair::generate().unwrap();
        let mut asked = params(&names()).unwrap();
        asked.not_before = rcgen::date_time_ymd(2026, 1, 1);
        asked.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let certificate = asked.self_signed(&key).unwrap().pem();
        let found = facts(&certificate).unwrap();
        assert_eq!(found.names, ["a.example", "b.example"]);
        assert_eq!((found.not_before, found.not_after), (1_767_225_600, 1_775_001_600));
        // The key before it is what the files have.
        assert_eq!(facts(&format!("{}{certificate}", key.serialize_pem())).unwrap(), found);
        assert!(is_key_of(&key.serialize_pem(), &certificate).unwrap());
        assert!(!is_key_of(&KeyPair::generate().unwrap().serialize_pem(), &certificate).unwrap());
    }

    #[test]
    fn requests_are_made_with_every_type_of_key() {
        for key_type in [KeyType::P256, KeyType::P384, KeyType::Rsa2048] {
            let made = request(&names(), key_type).unwrap();
            assert!(made.key.starts_with("-----BEGIN PRIVATE KEY-----"), "{key_type:?}");
            let (_, parsed) =
                x509_parser::certification_request::X509CertificationRequest::from_der(&made.request)
                    .unwrap();
            assert!(parsed.certification_request_info.subject.iter().next().is_none());
        }
    }

    #[test]
    fn a_challenge_is_answered_as_rfc_8737_section_3_has_it() {
        let pair = for_challenge("a.example", &[7; 32]).unwrap();
        assert!(pair.for_challenge().is_ok());
        let (_, parsed) = X509Certificate::from_der(&pair.chain[0].0).unwrap();
        let identifier =
            parsed.extensions().iter().find(|one| one.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
        let identifier = identifier.unwrap();
        assert!(identifier.critical);
        assert_eq!(identifier.value, [&[4, 32][..], &[7; 32]].concat(), "an octet string");
        let alternative = parsed.subject_alternative_name().unwrap().unwrap();
        assert_eq!(alternative.value.general_names, [GeneralName::DNSName("a.example")]);
    }

    #[test]
    fn what_is_no_certificate_is_an_error() {
        for text in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "nonsense"] {
            assert!(facts(text).is_err(), "{text}");
        }
    }
}
