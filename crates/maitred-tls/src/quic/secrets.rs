//! The secret of a master, from which follow the keys of QUIC that must not change while it lives.
//!
//! The secret is not the seed of session tickets ([`crate::tickets`]), which moves on with time. A connection id is read by
//! each worker process that comes later, and by the program in the kernel that chooses a socket by it; a stateless reset is
//! only believed if it is made with the key of the process that has ended. The secret goes to worker processes with the keys of
//! TLS, and to the next image of the master in an upgrade.

use std::io;

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::ids::Mask;
use maitred_base::pki::Bytes;

/// Bytes of the secret.
const SECRET_BYTES: usize = 32;
/// Bytes of a key for HMAC-SHA-256: the block of the hash.
pub(crate) const RESET_KEY_BYTES: usize = 64;
/// Bytes of a key that further keys are derived from.
pub(crate) const TOKEN_KEY_BYTES: usize = 32;

/// See the module. The secret is made once, at the start of a master, and goes on over upgrades.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(Bytes);

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// If there are no random numbers.
    pub fn new() -> io::Result<Secret> {
        let mut bytes = vec![0; SECRET_BYTES];
        // From the kernel, as for `Seed`: a server without TLS must not wait for the library to collect entropy of its own.
        let read = getrandom(&mut bytes, GetRandomFlags::empty())?;
        if read < SECRET_BYTES {
            return Err(io::Error::other("there are no random numbers"));
        }
        Ok(Secret(Bytes(bytes)))
    }

    /// The constants by which connection ids are made and read.
    ///
    /// # Errors
    /// None that is known to happen.
    pub fn mask(&self) -> Result<Mask, Unspecified> {
        let bytes = self.derive::<12>(b"maitred quic ids")?;
        let (words, _) = bytes.as_chunks::<4>();
        let [xor, first, second] = words else { return Err(Unspecified) };
        Ok(Mask::new(u32::from_be_bytes(*xor), u32::from_be_bytes(*first), u32::from_be_bytes(*second)))
    }

    /// The key of stateless resets (RFC 9000 section 10.3), for HMAC-SHA-256.
    ///
    /// # Errors
    /// None that is known to happen.
    pub(crate) fn reset_key(&self) -> Result<Zeroizing<[u8; RESET_KEY_BYTES]>, Unspecified> {
        self.derive(b"maitred quic reset")
    }

    /// The key that those of address validation tokens are derived from (RFC 9000 section 8.1), by HKDF-SHA-256.
    ///
    /// # Errors
    /// None that is known to happen.
    pub(crate) fn token_key(&self) -> Result<Zeroizing<[u8; TOKEN_KEY_BYTES]>, Unspecified> {
        self.derive(b"maitred quic token")
    }

    fn derive<const BYTES: usize>(&self, label: &[u8]) -> Result<Zeroizing<[u8; BYTES]>, Unspecified> {
        struct Length(usize);

        impl KeyType for Length {
            fn len(&self) -> usize {
                self.0
            }
        }

        let mut key = Zeroizing::new([0; BYTES]);
        Prk::new_less_safe(HKDF_SHA256, &self.0.0).expand(&[label], Length(BYTES))?.fill(&mut *key)?;
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_from_the_secret_and_differ() {
        let secret = Secret::new().unwrap();
        let text = serde_json::to_string(&secret).unwrap();
        let again: Secret = serde_json::from_str(&text).unwrap();
        assert_eq!(*secret.reset_key().unwrap(), *again.reset_key().unwrap());
        assert_eq!(*secret.token_key().unwrap(), *again.token_key().unwrap());
        let id = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(secret.mask().unwrap().place(&id), again.mask().unwrap().place(&id));
        assert_ne!(secret.reset_key().unwrap()[..TOKEN_KEY_BYTES], *secret.token_key().unwrap());
        let other = Secret::new().unwrap();
        assert_ne!(other, secret);
        assert_ne!(*other.token_key().unwrap(), *secret.token_key().unwrap());
    }

    #[test]
    fn it_is_not_shown() {
        let secret = Secret::new().unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(32 bytes)");
        assert_eq!(format!("{:?}", secret.mask().unwrap()), "Mask { .. }");
    }
}
