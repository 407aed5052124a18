//! The body of a request that goes to its upstream while it comes: framed for that, and held until it is taken.
//!
//! No more is read from the client before all of it has left. So a connection holds one read of the body, and an upstream that
//! takes nothing is seen by the client as a full socket.

use std::os::fd::BorrowedFd;

use maitred_http::fastcgi::encode::{put_stdin, put_stdin_end};
use maitred_http::fields::FieldLines;
use maitred_http::grpc::web::{NotBase64, TextDecoder};
use maitred_http::h1::{put_chunk, put_last_chunk};
use maitred_http::request::Framing;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

/// Bytes of a body that one socketpair takes in one turn, so that the others get their turn.
const SENT_PER_TURN: usize = 512 * 1024;

/// How the upstream is told where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framed {
    /// By the length, which was announced.
    Length,
    /// In chunks (9112-7.1).
    Chunks,
    /// In records of FastCGI.
    Records,
    /// In frames of HTTP/2, which are made when there is room for them.
    Frames,
}

impl Framed {
    /// As the request has it: what a process gets (PROTOCOL.md, "Bodies on the response descriptor").
    pub(crate) fn of(framing: Framing) -> Framed {
        match framing {
            Framing::Length(_) => Framed::Length,
            Framing::Chunked | Framing::None => Framed::Chunks,
        }
    }
}

/// What a socket has taken in one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Took {
    /// So many bytes, and it takes no more for now, or there is nothing more.
    Bytes(usize),
    /// The share of one turn.
    Share,
    /// The other end of the socket is closed.
    Nothing,
}

/// A body on its way.
#[derive(Debug)]
pub(crate) struct Passing {
    framed: Framed,
    /// What the server has yet to take, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// All of the body, and what ends it, is in `out`, or was.
    whole: bool,
    /// Something of it has left, and is not here any more.
    begun: bool,
    /// The body is not taken any more.
    refused: bool,
    /// What follows it in frames.
    trailers: Option<Box<FieldLines>>,
    /// The decoder of a body that comes in Base64.
    text: Option<Box<TextDecoder>>,
}

impl Passing {
    /// A body of which nothing has come. `text`: it is decoded from Base64, and framed as `Frames`.
    pub(crate) fn new(framed: Framed, text: bool) -> Box<Passing> {
        let (out, trailers) = (Vec::new(), None);
        let text = text.then(Box::default);
        Box::new(Passing { framed, out, sent: 0, whole: false, begun: false, refused: false, trailers, text })
    }

    /// Appends content.
    ///
    /// # Errors
    /// The content has to be Base64, and is not.
    pub(crate) fn put(&mut self, content: &[u8]) -> Result<(), NotBase64> {
        if let Some(decoder) = &mut self.text {
            return decoder.decode(content, &mut self.out);
        }
        match self.framed {
            Framed::Length | Framed::Frames => self.out.extend_from_slice(content),
            Framed::Chunks => put_chunk(content, &mut self.out),
            Framed::Records => put_stdin(&mut self.out, content),
        }
        Ok(())
    }

    /// Whether it may end here.
    ///
    /// # Errors
    /// The body is in Base64, and something is missing.
    pub(crate) fn check_end(&self) -> Result<(), NotBase64> {
        self.text.as_ref().map_or(Ok(()), |decoder| decoder.finish())
    }

    /// Nothing follows, but for these trailers, if there is a place for them.
    pub(crate) fn end(&mut self, trailers: Option<&FieldLines>) {
        self.whole = true;
        match self.framed {
            Framed::Length => {}
            Framed::Frames => self.trailers = trailers.cloned().map(Box::new),
            Framed::Chunks => {
                put_last_chunk(trailers.map(FieldLines::all).unwrap_or_default(), &mut self.out);
            }
            Framed::Records => put_stdin_end(&mut self.out),
        }
    }

    /// What follows the body in frames.
    pub(crate) fn take_trailers(&mut self) -> Option<FieldLines> {
        self.trailers.take().map(|trailers| *trailers)
    }

    /// What the server has yet to take of what is here.
    pub(crate) fn rest(&self) -> &[u8] {
        self.out.get(self.sent..).unwrap_or_default()
    }

