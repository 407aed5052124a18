//! `maitred serve --tls`, and the example.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, SignatureScheme};

use crate::support::stage::{self, Authority, certificates, connect};
use crate::support::{Client, Setup};

#[test]
fn the_example_serves_its_page() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tls");
    let text = std::fs::read_to_string(example.join("maitred.toml")).unwrap();
    let text = text.replace("127.0.0.1:8443", "127.0.0.1:0").replace("127.0.0.1:8080", "127.0.0.1:0");
    let page = std::fs::read(example.join("public/index.html")).unwrap();
    let authority = Authority::new();
    let made = authority.sign(&["localhost", "127.0.0.1"], &rcgen::PKCS_ECDSA_P256_SHA256);
    let server = Setup::new()
        .outside("public/index.html", &page)
        .outside("certificate.pem", made.certificate.as_bytes())
        .outside("key.pem", made.key.as_bytes())
        .start_as(&text);
    let address = server.address_of("https");
    let mut connection = Client::try_connect_tls(address, &authority.client(), "localhost").unwrap();
    assert_eq!(connection.get("/").body, page);
    drop(connection);
    server.stop();
}

/// The scheme of the target is the connection's own (9112-3.2.2); on a cleartext connection it is misdirected.
#[test]
fn the_absolute_form_is_served() {
    let authority = Authority::new();
    let made = authority.sign(&["localhost"], &rcgen::PKCS_ECDSA_P256_SHA256);
    let setup = Setup::with_files().listen("tls = {}").site(&certificates(&["made"]));
    made.write(setup.directory.path(), "made");
    let server = setup.start();
    let mut connection = connect(&server, &authority.client());
    let response = connection.ask("GET https://localhost/a.txt?q HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((response.status, response.text()), (200, "file a\n"));
    drop(connection);
    server.stop();
}

#[test]
fn a_certificate_is_made_and_its_fingerprint_is_told() {
    let (server, told) = stage::serve();
    let address = server.address;
    let (stranger, picky) = Authority::new().picky(&[SignatureScheme::ECDSA_NISTP256_SHA256]);
    assert!(Client::try_connect_tls(address, &stranger, "localhost").is_err(), "no authority has signed it");
    let certificate = picky.seen.lock().unwrap().take().unwrap();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &certificate);
    let bytes: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    assert_eq!(bytes.join(":"), told);
    // A client that has seen it once can trust it from then on.
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = Arc::new(client);
    for name in ["localhost", "127.0.0.1"] {
        let mut connection = Client::try_connect_tls(address, &client, name).unwrap();
        assert_eq!(connection.get("/a.txt").text(), "file a\n", "{name}");
    }
    server.stop();
}
