//! Which certificate a client gets, and what is agreed on.

use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};
use rustls::SignatureScheme as S;

use crate::support::stage::{Authority, certificates, connect, is, replace, setup, shown};
use crate::support::{Client, Setup, eventually};

#[test]
fn the_name_that_is_asked_for_decides() {
    let authority = Authority::new();
    let sign = |names: &[&str]| authority.sign(names, &PKCS_ECDSA_P256_SHA256);
    let (first, exact) = (sign(&["localhost"]), sign(&["a.example.com"]));
    let wild = sign(&["*.example.com"]);
    let site = |host: &str, name: &str| {
        format!("[[site]]\nhosts = [\"{host}\"]\nroot = \"root\"\n{}\n", certificates(&[name]))
    };
    let setup = Setup::with_files()
        .listen("tls = {}")
        .site(&certificates(&["first"]))
        .table(&site("*.example.com", "wild"))
        .table(&site("a.example.com", "exact"));
    for (made, name) in [(&first, "first"), (&exact, "exact"), (&wild, "wild")] {
        made.write(setup.directory.path(), name);
    }
    let server = setup.start();
    let client = authority.client();
    for (asked, expected) in [
        ("localhost", &first),
        ("a.example.com", &exact),
        ("b.example.com", &wild),
        ("A.EXAMPLE.com", &exact),
    ] {
        let mut connection = Client::try_connect_tls(server.address_of("https"), &client, asked).unwrap();
        assert!(is(&shown(&mut connection), expected), "{asked}");
        assert_eq!(connection.get("/a.txt").text(), "file a\n");
    }
    // Of no site: the default's certificate, which this client does not take.
    assert!(Client::try_connect_tls(server.address_of("https"), &client, "unknown.example").is_err());
    server.stop();
}

#[test]
fn rsa_is_for_those_who_know_nothing_else() {
    let authority = Authority::new();
    let rsa = authority.sign(&["localhost"], &PKCS_RSA_SHA256);
    let ecdsa = authority.sign(&["localhost"], &PKCS_ECDSA_P256_SHA256);
    let setup = Setup::with_files().listen("tls = {}").site(&certificates(&["rsa", "ecdsa"]));
    rsa.write(setup.directory.path(), "rsa");
    ecdsa.write(setup.directory.path(), "ecdsa");
    let server = setup.start();
    for (schemes, expected) in
        [(&[S::RSA_PSS_SHA256][..], &rsa), (&[S::RSA_PSS_SHA256, S::ECDSA_NISTP256_SHA256], &ecdsa)]
    {
        // The authority's own signature has to be checked in any case.
        let (client, _) = authority.picky(schemes);
        let mut connection = connect(&server, &client);
        assert!(is(&shown(&mut connection), expected), "{schemes:?}");
    }
    server.stop();
}

#[test]
fn http_1_is_agreed_on_where_http_2_is_off() {
    let authority = Authority::new();
    for http2 in [true, false] {
        let server = setup(&authority, "").listen(&format!("http2 = {http2}")).start();
        let mut client = (*authority.client()).clone();
        client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut connection = connect(&server, &client.into());
        let expected = if http2 { &b"h2"[..] } else { b"http/1.1" };
        assert_eq!(connection.tls().alpn_protocol(), Some(expected));
        drop(connection);
        server.stop();
    }
}

#[test]
fn a_staple_comes_along_and_is_read_again() {
    let authority = Authority::new();
    let made = authority.sign(&["localhost"], &PKCS_ECDSA_P256_SHA256);
    let staple = |last: u8| vec![0x30, 7, 0x0a, 1, 0, 0x04, 2, last, last];
    let setup = Setup::with_files()
        .listen("tls = {}")
        .site("certificates = [{ certificate = \"site.pem\", key = \"site-key.pem\", ocsp = \"resp.der\" }]")
        .outside("resp.der", &staple(1));
    made.write(setup.directory.path(), "site");
    let server = setup.start();
    let schemes = [S::ECDSA_NISTP256_SHA256];
    let seen = || {
        let (client, picky) = authority.picky(&schemes);
        connect(&server, &client).get("/a.txt");
        std::mem::take(&mut *picky.staple.lock().unwrap())
    };
    assert_eq!(seen(), staple(1));
    replace(&server.path("resp.der"), &staple(2));
    eventually("the new staple is sent", || seen() == staple(2));
    server.stop();
}
