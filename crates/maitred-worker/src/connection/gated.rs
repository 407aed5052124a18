//! What the gates of its route have said of a request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use maitred_http::fields::FieldLines;

use crate::limits::Lease;
use maitred_base::budget::Permit;
use maitred_files::exchange::Field;
use maitred_policy::access::known::Digest;

/// What is known of a request that gates were asked about. It goes along wherever the request waits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gated {
    /// The answer of the gate that has refused it.
    pub denial: Option<Denial>,
    /// The user that it comes from.
    pub user: Option<Box<str>>,
    /// How it was found out.
    pub scheme: Scheme,
    /// A gate that tells clients apart has let it pass, whether it has named a user or not.
    pub decided: bool,
    /// Fields for the pool that it goes to: lower case names. What the client sends of these names, the route removes.
    pub fields: FieldLines,
    /// `Set-Cookie` fields for its response.
    pub cookies: FieldLines,
    /// The gate that it waits for.
    pub waits: Option<Waits>,
    /// Modules that have let it pass.
    pub modules_asked: usize,
    /// The limits that it counts for while it is under way.
    pub leases: Leases,
    /// It was decided whether there is a copy of it.
    pub mirrored: bool,
}

/// Limits that a request counts for until its response has been sent, or it ends without one: wherever that is, what is known of
/// the request is dropped, and these with it.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    held: Vec<Lease>,
    /// The response is whole, and on its way.
    answered: bool,
}

impl Leases {
    /// Those of a request that has passed its limits.
    pub(crate) fn of(held: Vec<Lease>) -> Leases {
        Leases { held, answered: false }
    }
}

/// A copy goes to another thread, which answers: the request counts where its client is.
impl Clone for Leases {
    fn clone(&self) -> Self {
        Leases::default()
    }
}

impl Gated {
    /// The response is whole: only what limits it counts for is of interest, until it has been sent. False if there are none.
    pub(crate) fn answered(&mut self) -> bool {
        let held = std::mem::take(&mut self.leases.held);
        let counts = !held.is_empty();
        *self = Gated { leases: Leases { held, answered: true }, ..Gated::default() };
        counts
    }

    /// Whether its response was whole.
    pub(crate) fn is_answered(&self) -> bool {
        self.leases.answered
    }
}

/// How a user was found out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// By another server, which has not said how.
    #[default]
    Other,
    /// By a password (RFC 7617).
    Basic,
    /// By a token (RFC 6750).
    Bearer,
}

impl Scheme {
    /// As `AUTH_TYPE` has it (RFC 3875 section 4.1.1); empty if it is not known.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scheme::Other => "",
            Scheme::Basic => "Basic",
            Scheme::Bearer => "Bearer",
        }
    }
}

/// A request that waits for what a gate says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waits {
    /// The place of the gate in the order.
    pub place: usize,
    /// Its body is there, as far as it has one: it is answered again from what was kept.
    pub whole: bool,
    /// The key of the question that another server is asked about it.
    pub question: Option<u32>,
    /// Where the answer to this question is kept, if it is to be.
    pub kept_as: Option<Place>,
    /// The number of the check of its password: what comes of an earlier one is not about this request.
    pub check: Option<u32>,
    /// The number of the ticket that a module has for it, and how long its answer may take.
    pub module: Option<(u32, Duration)>,
    /// It is delayed.
    pub held: Option<Held>,
}

/// A request that is delayed.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    /// When it goes on.
    pub until: Instant,
    /// Its client may have gone: when its time is over, it ends.
    pub leaves: bool,
    /// It counts for `delayed_requests_max`.
    pub _permit: Arc<Permit>,
}

/// Where an answer of another server is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// What it is found by.
    pub digest: Digest,
    /// The request has a field or a cookie of the key, or the key names none.
    pub named: bool,
}

/// The answer of a request that a gate refuses: an error, whose body is the site's page for the status.
#[derive(Debug, Clone)]
pub(crate) struct Denial {
    /// The status.
    pub status: u16,
    /// Further fields.
    pub fields: Vec<Field<'static>>,
    /// The whole answer, if it is another server's: its fields and its content.
    pub answer: Option<Box<(FieldLines, Vec<u8>)>>,
}

impl Denial {
    /// An error with further fields.
    pub(crate) fn with(status: u16, fields: Vec<Field<'static>>) -> Denial {
        Denial { status, fields, answer: None }
    }

    /// An error without further fields.
    pub(crate) fn of(status: u16) -> Denial {
        Denial::with(status, Vec::new())
    }
}

/// What a gate says.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The next one is asked.
    Pass,
    /// The request gets this answer.
    Refuse(Denial),
    /// It is said later.
    Wait,
}
