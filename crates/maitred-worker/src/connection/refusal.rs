//! The error that a request which was kept is answered with.

use maitred_files::exchange::Field;
use maitred_http::request::Reject;

/// What goes with a 503 that may be over in a moment.
pub(crate) const RETRY_SOON: &[Field<'static>] = &[Field::new("Retry-After", "1")];

/// A client without `Host` cannot be led to TLS.
pub(crate) const NOWHERE: Reject =
    Reject { status: 400, reason: "`redirect_http`, and the request names no host" };

/// HTTP without TLS, where TLS is spoken.
pub(crate) const PLAIN: Reject =
    Reject { status: 400, reason: "HTTP without TLS at an address that speaks TLS" };

/// What its client is told.
pub(crate) const PLAIN_TEXT: &str = "This port speaks TLS: use https:// instead of http://.\n";

/// The error that a kept request is to be answered with.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The status.
    pub status: u16,
    /// Further fields.
    pub fields: Vec<Field<'static>>,
}

impl Refusal {
    pub(crate) fn new(status: u16, fields: &[Field<'_>]) -> Box<Refusal> {
        Box::new(Refusal { status, fields: fields.iter().map(Field::to_static).collect() })
    }
}

/// The fields of an error of this status from a pool: a 503 says when to retry.
pub(crate) fn fields_of(status: u16) -> &'static [Field<'static>] {
    if status == 503 { RETRY_SOON } else { &[] }
}
