//! What is decided about a request, once, when its head is there.

use maitred_http::request::Reject;

use maitred_policy::plan::Plan;
use maitred_policy::route::Choice;

/// What answers a request, and how its response is treated. The decision goes with a request that has to wait, wherever the
/// request does, so that nothing is decided twice.
#[derive(Debug, Clone, Copy)]
pub struct Routed {
    /// What answers.
    pub decision: Decision,
    /// What its route says.
    pub plan: &'static Plan,
}

/// What answers a request.
#[derive(Debug, Clone, Copy)]
pub enum Decision {
    /// The admin address.
    Admin,
    /// The admin address, with a configuration.
    Configure,
    /// Nothing: its target is refused.
    Refused(Reject),
    /// The server itself: a browser asks which requests pages of another origin may make.
    Preflight,
    /// A redirect to TLS.
    ToTls,
    /// The server itself: it is about no path.
    NoPath,
    /// Nothing: the site that it names does not answer where it has come in.
    Misdirected,
    /// Nothing: it asks for a protocol that its target does not give.
    Misleading,
    /// Nothing: its routes lead to one another without an end.
    Endless,
    /// The proof that an authority for certificates asks for.
    Challenge,
    /// An error or an answer of a gate, which its exchange has.
    Denied,
    /// What its route names.
    Route(Choice<'static>),
}

impl Routed {
    /// The pool that the request is for.
    pub fn pool(&self) -> Option<usize> {
        match self.decision {
            Decision::Route(Choice::Pool(pool)) => Some(pool),
            // For what is not among the files.
            Decision::Route(Choice::Files(_)) => self.plan.fallback,
            _ => None,
        }
    }

    /// Whether the body of the request has to be kept for what answers it.
    pub fn wants_body(&self) -> bool {
        match self.decision {
            Decision::Configure => true,
            Decision::Route(Choice::Modules) => self.plan.modules.body_bytes_max.is_some(),
            _ => self.pool().is_some(),
        }
    }
}
