//! A configuration of several files, with secrets, over reloads.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;

use crate::support::{Server, Setup};

/// Two files, a secret, and an application that says its environment.
fn start() -> Server {
    let setup = Setup::with_files()
        .outside("conf.d/10-a.toml", b"[[site]]\nhosts = [\"a.example\"]\nroot = \"../root/dir\"\n")
        .outside("secret", b"first\n")
        .site("hosts = [\"localhost\"]");
    let path = setup.write();
    let text = fs::read_to_string(path).unwrap();
    let text = text.replacen(
        "\"root\"\n",
        "\"root\"\nresponse_headers = { set = { X-Secret = \"${file:secret}\" } }\n",
        1,
    );
    setup.start_as(&format!("import = [\"conf.d/*.toml\"]\n{text}"))
}

fn ask(server: &Server, host: &str, path: &str) -> crate::support::Response {
    server.connect().ask(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
}

#[track_caller]
fn refused(server: &Server, why: &str) {
    let (status, said) = server.command(&["reload"]);
    assert!(!status.success(), "{said}");
    server.wait_for(why);
    let (status, said) = server.command(&["check"]);
    assert!(!status.success() && said.contains(why), "{said}");
}

#[test]
fn a_reload_reads_all_files_again() {
    let server = start();
    assert_eq!(ask(&server, "a.example", "/").text(), "<p>dir</p>\n");
    assert_eq!(ask(&server, "b.example", "/a.txt").text(), "file a\n", "the default site");
    let new = "[[site]]\nhosts = [\"b.example\"]\nroute = [{ path = \"/*\", respond = { body = \"b\" } }]\n";
    fs::write(server.path("conf.d/20-b.toml"), new).unwrap();
    fs::write(server.path("secret"), "second\n").unwrap();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    assert_eq!(ask(&server, "b.example", "/a.txt").text(), "b");
    assert_eq!(ask(&server, "localhost", "/a.txt").field("x-secret"), Some("second"));

    fs::write(server.path("conf.d/20-b.toml"), format!("{new}\n[log]\nacces = \"off\"\n")).unwrap();
    refused(&server, "conf.d/20-b.toml:6:1");
    assert_eq!(ask(&server, "b.example", "/").text(), "b");
    assert!(server.terminate(Signal::TERM).status.success());
}

#[test]
fn a_secret_that_cannot_be_read_changes_nothing() {
    let server = start();
    assert_eq!(ask(&server, "localhost", "/a.txt").field("x-secret"), Some("first"));
    fs::write(server.path("secret"), "").unwrap();
    refused(&server, "the file is empty: ");
    fs::remove_file(server.path("secret")).unwrap();
    refused(&server, "there is no such file: ");
    fs::create_dir(server.path("secret")).unwrap();
    refused(&server, "this is a directory: ");
    // Root may read any file.
    if !rustix::process::geteuid().is_root() {
        fs::remove_dir(server.path("secret")).unwrap();
        fs::write(server.path("secret"), "third\n").unwrap();
        fs::set_permissions(server.path("secret"), fs::Permissions::from_mode(0o0)).unwrap();
        refused(&server, "permission denied");
    }
    assert_eq!(ask(&server, "localhost", "/a.txt").field("x-secret"), Some("first"));
    let status = server.status().to_string();
    assert!(!status.contains("first"), "{status}");
    let stopped = server.terminate(Signal::TERM);
    assert!(stopped.status.success());
    let told: Vec<_> = stopped.said.iter().filter(|line| line.contains("first")).collect();
    assert!(told.is_empty(), "{told:#?}");
}
