//! Caddy on a Caddyfile, and Maitred on its import: statuses, targets of redirects, and bodies of what is no error are the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Asked;
use super::servers::{Answer, Running, Stub, directory, expression, reserved_address};
use crate::import::{World, maitred, text};
use crate::support::{binary, skip_missing};

/// Caddyfiles without TLS, and without applications that are no HTTP servers.
const SAMPLES: &[&str] = &[
    "apps",
    "cors",
    "error-pages",
    "expressions",
    "files",
    "grpc",
    "login",
    "matchers",
    "media",
    "moved",
    "prefixes",
    "routes",
    "shortened",
];
/// Paths beside those that a Caddyfile names.
const PATHS: &[&str] = &[
    "/",
    "/index.html",
    "/about.html",
    "/a.txt?x=1",
    "/assets/app.js",
    "/style.css",
    "/nope",
    "/PRIVATE/x",
    "/either/x",
    "/forms/x?a=1&b=2",
];

/// The program of `CADDY`, or the machine's.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|directory| directory.join("caddy"))
        .find(|program| program.exists());
    std::env::var_os("CADDY").map(PathBuf::from).or(found)
}

/// A Caddyfile with all its sites in cleartext at this port, and the stub in the place of all servers.
fn placed(source: &str, port: u16, stub: &Stub) -> String {
    let site =
        expression(r"(?m)^(?<name>(?:[^ \t\n{}()#@&][^ \t\n{}()]*, )*[^ \t\n{}()#@&][^ \t\n{}()]*) \{$");
    let one = |name: &str| {
        let host = name.trim_start_matches("http://").split(':').next().unwrap_or_default();
        format!("http://{host}:{port}")
    };
    let text = site.replace_all(source, |found: &regex::Captures<'_>| {
        let names: Vec<String> = found["name"].split(", ").map(one).collect();
        format!("{} {{", names.join(", "))
    });
    let upstream = expression(r"(?:127\.0\.0\.1|localhost):[0-9]+");
    let text = upstream.replace_all(&text, stub.address.to_string());
    // What stands there is about addresses that the test has not.
    let globals = expression(r"(?s)\A(?:#[^\n]*\n)*\{\n.*?\n\}\n");
    let text = globals.replace(&text, "");
    format!("{{\n\tadmin off\n\tauto_https off\n}}\n{text}")
}

/// Whether this Caddy knows all directives of a sample: older ones have no `basic_auth`.
fn knows(program: &Path, source: &str, stub: &Stub) -> bool {
    let directory = directory();
    fs::write(directory.path().join("Caddyfile"), placed(source, 80, stub)).unwrap();
    let mut command = Command::new(program);
    command.args(["adapt", "--adapter", "caddyfile", "--config", "Caddyfile"]).current_dir(directory.path());
    command.env("HOME", directory.path()).output().unwrap().status.success()
}

