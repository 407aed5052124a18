//! The state of a request at an upstream: one [`Attempt`], for each kind of upstream. What is done with it is in `exchanges` (the
//! table in `exchanges::upstream`).

pub(crate) mod connections;
pub(crate) mod failure;
pub(crate) mod far_end;
pub(crate) mod fastcgi;
pub(crate) mod fill;
pub(crate) mod http2;
pub(crate) mod passing;
pub(crate) mod relay;
pub(crate) mod remote_thread;
pub(crate) mod retries;
pub(crate) mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::keys::{RelayKey, UpstreamKey};
use maitred_http::fields::FieldLines;
use maitred_http::response::Filter;

use self::failure::{Cause, Reached};
use self::fill::Follow;
use self::passing::Passing;
use self::relay::Handed;
use self::remote_thread::Remote;
use self::server::{Call, Dialect};
use crate::connection::retry::RetryState;
use crate::connection::spool::Spool;
use crate::connection::tunnel::Tunnel;
use maitred_files::exchange::ResponseWriter;
use maitred_files::exchange::named_file::NamedFile;

/// How long the response may take to begin, or to go on, once the client has stopped sending, where the upstream cannot be told.
pub(crate) const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(1);

/// What one read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// Bytes, and perhaps more after them.
    More,
    /// Everything that is there for now.
    Drained,
    /// Everything that there will be.
    Ended,
    /// The upstream has failed, and the failure was handled.
    Failed,
}

/// Where the response of a connection comes from: a key of the tables of relays, or of connections to servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A relay: an application process has its far end.
    Relay(RelayKey),
    /// A connection to a server.
    Server(UpstreamKey),
    /// A connection to another thread, which has the process. The connection is among those to servers.
    Thread(UpstreamKey),
    /// A response that is being fetched for the cache.
    Fill,
}

/// One request at an upstream, and the response that comes of it.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// Turns the bytes of the upstream into a response for the client.
    pub filter: Filter,
    /// The client's connection is kept afterwards, if the response allows it.
    pub keep: bool,
    /// Something of a response has come.
    pub begun: bool,
    /// The last read has left nothing in the socket.
    pub drained: bool,
    /// When something last came from the upstream, or went there, or it could go on after the client had kept it waiting.
    pub heard_at: Instant,
    /// What the upstream has still to get of the request's body, if that is spooled.
    pub feed: Option<Feed>,
    /// The request's body, if that goes there while it comes.
    pub passing: Option<Box<Passing>>,
    /// After an upgrade: the bytes from the client to the upstream, and which side has ended.
    pub tunnel: Option<Box<Tunnel>>,
    /// The file that its response names instead of having content.
    pub named: Option<Box<NamedFile>>,
    /// What each connection to a server for it begins with (`proxy_protocol`).
    pub preface: Option<Arc<[u8]>>,
    /// What only one kind of them has.
    pub by: By,
}

/// What only one kind of upstream has.
#[derive(Debug)]
pub(crate) enum By {
    /// An application process, through a relay.
    Process(Handed),
    /// A server.
    Server(Call),
    /// Another thread.
    Thread(Remote),
    /// A fill of the cache.
    Fill(Follow),
}

/// A spooled body on its way to an upstream.
#[derive(Debug)]
pub(crate) struct Feed {
    /// The body.
    pub spool: Box<Spool>,
    /// Bytes of it that the socket has.
    pub sent: u64,
}

impl Attempt {
    /// A request that an upstream has now.
    pub(crate) fn new(filter: Filter, keep: bool, feed: Option<Feed>, by: By, now: Instant) -> Attempt {
        let (begun, drained, passing, tunnel, named, preface) = (false, false, None, None, None, None);
        Attempt { filter, keep, begun, drained, heard_at: now, feed, passing, tunnel, named, preface, by }
    }

    /// Where the response comes from.
    pub(crate) fn source(&self) -> Source {
        match &self.by {
            By::Process(handed) => Source::Relay(handed.relay),
            By::Server(call) => Source::Server(call.upstream),
            By::Thread(remote) => Source::Thread(remote.upstream),
            By::Fill(_) => Source::Fill,
        }
    }

