//! h2spec, the conformance test for RFC 9113 and 7541, with a list of cases in which Maitred knows better.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{check, skipped, there};
use crate::Result;
use crate::step::{client, step};
use crate::test_site::Site;

/// The newest version that Go's tools take: later ones have a `go.mod` that does not name their major version.
const MODULE: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";
/// Cases that need not pass, and why.
const DEVIATIONS: &str = "specs/h2spec.toml";
/// An application's page: it is answered when the whole request is there, so that h2spec sees what becomes of its rest. A request
/// with a body that is not needed is answered at once, and nothing that comes later on its stream matters.
const PATH: &str = "/app/bytes/23";
/// Fewer cases than this, and it did not test what it should.
const CASES_MIN: usize = 140;
/// How long a case may take. Far more than is needed.
const TIMEOUT_SECS: &str = "10";

#[derive(Debug)]
struct Deviation {
    /// As h2spec has it: `http2/5.1.1`.
    section: String,
    title: String,
    /// In cleartext only; over TLS it has to pass.
    cleartext_only: bool,
    why: String,
}

impl Deviation {
    fn read(row: &toml::Value) -> Result<Deviation> {
        let text = |key: &str| -> Result<String> {
            let value = row.get(key).and_then(toml::Value::as_str);
            Ok(value.ok_or_else(|| format!("{DEVIATIONS}: a deviation without {key}"))?.to_owned())
        };
        let cleartext_only = row.get("cleartext_only").and_then(toml::Value::as_bool).unwrap_or_default();
        Ok(Deviation { section: text("section")?, title: text("title")?, cleartext_only, why: text("why")? })
    }
}

/// The deviations of the list.
fn deviations() -> Result<Vec<Deviation>> {
    let list: toml::Table = std::fs::read_to_string(DEVIATIONS)?.parse()?;
    let rows = list.get("deviation").and_then(toml::Value::as_array);
    rows.into_iter().flatten().map(Deviation::read).collect()
}

/// A case of the report.
struct Case {
    section: String,
    title: String,
    failed: bool,
}

/// All cases, the strict ones too, in cleartext and over TLS.
pub(super) fn run(site: &Site, target: &Path) -> Result<()> {
    let Some(program) = program(target)? else { return Ok(()) };
    let deviations = deviations()?;
    let tls = site.tls.iter().map(|address| (address.as_str(), true));
    for (address, tls) in std::iter::once((site.cleartext.as_str(), false)).chain(tls) {
        let name = if tls { "h2spec over TLS" } else { "h2spec" };
        let possible = deviations.iter().filter(|deviation| !tls || !deviation.cleartext_only);
        let cases = cases(name, &program, (address, tls), &site.path("h2spec.xml"))?;
        judge(name, &cases, &possible.collect::<Vec<_>>())?;
    }
    Ok(())
}

/// The program; it is built by Go if it is not there.
fn program(target: &Path) -> Result<Option<PathBuf>> {
    if there("h2spec") {
        return Ok(Some("h2spec".into()));
    }
    let directory = std::path::absolute(target.join("go"))?;
    let program = directory.join("h2spec");
    if program.is_file() {
        return Ok(Some(program));
    }
    if !there("go") {
        skipped("h2spec", "it is not installed, and there is no Go to build it (Debian: golang-go)");
        return Ok(None);
    }
    let mut go = Command::new("go");
    if let Err(error) = step("h2spec, build", go.args(["install", MODULE]).env("GOBIN", &directory)) {
        skipped("h2spec", &format!("it cannot be built: {error}"));
        return Ok(None);
    }
    Ok(Some(program))
}

