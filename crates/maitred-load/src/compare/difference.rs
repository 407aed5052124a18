//! One difference between two servers.

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The kind: differences of one kind are counted together.
    pub kind: String,
    /// What the left side has.
    pub left: String,
    /// What the right side has.
    pub right: String,
}
