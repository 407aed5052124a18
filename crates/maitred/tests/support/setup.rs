//! A configuration and a tree of files, in a directory of their own.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::server::{Server, binary, copy_program};

/// What a server is started with. Tables are filled line by line; what is not filled has the defaults of Maitred, but for
/// one thread, an access log in a file, and an admin socket.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) directory: TempDir,
    server: Vec<String>,
    listen: Vec<String>,
    site: Vec<String>,
    limits: Vec<String>,
    log: Vec<String>,
    /// Whole tables: routes, further sites.
    tables: Vec<String>,
    pools: Vec<String>,
}

impl Setup {
    /// One site, whose files lie in the directory `root`.
    pub(crate) fn new() -> Setup {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir(&root).unwrap();
        // A server that was started as root may run as another account, whatever the umask.
        for path in [directory.path(), &root] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let (server, listen, site, limits, log, tables, pools) = Default::default();
        Setup { directory, server, listen, site, limits, log, tables, pools }
    }

    /// A site of a few files: `index.html`, `a.txt` ("file a\n"), `b.txt` ("file b\n"), `dir/index.html`.
    pub(crate) fn with_files() -> Setup {
        Setup::new()
            .file("index.html", b"<p>index</p>\n")
            .file("a.txt", b"file a\n")
            .file("b.txt", b"file b\n")
            .file("dir/index.html", b"<p>dir</p>\n")
    }

    /// A file below the root.
    pub(crate) fn file(self, path: &str, bytes: &[u8]) -> Setup {
        self.outside(&format!("root/{path}"), bytes)
    }

    /// A file below the directory of the configuration.
    pub(crate) fn outside(self, path: &str, bytes: &[u8]) -> Setup {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        self
    }

    /// A line of `[server]`.
    pub(crate) fn server(mut self, line: &str) -> Setup {
        self.server.push(line.to_owned());
        self
    }

    /// A line of `[[listen]]`.
    pub(crate) fn listen(mut self, line: &str) -> Setup {
        self.listen.push(line.to_owned());
        self
    }

    /// Another address than the one that was given before.
    pub(crate) fn replacing_address(mut self, address: &str) -> Setup {
        self.listen.retain(|line| !line.starts_with("address"));
        self.listen(&format!("address = \"{address}\""))
    }

    /// A line of the first `[[site]]`.
    pub(crate) fn site(mut self, line: &str) -> Setup {
        self.site.push(line.to_owned());
        self
    }

    /// A line of `[limits]`.
    pub(crate) fn limit(mut self, line: &str) -> Setup {
        self.limits.push(line.to_owned());
        self
    }

    /// A line of `[log]`.
    pub(crate) fn log(mut self, line: &str) -> Setup {
        self.log.push(line.to_owned());
        self
    }

    /// A route of the site that was named last.
    pub(crate) fn route(self, path: &str, target: &str) -> Setup {
        self.table(&format!("[[site.route]]\npath = \"{path}\"\n{target}\n"))
    }

    /// Any tables.
    pub(crate) fn table(mut self, text: &str) -> Setup {
        self.tables.push(text.to_owned());
        self
    }

    /// A pool of the Python application in `support/application.py`, and a route `/NAME/*` to it. `gate` is where its
    /// requests to `/wait` report; `lines` are further lines of the pool.
    pub(crate) fn pool(self, name: &str, gate: Option<&super::Gate>, lines: &str) -> Setup {
        let gate = gate.map(|gate| gate.address().to_string()).unwrap_or_default();
        self.outside("application.py", include_bytes!("application.py"))
            .route(&format!("/{name}/*"), &format!("pool = \"{name}\""))
            .python(name, "application:application", &format!("GATE = \"{gate}\""), lines)
    }

