//! Questions to a pool about a request of a client, for a gate: sub-requests without a body, whose responses are read here and
//! not sent on.
//!
//! A question goes the way of a request from another thread ([`remote_thread`](super::remote_thread)): this thread gets one end
//! of a socketpair as a connection of its own, which it answers as any other, with all that belongs to that: queue, balancing,
//! retries, timeouts of the pool. The answer is read from the other end. So a gate may ask whatever a route can lead to.
//!
//! A question ends with its answer, with the connection that it is about (`Exchanges::remove`), or when the gate has no more
//! time for it.

use std::os::fd::OwnedFd;
use std::time::Instant;

use maitred_handoff::{REQUEST_PREFIX_BYTES, RequestFlags, begin_request};
use maitred_http::fields::{FRAMING_FIELDS, FieldLines, FieldsRef};
use maitred_http::limits::{RESPONSE_FIELDS_MOST, ResponseBounds};
use maitred_http::request::{Framing, HeadLimits, Request, RequestHead};
use maitred_http::response::{Encode, Ending, Filter, ResponseHead, ResponsePolicy};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

use super::Exchanges;
use crate::connection::body::RequestBody;
use crate::connection::gated::Gated;
use crate::connection::retry::RetryState;
use crate::connection::transfer::RequestTransfer;
use crate::forward::named_by_connection;
use crate::inbox::ConnectionTransfer;
use crate::keys::{ConnKey, QuestionId, QuestionKey};
use crate::token::{SERIAL_MASK, Token};
use crate::upstream::remote_thread::Remote;
use maitred_base::budget::Permit;
use maitred_files::exchange::{Decision, Routed};
use maitred_policy::access::forward::Forward;
use maitred_policy::route::Choice;

/// The most content of an answer that is kept, to be passed on if the request is refused: a page with a form.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The longest head of a question: more than any client may send.
const HEAD_BYTES_MAX: u32 = 1 << 20;

/// Fields of the client's request that are about its connection, or written anew.
const OF_CONNECTIONS: [&str; 9] = [
    "content-length",
    "transfer-encoding",
    "expect",
    "trailer",
    "te",
    "connection",
    "upgrade",
    "keep-alive",
    "host",
];

/// Fields about the body of a request, or about a response that the client has: the question has none of these either.
const NOT_ASKED: [&str; 4] = ["content-type", "content-encoding", "range", "if-range"];

/// A question that waits for its answer.
#[derive(Debug)]
pub(crate) struct Question {
    socket: OwnedFd,
    serial: u32,
    /// The connection that it is about; `None` for a copy of a request, of which nothing comes.
    pub(super) index: Option<ConnKey>,
    /// Since when it is under way.
    pub(super) since: Instant,
    filter: Filter,
    answer: Answer,
    _held: Permit,
}

/// A request that a thread sends to itself.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) head: RequestHead,
    pub(super) body: RequestBody,
    pub(super) routed: Routed,
    pub(super) path: Option<Box<[u8]>>,
    pub(super) gated: Option<Box<Gated>>,
}

/// The near end of its connection.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) socket: OwnedFd,
    pub(super) held: Permit,
    pub(super) remote: Remote,
    /// The id that the request has.
    pub(super) id: u128,
}

/// What a pool has answered.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The status; 0 if there is no whole answer.
    pub(crate) status: u16,
    /// The fields of the answer, without those that frame it.
    pub(crate) fields: FieldLines,
    /// The content of the answer.
    pub(crate) content: Vec<u8>,
}

impl Encode for Answer {
    fn interim(&mut self, _head: &ResponseHead<'_>) {}

    fn head(&mut self, head: &ResponseHead<'_>, _ending: &Ending) {
        self.status = head.status;
        head.for_each(|name, value| {
            if !FRAMING_FIELDS
                .iter()
                .chain(&["date"])
                .any(|framing| name.eq_ignore_ascii_case(framing.as_bytes()))
            {
                self.fields.push(name, value);
            }
        });
    }

    fn content(&mut self) -> &mut Vec<u8> {
        &mut self.content
    }
}

impl Exchanges {
    /// Asks a pool about the request of a connection. `None` if that cannot be: no descriptors are left, or the head is too long.
    /// `target`: what the request is for, as it is judged.
    pub(crate) fn ask(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        (forward, target): (&Forward, &str),
    ) -> Option<QuestionKey> {
        let how = Copied::of(request, "GET", &forward.path);
        let head = head_of(request, &how, &self.head_limits)?;
        let mut gated = Gated::default();
        gated.fields.push(b"x-forwarded-method", request.method_text.as_bytes());
        gated.fields.push(b"x-forwarded-uri", target.as_bytes());
        let whole = (head, RequestBody::default());
        self.begin_question((index, Some(index)), request, whole, (forward.pool, gated))
    }

