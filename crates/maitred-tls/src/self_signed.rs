//! The certificate of `maitred serve --tls`: made at the start, kept in memory, for this machine's own names.

use aws_lc_rs::digest::{SHA256, digest};
use rcgen::{CertificateParams, DnType, KeyPair};

use maitred_base::pki::{Bytes, Pair};

/// Days that it is good for: one before today, for clocks that differ, and two weeks. The certificate is no permanent one.
const DAYS: u64 = 14;
const DAY_SECS: u64 = 24 * 60 * 60;
/// The names that it is for.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A new key and its certificate, good from yesterday on. `unix_secs` is the present time.
///
/// # Errors
/// A text, if there are no random numbers.
pub fn make(unix_secs: u64) -> Result<Pair, String> {
    let text = |error: rcgen::Error| format!("the self-signed certificate cannot be made: {error}");
    let key = KeyPair::generate().map_err(text)?;
    let names: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).map_err(text)?;
    params.distinguished_name.push(DnType::CommonName, "maitred serve");
    let from = rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(unix_secs);
    params.not_before = from - std::time::Duration::from_secs(DAY_SECS);
    params.not_after = from + std::time::Duration::from_secs(DAYS * DAY_SECS);
    let made = params.self_signed(&key).map_err(text)?;
    Ok(Pair { chain: vec![Bytes(made.der().to_vec())], key: Bytes(key.serialize_der()), ocsp: None })
}

/// SHA-256 of the first certificate, as browsers show it: `AB:CD:…`.
pub fn fingerprint(pair: &Pair) -> String {
    let first = pair.chain.first().map(|der| der.0.as_slice()).unwrap_or_default();
    let bytes: Vec<String> =
        digest(&SHA256, first).as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    bytes.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use maitred_base::pki::files::Leaf;

    #[test]
    fn it_is_good_now_and_for_this_machine() {
        let now = 1_800_000_000;
        let pair = make(now).unwrap();
        pair.certified().unwrap();
        let leaf = Leaf::read(&pair.chain[0].0.as_slice().into()).unwrap();
        assert!(leaf.is_good_at(now) && leaf.is_good_at(now + 13 * DAY_SECS));
        assert!(!leaf.is_good_at(now + 15 * DAY_SECS) && !leaf.is_good_at(now - 2 * DAY_SECS));
        for name in ["localhost", "127.0.0.1", "[::1]"] {
            assert!(leaf.covers(name), "{name}");
        }
        assert!(!leaf.covers("example.com"));
        assert_eq!(fingerprint(&pair).len(), 32 * 3 - 1);
        assert_ne!(make(now).unwrap(), pair, "another key each time");
    }
}
