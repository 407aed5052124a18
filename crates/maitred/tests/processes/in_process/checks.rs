//! Modules that cannot begin, and what `maitred check`, a start and a reload say of them.

use std::path::{Path, PathBuf};

use crate::in_process::scene::{finish, hello, metric, module, wait_for_metric};
use crate::support::libraries::{example, faulty, library_of};
use crate::support::{Server, Setup};

/// Modules that cannot begin, with what is said of them: the library, its `config`, and parts of the text.
type Wrong = (PathBuf, &'static str, Vec<String>);

/// The library of a text in C, after the header.
fn of_text(directory: &Path, name: &str, text: &str) -> PathBuf {
    library_of(directory, name, &format!("#include \"maitred_module.h\"\n{text}\n"))
}

/// Libraries that are no modules.
fn no_modules(directory: &Path) -> Vec<Wrong> {
    let missing = directory.join("libmissing.so");
    let text = directory.join("libtext.so");
    std::fs::write(&text, "a text that is longer than the head of a library has bytes, which is to be seen")
        .unwrap();
    let says = |path: &Path, why: &str| vec![format!("module {}: {why}", path.display())];
    let plain = of_text(directory, "plain", "int nothing(void); int nothing(void) { return 1; }");
    let version = of_text(
        directory,
        "version",
        "const maitred_module *maitred_module_v1(void) {\n\
         static const maitred_module module = { sizeof(module), 2, 0 };\nreturn &module; }",
    );
    let undefined = of_text(
        directory,
        "undefined",
        "int elsewhere(void);\nconst maitred_module *maitred_module_v1(void) { elsewhere(); return 0; }",
    );
    let no_file = says(&missing, "cannot open shared object file: No such file or directory");
    vec![
        (missing, "", no_file),
        (text.clone(), "", says(&text, "invalid ELF header")),
        (plain.clone(), "", says(&plain, "it is no module: it has no function maitred_module_v1")),
        (version.clone(), "", says(&version, "it is made for version 2 of maitred_module.h")),
        (undefined.clone(), "", says(&undefined, "undefined symbol: elsewhere")),
    ]
}

/// Modules whose `init` does what it should not.
fn bad_beginnings(directory: &Path) -> Vec<Wrong> {
    let library = faulty(directory);
    let named = |why: &str| vec![format!("module {}: {why}", library.display())];
    let of_faulty = |what, why: &str| (library.clone(), what, named(why));
    let panics = example("panics");
    let of_panics = |what, why: &str| {
        (panics.clone(), what, vec![format!("module {}: its `init` refuses: {why}", panics.display())])
    };
    vec![
        of_faulty("init = \"refuse\"", "its `init` refuses: xxxxxxxx"),
        of_faulty("init = \"silent\"", "its `init` refuses: it does not say why"),
        of_faulty("init = \"nothing\"", "its `init` names neither `on_request` nor `on_response`"),
        of_faulty("init = \"crash\"", "its `init` crashes: signal 11 (SIGSEGV)"),
        of_faulty("init = \"abort\"", "its `init` crashes: signal 6 (SIGABRT)"),
        of_faulty("init = \"exit\"", "its `init` ends the process: exit status: 3"),
        of_faulty("init = \"thread\"", "its `init` has started a thread, which would not be confined"),
        of_panics("place = \"refuse\"", "it does not want to"),
        of_panics("place = \"init\"", ""),
        (example("hello"), "greting = \"Hi\"", vec!["unknown field `greting`".to_owned()]),
    ]
}

/// A server that can be asked to check: it runs, and its configuration is replaced.
fn start() -> Server {
    Setup::with_files().route("/hello", &format!("module = {}", hello("Hello"))).start()
}

/// Writes a configuration with this module over the server's.
fn replace_with(server: &Server, library: &Path, config: &str) {
    let text = std::fs::read_to_string(server.path("maitred.toml")).unwrap();
    let before = text.split("[[site.route]]").next().unwrap();
    let route = format!("[[site.route]]\npath = \"/hello\"\n{}\n", module(library, config, ""));
    std::fs::write(server.path("maitred.toml"), format!("{before}{route}")).unwrap();
}

#[test]
fn check_says_what_is_wrong_with_each() {
    let server = start();
    let (status, said) = server.command(&["check"]);
    assert!(status.success() && said.contains(": ok: "), "{said}");
    let directory = server.path("");
    for (library, config, parts) in no_modules(&directory).into_iter().chain(bad_beginnings(&directory)) {
        replace_with(&server, &library, config);
        let (status, said) = server.command(&["check"]);
        assert_eq!(status.code(), Some(2), "{said}");
        let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{said}");
        for part in parts {
            assert!(errors[0].contains(&part), "{part:?} is not in {said}");
        }
        assert_eq!(errors[0].matches(library.to_str().unwrap()).count(), 1, "{said}");
        assert!(!said.contains(": ok: "), "{said}");
    }
    assert_eq!(server.connect().get("/hello").text(), "Hello, world\n");
    server.stop();
}

/// As a newer executable refuses that has another version of the interface.
#[test]
fn an_upgrade_that_cannot_load_a_module_is_refused() {
    let server = start();
    let worker = server.worker();
    replace_with(&server, Path::new("/none/libx.so"), "");
    let (status, said) = server.command(&["upgrade"]);
    assert!(!status.success() && said.contains("module /none/libx.so: "), "{said}");
    assert_eq!(server.connect().get("/hello").text(), "Hello, world\n");
    assert_eq!(server.answering_worker(), worker);
}

#[test]
fn check_names_all_that_are_wrong() {
    let server = start();
    let text = std::fs::read_to_string(server.path("maitred.toml")).unwrap();
    let more = "[[site.route]]\npath = \"/x\"\nmodule = [{ path = \"/none/libx.so\" }, { path = \"/none/liby.so\" }]\n";
    std::fs::write(server.path("maitred.toml"), text + more).unwrap();
    let (status, said) = server.command(&["check"]);
    assert_eq!(status.code(), Some(2), "{said}");
    let errors = said.lines().filter(|line| line.starts_with("error: module /none/lib")).count();
    assert_eq!(errors, 2, "{said}");
    server.stop();
}

#[test]
fn a_server_does_not_start_with_a_bad_module() {
    for wrong in [0, 3] {
        let setup = Setup::with_files();
        let (library, config, parts) = no_modules(setup.directory.path()).remove(wrong);
        let server = setup.route("/x", &module(&library, config, "")).launch();
        let stopped = server.wait_for_exit();
        assert_eq!(stopped.status.code(), Some(1), "{:?}", stopped.said);
        assert!(stopped.said.iter().any(|line| line.contains(&parts[0])), "{:?}", stopped.said);
    }
    for (what, wanted) in
        [("refuse", "its `init` refuses: xxx"), ("exit", "libfaulty"), ("start", "its `start` refuses: time")]
    {
        let setup = Setup::with_files();
        let library = faulty(setup.directory.path());
        let server = setup.route("/x", &module(&library, &format!("n = \"{what}\""), "")).launch();
        let stopped = server.wait_for_exit();
        assert_eq!(stopped.status.code(), Some(1), "{what}: {:?}", stopped.said);
        assert!(stopped.said.iter().any(|line| line.contains(wanted)), "{what}: {:?}", stopped.said);
    }
}

#[test]
fn a_reload_with_a_bad_module_changes_nothing() {
    let server = start();
    let worker = server.worker();
    let directory = server.path("");
    let mut refused = 0;
    for (library, config, parts) in no_modules(&directory).into_iter().chain(bad_beginnings(&directory)) {
        replace_with(&server, &library, config);
        let (status, said) = server.command(&["reload"]);
        assert!(!status.success(), "{said}");
        let name = library.file_name().unwrap().to_str().unwrap();
        assert!(said.contains(name), "{parts:?}: {name} is not in {said}");
        refused += 1;
        assert_eq!(server.connect().get("/hello").text(), "Hello, world\n");
        wait_for_metric(&server, "maitred_reloads_refused_total", refused);
    }
    assert_eq!(server.answering_worker(), worker);
    assert_eq!(metric(&server, "maitred_module_crashes_total"), 0, "none of what is served");
    replace_with(&server, &example("hello"), "greeting = \"Good day\"");
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    crate::support::eventually("the new configuration is in force", || {
        server.connect().get("/hello").text() == "Good day, world\n"
    });
    finish(server);
}
