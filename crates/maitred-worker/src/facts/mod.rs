//! Facts about a request that several features decide by: each is a value that is made once, with private fields, so that no
//! feature can have a version of its own.
//!
//! | file | fact |
//! |---|---|
//! | [`identity`] | who the client is |

pub(crate) mod identity;
