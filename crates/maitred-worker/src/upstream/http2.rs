//! Requests that are streams of a connection of HTTP/2 to a server: what of a request has been put into frames, and what has come
//! of its response.
//!
//! What comes on a connection is for many requests, whose clients take it at speeds of their own. So it is put into the [`Inbox`]
//! of each, which the stream's window bounds, and the server may send more of it as the client takes what is there.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::keys::ConnKey;
use maitred_http::fields::FieldLines;
use maitred_http::grpc::{self, Form, web};
use maitred_http::h2::{Floods, Session, Settings, StreamKey};
use maitred_http::limits::ResponseBounds;
use maitred_http::request::Request;
use maitred_http::response::{Encode, Filter, FramedHead};

use super::failure::Cause;

/// Bytes of one response that a server may send before its client has taken some: what one stream can cost in memory. A server
/// that is 10 ms away can send 25 MB/s on it.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;

/// What a session with a server begins with, whose response heads may have so much.
pub(crate) fn settings(bounds: &ResponseBounds) -> Settings {
    Settings {
        stream_window: STREAM_WINDOW_BYTES,
        header_list_bytes_max: bounds.head_bytes_max,
        header_count_max: bounds.fields_max.into(),
        header_block_bytes_max: 2 * bounds.head_bytes_max,
        connect_protocol: false,
        floods: Floods::default(),
        ..Settings::default()
    }
}

/// One request, and its response, on one stream.
#[derive(Debug, Default)]
pub(crate) struct Spoken {
    /// The stream of the request, once it has one.
    pub(crate) stream: Option<StreamKey>,
    /// What follows a body that was read before.
    pub(crate) trailers: Option<Box<FieldLines>>,
    /// The end of the request is in frames.
    pub(crate) ended: bool,
    /// What it is if it is a call of gRPC.
    pub(crate) rpc: Option<Box<Rpc>>,
    /// What comes back.
    pub(crate) inbox: Inbox,
}

impl Spoken {
    /// A request that no server has yet.
    pub(crate) fn new(trailers: Option<FieldLines>, rpc: Option<Box<Rpc>>) -> Spoken {
        let web = rpc.as_ref().and_then(|rpc| rpc.web).map(web::Reply::new);
        let inbox = Inbox { web, ..Inbox::default() };
        Spoken { trailers: trailers.map(Box::new), rpc, inbox, ..Spoken::default() }
    }

    /// Another attempt begins.
    pub(crate) fn reset(&mut self) {
        let (trailers, rpc) = (self.trailers.take(), self.rpc.take());
        *self = Spoken::new(trailers.map(|trailers| *trailers), rpc);
    }
}

/// A call of gRPC.
#[derive(Debug)]
pub(crate) struct Rpc {
    /// When its client gives it up, by `grpc-timeout`.
    deadline: Option<Instant>,
    /// The form of the call, if the server gets another one.
    web: Option<Form>,
    /// The `content-type` that the server gets then.
    media: Vec<u8>,
}

impl Rpc {
    /// What a request is that has begun to come at `began`, if it is a call. `web`: those of gRPC-Web are made such of gRPC.
    pub(crate) fn of(request: &Request<'_, '_>, web: bool, began: Instant) -> Option<Box<Rpc>> {
        let form = Form::of(request).filter(|form| web || !form.is_web())?;
        let value = |name: &str| {
            let mut fields = request.fields.iter();
            fields.find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
        };
        let timeout = value("grpc-timeout").and_then(grpc::timeout);
        let (_, rest) = value("content-type").and_then(Form::of_type)?;
        Some(Box::new(Rpc {
            deadline: timeout.and_then(|timeout| began.checked_add(timeout)),
            web: Some(form).filter(|form| form.is_web()),
            media: [b"application/grpc", rest].concat(),
        }))
    }

    /// Whether it comes in Base64.
    pub(crate) fn is_text(&self) -> bool {
        self.web == Some(Form::WebText)
    }

    /// When its client has no use for it any more.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Notes that the call was ended by its deadline.
    pub(crate) fn forget_deadline(&mut self) {
        self.deadline = None;
    }

    /// What of the head the server gets otherwise: the time that is left at `now`, and the form.
    pub(crate) fn replaced(&self, now: Instant) -> Vec<(&'static str, Option<Vec<u8>>)> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(now));
        let timeout = left.map(|left: Duration| grpc::timeout_value(left).into_bytes());
        let mut replaced: Vec<_> =
            timeout.map(|timeout| ("grpc-timeout", Some(timeout))).into_iter().collect();
        if self.web.is_some() {
            replaced.push(("content-type", Some(self.media.clone())));
            replaced.push(("te", Some(b"trailers".to_vec())));
            // In Base64 it is another one.
            replaced.push(("content-length", None));
        }
        replaced
    }
}

/// What a call is answered with when its time is over: fields of a response, or its trailers.
pub(crate) const DEADLINE_FIELDS: [(&str, &str); 2] =
    [("grpc-status", "4"), ("grpc-message", "the time of the call (grpc-timeout) is over")];

/// What has come of a response, and was not given to the client.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Heads; of the final one, there is one.
    heads: VecDeque<Box<FramedHead>>,
    content: Vec<u8>,
    trailers: Option<Box<FieldLines>>,
    /// The server has ended it.
    ended: bool,
    /// What went wrong instead.
    failed: Option<(Cause, String)>,
    complete: bool,
    /// Makes it one of gRPC-Web.
    web: Option<web::Reply>,
}

