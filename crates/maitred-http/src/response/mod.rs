//! Responses that applications write into a pipe, made into what the client gets: judged as strictly as
//! requests are, without what was for the first hop only (9110-7.6.1), and framed for the client (9112-6).

mod bad;
mod encode;
mod head;
mod policy;
#[cfg(test)]
mod tests;
mod value;

pub use bad::Bad;
pub use encode::{Encode, Ending, Persistence, Then};
pub use policy::ResponsePolicy;
pub(crate) use value::Dropped;
pub use value::{Fields, FramedHead, Received, ResponseHead};

use head::{Framing, Head, Wanted};

use crate::body::{self, Decoder};
use crate::fastcgi;
use crate::fields::FieldLines;
use crate::h1;
use crate::limits::{INTERIM_RESPONSES_MAX, ResponseBounds};
use crate::websocket::Handshake;

/// How far one call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// How many bytes of the input were taken: all of them. What comes behind the response is dropped, see
    /// [`Filter::excess`].
    pub consumed: usize,
    /// Whether the response is complete. A response that ends with its stream is so only after [`Filter::end`].
    pub complete: bool,
}

/// Turns one response of an application, which arrives in pieces, into what the client gets.
///
/// Interim responses go on to clients that may have them, and the final one is awaited. `Connection`, what it
/// names, and other fields for one hop are taken out. Content with a stated length is
/// passed on as it is; all other content goes out in chunks, or up to the end of the connection for clients of
/// version 1.0. `Date` is added if it is missing. Whether the client's connection is kept depends on
/// [`ResponsePolicy::keep`] and on the framing, not on the application's `Connection`, which is about another hop.
#[derive(Debug)]
pub struct Filter {
    wanted: ResponsePolicy,
    state: State,
    sink: Sink,
    /// The bytes of an incomplete head.
    buffered: Vec<u8>,
    /// Interim responses so far.
    interim: u8,
    /// Whether an interim response went on to the client.
    informed: bool,
    /// Of the final response; 0 until its head was written.
    status: u16,
    /// Whether the head told the client that its connection is kept.
    keep: bool,
    /// Whether the application's own connection lasts beyond the response, by what its head says.
    lasts: bool,
    /// What came behind the content.
    trailers: Option<Box<FieldLines>>,
    /// What a 101 has to say, where this server is the client of the handshake.
    handshake: Option<Box<Handshake>>,
}

/// What the next byte is part of.
#[derive(Debug)]
enum State {
    Head,
    /// Content of stated length, of which so much is missing; never 0.
    Length(u64),
    Chunked(Decoder),
    UntilEnd,
    Complete,
    Failed(Bad),
}

/// Where content goes.
#[derive(Debug)]
struct Sink {
    chunks: bool,
    discard: bool,
    /// Whether the content gets a coding on its way.
    coded: bool,
    /// Whether there was content that must be dropped.
    excess: bool,
    /// Content bytes for the client.
    body_bytes: u64,
}

const _: () = assert!(size_of::<Filter>() <= 128, "one of them is in each relay");

impl Filter {
    /// A filter for one response.
    #[inline]
    pub fn new(wanted: ResponsePolicy) -> Filter {
        Filter {
            wanted,
            state: State::Head,
            sink: Sink { chunks: false, discard: false, coded: false, excess: false, body_bytes: 0 },
            buffered: Vec::new(),
            interim: 0,
            informed: false,
            status: 0,
            keep: false,
            lasts: false,
            trailers: None,
            handshake: None,
        }
    }

    /// The same for the handshake of a WebSocket that this server has made a key for.
    pub fn expecting(self, handshake: Option<Box<Handshake>>) -> Filter {
        Filter { handshake, ..self }
    }

    /// What the head of the response may have.
    pub fn bounds(&self) -> &ResponseBounds {
        &self.wanted.bounds
    }

    /// The same for another response to the request: nothing of this one is with the client.
    pub fn renew(&mut self) {
        let (informed, interim, handshake) = (self.informed, self.interim, self.handshake.take());
        *self = Filter { informed, interim, handshake, ..Filter::new(self.wanted) };
    }

    /// The trailers of a complete response, for a client whose connection has frames of its own: they follow the content.
    pub fn take_framed_trailers(&mut self) -> Option<Box<FieldLines>> {
        self.trailers.take_if(|_| self.wanted.framed)
    }

