//! A token: three parts of base64url with dots between them (RFC 7515 section 3.1); its signature, and what its claims have to
//! be.

use serde::{Deserialize, Serialize};

use super::claims::Claims;
use super::keys::Ring;
use super::{Algorithm, decode};

/// The longest token: more than fits into the head of most servers.
pub(crate) const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// What a token has to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Which signatures are taken; at least one.
    pub algorithms: Vec<Algorithm>,
    /// `iss` is one of these; `None` is any, or none.
    pub issuers: Option<Vec<String>>,
    /// `aud` is one of these, or has one; `None` is any, or none.
    pub audiences: Option<Vec<String>>,
    /// Seconds by which the clocks of the issuer and of this server may differ.
    pub leeway: u64,
    /// Claims, and the values of which each has to have one.
    pub require: Vec<(String, Vec<String>)>,
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The text is no token.
    Malformed,
    /// The algorithm is not taken.
    Algorithm,
    /// The token needs to be understood in a way that is not known here (`crit`, RFC 7515 section 4.1.11).
    Critical,
    /// No key has its name and its algorithm.
    UnknownKey,
    /// The signature is wrong.
    Signature,
    /// The token has no end, or one that is over.
    Expired,
    /// The token's time has not come, or the token is from a time to come.
    NotYet,
    /// The token is from another issuer.
    Issuer,
    /// The token is for others.
    Audience,
    /// The token says nothing wrong, but not enough.
    Claims,
}

impl Refusal {
    /// For `error_description` (RFC 6750 section 3): plain ASCII without quotation marks.
    pub fn description(self) -> &'static str {
        match self {
            Refusal::Malformed => "this is no token",
            Refusal::Algorithm => "the algorithm is not accepted",
            Refusal::Critical => "the token has critical parameters that are not known",
            Refusal::UnknownKey => "the key is not known",
            Refusal::Signature => "the signature is wrong",
            Refusal::Expired => "the token has expired",
            Refusal::NotYet => "the token is not valid yet",
            Refusal::Issuer => "the token is from another issuer",
            Refusal::Audience => "the token is for another audience",
            Refusal::Claims => "the token does not say enough",
        }
    }
}

/// The parameters of a header that matter here. A parameter that is there twice is an error.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<serde::de::IgnoredAny>,
}

/// Checks a token at this time, in seconds of Unix time. The signature is checked before anything of the claims is read.
///
/// # Errors
/// Why it is refused.
pub fn check(token: &[u8], ring: &Ring, rules: &Rules, now: u64) -> Result<Claims, Refusal> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(Refusal::Malformed);
    }
    let dot = memchr::memrchr(b'.', token).ok_or(Refusal::Malformed)?;
    let (message, signature) = token.split_at_checked(dot).ok_or(Refusal::Malformed)?;
    let dot = memchr::memchr(b'.', message).ok_or(Refusal::Malformed)?;
    let (header, payload) = message.split_at_checked(dot).ok_or(Refusal::Malformed)?;
    // A fourth part has a dot, which is not base64url.
    let part = |text: &[u8]| text.strip_prefix(b".").and_then(decode).ok_or(Refusal::Malformed);
    let header = decode(header).ok_or(Refusal::Malformed)?;
    let header: Header = serde_json::from_slice(&header).map_err(|_| Refusal::Malformed)?;
    let (signature, payload) = (part(signature)?, part(payload)?);
    let by = Algorithm::of(&header.alg).filter(|by| rules.algorithms.contains(by));
    let by = by.ok_or(Refusal::Algorithm)?;
    if header.crit.is_some() {
        return Err(Refusal::Critical);
    }
    match ring.verify(header.kid.as_deref(), by, message, &signature) {
        Some(true) => {}
        Some(false) => return Err(Refusal::Signature),
        None => return Err(Refusal::UnknownKey),
    }
    let claims = Claims::read(&payload).ok_or(Refusal::Malformed)?;
    rules.judge(&claims, now).map(|()| claims)
}

