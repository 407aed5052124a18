//! Where requests come from. A further configuration language is another variant.

mod gathered;
mod log;
mod nginx;
mod requests;

use std::io::Read;
use std::path::{Path, PathBuf};

pub use gathered::{Gathered, Known};

/// Bytes of a file that is read as a whole.
const FILE_BYTES_MAX: u64 = 64 << 20;

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
