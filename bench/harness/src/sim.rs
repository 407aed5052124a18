//! `cargo xtask sim`: simulates pools and buckets, prints the tables and draws the pictures of `docs/pools.md`.

use std::path::{Path, PathBuf};

use maitred_sim::report::{Report, report};
use maitred_sim::workload::sizes_of_log;

/// Simulate worker pools and listener buckets: print tables, draw pictures
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write the tables and pictures into docs/, instead of printing the tables and drawing into target/sim
    #[arg(long)]
    write_docs: bool,
    /// Instead of simulating, make the table of response sizes from this access log
    #[arg(long, value_name = "LOG")]
    sizes: Option<PathBuf>,
}

const DOCUMENT: &str = "docs/pools.md";
/// Has places for what the simulation says about the claims of others.
const CLAIMS: &str = "docs/performance.md";
const PICTURES: &str = "docs/pools";
const SIZES: &str = "crates/maitred-sim/data/sizes.csv";

pub(crate) fn run(arguments: &Arguments) -> crate::Result<()> {
    let root = xtask::root();
    if let Some(log) = &arguments.sizes {
        std::fs::write(root.join(SIZES), sizes_of_log(log)?)?;
        return Ok(());
    }
    let report = report();
    let pictures = if arguments.write_docs {
        let document = std::fs::read_to_string(root.join(DOCUMENT))?;
        std::fs::write(root.join(DOCUMENT), filled(DOCUMENT, &document, &report.tables)?)?;
        let document = std::fs::read_to_string(root.join(CLAIMS))?;
        std::fs::write(root.join(CLAIMS), filled(CLAIMS, &document, &claims(&report)?)?)?;
        root.join(PICTURES)
    } else {
        for (name, table) in &report.tables {
            println!("## {name}\n\n{table}");
        }
        root.join("target/sim")
    };
    std::fs::create_dir_all(&pictures)?;
    for (name, picture) in &report.plots {
        std::fs::write(pictures.join(name), picture)?;
    }
    println!(
        "{} pictures in {}",
        report.plots.len(),
        pictures.strip_prefix(root).unwrap_or(Path::new("")).display()
    );
    Ok(())
}

/// The document with each text in its place: between `<!-- sim: NAME -->` and `<!-- end -->`.
fn filled(path: &str, document: &str, texts: &[(String, String)]) -> crate::Result<String> {
    let mut document = document.to_owned();
    for (name, text) in texts {
        let begin = format!("<!-- sim: {name} -->\n");
        let (before, rest) = document.split_once(&begin).ok_or(format!("{path} has no place for {name}"))?;
        let (_, after) = rest.split_once("<!-- end -->").ok_or(format!("{path}: {name} has no end"))?;
        document = format!("{before}{begin}{text}<!-- end -->{after}");
    }
    Ok(document)
}

/// What the simulation says about the claims of 2002 and 2014.
fn claims(report: &Report) -> crate::Result<Vec<(String, String)>> {
    Ok(vec![
        ("claim-2002".to_owned(), thrash(&rows(report, "2002")?)?),
        ("claim-2014".to_owned(), queues(&rows(report, "buckets-p99")?)?),
    ])
}

/// Cells of a table, without the line below its head.
fn rows<'a>(report: &'a Report, table: &str) -> crate::Result<Vec<Vec<&'a str>>> {
    let found = report.tables.iter().find(|(name, _)| name == table);
    let (_, text) = found.ok_or(format!("the simulation has no table {table}"))?;
    let lines = text.lines().filter(|line| line.starts_with("| "));
    Ok(lines.map(|line| line.trim_matches(['|', ' ']).split('|').map(str::trim).collect()).collect())
}

/// A figure of a table, by the names of its row and its column.
fn figure(rows: &[Vec<&str>], row: &str, column: &str) -> crate::Result<f64> {
    let at = rows.first().and_then(|head| head.iter().position(|name| *name == column));
    let cells = rows.iter().find(|cells| cells.first() == Some(&row));
    let cell = at.zip(cells).and_then(|(at, cells)| cells.get(at)?.parse().ok());
    cell.ok_or_else(|| format!("the simulation says nothing of {row}, {column}").into())
}

