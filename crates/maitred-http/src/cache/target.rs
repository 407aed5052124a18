//! The target of a request, in parts.

/// The parts of a request's URI that say what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Host and port, as sent.
    pub authority: &'a str,
    /// Still percent-encoded; starts with `/`.
    pub path: &'a str,
    /// What follows the first `?`, without it.
    pub query: Option<&'a str>,
}
