//! HTTP/3 against implementations that others wrote: aioquic, niquests, quic-go, ngtcp2, Chromium and Firefox as clients, and
//! pylsqpack beside QPACK. What is not installed is skipped, and that is said.

mod clients;
mod networks;

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::step;

const QPACK: &str = "crates/maitred-http/tests/qpack_beside_pylsqpack.py";

/// Runs everything with what was built last without `--release`, or says why not.
pub(crate) fn run(target: &Path) -> Result<()> {
    crate::test::built()?;
    qpack(target)?;
    clients::run(target)
}

/// QPACK against pylsqpack.
fn qpack(target: &Path) -> Result<()> {
    let name = "QPACK beside pylsqpack";
    let python = match crate::test_python::environment(&target.join("python")) {
        Ok(python) => python,
        Err(why) => {
            skip(Kind::Missing, name, &why.to_string());
            return Ok(());
        }
    };
    let mut cargo = crate::step::cargo();
    step("QPACK's example", cargo.args(["build", "--workspace", "--example", "qpack"]))?;
    step(name, Command::new(python).arg(QPACK).arg(target.join("debug/examples/qpack").canonicalize()?))
}