    fn take_trailers(&mut self) {
        // The empty line that ends the section is two bytes.
        if self.buffered.len() > 2 && !self.sink.discard {
            let trailers = body::trailers(&self.buffered);
            self.trailers = (!trailers.is_empty()).then(|| Box::new(trailers));
        }
        self.buffered = Vec::new();
    }

    /// Takes bytes of the application, and gives to `out` what the client gets.
    ///
    /// # Errors
    ///
    /// What the application did wrong; the same again for later calls. What was given to `out` until then
    /// is part of a well-formed response, and holds nothing of the final one unless
    /// [`head_written`](Self::head_written).
    #[inline]
    pub fn feed(&mut self, input: &[u8], out: &mut impl Encode) -> Result<Progress, Bad> {
        let content = if matches!(self.state, State::Head) {
            self.heads(input, out).inspect_err(|bad| self.state = State::Failed(*bad))?
        } else {
            input
        };
        self.content(content, out).inspect_err(|bad| self.state = State::Failed(*bad))?;
        Ok(Progress { consumed: input.len(), complete: self.complete() })
    }

    /// Takes the head of a CGI response, which its decoder has judged, and gives to `out` what the client gets of it. Content
    /// follows by [`feed`](Self::feed), and is delimited by `Content-Length` if there is one, otherwise by [`end`](Self::end).
    ///
    /// # Errors
    ///
    /// As [`feed`](Self::feed). To be called once, and before it.
    pub fn begin(&mut self, head: &fastcgi::head::Head<'_>, out: &mut impl Encode) -> Result<(), Bad> {
        let taken = head::take_cgi(head, self.wanted, out).and_then(|head| self.behind(head));
        taken.inspect_err(|bad| self.state = State::Failed(*bad))
    }

    /// Takes a head that came in frames, interim or final, and gives to `out` what the client gets of it. Content follows by
    /// [`feed`](Self::feed), and is delimited by `content-length` if there is one, otherwise by [`end`](Self::end).
    ///
    /// # Errors
    ///
    /// As [`feed`](Self::feed). Not to be called behind a final one.
    pub fn begin_framed(&mut self, head: &FramedHead, out: &mut impl Encode) -> Result<(), Bad> {
        let taken = head::take_framed(head, self.wanted, out).and_then(|head| self.behind(head));
        taken.inspect_err(|bad| self.state = State::Failed(*bad))
    }

    /// Takes the trailers of a response that came in frames, before [`end`](Self::end). A client that takes none gets none.
    pub fn put_trailers(&mut self, trailers: Box<FieldLines>) {
        if self.wanted.trailers && !self.sink.discard && !trailers.is_empty() {
            self.trailers = Some(trailers);
        }
    }

    /// Says that the application has ended its response, and gives to `out` what is left of the framing.
    ///
    /// Not for a response that was aborted: one that is delimited by the end of its stream would look complete
    /// to the client, whose connection must be aborted instead.
    ///
    /// # Errors
    ///
    /// If the response is not complete, or was bad before.
    pub fn end(&mut self, out: &mut impl Encode) -> Result<(), Bad> {
        let bad = match &self.state {
            State::Complete => return Ok(()),
            State::UntilEnd => {
                self.state = State::Complete;
                let finished = self.sink.finish(self.trailers.as_deref(), out);
                return finished.inspect_err(|bad| self.state = State::Failed(*bad));
            }
            State::Head if self.buffered.is_empty() => Bad::NoResponse,
            State::Head => Bad::HeadIncomplete,
            State::Length(_) | State::Chunked(_) => Bad::BodyIncomplete,
            State::Failed(bad) => *bad,
        };
        self.state = State::Failed(bad);
        Err(bad)
    }

    /// Has content that gets a coding written so far that the client can read all of it: nothing more is there for now.
    ///
    /// # Errors
    ///
    /// If the coding has failed.
    pub fn flush(&mut self, out: &mut impl Encode) -> Result<(), Bad> {
        if !self.sink.coded || !matches!(self.state, State::Length(_) | State::Chunked(_) | State::UntilEnd) {
            return Ok(());
        }
        self.sink.put_coded(Then::Flush, out).inspect_err(|bad| self.state = State::Failed(*bad))
    }

