//! What the gates of its route have said of a request.

use crate::exchange::Field;

/// The error that a request gets which a gate refuses. Its body is the site's page for the status.
#[derive(Debug, Clone)]
pub struct Denial {
    /// The status.
    pub status: u16,
    /// Further fields.
    pub fields: Vec<Field<'static>>,
}
