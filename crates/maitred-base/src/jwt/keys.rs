//! Sets of public keys (JWK Set, RFC 7517): read, checked, and ready to check signatures with.

use std::fmt;

use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Algorithm, decode};

/// The largest set, as text: four times what providers with many keys and their certificates publish.
pub const SET_BYTES_MAX: usize = 256 * 1024;
/// Keys of one set, with those that are of no use here.
pub const KEYS_MAX: usize = 64;
/// The longest name of a key: they are hashes and counters.
pub const ID_BYTES_MAX: usize = 256;
/// Keys that a token without the name of one is tried with: so that a token costs a bounded time.
pub const TRIES_MAX: usize = 4;

/// A public key that signatures can be checked with, as text, so that it can be sent between processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// `kid`, at most [`ID_BYTES_MAX`].
    pub id: Option<String>,
    /// The key itself. Each part is base64url, of big-endian bytes.
    pub material: Material,
}

/// What a key consists of (RFC 7518 section 6, RFC 8037 section 2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the parts have the names that the RFCs give them")]
pub enum Material {
    Rsa { n: String, e: String },
    P256 { x: String, y: String },
    Ed25519 { x: String },
}

/// A set as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySet {
    /// Keys that can be used; at least one.
    pub keys: Vec<Key>,
    /// Why others cannot, in words, each with its place in the set.
    pub skipped: Vec<String>,
    /// Places of keys, counted from 1, that have their private part in them. Only the public one is taken.
    pub private: Vec<usize>,
}

impl KeySet {
    /// Reads a set. Keys of other kinds and for other uses are left out (RFC 7517 section 5).
    ///
    /// # Errors
    /// What is wrong with it, for the operator; also if no key of it can be used.
    pub fn read(text: &[u8]) -> Result<KeySet, String> {
        if text.len() > SET_BYTES_MAX {
            return Err(format!("it is longer than {} KiB", SET_BYTES_MAX / 1024));
        }
        let set: Value = serde_json::from_slice(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let Some(all) = set.get("keys").and_then(Value::as_array) else {
            return Err(
                "it is no set of keys: an object with an array `keys` (RFC 7517 section 5)".to_owned()
            );
        };
        if all.len() > KEYS_MAX {
            return Err(format!("it has more than {KEYS_MAX} keys"));
        }
        let mut read = KeySet::default();
        for (number, key) in (1..).zip(all) {
            match key.as_object().ok_or_else(|| "is not an object".to_owned()).and_then(key_of) {
                Ok(key) => read.keys.push(key),
                Err(why) => read.skipped.push(format!("key {number} {why}")),
            }
            if key.get("d").is_some() {
                read.private.push(number);
            }
        }
        match (read.keys.is_empty(), read.skipped.is_empty()) {
            (false, _) => Ok(read),
            (true, true) => Err("it has no keys".to_owned()),
            (true, false) => Err(format!("it has no key that can be used: {}", read.skipped.join("; "))),
        }
    }
}

fn key_of(key: &Map<String, Value>) -> Result<Key, String> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let part = |name: &str| text(name).map(str::to_owned).ok_or_else(|| format!("has no `{name}`"));
    if text("use").is_some_and(|used| used != "sig") {
        return Err("is not for signatures".to_owned());
    }
    let operations = key.get("key_ops").and_then(Value::as_array);
    if operations.is_some_and(|all| !all.iter().any(|one| one == "verify" || one == "sign")) {
        return Err("is not for signatures".to_owned());
    }
    let (algorithm, material) = match (text("kty").unwrap_or_default(), text("crv").unwrap_or_default()) {
        ("RSA", _) => (Algorithm::Rs256, Material::Rsa { n: part("n")?, e: part("e")? }),
        ("EC", "P-256") => (Algorithm::Es256, Material::P256 { x: part("x")?, y: part("y")? }),
        ("OKP", "Ed25519") => (Algorithm::EdDsa, Material::Ed25519 { x: part("x")? }),
        ("oct", _) => return Err("is a shared secret, which is not taken".to_owned()),
        ("EC" | "OKP", _) => return Err("is on another curve than P-256 and Ed25519".to_owned()),
        _ => return Err("is of another kind than RSA, EC and OKP".to_owned()),
    };
    // RFC 9864 gives EdDSA with this curve a name of its own.
    let fits = |said: &str| said == algorithm.name() || (algorithm == Algorithm::EdDsa && said == "Ed25519");
    if text("alg").is_some_and(|said| !fits(said)) {
        return Err(format!("is for another algorithm than {}", algorithm.name()));
    }
    let id = match key.get("kid") {
        None => None,
        Some(Value::String(id)) if id.len() <= ID_BYTES_MAX => Some(id.clone()),
        Some(_) => return Err(format!("has a `kid` that is no text of at most {ID_BYTES_MAX} bytes")),
    };
    let key = Key { id, material };
    key.parse().map(|_| key).ok_or_else(|| match algorithm {
        Algorithm::Rs256 => "is no RSA key of 2048 to 8192 bits".to_owned(),
        Algorithm::Es256 => "is no point of P-256".to_owned(),
        Algorithm::EdDsa => "is no key of Ed25519".to_owned(),
    })
}

