//! Setups that people have with other servers, as whole configurations: those of `examples/`, with their directories and servers
//! replaced by those of the test. Each location gets requests; docs/setups.md has the lines of nginx that they stand for.

mod django;
mod hosts;
mod nextcloud;
mod readme;
mod spa;
mod wordpress;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::upstream::{Peer, Upstream};
use crate::support::{Client, Response, Server, Setup};

/// The configuration of an example, with its places replaced: texts that it has, and what takes their place.
fn example(name: &str, setup: Setup, places: &[(&str, &str)]) -> Server {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name).join("maitred.toml");
    let mut text = std::fs::read_to_string(path).unwrap();
    for (from, to) in [("\":8080\"", "\"127.0.0.1:0\"")].iter().chain(places) {
        assert!(text.contains(from), "{name} has no {from}");
        text = text.replace(from, to);
    }
    // The account of the test and that of what it starts are the same.
    let server = "[server]\nthreads = 1\nshare_user = true\nadmin = \"unix:admin.sock\"\n[log]\naccess_file = \"access.log\"\n";
    setup.start_as(&format!("{server}\n{text}"))
}

/// A directory of the test below that of the configuration, for another account to read as well.
fn place(setup: &Setup, name: &str) -> String {
    let path = setup.directory.path().join(name);
    std::fs::create_dir_all(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// An application that says what it was asked, and for whom.
fn application() -> Upstream {
    Upstream::start(answer)
}

fn answer(peer: &mut Peer) -> std::io::Result<()> {
    loop {
        let asked = peer.request()?;
        let told = |name: &str| asked.field(name).unwrap_or("-").to_owned();
        let line = asked.line.trim_end_matches(" HTTP/1.1");
        match asked.target() {
            "/named" => peer.send(
                "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /protected/secret.txt\r\nContent-Length: 0\r\n\r\n",
            )?,
            _ => peer.answer(format!(
                "{line} of {} over {} with {}",
                told("host"),
                told("x-forwarded-proto"),
                asked.body.len()
            ))?,
        }
    }
}

/// A response to a GET on a new connection, for a host.
fn get(server: &Server, host: &str, target: &str, fields: &str) -> Response {
    let mut client = Client::connect(server.address);
    client.ask(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"))
}

/// Status and `Location`.
fn redirect(response: &Response) -> (u16, &str) {
    (response.status, response.need("location"))
}
