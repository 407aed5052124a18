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
const PICTURES: &str = "docs/pools";
const SIZES: &str = "crates/maitred-sim/data/sizes.csv";

pub(crate) fn run(arguments: &Arguments) -> crate::Result<()> {
    let root = crate::generate::root();
    if let Some(log) = &arguments.sizes {
        std::fs::write(root.join(SIZES), sizes_of_log(log)?)?;
        return Ok(());
    }
    let report = report();
    let pictures = if arguments.write_docs {
        let document = std::fs::read_to_string(root.join(DOCUMENT))?;
        std::fs::write(root.join(DOCUMENT), with_tables(&document, &report)?)?;
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

/// The document with each table in its place: between `<!-- sim: NAME -->` and `<!-- end -->`.
fn with_tables(document: &str, report: &Report) -> crate::Result<String> {
    let mut document = document.to_owned();
    for (name, table) in &report.tables {
        let begin = format!("<!-- sim: {name} -->\n");
        let (before, rest) =
            document.split_once(&begin).ok_or(format!("{DOCUMENT} has no place for {name}"))?;
        let (_, after) = rest.split_once("<!-- end -->").ok_or(format!("{DOCUMENT}: {name} has no end"))?;
        document = format!("{before}{begin}{table}<!-- end -->{after}");
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_shows_what_is_simulated() {
        let root = crate::generate::root();
        let report = report();
        let document = std::fs::read_to_string(root.join(DOCUMENT)).unwrap();
        let fresh = with_tables(&document, &report).unwrap();
        assert!(document == fresh, "{DOCUMENT} is stale: run `cargo xtask sim --write-docs`");
        for (name, picture) in &report.plots {
            let kept = std::fs::read_to_string(root.join(PICTURES).join(name)).unwrap_or_default();
            assert!(kept == *picture, "{PICTURES}/{name} is stale: run `cargo xtask sim --write-docs`");
            assert!(picture.len() < 100_000, "{name} has {} bytes", picture.len());
            assert!(document.contains(&format!("pools/{name}")), "{DOCUMENT} does not show {name}");
        }
    }
}
