//! What happens to a certificate that is there.

use std::time::{SystemTime, UNIX_EPOCH};

use maitred_agents::acme::certificate;
use rustix::process::Signal;
use serde_json::json;

use crate::acme::pebble::{Manners, Pebble};

#[test]
fn a_restart_uses_what_is_there() {
    let Some(mut pebble) = Pebble::start(Manners::default()) else { return };
    let server = pebble.setup(&["a.example"], "").start();
    let first = pebble.next_certificate("a.example", None);
    server.wait_for_line(|line| line.contains("there is a new certificate"));
    let setup = server.stop().setup;
    // Without an authority nothing can be ordered, and nothing has to be.
    pebble.stop();
    let server = setup.start();
    // The server asks at once when to renew.
    server.wait_for_line(|line| line.contains("no renewal information"));
    assert_eq!(pebble.certificate("a.example"), Some(first));
    let stopped = server.stop();
    assert!(!stopped.said.iter().any(|line| line.contains("ordering")), "{:?}", stopped.said);
}

#[test]
fn the_authority_can_have_a_certificate_renewed_at_once() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let server = pebble.setup(&["a.example"], "").start();
    let first = pebble.next_certificate("a.example", None);
    server.wait_for_line(|line| line.contains("there is a new certificate"));
    let setup = server.stop().setup;
    // RFC 9773 section 4.2: a window in the past means now.
    let window =
        json!({ "suggestedWindow": { "start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z" } });
    pebble.set_renewal_info(&first, &window);
    let server = setup.start();
    let second = pebble.next_certificate("a.example", Some(&first));
    let key = |pem: &str| pem[..pem.find("-----END PRIVATE KEY").unwrap()].to_owned();
    assert_ne!(key(&first), key(&second), "each certificate has a new key");
    server.stop();
}

#[test]
fn what_the_authority_says_about_renewal_may_be_nonsense() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let server = pebble.setup(&["a.example"], "").start();
    let first = pebble.next_certificate("a.example", None);
    server.wait_for_line(|line| line.contains("there is a new certificate"));
    let setup = server.stop().setup;
    let backwards = json!({ "start": "2020-01-02T00:00:00Z", "end": "2020-01-01T00:00:00Z" });
    let mut setup = Some(setup);
    for (info, said) in [
        (json!({ "suggestedWindow": 7 }), "no renewal information"),
        (json!("?"), "no renewal information"),
        (json!({ "suggestedWindow": backwards }), "the authority says when to renew"),
    ] {
        pebble.set_renewal_info(&first, &info);
        let server = setup.take().unwrap().start();
        server.wait_for_line(|line| line.contains(said));
        assert_eq!(pebble.certificate("a.example").as_ref(), Some(&first));
        let stopped = server.stop();
        assert!(!stopped.said.iter().any(|line| line.contains("ordering")), "{:?}", stopped.said);
        setup = Some(stopped.setup);
    }
}

#[test]
fn short_lives_are_renewed_while_the_server_runs() {
    let Some(pebble) = Pebble::start(Manners { short: 12, ..Manners::default() }) else { return };
    let server = pebble.setup(&["a.example"], "profile = \"short\"").start();
    let mut last = pebble.next_certificate("a.example", None);
    for _ in 0..2 {
        last = pebble.next_certificate("a.example", Some(&last));
        let facts = certificate::facts(&last).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(facts.not_after > now, "in time");
    }
    server.stop();
}

#[test]
fn another_name_takes_another_certificate_and_the_old_one_stays_until_then() {
    let Some(mut pebble) = Pebble::start(Manners::default()) else { return };
    let server = pebble.setup(&["a.example"], "").start();
    let first = pebble.next_certificate("a.example", None);
    server.wait_for_line(|line| line.contains("there is a new certificate"));
    pebble.stop();
    // The same server, with another configuration.
    let more = pebble.setup(&["a.example", "b.example"], "");
    std::fs::copy(more.write(), server.path("maitred.toml")).unwrap();
    let (status, text) = server.command(&["reload"]);
    assert!(status.success(), "{text}");
    server.wait_for_line(|line| line.contains("no certificate:"));
    assert_eq!(pebble.certificate("a.example"), Some(first.clone()));
    pebble.restart();
    let second = pebble.next_certificate("a.example", Some(&first));
    assert_eq!(certificate::facts(&second).unwrap().names, ["a.example", "b.example"]);
    server.terminate(Signal::TERM);
}
