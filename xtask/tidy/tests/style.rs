//! The house rules that a program can check: length of files and functions, banned calls, `SAFETY:` comments, documents that name
//! things which exist.

#![allow(clippy::expect_used, reason = "helpers of tests, which clippy.toml does not know to be such")]

use std::collections::HashSet;

use maitred_tidy::{files, report, root};

/// Lines of a source file. Longer files are split by state or by RFC section.
const FILE_LINES_MAX: usize = 800;
/// Lines of a function, with its signature: it fits on a screen. A function that is longer is split by what it does.
const FUNCTION_LINES_MAX: usize = 60;
/// Columns of a line of code or comment.
const LINE_COLUMNS_MAX: usize = 130;

/// What must not be called, where it is allowed all the same, and what to use instead.
const BANNED: &[(&str, &[&str], &str)] = &[
    (
        "thread::sleep",
        &["bench/harness/", "xtask/src/bench/", "maitred-handoff/examples/"],
        "wait for an event with a deadline",
    ),
    (
        "park_timeout",
        &["tests/support/wait.rs"],
        "support::eventually for a condition, support::pace for a slow client",
    ),
    ("process::exit", &[], "return an exit code to main"),
    (
        "SystemTime::now",
        &[
            "maitred-base/src/unix_time.rs",
            "maitred-files/src/files/testing.rs",
            "tests/",
            "xtask/",
            "bench/harness/",
        ],
        "the clock of the turn",
    ),
    (
        "unix_time::",
        &[
            "maitred-worker/src/clock.rs",
            "maitred-master/src/",
            "maitred-log/src/error.rs",
            "maitred-log/src/writer/sink.rs",
            "maitred-agents/src/acme/",
            "maitred-config/src/lookup.rs",
        ],
        "the clock of the turn",
    ),
    ("from_raw_fd", &["maitred-sys/"], "maitred_sys::inherit"),
    ("env::set_var", &[], "pass the environment to the process that needs it"),
    // Facts about a request have one spelling, which is made where they come in.
    (
        "request.target",
        &[
            "maitred-http/src/",
            "maitred-policy/src/target.rs",
            "maitred-load/",
            "maitred-handoff/examples/",
            "tests/",
            "/tests.rs",
        ],
        "maitred_policy::target::Target",
    ),
    (
        "User::new(",
        &["maitred-worker/src/facts/identity.rs", "maitred-worker/src/requests/gates.rs"],
        "Requests::identify, by a gate that has proved who the user is",
    ),
    ("todo!(", &[], "write it, or an issue"),
    ("dbg!(", &[], "tracing"),
];

#[test]
fn files_and_lines_are_short() {
    let mut found = Vec::new();
    for (name, text) in files(&[".rs", ".py", ".c", ".js", ".go"]) {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            found.push(format!("{name}: {lines} lines, {FILE_LINES_MAX} are allowed"));
        }
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > LINE_COLUMNS_MAX && !line.contains("https://") && !line.contains('"') {
                found.push(format!("{name}:{}: {columns} columns", number + 1));
            }
        }
    }
    report("too long", &found);
}

/// The name of the function that begins in a line.
fn function_in(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let word = |word: &str| {
        ["pub", "const", "async", "unsafe", "extern", "\"C\"", "default"].contains(&word)
            || word.starts_with("pub(")
            || word.ends_with(')')
    };
    let name = after.split(['(', '<']).next()?;
    (before.split_whitespace().all(word) && name.chars().all(|c| c.is_alphanumeric() || c == '_'))
        .then_some(name)
}

/// How many lines the function has that begins in the first line, as rustfmt writes it: to the brace that is indented as that.
fn lines_of_function(lines: &[&str]) -> usize {
    let Some(first) = lines.first() else { return 0 };
    let indent = &first[..first.len() - first.trim_start().len()];
    if first.ends_with(['}', ';']) {
        return 1;
    }
    let is_last = |line: &str| {
        line.strip_prefix(indent)
            .is_some_and(|rest| rest == "}" || rest.starts_with(')') && rest.ends_with(';'))
    };
    lines.iter().position(|line| is_last(line)).map_or(lines.len(), |last| last + 1)
}

#[test]
fn functions_fit_on_a_screen() {
    let mut found = Vec::new();
    let mut seen = 0;
    for (name, text) in files(&[".rs"]) {
        // Where a test is a table of cases, it is as long as that.
        let for_tests = ["/tests/", "tests.rs"].iter().any(|place| name.contains(place));
        if for_tests {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let Some(function) = function_in(line) else { continue };
            seen += 1;
            let length = lines_of_function(&lines[number..]);
            if length > FUNCTION_LINES_MAX {
                found.push(format!("{name}:{}: {function} has {length} lines", number + 1));
            }
        }
    }
    assert!(seen > 3000, "only {seen} functions found: has their form changed?");
    report("functions that are too long", &found);
}

