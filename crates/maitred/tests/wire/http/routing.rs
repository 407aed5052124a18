//! Which site and which route answers (RFC 9112 section 3; 9110 section 7).

use crate::support::{End, Server, Setup};

fn sites() -> Server {
    Setup::with_files()
        .outside("other/a.txt", b"other a\n")
        .outside("below/a.txt", b"below a\n")
        .outside("secret.txt", b"secret\n")
        .table("[[site]]\nhosts = [\"other.example\"]\nroot = \"other\"\n")
        .table("[[site]]\nhosts = [\"*.below.example\"]\nroot = \"below\"\n")
        .start()
}

#[test]
fn hosts_choose_the_site() {
    let server = sites();
    let mut client = server.connect();
    for (host, text) in [
        ("other.example", "other a\n"),
        ("OTHER.Example:8080", "other a\n"),
        ("x.below.example", "below a\n"),
        ("x.y.below.example", "below a\n"),
        ("below.example", "file a\n"),
    ] {
        let response = client.ask(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!((response.status, response.text()), (200, text), "{host}");
    }
    server.stop();
}

#[test]
fn an_unknown_host_gets_the_default_site() {
    let server = sites();
    let mut client = server.connect();
    for host in ["unknown.example", "127.0.0.1", "[::1]:80", ""] {
        let response = client.ask(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!((response.status, response.text()), (200, "file a\n"), "{host}");
    }
    server.stop();
}

#[test]
fn a_request_without_host_gets_400() {
    let server = sites();
    for fields in ["", "Host: a\r\nHost: a\r\n", "Host: a b\r\n", "Host: a/b\r\n"] {
        let mut client = server.connect();
        let response = client.ask(format!("GET /a.txt HTTP/1.1\r\n{fields}\r\n"));
        assert_eq!((response.status, response.says_close()), (400, true), "{fields:?}");
        assert_eq!(client.end(), End::Closed);
    }
    server.stop();
}

#[test]
fn http_1_0_without_host_gets_the_default_site() {
    let server = sites();
    assert_eq!(server.connect().ask("GET /a.txt HTTP/1.0\r\n\r\n").text(), "file a\n");
    let with_host = server.connect().ask("GET /a.txt HTTP/1.0\r\nHost: other.example\r\n\r\n");
    assert_eq!(with_host.text(), "other a\n");
    server.stop();
}

#[test]
fn the_absolute_form_is_served() {
    let server = sites();
    let mut client = server.connect();
    let response = client.ask("GET http://localhost/a.txt?q HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((response.status, response.text()), (200, "file a\n"));
    let response = client.ask("GET http://localhost HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((response.status, response.text()), (200, "<p>index</p>\n"));
    server.stop();
}

#[test]
fn an_https_target_is_misdirected_on_a_cleartext_connection() {
    let server = sites();
    let mut client = server.connect();
    let response = client.ask("GET https://localhost/a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(response.status, 421);
    server.stop();
}

#[test]
fn the_absolute_form_chooses_the_site() {
    let server = sites();
    let mut client = server.connect();
    let response = client.ask("GET http://other.example/a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(response.text(), "other a\n");
    let response = client.ask("GET http://localhost/a.txt HTTP/1.1\r\nHost: other.example\r\n\r\n");
    assert_eq!(response.text(), "file a\n");
    server.stop();
}

#[test]
fn a_target_of_8000_bytes_is_served() {
    let server = sites();
    let mut client = server.connect();
    let target = format!("/a.txt?{}", "x".repeat(8000 - 7));
    assert_eq!(target.len(), 8000);
    assert_eq!(client.get(&target).text(), "file a\n");
    // A path of that length has names of at most 255 bytes, so it is not there; but it is looked for.
    let path = format!("/{}", "dir/".repeat(2000));
    assert_eq!(client.get(&path[..8000]).status, 404);
    server.stop();
}

#[test]
fn traversal_never_leaves_the_root() {
    let server = sites();
    for target in [
        "/../secret.txt",
        "/dir/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/dir/%2e%2e/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/dir/..%2f..%2fsecret.txt",
        "/.%2e/secret.txt",
        "/..\\secret.txt",
        "/%5c..%5csecret.txt",
        "//../secret.txt",
        "/%252e%252e/secret.txt",
        "/a.txt/../../secret.txt",
        "/%00/../secret.txt",
        "/%c0%ae%c0%ae/secret.txt",
    ] {
        let mut client = server.connect();
        let response = client.get(target);
        assert!(matches!(response.status, 400 | 404), "{target}: {response:?}");
        assert!(!response.text().contains("secret\n"), "{target}");
    }
    // Dots that stay inside are what they mean.
    assert_eq!(server.connect().get("/dir/../a.txt").text(), "file a\n");
    server.stop();
}

#[test]
fn links_out_of_the_root_are_not_followed() {
    let setup = Setup::with_files().outside("secret.txt", b"secret\n");
    let root = setup.directory.path().join("root");
    std::os::unix::fs::symlink("../secret.txt", root.join("out")).unwrap();
    std::os::unix::fs::symlink("a.txt", root.join("in")).unwrap();
    let server = setup.start();
    let mut client = server.connect();
    assert_eq!(client.get("/out").status, 404);
    assert_eq!(client.get("/in").text(), "file a\n");
    server.stop();
}
