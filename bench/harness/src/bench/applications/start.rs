//! Starts an application in each of its ways.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::Bench;
use super::super::peers::{self, Kind};
use super::super::protocol::{Certificate, Protocol};
use super::super::server::{Passing, Running, Setup, Started, free_address};
use super::plan::{Front, Load, Plan, Pool, Server, Way};
use super::prepare::{self, Made};
use crate::Result;

/// An application that can be started.
pub(super) struct Application<'a> {
    pub(super) bench: &'a Bench,
    pub(super) name: &'a str,
    pub(super) plan: Plan,
    pub(super) made: Made,
}

/// What the names in braces stand for in one way of running an application.
struct Place {
    scratch: PathBuf,
    names: Vec<(&'static str, String)>,
}

impl Place {
    fn fill(&self, text: &str) -> String {
        self.names
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    fn words<'w>(&self, words: impl IntoIterator<Item = &'w String>) -> Vec<String> {
        words.into_iter().map(|word| self.fill(word)).collect()
    }

    fn socket(&self) -> PathBuf {
        self.scratch.join("app.sock")
    }
}

/// Where a front finds its application.
enum Backend {
    Port(u16),
    Socket(PathBuf),
}

impl Application<'_> {
    /// Starts one way, with a directory of its own.
    pub(super) fn start(
        &self,
        way: Way<'_>,
        number: usize,
        protocol: Protocol,
        load: &Load,
    ) -> Result<Running> {
        let place = self.place(number, load)?;
        self.before(&place)?;
        let setup = self.setup(&place, protocol);
        match way {
            Way::Alone(server) => self.alone(server, &place, &setup),
            Way::Behind(front, server) => self.behind(front, server, &place, setup),
            Way::Pooled(pool, transport) => self.pooled(pool, transport, &place, setup),
        }
    }

    /// The name below the scratch directory; short, because the path of a Unix socket is.
    fn below_work(&self, number: usize) -> String {
        format!("applications/{}-{number}", self.name)
    }

    /// A new, empty directory, and a port.
    fn place(&self, number: usize, load: &Load) -> Result<Place> {
        let scratch = self.bench.work.join(self.below_work(number));
        if scratch.exists() {
            fs::remove_dir_all(&scratch)?;
        }
        fs::create_dir_all(&scratch)?;
        let files = Certificate::in_work(&self.bench.work);
        let mut names = self.names(&self.bench.work);
        names.extend([
            ("port", free_address()?.port().to_string()),
            ("socket", scratch.join("app.sock").display().to_string()),
            ("scratch", scratch.display().to_string()),
            ("certificate", files.certificate.display().to_string()),
            ("key", files.key.display().to_string()),
            ("bytes", load.bytes.to_string()),
        ]);
        Ok(Place { scratch, names })
    }

    /// Removes the directory of a way that has ended.
    pub(super) fn remove(&self, number: usize) -> Result<()> {
        Ok(fs::remove_dir_all(self.bench.work.join(self.below_work(number)))?)
    }

    /// Names that are the same for all ways.
    fn names(&self, work: &Path) -> Vec<(&'static str, String)> {
        let shown = |path: &Path| path.display().to_string();
        let mut names = vec![
            ("floor", shown(&work.join("floor-binary"))),
            ("worker", shown(&self.bench.maitred.with_file_name("examples").join("worker"))),
        ];
        if let Some(python) = &self.made.python {
            names.push(("python", shown(python)));
            names.push(("granian", shown(&python.with_file_name("granian"))));
        }
        if let Some(built) = &self.made.built {
            names.push(("built", shown(built)));
        }
        names
    }

    /// What a command of the application prints as a version; nothing where there is no command.
    pub(super) fn version(&self, command: &[String]) -> String {
        let place = Place { scratch: PathBuf::new(), names: self.names(&self.bench.work) };
        let words = place.words(command);
        let Some((program, arguments)) = words.split_first() else { return String::new() };
        let output = Command::new(program).args(arguments).current_dir(&self.made.directory).output();
        let Ok(output) = output else { return String::new() };
        let said = [output.stdout, output.stderr].concat();
        version_in(&String::from_utf8_lossy(&said)).unwrap_or_default()
    }

    /// A command as it stands in the results.
    pub(super) fn shown(&self, words: &[String]) -> String {
        let short =
            [("{python}", "python3"), ("{granian}", "granian"), ("{floor}", "floor"), ("{worker}", "worker")];
        let shortened = |word: &String| {
            short.iter().fold(word.replace("{built}/", "./"), |word, (name, shown)| word.replace(name, shown))
        };
        let words: Vec<String> = words.iter().map(shortened).collect();
        words.join(" ")
    }