    /// Sends a request that is about that of the connection `from`, or a copy of it, to a pool. What comes of it is for the
    /// connection `index`, if for any.
    pub(super) fn begin_question(
        &mut self,
        (from, index): (ConnKey, Option<ConnKey>),
        request: &Request<'_, '_>,
        (head, body): (RequestHead, RequestBody),
        (pool, gated): (usize, Gated),
    ) -> Option<QuestionKey> {
        let routed =
            Routed { decision: Decision::Route(Choice::Pool(pool)), plan: self.shared.router.bare_plan() };
        let sent = Sent { head, body, routed, path: None, gated: Some(Box::new(gated)) };
        let (Inner { socket: near, held, .. }, transfer) = self.prepare_inner(from, request, pool, sent)?;
        self.upstreams.serial = self.upstreams.serial.wrapping_add(1) & SERIAL_MASK;
        let serial = self.upstreams.serial;
        let id = QuestionId { key: self.questions.vacant_key(), serial };
        use epoll::EventFlags as F;
        let token = Token::Question(id).pack();
        epoll::add(&self.processes.clients.base.epoll, &near, token, F::IN | F::RDHUP | F::ET).ok()?;
        let (filter, answer) = (Filter::new(POLICY), Answer::default());
        let since = self.processes.clients.base.clock.now;
        let key = self.questions.insert(Question {
            socket: near,
            serial,
            index,
            since,
            filter,
            answer,
            _held: held,
        });
        self.shared.transfer(self.number, transfer);
        Some(key)
    }

    /// Prepares a request that this thread sends to itself, about that of the connection `from`: this end of its connection, and
    /// what [`Shared::transfer`](crate::shared::Shared::transfer) takes.
    pub(super) fn prepare_inner(
        &mut self,
        from: ConnKey,
        request: &Request<'_, '_>,
        pool: usize,
        sent: Sent,
    ) -> Option<(Inner, ConnectionTransfer)> {
        let held = self.shared.descriptors.take(2)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
        let settings = self.shared.start.config.pools.get(pool)?;
        let id = self.forwarded.next_id();
        let across = self.remote_request(from, request, settings, id);
        let remote = Remote::new(across.heard.clone(), across.began);
        let sent = RequestTransfer {
            head: sent.head,
            routed: Some(sent.routed),
            path: sent.path,
            body: sent.body,
            retry: RetryState::default(),
            waits_since: None,
            gated: sent.gated,
            across: Some(Box::new(across)),
        };
        let connection = &self.connections[from];
        let (address, listen) = (connection.remote.address, connection.listen);
        let transfer = ConnectionTransfer::of_request(far, address, listen, sent);
        Some((Inner { socket: near, held, remote, id }, transfer))
    }

    /// Something of an answer has come. Gives back the connection that it is about and the answer, once that is there.
    pub(crate) fn on_answer(&mut self, id: QuestionId) -> Option<(ConnKey, Answer)> {
        let mut rx = self.buffers.rx.take();
        let ended = self
            .questions
            .get_mut(id.key)
            .is_some_and(|question| question.serial == id.serial && question.read(&mut rx));
        self.buffers.rx.put_back(rx);
        let question = ended.then(|| self.questions.remove(id.key))?;
        Some((question.index?, question.answer))
    }

