//! The server's error log. Lines name no module: the text says which one it is.

use maitred_sys::module::guest;

/// Something failed.
pub fn error(text: &str) {
    guest::log(0, text.as_bytes());
}

/// Something is not as it should be.
pub fn warn(text: &str) {
    guest::log(1, text.as_bytes());
}

/// Something happened.
pub fn info(text: &str) {
    guest::log(2, text.as_bytes());
}

/// For whoever looks for a bug.
pub fn debug(text: &str) {
    guest::log(3, text.as_bytes());
}
