//! Each adapter's application: alone, behind Maitred in three ways, and behind nginx.
//!
//! The applications and the commands are those of `adapters/differential`, whose contract has `/bytes?n=N`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::grid::{self, Grid, Line, Way};
use super::handoff::{SIZES_OF_ADAPTERS, TRANSPORTS, behind_nginx, connections, handed_off};
use super::peers::{Kind, installed};
use super::server::{Running, Setup, Started, free_address};
use super::{Bench, Result};

/// What issue 5 asks for; the names of files of `adapters/differential`. Frameworks have files there, too, and are not
/// measured: they would be the larger part of every figure.
const APPLICATIONS: [&str; 7] =
    ["python-wsgi", "gunicorn-pool", "python-asgi", "uvicorn", "node-http", "go", "apache"];
/// The Rust example has no file: it does not listen by itself, so the floor stands for it.
const RUST: &str = "rust";
const COLUMNS: [&str; 5] = ["alone", "direct", "relay", "auto", "nginx"];
/// How long a program that runs beside a server may take to make its socket.
const START: Duration = Duration::from_secs(30);

/// A file of `adapters/differential`; what only the comparison needs is not read.
#[derive(Deserialize)]
struct Plan {
    #[serde(default)]
    requires: Vec<String>,
    directory: Option<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    alone: Alone,
    behind: Behind,
}

#[derive(Deserialize)]
struct Alone {
    command: Vec<String>,
    #[serde(default)]
    start: Vec<Beside>,
}

#[derive(Deserialize)]
struct Behind {
    pool: String,
    #[serde(default)]
    more: String,
    #[serde(default)]
    start: Vec<Beside>,
}

/// A program that runs beside a server.
#[derive(Deserialize)]
struct Beside {
    command: Vec<String>,
    until: Option<String>,
}

/// An application, and what the names in braces stand for.
struct Application<'a> {
    bench: &'a Bench,
    name: &'a str,
    plan: Plan,
    directory: PathBuf,
    python: String,
}

/// All applications at all sizes.
pub(super) fn run(bench: &Bench) -> Result<Grid> {
    let mut rows = Vec::new();
    for name in APPLICATIONS.into_iter().filter(|name| bench.wants(name)) {
        match Application::read(bench, name) {
            Ok(application) => {
                rows.extend(SIZES_OF_ADAPTERS.map(|(label, bytes)| application.measure(label, bytes)));
            }
            Err(why) => rows.push(grid::absent(name, None, COLUMNS.len(), &why.to_string())),
        }
    }
    if bench.wants(RUST) {
        rows.extend(SIZES_OF_ADAPTERS.map(|(label, bytes)| rust(bench, label, bytes)));
    }
    let what = "Each adapter's application with a response of that size: listening by itself, behind Maitred in three ways, \
                and behind nginx with kept connections to its own listener; CPU of front and application together";
    let columns = COLUMNS.map(str::to_owned).to_vec();
    let [name, what, corner, base] = ["adapters", what, "application", "alone"].map(str::to_owned);
    Ok(Grid { name, what, corner, base, columns, rows })
}

fn rust(bench: &Bench, label: &str, bytes: u64) -> Line {
    let mut ways = handed_off(bench, bytes);
    ways.push(behind_nginx(bench, bytes));
    grid::measure(bench, &format!("{RUST}, {label}"), None, connections(bytes), ways)
}

