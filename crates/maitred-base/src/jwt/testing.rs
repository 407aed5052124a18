//! Keys and tokens for tests.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as Rsa, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::Algorithm;

enum Pair {
    Rsa(Box<Rsa>),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// A key that tokens are signed with.
pub(crate) struct Signer {
    pub(crate) algorithm: Algorithm,
    pub(crate) id: Option<&'static str>,
    pair: Pair,
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A set of keys.
pub(crate) fn set(jwks: &[Value]) -> String {
    json!({ "keys": jwks }).to_string()
}

impl Signer {
    pub(crate) fn new(algorithm: Algorithm, id: Option<&'static str>) -> Signer {
        let pair = match algorithm {
            Algorithm::Rs256 => Pair::Rsa(Box::new(Rsa::generate(KeySize::Rsa2048).unwrap())),
            Algorithm::Es256 => {
                Pair::Ecdsa(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
            }
            Algorithm::EdDsa => Pair::Ed25519(Ed25519KeyPair::generate().unwrap()),
        };
        Signer { algorithm, id, pair }
    }

    /// The public part of the key, as a member of a set.
    pub(crate) fn jwk(&self) -> Value {
        let mut key = match &self.pair {
            Pair::Rsa(pair) => {
                let public = pair.public_key();
                let (n, e) = (public.modulus(), public.exponent());
                json!({
                    "kty": "RSA",
                    "n": encode(n.big_endian_without_leading_zero()),
                    "e": encode(e.big_endian_without_leading_zero()),
                })
            }
            Pair::Ecdsa(pair) => {
                let point = pair.public_key().as_ref();
                json!({ "kty": "EC", "crv": "P-256", "x": encode(&point[1..33]), "y": encode(&point[33..]) })
            }
            Pair::Ed25519(pair) => json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key()) }),
        };
        if let Some(id) = self.id {
            key["kid"] = id.into();
        }
        key
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
            Pair::Ecdsa(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// A token with this header and this payload, whatever they are.
    pub(crate) fn raw(&self, header: impl AsRef<[u8]>, payload: impl AsRef<[u8]>) -> String {
        let message = format!("{}.{}", encode(header), encode(payload));
        let signature = encode(self.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    /// A token that says this.
    pub(crate) fn token(&self, claims: &Value) -> String {
        let mut header = json!({ "alg": self.algorithm.name(), "typ": "JWT" });
        if let Some(id) = self.id {
            header["kid"] = id.into();
        }
        self.raw(header.to_string(), claims.to_string())
    }
}
