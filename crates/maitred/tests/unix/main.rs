//! Clients over a Unix socket: `address = "unix:http.sock"`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod clients;
mod files;
mod proxies;
#[path = "../tls/stage.rs"]
#[allow(dead_code, reason = "shared with the tests of TLS")]
mod stage;
#[path = "../support/mod.rs"]
mod support;

use support::{Client, Server, Setup};

/// Files, over TCP and over `http.sock`.
fn setup() -> Setup {
    Setup::with_files().listen("address = [\"127.0.0.1:0\", \"unix:http.sock\"]")
}

/// A new connection over `http.sock`.
fn connect(server: &Server) -> Client {
    Client::connect_unix(&server.path("http.sock"))
}

#[track_caller]
fn is_served(client: &mut Client) {
    let response = client.get("/a.txt");
    assert_eq!((response.status, &response.body[..]), (200, &b"file a\n"[..]));
}
