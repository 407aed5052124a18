//! What the gates of its route have said of a request.

use maitred_http::fields::FieldLines;

use crate::exchange::Field;

/// What is known of a request that gates were asked about. It goes along wherever the request waits.
#[derive(Debug, Clone, Default)]
pub struct Gated {
    /// The answer of the gate that has refused it.
    pub denial: Option<Denial>,
    /// The user that it comes from.
    pub user: Option<Box<str>>,
    /// Fields for the pool that it goes to: lower case names. What the client sends of these names, the route removes.
    pub fields: FieldLines,
    /// The gate that it waits for.
    pub waits: Option<Waits>,
}

/// A request that waits for what a gate says.
#[derive(Debug, Clone)]
pub struct Waits {
    /// The place of the gate in the order.
    pub place: usize,
    /// Its body is there, as far as it has one: it is answered again from what was kept.
    pub whole: bool,
    /// The key of the question that another server is asked about it.
    pub question: Option<u32>,
    /// The number of the check of its password: what comes of an earlier one is not about this request.
    pub check: Option<u32>,
}

/// The answer of a request that a gate refuses: an error, whose body is the site's page for the status.
#[derive(Debug, Clone)]
pub struct Denial {
    /// The status.
    pub status: u16,
    /// Further fields.
    pub fields: Vec<Field<'static>>,
    /// The whole answer, if it is another server's: its fields and its content.
    pub answer: Option<Box<(FieldLines, Vec<u8>)>>,
}

impl Denial {
    /// An error with further fields.
    pub fn with(status: u16, fields: Vec<Field<'static>>) -> Denial {
        Denial { status, fields, answer: None }
    }

    /// An error without further fields.
    pub fn of(status: u16) -> Denial {
        Denial::with(status, Vec::new())
    }
}

/// What a gate says.
#[derive(Debug)]
pub enum Verdict {
    /// The next one is asked.
    Pass,
    /// The request gets this answer.
    Refuse(Denial),
    /// It is said later.
    Wait,
}
