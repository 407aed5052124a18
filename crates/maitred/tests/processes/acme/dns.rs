//! DNS-01: wildcards, by a hook and by updates of a real name server.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use maitred_agents::acme::certificate;
use rustix::process::Signal;

use crate::acme::knot::{Knot, SECRET};
use crate::acme::pebble::{Manners, Pebble};
use crate::support::{copy_program, eventually};

const NAME: &str = "_acme-challenge.a.example";

/// A hook with these lines of shell, which notes its arguments in the file `calls`.
fn hook(pebble: &Pebble, lines: &str) -> PathBuf {
    let (path, beside) = (pebble.path("hook"), pebble.path("hook.text"));
    let calls = pebble.path("calls");
    std::fs::write(&beside, format!("#!/bin/sh\necho \"$@\" >> {}\n{lines}\n", calls.display())).unwrap();
    std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o755)).unwrap();
    copy_program(&beside, &path);
    path
}

/// The calls that the hook has noted.
fn calls(pebble: &Pebble) -> Vec<String> {
    let text = std::fs::read_to_string(pebble.path("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The lines of `[acme]` that have records made by that hook.
fn by(hook: &std::path::Path, more: &str) -> String {
    format!("[[acme.dns]]\nhook = [\"{}\", \"first\"]\n{more}\n", hook.display())
}

#[test]
fn a_wildcard_is_proved_by_a_hook_and_its_records_are_removed() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let management = pebble.names_management;
    let set = format!(
        "echo \"$3 is set to $4\" >&2\ncase $2 in\nadd) curl -sf -d \"{{\\\"host\\\":\\\"$3.\\\",\\\"value\\\":\\\"$4\\\"}}\" \
         http://{management}/set-txt;;\nesac"
    );
    let hook = hook(&pebble, &set);
    let names = ["*.a.example", "a.example"];
    let server = pebble.setup(&names, &format!("challenge = \"dns-01\"\n{}", by(&hook, ""))).start();
    server.wait_for_line(|line| line.contains(&format!("{NAME} is set to ")));
    let pem = pebble.next_certificate("_.a.example", None);
    assert_eq!(certificate::facts(&pem).unwrap().names, names);
    let count = |word: &str| {
        let begin = format!("first {word} {NAME} ");
        calls(&pebble).iter().filter(|call| call.starts_with(&begin)).count()
    };
    eventually("both records are removed", || count("remove") == 2);
    assert_eq!(count("add"), 2, "{:?}", calls(&pebble));
    eventually("no record is remembered", || records(&pebble) == "[]");
    server.stop();
}

fn records(pebble: &Pebble) -> String {
    std::fs::read_to_string(pebble.path("state/dns/records.json")).unwrap_or_default()
}

#[test]
fn a_hook_that_fails_or_hangs_is_reported_and_its_record_removed() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let path = hook(&pebble, "case $2 in\nadd) exit 3;;\nesac");
    let server = pebble.setup(&["*.a.example"], &by(&path, "timeout = \"1s\"")).start();
    let line = server.wait_for_line(|line| line.contains("no certificate:"));
    assert!(line.contains("the hook exited with status 3"), "{line}");
    eventually("the record is removed", || {
        calls(&pebble).iter().any(|call| call.starts_with("first remove"))
    });
    hook(&pebble, "exec sleep 600");
    let line = server.wait_for_line(|line| line.contains("no certificate:") && line.contains("too long"));
    assert!(line.contains("the hook took too long, and was killed"), "{line}");
    std::fs::remove_file(&path).unwrap();
    server.wait_for_line(|line| line.contains("the hook could not be started"));
    assert_eq!(server.connect().get("/a.txt").status, 200, "nothing else suffers");
    server.terminate(Signal::TERM);
}

#[test]
fn records_that_another_life_has_left_are_removed() {
    let Some(pebble) = Pebble::without_authority(Manners::default()) else { return };
    let path = hook(&pebble, "");
    let setup = pebble.setup(&["a.example"], &by(&path, ""));
    std::fs::create_dir_all(pebble.path("state/dns")).unwrap();
    let text = "x".repeat(43);
    // Of a site that is not there any more.
    let left = format!("[{{ \"name\": \"_acme-challenge.b.example\", \"text\": \"{text}\" }}]");
    std::fs::write(pebble.path("state/dns/records.json"), left).unwrap();
    let server = setup.start();
    eventually("it is removed", || {
        calls(&pebble) == [format!("first remove _acme-challenge.b.example {text}")]
    });
    eventually("it is forgotten", || records(&pebble) == "[]");
    server.terminate(Signal::TERM);
}

#[test]
fn a_wildcard_is_proved_by_signed_updates_of_a_name_server() {
    let Some(pebble) = Pebble::without_authority(Manners::default()) else { return };
    let Some(knot) = Knot::start(pebble.ip) else { return };
    let pebble = pebble.with_names(knot.address).with_authority();
    let key = format!("key \"maitred\" {{\n\talgorithm hmac-sha256;\n\tsecret \"{SECRET}\";\n}};\n");
    let names = ["*.a.example", "a.example"];
    let server = pebble.setup(&names, &format!("challenge = \"dns-01\"\n{}", knot.updates(&key, ""))).start();
    let pem = pebble.next_certificate("_.a.example", None);
    assert_eq!(certificate::facts(&pem).unwrap().names, names);
    server.wait_for_line(|line| line.contains(&format!("the record {NAME} is there")));
    eventually("the records are removed", || knot.texts(NAME).is_empty());
    eventually("no record is remembered", || records(&pebble) == "[]");
    server.stop();
}

#[test]
fn an_update_that_is_refused_says_why() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let Some(knot) = Knot::start(pebble.ip) else { return };
    let other = "YW5vdGhlciBzZWNyZXQ=";
    for (key, more, why) in [
        (other, "key_name = \"maitred\"", "BADSIG"),
        (SECRET, "key_name = \"other\"", "BADKEY"),
        (SECRET, "key_name = \"maitred\"\nzone = \"b.example\"", "NOTAUTH"),
        (SECRET, "", "key_name"),
    ] {
        let setup = pebble.setup(&["*.a.example"], &knot.updates(key, more));
        let server = setup.start();
        let line = server.wait_for_line(|line| line.contains("no certificate:"));
        assert!(line.contains(why), "{why}: {line}");
        server.terminate(Signal::TERM);
        std::fs::remove_dir_all(pebble.path("state")).unwrap();
    }
    assert!(knot.texts(NAME).is_empty());
}
