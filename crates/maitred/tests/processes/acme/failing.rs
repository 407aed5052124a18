//! What goes wrong, and how it ends.

use maitred_agents::acme::certificate;
use rustix::process::{Pid, Signal, kill_process};

use crate::acme::pebble::{Manners, Pebble};
use crate::support::{Server, Setup, eventually};

/// The process that gets certificates, among the children of the master.
fn agent(server: &Server) -> Option<Pid> {
    let master = server.pid().as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap();
    children.split_whitespace().find_map(|pid| {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        command.starts_with("maitred: acme").then(|| Pid::from_raw(pid.parse().unwrap()))?
    })
}

#[test]
fn an_authority_out_of_reach_is_tried_until_it_is_there() {
    let Some(pebble) = Pebble::without_authority(Manners::default()) else { return };
    let server = pebble.setup(&["a.example"], "").start();
    server.wait_for_line(|line| line.contains("no certificate:") && line.contains("Connection refused"));
    assert_eq!(server.connect().get("/a.txt").status, 200, "nothing else suffers");
    let pebble = pebble.with_authority();
    pebble.next_certificate("a.example", None);
    server.terminate(Signal::TERM);
}

#[test]
fn another_authority_is_tried_after_failures_and_its_certificate_stays() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let Some(first) = Pebble::without_authority(Manners::default()) else { return };
    let bound = Manners { external_account: Some(("kid-2", key)), ..Manners::default() };
    let Some(second) = Pebble::start(bound) else { return };
    std::fs::write(second.path("eab.key"), key).unwrap();
    let acme = first.acme(&format!(
        "fallback_after = 2\n[[acme.fallback]]\n{}external_account = {{ key_id = \"kid-2\", hmac_key_file = \"{}\" }}",
        second.authority_lines(),
        second.path("eab.key").display()
    ));
    let server = second.setup_with(&["a.example"], &acme).start();
    let pem = second.next_certificate("a.example", None);
    server.wait_for_line(|line| line.contains("there is a new certificate"));
    let stopped = server.terminate(Signal::TERM);
    let lines = second.authority_lines();
    let directory = lines.split('"').nth(1).unwrap();
    let ordered = stopped.said.iter().filter(|line| line.contains("ordering a certificate"));
    let authorities: Vec<_> = ordered.map(|line| line.contains(directory)).collect();
    assert_eq!(authorities, [false, false, true], "{:?}", stopped.said);
    // The certificate is good until it ends, also where the first one is there again; and the second one knows when to renew
    // it.
    let first = first.with_authority();
    let server = stopped.setup.start();
    server.wait_for_line(|line| line.contains("the authority says when to renew"));
    assert_eq!(second.certificate("a.example"), Some(pem));
    assert_eq!(std::fs::read_dir(second.path("state/accounts")).unwrap().count(), 1);
    server.stop();
    drop(first);
}

#[test]
fn a_name_that_is_refused_is_said_with_the_authority_s_reason() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let setup = pebble.setup(&["blocked.example"], "retry = \"1h\"");
    let setup = setup.table("[[site]]\nhosts = [\"good.example\"]\nacme = true\nroot = \"root\"\n");
    let server = setup.start();
    let line = server.wait_for_line(|line| line.contains("no certificate:"));
    assert!(line.contains("blocked.example") && line.contains("rejectedIdentifier"), "{line}");
    assert!(line.contains("next try in"), "{line}");
    eventually("the status says so, too", || {
        let shown = &server.status()["automatic_certificates"][0]["error"];
        shown.as_str().is_some_and(|error| error.contains("rejectedIdentifier"))
    });
    let metrics = server.admin("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let failures = "maitred_automatic_certificate_failures{name=\"blocked.example\"} 1\n";
    assert!(metrics.text().contains(failures), "{}", metrics.text());
    let retry = "maitred_automatic_certificate_retry_at_seconds{name=\"blocked.example\"}";
    assert!(metrics.text().contains(retry), "{}", metrics.text());
    let (_, text) = server.command(&["status"]);
    assert!(text.contains("no new certificate for blocked.example: "), "{text}");
    // The other site does not suffer from it.
    pebble.next_certificate("good.example", None);
    // A restart does not begin anew: it has an hour to wait, more or less.
    let notes = std::fs::read_to_string(pebble.path("state/certificates/blocked.example.json")).unwrap();
    assert!(notes.contains("\"failures\": 1"), "{notes}");
    let server = server.terminate(Signal::TERM).setup.start();
    server.wait_for_line(|line| line.contains("the authority says when to renew"));
    let stopped = server.stop();
    assert!(!stopped.said.iter().any(|line| line.contains("ordering")), "{:?}", stopped.said);
}

#[test]
fn a_name_that_leads_elsewhere_is_not_certified() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    // The authority looks at the port that it knows, where there is no listener.
    let server = pebble.setup(&["a.example"], "").replacing_address("127.0.0.1:0").start();
    let line = server.wait_for_line(|line| line.contains("no certificate:"));
    assert!(line.contains("a.example: ") && line.contains("refused"), "{line}");
    assert_eq!(pebble.certificate("a.example"), None);
    server.terminate(Signal::TERM);
}

