//! The page in a browser.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::admin_address;
use crate::support::{Client, Gate, Setup, Waiting, binary, eventually, skip_missing};

/// The browser that the tests use.
fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path);
    directories.map(|directory| directory.join("chromium")).find(|program| program.is_file())
}

/// The page in headless Chromium: see `browser.py`. With `MAITRED_WRITE_SCREENSHOTS=1` it also writes
/// docs/status-page.png, docs/status-page-dark.png and docs/status-page-phone.png anew.
#[test]
fn the_page_is_live_in_a_browser() {
    let Some(chromium) = chromium() else {
        return skip_missing("there is no chromium here (Debian: chromium)");
    };
    let gate = Gate::new();
    let server = Setup::with_files()
        .server("threads = 2")
        .server("admin = \"127.0.0.1:0\"")
        .server("admin_token = \"token\"")
        .limit("connections_per_thread_max = 200")
        .pool("app", Some(&gate), "workers = 12")
        .route("/broken/*", "pool = \"broken\"")
        .python("broken", "missing:application", "UNUSED = \"\"", "workers = 3")
        .start();
    let (admin, site) = (admin_address(&server), server.address);
    // A process that is there earlier than the others would get two of the requests below.
    let status =
        || -> Value { serde_json::from_slice(&Client::connect(admin).get("/status.json").body).unwrap() };
    eventually("the processes are ready", || {
        status()["pools"][0]["letters"].as_str().is_some_and(|letters| letters.starts_with(&"_".repeat(12)))
    });
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut browser = Command::new("python3");
    browser.arg(manifest.join("tests/wire/status_page/browser.py")).arg(chromium);
    browser.args([format!("http://{admin}"), format!("http://{site}")]);
    browser.arg(binary()).arg(server.path("token"));
    browser
        .args((std::env::var_os("MAITRED_WRITE_SCREENSHOTS").is_some()).then(|| manifest.join("../../docs")));
    let mut browser = browser.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
    // Requests that the page shows as under way: they stand at the gate until the script has seen them.
    let mut waiting = Vec::new();
    let mut clients: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
        waiting.push(gate.arrival());
    }
    for line in BufReader::new(browser.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        println!("{line}");
        if line == "seen" {
            waiting.drain(..).for_each(Waiting::release);
            clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
        }
    }
    assert!(browser.wait().unwrap().success(), "what the browser found is above");
    server.terminate(Signal::TERM);
}
