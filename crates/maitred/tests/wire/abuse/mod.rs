//! Clients and applications that do what they should not, against the real binary.

mod applications;
mod clients;
mod passing;
mod quiet;

use crate::support::{Client, End, Response, Server, Setup};

/// A site of files and the fake application, of which there is one process; `pool` are further lines of its pool. Requests
/// that wait for a process wait as long as the test does, unless they say otherwise.
fn setup(pool: &str) -> Setup {
    setup_with("direct", pool)
}

/// The same with another transport.
fn setup_with(transport: &str, pool: &str) -> Setup {
    let queue = if pool.contains("queue") { "" } else { "queue = { max = 1000, timeout = \"60s\" }" };
    let table = format!(
        "[pool.fake]\ncommand = [\"python3\", \"-S\", \"-E\", \"fake.py\"]\nworkers = 1\ntransport = \"{transport}\"\n\
         {queue}\n{pool}\n"
    );
    Setup::new()
        .file("small", b"small\n")
        .file("large", &vec![b'x'; 8 << 20])
        .outside("fake.py", include_bytes!("fake.py"))
        .limit("body_inline_bytes_max = \"1MiB\"")
        .route("/old", "redirect = \"/new\"")
        .route("/app/*", "pool = \"fake\"")
        .table(&table)
}

/// Lets `/app/hold` go on, from now on: the gate is a pipe with a name that `fake.py` makes.
fn open_gate(server: &Server) {
    std::fs::write(server.path("gate"), "open").unwrap();
}

/// The next response, which nothing came before.
#[track_caller]
fn next(client: &mut Client) -> Response {
    let response = client.response("GET");
    assert_eq!(response.interim, [0; 0]);
    response
}

/// Checks that nothing more comes but an orderly end.
#[track_caller]
fn ends(client: &mut Client) {
    assert_eq!(client.end(), End::Closed);
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn post(path: &str, body_bytes: usize) -> String {
    let body = "b".repeat(body_bytes);
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {body_bytes}\r\n\r\n{body}")
}
