//! The admin address, and the commands that ask there.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Server, Setup, eventually};

fn admin(server: &Server, method: &str, path: &str, fields: &str) -> crate::support::Response {
    server.admin(&format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
}

#[test]
fn status_json_is_an_account_of_what_happened() {
    let server = Setup::with_files()
        .server("threads = 2")
        .pool("app", None, "workers = 2\nqueue = { timeout = \"60s\" }")
        .start();
    let mut client = server.connect();
    (0..5).for_each(|_| assert_eq!(client.get("/a.txt").status, 200));
    assert_eq!(client.get("/not-there").status, 404);
    assert_eq!(client.get("/app/hello").status, 200);
    // The process's report comes after its response.
    let done = |status: &serde_json::Value| {
        let slots = status["pools"][0]["slots"].as_array().unwrap();
        slots.iter().filter_map(|slot| slot["requests"].as_u64()).sum::<u64>()
    };
    eventually("the report is there", || done(&server.status()) == 1);
    let status = server.status();
    let totals = &status["totals"];
    assert_eq!((totals["handoffs"].as_u64(), totals["malformed"].as_u64()), (Some(1), Some(0)), "{status}");
    // Those of the admin address are counted, too.
    assert!(totals["responses"]["2xx"].as_u64() >= Some(6), "{status}");
    assert_eq!(totals["responses"]["4xx"], 1, "{status}");
    assert_eq!(status["threads"].as_array().unwrap().len(), 2);
    assert_eq!(status["listens"][0]["address"], server.address.to_string());
    assert_eq!(status["pools"][0]["name"], "app");
    assert_eq!(status["pools"][0]["max"], 2);
    assert_eq!(
        status["pools"][0]["slots"].as_array().unwrap().len(),
        3,
        "one more, for a process that is replaced"
    );
    assert_eq!(status["generation"], 1);
    server.stop();
}

/// Checks the text format of Prometheus, version 0.0.4, as far as it is used: HELP, TYPE, then samples of that name.
#[test]
fn metrics_are_in_the_text_format() {
    let server = Setup::with_files().pool("app", None, "workers = 1").start();
    server.connect().get("/a.txt");
    let response = admin(&server, "GET", "/metrics", "");
    assert_eq!(response.status, 200);
    assert!(response.need("content-type").starts_with("text/plain; version=0.0.4"), "{response:?}");
    assert!(response.text().ends_with('\n'));
    let (mut current, mut kind, mut seen) = (String::new(), String::new(), Vec::new());
    let mut samples = 0;
    for line in response.text().lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            current = rest.split(' ').next().unwrap().to_owned();
            assert!(!seen.contains(&current), "{current} twice");
            seen.push(current.clone());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, found) = rest.split_once(' ').unwrap();
            assert_eq!(name, current);
            assert!(matches!(found, "gauge" | "counter"), "{line}");
            assert_eq!(found == "counter", name.ends_with("_total"), "{line}");
            kind = found.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            assert_eq!(name, current, "{line}");
            assert!(labels.ends_with('}') && labels.matches('"').count() % 2 == 0, "{line}");
            let value: f64 = value.parse().unwrap();
            assert!(value.is_finite() && (kind == "gauge" || value >= 0.0), "{line}");
            samples += 1;
        }
    }
    assert!(samples > 30 && response.text().contains("maitred_thread_responses_total{"), "{samples}");
    server.stop();
}

#[test]
fn other_methods_and_paths_are_refused() {
    let server = Setup::with_files().start();
    for (method, path, status) in [
        ("GET", "/reload", 405),
        ("GET", "/stop", 405),
        ("POST", "/status.json", 405),
        ("GET", "/a.txt", 404),
        ("GET", "/../a.txt", 404),
    ] {
        let response = admin(&server, method, path, "");
        assert!(response.status == status || response.status == 400, "{method} {path}: {response:?}");
    }
    // A page in a browser names itself.
    assert_eq!(admin(&server, "POST", "/stop", "Origin: http://example.com\r\n").status, 403);
    assert_eq!(server.connect().get("/status.json").status, 404, "not on the public address");
    assert_eq!(server.connect().get("/a.txt").status, 200);
    assert_eq!(server.stop().access.len(), 2, "the admin address is not in the access log");
}

#[test]
fn the_admin_socket_is_for_its_owner() {
    let server = Setup::with_files().start();
    let mode = fs::metadata(server.path("admin.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let setup = server.stop().setup;
    assert!(!setup.directory.path().join("admin.sock").exists(), "it is gone with the server");
}

#[test]
fn status_and_reload_are_commands() {
    let server = Setup::with_files().start();
    let mut kept = server.connect();
    assert_eq!(kept.get("/a.txt").text(), "file a\n");
    let (status, text) = server.command(&["status"]);
    assert!(status.success() && text.contains(&server.address.to_string()), "{text}");
    let (status, text) = server.command(&["status", "--json"]);
    assert!(status.success(), "{text}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["generation"], 1);

    // A reload reads the configuration again, and keeps connections.
    let configuration = server.setup.write();
    let text = fs::read_to_string(&configuration).unwrap();
    fs::write(&configuration, text.replace("root = \"root\"", "root = \"root/dir\"")).unwrap();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    // The old worker process may still take what was on its way to it.
    eventually("new connections get the new root", || server.connect().get("/").text() == "<p>dir</p>\n");
    eventually("so does the old one", || kept.get("/").text() == "<p>dir</p>\n");
    eventually("so does the admin address", || server.status()["generation"] == 2);

    // A bad one changes nothing.
    fs::write(&configuration, text.replace("[limits]", "[limit]")).unwrap();
    let (status, said) = server.command(&["reload"]);
    assert!(!status.success(), "{said}");
    assert_eq!(kept.get("/").text(), "<p>dir</p>\n");
    assert_eq!(server.status()["generation"], 2);
    let stopped = server.terminate(rustix::process::Signal::TERM);
    assert!(stopped.status.success(), "{stopped:?}");
    assert!(stopped.said.iter().any(|line| line.contains("did you mean `limits`")), "{stopped:?}");
}

#[test]
fn stop_is_a_command() {
    let server = Setup::with_files().start();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").status, 200);
    let (status, said) = server.command(&["stop"]);
    assert!(status.success(), "{said}");
    let stopped = server.wait_for_exit();
    assert!(stopped.status.success(), "{stopped:?}");
}
