//! `maitred app`: an application that is named on the command line, as the configuration that it stands for.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::App;
use super::exit::Error;
use crate::detect::configuration::{Settings, text};
use crate::detect::directory::node_command;
use crate::detect::{Application, FPM_SOCKETS, Kind, NODE_ASSETS, PYTHON_ASSETS, assets, fpm_socket, python};
use maitred_config::{AdminAddress, Failure, Identity, Loaded, load_text};

/// How long an interpreter may take to say whether the adapter is there.
const LOOK_TIMEOUT: Duration = Duration::from_secs(20);
/// Says by its exit code what is missing; imports nothing of the application.
const LOOK: &str = "import importlib.util, os, sys
sys.path.insert(0, os.getcwd())
spec = importlib.util.find_spec('maitred')
if spec is None or spec.origin is None: sys.exit(13)
if importlib.util.find_spec(sys.argv[1]) is None: sys.exit(14)";

impl App {
    /// The configuration that the command line stands for, in TOML.
    pub fn text(&self) -> Result<String, Failure> {
        let settings = Settings {
            user: self.account()?,
            listen: self.address().to_string(),
            domains: self.domain.clone(),
            workers: self.workers,
            whole_environment: true,
        };
        Ok(text(&self.application()?, &settings))
    }

    /// What the command line means.
    pub fn configuration(&self) -> Result<Loaded, Failure> {
        if self.user.is_some() && !rustix::process::geteuid().is_root() {
            let why = "--user: only root can change to another account, and this is not root";
            return Err(Failure::Refused(why.to_owned()));
        }
        let mut loaded = load_text(Path::new("(maitred app)"), self.text()?)?;
        loaded.text = None;
        if self.tls {
            loaded.config.use_self_signed();
        }
        loaded.config.server.admin = AdminAddress::of_user(self.address().port());
        Ok(loaded)
    }

    /// What is missing on this machine: the adapter, or the application's module.
    pub fn look(&self) -> Result<(), Error> {
        let application = self.application().map_err(Error::from)?;
        let Kind::Command(command) = &application.kind else { return Ok(()) };
        match command.as_slice() {
            [python, _, _, target] if application.name == "Python" => look_python(python, target),
            [node, require, module, _] if require == "--require" => look_node(node, module),
            _ => Ok(()),
        }
    }

    /// The account that the command line names; for a domain, root's processes have one in any case.
    fn account(&self) -> Result<Option<String>, Failure> {
        match &self.user {
            Some(user) => Ok(Some(user.clone())),
            None if self.domain.is_empty() => Ok(None),
            None => Identity::for_production(),
        }
    }

    fn address(&self) -> SocketAddr {
        let port = if self.tls { 8443 } else { 8080 };
        self.listen.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, port).into())
    }

    fn application(&self) -> Result<Application, Failure> {
        let refused = |why: String| Failure::Refused(why);
        if let Some(dir) = &self.php {
            return self.php(dir);
        }
        let name = self.application.as_deref().unwrap_or_default();
        let because = format!("the argument {name}");
        let path = Path::new(name);
        if path.is_dir() {
            let kind = Kind::Files(name.to_owned());
            return Ok(Application { name: "Files", because, kind, assets: Vec::new() });
        }
        let here = Path::new(".");
        if path
            .extension()
            .is_some_and(|extension| ["js", "cjs", "mjs"].iter().any(|known| extension == *known))
        {
            if !path.is_file() {
                return Err(refused(format!(
                    "there is no file {name}: name a program of Node.js, from this directory"
                )));
            }
            return Ok(Application {
                name: "Node.js",
                because,
                kind: Kind::Command(node_command(here, name)),
                assets: assets(here, NODE_ASSETS),
            });
        }
        if name.contains('/') || !name.contains(':') {
            let known = "module:callable (Python), a .js file (Node.js), or a directory of files";
            return Err(refused(format!("{name:?} is none of these: {known}")));
        }
        let environment = std::env::var_os("VIRTUAL_ENV");
        let python = python(here, environment.as_deref().map(Path::new));
        let python = if python.starts_with('.') { absolute(&python)? } else { python };
        let kind = Kind::Command(vec![python, "-m".into(), "maitred".into(), name.to_owned()]);
        Ok(Application { name: "Python", because, kind, assets: assets(here, PYTHON_ASSETS) })
    }

    fn php(&self, dir: &Path) -> Result<Application, Failure> {
        if !dir.is_dir() {
            return Err(Failure::Refused(format!("--php: there is no directory {}", dir.display())));
        }
        let found = self.fpm.clone().or_else(|| fpm_socket(Path::new(FPM_SOCKETS)));
        let socket = found.ok_or_else(|| {
            let help = "start php-fpm, or name its socket with --fpm";
            Failure::Refused(format!("--php: php-fpm has no socket in {FPM_SOCKETS}: {help}"))
        })?;
        let because = format!("the argument --php {}", dir.display());
        let kind = Kind::Php { root: dir.display().to_string(), socket };
        Ok(Application { name: "PHP", because, kind, assets: Vec::new() })
    }
}

