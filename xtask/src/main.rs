//! Repeated work of the project, as `cargo xtask NAME`.
fn main() {}
