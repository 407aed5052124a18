//! One connection of HTTP/2 or HTTP/3, for those who need not know which.

use std::time::Instant;

use super::StreamKey;
use crate::fields::{FieldEdits, FieldsRef};
use crate::response::ResponseHead;
use crate::{h2, h3};

/// One connection. What the functions do is said where the protocols have them.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "HTTP/2 is what most have, and its callers keep it in a box already"
)]
pub enum Session {
    /// HTTP/2: one output for all streams.
    Http2(h2::Session),
    /// HTTP/3: an output for each stream.
    Http3(Box<h3::Session>),
}

/// The same function of both.
macro_rules! both {
    ($($(#[$meta:meta])* fn $name:ident(&mut self $(, $argument:ident: $kind:ty)*) $(-> $result:ty)?;)*) => {
        $(
            $(#[$meta])*
            #[inline]
            pub fn $name(&mut self $(, $argument: $kind)*) $(-> $result)? {
                match self {
                    Session::Http2(session) => session.$name($($argument),*),
                    Session::Http3(session) => session.$name($($argument),*),
                }
            }
        )*
    };
}

impl Session {
    both! {
        /// Room for content on a stream, in bytes; with none it waits.
        fn room(&mut self, stream: StreamKey) -> usize;
        /// Begins a frame of so much content, which the caller appends.
        fn data(&mut self, stream: StreamKey, bytes: usize, ended: bool) -> &mut Vec<u8>;
        /// Ends a response.
        fn end(&mut self, stream: StreamKey);
        /// Ends a response with trailers.
        fn trailers(&mut self, stream: StreamKey, fields: FieldsRef<'_>);
        /// Writes an interim head.
        fn interim(&mut self, stream: StreamKey, head: &ResponseHead<'_>);
        /// The caller is done with a stream.
        fn release(&mut self, stream: StreamKey);
        /// A stream has more to write.
        fn wait(&mut self, stream: StreamKey);
        /// The stream that should write next.
        fn next_writable(&mut self) -> Option<StreamKey>;
        /// Sets the caller's mark on a stream.
        fn mark(&mut self, stream: StreamKey, user: u32);
        /// Begins, and then decides, a graceful end.
        fn go_away(&mut self);
        /// Ends the session because its client takes too long for something.
        fn lose_timeout(&mut self, reason: &'static str);
        /// Serves no more than so many requests at a time.
        fn limit_streams(&mut self, max: u32);
        /// Refuses streams while there are any.
        fn refuse_streams(&mut self, refuse: bool);
        /// Streams that were refused for the caller's sake since the last call.
        fn take_refused(&mut self) -> u32;
        /// Gives back what an idle session does not need.
        fn shrink(&mut self);
    }

    /// Writes the head of a response.
    #[inline]
    pub fn respond(
        &mut self,
        stream: StreamKey,
        head: &ResponseHead<'_>,
        edits: &FieldEdits,
        further: FieldsRef<'_>,
        date: Option<&[u8; 29]>,
        ended: bool,
    ) {
        match self {
            Session::Http2(session) => session.respond(stream, head, edits, further, date, ended),
            Session::Http3(session) => session.respond(stream, head, edits, further, date, ended),
        }
    }

    /// Writes a frame with what `append` appends.
    #[inline]
    pub fn fill(
        &mut self,
        stream: StreamKey,
        ended: impl FnOnce(usize) -> bool,
        append: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        match self {
            Session::Http2(session) => session.fill(stream, ended, append),
            Session::Http3(session) => session.fill(stream, ended, append),
        }
    }

    /// Takes a stream back, because what was asked for is not needed any more: CANCEL, H3_REQUEST_CANCELLED.
    pub fn cancel(&mut self, stream: StreamKey) {
        match self {
            Session::Http2(session) => session.reset(stream, h2::Code::Cancel),
            Session::Http3(session) => session.reset(stream, h3::Code::RequestCancelled),
        }
    }

    /// The caller is done with bytes of a body. With HTTP/3 it opens the window of the stream by reading on.
    #[inline]
    pub fn consumed(&mut self, stream: StreamKey, bytes: usize) {
        if let Session::Http2(session) = self {
            session.consumed(stream, bytes);
        }
    }

    /// The caller's mark.
    #[inline]
    pub fn user(&self, stream: StreamKey) -> u32 {
        match self {
            Session::Http2(session) => session.user(stream),
            Session::Http3(session) => session.user(stream),
        }
    }

    /// Streams that are there.
    #[inline]
    pub fn streams(&self) -> usize {
        match self {
            Session::Http2(session) => session.streams(),
            Session::Http3(session) => session.streams(),
        }
    }

    /// Whether the connection can be closed once everything was sent.
    #[inline]
    pub fn is_over(&self) -> bool {
        match self {
            Session::Http2(session) => session.is_over(),
            Session::Http3(session) => session.is_over(),
        }
    }

    /// Whether so much waits to be sent that nothing more is read. Over HTTP/3 that is a matter of streams.
    #[inline]
    pub fn is_full(&self) -> bool {
        match self {
            Session::Http2(session) => session.is_full(),
            Session::Http3(_) => false,
        }
    }

    /// The stream whose head has begun to come and is not whole.
    #[inline]
    pub fn half_head(&self) -> Option<u32> {
        match self {
            Session::Http2(session) => session.half_block(),
            Session::Http3(session) => session.half_head(),
        }
    }

    /// Bytes of memory that what waits to be sent takes, about.
    #[inline]
    pub fn out_capacity(&self) -> usize {
        match self {
            Session::Http2(session) => session.out_capacity(),
            Session::Http3(session) => session.queued(),
        }
    }

    /// Whether nothing waits to be sent.
    #[inline]
    pub fn is_sent(&mut self) -> bool {
        match self {
            Session::Http2(session) => session.out().is_empty(),
            Session::Http3(session) => session.queued() == 0,
        }
    }

    /// Whether a stream has more to write than its client has opened the window for.
    pub fn waits_for_window(&self, stream: StreamKey) -> bool {
        match self {
            Session::Http2(session) => session.waits_for_window(stream),
            Session::Http3(session) => session.is_held(stream),
        }
    }

    /// Whether some stream has more to write than the client has opened the window of the connection for.
    pub fn waits_for_connection(&self) -> bool {
        match self {
            Session::Http2(session) => session.waits_for_connection(),
            // QUIC does not say which window it is.
            Session::Http3(_) => false,
        }
    }

    /// Gives the memory of the output back, if nothing is in it.
    pub fn shrink_out(&mut self) {
        if let Session::Http2(session) = self {
            session.shrink_out();
        }
    }

    /// The session of HTTP/2, if it is one.
    #[inline]
    pub fn http2(&mut self) -> Option<&mut h2::Session> {
        match self {
            Session::Http2(session) => Some(session),
            Session::Http3(_) => None,
        }
    }

    /// The session of HTTP/3, if it is one.
    #[inline]
    pub fn http3(&mut self) -> Option<&mut h3::Session> {
        match self {
            Session::Http2(_) => None,
            Session::Http3(session) => Some(session),
        }
    }

    /// A session of HTTP/3 that has just begun.
    pub fn begin_http3(settings: &h3::Settings, now: Instant) -> Session {
        Session::Http3(Box::new(h3::Session::new(settings, now)))
    }
}
