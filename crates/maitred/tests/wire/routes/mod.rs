//! Black-box tests of routes: conditions, and what is done with the target of a request before it is answered.

mod arrivals;
mod conditions;
mod logs;
mod overrides;
mod protocols;
mod rewriting;
mod targets;

use crate::support::{Client, Server, Setup};

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
