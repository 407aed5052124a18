//! What the argument of `maitred app` can be: each is started, or it is said what to write instead.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::app::{Running, WSGI, command, directory, node_directory, output, refused};

const NODE: &str = "require('http').createServer((q, r) => r.end('node')).listen(3000)";
const FACTORY: &str = "def create_app(word='made'):\n    def application(environ, start_response):\n        \
                       start_response('200 OK', [])\n        return [word.encode()]\n    return application\n";

fn executable(dir: &Path, name: &str) {
    std::fs::set_permissions(dir.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn modules_factories_and_files_of_python_are_started() {
    let run = "#!/bin/sh\nexec python3 -m maitred site_of_mine:application\n";
    let dir = directory(&[
        ("site_of_mine.py", WSGI),
        ("shop/__init__.py", FACTORY),
        ("shop/wsgi.py", WSGI),
        ("manage.py", ""),
        ("backend/app.py", WSGI),
        ("backend/README", ""),
        ("run", run),
    ]);
    executable(dir.path(), "run");
    let named = [
        ("shop:create_app()", "made"),
        ("shop:create_app('another')", "another"),
        ("shop.wsgi", "wsgi"),
        ("site_of_mine", "wsgi"),
        ("site_of_mine.py", "wsgi"),
        ("manage.py", "wsgi"),
        ("backend", "wsgi"),
        ("./run", "wsgi"),
        ("run", "wsgi"),
    ];
    for (name, answer) in named {
        let server = Running::start(dir.path(), &["app", name]);
        assert_eq!(server.get("/"), (200, answer.to_owned()), "{name}");
    }
}

#[test]
fn package_json_is_started_by_what_it_says() {
    let package = "{\"scripts\":{\"start\":\"node bin/start.js\"}}";
    let Some(dir) = node_directory(&[("package.json", package), ("bin/start.js", NODE)]) else { return };
    for name in ["package.json", "."] {
        let server = Running::start(dir.path(), &["app", name]);
        assert_eq!(server.get("/"), (200, "node".to_owned()), "{name}");
    }
}

#[test]
fn what_cannot_be_started_is_told_what_to_write() {
    let dir = directory(&[
        ("program", "\x7fELF, without an adapter"),
        ("plain.txt", ""),
        ("shop.jar", ""),
        ("rails/config.ru", ""),
        ("php/index.php", ""),
        ("broken/package.json", "{\"scripts\":{\"start\":\"npm run a && b\"}}"),
    ]);
    executable(dir.path(), "program");
    let cases = [
        ("./program", "has no adapter for Maitred", "connect = "),
        ("plain.txt", "is none of these", "chmod +x plain.txt"),
        ("shop.jar", "listens by itself", "java -jar shop.jar"),
        ("rails/config.ru", "bundle exec puma", "connect = "),
        ("broken/package.json", "cannot be started by Maitred", "maitred/register"),
        ("app:", "is none of these", "docs/one-line.md"),
    ];
    for (name, why, help) in cases {
        refused(dir.path(), &["app", name], why);
        refused(dir.path(), &["app", name], help);
    }
    let printed = output(dir.path(), &["app", "php", "--print-config"]);
    let said = String::from_utf8_lossy(&[printed.stdout, printed.stderr].concat()).into_owned();
    assert!(said.contains("php = true") || said.contains("php-fpm has no socket"), "{said}");
}

#[test]
fn a_function_that_makes_an_application_has_to_be_called() {
    let dir = directory(&[("shop.py", "def create_app():\n    return None\n")]);
    let server = Running::start(dir.path(), &["app", "shop:create_app"]);
    crate::support::eventually("it is said", || server.has_said("write 'shop:create_app()'"));
}

#[test]
fn the_interpreter_of_the_launcher_comes_first() {
    let dir = directory(&[("site_of_mine.py", WSGI), ("server.js", NODE), (".venv/bin/python3", "")]);
    let printed = |name: &str, variable: &str| {
        let mut app = command(dir.path(), &["app", name, "--print-config"]);
        let printed = app.env(variable, "/opt/other/bin/interpreter").output().unwrap();
        String::from_utf8(printed.stdout).unwrap()
    };
    for (name, variable) in [("site_of_mine:application", "MAITRED_PYTHON"), ("server.js", "MAITRED_NODE")] {
        let text = printed(name, variable);
        assert!(text.contains("command = [\"/opt/other/bin/interpreter\", "), "{text}");
    }
    let text = printed("site_of_mine:application", "OTHER");
    assert!(
        text.contains(&format!("{}/.venv/bin/python3\"", dir.path().canonicalize().unwrap().display())),
        "{text}"
    );
}
