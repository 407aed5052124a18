//! Keys of tokens are fetched over TLS, from another Maitred.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::stage::{Authority, setup};
use crate::support::{Setup, eventually};

#[test]
fn keys_are_fetched_from_who_the_authorities_vouch_for() {
    let made: Value = serde_json::from_str(include_str!("../access/tokens.json")).unwrap();
    let (authority, other) = (Authority::new(), Authority::named("Another"));
    let keys = made["jwks"].to_string();
    let provider = setup(&authority, "").file("keys.json", keys.as_bytes()).start();
    let port = provider.address_of("https").port();
    let gated = |authority: &Authority| {
        let rules = "issuer = \"https://issuer.example/\", audience = \"web\"";
        let url = format!("https://localhost:{port}/keys.json");
        Setup::with_files()
            .outside("ca.pem", authority.pem.as_bytes())
            .site(&format!("jwt = {{ jwks_url = \"{url}\", jwks_ca_file = \"ca.pem\", {rules} }}"))
            .start()
    };
    let token = format!("Authorization: Bearer {}\r\n", made["good"]["ES256"].as_str().unwrap());
    let server = gated(&authority);
    eventually("the keys are there", || server.connect().method("GET", "/a.txt", &token).status == 200);
    server.stop();
    let server = gated(&other);
    let line = server.wait_for("keys for tokens cannot be fetched");
    assert!(line.contains("certificate"), "{line}");
    assert_eq!(server.connect().method("GET", "/a.txt", &token).status, 503);
    server.terminate(Signal::TERM);
    provider.stop();
}
