//! What a run says about the claims of others (docs/performance.md), in words that follow from its figures alone.

use super::grid::{Cell, Grid, Line};

/// Of every 1,300 connections, 500 were left by passing descriptors in 2001.
const LEFT_IN_2001: f64 = 38.0;
/// What should be left at 1 KB: a cost of 1.33 × accepting directly.
const LEFT_AIM: f64 = 75.0;
/// Machines of the discussions: 32 hardware threads and more (2014), 8 virtual CPUs (2023). Half of this machine's are the
/// server's.
const CPUS_2014: usize = 2 * 32;
const CPUS_2023: usize = 2 * 8;
/// Ratios that are nearer to 1 than this are not told from noise.
const NOISE: f64 = 0.1;

/// Size, column, most, and in units of which column.
type Budget = (&'static str, &'static str, f64, &'static str);

/// Budgets of what comes from the cache: nearly as cheap as a file.
const OF_HITS: [Budget; 4] = [
    ("1 KB", "maitred", 1.2, "file"),
    ("1 KB", "maitred", 0.5, "nginx"),
    ("100 KB", "maitred", 1.2, "file"),
    ("100 KB", "maitred", 0.5, "nginx"),
];
/// Budgets of what applications answer (PERFORMANCE.md).
const OF_APPLICATIONS: [Budget; 4] = [
    ("1 KB", "auto", 1.5, "floor"),
    ("1 KB", "auto", 0.5, "nginx"),
    ("1 MB", "direct", 1.05, "floor"),
    ("1 MB", "direct", 0.25, "nginx"),
];

/// A table of the budgets that a grid is measured by, and whether they were kept; `None` where there are none.
pub(super) fn budgets(grid: &Grid) -> Option<String> {
    let budgets: &[Budget] = match grid.name.as_str() {
        "handoff" => &OF_APPLICATIONS,
        "cache-hits" => &OF_HITS,
        _ => return None,
    };
    let mut text = "| budget | measured | |\n|---|---|---|\n".to_owned();
    for &(size, column, most, base) in budgets {
        let line = line(grid, size)?;
        let cost = ratio(grid, line, column)? / ratio(grid, line, base)?;
        let kept = if cost <= most { "kept" } else { "**missed**" };
        text += &format!("| {size}, `{column}`: ≤ {most} × {base} | {cost:.2} | {kept} |\n");
    }
    Some(text)
}

/// The verdict on the claim that a table is about; `None` where there is no claim, or not enough was measured.
pub(super) fn verdict(grid: &Grid, cpus: usize) -> Option<String> {
    match grid.name.as_str() {
        "handoff" => passing(grid),
        "defer" => deferring(grid),
        "buckets" => Some(many_cpus(
            grid,
            cpus,
            &Claim {
                column: "per-thread",
                in_words: "A queue for each thread",
                cpus_min: CPUS_2014,
                why_not: "no thread contends for the accept queue",
                gain_min: 1.1,
            },
        )),
        "affinity" => Some(many_cpus(
            grid,
            cpus,
            &Claim {
                column: "auto",
                in_words: "Pinning",
                cpus_min: CPUS_2023,
                why_not: "there is nowhere to migrate to",
                gain_min: 1.2,
            },
        )),
        _ => None,
    }
}

fn line<'a>(grid: &'a Grid, label: &str) -> Option<&'a Line> {
    grid.rows.iter().find(|line| line.label == label)
}

/// The cost of a column in units of the base.
fn ratio(grid: &Grid, line: &Line, column: &str) -> Option<f64> {
    let at = grid.columns.iter().position(|name| name == column)?;
    grid.ratios(line).get(at).copied().flatten()
}

