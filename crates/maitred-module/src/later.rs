//! Requests that are answered later.

use maitred_sys::module::abi::{self, Response};
use maitred_sys::module::guest;

use crate::request::{Outcome, Request};
use crate::response::OwnedResponse;

/// What the answer of a request is given to, by any thread. A ticket that is dropped answers with 500.
#[derive(Debug)]
pub struct Ticket {
    raw: abi::Ticket,
    used: bool,
}

impl Ticket {
    pub(crate) fn new(raw: abi::Ticket) -> Ticket {
        Ticket { raw, used: false }
    }

    /// Answers. False if the response breaks a rule of HTTP, for which the client gets 500, or if the request is known to have
    /// ended meanwhile. The request may have ended with true as well.
    pub fn answer(mut self, response: &Response<'_>) -> bool {
        self.used = guest::complete(&self.raw, Some(response));
        self.used
    }

    /// The route goes on, as after [`Request::pass`]. False if the request is known to have ended meanwhile.
    pub fn pass(mut self) -> bool {
        self.used = true;
        guest::complete(&self.raw, None)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.used {
            guest::complete(&self.raw, Some(&Response::new(500, &[], b"")));
        }
    }
}

/// Has a helper thread of the server call this, in turn: it may wait. There are few of these threads, and all modules share them.
///
/// # Errors
/// Too many calls wait already; the function comes back.
pub fn run(task: impl FnOnce() + Send + 'static) -> Result<(), Box<dyn FnOnce() + Send>> {
    guest::run(Box::new(task))
}

impl Request<'_> {
    /// Has a helper thread make the answer. If too many calls wait already, the client gets 503.
    pub fn answer_by_helper(self, make: impl FnOnce() -> OwnedResponse + Send + 'static) -> Outcome {
        self.later(|ticket| {
            let (give, take) = std::sync::mpsc::channel();
            let task = move || {
                if let Ok(ticket) = take.recv() {
                    let ticket: Ticket = ticket;
                    make().lend(|response| ticket.answer(response));
                }
            };
            match run(task) {
                Ok(()) => drop(give.send(ticket)),
                Err(_) => drop(ticket.answer(&Response::new(503, &[], b""))),
            }
        })
    }
}