#[test]
fn banned_calls_are_not_made() {
    let mut found = Vec::new();
    for (name, text) in files(&[".rs"]) {
        if name.ends_with("tests/style.rs") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for (call, allowed, instead) in BANNED {
                if code.contains(call) && !allowed.iter().any(|place| name.contains(place)) {
                    found.push(format!("{name}:{}: {call}; instead: {instead}", number + 1));
                }
            }
        }
    }
    report("banned calls", &found);
}

/// Crates that know how a message is written: the codecs, applications' side of the handoff, and clients of tests.
const CODECS: &[&str] = &[
    "maitred-handoff",
    "maitred-http",
    "maitred-load",
    "maitred-module",
    "maitred-sys",
    "maitred-testing",
    "maitred-udp",
];

/// Clients that may wait, of one kind of message each: they share nothing with the server.
const CLIENTS: &[(&str, &str)] = &[("maitred", "cli/client.rs"), ("maitred-log", "trace/exporter.rs")];

/// Heads and bodies are written and read by the codecs of `maitred-http`; elsewhere they are values.
#[test]
fn only_codecs_know_how_a_line_of_a_message_ends() {
    let (mut found, mut read) = (Vec::new(), 0);
    for (name, text) in files(&[".rs"]) {
        let Some((package, file)) = name.strip_prefix("crates/").and_then(|name| name.split_once("/src/"))
        else {
            continue;
        };
        let is_test = ["tests.rs", "testing.rs"].iter().any(|end| file.ends_with(end))
            || ["tests/", "worlds/"].iter().any(|part| file.contains(part));
        let is_client = CLIENTS.contains(&(package, file));
        if is_test || is_client || CODECS.contains(&package) {
            continue;
        }
        read += 1;
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            if line.split("//").next().unwrap_or_default().contains("\\r\\n") {
                found.push(format!("{name}:{}", number + 1));
            }
        }
    }
    assert!(read > 500, "{read} files: are they all there?");
    report("line ends of HTTP outside of the codecs", &found);
}

/// Where scripts of the tests may let time pass: the one function of each that waits for a condition, with a deadline; and
/// applications and clients that are slow because a test is about that.
const PAUSES: &[(&str, &str)] = &[
    ("adapters/apache/tests/server.py", "condition"),
    ("adapters/differential/client.py", "slow client"),
    ("adapters/differential/servers.py", "condition"),
    ("adapters/go/fasthttp/internal/reference/main.go", "slow application"),
    ("adapters/go/internal/differential/main.go", "slow application"),
    ("adapters/go/internal/reference/main.go", "slow application"),
    ("adapters/python/tests/differential_wsgi.py", "slow application"),
    ("adapters/python/tests/reference.py", "slow application"),
    ("adapters/python/tests/served.py", "condition"),
    ("adapters/python/tests/test_wsgi.py", "slow application"),
    ("bench/apps/slow_start.py", "slow application"),
    ("bench/http3/", "measurement"),
    ("/listen_pools/prefork.py", "slow application"),
    ("/pools/breathing.py", "slow application"),
    ("/status_page/browser.py", "slow client"),
    ("crates/maitred/tests/support/application.py", "slow application"),
    ("examples/", "slow application"),
    ("trials/kit/wait.py", "condition"),
    ("trials/streamlit/app.py", "slow application"),
];

/// A place that begins with `/` is a part of a path, so that a directory of tests can be moved.
fn stands_in(name: &str, place: &str) -> bool {
    if place.starts_with('/') { name.contains(place) } else { name.starts_with(place) }
}

#[test]
fn scripts_of_the_tests_wait_for_conditions() {
    let mut found = Vec::new();
    let mut used = HashSet::new();
    for (name, text) in files(&[".py", ".go"]) {
        for (number, line) in text.lines().enumerate() {
            if ["time.sleep(", "time.Sleep("].iter().all(|call| !line.contains(call)) {
                continue;
            }
            match PAUSES.iter().find(|(place, _)| stands_in(&name, place)) {
                Some((place, _)) => drop(used.insert(*place)),
                None => found.push(format!("{name}:{}: wait for a condition", number + 1)),
            }
        }
    }
    found.extend(
        PAUSES
            .iter()
            .filter(|(place, _)| !used.contains(place))
            .map(|(place, _)| format!("{place}: none is left there")),
    );
    report("pauses", &found);
}

#[test]
fn unsafe_code_stays_in_its_crate_and_says_why_it_is_sound() {
    let mut found = Vec::new();
    for (name, text) in files(&[".rs"]) {
        if name.ends_with("tests/style.rs") {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let opens = ["unsafe {", "unsafe impl", "unsafe extern"].iter().any(|word| code.contains(word));
            if !opens {
                continue;
            }
            // What binds an adapter to its language's runtime has a file of its own for it.
            let is_binding = name.starts_with("adapters/") && name.ends_with("/native/src/raw.rs");
            if !name.starts_with("crates/maitred-sys/") && !is_binding {
                found.push(format!("{name}:{}: unsafe outside maitred-sys", number + 1));
            }
            let before = lines.iter().take(number).rev().take(8);
            if !before.chain([line]).any(|line| line.contains("SAFETY:")) {
                found.push(format!("{name}:{}: unsafe without SAFETY:", number + 1));
            }
        }
    }
    report("unsafe", &found);
}

