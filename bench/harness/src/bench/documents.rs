//! The places in the documents that a run fills: tables, figures and verdicts. What stands there is never written by hand.
//!
//! | place | what |
//! |---|---|
//! | `<!-- bench: NAME -->` | the table of a scenario that has one |
//! | `<!-- budgets: NAME -->` | the budgets that such a table is measured by |
//! | `<!-- verdict: NAME -->` | what such a table says about a claim |
//! | `<!-- figures: NAME… -->` | a row for each of these scenarios, if a run has all of them |
//!
//! Each ends with `<!-- end -->`. A run fills what it has measured, and leaves the rest alone.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::grid::Grid;
use super::verdicts;
use crate::Result;

/// Documents with places.
const DOCUMENTS: [&str; 2] = ["docs/performance.md", "docs/applications.md"];
const END: &str = "<!-- end -->";

/// What documents show of a scenario without a table.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) name: String,
    /// What a server's figure counts; those of CPU time are shown in units of the floor.
    pub(super) unit: String,
    /// The budget, in words.
    pub(super) budget: String,
    /// Whether it was kept; `None` where that cannot be decided.
    pub(super) kept: Option<bool>,
    /// Each server's figure.
    pub(super) rows: Vec<(String, f64)>,
    /// Requests that failed, of the servers that had any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) failures: Vec<(String, u64)>,
}

/// What of a run goes into documents.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) grids: Vec<Grid>,
    pub(super) figures: Vec<Figures>,
    pub(super) cpus: usize,
}

impl Shown {
    /// What a run kept in its `raw.json`.
    pub(super) fn read(run: &Path) -> Result<Shown> {
        let path = run.join("raw.json");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut raw: Value = serde_json::from_str(&text)?;
        let cpus = raw["environment"]["cpus"].as_u64().ok_or("the run does not say how many CPUs it had")?;
        let figures = match raw["figures"].take() {
            Value::Null => Vec::new(),
            figures => serde_json::from_value(figures)?,
        };
        let scenarios = raw["scenarios"].as_object_mut().map(std::mem::take).unwrap_or_default();
        // Scenarios without a table have another form.
        let grids = scenarios.into_values().filter_map(|value| serde_json::from_value(value).ok());
        Ok(Shown { grids: grids.collect(), figures, cpus: cpus as usize })
    }

    /// Fills the places in the documents. `run` is below the repository.
    pub(super) fn write(&self, repository: &Path, run: &Path) -> Result<()> {
        let has_picture = |name: &str| run.join(name).exists();
        let run = run.strip_prefix(repository).map_err(|_| "documents show runs below bench/runs only")?;
        for document in DOCUMENTS {
            let path = repository.join(document);
            let text = fs::read_to_string(&path)?;
            fs::write(path, self.fill(&text, run, &has_picture))?;
        }
        Ok(())
    }

    /// The document with everything in its place.
    fn fill(&self, document: &str, run: &Path, has_picture: &dyn Fn(&str) -> bool) -> String {
        let picture = |what: &str, name: &str| match has_picture(name) {
            true => format!("![{what}](../{}/{name})\n\n", run.display()),
            false => String::new(),
        };
        let mut text = document.to_owned();
        for grid in &self.grids {
            let what = format!("{}: CPU time per request, {} = 1", grid.name, grid.base);
            // Two rows are seen at a glance.
            let drawn = if grid.rows.len() > 2 {
                picture(&what, &format!("{}.svg", grid.name))
            } else {
                String::new()
            };
            let table = format!("{}\n{drawn}{}\n", grid.table(), source(run, &grid.name));
            text = replace(&text, &format!("<!-- bench: {} -->\n", grid.name), &table);
            if let Some(budgets) = verdicts::budgets(grid) {
                text = replace(&text, &format!("<!-- budgets: {} -->\n", grid.name), &budgets);
            }
            if let Some(verdict) = verdicts::verdict(grid, self.cpus) {
                text = replace(&text, &format!("<!-- verdict: {} -->\n", grid.name), &format!("{verdict}\n"));
            }
        }
        let marks: Vec<String> =
            text.lines().filter(|line| line.starts_with("<!-- figures: ")).map(str::to_owned).collect();
        for mark in marks {
            let names = mark.trim_start_matches("<!-- figures: ").trim_end_matches(" -->");
            let names: Vec<&str> = names.split(' ').collect();
            if let Some(table) = self.figures_table(&names) {
                let shows_cpu =
                    self.figures.iter().any(|figures| figures.is_cpu() && names.contains(&&*figures.name));
                let drawn = if shows_cpu {
                    picture("CPU time per request, nginx = 1", "ratios.svg")
                } else {
                    String::new()
                };
                let table = format!("{table}\n{drawn}{}\n", source(run, &names.join(" ")));
                text = replace(&text, &format!("{mark}\n"), &table);
            }
        }
        text
    }

