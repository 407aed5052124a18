//! Errors about a request whose body is on its way.

use super::Requests;
use crate::connection::incoming::Incoming;
use crate::connection::{After, State};
use crate::keys::ConnKey;
use crate::step::Stop;
use maitred_files::exchange::Field;

impl Requests {
    /// Answers a request whose body is coming with an error. Nothing more is read from its connection.
    pub(crate) fn refuse_body(&mut self, index: ConnKey, status: u16, fields: &[Field<'_>]) -> Stop {
        self.note_refused(index, status, fields);
        if !self.buffers.tx.is_empty() {
            // The page may have to be fetched, and what was answered before must not wait for that.
            self.enter(index, State::Body);
            self.exchange(index).body.incoming = Incoming::Complete;
            return Stop::Flush;
        }
        let step = self.answer_again(index, false);
        match self.follow(index, step) {
            Some(Stop::Settled(Some(_))) | None => Stop::Settled(Some(After::Linger)),
            Some(stop) => stop,
        }
    }
}
