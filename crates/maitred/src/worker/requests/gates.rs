//! The gates of a route: what is asked, once, whether a request may be answered, before its body is read and before what answers
//! it is begun.
//!
//! | in this order | asks | refuses with |
//! |---|---|---|
//! | address | `allow` and `deny` | 403 |
//!
//! They are asked when the head is there and what answers the request is decided ([`Requests::take_request`]); a request of a
//! worker process that was replaced is asked about anew. What a gate says is a [`Verdict`]. A request that is refused becomes one
//! that no body is wanted for ([`Decision::Denied`]): a client that waits for 100 (Continue) gets none, a short body is dropped,
//! and after a long one the connection ends.
//!
//! Nothing is asked while something that was answered before is still to be sent: a request that has to wait for that
//! (`Step::FlushFirst`) is parsed anew, and would be asked about, and counted, twice. Once it has passed, it has passed: where it
//! is kept, its [`Routed`] goes along, and answering it again asks no gate.
//!
//! A new gate is a field of [`Gates`], a variant of [`Gate`] with its place in [`ORDER`], and an arm in `ask_gate`.

use maitred_http::request::Request;

use super::Requests;
use crate::access::Gates;
use crate::exchange::{Decision, Field, Routed};
use crate::worker::connection::gated::Denial;
use crate::worker::step::{RequestInput, Step};

/// What can refuse a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// `allow` and `deny`
    Address,
}

/// The gates in the order in which they are asked: what costs little and says nothing of the site comes first.
const ORDER: [Gate; 1] = [Gate::Address];

/// What a gate says.
#[derive(Debug)]
pub(in crate::worker) enum Verdict {
    /// The next one is asked.
    Pass,
    /// The request gets this answer.
    Refuse(Denial),
}

impl Requests {
    /// Whether gates have to be asked about a request.
    #[inline]
    pub(in crate::worker) fn is_gated(routed: Routed) -> bool {
        routed.plan.gates.is_some() && matches!(routed.decision, Decision::Route(_))
    }

    /// Asks the gates about a request: what was decided, or that it is denied.
    pub(in crate::worker) fn ask_gates(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        routed: Routed,
    ) -> Routed {
        let Some(gates) = routed.plan.gates.as_deref() else { return routed };
        for gate in ORDER {
            match self.ask_gate(gate, index, request, gates) {
                Verdict::Pass => {}
                Verdict::Refuse(denial) => {
                    self.exchange(index).dispatch.denial = Some(Box::new(denial));
                    return Routed { decision: Decision::Denied, ..routed };
                }
            }
        }
        routed
    }

    fn ask_gate(&mut self, gate: Gate, index: u32, request: &Request<'_, '_>, gates: &Gates) -> Verdict {
        match gate {
            Gate::Address => match &gates.addresses {
                Some(addresses) if !addresses.admit(self.origin(index, request).client) => {
                    Verdict::Refuse(Denial { status: 403, fields: Vec::new() })
                }
                _ => Verdict::Pass,
            },
        }
    }

    /// Answers a request that a gate has refused.
    pub(in crate::worker) fn answer_denied(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Step {
        // It stays until the request has its answer, for the case that this has to wait for what is to be sent before.
        let denial = self.exchange(index).dispatch.denial.as_deref();
        let (status, fields) =
            denial.map_or((403, Vec::new()), |denial| (denial.status, denial.fields.clone()));
        let fields: Vec<Field<'_>> = fields;
        self.site_error(index, request, given, (status, &fields))
    }
}
