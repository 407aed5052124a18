//! The error that a request which was kept is answered with.

use maitred_files::exchange::Field;

/// What goes with a 503 that may be over in a moment.
pub(crate) const RETRY_SOON: &[Field<'static>] = &[Field::new("Retry-After", "1")];

/// The error that a kept request is to be answered with.
#[derive(Debug)]
pub struct Refusal {
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
