//! Modules that break rules: what a server is asked to do with them, it does not do. Modules that end the process or hold it
//! for ever are tested with the server itself.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use maitred_sys::module::host::{Module, Outcome};

use crate::server::{Asked, Head, IS_FULL, SERVER, get, serve};
use crate::support::{begin, example, home, library};

fn faulty(config: &str) -> (Module, tempfile::TempDir) {
    serve();
    let directory = tempfile::tempdir().unwrap();
    let path = library(directory.path(), &home().join("tests/modules/faulty.c"));
    (Module::open(&path, config, 1).unwrap(), directory)
}

#[test]
fn answers_that_cannot_be_sent_are_refused() {
    let (module, _directory) = faulty("{}");
    for (path, wanted) in [
        ("/", "fine\n"),
        ("/bad/name", "refused\n"),
        ("/bad/value", "refused\n"),
        ("/bad/status", "refused\n"),
        ("/forged", "refused\n"),
        ("/set", "refused\n"),
        ("/hold", "fine\n"),
    ] {
        let answer = get(&module, path).unwrap();
        assert_eq!((answer.status, answer.content.as_str()), (200, wanted), "{path}");
    }
    // Fields that are the server's own are left out.
    let answer = get(&module, "/bad/framing").unwrap();
    assert_eq!((answer.status, answer.fields), (200, Vec::new()));
    assert_eq!(get(&module, "/pass"), None);
    for path in ["/silent", "/nothing/later", "/number", "/failed"] {
        assert_eq!(get(&module, path).unwrap().status, 500, "{path}");
    }
}

#[test]
fn a_request_is_answered_once() {
    let (module, _directory) = faulty("{}");
    assert_eq!(get(&module, "/twice").unwrap().content, "first\n");
    assert_eq!(SERVER.logged("second refused"), 2);
    assert_eq!(get(&module, "/thread").unwrap().content, "from a thread\n");
    assert_eq!(get(&module, "/helper").unwrap().content, "from a thread\n");
    let mut asked = Asked::new("/never");
    assert_eq!(module.on_request(&mut asked), Outcome::Later);
    assert!(SERVER.is_open(asked.ticket.unwrap()));
}

#[test]
fn a_module_answers_later_only_if_it_may() {
    let (module, _directory) = faulty("{\"init\":\"at once\"}");
    assert!(!module.may_answer_later());
    let mut asked = Asked { may_answer_later: module.may_answer_later(), ..Asked::new("/never") };
    assert_eq!(asked.to(&module).unwrap().status, 500);
}

#[test]
fn fields_of_framing_stay_as_they_are() {
    let (module, _directory) = faulty("{}");
    let fields = [("Content-Length", "5"), ("Connection", "close")];
    let untouched = Head::new(&fields).fields;
    for path in ["/filter/framing", "/filter/bad"] {
        assert_eq!(Head::new(&fields).through(&module, path), untouched, "{path}");
    }
}

#[test]
fn a_panic_is_500_and_a_line_in_the_log() {
    let module = begin("panics", "{}");
    module.start().unwrap();
    assert_eq!(get(&module, "/").unwrap().content, "fine\n");
    for (path, log) in [
        ("/panic", "panic in `on_request` of a module: in a handler, as told"),
        ("/panic/number", "panic in `on_request` of a module: no message"),
        ("/later/panic", "panic in a task of a module: in a helper, as told"),
    ] {
        assert_eq!(get(&module, path).unwrap().status, 500, "{path}");
        assert_eq!(SERVER.logged(log), 0, "{path}");
    }
    assert_eq!(get(&module, "/").unwrap().content, "fine\n");
    let set = |name: &str| (name.to_owned(), "set".to_owned());
    // What the module had changed until then stays changed.
    assert_eq!(Head::new(&[]).through(&module, "/filter"), [set("X-Before")]);
    assert_eq!(SERVER.logged("panic in `on_response` of a module: in the filter, as told"), 0);
    assert_eq!(Head::new(&[]).through(&module, "/"), [set("X-Before"), set("X-After")]);
}

#[test]
fn a_request_that_is_forgotten_is_answered() {
    let module = begin("panics", "{}");
    for (path, status) in [("/later", 200), ("/later/drop", 500), ("/later/bad", 500), ("/later/thread", 200)]
    {
        assert_eq!(get(&module, path).unwrap().status, status, "{path}");
    }
    assert_eq!(get(&module, "/later/pass"), None);
    IS_FULL.set(true);
    assert_eq!(get(&module, "/later").unwrap().status, 503);
    IS_FULL.set(false);
    // The crate says why.
    let mut asked = Asked { may_answer_later: false, ..Asked::new("/later") };
    assert_eq!(asked.to(&module).unwrap().status, 500);
    assert_eq!(SERVER.logged("a module answers later and has not said that it may"), 0);
}

/// What the child of a test does: `LIBRARY CONFIG PATH` in the environment.
const CHILD: &str = "MAITRED_MODULE_OF_CHILD";

/// Ends the process, which is one of its own that the test below has started: without that variable there is nothing to do.
#[test]
fn child() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let words: Vec<&str> = told.split(' ').collect();
    let [library, config, path] = words[..] else { panic!("{told}") };
    let module = Module::open(&PathBuf::from(library), config, 1).unwrap();
    Head::new(&[]).through(&module, path);
    get(&module, path);
}

/// A process of this test that loads a module, and shows it a request.
fn start_child(library: &Path, config: &str, path: &str) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "faults::child"]).stdin(Stdio::null());
    child.env(CHILD, format!("{} {config} {path}", library.display()));
    child.output().unwrap()
}

#[test]
fn what_is_logged_before_there_is_a_server_goes_to_the_standard_error() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path().join("links.txt");
    std::fs::write(&table, "a /b\n").unwrap();
    let config = format!("{{\"table\":\"{}\",\"prefix\":\"/\"}}", table.display());
    let output = start_child(&example("links"), &config, "/a");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("module: links: 1 links\n"), "{said}");
}

#[test]
fn modules_can_end_the_process() {
    let (_module, directory) = faulty("{}");
    let library = directory.path().join("libfaulty.so");
    for (config, path, signal) in [
        ("{\"init\":\"crash\"}", "/", Some(libc_signal::SEGV)),
        ("{\"init\":\"abort\"}", "/", Some(libc_signal::ABRT)),
        ("{\"init\":\"exit\"}", "/", None),
        ("{}", "/crash", Some(libc_signal::SEGV)),
        ("{}", "/crash/helper", Some(libc_signal::SEGV)),
        ("{}", "/filter/crash", Some(libc_signal::SEGV)),
        ("{}", "/abort", Some(libc_signal::ABRT)),
    ] {
        let status = start_child(&library, config, path).status;
        assert_eq!(
            (status.signal(), status.code()),
            (signal, signal.is_none().then_some(3)),
            "{config} {path}"
        );
    }
}

/// Numbers of signal(7) on all kinds of machines that Linux has.
mod libc_signal {
    pub(super) const ABRT: i32 = 6;
    pub(super) const SEGV: i32 = 11;
}
