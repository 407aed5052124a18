//! Clients of HTTP/3, each of which asks the same site.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::networks;
use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::step;
use crate::test_packages::has_program;
use crate::test_site::{self, Site};

/// Scripts and their requirements; what the site's application is, too.
const SCRIPTS: &str = "crates/maitred/tests/h3/clients";
const LARGE_BYTES: usize = 20_000_000;
/// Sessions are resumed with early data.
const LISTEN: &str = "http3 = true\ntls = { early_data = true }";

/// What the clients are given.
pub(super) struct Given {
    site: Site,
    /// `https://localhost:PORT`
    pub(super) origin: String,
    /// The certificate of the authority.
    pub(super) authority: String,
}

/// Runs them all, also if one fails: each has its own opinion.
pub(super) fn run(target: &Path) -> Result<()> {
    let site = Site::start(&target.join("debug/maitred").canonicalize()?, &kind()?)?;
    let Some(address) = &site.tls else {
        missing("clients of HTTP/3", "this server has no TLS");
        return Ok(());
    };
    let origin = format!("https://{address}");
    let authority = site.path("ca.pem").display().to_string();
    let given = Given { site, origin, authority };
    let environment = environment(target);
    let python = environment.as_deref();
    let results = [
        python.map_or(Ok(()), |python| in_python(&given, python)),
        quic_go(&given, target),
        gtlsclient(&given),
        chromium(&given),
        firefox(&given),
        networks::run(&given, python, target),
    ];
    let failures: Vec<_> =
        results.into_iter().filter_map(|result| result.err().map(|error| error.to_string())).collect();
    if failures.is_empty() {
        return given.site.stop();
    }
    // What the client says of it is half of the matter.
    given.site.tell();
    Err(failures.join("; ").into())
}

/// The site with an application in Python, by the project's own adapter.
fn kind() -> Result<test_site::Kind> {
    let path = ["adapters/python", SCRIPTS].map(|place| Path::new(place).canonicalize());
    let [adapter, scripts] = path;
    let (adapter, scripts) = (adapter?, scripts?);
    let pool = format!(
        "command = [\"python3\", \"-m\", \"maitred\", \"site_app:application\"]\nworkers = 1\n\
         queue = {{ timeout = \"60s\" }}\nenv = {{ PYTHONPATH = \"{}:{}\" }}",
        adapter.display(),
        scripts.display()
    );
    Ok(test_site::Kind { large_bytes: LARGE_BYTES, listen: LISTEN, pool })
}

fn missing(name: &str, why: &str) {
    skip(Kind::Missing, name, why);
}

/// A script of theirs, with an interpreter.
pub(super) fn script(python: impl AsRef<std::ffi::OsStr>, name: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(Path::new(SCRIPTS).join(name));
    command
}

/// Python with aioquic and niquests.
fn environment(target: &Path) -> Option<PathBuf> {
    let requirements = format!("{SCRIPTS}/requirements.txt");
    crate::test_python::environment_of(&target.join("python-h3"), &requirements)
        .inspect_err(|why| missing("aioquic and niquests", &why.to_string()))
        .ok()
}

/// aioquic as it should be used and as it must not be, and niquests.
fn in_python(given: &Given, python: &Path) -> Result<()> {
    let ask = |name: &str, file: &str| {
        step(name, script(python, file).args(["--ca", &given.authority, &given.origin]))
    };
    let results = [
        step(
            "aioquic",
            script(python, "aioquic_client.py").args([
                "--ca",
                &given.authority,
                "--server",
                &given.site.pid().to_string(),
                &given.origin,
            ]),
        ),
        ask("what a client of HTTP/3 must not send", "illegal.py"),
        ask("niquests", "niquests_client.py"),
    ];
    results.into_iter().collect()
}

fn quic_go(given: &Given, target: &Path) -> Result<()> {
    let name = "quic-go";
    let Some(program) = build_quic_go(name, target)? else { return Ok(()) };
    step(name, Command::new(program).args(["-ca", &given.authority, &given.origin]))
}

/// The client, which needs a newer Go than some systems have.
fn build_quic_go(name: &str, target: &Path) -> Result<Option<PathBuf>> {
    if !has_program("go") {
        missing(name, "there is no Go (Debian's package golang-go)");
        return Ok(None);
    }
    let program = std::path::absolute(target.join("go/quic-go-client"))?;
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(".").current_dir(Path::new(SCRIPTS).join("quic-go"));
    if let Err(why) = step("quic-go, build", &mut go) {
        missing(name, &format!("it cannot be built with this Go ({why})"));
        return Ok(None);
    }
    Ok(Some(program))
}

fn gtlsclient(given: &Given) -> Result<()> {
    let name = "gtlsclient";
    if !has_program(name) {
        missing(name, "it is not installed (Debian: ngtcp2-client)");
        return Ok(());
    }
    step(name, script("python3", "gtlsclient.py").arg(&given.origin))
}

fn chromium(given: &Given) -> Result<()> {
    let name = "Chromium over HTTP/3";
    if !has_program("chromium") {
        missing(name, "there is no chromium (Debian: chromium)");
        return Ok(());
    }
    let certificate = given.site.path("certificate.pem");
    step(name, script("python3", "chromium.py").args(visit(given, "chromium")).arg(certificate))?;
    visited(given, name, |line| line.contains("HeadlessChrome"))
}

fn firefox(given: &Given) -> Result<()> {
    let name = "Firefox over HTTP/3";
    for (program, package) in [("firefox-esr", "firefox-esr"), ("certutil", "libnss3-tools")] {
        if !has_program(program) {
            missing(name, &format!("there is no {program} (Debian: {package})"));
            return Ok(());
        }
    }
    step(name, script("python3", "firefox.py").args(visit(given, "firefox-esr")).arg(&given.authority))?;
    visited(given, name, |line| line.contains("Firefox/"))
}

fn visit(given: &Given, browser: &str) -> [String; 3] {
    [browser.to_owned(), format!("{}/", given.origin), test_site::RESOURCES.to_string()]
}

/// The server has seen the browser's requests come that way, too.
fn visited(given: &Given, name: &str, of_it: impl Fn(&str) -> bool) -> Result<()> {
    let kind = |line: &str| line.contains(" HTTP/3.0\" 200 ") && of_it(line);
    given.site.logged(1 + test_site::RESOURCES, kind).map_err(|error| format!("{name}: {error}").into())
}