#[test]
fn an_agent_that_is_killed_is_replaced_and_finishes() {
    let Some(pebble) = Pebble::without_authority(Manners::default()) else { return };
    let server = pebble.setup(&["a.example"], "").start();
    server.wait_for_line(|line| line.contains("no certificate:"));
    let mut pebble = pebble.with_authority();
    // Again and again, wherever it is at that moment.
    let mut killed = 0;
    eventually("the certificate is there", || {
        if killed < 3
            && let Some(pid) = agent(&server)
        {
            let _ = kill_process(pid, Signal::KILL);
            killed += 1;
        }
        killed > 0 && pebble.certificate("a.example").is_some()
    });
    let pem = pebble.certificate("a.example").unwrap();
    assert!(certificate::is_key_of(&pem, &pem).unwrap(), "whatever happened, the file is whole");
    server.wait_for_line(|line| line.contains("the process for certificates was killed"));
    assert_eq!(server.connect().get("/a.txt").status, 200);
    pebble.stop();
    server.terminate(Signal::TERM);
}

#[test]
fn an_authority_that_has_forgotten_everything_gets_a_new_account() {
    let Some(mut pebble) = Pebble::start(Manners::default()) else { return };
    let server = pebble.setup(&["a.example"], "").start();
    let first = pebble.next_certificate("a.example", None);
    server.wait_for_line(|line| line.contains("there is a new certificate"));
    let setup = server.stop().setup;
    pebble.restart();
    std::fs::remove_file(pebble.path("state/certificates/a.example.pem")).unwrap();
    let server = setup.start();
    pebble.next_certificate("a.example", Some(&first));
    server.wait_for_line(|line| line.contains("does not know the account any more"));
    server.terminate(Signal::TERM);
}

#[test]
fn a_state_directory_that_cannot_be_written_stops_no_server() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    std::fs::write(pebble.path("state"), "a file").unwrap();
    let server = pebble.setup(&["a.example"], "").start();
    let line = server.wait_for_line(|line| line.contains("the process for certificates cannot run"));
    assert!(line.contains("state"), "{line}");
    assert_eq!(server.connect().get("/a.txt").status, 200);
    std::fs::remove_file(pebble.path("state")).unwrap();
    pebble.next_certificate("a.example", None);
    server.terminate(Signal::TERM);
}

#[test]
fn a_server_without_such_sites_has_no_agent() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let server = pebble.setup(&["a.example"], "").start();
    eventually("there is an agent", || agent(&server).is_some());
    let without = Setup::with_files().listen(&format!("address = \"{}\"", pebble.http));
    std::fs::copy(without.write(), server.path("maitred.toml")).unwrap();
    let (status, text) = server.command(&["reload"]);
    assert!(status.success(), "{text}");
    eventually("the agent is gone", || agent(&server).is_none());
    server.stop();
}

/// Nothing answers where the authority is said to be; the process lives, and keeps what it knows in its directory.
#[test]
fn the_process_for_certificates_has_an_account_and_a_directory_of_its_own() {
    use std::os::unix::fs::{MetadataExt as _, symlink};
    if !rustix::process::geteuid().is_root() {
        return crate::support::skip_here("it takes root to become another user");
    }
    let acme = "[acme]\nagree = true\ndirectory = \"https://127.0.0.1:1/dir\"\nuser = \"nobody\"\n";
    let setup = Setup::with_files().server("state = \"state\"").listen("tls = {}").table(acme);
    let setup = setup.site("hosts = [\"a.example\"]\nacme = true");
    // As one that was root has left it.
    let state = setup.directory.path().join("state");
    std::fs::create_dir_all(state.join("certificates")).unwrap();
    std::fs::write(state.join("certificates/old.example.pem"), "old").unwrap();
    let server = setup.start();
    server.wait_for_line(|line| line.contains("no certificate:") && line.contains("a.example"));
    let pid = agent(&server).unwrap().as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    let uid = std::fs::metadata(&state).unwrap().uid();
    assert_ne!(uid, 0);
    assert_eq!(field("Uid:"), [uid; 4].map(|id| id.to_string()).join("\t"));
    assert_eq!(field("CapPrm:").trim_matches('0'), "");
    for name in ["certificates/old.example.pem", "certificates/a.example.json", "lock"] {
        assert_eq!(std::fs::metadata(state.join(name)).unwrap().uid(), uid, "{name}");
    }
    // What it could put in the place of a certificate is not followed, and delays nothing.
    rustix::fs::mkfifoat(rustix::fs::CWD, state.join("certificates/a.example.pem"), rustix::fs::Mode::RWXU)
        .unwrap();
    let (reloaded, said) = server.command(&["reload"]);
    assert!(reloaded.success(), "{said}");
    std::fs::remove_file(state.join("certificates/a.example.pem")).unwrap();
    symlink("/etc/passwd", state.join("certificates/a.example.pem")).unwrap();
    let (reloaded, said) = server.command(&["reload"]);
    assert!(reloaded.success(), "{said}");
    server.wait_for_line(|line| line.contains("cannot be used") && line.contains("a.example.pem"));
    server.terminate(Signal::TERM);
}