    /// The request is sent from its beginning, as if nothing had been sent.
    pub(crate) fn renew(&mut self, now: Instant) {
        self.note_heard(now);
        (self.begun, self.drained) = (false, false);
        if let Some(feed) = &mut self.feed {
            feed.sent = 0;
        }
        if let Some(call) = self.call_mut() {
            call.renew(now);
        }
    }

    /// Something of the response has come.
    pub(crate) fn note_heard(&mut self, now: Instant) {
        if matches!(&self.by, By::Server(Call { half_closed: true, .. })) && !self.begun {
            // The client may have gone: the short timeout began then, and bytes of the server do not extend it.
            return;
        }
        self.heard_at = now;
        if let By::Thread(remote) = &self.by {
            remote.note_heard(now);
        }
    }

    /// Has bytes of the upstream checked, and written for the client. `log` gets messages of the application.
    pub(crate) fn feed(
        &mut self,
        input: &[u8],
        writer: &mut ResponseWriter<'_>,
        log: &mut dyn FnMut(&[u8]),
    ) -> Result<(), (Cause, String)> {
        match &mut self.by {
            By::Server(Call { dialect: Dialect::FastCgi(spoken), .. }) => {
                let fed = spoken.reply.feed(input, &mut self.filter, writer, log);
                fed.map_err(|failed| (failed.cause(), failed.to_string()))
            }
            By::Server(Call { dialect: Dialect::Http2(spoken), .. }) => {
                spoken.inbox.give(&mut self.filter, writer)
            }
            By::Fill(follow) => follow.give(input, &mut self.filter, writer),
            By::Thread(Remote { part: Some(part), .. }) => {
                let fed = part.feed(input, &mut self.filter, writer);
                fed.map_err(|bad| (Cause::Bad, bad.to_string()))
            }
            By::Server(Call { dialect: Dialect::Http1(_), .. }) | By::Process(_) | By::Thread(_) => {
                let fed = self.filter.feed(input, writer);
                fed.map(drop).map_err(|bad| (Cause::Bad, bad.to_string()))
            }
        }
    }

    /// Whether more may come, but not at once. What a process returns with DONE, or the end of its response, does.
    pub(crate) fn pauses(&self) -> bool {
        self.drained && !matches!(self.by, By::Process(Handed { done: true, .. }))
    }

    /// Nothing more is there for now: what the client can have, it gets.
    pub(crate) fn flush(&mut self, writer: &mut ResponseWriter<'_>) -> Result<(), (Cause, String)> {
        self.filter.flush(writer).map_err(|bad| (Cause::Bad, bad.to_string()))
    }

    /// Nothing follows.
    pub(crate) fn end(
        &mut self,
        writer: &mut ResponseWriter<'_>,
        log: &mut dyn FnMut(&[u8]),
    ) -> Result<(), (Cause, String)> {
        match &mut self.by {
            By::Server(Call { dialect: Dialect::FastCgi(spoken), .. }) => {
                spoken.reply.end(log).map_err(|failed| (Cause::Lost, failed.to_string()))
            }
            By::Server(Call { dialect: Dialect::Http1(_) | Dialect::Http2(_), .. })
            | By::Process(_)
            | By::Fill(_)
            | By::Thread(_) => self.filter.end(writer).map_err(|bad| (Cause::Bad, bad.to_string())),
        }
    }

    /// Whether nothing more belongs to the response. A process may have written more than it has announced, which has to be seen
    /// before its relay is used again.
    pub(crate) fn is_answered(&self) -> bool {
        match &self.by {
            By::Process(_) => self.filter.complete() && self.drained,
            By::Server(Call { dialect: Dialect::FastCgi(spoken), .. }) => spoken.reply.is_complete(),
            By::Server(Call { dialect: Dialect::Http2(spoken), .. }) => spoken.inbox.is_complete(),
            By::Fill(follow) => follow.ended && self.filter.complete(),
            By::Server(Call { dialect: Dialect::Http1(_), .. }) | By::Thread(_) => self.filter.complete(),
        }
    }

    /// Whether the upstream has all of a body that is spooled, or goes there while it comes.
    pub(crate) fn is_fed(&self) -> bool {
        self.feed.as_ref().is_none_or(|feed| feed.sent == feed.spool.bytes)
            && self.passing.as_ref().is_none_or(|passing| passing.is_sent())
    }

