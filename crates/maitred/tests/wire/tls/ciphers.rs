//! What an address takes of cipher suites and key-exchange groups.

use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, NamedGroup, SupportedCipherSuite};

use crate::support::stage::{Authority, connect, setup};
use crate::support::{Client, Server};

/// Whether a client that knows no other suites and groups gets a page.
fn is_served(
    server: &Server,
    authority: &Authority,
    suites: &[SupportedCipherSuite],
    groups: &[&'static dyn SupportedKxGroup],
) -> bool {
    let (cipher_suites, kx_groups) = (suites.to_vec(), groups.to_vec());
    let provider = CryptoProvider { cipher_suites, kx_groups, ..aws_lc_rs::default_provider() };
    let client = authority.client_with(provider);
    let connected = Client::try_connect_tls(server.address_of("https"), &client, "localhost");
    connected.is_ok_and(|mut connection| connection.get("/a.txt").text() == "file a\n")
}

#[test]
fn ciphers_and_curves_that_are_left_out_are_refused() {
    let authority = Authority::new();
    let chosen = "ciphers = [\"TLS13_AES_128_GCM_SHA256\", \"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\"], \
                  curves = [\"secp384r1\", \"X25519\"]";
    let server = setup(&authority, chosen).start();
    let negotiated = |version| {
        let mut connection = connect(&server, &authority.client_of(&[version], None));
        assert_eq!(connection.get("/a.txt").text(), "file a\n");
        let session = connection.tls();
        let group = session.negotiated_key_exchange_group().map(SupportedKxGroup::name);
        (session.negotiated_cipher_suite().unwrap().suite(), group)
    };
    assert_eq!(negotiated(&TLS13).0, CipherSuite::TLS13_AES_128_GCM_SHA256);
    assert_eq!(negotiated(&TLS12).0, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256);
    for version in [&TLS13, &TLS12] {
        let group = negotiated(version).1;
        assert!(matches!(group, Some(NamedGroup::X25519 | NamedGroup::secp384r1)), "{group:?}");
    }
    let served = |suites: &[_], groups: &[_]| is_served(&server, &authority, suites, groups);
    use cipher_suite as suite;
    let (small, large) = (suite::TLS13_AES_128_GCM_SHA256, suite::TLS13_AES_256_GCM_SHA384);
    assert!(served(&[small], &[kx_group::X25519]) && served(&[large, small], &[kx_group::SECP384R1]));
    assert!(!served(&[large], &[kx_group::X25519]));
    assert!(!served(&[small], &[kx_group::SECP256R1]) && !served(&[small], &[kx_group::X25519MLKEM768]));
    let (small, large) =
        (suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384);
    assert!(served(&[small], &[kx_group::X25519]) && !served(&[large], &[kx_group::X25519]));
    server.stop();
}

#[test]
fn without_a_choice_all_are_taken() {
    let authority = Authority::new();
    let server = setup(&authority, "").start();
    let rsa =
        |suite: &SupportedCipherSuite| suite.suite().as_str().is_some_and(|name| name.contains("_RSA_"));
    // The certificate's key is of another kind.
    for suite in aws_lc_rs::DEFAULT_CIPHER_SUITES.iter().filter(|suite| !rsa(suite)) {
        assert!(is_served(&server, &authority, &[*suite], &[kx_group::X25519]), "{suite:?}");
    }
    for group in aws_lc_rs::DEFAULT_KX_GROUPS {
        assert!(is_served(&server, &authority, &[suite_of_13()], &[*group]), "{group:?}");
    }
    server.stop();
}

fn suite_of_13() -> SupportedCipherSuite {
    cipher_suite::TLS13_AES_256_GCM_SHA384
}
