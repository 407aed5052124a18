//! `cors`, and gates behind it, as a browser sees them: `cors.py`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::access::users::BCRYPT;
use crate::support::upstream::Upstream;
use crate::support::{Setup, skip_missing};

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path);
    directories.map(|directory| directory.join("chromium")).find(|program| program.is_file())
}

#[test]
fn a_browser_reads_what_the_origin_of_its_page_may() {
    let Some(chromium) = chromium() else {
        return skip_missing("there is no chromium here (Debian: chromium)");
    };
    let application = Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let method = asked.line.split(' ').next().unwrap_or_default().to_owned();
            let text = format!("{method} {}", asked.field("x-remote-user").unwrap_or("-"));
            let length = text.len();
            // What an application says of origins by itself does not count.
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nX-Shown: shown\r\nX-Hidden: hidden\r\nAccess-Control-Allow-Origin: *\r\n\
                 Content-Length: {length}\r\n\r\n{text}"
            ))?;
        }
    });
    let page = b"<!DOCTYPE html><title>page</title>";
    let pages = Setup::with_files().file("page.html", page).start();
    let port = pages.address.port();
    let api = Setup::with_files()
        .site(&format!(
            "cors = {{ origins = [\"http://127.0.0.1:{port}\"], methods = [\"GET\", \"POST\", \"PUT\"], \
             headers = [\"Content-Type\", \"Authorization\"], expose = [\"X-Shown\"], credentials = true }}"
        ))
        .route(
            "/api/closed/*",
            &format!("pool = \"app\"\nbasic_auth = {{ users = {{ ann = \"{BCRYPT}\" }} }}"),
        )
        .route("/api/*", "pool = \"app\"")
        .route("/own/*", "pool = \"app\"\ncors = { origins = [] }")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", application.name()))
        .start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/access/cors.py");
    // Another host is another origin.
    let urls = ["127.0.0.1", "localhost"].map(|host| format!("http://{host}:{port}/page.html"));
    let mut browser = Command::new("python3");
    browser.arg(script).arg(chromium).args(urls).arg(format!("http://{}", api.address));
    let output = browser.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    api.stop();
    pages.stop();
}
