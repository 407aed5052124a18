//! Files that change while the server runs.

use rcgen::PKCS_ECDSA_P256_SHA256;

use crate::support::eventually;
use crate::support::stage::{Authority, connect, is, replace, setup, shown};

#[test]
fn a_new_certificate_is_used_without_a_reload_and_disturbs_nobody() {
    let authority = Authority::new();
    let server = setup(&authority, "").server("threads = 2").start();
    let client = authority.client();
    let mut before = connect(&server, &client);
    assert_eq!(before.get("/a.txt").text(), "file a\n");
    let old = shown(&mut before);
    let renewed = authority.sign(&["localhost", "renewed"], &PKCS_ECDSA_P256_SHA256);
    renewed.write(server.setup.directory.path(), "site");
    eventually("the new certificate is shown", || {
        is(&shown(&mut connect(&server, &authority.client())), &renewed)
    });
    assert_eq!(server.status()["certificates"][0]["name"], "localhost");
    assert_eq!(before.get("/b.txt").text(), "file b\n", "on the connection that was there");
    assert_eq!(shown(&mut before), old);
    // A worker process that is started later has it as well.
    assert!(server.command(&["reload"]).0.success());
    assert!(is(&shown(&mut connect(&server, &authority.client())), &renewed));
    drop(before);
    server.stop();
}

#[test]
fn a_broken_file_changes_nothing_and_is_logged_once() {
    let authority = Authority::new();
    let server = setup(&authority, "").start();
    let old = shown(&mut connect(&server, &authority.client()));
    let other = authority.sign(&["localhost", "other"], &PKCS_ECDSA_P256_SHA256);
    replace(&server.path("site-key.pem"), other.key.as_bytes());
    let line = server.wait_for_line(|line| line.contains("the previous ones stay in use"));
    assert!(line.contains("site-key.pem: this is not the key of the certificate"), "{line}");
    assert_eq!(shown(&mut connect(&server, &authority.client())), old);
    let (status, text) = server.command(&["reload"]);
    assert!(!status.success() && text.contains("this is not the key of the certificate"), "{text}");
    assert_eq!(shown(&mut connect(&server, &authority.client())), old);
    replace(&server.path("site.pem"), other.certificate.as_bytes());
    eventually("the pair is whole", || is(&shown(&mut connect(&server, &authority.client())), &other));
    let stopped = server.terminate(rustix::process::Signal::TERM);
    let said = stopped.said.iter().filter(|line| line.contains("the previous ones stay in use")).count();
    assert_eq!(said, 1, "{:#?}", stopped.said);
}

#[test]
fn a_check_reads_certificates() {
    let authority = Authority::new();
    let setup = setup(&authority, "");
    let path = setup.write();
    let check = || {
        let output =
            std::process::Command::new(crate::support::binary()).args(["check", "-c"]).arg(&path).output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // Where root runs the tests, all processes are root's, and that is warned of; nothing is said of certificates.
    let (good, text) = check();
    assert!(good && text.matches("warning").count() == usize::from(text.contains("run as root")), "{text}");
    replace(&setup.directory.path().join("site-key.pem"), b"nothing");
    let (good, text) = check();
    assert!(!good && text.contains("`key`: there is no private key in PEM in it"), "{text}");
}
