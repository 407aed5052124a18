//! What the cases gave: counts, lists, what is kept of it below `bench/runs/`, and the tables of `docs/cache-tests.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::servers::Server;
use crate::Result;

const MARK: &str = "<!-- cache-tests -->\n";
const END: &str = "<!-- end -->";

/// What a case is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// The specification demands it.
    #[default]
    Required,
    /// A cache that is as good as it can be does it.
    Optimal,
    /// A question with two right answers.
    Check,
}

/// What the suite makes of a case's result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Pass,
    Fail,
    /// Answers of a check.
    Yes,
    No,
    /// A case that it depends on has not passed.
    Unreachable,
    /// Something went wrong before what the case is about.
    Setup,
    /// The server was asked twice, so that nothing is known.
    Retry,
    /// The case was not run.
    #[default]
    Untested,
}

/// A case of the suite, and what came of it.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Case {
    pub(super) id: String,
    pub(super) group: String,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) verdict: Verdict,
    /// Why it has not passed.
    pub(super) reason: String,
    /// Why it did not pass at first.
    pub(super) first: String,
}

/// How many cases came to what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) pass: usize,
    pub(super) fail: usize,
    pub(super) unreachable: usize,
    /// With those that were asked twice.
    pub(super) setup: usize,
}

impl Counts {
    fn of<'a>(cases: impl Iterator<Item = &'a Case>) -> Counts {
        let mut counts = Counts::default();
        for case in cases {
            let count = match case.verdict {
                Verdict::Pass | Verdict::Yes => &mut counts.pass,
                Verdict::Fail | Verdict::No => &mut counts.fail,
                Verdict::Unreachable => &mut counts.unreachable,
                Verdict::Setup | Verdict::Retry => &mut counts.setup,
                Verdict::Untested => continue,
            };
            *count += 1;
        }
        counts
    }

    fn all(self) -> usize {
        self.pass + self.fail + self.unreachable + self.setup
    }
}

/// What all cases gave on one server.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    version: String,
    date: String,
    seconds: u64,
    cases: Vec<Case>,
}

impl Measured {
    pub(super) fn new(version: String, took: Duration, cases: Vec<Case>) -> Measured {
        Measured { version, date: today(), seconds: took.as_secs(), cases }
    }

    pub(super) fn cases(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter()
    }

    pub(super) fn counts(&self, kind: Kind) -> Counts {
        Counts::of(self.cases().filter(|case| case.kind == kind))
    }

    /// Counts, and each case that is not as it should be.
    pub(super) fn to_text(&self, server: &str) -> String {
        let mut text = format!("{server} {}, {} s\n", self.version, self.seconds);
        for (kind, name, words) in [
            (Kind::Required, "required", ["pass", "fail"]),
            (Kind::Optimal, "optimal", ["pass", "fail"]),
            (Kind::Check, "checks", ["yes", "no"]),
        ] {
            let (counts, [good, bad]) = (self.counts(kind), words);
            let Counts { pass, fail, unreachable, setup } = counts;
            let all = counts.all();
            let _ = writeln!(
                text,
                "  {name:8} {all:3}: {pass:3} {good}, {fail:3} {bad}, {unreachable:3} unreachable, {setup:3} not set up"
            );
        }
        for (kind, name) in [(Kind::Required, "required"), (Kind::Optimal, "optimal")] {
            for case in self.cases().filter(|case| case.kind == kind) {
                let word = match case.verdict {
                    Verdict::Fail => "fails",
                    Verdict::Setup => "is not set up",
                    Verdict::Retry => "was asked for twice",
                    _ => continue,
                };
                let Case { id, group, reason, name: about, .. } = case;
                let _ = writeln!(text, "  {name} {word}: {id} ({group}): {reason}\n      {about}");
            }
        }
        for case in self.cases().filter(|case| !case.first.is_empty()) {
            let _ = writeln!(text, "  passed in the second run only: {}: {}", case.id, case.first);
        }
        text
    }
}

/// A case without its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    id: String,
    group: String,
    kind: Kind,
}

/// One server in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    version: String,
    date: String,
    seconds: u64,
    results: BTreeMap<String, Said>,
}

/// One result in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Said {
    is: Verdict,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    why: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    first: String,
}

/// A directory of results.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Run {
    suite: String,
    cases: Vec<Known>,
    servers: BTreeMap<String, Kept>,
}

impl Run {
    /// What a directory has of this suite; nothing, if it has none yet.
    pub(super) fn read(directory: &Path, suite: &str) -> Result<Run> {
        let path = directory.join("raw.json");
        if !path.exists() {
            return Ok(Run { suite: suite.to_owned(), ..Run::default() });
        }
        let run: Run = serde_json::from_str(&fs::read_to_string(&path)?)?;
        if run.suite == suite {
            Ok(run)
        } else {
            Err(format!("{} is of {}, not of {suite}: name another --out", path.display(), run.suite).into())
        }
    }

