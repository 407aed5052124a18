//! The examples of the manual.

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

const MANUAL: &str = include_str!("../../../../../docs/compression.md");

#[test]
fn every_example_of_the_manual_is_good() {
    let examples: Vec<_> =
        MANUAL.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 3, "{} examples", examples.len());
    for example in examples {
        let mut text = example.to_owned();
        for (part, missing) in [
            ("[[site]]", "[[site]]\nroot = \"/srv/www\""),
            ("[[listen]]", "[[listen]]\naddress = \":8080\""),
            ("[pool.app]", "[pool.app]\nconnect = \"http://127.0.0.1:3000\""),
        ] {
            if !text.contains(part) {
                text.push_str(&format!("\n{missing}\n"));
            }
        }
        let origin = Origin { name: "docs/compression.md".to_owned(), base: "/".into() };
        if let Err(errors) = config::read(&text, &origin, &Roomy) {
            panic!("{errors}\n{text}");
        }
    }
}
