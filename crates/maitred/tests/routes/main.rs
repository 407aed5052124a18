//! Black-box tests of routes: conditions, and what is done with the target of a request before it is answered.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod conditions;
#[path = "../support/h2.rs"]
#[allow(dead_code, reason = "it has a name for everything that the protocol has")]
mod h2;
mod logs;
mod overrides;
mod protocols;
mod rewriting;
#[path = "../support/mod.rs"]
mod support;

use support::{Client, Server, Setup};

/// A site whose routes answer with their names.
fn named(routes: &[(&str, &str)]) -> Server {
    let route = |setup: Setup, (name, lines): &(&str, &str)| {
        setup.table(&format!("[[site.route]]\n{lines}\nrespond = {{ body = \"{name}\" }}\n"))
    };
    routes.iter().fold(Setup::with_files(), route).start()
}

/// What the application says that it was asked for.
fn target(client: &mut Client, path: &str) -> String {
    client.get(path).text().to_owned()
}
