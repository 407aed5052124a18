//! `maitred status`, `reload`, `upgrade`, `stop` and `pool`: asks a running server at its admin address.

use std::io::{ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, pidfd_open};

use super::client::{self, Reply};
use super::exit::Error;
use super::{DEFAULT_CONFIG, Order, Pool, PoolAction, Server, Status};
use maitred_config::{self as config, AdminAddress, user_runtime_dir};
use maitred_status::text;

/// How long a question about the status may take.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the server may be silent about a reload or a stop. The server answers within a minute, or says that it waits and
/// what for; how long it waits is bounded by what it waits for.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
/// How long an answer is waited for by who does not wait for the result (`--no-wait`).
const NO_WAIT_TIMEOUT: Duration = Duration::from_secs(1);

/// What `maitred status` prints.
pub fn status(status: &Status) -> Result<String, Error> {
    let address = status.server.address()?;
    // Requests under way are noted when the status is asked for, and shown the next time: so they are asked for first.
    let _ = ask(&address, "GET", "/status.json", STATUS_TIMEOUT);
    if status.json {
        return ask(&address, "GET", "/status.json", STATUS_TIMEOUT);
    }
    document(&address, "/status.json").map(|document| text::render(&document))
}

/// A JSON document of the admin address.
pub(super) fn document(address: &AdminAddress, path: &str) -> Result<serde_json::Value, Error> {
    let body = ask(address, "GET", path, STATUS_TIMEOUT)?;
    serde_json::from_str(&body).map_err(|error| {
        Error::failed(
            format_args!("what answered at {address} does not talk like Maitred: {error}"),
            "look whether another program listens there",
        )
    })
}

/// `maitred reload`: what the server says to it.
pub fn reload(order: &Order) -> Result<String, Error> {
    order.server.target()?.order("/reload", order.no_wait)
}

/// `maitred upgrade`: what the server says to it.
pub fn upgrade(order: &Order) -> Result<String, Error> {
    order.server.target()?.order("/upgrade", order.no_wait)
}

/// `maitred pool`: what the server says to it, or the pool's part of the status.
pub fn pool(pool: &Pool) -> Result<String, Error> {
    let name = &pool.name;
    if pool.action != Some(PoolAction::Restart) && (pool.canary.is_some() || pool.no_wait) {
        return Err(Error::usage(
            "`--canary` and `--no-wait` are for restart",
            format_args!("write `maitred pool {name} restart`"),
        ));
    }
    let path = match (pool.action, pool.number) {
        (None, _) => return show_pool(pool),
        (Some(PoolAction::Restart), None) => match pool.canary {
            Some(count) => format!("/pool/{name}/canary/{count}"),
            None => format!("/pool/{name}/restart"),
        },
        (Some(PoolAction::Drain), Some(slot)) => format!("/pool/{name}/drain/{slot}"),
        (Some(PoolAction::Scale), Some(workers)) => format!("/pool/{name}/scale/{workers}"),
        (Some(PoolAction::Restart), Some(_)) => {
            return Err(Error::usage(
                "restart takes no number: it replaces all processes of the pool",
                format_args!("to end one of them, `maitred pool {name} drain SLOT`"),
            ));
        }
        (Some(PoolAction::Drain | PoolAction::Scale), None) => {
            return Err(Error::usage("the number is missing", "see `maitred pool --help`"));
        }
    };
    pool.server.target()?.order(&path, pool.no_wait)
}

fn show_pool(pool: &Pool) -> Result<String, Error> {
    let status = document(&pool.server.address()?, "/status.json")?;
    let pools = text::list(&status["pools"]);
    let Some(found) = pools.iter().find(|found| found["name"] == pool.name.as_str()) else {
        let names: Vec<String> = pools.iter().map(|pool| text::show(&pool["name"])).collect();
        return Err(Error::failed(
            format_args!("there is no pool {}", pool.name),
            match names.as_slice() {
                [] => "the server has no pools".to_owned(),
                names => format!("there is: {}", names.join(", ")),
            },
        ));
    };
    Ok(if pool.json { format!("{found:#}") } else { text::pool(found) })
}

/// The name of a pool on the command line; what could not be one is not asked for.
///
/// # Errors
/// What a name may be made of.
pub(super) fn pool_name(text: &str) -> Result<String, String> {
    match config::Pool::is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("the name of a pool has 1 to 64 letters, digits, `-` and `_`".to_owned()),
    }
}

