//! A request to a server: what of it has been sent, and in which dialect.

use std::ops::Range;
use std::time::Instant;

use crate::keys::{Key, UpstreamKey};
use maitred_http::fastcgi::stdin::Piece;
use maitred_http::fields::FieldLines;
use maitred_http::h2::head_bytes;
use maitred_http::mapping::Mapping;
use maitred_http::request::Framing;
use maitred_http::websocket::Handshake;
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::far_end::FarEnd;
use super::passing::{Framed, Passing};
use super::{Feed, fastcgi, http2};
use crate::proxy::Wish;
use maitred_config::{HostRule, MapRedirects, Pool, Source, Upstream};
use maitred_policy::plan::Plan;
use maitred_policy::rewrite::Rewrite;

/// Bytes of a body that one server takes in one turn, so that the other connections get their turn.
const SENT_PER_TURN: u64 = 512 * 1024;

/// The protocol of a server.
#[derive(Debug)]
pub(crate) enum Dialect {
    /// HTTP/1.1, with what comes behind a spooled body.
    Http1(Ending),
    /// FastCGI, with its state.
    FastCgi(Box<fastcgi::Spoken>),
    /// HTTP/2: a stream of a connection that has others.
    Http2(Box<http2::Spoken>),
}

/// What comes behind the content of a spooled body: the end of its chunk, and the trailers.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    bytes: Box<[u8]>,
    /// Bytes of it that the server has.
    sent: usize,
    /// The content has been sent.
    reached: bool,
}

impl Ending {
    /// Nothing of these bytes has been sent.
    pub(crate) fn new(bytes: Vec<u8>) -> Ending {
        Ending { bytes: bytes.into(), sent: 0, reached: false }
    }

    fn next_piece(&mut self, left: u64) -> Piece<'_> {
        self.reached = left == 0;
        match self.bytes.get(self.sent..) {
            _ if left > 0 => Piece::Content(left),
            Some(rest @ [_, ..]) => Piece::End(rest),
            _ => Piece::Nothing,
        }
    }
}

/// A request in the form in which a server gets it.
#[derive(Debug)]
pub(crate) struct Written {
    /// All of it, but for a spooled body.
    pub(crate) out: Vec<u8>,
    /// Where it begins in `out`.
    pub(crate) start: usize,
    /// The protocol in which it is written.
    pub(crate) dialect: Dialect,
    /// Where in `out` the host stands, if it is to be that of the server which gets the request.
    pub(crate) host: Option<Range<usize>>,
    /// What the answer has to be, if it is the handshake of a WebSocket that this server has made the key for.
    pub(crate) handshake: Option<Box<Handshake>>,
}

impl Written {
    /// Whether a body comes in Base64, and goes on decoded.
    pub(crate) fn is_text(&self) -> bool {
        matches!(&self.dialect, Dialect::Http2(spoken) if spoken.rpc.as_ref().is_some_and(|rpc| rpc.is_text()))
    }

    /// How a body is framed that follows while it comes, and came with this framing.
    pub(crate) fn framed(&self, came: Framing) -> Framed {
        match (&self.dialect, came) {
            (Dialect::FastCgi(_), _) => Framed::Records,
            (Dialect::Http2(_), _) => Framed::Frames,
            (Dialect::Http1(_), Framing::Chunked) => Framed::Chunks,
            (Dialect::Http1(_), Framing::Length(_) | Framing::None) => Framed::Length,
        }
    }
}

impl Dialect {
    /// The next piece to send of a body of which `left` bytes are unsent. The pieces before it were reported to `note_sent`.
    fn next_piece(&mut self, left: u64) -> Piece<'_> {
        match self {
            Dialect::Http1(ending) => ending.next_piece(left),
            Dialect::FastCgi(spoken) => spoken.stdin.next_piece(left),
            // The frames of HTTP/2 are made elsewhere.
            Dialect::Http2(_) => Piece::Nothing,
        }
    }

    fn note_sent(&mut self, bytes: usize) {
        match self {
            Dialect::Http1(ending) if ending.reached => ending.sent += bytes,
            Dialect::Http1(_) | Dialect::Http2(_) => {}
            Dialect::FastCgi(spoken) => spoken.stdin.note_sent(bytes),
        }
    }

    /// Another attempt begins.
    pub(crate) fn reset(&mut self) {
        match self {
            Dialect::Http1(ending) => (ending.sent, ending.reached) = (0, false),
            Dialect::FastCgi(spoken) => **spoken = fastcgi::Spoken::default(),
            Dialect::Http2(spoken) => spoken.reset(),
        }
    }
}

/// Which server a client comes back to.
#[derive(Debug)]
pub(crate) struct Session {
    /// The slot of the server that its cookie names.
    pub(crate) server: Option<u16>,
    /// The client speaks TLS.
    pub(crate) secure: bool,
    /// What is set in the response.
    pub(crate) cookie: Option<FieldLines>,
}