    fn environment(&self, place: &Place) -> Vec<(String, String)> {
        let own = self.plan.environment.iter().map(|(name, value)| (name.clone(), place.fill(value)));
        let adapter = self.bench.repository().join("adapters/python");
        let modules = format!("{}:{}", self.made.directory.display(), adapter.display());
        let python = self.made.python.iter().map(|_| ("PYTHONPATH".to_owned(), modules.clone()));
        own.chain(python).collect()
    }

    fn before(&self, place: &Place) -> Result<()> {
        let words = place.words(&self.plan.before);
        let Some((program, arguments)) = words.split_first() else { return Ok(()) };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.made.directory).envs(self.environment(place));
        let output = command.stdin(Stdio::null()).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)).into())
    }

    fn setup(&self, place: &Place, protocol: Protocol) -> Setup {
        Setup {
            environment: self.environment(place),
            ready: self.plan.ready.clone(),
            protocol,
            ..self.bench.setup(Vec::new())
        }
    }

    fn alone(&self, server: &Server, place: &Place, setup: &Setup) -> Result<Running> {
        let more = if setup.protocol.is_tls() { &server.tls } else { &server.port };
        let words = place.words(server.command.iter().chain(more));
        let port: u16 = place.fill("{port}").parse()?;
        let name = place.scratch.strip_prefix(&self.bench.work)?.display().to_string();
        Running::start_program(&name, &words, ([127, 0, 0, 1], port).into(), setup, &self.made.directory)
    }

    /// A server that listens for a front, and where.
    fn backend(&self, server: &Server, place: &Place, setup: &Setup) -> Result<(Started, Backend)> {
        let at_socket = !server.socket.is_empty();
        let more = if at_socket { &server.socket } else { &server.port };
        let words = place.words(server.command.iter().chain(more));
        let log = place.scratch.join("backend");
        let environment = setup.environment.iter().map(|(name, value)| (name, value));
        let mut started = Started::spawn(&words, &setup.cpus, &log, |command| {
            command.current_dir(&self.made.directory).envs(environment);
        })?;
        if at_socket {
            started.wait_for(&place.socket(), &log)?;
            return Ok((started, Backend::Socket(place.socket())));
        }
        // The front answers with an error until its application does.
        Ok((started, Backend::Port(place.fill("{port}").parse()?)))
    }

    fn behind(&self, front: Front, server: &Server, place: &Place, mut setup: Setup) -> Result<Running> {
        let (backend, at) = self.backend(server, place, &setup)?;
        // The front is no part of the application.
        setup.environment.clear();
        let name = format!("{}/front", place.scratch.strip_prefix(&self.bench.work)?.display());
        let running = match front {
            Front::Nginx => {
                let server = match &at {
                    Backend::Port(port) => format!("server 127.0.0.1:{port};"),
                    Backend::Socket(path) => format!("server unix:{};", path.display()),
                };
                let location = "proxy_pass http://application;".to_owned();
                setup.passing =
                    Passing { prefix: "/".to_owned(), servers: server, location, ..Passing::plain() };
                Running::start_as(Kind::Nginx, &name, &setup)?
            }
            Front::Caddy => self.caddy(&at, &name, place, &setup)?,
            Front::Maitred => {
                let connect = match &at {
                    Backend::Port(port) => format!("http://127.0.0.1:{port}"),
                    Backend::Socket(path) => format!("http+unix:{}", path.display()),
                };
                setup.maitred_more = format!("{ROUTE}[pool.app]\nconnect = {}\n", quoted(&connect)?);
                Running::start_as(Kind::Maitred, &name, &setup)?
            }
        };
        self.keep(&format!("{}{}", front.name(), setup.protocol.suffix()), &place.scratch.join("front"))?;
        Ok(running.with(vec![backend]))
    }

    fn caddy(&self, at: &Backend, name: &str, place: &Place, setup: &Setup) -> Result<Running> {
        let program = prepare::caddy(self.bench)?.display().to_string();
        let address = free_address()?;
        let files = Certificate::in_work(&self.bench.work);
        let tls = match setup.protocol.is_tls() {
            true => "\"tls_connection_policies\": [{ \"protocol_min\": \"tls1.3\" }],",
            false => "",
        };
        let dial = match at {
            Backend::Port(port) => format!("127.0.0.1:{port}"),
            Backend::Socket(path) => format!("unix/{}", path.display()),
        };
        let front = place.scratch.join("front");
        fs::create_dir_all(&front)?;
        let text = fs::read_to_string(self.bench.directory.join("peers/caddy-applications.json"))?
            .replace("@PORT@", &address.port().to_string())
            .replace("@PREFIX@", &front.display().to_string())
            .replace("@CERTIFICATE@", &files.certificate.display().to_string())
            .replace("@KEY@", &files.key.display().to_string())
            .replace("@TLS@", tls)
            .replace("@DIAL@", &dial);
        let configuration = front.join("caddy.json");
        fs::write(&configuration, text)?;
        let configuration = configuration.display().to_string();
        let words = ["env", "GOMAXPROCS=1", &program, "run", "--config", &configuration];
        let words = words.map(str::to_owned);
        Running::start_program(name, &words, address, setup, &front)
    }

    fn pooled(&self, pool: &Pool, transport: &str, place: &Place, mut setup: Setup) -> Result<Running> {
        let words = place.words(&pool.command);
        let program = words.first().ok_or("a pool without a command")?;
        if program.contains('/') && !Path::new(program).exists() {
            let how = "cargo build --profile dist -p maitred-handoff --example worker";
            return Err(format!("no {}: {how}", self.bench.without_places(program)).into());
        }
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect::<Result<_>>()?;
        let mut more = format!(
            "{ROUTE}[pool.app]\ncommand = [{}]\ncwd = {}\nworkers = 1\ntransport = {}\n\
             queue = {{ max = 1024, timeout = \"20s\" }}\n",
            words.join(", "),
            quoted(&self.made.directory.display().to_string())?,
            quoted(transport)?
        );
        for (name, value) in &setup.environment {
            let _ = writeln!(more, "env.{name} = {}", quoted(value)?);
        }
        setup.maitred_more = more;
        let name = format!("{}/front", place.scratch.strip_prefix(&self.bench.work)?.display());
        let running = Running::start_as(Kind::Maitred, &name, &setup)?;
        let kept = format!("{}{}-{transport}", self.name, setup.protocol.suffix());
        self.keep(&kept, &place.scratch.join("front"))?;
        Ok(running)
    }

    /// Keeps the last configuration of each kind for the results.
    fn keep(&self, name: &str, front: &Path) -> Result<()> {
        let kept = kept(self.bench);
        fs::create_dir_all(&kept)?;
        for entry in fs::read_dir(front)? {
            let path = entry?.path();
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if matches!(ending, "conf" | "json" | "toml") {
                fs::copy(&path, kept.join(format!("applications-{name}.{ending}")))?;
            }
        }
        Ok(())
    }
}

