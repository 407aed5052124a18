//! What is known of a request to a pool besides the request itself: for the access log, for timeouts, and for a retry.

use std::time::Instant;

use maitred_http::fields::{FieldEdits, FieldLines};

use super::cached::CacheNote;
use super::gated::Gated;
use super::retry::RetryState;
use crate::facts::identity::User;
use crate::upstream::remote_thread::RemoteRequest;
use maitred_control::SlotId;
use maitred_policy::compress::{Coder, Wish};
use maitred_policy::filter::expires::Expiry;

/// A request to a pool, from the moment in which it begins to wait for a process to its line in the access log. A dispatch is
/// kept from one state of the connection to the next: a request may wait, be handed off, be lost, and wait again.
#[derive(Debug, Default)]
pub(crate) struct Dispatch {
    /// The pool that answers, for the access log.
    pub pool: Option<u16>,
    /// The id that the request got when it was handed off, in the order of its digits: as a number it would take twice the room.
    pub request_id: Option<[u8; 16]>,
    /// The request has the id from before that, because its response has it in a field.
    pub keeps_id: bool,
    /// Since when the request, all of which is there, waits for an application process.
    pub waits_since: Option<Instant>,
    /// How long it has waited, in microseconds; the largest number for an hour and more.
    pub queue_us: u32,
    /// How long the process, or the server, took for it, in microseconds, once its response is whole; the same.
    pub answer_us: u32,
    /// What came of it at servers.
    pub served: Served,
    /// When it was handed to an application process, or to a server.
    pub handed_off_at: Option<Instant>,
    /// Whether it may be sent to another process, should this one die before the client has received anything.
    pub retry: RetryState,
    /// What the thread that has the client has sent about the request, besides the request itself.
    pub across: Option<Box<RemoteRequest>>,
    /// Fields for the response that comes through a relay: `Set-Cookie`, `Cache-Status`.
    pub set_cookie: Option<Box<FieldLines>>,
    /// What is changed in the response with a file that the pool has named.
    pub file_edits: Option<Box<FieldEdits>>,
    /// What of the response depends on the request.
    pub traits: Option<Box<ResponseTraits>>,
    /// What the gates of its route have said, if it has any.
    pub gated: Option<Box<Gated>>,
    /// What the cache has to do with it.
    pub cached: Option<Box<CacheNote>>,
    /// The application process that returned the files which are still to be sent.
    pub returned_by: Option<Box<SlotId>>,
    /// The process was sent CANCEL: no client waits for the response.
    pub cancelled: bool,
    /// The process, or the server, was silent for longer than its pool allows, or has taken longer for the request.
    pub overdue: bool,
    /// The process that had the client's own socket has ended before the response had, or the server has.
    pub lost: bool,
}

/// What came of a request at the servers of its pool, for the access log: what is about one server is about the last one that got
/// it. Times are microseconds since the request was given away; those of an hour and more do not fit, and are the largest number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Served {
    /// Which server of the pool.
    pub server: u16,
    /// The status of its response; 0 without one.
    pub status: u16,
    /// Servers and connections that were tried; 0 if the request was for none.
    pub attempts: u8,
    /// When there was a connection to it: 0 if there was one before.
    pub connected_us: u32,
    /// When the first byte of its response came; 0 if none did.
    pub began_us: u32,
    /// When its response had come as a whole.
    pub ended_us: u32,
}

impl Served {
    /// Notes that one more server, or connection, is tried.
    pub(crate) fn note_attempt(&mut self, server: u16) {
        *self = Served { server, attempts: self.attempts.saturating_add(1), ..Served::default() };
    }
}

/// What of a response depends on its request, beyond its route.
#[derive(Debug)]
pub(crate) struct ResponseTraits {
    /// Further fields.
    pub fields: FieldLines,
    /// What it says about caches.
    pub expiry: Option<Expiry<'static>>,
    /// What the request and its route say about codings.
    pub wish: Option<Wish<'static>>,
    /// What codes its content, from its head to its end.
    pub coder: Option<Box<Coder>>,
}