    /// Whether it is at a FastCGI application.
    pub(crate) fn speaks_fastcgi(&self) -> bool {
        matches!(&self.by, By::Server(Call { dialect: Dialect::FastCgi(_), .. }))
    }

    /// The stream of the attempt, if its connection is one of HTTP/2.
    pub(crate) fn http2_mut(&mut self) -> Option<&mut http2::Spoken> {
        match &mut self.by {
            By::Server(Call { dialect: Dialect::Http2(spoken), .. }) => Some(spoken),
            _ => None,
        }
    }

    /// When its client gives it up, if that has said so (`grpc-timeout`).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.by {
            By::Server(Call { dialect: Dialect::Http2(spoken), .. }) => spoken.rpc.as_ref()?.deadline(),
            _ => None,
        }
    }

    /// Whether it is a stream of a connection of HTTP/2, which has others.
    pub(crate) fn speaks_http2(&self) -> bool {
        matches!(&self.by, By::Server(Call { dialect: Dialect::Http2(_), .. }))
    }

    /// Whether some of the request's body, which goes to the upstream while it comes, has yet to be read from the client.
    pub(crate) fn awaits_body(&self) -> bool {
        self.passing.as_ref().is_some_and(|passing| !passing.is_whole())
    }

    /// Whether the upstream is done with the request, too.
    pub(crate) fn is_done(&self) -> bool {
        !matches!(self.by, By::Process(Handed { done: false, .. }))
    }

    /// Memory of what the upstream has yet to take: of the request, or of a tunnel.
    pub(crate) fn unsent_bytes(&self) -> usize {
        let request = match &self.by {
            By::Server(call) => call.unsent_bytes(),
            By::Process(_) | By::Thread(_) | By::Fill(_) => 0,
        };
        let body = self.passing.as_deref().map_or(0, Passing::unsent_bytes);
        request + body + self.tunnel.as_deref().map_or(0, Tunnel::unsent_bytes)
    }

    /// The part that is only for an application process.
    pub(crate) fn handed(&self) -> Option<&Handed> {
        match &self.by {
            By::Process(handed) => Some(handed),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(crate) fn handed_mut(&mut self) -> Option<&mut Handed> {
        match &mut self.by {
            By::Process(handed) => Some(handed),
            _ => None,
        }
    }

    /// The part that is only for a fill of the cache.
    pub(crate) fn follow(&self) -> Option<&Follow> {
        match &self.by {
            By::Fill(follow) => Some(follow),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(crate) fn follow_mut(&mut self) -> Option<&mut Follow> {
        match &mut self.by {
            By::Fill(follow) => Some(follow),
            _ => None,
        }
    }

    pub(crate) fn call_mut(&mut self) -> Option<&mut Call> {
        match &mut self.by {
            By::Server(call) => Some(call),
            _ => None,
        }
    }

    /// The cookie that goes with the head of the response.
    pub(crate) fn take_cookie(&mut self) -> Option<FieldLines> {
        self.call_mut()?.session.as_deref_mut()?.cookie.take()
    }

    /// Statuses of a response for which the request is retried: only while its body is still whole.
    pub(crate) fn retried_statuses(&self) -> &'static [u16] {
        match &self.by {
            By::Server(call) if !self.passing.as_ref().is_some_and(|passing| passing.has_begun()) => {
                call.statuses
            }
            _ => &[],
        }
    }

    pub(crate) fn reached(&self, retry: RetryState) -> Reached {
        let (filter, once) = (&self.filter, retry == RetryState::Once);
        let (seen, safe, begun) = match &self.by {
            // As with the client's own socket: a client that has received something would notice that another process begins
            // anew.
            By::Process(_) => (true, once, filter.informed()),
            By::Server(call) => (call.any_sent, call.safe, self.begun),
            By::Thread(_) | By::Fill(_) => (true, once, self.begun),
        };
        // A retry at another server takes along what is here of the body; one at another process begins with what is still to
        // be read.
        let spent = self.passing.as_ref().is_some_and(|passing| match &self.by {
            By::Server(_) => passing.has_begun(),
            By::Process(_) | By::Thread(_) | By::Fill(_) => !passing.is_untouched(),
        });
        Reached { seen, safe, begun, head_written: filter.head_written(), spent }
    }
}

#[cfg(test)]
mod tests;
