//! `maitred app` and `maitred init`: applications without a configuration, with the real binary.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use support::{Client, binary};

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

fn output(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, arguments).output().unwrap()
}

fn refused(dir: &Path, arguments: &[&str], why: &str) {
    let ended = output(dir, arguments);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && said.contains(why), "{arguments:?}: {said}");
}

/// A running server; ended when dropped.
struct Running(Child, SocketAddr);

impl Running {
    fn start(dir: &Path, arguments: &[&str]) -> Running {
        let arguments = [arguments, &["--listen", "127.0.0.1:0"]].concat();
        let mut child =
            command(dir, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut said, mut address) = (String::new(), None);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while address.is_none() {
            let Some(Ok(line)) = lines.next() else { break };
            address = line
                .split("http://")
                .nth(1)
                .and_then(|rest| rest.split([' ', '/', ',']).next()?.parse().ok());
            said.push_str(&line);
        }
        // What else it says has to go somewhere.
        std::thread::spawn(move || lines.count());
        Running(child, address.unwrap_or_else(|| panic!("no address: {said}")))
    }

    fn get(&self, target: &str) -> (u16, String) {
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let response = Client::connect(self.1).ask(&request);
        (response.status, response.text().to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
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
        (&["./www"], "root = \"./www\""),
        (php, "fastcgi+unix:/run/no/fpm.sock"),
        (&["app:application", "--domain", "example.com"], "acme = true"),
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
    refused(dir.path(), &["app", "--php", "none"], "there is no directory none");
    refused(dir.path(), &["app"], "required");
    let without = command(dir.path(), &["app", "app:application"]).env("PYTHONPATH", "").output().unwrap();
    let said = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(said.contains("-m pip install maitred"), "{said}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let other = std::net::TcpListener::bind(taken).unwrap();
    refused(
        dir.path(),
        &["app", "app:application", "--listen", &other.local_addr().unwrap().to_string()],
        "in use",
    );
}

#[test]
fn init_writes_what_the_check_accepts_and_overwrites_nothing() {
    let php = ("index.php", "");
    let next = r#"{"dependencies":{"next":"15"}}"#;
    let express = r#"{"dependencies":{"express":"5"}}"#;
    let kinds: [(&str, &[(&str, &str)]); 10] = [
        ("Django", &[("manage.py", ""), ("shop/settings.py", ""), ("shop/wsgi.py", ""), ("static/a", "")]),
        ("Flask", &[("hello.py", "import flask\napp = flask.Flask(__name__)\n")]),
        ("FastAPI", &[("hello.py", "api: FastAPI = FastAPI()\n")]),
        ("Express", &[("package.json", express), ("server.js", "")]),
        ("Next.js", &[("package.json", next)]),
        ("Rails", &[("Gemfile", ""), ("config/application.rb", "")]),
        ("PHP", &[php]),
        ("WordPress", &[php, ("wp-load.php", "")]),
        ("Laravel", &[("artisan", ""), ("public/index.php", "")]),
        ("Files", &[("dist/index.html", "")]),
    ];
    for (name, files) in kinds {
        let dir = directory(files);
        let written = output(dir.path(), &["init"]);
        let said = String::from_utf8_lossy(&written.stdout).into_owned();
        assert!(said.starts_with(&format!("{name}, because of ")), "{name}: {said}");
        let checked = output(dir.path(), &["check"]);
        assert!(checked.status.success(), "{name}: {}", String::from_utf8_lossy(&checked.stderr));
        let before = std::fs::read(dir.path().join("maitred.toml")).unwrap();
        refused(dir.path(), &["init"], "is not overwritten");
        assert_eq!(std::fs::read(dir.path().join("maitred.toml")).unwrap(), before);
    }
    refused(directory(&[]).path(), &["init"], "nothing in this directory is known");
}