impl Key {
    /// What it signs with.
    pub fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256 { .. } => Algorithm::Es256,
            Material::Ed25519 { .. } => Algorithm::EdDsa,
        }
    }

    /// `None` if the numbers are no key.
    fn parse(&self) -> Option<ParsedPublicKey> {
        match &self.material {
            Material::Rsa { n, e } => {
                let (n, e) = (decode(n)?, decode(e)?);
                // Some providers write a leading zero, as in DER.
                let trimmed = |bytes: &[u8]| bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
                let (n, e) = (n.get(trimmed(&n)..)?, e.get(trimmed(&e)..)?);
                // Verification takes a time that grows with the exponent; all that are in use have at most 4 bytes.
                if !(2048 / 8..=8192 / 8).contains(&n.len()) || !(1..=4).contains(&e.len()) {
                    return None;
                }
                PublicKeyComponents { n, e }.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256).ok()
            }
            Material::P256 { x, y } => {
                let (x, y) = (decode(x)?, decode(y)?);
                let point = [&[4], &x[..], &y[..]].concat();
                let whole = x.len() == 32 && y.len() == 32;
                whole.then(|| ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).ok())?
            }
            Material::Ed25519 { x } => {
                ParsedPublicKey::new(&ED25519, decode(x).filter(|x| x.len() == 32)?).ok()
            }
        }
    }
}

/// Keys that are ready to check signatures with.
#[derive(Default)]
pub struct Ring {
    keys: Vec<(Option<Box<str>>, Algorithm, ParsedPublicKey)>,
}

impl Ring {
    /// Of keys that [`KeySet::read`] has found good; others are left out.
    pub fn new(keys: &[Key]) -> Ring {
        let ready = |key: &Key| Some((key.id.as_deref().map(Box::from), key.algorithm(), key.parse()?));
        Ring { keys: keys.iter().take(KEYS_MAX).filter_map(ready).collect() }
    }

