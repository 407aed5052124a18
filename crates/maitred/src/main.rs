//! The binary: see the library for everything.

use std::process::ExitCode;

fn main() -> ExitCode {
    maitred::worker::run()
}