    /// An isolated pool as [`Setup::pool`] has it, with an account of its own where that can be.
    pub(crate) fn isolated_pool(self, name: &str, lines: &str) -> Setup {
        let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/python/maitred");
        // Beside the application, for the case that the repository is where other accounts may not look.
        let copied = Command::new("cp").arg("-r").arg(adapter).arg(self.directory.path()).status();
        assert!(copied.unwrap().success());
        let user = if rustix::process::geteuid().is_root() { "user = \"nobody\"\n" } else { "" };
        self.pool(name, None, &format!("isolate = true\n{user}{lines}"))
    }

    /// A pool of any Python application, `MODULE:CALLABLE` in the directory of the configuration. `env` is what its
    /// processes find in their environment, as in TOML. Requests wait for a process as long as a slow machine needs to start one,
    /// unless `lines` say something else of the queue.
    pub(crate) fn python(mut self, name: &str, application: &str, env: &str, lines: &str) -> Setup {
        let adapter =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/python").canonicalize().unwrap();
        let path = format!("{}:.", adapter.display());
        let queue = if lines.contains("queue") { "" } else { "queue = { timeout = \"60s\" }" };
        self.pools.push(format!(
            "[pool.{name}]\ncommand = [\"python3\", \"-m\", \"maitred\", \"{application}\"]\n\
             env = {{ PYTHONPATH = \"{path}\", PYTHONDONTWRITEBYTECODE = \"1\", {env} }}\n{queue}\n{lines}\n"
        ));
        self
    }

    pub(crate) fn start(self) -> Server {
        self.write();
        Server::start(self, run(binary()))
    }

    /// Starts a server that may say no address on standard error, or never listen.
    pub(crate) fn launch(self) -> Server {
        self.write();
        Server::launch(self, run(binary()))
    }

    /// Starts by a command of the test's own, in the directory of the configuration.
    pub(crate) fn start_by(self, command: Command) -> Server {
        self.write();
        Server::start(self, command)
    }

    /// Starts a copy of the binary, `maitred` in the directory of the configuration, which can be replaced.
    pub(crate) fn start_copy(self) -> Server {
        self.write();
        let copy = self.directory.path().join("maitred");
        copy_program(binary().as_ref(), &copy);
        Server::start(self, run(copy))
    }

    /// Starts with this configuration instead of what was filled in.
    pub(crate) fn start_as(self, text: &str) -> Server {
        fs::write(self.directory.path().join("maitred.toml"), text).unwrap();
        Server::start(self, run(binary()))
    }

    /// Writes the configuration; [`Setup::start`] does so too.
    pub(crate) fn write(&self) -> PathBuf {
        let path = self.directory.path().join("maitred.toml");
        fs::write(&path, self.text()).unwrap();
        path
    }

    fn text(&self) -> String {
        let join = |lines: &[String]| lines.join("\n");
        let default = |lines: &[String], key: &str, line: &str| {
            if lines.iter().any(|line| line.starts_with(key)) { String::new() } else { line.to_owned() }
        };
        let threads = default(&self.server, "threads", "threads = 1");
        let admin = default(&self.server, "admin", "admin = \"unix:admin.sock\"");
        // Tests run as root or not, and their directories are for the account that runs them.
        let share_user = default(&self.server, "share_user", "share_user = true");
        let address = default(&self.listen, "address", "address = \"127.0.0.1:0\"");
        let format = default(&self.log, "access ", "access = \"combined\"");
        let access_file = default(&self.log, "access_file ", "access_file = \"access.log\"");
        format!(
            "[server]\n{threads}\naffinity = \"off\"\n{admin}\n{share_user}\n{}\n\
             [[listen]]\n{address}\n{}\n\
             [limits]\n{}\n\
             [log]\n{access_file}\n{format}\n{}\n\
             [[site]]\nroot = \"root\"\n{}\n{}\n{}\n",
            join(&self.server),
            join(&self.listen),
            join(&self.limits),
            join(&self.log),
            join(&self.site),
            join(&self.tables),
            join(&self.pools)
        )
    }
}

fn run(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.args(["run", "-c", "maitred.toml"]).stdin(Stdio::null());
    command
}
