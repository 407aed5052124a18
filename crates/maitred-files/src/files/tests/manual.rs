//! The user's manual against the code.

use std::io;
use std::path::Path;

use maitred_config::{self as config, Identity, Lookup, Origin};

/// A machine that has every directory.
struct Roomy;

impl Lookup for Roomy {
    fn user(&self, _name: &str) -> io::Result<Option<Identity>> {
        Ok(None)
    }

    fn is_root(&self) -> bool {
        false
    }

    fn directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
}

const MANUAL: &str = include_str!("../../../../../docs/files.md");

#[test]
fn every_example_of_the_manual_is_a_configuration() {
    let mut examples = 0;
    for example in MANUAL.split("```toml\n").skip(1) {
        let example = example.split("```").next().unwrap();
        let listen = if example.contains("[[listen]]") { "" } else { "[[listen]]\naddress = \":8080\"\n" };
        let text = format!("{example}\n{listen}");
        let origin = Origin { name: "docs/files.md".to_owned(), base: "/".into() };
        if let Err(errors) = config::read(&text, &origin, &Roomy) {
            panic!("{errors}\n{text}");
        }
        examples += 1;
    }
    assert!(examples > 10);
}

#[test]
fn every_option_of_files_is_in_the_manual() {
    for option in [
        "strip_prefix",
        "index",
        "listing",
        "try",
        "hidden",
        "symlinks",
        "precompressed",
        "headers",
        "error_pages",
    ] {
        assert!(
            MANUAL.contains(&format!("\n{option} = ")) || MANUAL.contains(&format!("### `{option}`")),
            "{option}"
        );
    }
}