/// 2001: descriptors passed for each request.
fn passing(grid: &Grid) -> Option<String> {
    let left = |label: &str| Some(100.0 / ratio(grid, line(grid, label)?, "direct")?);
    let (small, large) = (left("1 KB")?, left("100 KB")?);
    let finding = if small > LEFT_IN_2001 * (1.0 + NOISE) {
        "**Not so with batches and descriptors that are passed once for each connection.**"
    } else {
        "**Confirmed.**"
    };
    let aim = if small >= LEFT_AIM { "was reached" } else { "was missed" };
    Some(format!(
        "{finding} At 1 KB, `direct` leaves {small:.0} % of the requests per CPU second that accepting directly has, where {LEFT_IN_2001} % \
         were left in 2001; at 100 KB {large:.0} %. The aim of {LEFT_AIM} % at 1 KB {aim} in this run."
    ))
}

/// What the kernel saves by holding connections until their request is there.
fn deferring(grid: &Grid) -> Option<String> {
    let line = grid.rows.first()?;
    let deferred = ratio(grid, line, "deferred")?;
    let finding = match deferred {
        cheaper if cheaper < 1.0 - NOISE / 2.0 => {
            format!("**Cheaper**: a deferred connection costs {:.0} % less", (1.0 - cheaper) * 100.0)
        }
        dearer if dearer > 1.0 + NOISE / 2.0 => {
            format!("**Dearer**: a deferred connection costs {:.0} % more", (dearer - 1.0) * 100.0)
        }
        same => {
            format!("**No difference that can be told**: a deferred connection costs {same:.2} times as much")
        }
    };
    let nginx = ratio(grid, line, "nginx").zip(ratio(grid, line, "nginx-deferred"));
    let nginx =
        nginx.map(|(now, deferred)| format!("; nginx gets from {now:.2} to {deferred:.2} in the same unit"));
    Some(format!("{finding} than one that is taken at once{}.", nginx.unwrap_or_default()))
}

/// A claim about machines with many CPUs.
struct Claim {
    column: &'static str,
    in_words: &'static str,
    cpus_min: usize,
    /// What is missing on a smaller machine.
    why_not: &'static str,
    /// Throughput from which on the claim is taken to be shown.
    gain_min: f64,
}

fn many_cpus(grid: &Grid, cpus: usize, claim: &Claim) -> String {
    let rows = grid.rows.iter().filter_map(|line| {
        let cost = ratio(grid, line, claim.column)?;
        let gain = throughput(grid, line, claim.column)? / throughput(grid, line, &grid.base)?;
        Some((line.label.as_str(), cost, gain))
    });
    let rows: Vec<_> = rows.collect();
    let figures = rows.iter().map(|(label, cost, gain)| {
        format!("{label}: {gain:.2} × the throughput at {cost:.2} × the CPU time per request")
    });
    let figures = figures.collect::<Vec<_>>().join("; ");
    if cpus < claim.cpus_min {
        let noise = rows.iter().all(|(_, cost, _)| (cost - 1.0).abs() < NOISE);
        let noise = if noise { ", which is not told from noise" } else { "" };
        return format!(
            "**{cpus} CPUs for server and generator together cannot show it**: {}. {} gave in this run – {figures}{noise}.",
            claim.why_not, claim.in_words
        );
    }
    let most = rows.iter().map(|(_, _, gain)| *gain).fold(0.0, f64::max);
    let finding = if most >= claim.gain_min { "**Confirmed**" } else { "**Not confirmed**" };
    format!("{finding} on {cpus} CPUs. {} gave – {figures}.", claim.in_words)
}