/// The part of an attempt that is only for a server.
#[derive(Debug)]
pub(crate) struct Call {
    /// The connection that it is at, or was at last.
    pub(crate) upstream: UpstreamKey,
    /// The protocol of the server.
    pub dialect: Dialect,
    /// Index of the pool.
    pub pool: u16,
    /// The authority of the server that has the request, if references to it are mapped; otherwise empty.
    authority: String,
    /// Whether references to the server are mapped.
    maps: bool,
    /// The host of the request, if references to it are mapped; otherwise empty.
    client: Box<str>,
    /// The request, without a body that is spooled.
    out: Vec<u8>,
    /// Where it begins in `out`.
    pub(crate) start: usize,
    /// Where in `out` the host stands, if each server gets its own.
    host: Option<Range<u32>>,
    /// Up to where `out` has been sent.
    pub(crate) sent: usize,
    /// The request may be sent twice, by its method (`retry.methods`).
    pub safe: bool,
    /// The method is safe (9110-9.2.1), no matter what the pool says of it.
    pub(crate) harmless: bool,
    /// When it was given to the server that has it now.
    pub(crate) began: Option<Instant>,
    /// Statuses for which it is retried, if there is another server.
    pub(crate) statuses: &'static [u16],
    /// The server has answered with one of them; nothing of that is with the client.
    pub(crate) refused: Option<u16>,
    /// Servers of the pool that have failed it.
    pub(crate) tried: Vec<u16>,
    /// The server, by its slot, where it is counted already: it goes there next.
    pub(crate) held: Option<u16>,
    /// The request goes to the same server again, over another connection.
    pub(crate) stays: bool,
    /// What is hashed for it.
    pub(crate) key: Option<u64>,
    /// In a pool with `sticky`.
    pub(crate) session: Option<Box<Session>>,
    /// Connections that it was sent over, or that were tried.
    pub(crate) attempts: u8,
    /// No idle connection is used any more: one has turned out to be closed.
    pub(crate) fresh_only: bool,
    /// The status for the client if no server answers.
    pub(crate) status: u16,
    /// The server may have read a part of the request.
    pub any_sent: bool,
    /// The server takes no more of it.
    pub(crate) send_failed: bool,
    /// The client has finished sending, and may be gone.
    pub half_closed: bool,
}

impl Call {
    /// A request that no server has yet.
    pub(crate) fn new(pool: u16, written: Written, safe: bool) -> Call {
        let Written { out, start, dialect, host, .. } = written;
        Call {
            upstream: UpstreamKey::NONE,
            dialect,
            pool,
            authority: String::new(),
            maps: false,
            client: Box::default(),
            out,
            start,
            host: host.map(|place| place.start as u32..place.end as u32),
            sent: start,
            safe,
            harmless: false,
            began: None,
            statuses: &[],
            refused: None,
            tried: Vec::new(),
            held: None,
            stays: false,
            key: None,
            session: None,
            attempts: 0,
            fresh_only: false,
            status: 502,
            any_sent: false,
            send_failed: false,
            half_closed: false,
        }
    }