/// The route to the pool.
const ROUTE: &str = "[[site.route]]\npath = \"/*\"\npool = \"app\"\n\n";

/// Where configurations of a run are collected, so that they come to its results.
pub(in super::super) fn kept(bench: &Bench) -> PathBuf {
    bench.work.join("applications/configurations")
}

impl Front {
    pub(super) fn name(self) -> &'static str {
        match self {
            Front::Nginx => "nginx",
            Front::Caddy => "Caddy",
            Front::Maitred => "Maitred",
        }
    }

    pub(super) fn version(self, bench: &Bench) -> String {
        let said = match self {
            Front::Nginx => peers::said("nginx", &["-v"]),
            Front::Caddy => prepare::caddy(bench)
                .map(|program| peers::said(&program.display().to_string(), &["version"]))
                .unwrap_or_default(),
            Front::Maitred => peers::said(&bench.maitred.display().to_string(), &["--version"]),
        };
        version_in(&said).unwrap_or_default()
    }
}

/// A string of TOML; JSON's are written alike.
fn quoted(text: &str) -> Result<String> {
    Ok(serde_json::to_string(text)?)
}

/// The first version in a text: digits and dots, behind letters such as `v` or `go`.
fn version_in(text: &str) -> Option<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && !".+-".contains(letter));
    let versions = words.map(|word| word.trim_start_matches(|letter: char| letter.is_ascii_alphabetic()));
    let mut versions = versions
        .filter(|word| word.starts_with(|letter: char| letter.is_ascii_digit()) && word.contains('.'));
    versions.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        let told = [
            ("gunicorn (version 27.0.1)", "27.0.1"),
            ("Running uvicorn 0.54.0 with CPython 3.11.7 on Linux", "0.54.0"),
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("v20.20.2", "20.20.2"),
            ("go1.26.8", "1.26.8"),
            ("v2.11.9 h1:bhZ", "2.11.9"),
        ];
        for (text, version) in told {
            assert_eq!(version_in(text).as_deref(), Some(version), "{text}");
        }
        assert_eq!(version_in("no such program"), None);
    }

    #[test]
    fn names_in_braces_are_filled_in() {
        let place = Place { scratch: "/s".into(), names: vec![("port", "80".to_owned())] };
        assert_eq!(
            place.words(&["127.0.0.1:{port}".to_owned(), "{other}".to_owned()]),
            ["127.0.0.1:80", "{other}"]
        );
        assert_eq!(place.socket(), Path::new("/s/app.sock"));
    }
}
