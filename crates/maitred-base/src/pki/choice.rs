//! Which cipher suites and key-exchange groups are used, by the names that rustls has for them.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// All cipher suites that there are, the preferred ones first, as in rustls' default.
pub const CIPHERS: &[&str] = &[
    "TLS13_AES_256_GCM_SHA384",
    "TLS13_AES_128_GCM_SHA256",
    "TLS13_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];
/// All key-exchange groups that there are, likewise.
pub const CURVES: &[&str] = &["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"];
/// Of these, those that only TLS 1.3 has.
pub const CURVES_OF_13: &[&str] = &["X25519MLKEM768"];

/// Whether a suite is one of TLS 1.3; the others are of 1.2.
pub fn is_13(cipher: &str) -> bool {
    cipher.starts_with("TLS13_")
}

/// The cryptography of all sessions, with nothing but these suites and groups.
pub fn provider(ciphers: &[String], curves: &[String]) -> Arc<CryptoProvider> {
    let all = super::provider();
    let suites = ciphers.iter().filter_map(|name| {
        all.cipher_suites.iter().copied().find(|suite| suite.suite().as_str() == Some(name))
    });
    let groups = curves
        .iter()
        .filter_map(|name| all.kx_groups.iter().copied().find(|group| group.name().as_str() == Some(name)));
    let (cipher_suites, kx_groups) = (suites.collect(), groups.collect());
    Arc::new(CryptoProvider { cipher_suites, kx_groups, ..CryptoProvider::clone(all) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing changes for a configuration without a choice.
    #[test]
    fn the_names_are_those_of_rustls_in_its_order() {
        let all = super::super::provider();
        let suites: Vec<_> = all.cipher_suites.iter().map(|suite| suite.suite().as_str().unwrap()).collect();
        assert_eq!(suites, CIPHERS);
        let groups: Vec<_> = all.kx_groups.iter().map(|group| group.name().as_str().unwrap()).collect();
        assert_eq!(groups, CURVES);
        assert!(
            all.cipher_suites.iter().all(|suite| {
                suite.tls13().is_some() == is_13(suite.suite().as_str().unwrap_or_default())
            })
        );
        let texts = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let chosen = provider(&texts(CIPHERS), &texts(CURVES));
        assert_eq!(chosen.cipher_suites, all.cipher_suites);
        assert_eq!(chosen.kx_groups.len(), all.kx_groups.len());
    }
}
