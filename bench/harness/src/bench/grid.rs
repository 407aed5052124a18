//! Scenarios that are a table: the same thing in several ways (columns), under several loads (rows).

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::load::{self, Asked, Round, milliseconds};
use super::server::Running;
use super::{Bench, median};
use crate::Result;

/// A table of measurements.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Grid {
    pub(super) name: String,
    pub(super) what: String,
    /// What the rows are, as the head of their column.
    pub(super) corner: String,
    /// The column that the others are compared with.
    pub(super) base: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Line>,
}

/// A row.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) label: String,
    /// Where it stands on a logarithmic axis, if the rows are sizes.
    pub(super) size: Option<f64>,
    /// Cells in the order of the columns.
    pub(super) cells: Vec<Cell>,
}

/// What one column gave in one row.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Cell {
    /// Rounds of the measurement.
    #[serde(rename = "rounds")]
    Measured(Vec<Round>),
    /// Why there are none.
    #[serde(rename = "absent")]
    Absent(String),
}

/// One way of doing it: a server that runs, or why it does not; and what is asked of it.
pub(super) struct Way {
    pub(super) server: Result<Running>,
    pub(super) path: String,
    /// Length of the response's body, as far as it is the same for all requests; 0 if not.
    pub(super) body_bytes: u64,
}

/// The generator of a row: one round of load on a server.
pub(super) type Generate<'a> = dyn Fn(&Running, &str) -> Result<Round> + 'a;

/// Measures all ways in interleaved rounds with wrk.
pub(super) fn measure(
    bench: &Bench,
    label: &str,
    size: Option<f64>,
    connections: u32,
    ways: Vec<Way>,
) -> Line {
    measure_with(bench, label, size, ways, &|server, path| {
        load::round(bench, server, Asked { path, script: "plain.lua", connections, close: false })
    })
}

/// The same with any generator. A first round of each way is for warming, and is dropped.
pub(super) fn measure_with(
    bench: &Bench,
    label: &str,
    size: Option<f64>,
    ways: Vec<Way>,
    generate: &Generate<'_>,
) -> Line {
    let mut columns: Vec<(Way, Cell)> =
        ways.into_iter().map(|way| (way, Cell::Measured(Vec::new()))).collect();
    for number in 0..=bench.rounds {
        for (way, cell) in &mut columns {
            let Cell::Measured(rounds) = cell else { continue };
            let result = match &way.server {
                Ok(server) => generate(server, &way.path)
                    .and_then(|round| round.wrk.check(&server.name, way.body_bytes).map(|()| round)),
                Err(error) => Err(in_short(&error.to_string()).into()),
            };
            match result {
                Ok(round) if number > 0 => rounds.push(round),
                Ok(_) => {}
                Err(error) => *cell = Cell::Absent(error.to_string()),
            }
        }
    }
    let cells: Vec<Cell> = columns.into_iter().map(|(_, cell)| cell).collect();
    let costs = cells.iter().map(|cell| cell.cost().map_or("–".to_owned(), |cost| format!("{cost:.1}")));
    eprintln!("  {label}: {} µs", costs.collect::<Vec<_>>().join(" "));
    Line { label: label.to_owned(), size, cells }
}

/// A row without any measurement, and why.
pub(super) fn absent(label: &str, size: Option<f64>, columns: usize, why: &str) -> Line {
    let cells = (0..columns).map(|_| Cell::Absent(why.to_owned())).collect();
    Line { label: label.to_owned(), size, cells }
}

/// What a server says when it does not start may be long: what happened, and its last lines.
fn in_short(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let last = lines.next_back().unwrap_or_default();
    format!("{first} {last}").trim().chars().take(240).collect()
}

impl Cell {
    /// Median CPU time per request, in microseconds.
    pub(super) fn cost(&self) -> Option<f64> {
        let Cell::Measured(rounds) = self else { return None };
        (!rounds.is_empty()).then(|| median(rounds.iter().map(Round::cost)))
    }

    /// Median of the requests per second.
    pub(super) fn throughput(&self) -> Option<f64> {
        let Cell::Measured(rounds) = self else { return None };
        (!rounds.is_empty()).then(|| median(rounds.iter().map(|round| round.requests_per_second)))
    }

    fn errors(&self) -> u64 {
        let Cell::Measured(rounds) = self else { return 0 };
        rounds.iter().map(|round| round.wrk.errors()).sum()
    }

    /// Requests per second, the middle latency, and the slow one.
    fn details(&self) -> String {
        let Cell::Measured(rounds) = self else { return "absent".to_owned() };
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
        format!(
            "{:.0}/s, {}, {}",
            of(|round| round.requests_per_second),
            milliseconds(of(|round| round.wrk.p50 as f64)),
            milliseconds(of(|round| round.wrk.p99 as f64)),
        )
    }
}

