//! The server's error log. Lines name no module: the text says which one it is. While a
//! module begins, they go to the standard error.

use maitred_sys::module::{abi, guest};

/// Something failed.
pub fn error(text: &str) {
    guest::log(abi::ERROR, text.as_bytes());
}

/// Something is not as it should be.
pub fn warn(text: &str) {
    guest::log(abi::WARN, text.as_bytes());
}

/// Something happened.
pub fn info(text: &str) {
    guest::log(abi::INFO, text.as_bytes());
}

/// For the search for a bug.
pub fn debug(text: &str) {
    guest::log(abi::DEBUG, text.as_bytes());
}