    /// What it has to say about its server.
    pub(crate) fn wish(&self) -> Wish<'_> {
        let sticky = self.session.as_deref().and_then(|session| session.server);
        Wish { tried: &self.tried, key: self.key, sticky }
    }

    /// The request is sent from its beginning, over another connection.
    pub(crate) fn renew(&mut self, now: Instant) {
        (self.began, self.statuses) = (Some(now), &[]);
        (self.sent, self.any_sent, self.send_failed) = (self.start, false, false);
        self.dialect.reset();
    }

    /// The request goes to this server of its pool next; nothing has been sent yet. `Host` says its authority, if each server
    /// gets its own.
    pub(crate) fn name_host(&mut self, server: &Upstream) {
        if self.maps {
            self.authority.clear();
            self.authority.push_str(server.authority());
        }
        let Some(place) = &mut self.host else { return };
        let authority = server.authority();
        self.out.splice(place.start as usize..place.end as usize, authority.bytes());
        place.end = place.start + authority.len() as u32;
    }

    /// The request names this host; whether that is needed depends on the pool.
    pub(crate) fn note_client(&mut self, settings: &Pool, authority: &str) {
        let how = settings.external.map_redirects;
        self.maps = how != MapRedirects::Off;
        if how == MapRedirects::Paths {
            self.client = authority.into();
        }
    }

    /// The names of the server in references, and that of the client: both are empty if they are not mapped.
    pub(crate) fn take_names(&mut self) -> (String, Box<str>) {
        (std::mem::take(&mut self.authority), std::mem::take(&mut self.client))
    }

    /// Puts the names back, which are needed again: no head of a response has come.
    pub(crate) fn put_names_back(&mut self, (authority, client): (String, Box<str>)) {
        (self.authority, self.client) = (authority, client);
    }

    /// The cookie is needed again: no head of a response has come.
    pub(crate) fn put_cookie_back(&mut self, cookie: Option<FieldLines>) {
        if let Some(session) = self.session.as_deref_mut() {
            session.cookie = cookie;
        }
    }

    /// A server has failed the request, which is not sent there again; `status` is what the client gets if no other takes it.
    pub(crate) fn note_tried(&mut self, server: u16, status: u16) {
        self.tried.push(server);
        self.status = status;
    }

    /// The buffer of the request, which is not needed any more.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.out
    }

    /// Sends what the socket takes, up to [`SENT_PER_TURN`]. `Ok(true)`: it takes more than that.
    pub(crate) fn send(
        &mut self,
        far_end: &mut FarEnd<'_>,
        (feed, passing): (&mut Option<Feed>, &mut Option<Box<Passing>>),
        moved: &mut u64,
    ) -> Result<bool, ()> {
        if !far_end.flush().map_err(drop)? {
            return Ok(false);
        }
        while *moved < SENT_PER_TURN {
            let rest = self.out.get(self.sent..).unwrap_or_default();
            let flags = if feed.is_some() { SendFlags::MORE } else { SendFlags::empty() };
            let sent = match (rest, feed.as_mut()) {
                ([_, ..], _) => far_end.send(rest, flags).inspect(|sent| self.sent += sent),
                ([], None) => match passing.as_deref_mut() {
                    Some(passing) if !passing.rest().is_empty() => {
                        let sent = far_end.send(passing.rest(), SendFlags::empty());
                        sent.inspect(|sent| passing.advance(*sent))
                    }
                    Some(_) | None => return Ok(false),
                },
                ([], Some(feed)) => {
                    let sent = match self.dialect.next_piece(feed.spool.bytes.saturating_sub(feed.sent)) {
                        Piece::Frame(bytes) => far_end.send(bytes, flags),
                        // The last piece is sent without MSG_MORE: nothing follows that the kernel could wait for.
                        Piece::End(bytes) => far_end.send(bytes, SendFlags::empty()),
                        Piece::Content(bytes) => {
                            let bytes = bytes.min(SENT_PER_TURN - *moved) as usize;
                            far_end.send_file(&feed.spool.file, &mut feed.sent, bytes)
                        }
                        Piece::Nothing => return Ok(false),
                    };
                    sent.inspect(|sent| self.dialect.note_sent(*sent))
                }
            };
            match sent {
                // The file is shorter than it was.
                Ok(0) => return Err(()),
                Ok(sent) => *moved += sent as u64,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(_) => return Err(()),
            }
        }
        Ok(true)
    }

    /// Memory of the request that the server has yet to take.
    pub(crate) fn unsent_bytes(&self) -> usize {
        let held = match &self.dialect {
            Dialect::Http2(spoken) => spoken.inbox.held_bytes(),
            Dialect::Http1(_) | Dialect::FastCgi(_) => 0,
        };
        held + if self.sent < self.out.len() && !self.send_failed { self.out.capacity() } else { 0 }
    }

    /// What of the request, but for a spooled body, is unsent.
    pub(crate) fn rest(&self) -> &[u8] {
        self.out.get(self.sent..).unwrap_or_default()
    }

    /// The unsent request, cut behind its head.
    pub(crate) fn split_head(&self) -> (&[u8], &[u8]) {
        let rest = self.rest();
        rest.split_at_checked(head_bytes(rest)).unwrap_or((rest, &[]))
    }

    /// Whether the server has all of the request but the content of a spooled body.
    pub(crate) fn is_sent(&self) -> bool {
        let ended = match &self.dialect {
            Dialect::Http1(ending) => ending.sent == ending.bytes.len(),
            Dialect::FastCgi(_) => true,
            Dialect::Http2(spoken) => spoken.stream.is_some(),
        };
        self.sent == self.out.len() && ended && !self.send_failed
    }
}

/// What becomes of references in a response of a pool's server, which has these names and those of its client, by the pool and
/// the route. `None` if nothing is mapped.
pub(crate) fn mapping<'a>(
    settings: &'a Pool,
    plan: &'a Plan,
    (authority, client): (&'a str, &'a str),
) -> Option<Mapping<'a>> {
    let external = &settings.external;
    if external.maps_nothing() {
        return None;
    }
    let named = match &external.host {
        HostRule::Named(host) => host,
        HostRule::Client | HostRule::Server | HostRule::Filled(_) => "",
    };
    let set = plan.requests.host_text();
    let is_on = external.map_redirects != MapRedirects::Off && matches!(settings.source, Source::Http(_));
    Some(Mapping {
        own: if is_on { [authority, set.unwrap_or(named)] } else { [""; 2] },
        client,
        prefix: plan.rewrite.as_ref().and_then(Rewrite::prefix),
        paths: external.map_redirects == MapRedirects::Paths,
        references: &external.redirects,
        cookie_domains: &external.cookie_domains,
        cookie_paths: &external.cookie_paths,
    })
}

#[cfg(test)]
mod tests;
