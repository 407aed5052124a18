//! Keys that the output may use. What is not there yet is switched off here, and on when the key is there.

/// `limits = { body_bytes_max = … }` in sites and routes; until then the largest one holds for the whole server.
pub(crate) const BODY_LIMITS: bool = true;
/// `compress = true` in sites and routes.
pub(crate) const COMPRESS: bool = true;
