//! From nothing to a certificate.

use maitred_agents::acme::certificate;

use crate::acme::pebble::{Manners, Pebble, mode};

#[test]
fn a_site_of_several_names_gets_a_certificate() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let server = pebble.setup(&["b.example", "a.example"], "contact = [\"admin@a.example\"]").start();
    let pem = pebble.next_certificate("b.example", None);
    let facts = certificate::facts(&pem).unwrap();
    assert_eq!(facts.names, ["a.example", "b.example"]);
    assert!(certificate::is_key_of(&pem, &pem).unwrap(), "one file has both");
    assert_eq!(pem.matches("BEGIN CERTIFICATE").count(), 2, "its issuer's, too");
    server.wait_for_line(|line| line.contains("there is a new certificate"));
    for path in ["certificates/b.example.pem", "certificates/b.example.json", "lock"] {
        assert_eq!(mode(&pebble.path("state").join(path)), 0o600, "{path}");
    }
    for path in ["", "certificates", "accounts"] {
        assert_eq!(mode(&pebble.path("state").join(path)), 0o700, "{path}");
    }
    let stopped = server.stop();
    let looked = |line: &&String| line.contains("/.well-known/acme-challenge/") && line.contains(" 200 ");
    assert!(
        stopped.access.iter().filter(looked).count() >= 2,
        "each name was validated: {:?}",
        stopped.access
    );
}

#[test]
fn each_site_has_a_certificate_of_its_own() {
    let Some(pebble) = Pebble::start(Manners { authz_reuse: 100, ..Manners::default() }) else { return };
    let mut setup = pebble.setup(&["0.example"], "key = \"p384\"");
    for number in 1..6 {
        let site = format!(
            "[[site]]\nhosts = [\"{number}.example\", \"www.{number}.example\"]\nacme = true\nroot = \"root\"\n"
        );
        setup = setup.table(&site);
    }
    let server = setup.start();
    for number in 0..6 {
        let pem = pebble.next_certificate(&format!("{number}.example"), None);
        assert!(certificate::facts(&pem).unwrap().names.contains(&format!("{number}.example")));
    }
    let accounts = std::fs::read_dir(pebble.path("state/accounts")).unwrap().count();
    assert_eq!(accounts, 1, "they share the account");
    server.stop();
}

#[test]
fn a_token_of_nobody_is_a_path_like_any_other() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let server = pebble.setup(&["a.example"], "").start();
    pebble.next_certificate("a.example", None);
    server.wait_for_line(|line| line.contains("there is a new certificate"));
    assert_eq!(server.connect().get("/.well-known/acme-challenge/none").status, 404);
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    let stopped = server.stop();
    let path = stopped.access.iter().find_map(|line| {
        let from = line.find("/.well-known/acme-challenge/")?;
        line[from..].split(' ').next().map(str::to_owned)
    });
    // What was answered once is answered no more.
    let server = stopped.setup.start();
    assert_eq!(server.connect().get(&path.unwrap()).status, 404);
    server.stop();
}

#[test]
fn an_authority_that_refuses_nonces_is_asked_again() {
    let Some(pebble) = Pebble::start(Manners { nonce_reject: 50, ..Manners::default() }) else { return };
    let server = pebble.setup(&["a.example", "b.example", "c.example"], "").start();
    let facts = certificate::facts(&pebble.next_certificate("a.example", None)).unwrap();
    assert_eq!(facts.names, ["a.example", "b.example", "c.example"]);
    server.terminate(rustix::process::Signal::TERM);
}

#[test]
fn an_account_elsewhere_is_named_where_one_is_asked_for() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let manners = Manners { external_account: Some(("kid-1", key)), ..Manners::default() };
    let Some(pebble) = Pebble::start(manners) else { return };
    let server = pebble.setup(&["a.example"], "").start();
    server.wait_for_line(|line| line.contains("no certificate:") && line.contains("externalAccountRequired"));
    let stopped = server.terminate(rustix::process::Signal::TERM);
    drop(stopped);
    std::fs::write(pebble.path("eab.key"), format!("{key}\n")).unwrap();
    let external =
        format!("external_account = {{ key_id = \"kid-1\", hmac_key_file = {:?} }}", pebble.path("eab.key"));
    let server = pebble.setup(&["a.example"], &external).start();
    pebble.next_certificate("a.example", None);
    server.stop();
}
