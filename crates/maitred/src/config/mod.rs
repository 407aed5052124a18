//! The configuration: from text to meaning, once.

mod meaning;

pub use meaning::*;
