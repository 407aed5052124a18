//! `maitred app` and `maitred init`: applications without a configuration, with the real binary.

mod alike;
mod layouts;
mod names;
mod person;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::php::Php;
use crate::support::{Client, binary, eventually, skip_here, skip_missing};

const WSGI: &str =
    "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'wsgi']\n";
const ASGI: &str = "async def application(scope, receive, send):\n    if scope['type'] != 'http':\n        return\n    \
     await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n    \
     await send({'type': 'http.response.body', 'body': b'asgi'})\n";

/// A directory with these files.
fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/python").canonicalize().unwrap();
    let mut command = Command::new(binary());
    command.args(arguments).current_dir(dir).env("PYTHONPATH", adapter).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env_remove("VIRTUAL_ENV");
    command
}

/// A directory with these files, and the adapter for Node.js where npm would put it; `None` (which is said) without Node.js.
fn node_directory(files: &[(&str, &str)]) -> Option<tempfile::TempDir> {
    if Command::new("node").arg("--version").stdout(Stdio::null()).status().is_err() {
        skip_missing("no node (Debian: nodejs)");
        return None;
    }
    let dir = directory(files);
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/node").canonicalize().unwrap();
    std::fs::create_dir(dir.path().join("node_modules")).unwrap();
    std::os::unix::fs::symlink(adapter, dir.path().join("node_modules/maitred")).unwrap();
    Some(dir)
}

fn output(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, arguments).output().unwrap()
}

fn refused(dir: &Path, arguments: &[&str], why: &str) {
    let ended = output(dir, arguments);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && said.contains(why), "{arguments:?}: {said}");
}

/// A running server; ended when dropped.
struct Running {
    child: Child,
    address: SocketAddr,
    /// What the server has said on standard output.
    told: Arc<Mutex<String>>,
    /// What the server has said on standard error.
    said: Arc<Mutex<String>>,
}

impl Running {
    fn start(dir: &Path, arguments: &[&str]) -> Running {
        let arguments = [arguments, &["--listen", "127.0.0.1:0"]].concat();
        Running::of(command(dir, &arguments))
    }

    /// The command has to say its address.
    fn of(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::new(Mutex::new(String::new()));
        let into = Arc::clone(&log);
        std::thread::spawn(move || {
            errors.map_while(Result::ok).for_each(|line| into.lock().unwrap().push_str(&(line + "\n")));
        });
        let (mut said, mut address) = (String::new(), None);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while address.is_none() {
            let Some(Ok(line)) = lines.next() else { break };
            address =
                line.split("://").nth(1).and_then(|rest| rest.split([' ', '/', ',']).next()?.parse().ok());
            said.push_str(&(line + "\n"));
        }
        let told = Arc::new(Mutex::new(said.clone()));
        std::thread::spawn({
            let told = Arc::clone(&told);
            move || lines.map_while(Result::ok).for_each(|line| told.lock().unwrap().push_str(&(line + "\n")))
        });
        let Some(address) = address else { panic!("no address: {said}{}", log.lock().unwrap()) };
        Running { child, address, told, said: log }
    }

    fn has_said(&self, what: &str) -> bool {
        self.said.lock().unwrap().contains(what)
    }