/// `maitred stop`: returns when the server has ended, so that another one can be started; if that cannot be seen, as soon as
/// the server has said that it will.
pub fn stop(server: &Server) -> Result<String, Error> {
    let target = server.target()?;
    let master = master(&target.address);
    let reply = target.command("/stop")?;
    let Some(master) = master else { return Ok(reply) };
    // The server bounds this by its grace.
    while let Err(Errno::INTR) = poll(&mut [PollFd::new(&master, PollFlags::IN)], None) {}
    Ok("stopped".to_owned())
}

/// The master process of a server. `None` unless the process that listens on the admin socket and the one that the server
/// names are the same: a service manager may listen for it, and over TCP it may be in another pid namespace.
fn master(address: &AdminAddress) -> Option<OwnedFd> {
    let AdminAddress::Unix(path) = address else { return None };
    let listener = socket_peercred(client::connect_unix(path, STATUS_TIMEOUT).ok()?).ok()?.pid;
    // Before the question, so that the number cannot have passed to another process since.
    let process = pidfd_open(listener, PidfdFlags::empty()).ok()?;
    let status = ask(address, "GET", "/status.json", STATUS_TIMEOUT).ok()?;
    let status: serde_json::Value = serde_json::from_str(&status).ok()?;
    (status["master_pid"].as_i64() == Some(listener.as_raw_nonzero().get().into())).then_some(process)
}

/// One question; the body of a 200.
fn ask(address: &AdminAddress, method: &str, path: &str, timeout: Duration) -> Result<String, Error> {
    judged(address, request(address, method, path, None, timeout))
}

fn request(
    address: &AdminAddress,
    method: &str,
    path: &str,
    token: Option<&str>,
    timeout: Duration,
) -> Result<Reply, client::Failure> {
    let mut said = String::new();
    let mut progress = |what: &str| {
        if said != what {
            // There may be no reader.
            let _ = writeln!(std::io::stderr(), "{what}");
            what.clone_into(&mut said);
        }
    };
    client::exchange(address, method, path, token, timeout, &mut progress)
}

/// The body of a 200.
fn judged(address: &AdminAddress, result: Result<Reply, client::Failure>) -> Result<String, Error> {
    let Reply { status, body } = result.map_err(|failure| failure.explained(address))?;
    match status {
        200 => Ok(body),
        _ => Err(Error {
            text: format!("error: the server at {address} refused ({status}):\n{}", body.trim_end()),
            exit: super::exit::Exit::Failed,
        }),
    }
}

/// A running server: where it is asked, and the file with the token that its commands take, if any.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    address: AdminAddress,
    token_file: Option<PathBuf>,
}

impl Server {
    /// The admin address of the server that is meant.
    pub fn address(&self) -> Result<AdminAddress, Error> {
        self.target().map(|target| target.address)
    }

    pub(super) fn target(&self) -> Result<Target, Error> {
        let mut target = match (&self.admin, &self.config) {
            (Some(address), _) => Target { address: address.clone(), token_file: None },
            (None, Some(file)) => of_file(file)?,
            (None, None) if Path::new(DEFAULT_CONFIG).exists() => of_file(Path::new(DEFAULT_CONFIG))?,
            (None, None) => Target { address: of_user(user_runtime_dir().as_deref())?, token_file: None },
        };
        if self.token.is_some() {
            target.token_file.clone_from(&self.token);
        }
        Ok(target)
    }
}

impl Target {
    /// The same for what may take a while. Who does not wait for it learns what is refused at once.
    fn order(&self, path: &str, no_wait: bool) -> Result<String, Error> {
        if !no_wait {
            return self.command(path);
        }
        match self.exchange("POST", path, NO_WAIT_TIMEOUT)? {
            Err(client::Failure::Exchange(error))
                if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) =>
            {
                Ok("under way; the error log and `maitred status` say what comes of it".to_owned())
            }
            result => judged(&self.address, result),
        }
    }

    /// Has the server do something; what it says to it.
    pub(super) fn command(&self, path: &str) -> Result<String, Error> {
        self.send("POST", path)
    }

    /// Asks the server something that only those may know who command it.
    pub(super) fn question(&self, path: &str) -> Result<String, Error> {
        self.send("GET", path)
    }

    fn send(&self, method: &str, path: &str) -> Result<String, Error> {
        judged(&self.address, self.exchange(method, path, COMMAND_TIMEOUT)?)
    }

    fn exchange(
        &self,
        method: &str,
        path: &str,
        timeout: Duration,
    ) -> Result<Result<Reply, client::Failure>, Error> {
        let token = match (&self.address, &self.token_file) {
            (AdminAddress::Tcp(_), Some(file)) => Some(token(file)?),
            _ => None,
        };
        Ok(request(&self.address, method, path, token.as_deref(), timeout))
    }
}

