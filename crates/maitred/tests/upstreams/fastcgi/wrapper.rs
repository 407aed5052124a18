//! A program that is no PHP: git's server behind Debian's fcgiwrap, with `script_filename` and `params`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::support::php::program;
use crate::support::{Setup, eventually, skip_missing};

const BACKEND: &str = "/usr/lib/git-core/git-http-backend";

/// Of "secret".
const BCRYPT: &str = "$2y$05$rghXMw387UPLDQBml3anFOiGL5e4WhS1Evoq2xew3jrq52ZayqZQ.";

/// fcgiwrap on a socket, until this is dropped.
struct Wrapper {
    running: Child,
    socket: PathBuf,
}

impl Wrapper {
    fn start(directory: &Path) -> Option<Wrapper> {
        let missing = |what: &str| skip_missing(what.to_owned());
        let Some(fcgiwrap) = program("fcgiwrap") else {
            missing("no fcgiwrap (Debian: fcgiwrap)");
            return None;
        };
        if program("git").is_none() || !Path::new(BACKEND).exists() {
            missing("no git (Debian: git)");
            return None;
        }
        let socket = directory.join("wrapper.sock");
        let mut command = Command::new(fcgiwrap);
        command.arg("-c").arg("2").arg("-s").arg(format!("unix:{}", socket.display()));
        let running =
            command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = running.spawn().unwrap();
        let wrapper = Wrapper { running, socket };
        eventually("fcgiwrap listens", || UnixStream::connect(&wrapper.socket).is_ok());
        fs::set_permissions(&wrapper.socket, fs::Permissions::from_mode(0o777)).unwrap();
        Some(wrapper)
    }
}

impl Drop for Wrapper {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.running), Signal::KILL);
        let _ = self.running.wait();
    }
}

/// Runs git, with nothing of the machine's configuration.
fn git(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("git");
    let home = directory.parent().unwrap();
    command.args(args).current_dir(directory).env("HOME", home).env("GIT_CONFIG_NOSYSTEM", "1");
    for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
        command.env(name, "a@a.example");
    }
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(name);
    }
    command.env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn succeeds(directory: &Path, args: &[&str]) -> String {
    let output = git(directory, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn git_clones_and_pushes_through_a_wrapper() {
    let setup = Setup::with_files();
    let directory = setup.directory.path().to_owned();
    let Some(wrapper) = Wrapper::start(&directory) else { return };
    let work = directory.join("work");
    for path in ["repositories", "work"] {
        fs::create_dir(directory.join(path)).unwrap();
    }
    succeeds(&work, &["init", "--quiet", "--bare", "--initial-branch=main", "../repositories/a b.git"]);
    let repository = directory.join("repositories/a b.git");
    succeeds(&repository, &["config", "core.logAllRefUpdates", "always"]);
    let pool = format!(
        "[pool.git]\nconnect = \"fastcgi+unix:{}\"\nmount = \"/git\"\nscript_filename = \"{BACKEND}\"\n\
         params = {{ GIT_PROJECT_ROOT = \"{}\", GIT_HTTP_EXPORT_ALL = \"\", GIT_COMMITTER_NAME = \"by {{user}}\" }}\n",
        wrapper.socket.display(),
        directory.join("repositories").display()
    );
    let server = setup
        .route("/git/*", &format!("pool = \"git\"\nbasic_auth = {{ users = {{ ann = \"{BCRYPT}\" }} }}"))
        .table(&pool)
        .limit("body_bytes_max = \"64MiB\"")
        .start();
    let url = format!("http://ann:secret@{}/git/a%20b.git", server.address);
    succeeds(&work, &["clone", "--quiet", &url, "one"]);
    let one = work.join("one");
    // Longer than git sends with a length, and not to be made shorter: it comes in chunks.
    let noise: Vec<u8> =
        (0_u64..400_000).flat_map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).collect();
    fs::write(one.join("noise"), &noise).unwrap();
    succeeds(&one, &["add", "noise"]);
    succeeds(&one, &["commit", "--quiet", "--message", "noise"]);
    succeeds(&one, &["push", "--quiet", "origin", "HEAD:main"]);
    succeeds(&work, &["clone", "--quiet", &url, "two"]);
    assert!(fs::read(work.join("two/noise")).unwrap() == noise);
    assert_eq!(
        succeeds(&one, &["rev-parse", "HEAD"]),
        succeeds(&work.join("two"), &["rev-parse", "origin/main"])
    );
    // The application knows the user, whom a gate has found; without one nothing is passed on.
    let log = fs::read_to_string(repository.join("logs/refs/heads/main")).unwrap();
    assert!(log.contains(" by ann <"), "{log}");
    let nobody = git(&work, &["clone", &url.replace("ann:secret@", ""), "three"]);
    assert!(!nobody.status.success() && !work.join("three/noise").exists());
    let mut client = server.connect();
    assert_eq!(client.get("/git/a%20b.git/HEAD").status, 401);
    let auth = "Authorization: Basic YW5uOnNlY3JldA==\r\n";
    assert_eq!(client.method("GET", "/git/none.git/info/refs", auth).status, 404, "the program answers");
    server.stop();
}
