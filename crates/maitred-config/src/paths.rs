//! Patterns of paths.

use serde::{Deserialize, Serialize};

/// `path = "/exact" | "/prefix/*" | "*.php" | "/a/*/b"`; `*` stands for any run of characters, `/` included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathPattern {
    /// Everything: `*` or `/*`.
    All,
    /// The path as it is.
    Exact(String),
    /// `/prefix/*`, kept as `/prefix/`; does not match `/prefix`.
    Prefix(String),
    /// `*.php`, kept as `.php`.
    Suffix(String),
    /// Any other place of the stars; the literal pieces between them, in order. First and last piece are anchored
    /// (and may be empty).
    Glob(Vec<String>),
}
