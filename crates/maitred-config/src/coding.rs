//! Content codings (RFC 9110 section 8.4.1).

use serde::{Deserialize, Serialize};

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Coding {
    /// `name.br`
    Brotli,
    /// `name.zst`
    Zstd,
    /// `name.gz`
    Gzip,
}

impl Coding {
    /// The name of the coding in `Content-Encoding` and `Accept-Encoding`, and in the configuration.
    pub fn token(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// The one of this name.
    pub(crate) fn of_token(token: &str) -> Option<Coding> {
        [Coding::Brotli, Coding::Zstd, Coding::Gzip].into_iter().find(|coding| coding.token() == token)
    }
}