    /// The client's connection turns out to end behind the response. Without effect once the head has been written.
    pub fn say_close(&mut self) {
        self.wanted.keep = false;
    }

    /// Status of the final response, once its head has been written.
    #[inline]
    pub fn status(&self) -> Option<u16> {
        self.head_written().then_some(self.status)
    }

    /// Content bytes that were written, or that went through unchanged; without their framing.
    #[inline]
    pub fn body_bytes(&self) -> u64 {
        self.sink.body_bytes
    }

    /// Whether the response is complete, and its client's connection can be kept: that is what its head has told the client.
    /// What an application sends too much never gets there.
    #[inline]
    pub fn keeps(&self) -> bool {
        self.keep && self.complete()
    }

    /// Whether the application's own connection can be used for another request: the response is complete, its end was
    /// told by its framing, and its head does not say otherwise (9112-9.3).
    #[inline]
    pub fn lasts(&self) -> bool {
        self.lasts && !self.sink.excess && self.complete()
    }

    /// Whether the application has switched to another protocol (9110-15.2.2). All that follows is not HTTP, and goes on
    /// unchanged until the stream ends.
    #[inline]
    pub fn switched(&self) -> bool {
        self.status == 101
    }

    /// Whether the response is complete.
    #[inline]
    pub fn complete(&self) -> bool {
        matches!(self.state, State::Complete)
    }

    /// Whether the application sent content that its response cannot have: behind its end, or with HEAD, 204,
    /// 205 or 304. The excess was dropped; what the application meant to send is unknown.
    #[inline]
    pub fn excess(&self) -> bool {
        self.sink.excess
    }

    /// Whether the head of the final response has been written. After that an error can be shown to the client
    /// only by cutting its connection.
    #[inline]
    pub fn head_written(&self) -> bool {
        self.status != 0
    }

    /// Whether the client has got an interim response. An error can still be shown to it as the final one.
    #[inline]
    pub fn informed(&self) -> bool {
        self.informed
    }

    /// How many of the next bytes go to the client unchanged: a caller may pass them on without
    /// [`feed`](Self::feed), and tell by [`skip`](Self::skip). `u64::MAX` if all do until the stream ends.
    #[inline]
    pub fn passthrough(&self) -> Option<u64> {
        match self.state {
            _ if self.sink.coded => None,
            State::Length(missing) if !self.sink.discard => Some(missing),
            State::UntilEnd if !self.sink.discard && !self.sink.chunks => Some(u64::MAX),
            _ => None,
        }
    }

    /// Accounts for bytes that the caller passed on: at most as many as [`passthrough`](Self::passthrough)
    /// said; what is over that is taken for excess.
    pub fn skip(&mut self, bytes: u64) {
        let passed = bytes.min(self.passthrough().unwrap_or(0));
        if bytes > passed {
            // The client has got more than was announced to it.
            (self.sink.excess, self.keep) = (true, false);
        }
        self.sink.body_bytes += passed;
        if let State::Length(missing) = &mut self.state {
            *missing -= passed;
            if *missing == 0 {
                self.state = State::Complete;
            }
        }
    }

