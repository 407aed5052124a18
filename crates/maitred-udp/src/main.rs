//! The program `maitred-udp-proxy`.

use std::process::ExitCode;

fn main() -> ExitCode {
    maitred_udp::cli::main()
}
