//! What an exchange may hold in which state. The compiler cannot check it, since buffers are kept from one state to the next; the
//! simulated worlds do, after each turn.
//!
//! | what | in which states |
//! |---|---|
//! | a body that is still to come, and is kept | `Body`, `Spooling`, and `Writing` while earlier responses leave |
//! | a body that is whole while earlier responses leave | `Spooling`, `Writing` |
//! | a spooled body | all of these, and `Disk`, `Queued` |
//! | what a process has returned to be sent | `HandedOff`, `Upstream` |
//! | what is still to be sent | `Writing`, `Upstream` |
//! | trailers of the response | the same |
//! | an error to be answered | none: it is answered in the turn in which it is noted |

use super::incoming::Incoming;
use super::table::Phase;
use super::{Connection, Exchange};

impl Connection {
    /// What it holds though its state has no use for it: a leftover, or a state that was entered too early.
    pub fn stray(&self) -> Option<&'static str> {
        let phase = self.state.phase();
        self.exchange.as_deref().and_then(|exchange| exchange.stray(phase))
    }
}

impl Exchange {
    fn stray(&self, phase: Phase) -> Option<&'static str> {
        use Phase as P;
        let kept = matches!(self.body.incoming, Incoming::Kept(_) | Incoming::Discarded(_));
        let whole = matches!(self.body.incoming, Incoming::Complete);
        let sends = [P::Writing, P::Upstream];
        let held: [(bool, &[Phase], &'static str); 6] = [
            (kept, &[P::Body, P::Spooling, P::Writing], "a body that is still to come"),
            (whole, &[P::Spooling, P::Writing], "a body that is whole"),
            (
                self.body.spool.is_some(),
                &[P::Body, P::Spooling, P::Writing, P::Disk, P::Queued],
                "a spooled body",
            ),
            (self.outgoing.has_returned(), &[P::HandedOff, P::Upstream], "what a process has returned"),
            (!self.outgoing.is_empty() || self.outgoing.trailers.is_some(), &sends, "what is to be sent"),
            (self.refusal.is_some(), &[], "an error to be answered"),
        ];
        held.iter().find(|(is_held, states, _)| *is_held && !states.contains(&phase)).map(|(.., what)| *what)
    }
}
