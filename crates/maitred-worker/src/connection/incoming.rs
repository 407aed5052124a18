//! The body of a request on its way: how much of it is still to come, and what is done with it.

use std::time::Instant;

use maitred_http::body::{self, Decoder, Progress};
use maitred_http::fields::FieldLines;
use maitred_http::request::{Framing, Reject};

use super::rates::Pace;

/// What is still to come of a request before the next one begins.
#[derive(Debug, Default)]
pub(crate) enum Incoming {
    /// Nothing.
    #[default]
    Nothing,
    /// A body that is kept for what answers the request.
    Kept(Box<Coming>),
    /// A body that goes to its upstream while it comes.
    Passed(Box<Coming>),
    /// A body that no handler looks at: it is dropped, and then the request is answered. So it is over HTTP/2, where a response
    /// before the end of its request would end with RST_STREAM.
    Discarded(Box<Coming>),
    /// The body of a request that has its answer: it is dropped, if it is short enough.
    Dropped {
        /// What is still to come.
        coming: Box<Coming>,
        /// Bytes of its content that have come.
        bytes: u64,
    },
    /// No more bytes, but the request waits to be answered until what was answered before has left.
    Complete,
}

/// A body of which something is still to come.
#[derive(Debug)]
pub(crate) struct Coming {
    decoder: Decoder,
    /// The length of the body as announced; 0 if it was not.
    announced: u64,
    /// How fast it comes.
    pace: Option<Pace>,
    /// The bytes of its trailer section (9112-7.1.2), at most `TRAILER_BYTES_MAX`.
    trailers: Vec<u8>,
}

impl Coming {
    /// A body of which nothing has been looked at.
    pub(crate) fn new(decoder: Decoder, framing: Framing) -> Box<Coming> {
        let announced = match framing {
            Framing::Length(length) => length,
            Framing::None | Framing::Chunked => 0,
        };
        Box::new(Coming { decoder, announced, pace: None, trailers: Vec::new() })
    }

    /// Decodes a piece, behind which the body ends if `ends`.
    fn decode(&mut self, piece: &[u8], ends: bool, out: &mut Vec<u8>) -> Result<Progress, Reject> {
        let trailers = &mut self.trailers;
        let mut progress = self.decoder.decode_parts(
            piece,
            |content| out.extend_from_slice(content),
            |byte| trailers.push(byte),
        )?;
        if ends {
            self.decoder.end();
            progress.complete = true;
        }
        if let Some(pace) = &mut self.pace {
            pace.count(progress.consumed);
        }
        Ok(progress)
    }

    /// The rate of the body, from now on if it has none yet.
    pub(crate) fn pace(&mut self, now: Instant) -> &mut Pace {
        self.pace.get_or_insert_with(|| Pace::new(now))
    }
}

impl Incoming {
    /// What is still to come.
    pub(crate) fn coming(&self) -> Option<&Coming> {
        match self {
            Incoming::Kept(coming)
            | Incoming::Passed(coming)
            | Incoming::Discarded(coming)
            | Incoming::Dropped { coming, .. } => Some(coming),
            Incoming::Nothing | Incoming::Complete => None,
        }
    }

    /// The same, to be changed.
    pub(crate) fn coming_mut(&mut self) -> Option<&mut Coming> {
        match self {
            Incoming::Kept(coming)
            | Incoming::Passed(coming)
            | Incoming::Discarded(coming)
            | Incoming::Dropped { coming, .. } => Some(coming),
            Incoming::Nothing | Incoming::Complete => None,
        }
    }

