//! The configurations of README.md, as a reader copies them: each is started, and answers.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::setups::{get, place};
use crate::support::php::Php;
use crate::support::{Server, Setup, skip_missing};

const WSGI: &[u8] = b"def application(environ, start_response):\n    start_response('200 OK', [('Content-Type', 'text/plain')])\n    \
                      return [b'python ' + environ['PATH_INFO'].encode()]\n";
const NODE: &[u8] = b"require('node:http').createServer((request, response) => response.end('node ' + request.url)).listen(3000);\n";

/// The block of README.md that ends with this line.
fn block(line: &str) -> String {
    let readme =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let blocks = readme.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut found = blocks.filter(|block| block.lines().last() == Some(line));
    let block = found.next().unwrap_or_else(|| panic!("no block of README.md ends with {line:?}")).to_owned();
    assert!(found.next().is_none(), "two blocks end with {line:?}");
    block
}

/// Starts it: at a free port, and where it says nothing of accounts, with that of the test.
fn start(setup: Setup, text: &str) -> Server {
    assert!(text.contains("\":8080\""), "{text}");
    let text = text.replace("\":8080\"", "\"127.0.0.1:0\"");
    let account = "[server]\nshare_user = true\n";
    let text = if text.contains("[server]") { text } else { account.to_owned() + &text };
    place(&setup, ".");
    setup.start_as(&text)
}

fn answer(server: &Server, target: &str) -> (u16, String) {
    let response = get(server, "localhost", target, "");
    (response.status, response.text().to_owned())
}

fn said(status: u16, text: &str) -> (u16, String) {
    (status, text.to_owned())
}

/// The application of the block, with files of its own that come first.
fn with_files(setup: Setup) -> Setup {
    let setup = setup.outside("public/static/a.txt", b"a file\n");
    place(&setup, "public/static");
    place(&setup, "public");
    setup
}

const DJANGO: &str = "command = [\"python3\", \"-m\", \"maitred\", \"mysite.wsgi:application\"]";
const EXPRESS: &str = "command = [\"node\", \"--require\", \"maitred/register\", \"server.js\"]";

#[test]
fn files_are_served() {
    let setup = Setup::new().outside("public/index.html", b"hello\n");
    place(&setup, "public");
    let server = start(setup, &block("root = \"public\""));
    assert_eq!(answer(&server, "/"), said(200, "hello\n"));
    assert_eq!(answer(&server, "/none").0, 404);
}

#[test]
fn a_python_application_has_what_is_no_file() {
    let setup = with_files(Setup::new()).outside("mysite/wsgi.py", WSGI);
    place(&setup, "mysite");
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/python").canonicalize().unwrap();
    // What `pip install` would do.
    let env = format!("env = {{ PYTHONPATH = \"{}\" }}\nqueue = {{ timeout = \"60s\" }}", adapter.display());
    let server = start(setup, &(block(DJANGO) + &env));
    assert_eq!(answer(&server, "/static/a.txt"), said(200, "a file\n"));
    assert_eq!(answer(&server, "/shop/7"), said(200, "python /shop/7"));
}

#[test]
fn a_program_of_node_has_what_is_no_file() {
    if Command::new("node").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip_missing("no node (Debian: nodejs)");
    }
    let setup = with_files(Setup::new()).outside("server.js", NODE);
    place(&setup, "node_modules");
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/node").canonicalize().unwrap();
    std::os::unix::fs::symlink(adapter, setup.directory.path().join("node_modules/maitred")).unwrap();
    // "The same with another command".
    assert!(block(EXPRESS).ends_with(&format!("[pool.web]\n{EXPRESS}\n")));
    let text = block(DJANGO).replace(DJANGO, EXPRESS) + "queue = { timeout = \"60s\" }\n";
    let server = start(setup, &text);
    assert_eq!(answer(&server, "/static/a.txt"), said(200, "a file\n"));
    assert_eq!(answer(&server, "/shop/7"), said(200, "node /shop/7"));
}

#[test]
fn php_runs_and_its_front_controller_has_what_is_no_file() {
    let Some(php) = Php::fpm(1) else { return };
    let script = b"<?php header('Content-Type: text/plain'); echo basename($_SERVER['SCRIPT_NAME']), ' ', $_SERVER['REQUEST_URI'];";
    let setup = Setup::new()
        .outside("www/index.php", script)
        .outside("www/tool.php", script)
        .outside("www/a.txt", b"a file\n");
    let root = place(&setup, "www");
    let text = block("php = true")
        .replace("\"/srv/www\"", &format!("{root:?}"))
        .replace("fastcgi+unix:/run/php/php8.2-fpm.sock", &php.url());
    let server = start(setup, &text);
    assert_eq!(answer(&server, "/a.txt"), said(200, "a file\n"));
    assert_eq!(answer(&server, "/tool.php"), said(200, "tool.php /tool.php"));
    assert_eq!(answer(&server, "/shop/7"), said(200, "index.php /shop/7"));
}
