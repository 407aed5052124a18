//! What is said of libraries that cannot be loaded, and of modules that cannot begin.

use std::path::Path;

use maitred_sys::module::host::Module;

use crate::server::serve;
use crate::support::{home, library, library_of, refusal};

fn error_of(path: &Path, config: &str) -> String {
    serve();
    Module::open(path, config, 1).unwrap_err()
}

/// A module whose `init` has this body.
fn source(version: &str, body: &str) -> String {
    format!(
        "#include \"maitred_module.h\"\n\
         int elsewhere(void);\n\
         static int init(const maitred_server *s, maitred_text c, maitred_instance *i, maitred_reason *r) {{\n\
         (void)s; (void)c; (void)i; (void)r; {body} }}\n\
         const maitred_module *maitred_module_v1(void) {{\n\
         static const maitred_module module = {{ sizeof(module), {version}, init }};\n\
         return &module; }}\n"
    )
}

#[test]
fn files_that_are_no_libraries_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("libmissing.so");
    let wanted = format!("{}: cannot open shared object file: No such file or directory", missing.display());
    assert_eq!(error_of(&missing, "{}"), wanted);
    let text = directory.path().join("libtext.so");
    std::fs::write(
        &text,
        "this is text, and more of it than the head of a library has bytes; so there is no doubt",
    )
    .unwrap();
    assert_eq!(error_of(&text, "{}"), format!("{}: invalid ELF header", text.display()));
    let short = directory.path().join("libshort.so");
    std::fs::write(&short, "").unwrap();
    assert_eq!(error_of(&short, "{}"), format!("{}: file too short", short.display()));
}

#[test]
fn libraries_that_are_no_modules_of_this_version_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let plain = library_of(directory, "plain", "int nothing(void);\nint nothing(void) { return 1; }\n");
    assert_eq!(
        error_of(&plain, "{}"),
        "it is no module: it has no function maitred_module_v1 (maitred_module.h)"
    );
    let later = library_of(directory, "later", &source("2", "return 0;"));
    assert_eq!(
        error_of(&later, "{}"),
        "it is made for version 2 of maitred_module.h, and this server has version 1"
    );
    let empty =
        "#include \"maitred_module.h\"\nconst maitred_module *maitred_module_v1(void) { return NULL; }\n";
    assert_eq!(
        error_of(&library_of(directory, "empty", empty), "{}"),
        "it describes nothing: its function gives back NULL"
    );
    for (name, description) in [("none", "{ sizeof(m), 1, NULL }"), ("part", "{ 8, 1, 0 }")] {
        let source = format!(
            "#include \"maitred_module.h\"\nconst maitred_module *maitred_module_v1(void) {{\n\
             static const maitred_module m = {description};\nreturn &m; }}\n"
        );
        let error = error_of(&library_of(directory, name, &source), "{}");
        assert_eq!(error, "its description is incomplete: there is no `init`", "{name}");
    }
    let undefined = library_of(directory, "undefined", &source("1", "return elsewhere();"));
    assert_eq!(error_of(&undefined, "{}"), format!("{}: undefined symbol: elsewhere", undefined.display()));
}

#[test]
fn what_init_refuses_is_passed_on() {
    let directory = tempfile::tempdir().unwrap();
    let faulty = library(directory.path(), &home().join("tests/modules/faulty.c"));
    assert_eq!(error_of(&faulty, "{\"init\":\"silent\"}"), "its `init` refuses: it does not say why");
    // The module says that it has written more than there is room for.
    assert_eq!(
        error_of(&faulty, "{\"init\":\"refuse\"}"),
        format!("its `init` refuses: {}", "x".repeat(1024))
    );
    assert_eq!(
        error_of(&faulty, "{\"init\":\"nothing\"}"),
        "its `init` names neither `on_request` nor `on_response`"
    );
    let module = Module::open(&faulty, "{\"init\":\"start\"}", 1).unwrap();
    assert_eq!(module.start().unwrap_err(), "its `start` refuses: time");
}

#[test]
fn modules_in_rust_say_why_they_refuse() {
    assert_eq!(refusal("panics", "{\"place\":\"refuse\"}"), "its `init` refuses: it does not want to");
    assert_eq!(refusal("panics", "{\"place\":\"init\"}"), "its `init` refuses: it panics: in init, as told");
    let wrong = refusal("hello", "{}");
    assert_eq!(wrong, "its `init` refuses: `config`: missing field `greeting` at line 1 column 2");
    let module = Module::open(&crate::support::example("panics"), "{\"place\":\"start\"}", 1).unwrap();
    assert_eq!(module.start().unwrap_err(), "its `start` refuses: it panics: in start, as told");
    let module =
        Module::open(&crate::support::example("panics"), "{\"place\":\"refuse to start\"}", 1).unwrap();
    assert_eq!(module.start().unwrap_err(), "its `start` refuses: not now");
}

#[test]
fn a_library_that_was_refused_can_be_loaded_with_another_configuration() {
    assert!(refusal("hello", "{}").contains("missing field"));
    let module = crate::support::begin("hello", r#"{ "greeting": "Hi" }"#);
    assert!(module.sees_requests());
}
