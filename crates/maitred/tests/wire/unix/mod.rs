//! Clients over a Unix socket: `address = "unix:http.sock"`.

mod clients;
mod files;
mod proxies;

use crate::support::{Client, Server, Setup};

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