fn token(file: &Path) -> Result<String, Error> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Error::failed(
            format_args!("cannot read the token of the server, {}: {error}", file.display()),
            "the server writes it at its start, for its own account: run this as that user, or as root",
        )
    })?;
    let token = text.trim();
    match !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => Ok(token.to_owned()),
        false => Err(Error::failed(
            format_args!("there is no token in {}", file.display()),
            "see `admin_token` in [server]",
        )),
    }
}

fn of_file(file: &Path) -> Result<Target, Error> {
    let (address, token_file) = config::admin_address(file)?;
    let address = address.ok_or_else(|| {
        Error::usage(
            format_args!("{} names no usable `admin` address", file.display()),
            "set admin = \"unix:/run/maitred.sock\" in [server] and restart the server, or give --admin",
        )
    })?;
    Ok(Target { address, token_file })
}

/// The one server that `maitred serve` runs for this user.
fn of_user(runtime_dir: Option<&Path>) -> Result<AdminAddress, Error> {
    let Some(runtime_dir) = runtime_dir else {
        return Err(Error::usage(
            "no server is named: there is no maitred.toml here, and without a directory in $XDG_RUNTIME_DIR a \
             `maitred serve` of this user has no admin socket",
            "give -c FILE or --admin ADDR",
        ));
    };
    let mut sockets = sockets(runtime_dir);
    sockets.sort();
    match (sockets.pop(), sockets.is_empty()) {
        (Some(only), true) => Ok(AdminAddress::Unix(only)),
        (None, _) => Err(Error::usage(
            "no server is named: there is no maitred.toml here, and no `maitred serve` of this user",
            "give -c FILE or --admin ADDR",
        )),
        (Some(last), false) => {
            sockets.push(last);
            let list: Vec<_> =
                sockets.iter().map(|path| format!("--admin unix:{}", path.display())).collect();
            Err(Error::usage(
                "several servers of this user may be meant",
                format_args!("give one of {}", list.join(", ")),
            ))
        }
    }
}

/// The admin sockets in a directory with a listener; a killed server leaves its socket's file behind.
fn sockets(dir: &Path) -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("maitred-") && name.ends_with(".sock")
    };
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_alive = |path: &PathBuf| {
        let refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
        !client::connect_unix(path, STATUS_TIMEOUT).is_err_and(refused)
    };
    entries.map(|entry| entry.path()).filter(is_ours).filter(is_alive).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_only_server_of_a_user_is_meant() {
        let dir = tempfile::tempdir().unwrap();
        assert!(of_user(Some(dir.path())).unwrap_err().text.contains("no server is named"));
        assert!(of_user(None).unwrap_err().text.contains("XDG_RUNTIME_DIR"));
        let listen = |name: &str| UnixListener::bind(dir.path().join(name)).unwrap();
        let _other = listen("other.sock");
        let _first = listen("maitred-8080.sock");
        drop(listen("maitred-killed.sock"));
        assert_eq!(
            of_user(Some(dir.path())).unwrap(),
            AdminAddress::Unix(dir.path().join("maitred-8080.sock"))
        );
        let _second = listen("maitred-8081.sock");
        let error = of_user(Some(dir.path())).unwrap_err().text;
        assert!(
            error.contains("maitred-8080.sock, --admin") && error.contains("maitred-8081.sock"),
            "{error}"
        );
    }

    #[test]
    fn a_file_without_an_admin_address_says_what_to_add() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let server = Server { config: Some(file.path().to_owned()), admin: None, token: None };
        let error = server.address().unwrap_err();
        assert_eq!(error.exit.code(), 2);
        assert!(error.text.contains("set admin ="), "{error}");
    }
}
