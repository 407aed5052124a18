//! The table of all steps: which tier each belongs to, what it takes, and what it does.

use std::path::Path;

use crate::Result;
use crate::step::{cargo, compilation, step};
use crate::test::runner::{self, Part};
use crate::{harness, test_go, test_h2, test_h3, test_instructions, test_node, test_python};

/// Which command runs a step. A later tier has the earlier ones in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    /// `cargo xtask check`
    Check,
    /// `cargo xtask test`, as CI runs it
    Test,
    /// `cargo xtask test --full`
    Full,
}

impl Tier {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tier::Check => "check",
            Tier::Test => "test",
            Tier::Full => "full",
        }
    }
}

/// Steps of different lanes run side by side, those of one lane one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The step keeps a processor busy (a compiler, an emulated machine), or is short beside the longest step.
    Busy,
    /// The step waits most of the time: for servers, clients, the network.
    Waits,
    /// Nothing runs beside it, because it counts or measures.
    Alone,
}

/// One step.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) tier: Tier,
    pub(crate) lane: Lane,
    /// Steps that have to be over before, if they are part of the run.
    pub(crate) after: &'static [&'static str],
    pub(crate) run: fn(&Path) -> Result<()>,
}

const fn row(
    name: &'static str,
    tier: Tier,
    lane: Lane,
    after: &'static [&'static str],
    run: fn(&Path) -> Result<()>,
) -> Step {
    Step { name, tier, lane, after, run }
}

/// The step that compiles whatever is tested. If a run has it, others need not ask Cargo.
pub(crate) const BUILD: &str = "build";
const BUILT: &[&str] = &[BUILD];
const NONE: &[&str] = &[];

use Lane::{Alone, Busy, Waits};
use Tier::{Check, Full, Test};

/// All steps. Steps of one lane run in this order: cheap ones first, so that a run fails early.
#[rustfmt::skip]
pub(crate) const STEPS: &[Step] = &[
    row("format", Check, Waits, NONE, format),
    row("lints", Check, Busy, NONE, lints),
    row("rules", Check, Busy, NONE, |target| runner::run(target, Part::Rules)),
    row(BUILD, Test, Busy, NONE, build),
    row("tests", Test, Waits, BUILT, |target| runner::run(target, Part::Tests)),
    row("doctests", Test, Busy, BUILT, doctests),
    row("rust", Test, Busy, BUILT, |target| rust_example(target, "worker")),
    row("go", Test, Busy, BUILT, test_go::conformance),
    row("h2spec", Test, Busy, BUILT, test_h2::run_h2spec),
    row("apache", Test, Busy, BUILT, |_| crate::test_apache::conformance()),
    row("node", Test, Busy, BUILT, |_| test_node::conformance()),
    row("python", Test, Busy, BUILT, |_| test_python::bare()),
    row("deny", Test, Busy, BUILT, |_| crate::test_deny::run()),
    row("counts", Test, Alone, BUILT, |target| runner::run(target, Part::Alone)),
    row("documentation", Full, Busy, BUILT, documentation),
    row("tower", Full, Waits, BUILT, |target| rust_example(target, "tower")),
    row("programs", Full, Waits, BUILT, |target| runner::run(target, Part::Programs)),
    row("python-frameworks", Full, Waits, BUILT, test_python::frameworks),
    row("python-asan", Full, Busy, NONE, test_python::sanitized),
    row("go-frameworks", Full, Waits, &[BUILD, "go"], test_go::frameworks),
    row("node-frameworks", Full, Waits, &[BUILD, "node"], |_| test_node::frameworks()),
    row("apache-sites", Full, Waits, &[BUILD, "apache"], |_| crate::test_apache::sites()),
    row("http2", Full, Waits, BUILT, test_h2::run_clients),
    row("http3", Full, Waits, BUILT, test_h3::run),
    row("cache-tests", Full, Waits, BUILT, cache_tests),
    row("instructions", Full, Busy, BUILT, test_instructions::run),
    row("dist", Full, Busy, BUILT, packages),
    row("installed", Full, Busy, BUILT, |_| harness::run_step(harness::DIST, "installed", &[])),
    row("containers", Full, Busy, BUILT, |_| harness::run_step(harness::DIST, "containers", &[])),
    row("trials", Full, Waits, BUILT, crate::trials::run),
    row("vm", Full, Busy, BUILT, crate::test_vm::run),
    row("vm-test", Full, Busy, BUILT, crate::vm_test::test),
];

/// The step of this name.
pub(crate) fn find(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|step| step.name == name)
}

fn format(_: &Path) -> Result<()> {
    step("format", cargo().args(["fmt", "--all", "--check"]))?;
    for manifest in ["fuzz/Cargo.toml", test_python::NATIVE] {
        let name = format!("format of {manifest}");
        step(&name, cargo().args(["fmt", "--check", "--manifest-path", manifest]))?;
    }
    Ok(())
}

fn lints(target: &Path) -> Result<()> {
    compilation("lints", cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    let mut native = cargo();
    native.args(["clippy", "--release", "--manifest-path", test_python::NATIVE, "--target-dir"]);
    native.arg(target.join("python-native")).args(["--", "-D", "warnings"]);
    compilation("lints of the Python adapter's compiled part", &mut native)
}

fn build(_: &Path) -> Result<()> {
    compilation("build", cargo().args(["test", "--workspace", "--no-run"]))
}

fn doctests(_: &Path) -> Result<()> {
    step("doctests", cargo().args(["test", "--workspace", "--doc", "--no-fail-fast"]))
}

fn documentation(_: &Path) -> Result<()> {
    let mut doc = cargo();
    doc.args(["doc", "--workspace", "--no-deps", "--document-private-items"]);
    step("documentation", doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// The suite of cache rules, judged.
fn cache_tests(_: &Path) -> Result<()> {
    harness::run_step(harness::BENCH, "cache-tests", &["--judge"])
}

/// All that can be packed of the debug build.
fn packages(target: &Path) -> Result<()> {
    let binary = target.join("debug/maitred");
    harness::run_step(harness::DIST, "dist", &["--test", "--binary", &binary.to_string_lossy()])
}

/// The conformance of an example of `maitred-handoff`.
fn rust_example(target: &Path, example: &str) -> Result<()> {
    crate::test::built()?;
    let path = target.join("debug/examples").join(example).canonicalize()?;
    let name = format!("Rust example {example}, conformance");
    step(&name, &mut test_python::python(&["../conformance/run.py", "--", &path.to_string_lossy()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_in_one_tier_and_comes_after_known_ones() {
        for (at, step) in STEPS.iter().enumerate() {
            let earlier = &STEPS[..at];
            assert!(earlier.iter().all(|other| other.name != step.name), "{} is there twice", step.name);
            for name in step.after {
                let before = earlier.iter().find(|other| other.name == *name);
                let before = before.unwrap_or_else(|| panic!("{}: no {name} before it", step.name));
                assert!(before.tier <= step.tier, "{} waits for a step of a later tier", step.name);
            }
        }
        for tier in [Tier::Check, Tier::Test, Tier::Full] {
            assert!(STEPS.iter().any(|step| step.tier == tier), "nothing in {}", tier.name());
        }
    }
}