/// Runs it, and reads its report (JUnit's XML: one element `testcase` each).
fn cases(name: &str, program: &Path, (address, tls): (&str, bool), report: &Path) -> Result<Vec<Case>> {
    let (host, port) = address.rsplit_once(':').ok_or("an address without a port")?;
    let mut command = Command::new(program);
    command.args(["generic", "http2", "hpack", "--strict", "--path", PATH, "--timeout", TIMEOUT_SECS]);
    command.args(["--host", host, "--port", port, "--junit-report"]).arg(report);
    if tls {
        command.args(["--tls", "--insecure"]);
    }
    // The report of the run before would be taken for its own.
    let _ = std::fs::remove_file(report);
    let (_, said) = client(name, &mut command)?;
    let text = std::fs::read_to_string(report).map_err(|error| format!("{error}: {said}"))?;
    let cases = parse(&text);
    // What `h2spec` expected and what it got instead.
    if cases.iter().any(|case| case.failed) {
        println!("{}", said.split("Failures:").nth(1).unwrap_or(&said));
    }
    Ok(cases)
}

fn parse(report: &str) -> Vec<Case> {
    let elements = report.split("<testcase ").skip(1);
    let case = |element: &str| Case {
        section: attribute(element, "package"),
        title: attribute(element, "classname"),
        failed: element.contains("<failure") || element.contains("<error"),
    };
    elements.map(case).collect()
}

/// The value of an attribute, with its entities resolved.
fn attribute(element: &str, name: &str) -> String {
    let value = element.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
    let entities =
        [("&#34;", "\""), ("&#39;", "'"), ("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    let text = value.unwrap_or_default().to_owned();
    entities.iter().fold(text, |text, (entity, sign)| text.replace(entity, sign))
}

/// All cases passed but those that deviate, and these did not.
fn judge(name: &str, cases: &[Case], deviations: &[&Deviation]) -> Result<()> {
    check(cases.len() >= CASES_MIN, || format!("{name}: {} cases only", cases.len()))?;
    let is = |case: &Case, deviation: &Deviation| {
        case.section == deviation.section && case.title == deviation.title
    };
    let mut wrong = Vec::new();
    for case in cases.iter().filter(|case| case.failed) {
        match deviations.iter().find(|deviation| is(case, deviation)) {
            Some(deviation) => println!("{} {}: {}", case.section, case.title, deviation.why),
            None => wrong.push(format!("{} {}", case.section, case.title)),
        }
    }
    for deviation in deviations {
        if !cases.iter().any(|case| case.failed && is(case, deviation)) {
            wrong.push(format!(
                "{DEVIATIONS} has a case that passes: {} {}",
                deviation.section, deviation.title
            ));
        }
    }
    println!("{name}: {} cases, {} wrong", cases.len(), wrong.len());
    check(wrong.is_empty(), || format!("{name}: {wrong:#?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<testsuites><testsuite name="3.5" package="http2/3.5">
        <testcase package="http2/3.5" classname="Sends &#34;x&#34;" time="0.1"></testcase>
        <testcase package="http2/3.5" classname="Sends y" time="0.1"><failure>no</failure></testcase>
        </testsuite></testsuites>"#;

    fn deviations(titles: &[&str]) -> Vec<Deviation> {
        let deviation = |title: &&str| Deviation {
            section: "http2/3.5".to_owned(),
            title: (*title).to_owned(),
            cleartext_only: false,
            why: "a reason".to_owned(),
        };
        titles.iter().map(deviation).collect()
    }

    #[test]
    fn a_failure_needs_a_reason_and_a_reason_a_failure() {
        let mut cases = parse(REPORT);
        assert_eq!((cases.len(), cases[0].title.as_str()), (2, "Sends \"x\""));
        assert_eq!((cases[0].failed, cases[1].failed), (false, true));
        let judge = |cases: &[Case], titles: &[&str]| {
            judge("a test", cases, &deviations(titles).iter().collect::<Vec<_>>())
        };
        assert!(judge(&cases, &["Sends y"]).is_err(), "there are too few cases");
        cases.extend((0..CASES_MIN).map(|_| Case {
            section: String::new(),
            title: String::new(),
            failed: false,
        }));
        assert!(judge(&cases, &["Sends y"]).is_ok());
        assert!(judge(&cases, &[]).is_err(), "a failure without a reason");
        assert!(judge(&cases, &["Sends y", "Sends \"x\""]).is_err(), "a reason without a failure");
    }
}
