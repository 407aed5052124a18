//! The table of applications: a row for each way of running one under each load.

use std::fmt::Write as _;

use serde::Serialize;

use super::super::grid::Cell;
use super::super::load::{Round, milliseconds};
use super::super::median;

/// What a row is compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in super::super) enum Place {
    Alone,
    Nginx,
    Caddy,
    Maitred,
}

/// One measurement.
#[derive(Debug, Serialize)]
pub(in super::super) struct Row {
    /// With the version of its framework.
    pub(super) application: String,
    pub(super) load: String,
    pub(super) over: &'static str,
    pub(super) place: Place,
    /// Peers with their versions and options.
    pub(super) server: String,
    /// Without the place at which it listens.
    pub(super) command: String,
    #[serde(flatten)]
    pub(super) cell: Cell,
}

/// All of them.
#[derive(Debug, Serialize)]
pub(in super::super) struct Table {
    pub(in super::super) name: &'static str,
    pub(super) what: &'static str,
    pub(in super::super) rows: Vec<Row>,
}

impl Table {
    /// What the best of a place costs for the same application, load and protocol.
    fn best(&self, row: &Row, place: Place) -> Option<f64> {
        let same = |other: &&Row| {
            other.place == place
                && (&other.application, &other.load, other.over) == (&row.application, &row.load, row.over)
        };
        let costs = self.rows.iter().filter(same).filter_map(|other| other.cell.cost());
        costs.filter(|&cost| cost > 0.0).min_by(f64::total_cmp)
    }

    /// The table, the commands in it, and why what is absent is.
    pub(in super::super) fn to_markdown(&self) -> String {
        let mut text = format!(
            "## {}\n\n{}.\n\n| application | load | over | server | CPU µs | × alone | × nginx | requests/s | median, 99 % in ms |\n\
             |---|---|---|---|---|---|---|---|---|\n",
            self.name, self.what
        );
        for row in &self.rows {
            let ratio = |place: Place| match (row.cell.cost(), self.best(row, place)) {
                (Some(cost), Some(best)) => format!("{:.2}", cost / best),
                _ => "–".to_owned(),
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                row.application,
                row.load,
                row.over,
                row.server,
                cost(&row.cell),
                ratio(Place::Alone),
                ratio(Place::Nginx),
                speed(&row.cell)
            );
        }
        text + &self.commands() + &self.absences()
    }

    fn commands(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for row in &self.rows {
            let line = format!("| {} | {} | `{}` |\n", row.application, row.server, row.command);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        format!(
            "\nCommands of the applications:\n\n| application | server | command |\n|---|---|---|\n{}",
            lines.concat()
        )
    }

    /// One line for each reason.
    fn absences(&self) -> String {
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for row in &self.rows {
            let Cell::Absent(why) = &row.cell else { continue };
            let place = format!("{}, {}, {}, {}", row.application, row.load, row.over, row.server);
            match reasons.iter_mut().find(|(known, _)| known == why) {
                Some((_, places)) => places.push(place),
                None => reasons.push((why, vec![place])),
            }
        }
        if reasons.is_empty() {
            return String::new();
        }
        let lines = reasons.iter().map(|(why, places)| format!("- {}: {why}\n", places.join("; ")));
        format!("\nAbsent:\n\n{}", lines.collect::<String>())
    }
}

fn cost(cell: &Cell) -> String {
    cell.cost().map_or_else(|| "–".to_owned(), |cost| format!("{cost:.1}"))
}

/// Requests per second, with the errors if there are any, and latencies; of generators without percentiles the mean.
fn speed(cell: &Cell) -> String {
    let Cell::Measured(rounds) = cell else { return "absent | –".to_owned() };
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
    let errors: u64 = rounds.iter().map(|round| round.wrk.errors()).sum();
    let errors = if errors == 0 { String::new() } else { format!(", **{errors} errors**") };
    let rate = of(|round| round.requests_per_second);
    let means: Option<Vec<f64>> = rounds.iter().map(|round| round.wrk.mean.map(|mean| mean as f64)).collect();
    let latency = match means {
        Some(means) => format!("mean {}", milliseconds(median(means.into_iter()))),
        None => {
            let (middle, slow) = (of(|round| round.wrk.p50 as f64), of(|round| round.wrk.p99 as f64));
            format!("{}, {}", milliseconds(middle), milliseconds(slow))
        }
    };
    format!("{rate:.0}{errors} | {latency}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::load::Report;

    fn row(place: Place, server: &str, cost: f64, errors: u64) -> Row {
        let wrk = Report { requests: 1000, microseconds: 1_000_000, timeouts: errors, ..Report::default() };
        let round = Round {
            server_user_us: cost,
            server_system_us: 0.0,
            client_us: 0.0,
            requests_per_second: 1e3,
            counts_client: false,
            wrk,
        };
        Row {
            application: "wsgi".to_owned(),
            load: "1 KB".to_owned(),
            over: "HTTP/1.1",
            place,
            server: server.to_owned(),
            command: format!("run {server}"),
            cell: Cell::Measured(vec![round]),
        }
    }

    #[test]
    fn ratios_are_to_the_best_alone_and_the_best_behind_nginx() {
        let mut rows = vec![
            row(Place::Alone, "slow", 200.0, 0),
            row(Place::Alone, "fast", 100.0, 0),
            row(Place::Nginx, "nginx", 150.0, 0),
            row(Place::Maitred, "Maitred", 120.0, 3),
            row(Place::Caddy, "Caddy", 0.0, 0),
        ];
        rows[4].cell = Cell::Absent("no compiler".to_owned());
        // Another protocol is not compared with.
        rows.push(Row { over: "HTTP/2", ..row(Place::Maitred, "Maitred", 50.0, 0) });
        let text = Table { name: "applications", what: "What", rows }.to_markdown();
        assert!(text.contains("| slow | 200.0 | 2.00 | 1.33 | 1000 | –, – |"), "{text}");
        assert!(text.contains("| Maitred | 120.0 | 1.20 | 0.80 | 1000, **3 errors** | –, – |"), "{text}");
        assert!(text.contains("| HTTP/2 | Maitred | 50.0 | – | – |"), "{text}");
        assert!(text.contains("| Caddy | – | – | – | absent | – |"), "{text}");
        assert!(text.contains("- wsgi, 1 KB, HTTP/1.1, Caddy: no compiler"), "{text}");
        assert_eq!(text.matches("| wsgi | Maitred | `run Maitred` |").count(), 1, "{text}");
    }
}
