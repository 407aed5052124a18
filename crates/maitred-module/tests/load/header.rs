//! The header, and the types in Rust that stand for it.

use std::fmt::Write as _;
use std::process::Command;

use maitred_sys::module::abi::layout::EXPRESSIONS;

use crate::support::{home, is_there, run, skip_missing};

/// A source that is nothing but the header compiles, and warns of nothing.
fn compiles(compiler: &str, language: &str, standard: &str) {
    if !is_there(compiler) {
        return skip_missing(&format!("there is no {compiler}"));
    }
    let mut command = Command::new(compiler);
    command.args(["-x", language, standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]);
    // As the main file: warnings of what is included would be shown all the same, and this says more.
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    std::fs::write(
        &source,
        "#include \"maitred_module.h\"\n#include \"maitred_module.h\"\nint unused(void);\n",
    )
    .unwrap();
    run(command.arg("-I").arg(home().join("include")).arg(source));
}

#[test]
fn it_compiles_as_c() {
    compiles("cc", "c", "-std=c99");
    compiles("cc", "c", "-std=c11");
}

#[test]
fn it_compiles_as_cpp() {
    compiles("g++", "c++", "-std=c++11");
    compiles("g++", "c++", "-std=c++20");
}

#[test]
fn the_types_in_rust_are_those_of_the_header() {
    let mut source = String::from("#include <stdio.h>\n#include \"maitred_module.h\"\n\nint main(void) {\n");
    for (expression, _) in EXPRESSIONS {
        writeln!(source, "  printf(\"%zu\\n\", (size_t)({expression}));").unwrap();
    }
    source += "  return 0;\n}\n";
    let directory = tempfile::tempdir().unwrap();
    let (path, program) = (directory.path().join("layout.c"), directory.path().join("layout"));
    std::fs::write(&path, source).unwrap();
    run(Command::new("cc").arg("-I").arg(home().join("include")).arg("-o").arg(&program).arg(&path));
    let printed = run(&mut Command::new(&program));
    let printed: Vec<(&str, usize)> = EXPRESSIONS
        .iter()
        .zip(printed.lines())
        .map(|((name, _), line)| (*name, line.parse().unwrap()))
        .collect();
    assert_eq!(printed, EXPRESSIONS);
}

/// What the header has and the list does not, the test above would not compare.
#[test]
fn the_list_of_expressions_is_complete() {
    let header = std::fs::read_to_string(home().join("include/maitred_module.h")).unwrap();
    let is_listed = |expression: &str| EXPRESSIONS.iter().any(|(known, _)| *known == expression);
    let (mut structure, mut seen) = (None, 0);
    for line in header.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["typedef", "struct", name, "{"] = words[..] {
            assert!(is_listed(&format!("sizeof({name})")), "{name}");
            structure = Some(name);
        } else if line.starts_with('}') {
            structure = None;
        } else if let (Some(structure), true) = (structure, line.ends_with(';')) {
            // A pointer to a function: (*name)(…). Otherwise the name is the last word, with the size of an array behind it.
            let called = line.split_once("(*").and_then(|(_, rest)| rest.split(')').next());
            let plain = words.last().unwrap().trim_end_matches(';').split('[').next().unwrap();
            let member = called.unwrap_or(plain).trim_start_matches('*');
            assert!(is_listed(&format!("offsetof({structure}, {member})")), "{structure}.{member}");
            seen += 1;
        }
        let defines = line.strip_prefix("#define MAITRED_").is_some();
        let numbers =
            words.iter().filter(|word| word.starts_with("MAITRED_") && word.ends_with(|c: char| c != '.'));
        let is_code = !line.trim_start().starts_with(['/', '*']) && !line.starts_with("#if");
        for name in numbers.filter(|_| is_code && (defines || line.contains(" = "))) {
            let name = name.trim_end_matches([',', ';']);
            assert!(is_listed(name) || name == "MAITRED_MODULE_H", "{name}");
            seen += 1;
        }
    }
    assert!(seen > 60, "only {seen} names found: has the header's form changed?");
}
