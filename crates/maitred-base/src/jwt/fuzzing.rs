//! What the fuzz target and a seeded test throw arbitrary bytes at.

use super::Algorithm;
use super::keys::{KeySet, Ring};
use super::token::{Rules, check};

/// Public keys whose private parts were thrown away: nothing that fuzzing finds can be signed by them.
const KEYS: &[&str] = &[
    r#"{"keys":["#,
    r#"{"kty":"RSA","n":"xKVeSOCmkeafg8vArDWwxIDpFJaEhmFoD6jzmkTGueWzz9tOVSnHOzlZhCYCugP0ZIMqzpCC2lVLan2VSCOr_-dajRY1UkaqmhOb"#,
    r#"D7lhqJvdhpGNXeZvukrBe3I0SuWn3AvenZHS_Rd-B_ZyST6Tmsa_B-XngMyWWiUwy-KWuDWZ2IVlyp7t_8qyR46qZ-6iJNZ5CVsH6favcbdaYVjUAHhw0r"#,
    r#"JO_sVK-GXyKhQvRv1k7hpGGqbH9h_Xoxxkv08E_uZc330StHEkO1GgPOeV8wy5PBNHaOOscW1M39tLglbTdsHkeiNnQtTjsDv_TjlxFsWQzNApJWu_SQYf"#,
    r#"jgwaGw","e":"AQAB","alg":"RS256","kid":"r"},{"kty":"EC","crv":"P-256","x":"ncTzd2LmMGHWZRlUKj3yECA4mjQX5b4i-lhyhnrEgP8"#,
    r#"","y":"bc3pF0q93RBmzm2oCbMvytyaeGEV8QqwymqsotQyKn8","alg":"ES256","kid":"e"},{"x":"LGmT1dmpAW-Ey2pf6DB_XwoY_5UcjGO1V9_"#,
    r#"7RQg9CQ8","kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"e"}"#,
    "]}",
];

/// Reads any bytes as a set of keys, a zero byte, and a token; or as a token only.
///
/// # Panics
/// If a token passes that cannot be signed, or a set that was read has no key: that is what fuzzing looks for.
pub fn read(data: &[u8]) {
    let rules = Rules {
        algorithms: Algorithm::ALL.to_vec(),
        issuers: None,
        audiences: None,
        leeway: u64::MAX,
        require: Vec::new(),
    };
    let (set, token) = match memchr::memchr(0, data) {
        Some(at) => data.split_at_checked(at).unwrap_or_default(),
        None => (&b""[..], data),
    };
    if let Ok(set) = KeySet::read(set) {
        assert!(!set.keys.is_empty());
        // The token may be signed: the keys are those that the input has chosen.
        let _ = check(token.strip_prefix(b"\0").unwrap_or(token), &Ring::new(&set.keys), &rules, 0);
    }
    let ring = KeySet::read(KEYS.concat().as_bytes()).map(|set| Ring::new(&set.keys)).unwrap_or_default();
    assert!(!ring.is_empty());
    assert!(check(token, &ring, &rules, 0).is_err(), "a token passes that cannot have been signed");
}