    /// The server has taken so many bytes.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.begun |= bytes > 0;
        self.sent += bytes;
        if self.rest().is_empty() {
            self.out.clear();
            self.sent = 0;
        }
    }

    /// Sends what a socketpair takes of it. The reader may have closed its end before it had all: then the rest is dropped.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>) -> Took {
        let mut taken = 0;
        while !self.rest().is_empty() {
            if taken >= SENT_PER_TURN {
                return Took::Share;
            }
            let share = self.rest().len().min(SENT_PER_TURN - taken);
            match send(socket, &self.rest()[..share], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => {
                    self.advance(sent);
                    taken += sent;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.refused = true;
                    self.out = Vec::new();
                    self.sent = 0;
                    return Took::Nothing;
                }
            }
        }
        Took::Bytes(taken)
    }

    /// Whether more of the body is to be read from the client, and there is room for it.
    pub(crate) fn wants_more(&self) -> bool {
        !self.whole && !self.refused && self.rest().is_empty()
    }

    /// Whether nothing of it has been read, so that it can go elsewhere as it is.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.begun && !self.whole && !self.refused && self.out.is_empty()
    }

    /// Whether all of the body has been read.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether the server has all of it.
    pub(crate) fn is_sent(&self) -> bool {
        self.whole && !self.refused && self.rest().is_empty()
    }

    /// Whether it cannot be sent from its beginning any more.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Memory that the server has yet to take.
    pub(crate) fn unsent_bytes(&self) -> usize {
        if self.rest().is_empty() { 0 } else { self.out.capacity() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use maitred_http::body::Decoder;
    use maitred_http::request;

    use super::*;

    /// Puts the pieces, each of which is taken in two parts.
    fn taken(framed: Framed, pieces: &[&[u8]], trailers: Option<&FieldLines>) -> Vec<u8> {
        let (mut passing, mut taken) = (Passing::new(framed, false), Vec::new());
        let take = |passing: &mut Passing, taken: &mut Vec<u8>| {
            for part in [passing.rest().len() / 2, usize::MAX] {
                let part = part.min(passing.rest().len());
                taken.extend_from_slice(&passing.rest()[..part]);
                passing.advance(part);
            }
        };
        for piece in pieces {
            assert!(passing.wants_more());
            passing.put(piece).unwrap();
            assert_eq!(
                (passing.wants_more(), passing.unsent_bytes() == 0),
                (piece.is_empty(), piece.is_empty())
            );
            take(&mut passing, &mut taken);
        }
        passing.end(trailers);
        assert!(passing.is_whole() && !passing.wants_more());
        take(&mut passing, &mut taken);
        assert!(passing.is_sent() && passing.unsent_bytes() == 0);
        taken
    }

    #[test]
    fn a_body_is_framed_as_the_server_was_told() {
        let pieces: &[&[u8]] = &[b"some", b"", b" content"];
        assert_eq!(taken(Framed::Length, pieces, None), b"some content");
        let mut sum = FieldLines::default();
        sum.push(b"x-sum", b"17");
        let chunks = taken(Framed::Chunks, pieces, Some(&sum));
        let (mut content, mut behind) = (Vec::new(), Vec::new());
        let progress = Decoder::new(request::Framing::Chunked, 100)
            .decode_parts(&chunks, |piece| content.extend_from_slice(piece), |byte| behind.push(byte))
            .unwrap();
        assert!(progress.complete && progress.consumed == chunks.len());
        assert_eq!(
            (content.as_slice(), behind.as_slice()),
            (&b"some content"[..], &b"x-sum: 17\r\n\r\n"[..])
        );
        let mut records = Vec::new();
        pieces.iter().for_each(|piece| put_stdin(&mut records, piece));
        put_stdin_end(&mut records);
        assert_eq!(taken(Framed::Records, pieces, None), records);
    }

    #[test]
    fn a_socketpair_takes_what_it_has_room_for_and_its_end_is_noted() {
        let flags = rustix::net::SocketFlags::NONBLOCK | rustix::net::SocketFlags::CLOEXEC;
        let (near, far) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            flags,
            None,
        )
        .unwrap();
        let mut passing = Passing::new(Framed::Length, false);
        assert!(passing.is_untouched());
        passing.put(&vec![7; 4 << 20]).unwrap();
        assert!(!passing.is_untouched());
        let Took::Bytes(taken) = passing.send(near.as_fd()) else {
            panic!("it has room for less than a turn")
        };
        assert!((1..4 << 20).contains(&taken) && !passing.wants_more(), "{taken} bytes");
        assert_eq!(passing.send(near.as_fd()), Took::Bytes(0));
        let mut room = vec![0; 4 << 20];
        let read = rustix::io::read(&far, &mut room).unwrap();
        assert!(read > 0 && room[..read].iter().all(|byte| *byte == 7));
        drop(far);
        assert_eq!(passing.send(near.as_fd()), Took::Nothing);
        assert!(!passing.wants_more() && !passing.is_sent() && passing.unsent_bytes() == 0);
    }

    #[test]
    fn what_has_left_cannot_be_sent_again() {
        let mut passing = Passing::new(Framed::Length, false);
        passing.put(b"some content").unwrap();
        passing.advance(0);
        assert!(!passing.has_begun(), "it is all here");
        passing.advance(1);
        assert!(passing.has_begun() && !passing.is_sent());
    }
}