    /// The question of a connection is of no use any more: closing its socket cancels it.
    pub(crate) fn drop_question(&mut self, key: QuestionKey) {
        let _ = self.questions.try_remove(key);
    }
}

/// The head of an answer has passed the bounds of its pool, and has got some fields since.
const BOUNDS: ResponseBounds =
    ResponseBounds { head_bytes_max: 2 << 20, fields_max: 2 * RESPONSE_FIELDS_MOST as u16 };

/// What is required of an answer: it is read here.
pub(super) const POLICY: ResponsePolicy = ResponsePolicy {
    head_request: false,
    http10: false,
    informational: false,
    continues: false,
    framed: true,
    keep: false,
    trailers: false,
    switch: None,
    bounds: BOUNDS,
};

impl Question {
    /// Reads what is there. True: nothing more is to come, and an answer that is not whole, or too long, has no status.
    fn read(&mut self, rx: &mut Vec<u8>) -> bool {
        loop {
            rx.clear();
            let judged = match recv(&self.socket, rustix::buffer::spare_capacity(rx), RecvFlags::DONTWAIT) {
                Ok((_, 0)) => self.filter.end(&mut self.answer).map(|()| true),
                Ok(_) => self.filter.feed(rx, &mut self.answer).map(|progress| progress.complete),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return false,
                Err(_) => Ok(true),
            };
            let refuses = !(200..300).contains(&self.answer.status);
            if !refuses || self.index.is_none() {
                // Only its fields count.
                self.answer.content.clear();
            }
            let too_long = self.answer.content.len() > ANSWER_BYTES_MAX;
            match judged {
                Ok(false) if !too_long => {}
                Ok(true) if !too_long && self.filter.complete() => return true,
                _ => {
                    self.answer.status = 0;
                    return true;
                }
            }
        }
    }
}

/// How a head is copied.
pub(super) struct Copied<'a> {
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    /// The `Host` of the copy.
    pub(super) authority: &'a str,
    /// The one `Cookie` field in place of the client's, which is none if it is empty; `None`: those of the client.
    pub(super) cookies: Option<&'a [u8]>,
    /// The length of its body; `None` for one that is not copied, with all that is about it.
    pub(super) body: Option<usize>,
    /// Fields besides those that are copied.
    pub(super) further: FieldsRef<'a>,
}

impl<'a> Copied<'a> {
    /// Without a body, and with nothing else changed.
    pub(super) fn of(request: &Request<'a, '_>, method: &'a str, target: &'a str) -> Copied<'a> {
        let (authority, further) = (request.authority, FieldsRef::default());
        Copied { method, target, authority, cookies: None, body: None, further }
    }
}

/// The head of a question: the client's, with another method and target, and without a body, as what asks Caddy and Traefik. Or
/// that of a copy. `None` if it is too long.
pub(super) fn head_of(
    request: &Request<'_, '_>,
    how: &Copied<'_>,
    limits: &HeadLimits,
) -> Option<RequestHead> {
    let mut out = Vec::with_capacity(1024);
    let flags = RequestFlags {
        keep: false,
        http10: false,
        head: false,
        body_fd: false,
        may_detach: false,
        body_stream: false,
    };
    let mut head = begin_request(&mut out, 0, 0, flags, 0).head(how.method, how.target);
    head.field("host", how.authority.as_bytes());
    let hops: Vec<&[u8]> = named_by_connection(request).collect();
    let ends_here = |name: &str| hops.iter().any(|named| named.eq_ignore_ascii_case(name.as_bytes()));
    for field in request.fields {
        let is_replaced = how.cookies.is_some() && field.name.eq_ignore_ascii_case("cookie");
        if ends_here(field.name) || is_replaced {
            continue;
        }
        let is_named = |names: &[&str]| names.iter().any(|name| field.name.eq_ignore_ascii_case(name));
        let is_copied = match how.body {
            Some(_) => !is_named(&OF_CONNECTIONS),
            None => {
                !is_named(&OF_CONNECTIONS)
                    && !is_named(&NOT_ASKED)
                    && !field.name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("if-"))
            }
        };
        if is_copied {
            head.field(field.name, field.value);
        }
    }
    if let Some(cookies) = how.cookies.filter(|cookies| !cookies.is_empty()) {
        head.field("cookie", cookies);
    }
    for (name, value) in how.further.iter() {
        head.field(&String::from_utf8_lossy(name), value);
    }
    if let Some(bytes) = how.body.filter(|bytes| *bytes > 0 || request.framing != Framing::None) {
        head.field("content-length", bytes.to_string().as_bytes());
    }
    let fits = head.body(None).finish(HEAD_BYTES_MAX);
    let text = out.get(REQUEST_PREFIX_BYTES..).filter(|_| fits)?;
    RequestHead::received(text, limits).ok()
}
