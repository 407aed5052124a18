//! The example in C.

use std::path::{Path, PathBuf};
use std::process::Command;

use maitred_sys::module::host::Module;

use crate::server::{get, serve};
use crate::support::{home, is_there, library, run, skip_missing};

const HELLO: &str = r#"{"greeting":"Hello"}"#;

fn source() -> PathBuf {
    home().join("examples/c/hello.c")
}

#[test]
fn it_answers() {
    serve();
    let directory = tempfile::tempdir().unwrap();
    let module = Module::open(&library(directory.path(), &source()), HELLO, 1).unwrap();
    let answer = get(&module, "/hello/you?and=more").unwrap();
    assert_eq!((answer.status, answer.content.as_str()), (200, "Hello, /hello/you\n"));
    assert_eq!(answer.field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(get(&module, &"/".repeat(257)), None);
    assert!(get(&module, &"/".repeat(256)).is_some());
    assert!(!module.sees_responses() && !module.may_answer_later() && !module.reads_body());
}

#[test]
fn it_refuses_a_configuration_that_it_cannot_read() {
    serve();
    let directory = tempfile::tempdir().unwrap();
    let path = library(directory.path(), &source());
    for config in [
        "",
        "{}",
        "{\"greeting\":\"",
        "{\"greeting\":\"}",
        r#"{"greeting":"a\n"}"#,
        r#"{"greeting":"a","b":"c"}"#,
    ] {
        let error = Module::open(&path, config, 1).unwrap_err();
        assert_eq!(
            error,
            "its `init` refuses: `config` has to have `greeting`, a text without quotes, and nothing else",
            "{config}"
        );
    }
}

/// The head of the example says how to compile it: the command works as it stands there.
#[test]
fn the_command_in_its_head_compiles_it() {
    let text = std::fs::read_to_string(source()).unwrap();
    let command = text.lines().find_map(|line| line.trim().strip_prefix("*   cc ")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let built = directory.path().join("libhello_c.so");
    let command = command.replace("-o libhello_c.so", &format!("-o {}", built.display()));
    run(Command::new("sh").args(["-c", &format!("cc {command}")]).current_dir(home().join("examples/c")));
    serve();
    assert!(Module::open(&built, HELLO, 1).is_ok());
}

fn driver(directory: &Path) -> PathBuf {
    let program = directory.join("driver");
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-Wall", "-Wextra", "-O1", "-g", "-I"]).arg(home().join("include"));
    run(cc.arg("-o").arg(&program).arg(home().join("tests/modules/driver.c")).arg(source()));
    program
}

#[test]
fn it_stays_within_what_it_is_given() {
    if !is_there("valgrind") {
        return skip_missing("no valgrind (Debian: valgrind)");
    }
    let directory = tempfile::tempdir().unwrap();
    let program = driver(directory.path());
    let long = "/".repeat(257);
    let typed = "200 Content-Type: text/plain; charset=utf-8";
    for (config, path, wanted) in [
        (HELLO, "/you", format!("{typed} Hello, /you\n0\n").repeat(100)),
        (r#"{"greeting":""}"#, "", format!("{typed} , \n0\n").repeat(100)),
        (HELLO, long.as_str(), "1\n".repeat(100)),
        ("", "/", "refused: `config`\n".to_owned()),
        ("{\"greeting\":\"}", "/", "refused: `config`\n".to_owned()),
    ] {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
        assert_eq!(run(valgrind.arg(&program).args([config, path])), wanted, "{config} {path}");
    }
}