fn absolute(path: &str) -> Result<String, Failure> {
    let absolute = std::path::absolute(path);
    let absolute = absolute.map_err(|error| Failure::Refused(format!("cannot find {path}: {error}")))?;
    Ok(absolute.display().to_string())
}

fn look_python(python: &str, target: &str) -> Result<(), Error> {
    let module = target.split([':', '.']).next().unwrap_or_default();
    match status(python, &["-c", LOOK, module])? {
        Some(13) => Err(Error::failed(
            format!("{python} has no module `maitred`, the adapter for Python"),
            format!("{python} -m pip install maitred"),
        )),
        Some(14) => Err(Error::failed(
            format!("{python} finds no module `{module}` of the application"),
            "start maitred in the directory that holds it, or set PYTHONPATH",
        )),
        _ => Ok(()),
    }
}

fn look_node(node: &str, module: &str) -> Result<(), Error> {
    match status(node, &["-e", "require.resolve(process.argv[1], { paths: [process.cwd()] })", module])? {
        Some(0) => Ok(()),
        _ => Err(Error::failed(
            "Node.js finds no package `maitred` here, the adapter for Node.js",
            "npm install maitred, in this directory",
        )),
    }
}

/// The exit code; `None` if a signal ended it.
fn status(program: &str, arguments: &[&str]) -> Result<Option<i32>, Error> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command
        .spawn()
        .map_err(|error| Error::failed(format!("cannot run {program}: {error}"), "install it"))?;
    match ended_within(&mut child, LOOK_TIMEOUT) {
        Ok(Some(ended)) => Ok(ended.code()),
        Ok(None) => Err(Error::failed(
            format!(
                "{program} has not found out within {} s whether the adapter is installed",
                LOOK_TIMEOUT.as_secs()
            ),
            format!("look whether `{program}` starts at all"),
        )),
        Err(error) => Err(Error::failed(format!("cannot wait for {program}: {error}"), "try again")),
    }
}

/// How it has ended; `None` if it did not within this time, and was killed.
fn ended_within(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) => break,
            Ok(_) => return child.wait().map(Some),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    child.kill()?;
    child.wait().map(|_| None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let mut endless = Command::new("tail").args(["-f", "/dev/null"]).spawn().unwrap();
        assert_eq!(ended_within(&mut endless, Duration::from_millis(20)).unwrap(), None);
        assert!(endless.try_wait().unwrap().is_some(), "it is gone");
        let mut brief = Command::new("false").spawn().unwrap();
        let ended = ended_within(&mut brief, Duration::from_secs(60)).unwrap();
        assert_eq!(ended.and_then(|ended| ended.code()), Some(1));
    }
}
