//! Instructions per request of the parts without I/O, counted by callgrind and compared with what was recorded: the figure
//! of speed that does not depend on what else the machine does.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::step;

const BASELINE: &str = "bench/instructions/baseline.toml";
/// With this in the environment, what was counted becomes the baseline.
const WRITE: &str = "MAITRED_WRITE_BASELINE";
/// Parts of `crates/maitred-handoff/examples/hot_path.rs`.
const PARTS: [&str; 10] = [
    "request",
    "route",
    "routes-1000",
    "response",
    "frame-write",
    "frame-read",
    "report",
    "date",
    "h2",
    "h2-judged",
];
/// What a request may cost with 1,000 routes, in what it costs with one.
const ROUTES_MAX: f64 = 1.1;
/// The difference between these is free of what starting and stopping cost.
const FEW: u64 = 100;
const MANY: u64 = 1100;
/// How much a count may differ from the recorded one. Another version of the C library copies with other instructions; a change
/// of the code that matters is larger. Less is a failure, too: a baseline that is not brought up to date hides the next loss.
const TOLERANCE: f64 = 0.1;
/// The C library looks at the processor for which of its functions to take, and they differ by 5 % of a response. Without
/// these, it takes the same ones everywhere (glibc's manual, "Hardware Capability Tunables"; names that it does not know do no
/// harm).
const C_LIBRARY: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.cpu.hwcaps=-AVX512VL,-AVX512BW,-AVX2,-AVX,-ERMS,-FSRM,-SSE4_2,-SSE4_1,-SSSE3,-Fast_Unaligned_Copy",
);

/// What was recorded: instructions in user space for each time that a part is done.
fn recorded() -> Result<BTreeMap<String, f64>> {
    let text = std::fs::read_to_string(BASELINE)?;
    let table: toml::Table = text.parse()?;
    let parts = table.get("instructions").and_then(toml::Value::as_table);
    let parts = parts.ok_or_else(|| format!("{BASELINE} has no instructions"))?;
    let count = |(part, each): (&String, &toml::Value)| Some((part.clone(), each.as_float()?));
    Ok(parts.iter().filter_map(count).collect())
}

/// The same as a file.
fn recording(counted: &BTreeMap<String, f64>) -> String {
    let note = format!("# Instructions per request by part; {WRITE}=1 cargo xtask instructions writes it.\n");
    let lines = counted.iter().map(|(part, each)| format!("{part} = {each:.1}\n"));
    note + "[instructions]\n" + &lines.collect::<String>()
}

/// Counts and compares, or says why not.
pub(crate) fn run(target: &Path) -> Result<()> {
    if let Some((kind, why)) = missing() {
        skip(kind, "instructions per request", why);
        return Ok(());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build =
        ["build", "--quiet", "--profile", "instructions", "-p", "maitred-handoff", "--example", "hot_path"];
    step("instructions per request", Command::new(cargo).args(build))?;
    let program = target.join("instructions/examples/hot_path");
    let mut counted = BTreeMap::new();
    for part in PARTS {
        counted.insert(part.to_owned(), each(&program, &[part])?.round());
    }
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(BASELINE, recording(&counted))?;
        return Ok(());
    }
    let baseline = recorded()?;
    for (part, each) in &counted {
        let recorded = baseline.get(part).copied().unwrap_or_default();
        println!("{part:12} {each:6.0}   recorded {recorded:6.0}");
    }
    let mut wrong = differences(&baseline, &counted);
    let of = |part: &str| counted.get(part).copied().unwrap_or_default();
    if of("routes-1000") > ROUTES_MAX * of("route") {
        wrong.push(format!("a request with 1,000 routes takes more than {ROUTES_MAX} times that with one"));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{}; {WRITE}=1 cargo xtask instructions records anew", wrong.join("; ")).into())
    }
}

/// What keeps the counts from being made, or from being compared with those that were recorded.
fn missing() -> Option<(Kind, &'static str)> {
    if !is_alike() {
        let why = "they were recorded on x86_64 with AVX2, which searches in bytes make use of";
        return Some((Kind::Surroundings, why));
    }
    // Some machines have it, and do not let it run (seccomp), or have a processor that it does not know.
    let tried = callgrind("true").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let works = tried.is_ok_and(|status| status.success());
    (!works).then_some((Kind::Missing, "there is no valgrind that works here (Debian's package valgrind)"))
}

#[cfg(target_arch = "x86_64")]
fn is_alike() -> bool {
    std::is_x86_feature_detected!("avx2")
}

#[cfg(not(target_arch = "x86_64"))]
fn is_alike() -> bool {
    false
}

fn callgrind(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    command.env(C_LIBRARY.0, C_LIBRARY.1).stdin(Stdio::null());
    command
}

/// Parts whose count is not what was recorded.
fn differences(recorded: &BTreeMap<String, f64>, counted: &BTreeMap<String, f64>) -> Vec<String> {
    let wrong = counted.iter().filter_map(|(part, &each)| {
        let Some(&before) = recorded.get(part) else { return Some(format!("{part} has no baseline")) };
        let differs = (each - before).abs() > before * TOLERANCE;
        differs.then(|| format!("{part} takes {each:.0} instructions, {before:.0} were recorded"))
    });
    wrong.collect()
}

/// Instructions of one of the times that a program does something, whose last argument is their number.
pub fn each(program: &Path, arguments: &[&str]) -> Result<f64> {
    let (few, many) = (count(program, arguments, FEW)?, count(program, arguments, MANY)?);
    Ok((many as f64 - few as f64) / (MANY - FEW) as f64)
}

/// Instructions of a whole run in user space.
fn count(program: &Path, arguments: &[&str], times: u64) -> Result<u64> {
    let output = callgrind(program).args(arguments).arg(times.to_string()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let counted =
        said.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count.trim());
    let counted = counted.filter(|_| output.status.success()).and_then(|count| count.parse().ok());
    counted.ok_or_else(|| format!("callgrind counted nothing for {}: {said}", arguments.join(" ")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(each: f64) -> BTreeMap<String, f64> {
        BTreeMap::from([("request".to_owned(), each)])
    }

    #[test]
    fn more_and_fewer_instructions_are_seen() {
        assert!(differences(&counts(1000.0), &counts(1050.0)).is_empty());
        assert_eq!(differences(&counts(1000.0), &counts(1200.0)).len(), 1);
        assert_eq!(differences(&counts(1000.0), &counts(800.0)).len(), 1);
        assert_eq!(differences(&BTreeMap::new(), &counts(800.0)).len(), 1);
    }
}
