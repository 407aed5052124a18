//! Repeated work of the project, as `cargo xtask NAME`.

fn main() -> std::process::ExitCode {
    xtask::main()
}
