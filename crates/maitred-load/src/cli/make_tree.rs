//! `maitred-load make-tree`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;

use super::{Failed, values};
use crate::report::{bytes_text, count_text};
use crate::tree::{self, Counts, Limits, Made};

/// Make a document tree with the files of a log
///
/// Each path that the log answered with 200, 206, 304 or 416 becomes a file of the logged length, so that the log can be
/// replayed against any server. Nothing outside DIR is touched, and nothing in it that exists is changed.
#[derive(Debug, Args)]
pub(super) struct MakeTree {
    /// The log; - is standard input
    #[arg(value_name = "ACCESS_LOG")]
    log: PathBuf,
    /// Where the files go; made if it is not there
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Files, at most
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    files_max: usize,
    /// Length of a file, at most; longer ones are cut. K, M and G are powers of 1024
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, default_value = "256M")]
    file_bytes_max: u64,
    /// Length of all files together, at most. Files are sparse: only their first 4 KiB take room on the disk
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, default_value = "64G")]
    total_bytes_max: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(serde::Serialize)]
struct Outcome<'a> {
    log: &'a Counts,
    files: &'a Made,
}

impl MakeTree {
    pub(super) fn run(self) -> Result<u8, Failed> {
        let told = |error: io::Error| Failed::Usage(format!("{}: {error}", self.log.display()));
        let limits = Limits {
            files_max: self.files_max,
            file_bytes_max: self.file_bytes_max,
            total_bytes_max: self.total_bytes_max,
        };
        let tree = if self.log == Path::new("-") {
            tree::plan(BufReader::new(io::stdin()), &limits)
        } else {
            tree::plan(BufReader::with_capacity(256 * 1024, File::open(&self.log).map_err(told)?), &limits)
        };
        let tree = tree.map_err(told)?;
        if tree.files.is_empty() {
            let counts = &tree.counts.tally;
            return Err(Failed::Usage(format!(
                "{} names no file: {} lines, {} of them malformed",
                self.log.display(),
                counts.lines,
                counts.malformed
            )));
        }
        let made = tree::make(&tree, &self.directory);
        let made = made.map_err(|error| Failed::Usage(format!("{}: {error}", self.directory.display())))?;
        let text = if self.json {
            let result = Outcome { log: &tree.counts, files: &made };
            serde_json::to_string_pretty(&result).map_err(|error| Failed::Measuring(error.to_string()))?
                + "\n"
        } else {
            summary(&tree.counts, &made)
        };
        super::print(&text)?;
        Ok(0)
    }
}

fn summary(counts: &Counts, made: &Made) -> String {
    let mut out = format!(
        "{} files made, {} were there, {} in all, from {} lines\n",
        count_text(made.made),
        count_text(made.kept),
        bytes_text(counts.bytes),
        count_text(counts.tally.lines)
    );
    for (count, what) in [
        (made.foreign, "paths left alone, because something else is there"),
        (counts.tally.malformed, "lines malformed"),
        (counts.impossible, "requests for paths that no file can have"),
        (counts.left_out, "files or requests left out by a limit"),
        (counts.cut, "files cut to --file-bytes-max"),
        (counts.unknown, "files without a logged length (1234 bytes)"),
        (counts.collisions, "paths that are file and directory (made index.html)"),
    ] {
        if count > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{} {what}", count_text(count));
        }
    }
    for example in &made.examples {
        let _ = writeln!(out, "left alone: {example}");
    }
    out
}
