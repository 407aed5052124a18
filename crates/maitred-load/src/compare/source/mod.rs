//! Where requests come from. A further configuration language is another variant.

mod log;
pub mod nginx;
mod requests;

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::request::{Case, Port};

/// Bytes of a file that is read as a whole.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of all requests together.
const CASES_BYTES_MAX: usize = 64 << 20;

/// Where requests come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An access log; `-` is standard input.
    Log(PathBuf),
    /// A configuration of nginx, and the directory below which its absolute paths are.
    Nginx(PathBuf, Option<PathBuf>),
    /// Requests, one to a line.
    Requests(PathBuf),
}

/// What a source may know of the comparison.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Cases that are needed at most.
    pub cases_max: usize,
    /// The servers that were named speak TLS.
    pub is_tls: bool,
    /// Ports that are mapped.
    pub ports: BTreeMap<u16, (u16, u16)>,
    /// The client has a certificate.
    pub has_identity: bool,
}

/// Requests, and what is to be said about them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gathered {
    /// The cases, the most important ones first.
    pub cases: Vec<Case>,
    /// What the report has to say.
    pub notes: Vec<String>,
    /// The configured port that the named servers stand for.
    pub port: Option<Port>,
}

impl Source {
    /// Reads the source.
    ///
    /// # Errors
    /// What cannot be read, in words.
    pub fn gather(&self, known: &Known) -> Result<Gathered, String> {
        match self {
            Source::Log(path) => log::gather(path, known),
            Source::Nginx(path, root) => nginx::gather(path, root.as_deref(), known),
            Source::Requests(path) => requests::parse(&text_of(path)?, known),
        }
    }
}

/// The text of a file, within bounds.
fn text_of(path: &Path) -> Result<String, String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut bytes = Vec::new();
    let file: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(path).map_err(told)?),
    };
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(told)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{}: it is larger than 64 MiB", path.display()));
    }
    String::from_utf8(bytes).map_err(|_| format!("{}: it is not UTF-8", path.display()))
}

/// Collects cases, each request once, within bounds.
#[derive(Debug, Default)]
struct Collector {
    cases: Vec<Case>,
    seen: HashSet<super::Request>,
    bytes: usize,
    repeated: u64,
    beyond: u64,
    cases_max: usize,
}

impl Collector {
    fn new(known: &Known) -> Collector {
        Collector { cases_max: known.cases_max, ..Collector::default() }
    }

    fn push(&mut self, case: Case) {
        if self.seen.contains(&case.request) {
            self.repeated += 1;
        } else if self.cases.len() >= self.cases_max || self.bytes > CASES_BYTES_MAX {
            self.beyond += 1;
        } else {
            // Fixed parts of a request, and the copy in `seen`.
            self.bytes += 2 * (case.request.size() + 256);
            self.seen.insert(case.request.clone());
            self.cases.push(case);
        }
    }

    fn finish(self, mut notes: Vec<String>) -> Gathered {
        if self.beyond > 0 {
            notes.push(format!("{} further requests were left out (--requests-max)", self.beyond));
        }
        Gathered { cases: self.cases, notes, port: None }
    }
}
