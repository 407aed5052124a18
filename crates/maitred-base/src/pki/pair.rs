//! Certificates with their key.

use rustls::InconsistentKeys;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};

use super::bytes::Bytes;

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

impl Pair {
    /// As rustls takes it, for a challenge: its certificate has a critical extension (RFC 8737 section 3), which the check that
    /// certificate and key fit together does not know.
    ///
    /// # Errors
    /// A text, if the key cannot be used.
    pub fn for_challenge(&self) -> Result<CertifiedKey, String> {
        self.unchecked().map_err(|error| error.to_string())
    }

    /// As rustls takes it.
    ///
    /// # Errors
    /// A text, if certificate and key cannot be used; what [`super::files::load`] gave back can be.
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