    /// Takes heads, up to the one of the final response; returns what follows it.
    #[inline]
    fn heads<'i>(&mut self, input: &'i [u8], out: &mut impl Encode) -> Result<&'i [u8], Bad> {
        let mut rest = input;
        while matches!(self.state, State::Head) && !rest.is_empty() {
            let taken = if self.buffered.is_empty() {
                head::take(rest, self.wanted(), out)?
            } else {
                self.more_of_a_head(rest, out)?
            };
            let Some((head, head_bytes)) = taken else {
                if self.buffered.is_empty() {
                    self.buffered.extend_from_slice(rest);
                }
                return Ok(&[]);
            };
            rest = rest.get(head_bytes..).unwrap_or_default();
            self.behind(head)?;
        }
        Ok(rest)
    }

    /// As [`head::take`], for a head of which a part is buffered; the bytes that it took are those of `input`.
    #[cold]
    fn more_of_a_head(&mut self, input: &[u8], out: &mut impl Encode) -> Result<Option<(Head, usize)>, Bad> {
        let (before, most) = (self.buffered.len(), self.wanted.bounds.head_bytes_max as usize);
        let room = most.saturating_sub(before);
        let input = input.get(..room).unwrap_or(input);
        self.buffered.extend_from_slice(input);
        if self.buffered.len() < most && memchr::memchr(b'\n', input).is_none() {
            // No line ends here, let alone a head. The shortcut keeps single bytes from costing a pass each.
            return Ok(None);
        }
        let taken = head::take(&self.buffered, self.wanted(), out)?;
        Ok(taken.map(|(head, head_bytes)| {
            self.buffered = Vec::new();
            (head, head_bytes.saturating_sub(before))
        }))
    }

    #[inline]
    fn wanted(&self) -> Wanted<'_> {
        Wanted { policy: self.wanted, handshake: self.handshake.as_deref() }
    }

    /// The state behind a head.
    #[inline]
    fn behind(&mut self, head: Head) -> Result<(), Bad> {
        let (status, framing, chunks, discard, coded, keep, lasts) = match head {
            Head::Final { status, framing, chunks, discard, coded, keep, lasts } => {
                (status, framing, chunks, discard, coded, keep, lasts)
            }
            Head::Interim { passed } => {
                self.interim += 1;
                self.informed |= passed;
                return if self.interim > INTERIM_RESPONSES_MAX { Err(Bad::TooManyInterim) } else { Ok(()) };
            }
        };
        self.status = status;
        self.keep = keep;
        self.lasts = lasts && framing != Framing::UntilEnd;
        self.sink.chunks = chunks;
        self.sink.discard = discard;
        self.sink.coded = coded;
        self.state = match framing {
            Framing::None => State::Complete,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(Decoder::of_response()),
            Framing::UntilEnd => State::UntilEnd,
        };
        Ok(())
    }

    #[inline]
    fn content(&mut self, input: &[u8], out: &mut impl Encode) -> Result<(), Bad> {
        let mut behind: &[u8] = &[];
        match &mut self.state {
            State::Length(missing) => {
                let length = usize::try_from(*missing).unwrap_or(usize::MAX).min(input.len());
                let (content, rest) = input.split_at(length);
                self.sink.put(content, out);
                *missing -= length as u64;
                if *missing == 0 {
                    self.state = State::Complete;
                    self.sink.finish(None, out)?;
                    behind = rest;
                }
            }
            State::Chunked(decoder) => {
                let (sink, section) = (&mut self.sink, &mut self.buffered);
                let wanted = self.wanted.trailers;
                let keep = |byte| section.extend(wanted.then_some(byte));
                let progress = decoder
                    .decode_parts(input, |piece| sink.put(piece, out), keep)
                    .map_err(|reject| Bad::Chunked(reject.reason))?;
                if progress.complete {
                    self.state = State::Complete;
                    self.take_trailers();
                    self.sink.finish(self.trailers.as_deref(), out)?;
                    behind = input.get(progress.consumed..).unwrap_or_default();
                }
            }
            State::UntilEnd => self.sink.put(input, out),
            State::Complete => behind = input,
            State::Failed(bad) => return Err(*bad),
            State::Head => {}
        }
        self.sink.excess |= !behind.is_empty();
        match self.sink.coded && !self.complete() {
            true => self.sink.put_coded(Then::GoOn, out),
            false => Ok(()),
        }
    }
}

impl Sink {
    #[inline]
    fn put(&mut self, content: &[u8], out: &mut impl Encode) {
        if content.is_empty() {
            return;
        }
        if self.discard {
            self.excess = true;
            return;
        }
        if self.coded {
            return out.code(content);
        }
        self.body_bytes += content.len() as u64;
        if self.chunks {
            h1::put_chunk(content, out.content());
        } else {
            out.content().extend_from_slice(content);
        }
    }

    #[cold]
    fn put_coded(&mut self, then: Then, out: &mut impl Encode) -> Result<(), Bad> {
        self.body_bytes += out.put_coded(then, self.chunks).ok_or(Bad::Coding)?;
        Ok(())
    }

    /// What follows the last content.
    #[inline]
    fn finish(&mut self, trailers: Option<&FieldLines>, out: &mut impl Encode) -> Result<(), Bad> {
        if self.coded {
            self.put_coded(Then::Finish, out)?;
        }
        if self.chunks {
            h1::put_last_chunk(trailers.map(FieldLines::all).unwrap_or_default(), out.content());
        }
        Ok(())
    }
}
