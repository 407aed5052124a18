//! What is kept of a run: raw figures, environment, and a table of ratios against the budgets.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::applications::Table;
use super::documents::{Figures, Shown};
use super::peers::{Kind, said};
use super::verdicts;
use crate::Result;

/// What a scenario may cost.
#[derive(Debug, Clone, Copy)]
pub(super) enum Budget {
    /// At most this many times the floor of the same run.
    Floor(f64),
    /// At most this many times nginx in the same run.
    Nginx(f64),
    /// At most so many times each of these in the same run.
    Peers(&'static [(&'static str, f64)]),
    /// At most this much, in the scenario's own unit.
    Absolute(f64),
    /// None is set.
    None,
}

/// One server's figure.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) server: &'static str,
    /// In the scenario's unit; less is better.
    pub(super) cost: f64,
    pub(super) note: String,
    /// Requests that failed; any of Maitred's breaks the budget.
    pub(super) failures: u64,
}

/// What one scenario gave.
#[derive(Debug)]
pub(super) struct Outcome {
    name: &'static str,
    what: &'static str,
    budget: Budget,
    unit: &'static str,
    rows: Vec<Row>,
    raw: Value,
}

impl Outcome {
    pub(super) fn new(
        name: &'static str,
        what: &'static str,
        budget: Budget,
        unit: &'static str,
        rows: Vec<Row>,
        raw: Value,
    ) -> Outcome {
        Outcome { name, what, budget, unit, rows, raw }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// CPU time of one server in units of another's; `None` where something else was measured.
    pub(super) fn beside(&self, server: &str, base: &str) -> Option<f64> {
        let row =
            self.rows.iter().find(|row| row.server == server).filter(|_| self.unit.starts_with("CPU"))?;
        self.ratio(row, base)
    }

    fn cost_of(&self, server: &str) -> Option<f64> {
        self.rows.iter().find(|row| row.server == server).map(|row| row.cost)
    }

    fn ratio(&self, row: &Row, base: &str) -> Option<f64> {
        self.cost_of(base).filter(|&base| base > 0.0).map(|base| row.cost / base)
    }

    /// The budget in words, and whether Maitred keeps it; `None` where it cannot be decided.
    fn verdict(&self) -> (String, Option<bool>) {
        let row = self.rows.iter().find(|row| row.server == "maitred");
        let within =
            |figure: Option<f64>, most: f64| row.and_then(|row| Some(figure? <= most && row.failures == 0));
        match self.budget {
            Budget::Floor(most) => {
                (format!("≤ {most} × floor"), within(row.and_then(|row| self.ratio(row, "floor")), most))
            }
            Budget::Nginx(most) => {
                (format!("≤ {most} × nginx"), within(row.and_then(|row| self.ratio(row, "nginx")), most))
            }
            Budget::Peers(peers) => {
                let words = peers.iter().map(|(peer, most)| format!("≤ {most} × {peer}"));
                let each =
                    peers.iter().map(|&(peer, most)| within(row.and_then(|row| self.ratio(row, peer)), most));
                // A peer that was not measured leaves it open, unless another has decided it.
                let missed = each.clone().any(|kept| kept == Some(false));
                let kept =
                    if missed { Some(false) } else { each.collect::<Option<Vec<bool>>>().map(|_| true) };
                (words.collect::<Vec<_>>().join(", "), kept)
            }
            Budget::Absolute(most) => {
                (format!("≤ {most} {}", self.unit), within(row.map(|row| row.cost), most))
            }
            Budget::None => ("none".to_owned(), None),
        }
    }

    /// What documents show of it.
    pub(super) fn figures(&self) -> Figures {
        let (budget, kept) = self.verdict();
        let rows = self.rows.iter().map(|row| (row.server.to_owned(), row.cost));
        let failures = self.rows.iter().filter(|row| row.failures > 0);
        Figures {
            name: self.name.to_owned(),
            unit: self.unit.to_owned(),
            budget,
            kept,
            rows: rows.collect(),
            failures: failures.map(|row| (row.server.to_owned(), row.failures)).collect(),
        }
    }

    /// The scenario as a section of the summary.
    pub(super) fn to_markdown(&self) -> String {
        let (budget, kept) = self.verdict();
        let verdict = match kept {
            Some(true) => "kept",
            Some(false) => "**missed**",
            None => "not told",
        };
        let mut text = format!("## {}\n\n{}. Budget: {budget}: {verdict}.\n\n", self.name, self.what);
        // A column in which nothing stands is left out.
        let mut columns: Vec<(String, Vec<String>)> = Vec::new();
        for base in ["floor", "nginx"] {
            let show = |ratio: f64| {
                if (f64::MIN_POSITIVE..0.005).contains(&ratio) {
                    "< 0.01".to_owned()
                } else {
                    format!("{ratio:.2}")
                }
            };
            let ratios = self.rows.iter().map(|row| self.ratio(row, base).map(show));
            if let Some(ratios) = ratios.collect() {
                columns.push((format!("× {base}"), ratios));
            }
        }
        if !self.unit.starts_with("CPU") {
            let own = self.rows.iter().map(|row| format!("{:.2}", row.cost));
            columns.push((self.unit.to_owned(), own.collect()));
        }
        let heads: Vec<&str> = columns.iter().map(|(head, _)| head.as_str()).collect();
        let line = "---|".repeat(columns.len() + 2);
        let _ = writeln!(text, "| server | {} | |\n|{line}", heads.join(" | "));
        for (number, row) in self.rows.iter().enumerate() {
            let cells: Vec<&str> =
                columns.iter().filter_map(|(_, cells)| cells.get(number).map(String::as_str)).collect();
            let _ = writeln!(text, "| {} | {} | {} |", row.server, cells.join(" | "), row.note);
        }
        text
    }
}

/// What the figures depend on.
pub(super) fn environment(peers: &[Kind], cpus: usize) -> Value {
    let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let mut environment = json!({
        "kernel": said("uname", &["-srm"]),
        "cpu": model.trim_start_matches([' ', '\t', ':']),
        "cpus": cpus,
        "load_average": fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
        "commit": said("git", &["describe", "--always", "--dirty"]),
        "rustc": said("rustc", &["--version"]),
        "cc": said("cc", &["--version"]),
        "wrk": said("wrk", &["-v"]),
        "h2load": said("h2load", &["--version"]),
        "python": said("python3", &["--version"]),
        "strace": said("strace", &["--version"]),
        "varnish": said("varnishd", &["-V"]),
    });
    for kind in peers {
        if let Some((program, _)) = kind.program() {
            environment[program] = said(program, &[kind.version_argument()]).into();
        }
    }
    environment
}

/// Today, as 2026-11-20.
pub(super) fn today() -> String {
    said("date", &["+%F"])
}

/// Everything that is kept of a run.
pub(super) struct Kept<'a> {
    pub(super) method: &'a str,
    pub(super) environment: &'a Value,
    pub(super) outcomes: &'a [Outcome],
    pub(super) shown: &'a Shown,
    pub(super) tables: &'a [Table],
}

