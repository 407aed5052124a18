//! Files that are made from tables in the code: the reference of the configuration, its schema, the manual page, completions.
//! `cargo xtask generate` runs this with `MAITRED_WRITE_DOCS` to write them.

#![allow(clippy::expect_used, reason = "helpers of tests, which clippy.toml does not know to be such")]

use std::path::{Path, PathBuf};

use maitred::cli::generated;
use maitred_config::{reference, schema};

/// Every generated file: its path from the root of the repository, and what has to stand in it.
fn files() -> Vec<(PathBuf, Vec<u8>)> {
    let mut schema = serde_json::to_vec_pretty(&schema::schema()).expect("a schema is JSON");
    schema.push(b'\n');
    let mut files = vec![
        ("docs/configuration.md".into(), reference::markdown().into_bytes()),
        ("docs/maitred.schema.json".into(), schema),
        ("docs/nginx-differences.md".into(), generated::nginx_differences().into_bytes()),
        ("docs/maitred.1".into(), generated::man().expect("the page fits into memory")),
    ];
    for shell in generated::SHELLS {
        files.push((format!("docs/completions/maitred.{shell}").into(), generated::completions(shell)));
    }
    files
}

#[test]
fn generated_files_are_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let write = std::env::var_os("MAITRED_WRITE_DOCS").is_some();
    for (path, content) in files() {
        let place = root.join(&path);
        if std::fs::read(&place).is_ok_and(|old| old == content) {
            continue;
        }
        assert!(write, "{} is stale: run `cargo xtask generate`", path.display());
        std::fs::create_dir_all(place.parent().expect("a directory")).expect("it can be made");
        std::fs::write(&place, content).expect("it can be written");
        eprintln!("wrote {}", path.display());
    }
}
