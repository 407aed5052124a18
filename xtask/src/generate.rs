//! `cargo xtask generate`: writes the files that are made from tables in the code. Tests of the server write them, since only its
//! crates know the tables; without the variable they fail when a file is stale.

use crate::Result;
use crate::step::{cargo, step};

/// Has tests write what they would otherwise compare.
const WRITE: &str = "MAITRED_WRITE_DOCS";
/// Tests that write documents, as arguments of `cargo test`.
const WRITERS: [&[&str]; 3] = [
    // Reference, schema, manual page, completions.
    &["--package", "maitred", "--test", "generated"],
    // The tables of docs/metrics.md.
    &["--package", "maitred-status", "--lib", "the_document_has_every_metric"],
    // The crates in ARCHITECTURE.md.
    &["--package", "maitred-tidy", "--test", "order", "the_architecture_shows_the_crates"],
];

/// Writes the files that have changed.
pub(crate) fn run() -> Result<()> {
    for writer in WRITERS {
        let name = format!("documents: {}", writer.join(" "));
        step(&name, cargo().arg("test").args(writer).env(WRITE, "1"))?;
    }
    Ok(())
}
