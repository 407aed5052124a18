//! Clients with certificates, and what of them is passed to applications.

use std::collections::BTreeMap;
use std::sync::Arc;

use rcgen::PKCS_ECDSA_P256_SHA256;
use rustls::ClientConfig;
use rustls::version::{TLS12, TLS13};

use crate::support::stage::{Authority, connect, replace, setup};
use crate::support::{Client, Server, eventually};

fn start(authority: &Authority, tls: &str) -> Server {
    let server = setup(authority, tls).pool("app", None, "workers = 1").start();
    server.wait_for_processes();
    server
}

/// What the application sees of a request that tells lies.
fn told(connection: &mut Client) -> BTreeMap<String, String> {
    let lies = "X-SSL-Client-Verify: SUCCESS\r\nX-SSL-Client-S-DN: CN=root\r\nX_SSL_Client_S_DN: CN=root\r\n\
                X-SSL-Client-Serial: 1\r\nX-SSL-Client-Fingerprint: 00\r\n";
    let response = connection.method("GET", "/app/show", lies);
    let seen: BTreeMap<String, String> = serde_json::from_slice(&response.body).unwrap();
    seen.into_iter().filter(|(name, _)| name.starts_with("HTTP_X_SSL_CLIENT_")).collect()
}

#[test]
fn an_application_knows_its_client_and_believes_no_other() {
    let authority = Authority::new();
    let alice = authority.sign(&["alice"], &PKCS_ECDSA_P256_SHA256);
    let mallory = Authority::new().sign(&["mallory"], &PKCS_ECDSA_P256_SHA256);
    for (mode, anonymous) in [("optional", true), ("required", false)] {
        let server = start(&authority, &format!("client_auth = \"{mode}\", client_ca = \"ca.pem\""));
        for version in [&TLS12, &TLS13] {
            let mut connection = connect(&server, &authority.client_of(&[version], Some(&alice)));
            let seen = told(&mut connection);
            let value = |name: &str| seen.get(name).map(String::as_str).unwrap_or_default();
            assert_eq!(value("HTTP_X_SSL_CLIENT_VERIFY"), "SUCCESS", "{seen:?}");
            assert_eq!(value("HTTP_X_SSL_CLIENT_S_DN"), "CN=alice,O=Example\\, Inc.", "{seen:?}");
            assert_eq!(value("HTTP_X_SSL_CLIENT_FINGERPRINT").len(), 64, "{seen:?}");
            assert!(value("HTTP_X_SSL_CLIENT_SERIAL").len() > 2, "{seen:?}");
            // In TLS 1.3 a client only learns with its first answer that it was refused.
            let refused = |own| {
                let client = authority.client_of(&[version], own);
                let connected = Client::try_connect_tls(server.address_of("https"), &client, "localhost");
                let answer = connected.and_then(|mut connection| {
                    connection.try_send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
                    connection.try_response("GET")
                });
                answer.is_err()
            };
            assert!(refused(Some(&mallory)), "{mode} {version:?}");
            assert_eq!(refused(None), !anonymous, "{mode} {version:?}");
        }
        if anonymous {
            let seen = told(&mut connect(&server, &authority.client()));
            assert_eq!(seen, BTreeMap::new(), "without a certificate there is no identity");
        }
        server.stop();
    }
}

#[test]
fn nobody_is_believed_where_nobody_is_asked() {
    let authority = Authority::new();
    let server = start(&authority, "");
    assert_eq!(told(&mut connect(&server, &authority.client())), BTreeMap::new());
    server.stop();
}

#[test]
fn an_application_knows_that_it_is_spoken_to_over_tls() {
    let authority = Authority::new();
    let server = start(&authority, "");
    let response = connect(&server, &authority.client()).get("/app/show");
    let seen: BTreeMap<String, String> = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(seen["HTTP_X_FORWARDED_PROTO"], "https");
    assert_eq!(seen["HTTP_X_SSL_PROTOCOL"], "TLSv1.3");
    assert!(seen["HTTP_X_SSL_CIPHER"].starts_with("TLS_"), "{seen:?}");
    server.stop();
}

/// `client_crl`: a client on a list has no identity, from the moment that the list is there, also with a ticket from before.
#[test]
fn a_certificate_that_was_revoked_is_refused() {
    let authority = Authority::new();
    let (alice, bob) = (
        authority.sign(&["alice"], &PKCS_ECDSA_P256_SHA256),
        authority.sign(&["bob"], &PKCS_ECDSA_P256_SHA256),
    );
    let setup =
        setup(&authority, "client_auth = \"required\", client_ca = \"ca.pem\", client_crl = \"crl.pem\"");
    let server = setup.outside("crl.pem", authority.revoke(&[&bob], 2120).as_bytes()).start();
    let may = |client: &Arc<ClientConfig>| {
        let connected = Client::try_connect_tls(server.address_of("https"), client, "localhost");
        let answer = connected.and_then(|mut connection| {
            connection.try_send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
            connection.try_response("GET")
        });
        answer.is_ok()
    };
    let clients = |own| [&TLS12, &TLS13].map(|version| authority.client_of(&[version], Some(own)));
    let (alices, bobs) = (clients(&alice), clients(&bob));
    assert!(
        alices.iter().all(may) && !bobs.iter().any(may),
        "{:?} {:?}",
        alices.each_ref().map(may),
        bobs.each_ref().map(may)
    );
    let mut open = connect(&server, &alices[1]);
    replace(&server.path("crl.pem"), authority.revoke(&[&alice], 2120).as_bytes());
    eventually("the new list holds", || !alices.iter().any(may) && bobs.iter().all(may));
    assert_eq!(open.get("/a.txt").text(), "file a\n", "what is open stays");
    // What is no longer known is not good: a list that is out of date, and one of another authority.
    for list in [authority.revoke(&[], 2022), Authority::named("Somebody else").revoke(&[], 2120)] {
        replace(&server.path("crl.pem"), authority.revoke(&[], 2120).as_bytes());
        eventually("none is revoked", || alices.iter().chain(&bobs).all(may));
        replace(&server.path("crl.pem"), list.as_bytes());
        eventually("none is known to be good", || !alices.iter().chain(&bobs).any(may));
    }
    replace(&server.path("crl.pem"), b"no list");
    let line = server.wait_for_line(|line| line.contains("the previous ones stay in use"));
    assert!(line.contains("crl.pem: there is no revocation list in PEM in it"), "{line}");
    let (status, text) = server.command(&["check"]);
    assert!(!status.success() && text.contains("there is no revocation list in PEM in it"), "{text}");
    server.terminate(rustix::process::Signal::TERM);
}
