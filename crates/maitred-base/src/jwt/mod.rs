//! Signed tokens that say who a client is: JSON Web Tokens (RFC 7519) and the keys that they are checked by. Pure: the time comes
//! with each call.
//!
//! | file | what it holds |
//! |---|---|
//! | [`keys`] | sets of public keys (RFC 7517), read and checked |
//! | [`token`] | a token, its signature and its claims: **start reading here** |
//! | [`claims`] | what a token says, as rules and fields of requests see it |
//! | [`fuzzing`] | what the fuzz target and a seeded test throw arbitrary bytes at |
//!
//! Three algorithms are known: RS256 and ES256 (RFC 7518 sections 3.3, 3.4) and EdDSA with Ed25519 (RFC 8037 section 3.1). Which
//! one a token has to be signed with is what its key says; that the token says another is a reason to refuse it (RFC 8725 section
//! 3.1). So `none`, and an HMAC whose secret would be a public key, cannot be said at all.

pub mod claims;
pub mod fuzzing;
pub mod keys;
pub mod token;

#[cfg(test)]
pub(crate) mod testing;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// How tokens are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    /// RSA with PKCS #1 v1.5 and SHA-256.
    Rs256,
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// All of them.
    pub(crate) const ALL: [Algorithm; 3] = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];

    /// The algorithm's name in `alg` (RFC 7518 section 3.1, RFC 8037 section 3.1).
    pub(crate) fn name(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Es256 => "ES256",
            Algorithm::EdDsa => "EdDSA",
        }
    }

    /// The one of this name; names are compared with case.
    pub fn of(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// Base64url without padding (RFC 7515 section 2).
fn decode(text: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