/// 2002: processes that are started and killed beyond need.
fn thrash(rows: &[Vec<&str>]) -> crate::Result<String> {
    let of = |column| {
        Ok::<_, Box<dyn std::error::Error>>((
            figure(rows, "maitred", column)?,
            figure(rows, "worker 2002", column)?,
        ))
    };
    let ((starts, old_starts), (kills, old_kills)) = (of("starts")?, of("kills")?);
    let (answered, old_answered) = of("answered/s")?;
    let calmer = starts + kills < (old_starts + old_kills) / 2.0 && answered >= old_answered;
    let finding = if calmer { "**Confirmed in simulation.**" } else { "**Not confirmed in simulation.**" };
    Ok(format!(
        "{finding} Starts: {starts} in the hour against {old_starts}; kills: {kills} against {old_kills}; answers per second: \
         {answered} against {old_answered}.\n"
    ))
}

/// 2014: how long one queue is as good as several.
fn queues(rows: &[Vec<&str>]) -> crate::Result<String> {
    let threads: Vec<&str> =
        rows.first().map(|head| head.iter().skip(1).copied().collect()).unwrap_or_default();
    let mut good_until = None;
    let mut lost_from = None;
    for threads in threads {
        let (one, several) = (figure(rows, "one queue", threads)?, figure(rows, "threads ÷ 8", threads)?);
        if one <= several * 1.5 && lost_from.is_none() {
            good_until = Some(threads);
        } else {
            lost_from = lost_from.or(Some(threads));
        }
    }
    Ok(match (good_until, lost_from) {
        (Some(good), Some(lost)) => format!(
            "**Confirmed in simulation for many threads**: one queue is as good as one for every eight threads up to {good} threads, \
             and lost from {lost} on (99th percentile of the time from arrival to answer).\n"
        ),
        (Some(good), None) => {
            format!(
                "**Not confirmed in simulation**: one queue is as good as several up to {good} threads.\n"
            )
        }
        _ => "**Confirmed in simulation**: one queue is worse at any number of threads.\n".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_the_figures() {
        let thrash = |answered| {
            let old = vec!["worker 2002", "191", "185", "78.9"];
            thrash(&[
                vec!["policy", "starts", "kills", "answered/s"],
                vec!["maitred", "7", "1", answered],
                old,
            ])
            .unwrap()
        };
        assert!(
            thrash("98.6").starts_with("**Confirmed") && thrash("98.6").contains("7 in the hour against 191")
        );
        assert!(thrash("60").starts_with("**Not confirmed"));
        let queues = |one: [&'static str; 2]| {
            let several = vec!["threads ÷ 8", "0.5", "0.5"];
            queues(&[vec!["policy", "32", "64"], [vec!["one queue"], one.to_vec()].concat(), several])
                .unwrap()
        };
        assert!(queues(["0.6", "58.6"]).contains("up to 32 threads, and lost from 64 on"));
        assert!(
            queues(["0.6", "0.6"]).starts_with("**Not confirmed")
                && queues(["9", "9"]).contains("any number")
        );
    }

    #[test]
    fn the_document_shows_what_is_simulated() {
        let root = xtask::root();
        let report = report();
        let document = std::fs::read_to_string(root.join(DOCUMENT)).unwrap();
        let fresh = filled(DOCUMENT, &document, &report.tables).unwrap();
        assert!(document == fresh, "{DOCUMENT} is stale: run `cargo xtask sim --write-docs`");
        let verdicts = std::fs::read_to_string(root.join(CLAIMS)).unwrap();
        let fresh = filled(CLAIMS, &verdicts, &claims(&report).unwrap()).unwrap();
        assert!(verdicts == fresh, "{CLAIMS} is stale: run `cargo xtask sim --write-docs`");
        for (name, picture) in &report.plots {
            let kept = std::fs::read_to_string(root.join(PICTURES).join(name)).unwrap_or_default();
            assert!(kept == *picture, "{PICTURES}/{name} is stale: run `cargo xtask sim --write-docs`");
            assert!(picture.len() < 100_000, "{name} has {} bytes", picture.len());
            assert!(document.contains(&format!("pools/{name}")), "{DOCUMENT} does not show {name}");
        }
    }
}