impl<'a> Application<'a> {
    /// Fails, saying what is missing, where it cannot run.
    fn read(bench: &'a Bench, name: &'a str) -> Result<Application<'a>> {
        let folder = bench.repository().join("adapters/differential");
        let file = folder.join(format!("{name}.toml"));
        let text =
            std::fs::read_to_string(&file).map_err(|_| format!("no adapters/differential/{name}.toml"))?;
        let plan: Plan =
            toml::from_str(&text).map_err(|error| format!("{name}.toml: {}", error.message()))?;
        let directory = folder.join(plan.directory.as_deref().unwrap_or(".")).canonicalize()?;
        // `cargo xtask test` keeps an environment with what the adapters' tests need there.
        let own = bench.target.join("python/bin/python3");
        let python = if own.exists() { own.display().to_string() } else { "python3".to_owned() };
        let application = Application { bench, name, plan, directory, python };
        application.check()?;
        Ok(application)
    }

    fn check(&self) -> Result<()> {
        for module in &self.plan.requires {
            let mut python = Command::new(&self.python);
            python.args(["-c", &format!("import {module}")]).stderr(Stdio::null());
            if !python.status().is_ok_and(|status| status.success()) {
                return Err(format!(
                    "{} has no {module}: `cargo xtask test` installs it below target/",
                    self.python
                )
                .into());
            }
        }
        let words = self.filled(&self.plan.alone.command, &[]);
        let program = words.first().ok_or("no command")?;
        if program.contains('/') && !Path::new(program).exists() {
            let place = program.strip_prefix(&*self.bench.repository().to_string_lossy()).unwrap_or(program);
            return Err(
                format!("{} is not built: `cargo xtask test` does", place.trim_start_matches('/')).into()
            );
        }
        let program = if program == "env" { words.get(2).unwrap_or(program) } else { program };
        if !program.contains('/') && !installed(program) {
            return Err(format!("no {program}").into());
        }
        if self.name.starts_with("node") && !self.directory.join("node_modules").exists() {
            return Err("no node_modules: npm ci in adapters/node".into());
        }
        Ok(())
    }

    fn fill(&self, text: &str, more: &[(&str, &str)]) -> String {
        let root = self.bench.repository().display().to_string();
        let directory = self.directory.display().to_string();
        let known = [("python", self.python.as_str()), ("root", &root), ("directory", &directory)];
        let fill = |text: String, (name, value): &(&str, &str)| text.replace(&format!("{{{name}}}"), value);
        known.iter().chain(more).fold(text.to_owned(), fill)
    }

    fn filled(&self, words: &[String], more: &[(&str, &str)]) -> Vec<String> {
        words.iter().map(|word| self.fill(word, more)).collect()
    }

    /// What all its processes have in common; `scratch` is a directory of their own.
    fn setup(&self, scratch: &Path) -> Setup {
        let names = [("dir", &*scratch.to_string_lossy())];
        let environment = self.plan.environment.iter();
        Setup {
            environment: environment.map(|(name, value)| (name.clone(), self.fill(value, &names))).collect(),
            ready: "/bytes?n=1".to_owned(),
            ..self.bench.setup(Vec::new())
        }
    }

    /// A new, empty directory: sockets of earlier rounds must not be taken for this one's.
    fn scratch(&self, way: &str) -> Result<(String, PathBuf)> {
        let name = format!("{}-{way}", self.name);
        let path = self.bench.work.join(&name);
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        std::fs::create_dir_all(&path)?;
        Ok((name, path))
    }

    fn beside(
        &self,
        programs: &[Beside],
        setup: &Setup,
        names: &[(&str, &str)],
        scratch: &Path,
    ) -> Result<Vec<Started>> {
        let mut started = Vec::new();
        for (number, program) in programs.iter().enumerate() {
            let log = scratch.join(format!("beside-{number}"));
            let environment = setup.environment.iter().map(|(name, value)| (name, value));
            started.push(Started::spawn(
                &self.filled(&program.command, names),
                &setup.cpus,
                &log,
                |command| {
                    command.current_dir(&self.directory).envs(environment);
                },
            )?);
            let until = program.until.as_ref().map(|until| PathBuf::from(self.fill(until, names)));
            let deadline = Instant::now() + START;
            while until.as_ref().is_some_and(|until| !until.exists()) {
                if Instant::now() > deadline {
                    let said = std::fs::read_to_string(log)?;
                    return Err(
                        format!("{} does not make its socket: {said}", program.command.join(" ")).into()
                    );
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(started)
    }

    fn alone(&self, way: &str) -> Result<Running> {
        let (name, scratch) = self.scratch(way)?;
        let address = free_address()?;
        let port = address.port().to_string();
        let names = [("port", port.as_str()), ("dir", &*scratch.to_string_lossy())];
        let setup = self.setup(&scratch);
        let beside = self.beside(&self.plan.alone.start, &setup, &names, &scratch)?;
        let words = self.filled(&self.plan.alone.command, &names);
        Ok(Running::start_program(&name, &words, address, &setup, &self.directory)?.with(beside))
    }

    fn behind(&self, transport: &str) -> Result<Running> {
        let (name, scratch) = self.scratch(transport)?;
        let names = [("dir", &*scratch.to_string_lossy())];
        let mut setup = self.setup(&scratch);
        let beside = self.beside(&self.plan.behind.start, &setup, &names, &scratch)?;
        setup.maitred_more = format!(
            "[[site.route]]\npath = \"/bytes\"\npool = \"app\"\n\n[pool.app]\ntransport = \"{transport}\"\n\
             queue = {{ max = 1024, timeout = \"20s\" }}\n{}\n{}\n",
            self.fill(&self.plan.behind.pool, &names),
            self.fill(&self.plan.behind.more, &names)
        );
        Ok(Running::start_as(Kind::Maitred, &name, &setup)?.with(beside))
    }

    fn behind_nginx(&self) -> Result<Running> {
        let application = self.alone("behind-nginx")?;
        let mut setup = self.setup(&self.bench.work);
        setup.backend = application.address;
        setup.backend_path = "/".to_owned();
        setup.ready = "/app/bytes?n=1".to_owned();
        Ok(Running::start_as(Kind::Nginx, &format!("{}-nginx", self.name), &setup)?.before(application))
    }

    fn measure(&self, label: &str, bytes: u64) -> Line {
        let path = format!("/bytes?n={bytes}");
        let way = |server, path: &str| Way { server, path: path.to_owned(), body_bytes: bytes };
        let mut ways = vec![way(self.alone("alone"), &path)];
        ways.extend(TRANSPORTS.map(|transport| way(self.behind(transport), &path)));
        ways.push(way(self.behind_nginx(), &format!("/app{path}")));
        grid::measure(self.bench, &format!("{}, {label}", self.name), None, connections(bytes), ways)
    }
}
