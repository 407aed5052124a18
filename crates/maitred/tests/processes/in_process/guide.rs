//! The configurations of `docs/modules.md` and of the heads of the examples are good ones: each is checked with the libraries
//! that it names, built, and with the files that they read.

use std::path::Path;

use crate::support::libraries::{examples, hello_in_c};
use crate::support::{Setup, binary};

/// A repository's text.
fn text(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// The blocks of TOML, of which each is a configuration or keys of a route.
fn blocks(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        match (&mut open, line.starts_with("```")) {
            (None, true) => open = (line == "```toml").then(String::new).or(Some("\0".to_owned())),
            (Some(_), true) => found.extend(open.take().filter(|block| !block.starts_with('\0'))),
            (Some(block), false) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, false) => {}
        }
    }
    found
}

/// A block with what its page is not about, and files of the test in the place of those that it names.
fn completed(block: &str, directory: &Path) -> String {
    let place = |name: &str| directory.join(name).display().to_string();
    let mut whole = block
        .replace("/usr/local/lib/maitred/", &format!("{}/", examples().display()))
        .replace("/etc/maitred/token.key", &place("token.key"))
        .replace("/etc/maitred/links.txt", &place("links.txt"))
        .replace("/var/lib/app/list.txt", &place("links.txt"))
        .replace("/dev/shm/maitred/counters", &place("counters"))
        .replace("\"items.json\"", &format!("\"{}\"", place("items.json")))
        .replace("/srv/www", &place("root"));
    if !whole.contains("[[site") {
        let path =
            if whole.contains("path = \"/") && whole.starts_with("path") { "" } else { "path = \"/x/*\"\n" };
        whole = format!("[[site]]\n[[site.route]]\n{path}{whole}");
    }
    if whole.contains("pool = \"app\"") && !whole.contains("[pool.app]") {
        whole += "\n[pool.app]\nconnect = [\"http://127.0.0.1:8000\"]\n";
    }
    whole + "\n[[listen]]\naddress = \"127.0.0.1:0\"\n[server]\nshare_user = true\n"
}

fn check(block: &str, place: &str) {
    let setup = Setup::with_files()
        .outside("token.key", b"0123456789abcdef0123456789abcdef")
        .outside("links.txt", b"docs https://docs.example.com/\n")
        .outside("items.json", b"[]");
    let directory = setup.directory.path();
    let text = completed(block, directory);
    std::fs::write(directory.join("maitred.toml"), &text).unwrap();
    let mut command = std::process::Command::new(binary());
    let output = command.args(["check", "-c", "maitred.toml"]).current_dir(directory).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{place}: {said}\n{text}");
}

#[test]
fn configurations_of_the_guide_are_good() {
    let blocks = blocks(&text("docs/modules.md"));
    assert_eq!(blocks.len(), 2, "as many as are checked");
    blocks.iter().for_each(|block| check(block, "docs/modules.md"));
}

#[test]
fn configurations_in_the_heads_of_examples_are_good() {
    for name in ["arena", "counter", "hello", "links", "slow", "stamp", "token"] {
        let source = text(&format!("crates/maitred-module/examples/{name}.rs"));
        let head = source.lines().map_while(|line| line.strip_prefix("//!"));
        let head: Vec<&str> = head.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        let blocks = blocks(&head.join("\n"));
        assert_eq!(blocks.len(), 1, "{name}");
        check(&blocks[0], name);
    }
}

/// The example understands the JSON that the server makes of `config`, and refuses what it does not know.
#[test]
fn the_example_in_c_is_checked_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let library = hello_in_c(directory.path());
    let block =
        |config: &str| format!("module = {{ path = \"{}\", config = {{ {config} }} }}\n", library.display());
    check(&block("greeting = \"Hello\""), "c/hello.c");
    let setup = Setup::with_files().route("/x", &block("greting = \"Hello\""));
    setup.write();
    let mut command = std::process::Command::new(binary());
    command.args(["check", "-c", "maitred.toml"]).current_dir(setup.directory.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`config` has to have `greeting`"), "{said}");
}
