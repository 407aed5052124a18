//! Certificates and keys: read from files, checked against one another, made into what rustls takes. Knows nothing of the
//! configuration, which reads certificates to check them.
//!
//! | file | what |
//! |---|---|
//! | [`files`] | certificates and keys from files |
//! | [`pair`] | certificates with their key |
//! | [`bytes`] | their bytes, which are overwritten when they are dropped |
//! | [`name`] | distinguished names in text |
//! | [`clients`] | which authorities may have signed clients' certificates |
//! | [`choice`] | which cipher suites and key-exchange groups are used |

pub mod bytes;
pub mod choice;
pub mod clients;
pub mod files;
pub mod name;
pub mod pair;

use std::sync::{Arc, LazyLock};

use rustls::crypto::CryptoProvider;

pub use bytes::{Bytes, hex};
pub use name::rfc_4514;
pub use pair::Pair;

/// The cryptography that all sessions use.
static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));

/// The cryptography that all sessions use.
pub fn provider() -> &'static Arc<CryptoProvider> {
    &PROVIDER
}
