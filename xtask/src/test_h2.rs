//! HTTP/2 and TLS against clients and checkers that others wrote: h2spec, nghttp, h2load, curl, httpx, a browser, sslyze. What
//! is not installed is skipped, and that is said.

mod h2spec;

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::{client, step};
use crate::test_site::{self, Site};

const LARGE_BYTES: usize = 3_000_000;
/// Scripts, each of which is run with the environment of `test_python`.
const SCRIPTS: &str = "crates/maitred/tests/h2/clients";

/// Runs everything with what was built last without `--release`.
pub(crate) fn run(target: &Path) -> Result<()> {
    with_site(target, |site| {
        h2spec::run(site, target)?;
        clients(site, target)
    })
}

/// The checker alone.
pub(crate) fn run_h2spec(target: &Path) -> Result<()> {
    with_site(target, |site| h2spec::run(site, target))
}

/// The others.
pub(crate) fn run_clients(target: &Path) -> Result<()> {
    with_site(target, |site| clients(site, target))
}

fn with_site(target: &Path, ask: impl Fn(&Site) -> Result<()>) -> Result<()> {
    crate::test::built()?;
    let maitred = target.join("debug/maitred").canonicalize()?;
    let worker = maitred.with_file_name("examples").join("worker");
    let pool = format!("command = [\"{}\"]\nworkers = 1\nqueue = {{ timeout = \"60s\" }}", worker.display());
    let kind = test_site::Kind { large_bytes: LARGE_BYTES, listen: "tls = {}", pool };
    let site = Site::start(&maitred, &kind)?;
    match ask(&site) {
        Ok(()) => site.stop(),
        Err(error) => {
            // What the client says of it is half of the matter.
            site.tell();
            Err(error)
        }
    }
}

fn clients(site: &Site, target: &Path) -> Result<()> {
    nghttp(site)?;
    h2load(site)?;
    curl(site)?;
    python(site, target)?;
    browser(site)
}

/// Whether a program can be started.
fn there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Says that a step is left out.
fn skipped(name: &str, why: &str) {
    skip(Kind::Missing, name, why);
}

/// What a program writes; its failure is this step's.
fn output(name: &str, program: &str, arguments: &[&str]) -> Result<String> {
    let (status, said) = client(name, Command::new(program).args(arguments))?;
    if status.success() { Ok(said) } else { Err(format!("{name}: {status}: {said}").into()) }
}

/// A step's condition.
fn check(condition: bool, what: impl FnOnce() -> String) -> Result<()> {
    if condition { Ok(()) } else { Err(what().into()) }
}

/// A page with all that belongs to it, as nghttp finds it in the page itself.
fn nghttp(site: &Site) -> Result<()> {
    if !there("nghttp") {
        skipped("nghttp", "it is not installed (Debian: nghttp2-client)");
        return Ok(());
    }
    for origin in site.origins() {
        let name = format!("nghttp, {origin}");
        let said = output(
            &name,
            "nghttp",
            &["--null-out", "--get-assets", "--stat", "--no-verify-peer", &format!("{origin}/")],
        )?;
        let answered = said.lines().filter(|line| line.split_whitespace().nth(4) == Some("200")).count();
        check(answered == 1 + test_site::RESOURCES, || {
            format!("{name}: {answered} answers with 200 in {said}")
        })?;
    }
    Ok(())
}

/// Some thousand requests on a few connections: none fails.
fn h2load(site: &Site) -> Result<()> {
    if !there("h2load") {
        skipped("h2load", "it is not installed (Debian: nghttp2-client)");
        return Ok(());
    }
    for origin in site.origins() {
        for (path, more) in [("/a.txt", &[][..]), ("/large.bin", &[]), ("/gone", &[]), ("/a.txt", &["--h1"])]
        {
            let name = format!("h2load, {origin}{path} {}", more.join(" "));
            let url = format!("{origin}{path}");
            let requests = if path == "/large.bin" { "200" } else { "4000" };
            let load = ["-n", requests, "-c", "8", "-m", "32", "-t", "1", &url];
            let said = output(&name, "h2load", &[more, &load].concat())?;
            let all = format!("{requests} succeeded, 0 failed, 0 errored, 0 timeout");
            let statuses =
                if path == "/gone" { format!("{requests} 4xx") } else { format!("{requests} 2xx") };
            // What is answered with 4xx has "failed" in its eyes.
            let right = said.contains(&statuses) && (path == "/gone" || said.contains(&all));
            check(right, || format!("{name}: {said}"))?;
        }
    }
    Ok(())
}

