//! What the gates of its route have said of a request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::keys::QuestionKey;
use maitred_http::fields::FieldLines;

use crate::facts::identity::User;
use crate::limits::Lease;
use maitred_base::budget::Permit;
use maitred_files::exchange::Field;
use maitred_policy::access::known::Digest;

/// What is known of a request that gates were asked about. The value goes along wherever the request waits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gated {
    /// The answer of the gate that has refused it.
    pub denial: Option<Denial>,
    /// Who it comes from, once that is proved.
    user: Option<User>,
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
    /// The decision whether there is a copy of the request was made.
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
    /// The leases of a request that has passed its limits.
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
    /// The user, if a gate has found out who that is.
    pub(crate) fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }

    /// A gate has found out who the user is, and lets the request pass. The first gate that knows one is right: with `basic_auth`
    /// and a token, it is the user with the password.
    pub(crate) fn identify(&mut self, user: User) {
        self.user.get_or_insert(user);
    }

    /// What holds for another request that is made for this one: a fetch for the cache, a copy.
    pub(crate) fn of_copy(&self) -> Gated {
        Gated {
            user: self.user.clone(),
            decided: self.decided,
            fields: self.fields.clone(),
            ..Gated::default()
        }
    }

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

/// A request that waits for what a gate says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waits {
    /// The place of the gate in the order.
    pub place: usize,
    /// The body of the request is there, as far as it has one: the request is answered again from what was kept.
    pub whole: bool,
    /// The key of the question that another server is asked about it.
    pub question: Option<QuestionKey>,
    /// Where the answer to this question is kept, if it is to be.
    pub kept_as: Option<Place>,
    /// The check of its password.
    pub check: Option<PasswordCheck>,
    /// The number of the ticket that a module has for it, and how long its answer may take.
    pub module: Option<(u32, Duration)>,
    /// The delay of the request, if it has one.
    pub held: Option<Held>,
}

/// A check of a password that is under way.
#[derive(Debug, Clone)]
pub(crate) struct PasswordCheck {
    /// The number of the check: what comes of an earlier one is not about this request.
    pub number: u32,
    /// Who the client is if the password is right. Until then it is no user's name, and may be a password in the wrong place.
    pub claimed: Option<User>,
}

/// A request that is delayed.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    /// When it goes on.
    pub until: Instant,
    /// The client may have gone: when the time of the request is over, the request ends.
    pub leaves: bool,
    /// The request's share of `delayed_requests_max`.
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
    /// The verdict comes later.
    Wait,
}