/// Writes `summary.md`, `raw.json` and the pictures into a directory.
pub(super) fn write(directory: &Path, kept: &Kept<'_>) -> Result<()> {
    fs::create_dir_all(directory)?;
    let mut summary = format!("# Benchmark run of {}\n\n{}\n\n", today(), kept.method);
    for (key, value) in kept.environment.as_object().into_iter().flatten() {
        let _ = writeln!(summary, "- {key}: {}", value.as_str().map_or(value.to_string(), str::to_owned));
    }
    let (environment, figures) = (kept.environment, &kept.shown.figures);
    let mut raw = json!({ "environment": environment, "figures": figures, "scenarios": {} });
    for outcome in kept.outcomes {
        let _ = write!(summary, "\n{}", outcome.to_markdown());
        raw["scenarios"][outcome.name] = outcome.raw.clone();
    }
    for grid in &kept.shown.grids {
        let _ = write!(summary, "\n{}", grid.to_markdown());
        let verdict = verdicts::verdict(grid, kept.shown.cpus).map(|verdict| format!("{verdict}\n"));
        for said in verdicts::budgets(grid).into_iter().chain(verdict) {
            let _ = write!(summary, "\n{said}");
        }
        raw["scenarios"][&grid.name] = serde_json::to_value(grid)?;
        if let Some(svg) = grid.svg() {
            fs::write(directory.join(format!("{}.svg", grid.name)), svg)?;
        }
    }
    for table in kept.tables {
        let _ = write!(summary, "\n{}", table.to_markdown());
        raw["scenarios"][table.name] = serde_json::to_value(table)?;
    }
    fs::write(directory.join("summary.md"), summary)?;
    fs::write(directory.join("raw.json"), serde_json::to_string_pretty(&raw)? + "\n")?;
    if let Some(svg) = super::plot::svg(kept.outcomes) {
        fs::write(directory.join("ratios.svg"), svg)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(budget: Budget, maitred: f64, failures: u64) -> Outcome {
        let row = |server, cost, failures| Row { server, cost, note: String::new(), failures };
        let rows = vec![row("floor", 4.0, 0), row("maitred", maitred, failures), row("nginx", 8.0, 0)];
        Outcome::new("name", "what", budget, "CPU per request", rows, Value::Null)
    }

    #[test]
    fn budgets_are_ratios_of_the_same_run() {
        assert_eq!(outcome(Budget::Floor(1.15), 4.4, 0).verdict().1, Some(true));
        assert_eq!(outcome(Budget::Floor(1.15), 4.8, 0).verdict().1, Some(false));
        assert_eq!(outcome(Budget::Nginx(0.95), 7.2, 0).verdict().1, Some(true));
        assert_eq!(outcome(Budget::Nginx(0.95), 8.0, 0).verdict().1, Some(false));
        assert_eq!(outcome(Budget::None, 8.0, 0).verdict().1, None);
        let both = |h2o| {
            Budget::Peers(if h2o {
                &[("nginx", 0.5), ("h2o", 1.0)]
            } else {
                &[("nginx", 0.5), ("floor", 1.0)]
            })
        };
        assert_eq!(outcome(both(false), 4.0, 0).verdict().1, Some(true));
        assert_eq!(outcome(both(false), 4.1, 0).verdict().1, Some(false));
        // H2O was not measured.
        assert_eq!(outcome(both(true), 4.0, 0).verdict().1, None);
        assert_eq!(outcome(both(true), 4.1, 0).verdict().1, Some(false));
    }

    #[test]
    fn no_column_is_empty() {
        let text = outcome(Budget::None, 4.0, 0).to_markdown();
        assert!(text.contains("| server | × floor | × nginx | |\n|---|---|---|---|\n"), "{text}");
        assert!(text.contains("| maitred | 1.00 | 0.50 |  |"), "{text}");
        let rows = vec![Row { server: "maitred", cost: 3.0, note: "5 starts".to_owned(), failures: 0 }];
        let text = Outcome::new("start", "what", Budget::None, "ms", rows, Value::Null).to_markdown();
        assert!(text.contains("| server | ms | |\n|---|---|---|\n| maitred | 3.00 | 5 starts |"), "{text}");
    }

    #[test]
    fn failed_requests_break_any_budget() {
        assert_eq!(outcome(Budget::Floor(1.15), 4.0, 1).verdict().1, Some(false));
    }
}