/// Each version of HTTP, over TLS and in cleartext: what comes, and in which version.
fn curl(site: &Site) -> Result<()> {
    let version = Command::new("curl").arg("--version").output();
    if !version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("HTTP2")) {
        skipped("curl", "it is not installed, or without HTTP/2 (Debian: curl)");
        return Ok(());
    }
    let write = "%{http_version} %{response_code} %{size_download}";
    let ask = |origin: &str, version: &str, path: &str, more: &[&str]| {
        let url = format!("{origin}{path}");
        let name = format!("curl {version} {} {url}", more.join(" "));
        let common = [
            "--silent",
            "--show-error",
            "--insecure",
            "--output",
            "/dev/null",
            "--write-out",
            write,
            version,
        ];
        output(&name, "curl", &[&common, more, &[url.as_str()]].concat())
    };
    let large = LARGE_BYTES.to_string();
    let upload = format!("@{}", site.path("root/large.bin").display());
    for origin in site.origins() {
        let version_2 = if origin.starts_with("https") { "--http2" } else { "--http2-prior-knowledge" };
        for (version, shown) in [(version_2, "2"), ("--http1.1", "1.1")] {
            let cases: &[(&str, &[&str], &str)] = &[
                ("/a.txt", &[], "200 7"),
                ("/large.bin", &[], &format!("200 {large}")),
                ("/large.bin", &["--range", "10-19"], "206 10"),
                ("/a.txt", &["--head"], "200 0"),
                ("/gone", &[], "410 5"),
                ("/a.txt", &["--data-binary", &upload], "405 "),
            ];
            for (path, more, expected) in cases {
                let said = ask(&origin, version, path, more)?;
                check(said.starts_with(&format!("{shown} {expected}")), || {
                    format!("{version} {path}: {said}")
                })?;
            }
        }
    }
    Ok(())
}

/// What is written in Python: httpx as a client, sslyze as a checker of TLS, and the differential test of the adapters.
fn python(site: &Site, target: &Path) -> Result<()> {
    let python = match crate::test_python::environment(&target.join("python")) {
        Ok(python) => python,
        Err(why) => {
            skipped("httpx, sslyze, differential test over HTTP/2", &why.to_string());
            return Ok(());
        }
    };
    let script = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.arg(Path::new(SCRIPTS).join(name)).args(arguments);
        command
    };
    for origin in site.origins() {
        step(&format!("httpx, {origin}"), &mut script("httpx_client.py", &[&origin]))?;
    }
    if let Some(address) = &site.tls {
        step("sslyze", &mut script("tls_scan.py", &[address]))?;
    }
    for name in ["python-wsgi", "python-http", "python-asgi"] {
        let mut differential = Command::new(&python);
        differential.args(["run.py", "--http2", "--adapter", name]).current_dir("adapters/differential");
        step(&format!("differential test over HTTP/2: {name}"), &mut differential)?;
    }
    Ok(())
}

/// A page of fifty resources in headless Chromium, which speaks HTTP/2 over TLS only.
fn browser(site: &Site) -> Result<()> {
    let name = "a browser";
    let Some(address) = &site.tls else {
        skipped(name, "this server has no TLS");
        return Ok(());
    };
    if !there("chromium") {
        skipped(name, "there is no chromium (Debian: chromium)");
        return Ok(());
    }
    let mut python = Command::new("python3");
    python.arg(Path::new(SCRIPTS).join("browser.py")).args(["chromium", &format!("https://{address}/")]);
    step(name, python.arg(test_site::RESOURCES.to_string()))?;
    let of_the_browser = |line: &str| line.contains(" HTTP/2.0\" 200 ") && line.contains("HeadlessChrome");
    site.logged(1 + test_site::RESOURCES, of_the_browser).map_err(|error| format!("{name}: {error}").into())
}