    /// Whether there is no key, so that nothing can be checked.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Checks a signature; `None` if no key is the one that was asked for. A key without a name may be any, and a token without
    /// one may be of any key.
    pub fn verify(&self, id: Option<&str>, by: Algorithm, message: &[u8], signature: &[u8]) -> Option<bool> {
        let is_named = |own: &Option<Box<str>>| own.is_some() && own.as_deref() == id;
        let named = self.keys.iter().any(|(own, ..)| is_named(own));
        let fits = |(own, algorithm, _): &&(Option<Box<str>>, Algorithm, ParsedPublicKey)| {
            *algorithm == by && if named { is_named(own) } else { own.is_none() || id.is_none() }
        };
        let mut fitting = self.keys.iter().filter(fits).take(TRIES_MAX).peekable();
        fitting.peek()?;
        Some(fitting.any(|(_, _, key)| key.verify_sig(message, signature).is_ok()))
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ring").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Signer, set};
    use super::*;

    #[test]
    fn sets_have_keys_of_three_kinds_and_others_are_left_out() {
        let signers = Algorithm::ALL.map(|algorithm| Signer::new(algorithm, Some("a")));
        let mut jwks: Vec<Value> = signers.iter().map(Signer::jwk).collect();
        let rsa = jwks[0].clone();
        let with = |name: &str, value: Value| {
            let mut key = rsa.clone();
            key[name] = value;
            key
        };
        jwks.extend([
            with("use", "enc".into()),
            with("key_ops", serde_json::json!(["encrypt"])),
            with("alg", "RS512".into()),
            with("alg", "HS256".into()),
            with("n", "AQAB".into()),
            with("n", "not base64!".into()),
            with("e", "AQABAQAB".into()),
            with("kid", 7.into()),
            with("kid", "x".repeat(257).into()),
            serde_json::json!({"kty": "oct", "k": "c2VjcmV0"}),
            serde_json::json!({"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA"}),
            serde_json::json!({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}),
            serde_json::json!({"kty": "OKP", "crv": "Ed25519"}),
            serde_json::json!({"kty": "new"}),
            serde_json::json!("a"),
            with("d", "AQAB".into()),
        ]);
        let read = KeySet::read(set(&jwks).as_bytes()).unwrap();
        let found: Vec<_> = read.keys.iter().map(Key::algorithm).collect();
        assert_eq!(found, [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa, Algorithm::Rs256]);
        assert_eq!((read.skipped.len(), read.private), (15, vec![19]), "{:#?}", read.skipped);
        for (at, said) in [
            (0, "key 4 is not for signatures"),
            (3, "key 7 is for another algorithm than RS256"),
            (4, "key 8 is no RSA key of 2048 to 8192 bits"),
            (9, "key 13 is a shared secret, which is not taken"),
            (12, "key 16 has no `x`"),
        ] {
            assert_eq!(read.skipped[at], said);
        }
    }

    #[test]
    fn what_is_no_set_is_refused_with_its_reason() {
        let signer = Signer::new(Algorithm::EdDsa, None);
        for (text, why) in [
            ("", "it is not JSON"),
            ("{", "it is not JSON"),
            ("[]", "it is no set of keys"),
            ("{\"keys\": 1}", "it is no set of keys"),
            ("{\"keys\": []}", "it has no keys"),
            ("{\"keys\": [{}]}", "it has no key that can be used: key 1 is of another kind"),
            (&"[".repeat(100_000), "it is not JSON: recursion limit"),
            (&set(&vec![signer.jwk(); KEYS_MAX + 1]), "it has more than 64 keys"),
            (&" ".repeat(SET_BYTES_MAX + 1), "it is longer than 256 KiB"),
        ] {
            let said = KeySet::read(text.as_bytes()).unwrap_err();
            assert!(said.starts_with(why), "{said}");
        }
        assert!(KeySet::read(set(&vec![signer.jwk(); KEYS_MAX]).as_bytes()).is_ok());
    }

    #[test]
    fn a_key_is_found_by_its_name_or_tried() {
        let signer = |id| Signer::new(Algorithm::EdDsa, id);
        let (a, b, bare) = (signer(Some("a")), signer(Some("b")), signer(None));
        let ring = |signers: &[&Signer]| {
            let jwks: Vec<_> = signers.iter().map(|signer| signer.jwk()).collect();
            Ring::new(&KeySet::read(set(&jwks).as_bytes()).unwrap().keys)
        };
        let check = |ring: &Ring, id, by: &Signer| ring.verify(id, Algorithm::EdDsa, b"x", &by.sign(b"x"));
        let two = ring(&[&a, &b]);
        assert_eq!(check(&two, Some("a"), &a), Some(true));
        assert_eq!(check(&two, Some("a"), &b), Some(false));
        assert_eq!(check(&two, None, &b), Some(true), "without a name, each is tried");
        assert_eq!(check(&two, Some("c"), &a), None);
        assert_eq!(two.verify(Some("a"), Algorithm::Es256, b"x", &a.sign(b"x")), None, "of another kind");
        assert_eq!(check(&ring(&[&a, &bare]), Some("c"), &bare), Some(true), "a key without a name");
        assert_eq!(check(&ring(&[&a, &bare]), Some("a"), &bare), Some(false));
        let many: Vec<_> = std::iter::repeat_n(&a, TRIES_MAX).chain([&b]).collect();
        assert_eq!(check(&ring(&many), None, &b), Some(false), "not more than that");
    }
}