impl Dispatch {
    /// The fields that are added to the response, besides those that its route adds. A caller that does not use them puts them
    /// back into `set_cookie`.
    pub(crate) fn take_further(&mut self) -> Option<Box<FieldLines>> {
        let fields = self.traits.as_mut().map(|traits| std::mem::take(&mut traits.fields));
        match (self.set_cookie.take(), fields.filter(|fields| !fields.is_empty())) {
            (cookie, None) => cookie,
            (None, Some(fields)) => Some(Box::new(fields)),
            (Some(mut cookie), Some(fields)) => {
                cookie.extend(fields.all());
                Some(cookie)
            }
        }
    }

    /// Whether content of the response has come of which the client cannot know yet, because an encoder has it.
    pub(crate) fn holds_content(&self) -> bool {
        let coder = self.traits.as_ref().and_then(|traits| traits.coder.as_ref());
        coder.is_some_and(|coder| coder.holds())
    }

    /// The user that the gates of its route have found.
    pub(crate) fn user(&self) -> Option<&User> {
        self.gated.as_deref()?.user()
    }

    /// The id that the request got when it was handed off.
    pub(crate) fn request_id(&self) -> Option<u128> {
        self.request_id.map(u128::from_be_bytes)
    }

    /// A request is written to a server, under this id unless it keeps another: that, and what another thread has said of it,
    /// to be put back behind that.
    pub(crate) fn begin_outbound(&mut self, new_id: u128) -> (u128, Option<Box<RemoteRequest>>) {
        let id = self.id_or(new_id);
        self.set_request_id(id);
        (id, self.across.take())
    }

    /// The id that it is given away under: a new one, unless the client is told one.
    pub(crate) fn id_or(&self, new_id: u128) -> u128 {
        self.request_id().filter(|_| self.keeps_id).unwrap_or(new_id)
    }

    /// Notes it.
    pub(crate) fn set_request_id(&mut self, id: u128) {
        self.request_id = Some(id.to_be_bytes());
    }

    /// The request has its line in the log; the next one may be for no pool.
    pub(crate) fn forget_pool(&mut self) {
        (self.pool, self.request_id, self.returned_by, self.set_cookie) = (None, None, None, None);
        (self.queue_us, self.answer_us, self.waits_since) = (0, 0, None);
        (self.traits, self.gated) = (None, None);
        self.keeps_id = false;
        (self.file_edits, self.served, self.cached) = (None, Served::default(), None);
    }

    /// The response is whole, and what is left of it is to be sent: the request counts for its limits until then.
    #[inline]
    pub(crate) fn note_whole(&mut self) {
        let gated = self.gated.take();
        self.forget_pool();
        self.gated = gated.and_then(|mut gated| gated.answered().then_some(gated));
    }

    /// All that was answered has been sent.
    #[inline]
    pub(crate) fn note_sent(&mut self) {
        self.gated.take_if(|gated| gated.is_answered());
    }

    /// Empties it. Field by field, as [`Exchange::reset`](super::Exchange::reset).
    pub(super) fn reset(&mut self) {
        self.forget_pool();
        (self.across, self.handed_off_at, self.retry) = (None, None, RetryState::Never);
        (self.cancelled, self.overdue, self.lost) = (false, false, false);
    }

    /// Microseconds since the request was given away.
    pub(crate) fn given_for_us(&self, now: Instant) -> u32 {
        let since = self.handed_off_at.map(|since| now.saturating_duration_since(since).as_micros());
        u32::try_from(since.unwrap_or_default()).unwrap_or(u32::MAX)
    }

    /// The request is at a process, or at a server, now. What is noted of an earlier one of the connection does not hold for it.
    pub(crate) fn begin(&mut self, pool: u16, queue_us: u64, now: Instant) {
        (self.pool, self.waits_since) = (Some(pool), None);
        self.queue_us = u32::try_from(queue_us).unwrap_or(u32::MAX);
        (self.handed_off_at, self.served, self.answer_us) = (Some(now), Served::default(), 0);
        (self.overdue, self.cancelled) = (false, false);
    }
}