    /// Whether the next request on the connection may begin.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Incoming::Nothing)
    }

    /// Whether the request has its answer, and the rest of its body is dropped.
    pub(crate) fn is_dropped(&self) -> bool {
        matches!(self, Incoming::Dropped { .. })
    }

    /// Whether the body goes to its upstream while it comes.
    pub(crate) fn is_passed(&self) -> bool {
        matches!(self, Incoming::Passed(_))
    }

    /// The request of a body that goes to an upstream has its answer: the rest of that is dropped. Whether there is any.
    pub(crate) fn drop_passed(&mut self) -> bool {
        if !self.is_passed() {
            return false;
        }
        if let Incoming::Passed(coming) = std::mem::take(self) {
            *self = Incoming::Dropped { coming, bytes: 0 };
        }
        true
    }

    /// What answers the request takes no body that comes: it is kept, and given away when it is whole.
    pub(crate) fn keep_passed(&mut self) {
        if let Incoming::Passed(coming) = std::mem::take(self) {
            *self = Incoming::Kept(coming);
        }
    }

    /// The announced length of what is still to come.
    pub(crate) fn announced(&self) -> u64 {
        self.coming().map_or(0, |coming| coming.announced)
    }

    /// Whether the end of the body is not in its bytes.
    pub(crate) fn ends_when_told(&self) -> bool {
        self.coming().is_some_and(|coming| coming.decoder.ends_when_told())
    }

    /// What came behind the body, if that is kept and whole.
    pub(crate) fn trailers(&self) -> Option<Box<FieldLines>> {
        match self {
            Incoming::Kept(coming) | Incoming::Passed(coming) if !coming.trailers.is_empty() => {
                Some(body::trailers(&coming.trailers)).filter(|fields| !fields.is_empty()).map(Box::new)
            }
            _ => None,
        }
    }

    /// The rate of the body, if it has one.
    pub(crate) fn current_pace(&self) -> Option<Pace> {
        self.coming()?.pace
    }

    /// The body is measured anew.
    pub(crate) fn begin_pace(&mut self) {
        if let Some(coming) = self.coming_mut() {
            coming.pace = None;
        }
    }

    /// Takes a piece, behind which the body ends if `ends`; what is kept of its content is appended to `body`. With the last
    /// piece nothing is left to come. `None` if nothing was to come.
    ///
    /// # Errors
    /// When the framing is broken, or the body is longer than its limit.
    pub(crate) fn take(
        &mut self,
        piece: &[u8],
        ends: bool,
        body: &mut Vec<u8>,
    ) -> Result<Option<Progress>, Reject> {
        let Some(coming) = self.coming_mut() else { return Ok(None) };
        let progress = coming.decode(piece, ends, body)?;
        match self {
            Incoming::Dropped { bytes, .. } => {
                *bytes += body.len() as u64;
                body.clear();
            }
            Incoming::Discarded(_) => body.clear(),
            Incoming::Kept(_) | Incoming::Passed(_) | Incoming::Nothing | Incoming::Complete => {}
        }
        Ok(Some(progress))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coming(framing: Framing) -> Box<Coming> {
        Coming::new(Decoder::new(framing, 1000), framing)
    }

    /// Takes the pieces: how many bytes belonged to the body, what is kept of it, and whether it is whole.
    fn take(incoming: &mut Incoming, pieces: &[&[u8]]) -> (usize, Vec<u8>, bool) {
        let (mut consumed, mut body, mut complete) = (0, Vec::new(), false);
        for piece in pieces {
            let progress = incoming.take(piece, false, &mut body).unwrap().unwrap();
            consumed += progress.consumed;
            complete = progress.complete;
        }
        (consumed, body, complete)
    }

    #[test]
    fn a_body_is_kept_or_dropped_and_ends_where_it_was_announced_to() {
        let pieces: &[&[u8]] = &[b"ab", b"cdGET /"];
        let framing = Framing::Length(4);
        assert_eq!(take(&mut Incoming::Kept(coming(framing)), pieces), (4, b"abcd".to_vec(), true));
        assert_eq!(take(&mut Incoming::Discarded(coming(framing)), pieces), (4, Vec::new(), true));
        let mut dropped = Incoming::Dropped { coming: coming(framing), bytes: 0 };
        assert_eq!(take(&mut dropped, pieces), (4, Vec::new(), true));
        assert!(matches!(dropped, Incoming::Dropped { bytes: 4, .. }));
    }

    #[test]
    fn what_is_left_of_a_passed_body_is_dropped_once_there_is_an_answer() {
        let mut passed = Incoming::Passed(coming(Framing::Length(8)));
        assert_eq!(take(&mut passed, &[b"abcd"]), (4, b"abcd".to_vec(), false));
        assert!(passed.drop_passed() && !passed.drop_passed() && passed.is_dropped());
        assert_eq!(take(&mut passed, &[b"efgh", b""]), (4, Vec::new(), true));
        for mut other in [Incoming::Nothing, Incoming::Kept(coming(Framing::Length(4)))] {
            assert!(!other.drop_passed() && !other.is_dropped());
        }
    }

    #[test]
    fn a_passed_body_can_be_kept_instead() {
        let mut passed = Incoming::Passed(coming(Framing::Length(8)));
        passed.keep_passed();
        assert!(matches!(passed, Incoming::Kept(_)));
        assert_eq!(take(&mut passed, &[b"abcd", b"efgh"]), (8, b"abcdefgh".to_vec(), true));
    }

    #[test]
    fn of_chunks_only_the_content_counts() {
        let mut dropped = Incoming::Dropped { coming: coming(Framing::Chunked), bytes: 0 };
        let pieces: &[&[u8]] = &[b"3\r\nab", b"c\r\n0\r\n", b"\r\n"];
        assert_eq!(take(&mut dropped, pieces), (13, Vec::new(), true));
        assert!(matches!(dropped, Incoming::Dropped { bytes: 3, .. }));
    }

    #[test]
    fn what_comes_behind_a_body_is_kept_with_it() {
        let pieces: &[&[u8]] = &[b"2\r\nab\r\n0\r\nX-Sum", b": 17\r\nHost: x\r\n\r", b"\nGET /"];
        let trailers = |incoming: &mut Incoming| {
            assert_eq!(take(incoming, pieces).0, 32);
            incoming.trailers().map(|fields| fields.all().iter().map(|(n, v)| [n, v].concat()).collect())
        };
        let expected: Vec<Vec<u8>> = vec![b"X-Sum17".to_vec()];
        assert_eq!(trailers(&mut Incoming::Kept(coming(Framing::Chunked))), Some(expected));
        assert_eq!(trailers(&mut Incoming::Discarded(coming(Framing::Chunked))), None);
        let mut none = Incoming::Kept(coming(Framing::Chunked));
        assert_eq!(take(&mut none, &[b"0\r\n\r\n"]).0, 5);
        assert!(none.trailers().is_none());
    }

    #[test]
    fn where_nothing_is_to_come_nothing_is_taken() {
        let mut body = Vec::new();
        for mut incoming in [Incoming::Nothing, Incoming::Complete] {
            assert_eq!(incoming.take(b"GET / HTTP/1.1", true, &mut body), Ok(None));
            assert_eq!((incoming.announced(), incoming.ends_when_told()), (0, false));
            assert!(incoming.coming_mut().is_none() && !incoming.is_dropped());
        }
        assert!(body.is_empty());
    }

    #[test]
    fn the_end_may_come_beside_the_bytes() {
        let decoder = Decoder::framed(Framing::Chunked, 1000);
        let mut incoming = Incoming::Kept(Coming::new(decoder, Framing::Chunked));
        assert!(incoming.ends_when_told());
        let mut body = Vec::new();
        let first = incoming.take(b"ab", false, &mut body).unwrap().unwrap();
        let last = incoming.take(b"", true, &mut body).unwrap().unwrap();
        assert_eq!((first.complete, last.complete, body), (false, true, b"ab".to_vec()));
    }

    #[test]
    fn a_broken_body_is_refused() {
        let mut incoming = Incoming::Kept(coming(Framing::Chunked));
        let refused = incoming.take(b"xyz\r\n", false, &mut Vec::new()).map_err(|reject| reject.status);
        assert_eq!(refused, Err(400));
        let long = Framing::Chunked;
        let mut incoming = Incoming::Kept(Coming::new(Decoder::new(long, 2), long));
        let refused = incoming.take(b"3\r\nabc\r\n", false, &mut Vec::new()).map_err(|reject| reject.status);
        assert_eq!(refused, Err(413));
    }
}