    /// A row for each scenario; `None` unless all of them were measured.
    fn figures_table(&self, names: &[&str]) -> Option<String> {
        let found = |name: &&str| self.figures.iter().find(|figures| figures.name == **name);
        let scenarios: Vec<&Figures> = names.iter().map(found).collect::<Option<_>>()?;
        let mut servers: Vec<&str> = Vec::new();
        for (server, _) in scenarios.iter().flat_map(|figures| &figures.rows) {
            if !servers.contains(&server.as_str()) {
                servers.push(server);
            }
        }
        let line = "---|".repeat(servers.len());
        let mut text = format!("| | {} | budget |\n|---|{line}---|\n", servers.join(" | "));
        for figures in scenarios {
            let cells: Vec<String> = servers.iter().map(|server| figures.cell(server)).collect();
            let kept = match figures.kept {
                Some(true) => ": kept",
                Some(false) => ": **missed**",
                None => "",
            };
            let (name, budget) = (figures.label(), &figures.budget);
            let _ = writeln!(text, "| {name} | {} | {budget}{kept} |", cells.join(" | "));
        }
        Some(text)
    }
}

impl Figures {
    fn is_cpu(&self) -> bool {
        self.unit.starts_with("CPU")
    }

    fn label(&self) -> String {
        if self.is_cpu() { self.name.clone() } else { format!("{}, {}", self.name, self.unit) }
    }

    /// CPU time in units of the floor, or of nginx without one; anything else as it is.
    fn cell(&self, server: &str) -> String {
        let of = |name: &str| self.rows.iter().find(|(server, _)| server == name).map(|(_, cost)| *cost);
        let base = if self.is_cpu() { of("floor").or(of("nginx")) } else { Some(1.0) };
        let figure = match of(server).zip(base.filter(|&base| base > 0.0)) {
            Some((cost, base)) if cost / base >= 100.0 => format!("{:.0}", cost / base),
            Some((cost, base)) => format!("{:.2}", cost / base),
            None => return "–".to_owned(),
        };
        match self.failures.iter().find(|(of, _)| of == server) {
            Some((_, failures)) => format!("{figure}, **{failures} errors**"),
            None => figure,
        }
    }
}

fn source(run: &Path, names: &str) -> String {
    let run = run.display();
    format!("Data: [{run}](../{run}/summary.md), `cargo xtask bench {names}`.")
}

/// Puts something between a mark and the end behind it, wherever the mark stands.
fn replace(document: &str, mark: &str, content: &str) -> String {
    let parts = document.split_once(mark).and_then(|(before, rest)| Some((before, rest.split_once(END)?)));
    match parts {
        Some((before, (_, after))) => format!("{before}{mark}{content}{END}{after}"),
        None => document.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> Shown {
        let [name, what, corner, base] = ["defer", "what", "load", "at once"].map(str::to_owned);
        let grid = Grid { name, what, corner, base, columns: Vec::new(), rows: Vec::new() };
        let rows = |cost| vec![("floor".to_owned(), 2.0), ("maitred".to_owned(), cost)];
        let figures = |name: &str, unit: &str, cost| Figures {
            name: name.to_owned(),
            unit: unit.to_owned(),
            budget: "≤ 1 × nginx".to_owned(),
            kept: Some(cost < 4.0),
            rows: rows(cost),
            failures: if name == "b" { vec![("floor".to_owned(), 3)] } else { Vec::new() },
        };
        let figures = vec![figures("a", "CPU per request", 3.0), figures("b", "bytes", 900.0)];
        Shown { grids: vec![grid], figures, cpus: 2 }
    }

    #[test]
    fn a_table_comes_into_its_place_and_nothing_else_changes() {
        let document = "above\n<!-- bench: defer -->\nnot yet\n<!-- end -->\nbelow <!-- bench: handoff -->\nx<!-- end -->\n";
        let filled = shown().fill(document, Path::new("bench/runs/one"), &|_| true);
        assert!(filled.starts_with("above\n<!-- bench: defer -->\n| load |"), "{filled}");
        assert!(filled.contains("bench/runs/one/summary.md") && !filled.contains("not yet"), "{filled}");
        assert!(filled.ends_with("<!-- end -->\nbelow <!-- bench: handoff -->\nx<!-- end -->\n"), "{filled}");
    }

    #[test]
    fn figures_are_shown_when_all_were_measured() {
        let document = |names: &str| format!("<!-- figures: {names} -->\nnot yet\n<!-- end -->\n");
        let filled = shown().fill(&document("a b"), Path::new("run"), &|_| false);
        assert!(filled.contains("| a | 1.00 | 1.50 | ≤ 1 × nginx: kept |"), "{filled}");
        assert!(
            filled.contains("| b, bytes | 2.00, **3 errors** | 900 | ≤ 1 × nginx: **missed** |"),
            "{filled}"
        );
        assert!(!filled.contains("!["), "{filled}");
        assert_eq!(shown().fill(&document("a c"), Path::new("run"), &|_| true), document("a c"));
        let drawn =
            |names: &str| shown().fill(&document(names), Path::new("run"), &|name| name == "ratios.svg");
        assert!(
            drawn("a").contains("\n\n![CPU time per request, nginx = 1](../run/ratios.svg)\n\nData: "),
            "{}",
            drawn("a")
        );
        assert!(!drawn("b").contains("!["), "bytes are not in the picture");
    }
}