fn caddy(program: &Path, source: &str, stub: &Stub) -> Running {
    let directory = directory();
    let (socket, address) = reserved_address();
    fs::write(directory.path().join("Caddyfile"), placed(source, address.port(), stub)).unwrap();
    let mut command = Command::new(program);
    command.args(["run", "--adapter", "caddyfile", "--config", "Caddyfile"]).current_dir(directory.path());
    command.envs(["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].map(|name| (name, directory.path())));
    Running::start(command, (socket, address), directory)
}

fn imported(source: &str, stub: &Stub) -> Running {
    let directory = directory();
    let (socket, address) = reserved_address();
    let file = directory.path().join("Caddyfile");
    fs::write(&file, placed(source, address.port(), stub)).unwrap();
    let output = text(&maitred(&["import", "caddy", file.to_str().unwrap()]).stdout);
    fs::write(directory.path().join("maitred.toml"), output).unwrap();
    let mut command = Command::new(binary());
    command.arg("run").current_dir(directory.path()).env("STATE_DIRECTORY", directory.path());
    Running::start(command, (socket, address), directory)
}

/// Requests for what a Caddyfile names.
fn asked(source: &str) -> BTreeSet<Asked> {
    let words = || source.split([' ', '\n', '\t', ',', '(', ')', '\'']);
    let mut hosts: Vec<&str> = vec!["other.example.com"];
    hosts.extend(
        words().map(|word| word.trim_start_matches("http://")).filter(|word| word.ends_with(".example.com")),
    );
    let mut targets: Vec<String> = PATHS.iter().map(|path| (*path).to_owned()).collect();
    for path in
        words().filter(|word| word.starts_with('/') && !word.contains(['{', '^']) && !word.contains("srv"))
    {
        let path = path.trim_end_matches('*');
        targets.extend([
            path.to_owned(),
            format!("{path}x"),
            format!("{path}about.html"),
            format!("{path}v1/x?q=1"),
        ]);
    }
    let mut all = BTreeSet::new();
    for host in hosts.iter().filter(|host| !host.contains(['*', '{', '/'])) {
        for method in ["GET", "POST", "OPTIONS"] {
            all.extend(targets.iter().map(|target| Asked {
                fields: "",
                method,
                host: (*host).to_owned(),
                target: target.clone(),
            }));
        }
    }
    all
}

/// What clients see of a response.
fn seen(answer: &Answer) -> (u16, Option<&str>, &str) {
    let location = answer.fields.iter().find(|(name, _)| name == "location").map(|(_, value)| value.as_str());
    let body = if (200..300).contains(&answer.status) { answer.body.as_str() } else { "" };
    // Caddy asks servers for gzip itself.
    (answer.status, location, body.strip_suffix("accept-encoding: gzip\n").unwrap_or(body))
}

/// Differences that docs/from-caddy.md names.
fn is_known(name: &str, asked: &Asked, there: &Answer, here: &Answer) -> bool {
    // Files have methods here, which older Caddys do not ask about; `GET` shows whether they are the same files.
    let of_files = here.fields.iter().any(|(name, value)| name == "allow" && value.contains("GET"));
    let method = match (asked.method, there.status, here.status) {
        ("OPTIONS", 200 | 404 | 405, 204) => of_files,
        (method, 200 | 404, 405) => of_files && method != "GET",
        _ => false,
    };
    // Caddy sends listings whatever the method is.
    let listing = there.body.contains("<title>")
        && match asked.method {
            "GET" => here.status == 200 && here.body.contains("<title>"),
            _ => here.status == 204 || here.status == 405,
        };
    // A prefix is taken away where a slash follows.
    let longer =
        name == "prefixes" && asked.target.starts_with("/shop") && !asked.target.starts_with("/shop/");
    // So is that of `handle_path`: what is left of longer names is no path, and servers refuse it.
    let shortened = name == "shortened" && !there.body.contains(" /");
    method || listing || longer || shortened
}

#[test]
fn clients_get_from_the_import_what_caddy_gives_them() {
    let Some(program) = program() else { return skip_missing("no caddy (Debian: caddy)") };
    let (world, stub) = (World::new(), Stub::start());
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstreams/import/caddy");
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for name in SAMPLES {
        let source = world.place(&fs::read_to_string(samples.join(format!("{name}.caddyfile"))).unwrap());
        if !knows(&program, &source, &stub) {
            continue;
        }
        let (theirs, ours) = (caddy(&program, &source, &stub), imported(&source, &stub));
        for asked in asked(&source) {
            let ask = |address| {
                let mut answer = Answer::ask(address, &asked).configured();
                // Go's client asks for it by itself.
                answer.body = answer.body.replace("\naccept-encoding: gzip", "");
                answer
            };
            let (there, here) = (ask(theirs.address), ask(ours.address));
            compared += 1;
            if seen(&there) != seen(&here) && !is_known(name, &asked, &there, &here) {
                let Asked { method, host, target, .. } = asked;
                wrong.push(format!(
                    "{name}: {method} {target} of {host}\n  caddy   {:?}\n  maitred {:?}",
                    seen(&there),
                    seen(&here)
                ));
            }
        }
    }
    assert!(compared > 500, "only {compared} requests");
    assert!(wrong.is_empty(), "{} differences of {compared}:\n{}", wrong.len(), wrong.join("\n"));
}