/// Every test that the RFC tables name is there.
#[test]
fn tests_named_in_the_specification_exist() {
    let known: HashSet<String> = files(&[".rs"])
        .iter()
        .flat_map(|(_, text)| text.lines())
        .filter_map(|line| line.trim().strip_prefix("fn ").or_else(|| line.trim().strip_prefix("async fn ")))
        .filter_map(|rest| rest.split(['(', '<']).next().map(str::to_owned))
        .collect();
    let mut found = Vec::new();
    let mut seen = 0;
    let specs = files(&[".md"]).into_iter().filter(|(name, _)| name.starts_with("specs/"));
    for (name, text) in specs {
        for (number, line) in text.lines().enumerate() {
            for word in line.split('`').skip(1).step_by(2).filter(|word| word.contains("::")) {
                let Some(test) = word.rsplit("::").next().filter(|test| test.contains('_')) else { continue };
                seen += 1;
                if !known.contains(test) {
                    found.push(format!("{name}:{}: no test {test}", number + 1));
                }
            }
        }
    }
    assert!(seen > 50, "only {seen} tests are named in specs/: has the form of the tables changed?");
    report("tests named in specs/", &found);
}

/// A module that begins with a table of its parts names all of them, and no other.
#[test]
fn tables_of_modules_are_complete() {
    let mut found = Vec::new();
    let mut seen = 0;
    for (name, text) in files(&[".rs"]) {
        let head: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        let named: HashSet<&str> = head
            .iter()
            .filter_map(|line| line.strip_prefix("//! |")?.split('|').next())
            .flat_map(|cell| cell.split("[`").skip(1).filter_map(|rest| rest.split("`]").next()))
            .collect();
        if named.is_empty() {
            continue;
        }
        seen += 1;
        let lines: Vec<&str> = text.lines().collect();
        let declared = |line: &str| {
            let visible = ["pub ", "pub(crate) ", "pub(in crate::worker) "];
            let line = visible.iter().find_map(|how| line.strip_prefix(how)).unwrap_or(line);
            line.strip_prefix("mod ")?.strip_suffix(';').map(str::to_owned)
        };
        let modules: HashSet<String> = std::iter::once(&"")
            .chain(&lines)
            .zip(&lines)
            .filter(|(before, _)| **before != "#[cfg(test)]")
            .filter_map(|(_, line)| declared(line))
            .collect();
        let missing = modules.iter().filter(|module| !named.contains(module.as_str()));
        found.extend(missing.map(|module| format!("{name}: {module} is not in the table")));
        let gone = named.iter().filter(|module| !modules.contains(**module));
        found.extend(gone.map(|module| format!("{name}: {module} is no module")));
    }
    assert!(seen > 5, "only {seen} modules have a table: has its form changed?");
    report("tables of modules", &found);
}

/// Figures and steps live in documents that are checked; nothing may point to a place that only one machine has.
#[test]
fn no_path_of_a_machine_is_committed() {
    let mut found = Vec::new();
    for (name, text) in files(&[".rs", ".md", ".toml", ".py", ".sh", ".json", ".c", ".lua", ".conf"]) {
        if name.ends_with("tests/style.rs") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if ["/work/", "/root/.", "/home/"].iter().any(|path| line.contains(path)) {
                found.push(format!("{name}:{}: {line}", number + 1));
            }
        }
    }
    report("paths of a machine", &found);
}

/// The least Rust version is the one that everything is built and tested with.
#[test]
fn the_least_rust_version_is_the_one_that_is_tested() {
    let value = |path: &str, key: &str| {
        let text = std::fs::read_to_string(root().join(path)).expect("a file of the repository");
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.split('"').nth(1).map(str::to_owned));
        line.expect("the key is there")
    };
    let least = value("Cargo.toml", "rust-version = ");
    assert_eq!(value("rust-toolchain.toml", "channel = "), format!("{least}.0"));
    let readme = std::fs::read_to_string(root().join("README.md")).expect("a file of the repository");
    assert!(readme.contains(&format!("Rust {least} ")), "README.md names another version than {least}");
}

/// CONTRIBUTING lists the packages that the tests install, in the order of their table.
#[test]
fn the_packages_of_the_tests_are_documented() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("a file of the repository");
    let (source, page) = (read("xtask/src/test_packages.rs"), read("CONTRIBUTING.md"));
    let table =
        source.split("const NEEDED").nth(1).and_then(|rest| rest.split("];").next()).expect("the table");
    let rows = table.lines().filter(|line| line.trim_start().starts_with('('));
    let needed: Vec<_> = rows.filter_map(|line| line.rsplit('"').nth(1)).collect();
    let list = page.split("<!-- packages -->").nth(1).and_then(|rest| rest.split("<!-- end -->").next());
    let documented: Vec<_> = list.expect("the list").split('`').skip(1).step_by(2).collect();
    assert!(needed.len() > 20, "has the form of the table changed?");
    assert_eq!(documented, needed, "CONTRIBUTING.md has another list than xtask/src/test_packages.rs");
}
