//! The program `maitred-load`.

use std::process::ExitCode;

fn main() -> ExitCode {
    maitred_load::cli::main()
}