fn throughput(grid: &Grid, line: &Line, column: &str) -> Option<f64> {
    let at = grid.columns.iter().position(|name| name == column)?;
    line.cells.get(at).and_then(Cell::throughput)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::load::{Report, Round};

    fn cell(cost: f64, rate: f64) -> Cell {
        Cell::Measured(vec![Round {
            server_user_us: cost,
            server_system_us: 0.0,
            client_us: 0.0,
            requests_per_second: rate,
            counts_client: false,
            wrk: Report::default(),
        }])
    }

    fn grid(name: &str, columns: &[&str], rows: Vec<(&str, Vec<Cell>)>) -> Grid {
        let rows = rows.into_iter().map(|(label, cells)| Line { label: label.to_owned(), size: None, cells });
        let columns: Vec<String> = columns.iter().map(|&column| column.to_owned()).collect();
        let base = columns.first().cloned().unwrap_or_default();
        let (name, what, corner) = (name.to_owned(), String::new(), String::new());
        Grid { name, what, corner, base, columns, rows: rows.collect() }
    }

    fn passed(cost: f64) -> String {
        let row = |label| (label, vec![cell(1.0, 1.0), cell(cost, 1.0)]);
        let grid = grid("handoff", &["floor", "direct"], vec![row("1 KB"), row("100 KB")]);
        verdict(&grid, 2).unwrap_or_default()
    }

    #[test]
    fn passing_descriptors_is_judged_by_its_cost() {
        assert!(passed(1.6).contains("Not so") && passed(1.6).contains("62 %"), "{}", passed(1.6));
        assert!(passed(1.6).contains("was missed") && passed(1.2).contains("was reached"));
        assert!(passed(2.7).contains("**Confirmed.**"), "{}", passed(2.7));
    }

    #[test]
    fn budgets_of_applications_are_ratios() {
        let columns = ["floor", "direct", "auto", "nginx"];
        let row = |label, costs: [f64; 4]| (label, costs.map(|cost| cell(cost, 1.0)).into());
        let rows = vec![row("1 KB", [2.0, 2.0, 3.0, 5.0]), row("1 MB", [100.0, 104.0, 104.0, 500.0])];
        let told = budgets(&grid("handoff", &columns, rows)).unwrap_or_default();
        assert!(told.contains("| 1 KB, `auto`: ≤ 1.5 × floor | 1.50 | kept |"), "{told}");
        assert!(told.contains("| 1 KB, `auto`: ≤ 0.5 × nginx | 0.60 | **missed** |"), "{told}");
        assert!(told.contains("| 1 MB, `direct`: ≤ 1.05 × floor | 1.04 | kept |"), "{told}");
        assert!(told.contains("| 1 MB, `direct`: ≤ 0.25 × nginx | 0.21 | kept |"), "{told}");
        // Without one of the rows there is nothing to say.
        assert_eq!(budgets(&grid("handoff", &columns, vec![row("1 KB", [2.0; 4])])), None);
    }

    #[test]
    fn budgets_of_hits_are_ratios_too() {
        let columns = ["file", "maitred", "nginx"];
        let row = |label, costs: [f64; 3]| (label, costs.map(|cost| cell(cost, 1.0)).into());
        let rows = vec![row("1 KB", [2.0, 2.2, 5.0]), row("100 KB", [10.0, 13.0, 20.0])];
        let told = budgets(&grid("cache-hits", &columns, rows)).unwrap_or_default();
        assert!(told.contains("| 1 KB, `maitred`: ≤ 1.2 × file | 1.10 | kept |"), "{told}");
        assert!(told.contains("| 100 KB, `maitred`: ≤ 0.5 × nginx | 0.65 | **missed** |"), "{told}");
    }

    #[test]
    fn a_small_machine_gives_no_verdict_on_many_cpus() {
        let grid = grid(
            "affinity",
            &["off", "auto"],
            vec![("kept connections", vec![cell(10.0, 100.0), cell(8.0, 125.0)])],
        );
        let said = |cpus| verdict(&grid, cpus).unwrap_or_default();
        assert!(said(8).contains("cannot show it"));
        assert!(said(2).contains("2 CPUs") && said(2).contains("cannot show it"), "{}", said(2));
        assert!(
            said(16).starts_with("**Confirmed** on 16 CPUs") && said(16).contains("1.25 ×"),
            "{}",
            said(16)
        );
    }

    #[test]
    fn what_was_not_measured_has_no_verdict() {
        let absent = || Cell::Absent("gone".to_owned());
        let grid = grid("defer", &["at once", "deferred"], vec![("load", vec![cell(1.0, 1.0), absent()])]);
        assert_eq!(verdict(&grid, 2), None);
    }
}
