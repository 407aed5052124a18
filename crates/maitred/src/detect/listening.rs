//! Servers that listen by themselves, and are reached over HTTP; and programs of Go, which may speak to Maitred.

use super::place::Place;
use super::{Advice, Application, Kind};

/// Where a program listens that does not say where.
const PORT: u16 = 9000;

/// A server at a port of this machine, and the command that starts it.
pub fn server(name: &'static str, seen: &str, port: u16, start: &str) -> Application {
    let url = format!("http://127.0.0.1:{port}");
    Application::new(name, seen, Kind::Server { url, start: start.to_owned() })
}

/// A program of Go: one that has the module of Maitred is started, others are reached where they listen.
pub fn go(place: Place<'_>) -> Option<Result<Application, Advice>> {
    let module = place.text("go.mod")?;
    let mains: Vec<String> = go_directories(place)
        .into_iter()
        .filter(|directory| {
            let dir = place.path(directory);
            let place = Place::new(&dir);
            place.files(".go").iter().any(|file| place.text(file).is_some_and(|text| is_main(&text)))
        })
        .collect();
    let main = mains.first()?;
    if mains.len() > 1 && main != "." {
        return Some(Err(Advice::new(
            format!("go.mod has several programs: {}", mains.join(", ")),
            format!("go build -o app ./{main}, and `command` or `connect` of a pool: docs/start-go.md"),
        )));
    }
    let build =
        if main == "." { "go build -o app .".to_owned() } else { format!("go build -o app ./{main}") };
    let because = format!("go.mod and `package main` in {main}");
    if is_required(&module, "maitred") {
        let mut found = Application::new("Go", because, Kind::Command(vec!["./app".to_owned()]));
        if !place.has("app") {
            found.first.push(build);
        }
        return Some(Ok(found));
    }
    let dir = place.path(main);
    let port = listening_port(Place::new(&dir), ".go");
    Some(Ok(server(
        "Go",
        &because,
        port.unwrap_or(PORT),
        &format!("{build} && {}", environment(port, "./app")),
    )))
}

/// A program of Rust.
pub fn cargo(place: Place<'_>) -> Application {
    let manifest = place.text("Cargo.toml").unwrap_or_default();
    let name =
        manifest.lines().find_map(|line| line.trim().strip_prefix("name")?.trim_start().strip_prefix('='));
    let name = name.map_or("app", |name| name.trim().trim_matches('"')).to_owned();
    let port = listening_port(Place::new(&place.path("src")), ".rs");
    let start = format!("cargo build --release && {}", environment(port, &format!("target/release/{name}")));
    server("Rust", "Cargo.toml and src/main.rs", port.unwrap_or(PORT), &start)
}

/// A program of Java with a server in it, which is told where to listen.
pub fn jar(name: &'static str, seen: &str, place: Place<'_>, below: &str, build: &str) -> Application {
    let dir = place.path(below);
    let jars = Place::new(&dir).files(".jar");
    let jar = jars.into_iter().find(|jar| !jar.ends_with("-plain.jar") && !jar.ends_with("-sources.jar"));
    let run = |jar: &str| {
        format!(
            "java -jar {below}/{jar} --server.address=127.0.0.1 --server.port={PORT} --server.forward-headers-strategy=native"
        )
    };
    let start = jar.map_or_else(|| format!("{build} && {}", run("NAME.jar")), |jar| run(&jar));
    server(name, seen, PORT, &start)
}

/// Where `package main` may be: at the top, in cmd/NAME, in cmd.
fn go_directories(place: Place<'_>) -> Vec<String> {
    let commands = Place::new(&place.path("cmd")).directories();
    let commands = commands.into_iter().map(|name| format!("cmd/{name}"));
    [".".to_owned(), "cmd".to_owned()].into_iter().chain(commands).collect()
}

fn is_main(text: &str) -> bool {
    text.lines().any(|line| line.trim_end() == "package main")
}

/// Whether go.mod requires a module whose path ends so.
fn is_required(module: &str, name: &str) -> bool {
    let words = module.lines().map(|line| line.trim().trim_start_matches("require ").trim());
    words.filter(|line| !line.starts_with("module ")).any(|line| {
        line.split_whitespace().next().is_some_and(|path| path == name || path.ends_with(&format!("/{name}")))
    })
}

/// The command with the port that it should have, where its source names none.
fn environment(port: Option<u16>, program: &str) -> String {
    match port {
        Some(_) => program.to_owned(),
        None => format!("PORT={PORT} {program}"),
    }
}

/// A port that the source names, as in ":8080" and "0.0.0.0:3000".
fn listening_port(place: Place<'_>, end: &str) -> Option<u16> {
    place.files(end).iter().filter_map(|file| place.text(file)).find_map(|text| named_port(&text))
}

fn named_port(text: &str) -> Option<u16> {
    text.split('"').skip(1).step_by(2).find_map(|literal| {
        let (host, port) = literal.rsplit_once(':')?;
        let is_host = ["", "0.0.0.0", "127.0.0.1", "localhost", "[::]", "[::1]"].contains(&host);
        port.parse().ok().filter(|port| is_host && *port >= 80)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_found_in_sources() {
        assert_eq!(named_port("http.ListenAndServe(\":8081\", nil)"), Some(8081));
        assert_eq!(named_port("TcpListener::bind(\"0.0.0.0:3000\")"), Some(3000));
        assert_eq!(named_port("log.Print(\"at 10:20\", \"a:b\")"), None);
    }

    #[test]
    fn the_module_of_maitred_is_found_in_what_is_required() {
        assert!(is_required("module shop\n\nrequire maitred v0.0.0\n", "maitred"));
        assert!(is_required("module shop\n\nrequire (\n\texample.org/maitred v0.1.0\n)\n", "maitred"));
        assert!(!is_required("module example.org/maitred\n\nrequire example.org/other v0.1.0\n", "maitred"));
    }
}
