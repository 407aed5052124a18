//! What there is of HTTP/3 against implementations that others wrote.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::step;

const SCRIPT: &str = "crates/maitred-http/tests/qpack_beside_pylsqpack.py";

/// QPACK against pylsqpack, or says why not.
pub(crate) fn run(target: &Path) -> Result<()> {
    let name = "QPACK beside pylsqpack";
    let python = match crate::test_python::environment(&target.join("python")) {
        Ok(python) => python,
        Err(why) => {
            skip(Kind::Missing, name, &why.to_string());
            return Ok(());
        }
    };
    let mut cargo = crate::step::cargo();
    step(
        "QPACK's example",
        cargo.args(["build", "--quiet", "--package", "maitred-http", "--example", "qpack"]),
    )?;
    step(name, Command::new(python).arg(SCRIPT).arg(target.join("debug/examples/qpack").canonicalize()?))
}