impl Rules {
    fn judge(&self, claims: &Claims, now: u64) -> Result<(), Refusal> {
        let (now, leeway) = (now as f64, self.leeway as f64);
        let time = |name: &str| claims.time(name).map_err(|()| Refusal::Malformed);
        if time("exp")?.is_none_or(|end| end + leeway <= now) {
            return Err(Refusal::Expired);
        }
        let is_ahead = |time: Option<f64>| time.is_some_and(|time| time - leeway > now);
        if is_ahead(time("nbf")?) || is_ahead(time("iat")?) {
            return Err(Refusal::NotYet);
        }
        let from = claims.text("iss");
        if self.issuers.as_ref().is_some_and(|known| !known.iter().any(|one| Some(one.as_str()) == from)) {
            return Err(Refusal::Issuer);
        }
        if self.audiences.as_ref().is_some_and(|known| !claims.holds("aud", known)) {
            return Err(Refusal::Audience);
        }
        match self.require.iter().all(|(name, values)| claims.holds(name, values)) {
            true => Ok(()),
            false => Err(Refusal::Claims),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::keys::KeySet;
    use super::super::testing::{Signer, encode, set};
    use super::*;

    const NOW: u64 = 1_800_000_000;

    static SIGNERS: LazyLock<[Signer; 3]> =
        LazyLock::new(|| Algorithm::ALL.map(|algorithm| Signer::new(algorithm, Some(algorithm.name()))));

    static RING: LazyLock<Ring> = LazyLock::new(|| {
        let jwks: Vec<Value> = SIGNERS.iter().map(Signer::jwk).collect();
        Ring::new(&KeySet::read(set(&jwks).as_bytes()).unwrap().keys)
    });

    fn rules() -> Rules {
        Rules {
            algorithms: Algorithm::ALL.to_vec(),
            issuers: Some(vec!["https://issuer.example".to_owned()]),
            audiences: Some(vec!["web".to_owned(), "api".to_owned()]),
            leeway: 60,
            require: vec![("scope".to_owned(), vec!["write".to_owned(), "admin".to_owned()])],
        }
    }

    fn good() -> Value {
        json!({
            "iss": "https://issuer.example", "aud": ["other", "api"], "sub": "ann", "scope": "read write",
            "iat": NOW - 10, "nbf": NOW - 10, "exp": NOW + 300,
        })
    }

    fn check_at(token: &str, now: u64) -> Result<Claims, Refusal> {
        check(token.as_bytes(), &RING, &rules(), now)
    }

    #[test]
    fn tokens_of_all_algorithms_pass() {
        for signer in SIGNERS.iter() {
            let claims = check_at(&signer.token(&good()), NOW).unwrap();
            assert_eq!(claims.field("sub").as_deref(), Some("ann"), "{:?}", signer.algorithm);
        }
    }

    #[test]
    fn claims_are_judged() {
        let signer = &SIGNERS[2];
        let outcome = |name: &str, value: Value| {
            let mut claims = good();
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value,
            }
            check_at(&signer.token(&claims), NOW).err()
        };
        for (name, value, expected) in [
            ("exp", json!(NOW - 59), None),
            ("exp", json!(NOW - 60), Some(Refusal::Expired)),
            ("exp", json!(NOW as f64 + 0.5), None),
            ("exp", json!(1e300), None),
            ("exp", json!(-1e300), Some(Refusal::Expired)),
            ("exp", Value::Null, Some(Refusal::Expired)),
            ("exp", json!("1900000000"), Some(Refusal::Malformed)),
            ("nbf", json!(NOW + 60), None),
            ("nbf", json!(NOW + 61), Some(Refusal::NotYet)),
            ("nbf", json!([]), Some(Refusal::Malformed)),
            ("iat", json!(NOW + 61), Some(Refusal::NotYet)),
            ("iat", Value::Null, None),
            ("iss", json!("https://issuer.example/"), Some(Refusal::Issuer)),
            ("iss", json!(["https://issuer.example"]), Some(Refusal::Issuer)),
            ("iss", Value::Null, Some(Refusal::Issuer)),
            ("aud", json!("web"), None),
            ("aud", json!("other"), Some(Refusal::Audience)),
            ("aud", json!([]), Some(Refusal::Audience)),
            ("aud", Value::Null, Some(Refusal::Audience)),
            ("scope", json!("read"), Some(Refusal::Claims)),
            ("scope", json!(["admin"]), None),
            ("scope", Value::Null, Some(Refusal::Claims)),
        ] {
            assert_eq!(outcome(name, value.clone()), expected, "{name} = {value}");
        }
        let any = Rules { issuers: None, audiences: None, require: Vec::new(), ..rules() };
        let bare = signer.token(&json!({ "exp": NOW + 1 }));
        assert!(check(bare.as_bytes(), &RING, &any, NOW).is_ok());
    }

    #[test]
    fn the_key_says_the_algorithm() {
        let [rsa, ecdsa, ed] = &*SIGNERS;
        let payload = good().to_string();
        let token = |header: Value| rsa.raw(header.to_string(), &payload);
        for (header, refusal) in [
            (json!({ "alg": "none", "kid": "RS256" }), Refusal::Algorithm),
            (json!({ "alg": "HS256", "kid": "RS256" }), Refusal::Algorithm),
            (json!({ "alg": "rs256", "kid": "RS256" }), Refusal::Algorithm),
            (json!({ "alg": "RS512", "kid": "RS256" }), Refusal::Algorithm),
            (json!({ "alg": "ES256", "kid": "RS256" }), Refusal::UnknownKey),
            (json!({ "alg": "RS256", "kid": "other" }), Refusal::UnknownKey),
            (json!({ "alg": "ES256", "kid": "ES256" }), Refusal::Signature),
            (json!({ "alg": "RS256", "kid": "RS256", "crit": ["b64"], "b64": false }), Refusal::Critical),
            (json!({ "alg": "RS256", "kid": 1 }), Refusal::Malformed),
            (json!({ "kid": "RS256" }), Refusal::Malformed),
            (json!(["RS256"]), Refusal::Malformed),
        ] {
            assert_eq!(check_at(&token(header.clone()), NOW).err(), Some(refusal), "{header}");
        }
        let twice = rsa.raw(r#"{"alg":"RS256","alg":"RS256","kid":"RS256"}"#, &payload);
        assert_eq!(check_at(&twice, NOW).err(), Some(Refusal::Malformed));
        // A signature as DER is not one of JWS (RFC 7518 section 3.4).
        assert_eq!(ecdsa.sign(b"x").len(), 64);
        let only = Rules { algorithms: vec![Algorithm::Es256], ..rules() };
        assert_eq!(check(ed.token(&good()).as_bytes(), &RING, &only, NOW).err(), Some(Refusal::Algorithm));
        assert!(check(ecdsa.token(&good()).as_bytes(), &RING, &only, NOW).is_ok());
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let token = SIGNERS[2].token(&good());
        let parts: Vec<&str> = token.split('.').collect();
        let none = format!("{}.{}.", encode(r#"{"alg":"none"}"#), parts[1]);
        let deep = SIGNERS[2].raw(r#"{"alg":"EdDSA","kid":"EdDSA"}"#, "[".repeat(4000));
        for bad in [
            "",
            ".",
            "..",
            "...",
            "a.b.c",
            &format!("{}.{}", parts[0], parts[1]),
            &format!("{token}."),
            &format!("{token}.{}", parts[2]),
            &format!(" {token}"),
            &format!("{token}="),
            &format!("{}.{}.", parts[0], parts[1]),
            &format!(".{}.{}", parts[1], parts[2]),
            &none,
            &deep,
            &format!("{}.{}.{}", parts[0], "A".repeat(TOKEN_BYTES_MAX), parts[2]),
        ] {
            let refusal = check_at(bad, NOW).unwrap_err();
            let expected: &[Refusal] = &[Refusal::Malformed, Refusal::Algorithm, Refusal::Signature];
            assert!(expected.contains(&refusal), "{bad}: {refusal:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn a_damaged_token_never_passes(
            which in 0..3_usize,
            at in any::<prop::sample::Index>(),
            byte in prop_oneof![any::<u8>(), prop::sample::select(b"ABCabc012-_.=".to_vec())],
            how in 0..3_u8,
        ) {
            let good = SIGNERS[which].token(&good());
            let mut bytes = good.clone().into_bytes();
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
            prop_assume!(bytes != good.as_bytes());
            prop_assert!(check(&bytes, &RING, &rules(), NOW).is_err(), "{}", String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn signatures_do_not_fit_other_tokens(one in 0..3_usize, other in 0..3_usize, sub in "[a-z]{1,8}") {
            let mut claims = good();
            claims["sub"] = sub.into();
            let (first, second) = (SIGNERS[one].token(&good()), SIGNERS[other].token(&claims));
            let (message, _) = first.rsplit_once('.').unwrap();
            let (_, signature) = second.rsplit_once('.').unwrap();
            let mixed = format!("{message}.{signature}");
            prop_assert!(check_at(&mixed, NOW).is_err());
        }

        #[test]
        fn nothing_panics(data in prop::collection::vec(any::<u8>(), 0..300)) {
            super::super::fuzzing::read(&data);
        }
    }

    /// How long a check takes; run by hand, in release.
    #[test]
    #[ignore = "it measures, and says nothing about being right"]
    fn cost() {
        for signer in SIGNERS.iter() {
            let token = signer.token(&good());
            let start = std::time::Instant::now();
            for _ in 0..2000 {
                check_at(&token, NOW).unwrap();
            }
            println!("{:?}: {:?}", signer.algorithm, start.elapsed() / 2000);
        }
    }
}