    /// Puts a server's results into the place of earlier ones.
    pub(super) fn take(&mut self, server: Server, measured: Measured) {
        let Measured { version, date, seconds, cases } = measured;
        self.cases = cases
            .iter()
            .map(|case| Known { id: case.id.clone(), group: case.group.clone(), kind: case.kind })
            .collect();
        let results = cases.into_iter().filter(|case| case.verdict != Verdict::Untested);
        let results =
            results.map(|case| (case.id, Said { is: case.verdict, why: case.reason, first: case.first }));
        let kept = Kept { version, date, seconds, results: results.collect() };
        self.servers.insert(server.name().to_owned(), kept);
    }

    /// A server's results; `None` if it was not tested.
    fn measured(&self, server: Server) -> Option<Measured> {
        let Kept { version, date, seconds, results } = self.servers.get(server.name())?.clone();
        let cases = self.cases.iter().filter_map(|known| {
            let Said { is, why, first } = results.get(&known.id)?.clone();
            let Known { id, group, kind } = known.clone();
            Some(Case { id, group, kind, verdict: is, reason: why, first, name: String::new() })
        });
        Some(Measured { cases: cases.collect(), version, date, seconds })
    }

    /// Writes `raw.json`, a line for each case, and `summary.md`.
    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory)?;
        let cases: Vec<String> = self.cases.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let mut servers = Vec::new();
        for (name, Kept { version, date, seconds, results }) in &self.servers {
            let line = |(id, said): (&String, &Said)| {
                Ok(format!("{}:{}", serde_json::to_string(id)?, serde_json::to_string(said)?))
            };
            let results: Vec<String> = results.iter().map(line).collect::<Result<_>>()?;
            servers.push(format!(
                "{}:{{\"version\":{},\"date\":{},\"seconds\":{seconds},\"results\":{{\n{}\n}}}}",
                serde_json::to_string(name)?,
                serde_json::to_string(version)?,
                serde_json::to_string(date)?,
                results.join(",\n")
            ));
        }
        let raw = format!(
            "{{\"suite\":{},\"cases\":[\n{}\n],\"servers\":{{\n{}\n}}}}\n",
            serde_json::to_string(&self.suite)?,
            cases.join(",\n"),
            servers.join(",\n")
        );
        fs::write(directory.join("raw.json"), raw)?;
        let mut summary = format!(
            "# Rules of caches: {}\n\n`cargo xtask cache-tests SERVER… --write`; ids and reasons of what fails.\n\n{}\n",
            self.suite,
            self.tables()
        );
        for (server, measured) in self.all() {
            let text = measured.to_text(server.title());
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            let lines: String = lines.map(|line| format!("    {}\n", line.trim_end())).collect();
            let _ = write!(summary, "\n## {}\n\n{lines}", server.title());
        }
        Ok(fs::write(directory.join("summary.md"), summary)?)
    }

    /// Puts the tables into their place in a document; `from` is where the results lie, below the repository.
    pub(super) fn write_document(&self, document: &Path, from: &Path) -> Result<()> {
        let text = fs::read_to_string(document)?;
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        let source = format!(
            "Results of each case: [bench/runs/{name}](../bench/runs/{name}/summary.md), of `{}`.",
            self.suite
        );
        let filled = fill(&text, &format!("{}\n{source}\n", self.tables()));
        let filled = filled.ok_or_else(|| format!("{} has no {MARK}", document.display()))?;
        Ok(fs::write(document, filled)?)
    }

    fn all(&self) -> impl Iterator<Item = (Server, Measured)> {
        Server::ALL.into_iter().filter_map(|server| Some((server, self.measured(server)?)))
    }

    /// Servers with their counts, and groups with what fails in them.
    fn tables(&self) -> String {
        let mut text = "| | version | required: pass | fail | unreachable | not set up | optimal: pass | fail | unreachable \
                        | not set up | checks: yes, no | date |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
        for (server, measured) in self.all() {
            let cells = |kind| {
                let Counts { pass, fail, unreachable, setup } = measured.counts(kind);
                format!("{pass} | {fail} | {unreachable} | {setup}")
            };
            let checks = measured.counts(Kind::Check);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {}, {} | {} |",
                server.title(),
                measured.version,
                cells(Kind::Required),
                cells(Kind::Optimal),
                checks.pass,
                checks.fail,
                measured.date
            );
        }
        text + "\nFailed cases of each group, required + optimal (unreachable ones and those that were not set up are not \
                among them):\n\n"
            + &self.groups()
    }

    fn groups(&self) -> String {
        let servers: Vec<(Server, Measured)> = self.all().collect();
        // Cases for browsers are not run.
        let is_run = |id: &String| self.servers.values().any(|kept| kept.results.contains_key(id));
        let cases: Vec<&Known> =
            self.cases.iter().filter(|known| known.kind != Kind::Check && is_run(&known.id)).collect();
        let mut groups: Vec<&str> = Vec::new();
        for known in &cases {
            if !groups.contains(&known.group.as_str()) {
                groups.push(&known.group);
            }
        }
        let heads: Vec<&str> = servers.iter().map(|(server, _)| server.title()).collect();
        let mut text =
            format!("| group | cases | {} |\n|---|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
        for group in groups {
            let of = |measured: &Measured, kind: Kind| {
                let cases = measured.cases().filter(|case| case.group == group && case.kind == kind);
                Counts::of(cases)
            };
            let cell = |(_, measured): &(Server, Measured)| match [Kind::Required, Kind::Optimal]
                .map(|kind| of(measured, kind).fail)
            {
                [0, 0] => "–".to_owned(),
                [required, optimal] => format!("{required} + {optimal}"),
            };
            let [required, optimal] = [Kind::Required, Kind::Optimal]
                .map(|kind| cases.iter().filter(|known| known.group == group && known.kind == kind).count());
            let cells: Vec<String> = servers.iter().map(cell).collect();
            let _ = writeln!(text, "| {group} | {required} + {optimal} | {} |", cells.join(" | "));
        }
        text
    }
}