    fn has_told(&self, what: &str) -> bool {
        self.told.lock().unwrap().contains(what)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn get_from(&self, host: &str) -> (u16, String) {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let response = Client::connect(self.address).ask(&request);
        (response.status, response.text().to_owned())
    }

    fn get(&self, target: &str) -> (u16, String) {
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let response = Client::connect(self.address).ask(&request);
        (response.status, response.text().to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\n{}", self.told.lock().unwrap(), self.said.lock().unwrap());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn python_of_both_kinds_answers_and_files_beside_it_come_first() {
    for (text, answer) in [(WSGI, "wsgi"), (ASGI, "asgi")] {
        let dir = directory(&[("site_of_mine.py", text), ("static/a.txt", "a file")]);
        let server = Running::start(dir.path(), &["app", "site_of_mine:application"]);
        assert_eq!(server.get("/any/path"), (200, answer.to_owned()));
        assert_eq!(server.get("/static/a.txt"), (200, "a file".to_owned()));
    }
}

#[test]
fn a_program_of_node_answers_and_public_files_come_first() {
    let program =
        "require('http').createServer((q, r) => r.end('node ' + q.method + ' ' + q.url)).listen(3000)";
    let files = [("server.js", program), ("public/a.txt", "a file"), ("static/b.txt", "another")];
    let Some(dir) = node_directory(&files) else { return };
    let server = Running::start(dir.path(), &["app", "server.js"]);
    assert_eq!(server.get("/any?x=1"), (200, "node GET /any?x=1".to_owned()));
    assert_eq!(server.get("/"), (200, "node GET /".to_owned()));
    assert_eq!(server.get("/a.txt"), (200, "a file".to_owned()));
    assert_eq!(server.get("/static/b.txt"), (200, "another".to_owned()));
    std::fs::write(dir.path().join("public/index.html"), "first").unwrap();
    assert_eq!(server.get("/"), (200, "first".to_owned()));
}

#[test]
fn watched_processes_are_replaced_when_their_source_changes() {
    let dir = directory(&[("site_of_mine.py", &WSGI.replace("b'wsgi'", "b'1'"))]);
    let server =
        Running::start(dir.path(), &["app", "site_of_mine:application", "--watch", "--workers", "2"]);
    assert_eq!(server.get("/"), (200, "1".to_owned()));
    let save = |text: &str| {
        // As editors do it.
        std::fs::write(dir.path().join("site_of_mine.py~"), text).unwrap();
        std::fs::rename(dir.path().join("site_of_mine.py~"), dir.path().join("site_of_mine.py")).unwrap();
    };
    save(&WSGI.replace("b'wsgi'", "b'2'"));
    eventually("the second answer", || server.get("/").1 == "2");
    save("def application(:\n");
    eventually("the error is shown", || server.has_said("SyntaxError"));
    assert_eq!(server.get("/").0, 200, "the processes before go on");
    save(&WSGI.replace("b'wsgi'", "b'3'"));
    eventually("the third answer", || server.get("/").1 == "3");
    eventually("it says so", || {
        let told = server.told.lock().unwrap();
        let told: Vec<&str> = told.lines().filter(|line| !line.starts_with("127.0.0.1 ")).collect();
        told.ends_with(&["site_of_mine.py has changed", "ready"])
    });
}

#[test]
fn an_application_with_a_syntax_error_is_shown_and_can_be_mended() {
    let dir = directory(&[("site_of_mine.py", "def application(:\n")]);
    let server = Running::start(dir.path(), &["app", "site_of_mine:application", "--watch"]);
    eventually("503", || server.get("/").0 == 503);
    assert!(server.has_said("site_of_mine.py") && server.has_said("SyntaxError"));
    std::fs::write(dir.path().join("site_of_mine.py"), WSGI).unwrap();
    eventually("the answer", || server.get("/") == (200, "wsgi".to_owned()));
}

#[test]
fn accounts_are_named_where_root_starts_a_server_for_a_domain() {
    let dir = directory(&[("app.py", WSGI)]);
    let domain = ["app", "app:application", "--domain", "example.com", "--print-config"];
    if !rustix::process::geteuid().is_root() {
        refused(dir.path(), &["app", "app:application", "--user", "nobody"], "only root can change");
        return;
    }
    let named = output(dir.path(), &[&domain[..], &["--user", "nobody"]].concat());
    let text = String::from_utf8(named.stdout).unwrap();
    assert!(text.contains("user = \"nobody\"\nshare_user = true"), "{text}");
    if std::fs::read_to_string("/etc/passwd").unwrap().lines().any(|line| line.starts_with("maitred:")) {
        let text = String::from_utf8(output(dir.path(), &domain).stdout).unwrap();
        assert!(text.contains("user = \"maitred\""), "{text}");
    } else {
        refused(dir.path(), &domain, "name one with --user");
    }
}

#[test]
fn tls_has_a_certificate_of_its_own() {
    let dir = directory(&[("site_of_mine.py", WSGI)]);
    let server = Running::start(dir.path(), &["app", "site_of_mine:application", "--tls"]);
    let ask = "import ssl, sys, urllib.request as r\n\
               print(r.urlopen(sys.argv[1], context=ssl._create_unverified_context()).read().decode(), end='')";
    let url = format!("https://{}/", server.address);
    let answer = Command::new("python3").args(["-c", ask, &url]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&answer.stdout),
        "wsgi",
        "{}",
        String::from_utf8_lossy(&answer.stderr)
    );
}

#[test]
fn php_runs_scripts_and_serves_files() {
    let Some(php) = Php::fpm(2) else { return };
    let script = "<?php echo 'php ', $_SERVER['REQUEST_URI'];";
    let dir = directory(&[("www/index.php", script), ("www/a.txt", "a file")]);
    for path in [dir.path().to_owned(), dir.path().join("www")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let socket = php.url().replace("fastcgi+unix:", "");
    let server = Running::start(dir.path(), &["app", "--php", "www", "--fpm", &socket]);
    assert_eq!(server.get("/any?x=1"), (200, "php /any?x=1".to_owned()));
    assert_eq!(server.get("/a.txt"), (200, "a file".to_owned()));
}

#[test]
fn processes_have_the_account_that_is_named() {
    if !rustix::process::geteuid().is_root() {
        return skip_here("only root can change to another account");
    }
    let text = WSGI.replace("b'wsgi'", "str(__import__('os').getuid()).encode()");
    let dir = directory(&[("site_of_mine.py", &text)]);
    // The other account need not reach the checkout.
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/python/maitred");
    let copied = Command::new("cp").arg("-r").arg(adapter).arg(dir.path()).status().unwrap();
    assert!(copied.success());
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = Running::start(dir.path(), &["app", "site_of_mine:application", "--user", "nobody"]);
    let id = Command::new("id").args(["-u", "nobody"]).output().unwrap();
    assert_eq!(server.get("/").1, String::from_utf8_lossy(&id.stdout).trim());
}

/// What the documents say for a shell, each line with its page.
fn commands_of_documents() -> Vec<(String, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = [
        "docs/one-line.md",
        "docs/start-python.md",
        "docs/start-node.md",
        "docs/start-php.md",
        "docs/start-files.md",
    ];
    let mut found = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("maitred app "));
        let before = found.len();
        found.extend(lines.map(|line| {
            let line = line.split(['#', '>']).next().unwrap_or_default();
            (
                page.to_owned(),
                line.split_whitespace().skip(1).map(|word| word.trim_matches('\'').to_owned()).collect(),
            )
        }));
        assert!(found.len() > before, "{page} has no such line");
    }
    found
}

#[test]
fn the_lines_of_the_documents_are_understood() {
    let dir =
        directory(&[("shop/wsgi.py", WSGI), ("app.py", WSGI), ("server.js", ""), ("public/index.html", "")]);
    for (page, line) in commands_of_documents() {
        let mut arguments: Vec<&str> = line.iter().map(String::as_str).collect();
        if arguments.iter().any(|argument| ["--tls", "--watch"].contains(argument)) {
            let server = Running::start(dir.path(), &arguments);
            assert!(server.address.port() != 0, "{page}: {line:?}");
            continue;
        }
        if !arguments.contains(&"--print-config") {
            arguments.push("--print-config");
        }
        if arguments.contains(&"--php") {
            arguments.extend(["--fpm", "/run/no/fpm.sock"]);
        }
        if arguments.contains(&"--domain") && !arguments.contains(&"--user") {
            arguments.extend(["--user", "nobody"]);
        }
        let printed = output(dir.path(), &arguments);
        assert!(printed.status.success(), "{page}: {line:?}: {}", String::from_utf8_lossy(&printed.stderr));
        std::fs::write(dir.path().join("printed.toml"), &printed.stdout).unwrap();
        let checked = output(dir.path(), &["check", "-c", "printed.toml"]);
        assert!(checked.status.success(), "{line:?}: {}", String::from_utf8_lossy(&checked.stderr));
    }
}

#[test]
fn a_directory_is_served() {
    let dir = directory(&[("public/index.html", "hello")]);
    let server = Running::start(dir.path(), &["app", "./public"]);
    assert_eq!(server.get("/"), (200, "hello".to_owned()));
    assert_eq!(server.get("/none").0, 404);
}

#[test]
fn printed_configurations_pass_the_check() {
    let dir = directory(&[("app.py", WSGI), ("server.js", ""), ("static/a.txt", ""), ("www/index.php", "")]);
    let php: &[&str] = &["--php", "www", "--fpm", "/run/no/fpm.sock"];
    let cases: [(&[&str], &str); 5] = [
        (&["app:application", "--workers", "2"], "workers = 2"),
        (&["server.js"], "\"maitred/register\""),
        (&["./static"], "root = \"./static\""),
        (php, "fastcgi+unix:/run/no/fpm.sock"),
        (&["app:application", "--domain", "example.com", "--user", "nobody"], "acme = true"),
    ];
    for (arguments, part) in cases {
        let printed = output(dir.path(), &[&["app", "--print-config"], arguments].concat());
        let text = String::from_utf8(printed.stdout).unwrap();
        assert!(printed.status.success() && text.contains(part), "{arguments:?}: {text}");
        std::fs::write(dir.path().join("printed.toml"), &text).unwrap();
        let checked = output(dir.path(), &["check", "-c", "printed.toml"]);
        assert!(checked.status.success(), "{text}\n{}", String::from_utf8_lossy(&checked.stderr));
    }
}

#[test]
fn what_is_missing_is_named() {
    let dir = directory(&[("app.py", WSGI)]);
    refused(dir.path(), &["app", "none:application"], "finds no module `none`");
    refused(dir.path(), &["app", "none.js"], "there is no file none.js");
    refused(dir.path(), &["app", "none"], "is none of these");
    refused(dir.path(), &["app", "none/none"], "is none of these");
    refused(dir.path(), &["app", "--php", "none"], "there is no directory none");
    refused(dir.path(), &["app"], "required");
    let without = command(dir.path(), &["app", "app:application"]).env("PYTHONPATH", "").output().unwrap();
    let said = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(said.contains("-m pip install "), "{said}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let other = std::net::TcpListener::bind(taken).unwrap();
    refused(
        dir.path(),
        &["app", "app:application", "--listen", &other.local_addr().unwrap().to_string()],
        "in use",
    );
}