impl Inbox {
    pub(crate) fn put_head(&mut self, head: Box<FramedHead>) {
        self.ended |= head.ended;
        self.heads.push_back(head);
    }

    pub(crate) fn put_content(&mut self, bytes: &[u8], ended: bool) {
        self.content.extend_from_slice(bytes);
        self.ended |= ended;
    }

    pub(crate) fn put_trailers(&mut self, trailers: Box<FieldLines>) {
        (self.trailers, self.ended) = (Some(trailers), true);
    }

    /// The rest does not come. A response that is whole stays so.
    pub(crate) fn fail(&mut self, cause: Cause, why: &str) {
        if !self.ended && self.failed.is_none() {
            self.failed = Some((cause, why.to_owned()));
        }
    }

    /// Whether something is there for the client.
    pub(crate) fn has_news(&self) -> bool {
        !self.complete && (!self.heads.is_empty() || !self.content.is_empty() || self.ended)
    }

    /// What has come is all, and ends with these trailers.
    pub(crate) fn end_with(&mut self, trailers: &[(&str, &str)]) {
        let mut lines = Box::new(FieldLines::default());
        trailers.iter().for_each(|(name, value)| lines.push(name.as_bytes(), value.as_bytes()));
        (self.trailers, self.ended, self.failed) = (Some(lines), true, None);
    }

    /// What went wrong, once the client has what came before.
    pub(crate) fn take_failure(&mut self) -> Option<(Cause, String)> {
        self.failed.take()
    }

    /// Whether all of the response was given to the filter.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Bytes of content.
    pub(crate) fn content_bytes(&self) -> usize {
        self.content.len()
    }

    /// Bytes of memory that the client has yet to take.
    pub(crate) fn held_bytes(&self) -> usize {
        if self.content.is_empty() { 0 } else { self.content.capacity() }
    }

    /// Gives everything that is there to the filter.
    ///
    /// # Errors
    /// Why it is no response.
    pub(crate) fn give(&mut self, filter: &mut Filter, out: &mut impl Encode) -> Result<(), (Cause, String)> {
        let bad = |bad: maitred_http::response::Bad| (Cause::Bad, bad.to_string());
        while let Some(mut head) = self.heads.pop_front() {
            self.web.iter_mut().for_each(|web| web.head(&mut head));
            filter.begin_framed(&head, out).map_err(bad)?;
        }
        if !self.content.is_empty() {
            let content = match &mut self.web {
                None => &self.content[..],
                Some(web) => web.content(&self.content),
            };
            filter.feed(content, out).map_err(bad)?;
            self.content.clear();
        }
        if self.ended && !self.complete {
            let trailers = self.trailers.take();
            let last =
                self.web.as_mut().zip(trailers.as_ref()).and_then(|(web, lines)| web.trailers(lines.all()));
            match last {
                Some(last) => _ = filter.feed(last, out).map_err(bad)?,
                None => trailers.into_iter().for_each(|trailers| filter.put_trailers(trailers)),
            }
            filter.end(out).map_err(bad)?;
            (self.complete, self.content) = (true, Vec::new());
        }
        Ok(())
    }
}

/// What there is of HTTP/2 on a connection to a server.
#[derive(Debug)]
pub(crate) struct Http2 {
    pub(crate) session: Session,
    /// The way is there: connected, and the handshake of TLS is over.
    pub(crate) open: bool,
    /// Client connections whose requests wait for the server's settings.
    pub(crate) waiting: Vec<ConnKey>,
    /// Part of a frame.
    pub(crate) rest: Vec<u8>,
    /// More is there than was read, and no event will say so.
    pub(crate) readable: bool,
    /// The connection is noted as having something to send.
    pub(crate) dirty: bool,
    /// The server takes no request any more, or the session has failed.
    pub(crate) over: bool,
    /// The session has ended, and with it all of its requests.
    pub(crate) ended: bool,
    /// The end of the session counts as a failure of the server already.
    counted: bool,
    /// When something last came of any response: acknowledgements and parts of frames are no signs of it.
    pub(crate) heard_at: Instant,
}

impl Http2 {
    pub(crate) fn new(session: Session, now: Instant) -> Box<Http2> {
        Box::new(Http2 {
            session,
            open: false,
            waiting: Vec::new(),
            rest: Vec::new(),
            readable: false,
            dirty: false,
            over: false,
            ended: false,
            counted: false,
            heard_at: now,
        })
    }

    /// Whether it can have another request. `most`: how many may wait for the server's settings, if these have not come.
    pub(crate) fn takes_more(&self, most: Option<u32>) -> bool {
        match most {
            _ if self.over => false,
            None => self.session.may_open(),
            Some(most) => self.waiting.len() < most as usize,
        }
    }

    /// Whether the failure of one of its requests is one of the server: the end of a connection is, once, however many requests
    /// it had.
    pub(crate) fn counts_failure(&mut self) -> bool {
        !self.ended || !std::mem::replace(&mut self.counted, true)
    }

    /// Whether it has no request.
    pub(crate) fn is_idle(&self) -> bool {
        self.session.streams() == 0 && self.waiting.is_empty()
    }

    /// Client connections whose requests it has.
    pub(crate) fn users(&mut self) -> Vec<ConnKey> {
        let users = self.session.users().into_iter().map(ConnKey::from_number);
        users.chain(self.waiting.iter().copied()).collect()
    }
}