impl Grid {
    fn base(&self, line: &Line) -> Option<f64> {
        let at = self.columns.iter().position(|column| *column == self.base)?;
        line.cells.get(at)?.cost().filter(|&cost| cost > 0.0)
    }

    /// Each cell in units of the base; `None` where one of them is absent.
    pub(super) fn ratios(&self, line: &Line) -> Vec<Option<f64>> {
        let base = self.base(line);
        line.cells.iter().map(|cell| Some(cell.cost()? / base?)).collect()
    }

    /// The head of a table: the columns' names, and the line below it.
    fn head(&self) -> String {
        let line = "---|".repeat(self.columns.len());
        format!("| {} | {} |\n|---|{line}\n", self.corner, self.columns.join(" | "))
    }

    /// The table of ratios, with what failed.
    pub(super) fn table(&self) -> String {
        let mut text = self.head();
        for line in &self.rows {
            let show = |(ratio, cell): (Option<f64>, &Cell)| match (ratio, cell.errors()) {
                (None, _) => "–".to_owned(),
                (Some(ratio), 0) => format!("{ratio:.2}"),
                (Some(ratio), errors) => format!("{ratio:.2}, **{errors} errors**"),
            };
            let cells: Vec<String> = self.ratios(line).into_iter().zip(&line.cells).map(show).collect();
            let _ = writeln!(text, "| {} | {} |", line.label, cells.join(" | "));
        }
        text
    }

    /// Two tables, and why what is absent is.
    pub(super) fn to_markdown(&self) -> String {
        let (head, table) = (self.head(), self.table());
        let mut text = format!(
            "## {}\n\n{}.\n\nCPU time per request, × {}:\n\n{table}",
            self.name, self.what, self.base
        );
        let _ = write!(text, "\nRequests per second; median and 99 % latency in ms:\n\n{head}");
        for line in &self.rows {
            let cells: Vec<String> = line.cells.iter().map(Cell::details).collect();
            let _ = writeln!(text, "| {} | {} |", line.label, cells.join(" | "));
        }
        let absences = self.absences();
        if !absences.is_empty() {
            let _ = write!(text, "\nAbsent:\n\n{absences}");
        }
        text
    }

    /// One line for each reason.
    fn absences(&self) -> String {
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for line in &self.rows {
            for (column, cell) in self.columns.iter().zip(&line.cells) {
                let Cell::Absent(why) = cell else { continue };
                let place = format!("{} {column}", line.label);
                match reasons.iter_mut().find(|(known, _)| known == why) {
                    Some((_, places)) => places.push(place),
                    None => reasons.push((why, vec![place])),
                }
            }
        }
        reasons
            .iter()
            .fold(String::new(), |text, (why, places)| format!("{text}- {}: {why}\n", places.join(", ")))
    }

    /// The table as a picture; `None` if there is nothing to compare.
    pub(super) fn svg(&self) -> Option<String> {
        super::plot::grid(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::load::Report;

    fn cell(cost: f64, errors: u64) -> Cell {
        let wrk = Report { requests: 1000, microseconds: 1_000_000, timeouts: errors, ..Report::default() };
        let (server_user_us, server_system_us) = (cost / 2.0, cost / 2.0);
        Cell::Measured(vec![Round {
            server_user_us,
            server_system_us,
            client_us: 0.0,
            requests_per_second: 1e3,
            counts_client: false,
            wrk,
        }])
    }

    fn grid(cells: Vec<Cell>) -> Grid {
        let columns = ["floor", "direct", "nginx"].map(str::to_owned).into();
        let rows = vec![Line { label: "1 KB".to_owned(), size: Some(1024.0), cells }];
        let [name, what, corner, base] = ["name", "what", "size", "floor"].map(str::to_owned);
        Grid { name, what, corner, base, columns, rows }
    }

    #[test]
    fn ratios_errors_and_absences_are_shown() {
        let grid = grid(vec![cell(4.0, 0), cell(6.0, 3), Cell::Absent("no nginx".to_owned())]);
        let text = grid.to_markdown();
        assert!(text.contains("| 1 KB | 1.00 | 1.50, **3 errors** | – |"), "{text}");
        assert!(text.contains("- 1 KB nginx: no nginx"), "{text}");
        assert!(grid.svg().is_some_and(|svg| svg.starts_with("<svg") && svg.contains("direct")));
    }

    #[test]
    fn without_the_base_there_are_no_ratios() {
        let grid = grid(vec![Cell::Absent("gone".to_owned()), cell(6.0, 0), cell(9.0, 0)]);
        assert!(grid.to_markdown().contains("| 1 KB | – | – | – |"));
        assert!(grid.svg().is_none());
    }
}