/// The document with this between its marks; `None` if it has none.
fn fill(document: &str, tables: &str) -> Option<String> {
    let (before, rest) = document.split_once(MARK)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{MARK}{tables}{END}{after}"))
}

/// The directory of the newest results below `runs`, or today's.
pub(super) fn newest(runs: &Path) -> Result<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(runs)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    found.retain(|path| path.to_string_lossy().ends_with("-cache-tests"));
    Ok(found.into_iter().max().unwrap_or_else(|| runs.join(format!("{}-cache-tests", today()))))
}

/// Today, as 2026-11-20.
fn today() -> String {
    let output = Command::new("date").arg("+%F").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(id: &str, kind: Kind, verdict: Verdict, reason: &str) -> Case {
        let group = if id.starts_with("vary") { "Vary" } else { "Age" }.to_owned();
        let (id, reason) = (id.to_owned(), reason.to_owned());
        Case { id, group, kind, verdict, reason, ..Case::default() }
    }

    fn measured() -> Measured {
        let cases = vec![
            case("age-1", Kind::Required, Verdict::Pass, ""),
            case("age-2", Kind::Optimal, Verdict::Fail, "not from cache"),
            case("age-3", Kind::Check, Verdict::No, "not from cache"),
            case("vary-1", Kind::Required, Verdict::Fail, "from cache"),
            case("vary-2", Kind::Required, Verdict::Unreachable, ""),
            case("vary-3", Kind::Required, Verdict::Retry, "retry"),
            case("vary-4", Kind::Required, Verdict::Untested, ""),
        ];
        Measured { version: "1.2-3".to_owned(), date: "2026-11-24".to_owned(), seconds: 30, cases }
    }

    #[test]
    fn each_kind_is_counted_by_itself_and_what_fails_is_named() {
        let measured = measured();
        let required = measured.counts(Kind::Required);
        assert_eq!(required, Counts { pass: 1, fail: 1, unreachable: 1, setup: 1 });
        let text = measured.to_text("nginx");
        assert!(text.contains("required   4:   1 pass,   1 fail,   1 unreachable,   1 not set up"), "{text}");
        assert!(text.contains("required fails: vary-1 (Vary): from cache"), "{text}");
        assert!(text.contains("optimal fails: age-2 (Age): not from cache"), "{text}");
        assert!(!text.contains("age-3"), "a check cannot fail: {text}");
    }

    #[test]
    fn results_are_kept_server_by_server() {
        let directory = tempfile::TempDir::new().unwrap();
        let mut run = Run::read(directory.path(), "suite@1").unwrap();
        run.take(Server::Nginx, measured());
        run.write(directory.path()).unwrap();
        let mut run = Run::read(directory.path(), "suite@1").unwrap();
        run.take(Server::Squid, measured());
        run.write(directory.path()).unwrap();
        let run = Run::read(directory.path(), "suite@1").unwrap();
        let kept = run.measured(Server::Nginx).unwrap();
        assert_eq!(kept.counts(Kind::Required), measured().counts(Kind::Required));
        let tables = run.tables();
        assert!(
            tables.contains("| nginx | 1.2-3 | 1 | 1 | 1 | 1 | 0 | 1 | 0 | 0 | 0, 1 | 2026-11-24 |"),
            "{tables}"
        );
        assert!(tables.contains("| Vary | 3 + 0 | 1 + 0 | 1 + 0 |"), "{tables}");
        assert!(Run::read(directory.path(), "suite@2").is_err());
    }

    #[test]
    fn tables_have_their_place_in_a_document() {
        let document = format!("before\n{MARK}old\n{END}\nafter\n");
        assert_eq!(fill(&document, "new\n").unwrap(), format!("before\n{MARK}new\n{END}\nafter\n"));
        assert!(fill("no place\n", "new\n").is_none());
    }

    #[test]
    fn the_newest_results_are_those_that_are_completed() {
        let runs = tempfile::TempDir::new().unwrap();
        assert!(newest(runs.path()).unwrap().to_string_lossy().ends_with("-cache-tests"));
        for name in ["2026-01-02-cache-tests", "2026-01-03-cache-tests", "2026-01-04-files"] {
            fs::create_dir(runs.path().join(name)).unwrap();
        }
        assert!(newest(runs.path()).unwrap().ends_with("2026-01-03-cache-tests"));
    }
}
