//! `delay`: a gate that holds a request for a while, for tests of what is slow. The gate is the last one, so that nothing is
//! delayed that may not be answered.
//!
//! A delayed request is a connection in the state `Gate`, with its deadline: no thread waits, and nothing of its body is read.
//! Such a request ends at once when its connection breaks or its stream is reset. A client that has finished sending may have
//! gone, too: it gets as little time as with a server that does not answer.

use std::sync::Arc;
use std::time::Duration;

use super::Requests;
use crate::connection::gated::{Held, Verdict, Waits};
use crate::connection::table::Phase;
use crate::keys::ConnKey;
use crate::upstream::HALF_CLOSED_TIMEOUT;

impl Requests {
    /// Holds a request for so long, unless too many are held.
    pub(super) fn delay(&mut self, index: ConnKey, time: Duration) -> Verdict {
        let Some(permit) = self.shared.delayed.take(1) else {
            self.row.delays_left_out.add(1);
            return Verdict::Pass;
        };
        self.row.delayed.add(1);
        let held = Held { until: self.clock.now + time, leaves: false, _permit: Arc::new(permit) };
        self.gated(index).waits = Some(Waits { held: Some(held), ..Waits::default() });
        Verdict::Wait
    }

    /// A deadline has passed. False if it is not that of a delay.
    pub(super) fn end_delay(&mut self, index: ConnKey) -> bool {
        let Some(held) = self.held(index) else { return false };
        match held.leaves {
            true => self.abort_any(index),
            false => self.on_verdict(index, Verdict::Pass),
        }
        true
    }

    /// The client of a request that waits at a gate has finished sending, and may have gone.
    pub(super) fn shorten_delay(&mut self, index: ConnKey) {
        let soon = self.clock.now + HALF_CLOSED_TIMEOUT;
        if let Some(held) = self.held(index).filter(|held| !held.leaves && soon < held.until) {
            held.leaves = true;
            self.wheel.arm(index, soon);
        }
    }

    fn held(&mut self, index: ConnKey) -> Option<&mut Held> {
        let connection = self.connections.get_mut(index).filter(|found| found.is(Phase::Gate))?;
        connection.exchange.as_deref_mut()?.dispatch.gated.as_deref_mut()?.waits.as_mut()?.held.as_mut()
    }
}
