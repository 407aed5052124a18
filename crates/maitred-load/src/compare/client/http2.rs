//! A connection of HTTP/2 with one request at a time.

use std::time::Instant;

use maitred_http::framed::StreamKey;
use maitred_http::h2::{Event, Opening, Session, Settings, head_bytes};
use maitred_http::request::RequestHead;

use super::link::Link;
use super::response::{Answer, Failure, INTERIM_MAX, Response, wire_bytes_max};

/// Bytes that are received at a time.
const PIECE_BYTES: usize = 16 * 1024;

/// A connection.
pub(super) struct Http2 {
    link: Link,
    session: Session,
    /// What has come and was not used: less than a frame.
    pending: Vec<u8>,
}

/// What has come of a request so far.
struct Coming {
    response: Option<Response>,
    interim: usize,
    is_complete: bool,
}

impl Http2 {
    /// Begins a session on a connection.
    pub(super) fn begin(link: Link) -> Http2 {
        let settings = Settings {
            connect_protocol: false,
            header_list_bytes_max: 64 << 10,
            header_block_bytes_max: 128 << 10,
            ..Settings::default()
        };
        Http2 { link, session: Session::towards_server(&settings, Instant::now()), pending: Vec::new() }
    }

    /// Until when the following calls may wait.
    pub(super) fn set_deadline(&mut self, deadline: Instant) {
        self.link.set_deadline(deadline);
    }

    /// Sends a request in the form of HTTP/1.1, and reads the response. A failure says whether the server has looked at the
    /// request.
    pub(super) fn exchange(
        &mut self,
        scheme: &'static str,
        request: &[u8],
        body_bytes_max: usize,
    ) -> Result<Answer, (Failure, bool)> {
        let (head, body) = request.split_at_checked(head_bytes(request)).unwrap_or((request, &[]));
        let opening = Opening { head, replaced: &[], scheme, ended: body.is_empty(), user: 0 };
        let stream = self.session.open(opening).ok_or((Failure::Closed, true))?;
        let mut coming = Coming { response: None, interim: 0, is_complete: false };
        let ended = self.run(stream, body, &mut coming, body_bytes_max);
        let is_unseen =
            self.session.is_unprocessed(stream) || coming.response.is_none() && coming.interim == 0;
        self.session.leave(stream);
        // What is left to be said, such as the cancelling of a stream.
        let flushed = self.flush();
        ended.map_err(|failure| (failure, is_unseen))?;
        let response = coming.response.ok_or((Failure::Malformed, false))?;
        let keeps = flushed.is_ok() && self.session.lasts() && response.is_whole;
        Ok(Answer { response, keeps })
    }

    fn run(
        &mut self,
        stream: StreamKey,
        mut body: &[u8],
        coming: &mut Coming,
        body_bytes_max: usize,
    ) -> Result<(), Failure> {
        let (mut total, total_max) = (0, wire_bytes_max(body_bytes_max));
        loop {
            while !body.is_empty() {
                let room = self.session.room(stream).min(body.len());
                let Some((piece, rest)) = body.split_at_checked(room).filter(|(piece, _)| !piece.is_empty())
                else {
                    break;
                };
                self.session.data(stream, piece.len(), rest.is_empty()).extend_from_slice(piece);
                body = rest;
                self.flush()?;
            }
            self.flush()?;
            let start = self.pending.len();
            self.pending.resize(start + PIECE_BYTES, 0);
            let read = self.link.receive(self.pending.get_mut(start..).unwrap_or_default());
            self.pending.truncate(start + read.as_ref().copied().unwrap_or(0));
            total += self.pending.len() - start;
            if read? == 0 {
                return Err(if coming.response.is_some() { Failure::Aborted } else { Failure::Closed });
            }
            self.take_events(stream, coming, body_bytes_max)?;
            if coming.is_complete {
                return Ok(());
            }
            if total > total_max || coming.interim > INTERIM_MAX {
                return Err(Failure::Endless);
            }
        }
    }

    fn take_events(&mut self, stream: StreamKey, coming: &mut Coming, max: usize) -> Result<(), Failure> {
        let (mut at, mut unused) = (0, RequestHead::default());
        let mut result = Ok(());
        loop {
            let event = match self.session.next(Instant::now(), &self.pending, &mut at, &mut unused) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(_) => return Err(Failure::Malformed),
            };
            match event {
                Event::Response { stream: of, head } if of == stream => {
                    if head.status < 200 {
                        coming.interim += 1;
                        continue;
                    }
                    let mut fields: Vec<(String, Vec<u8>)> = head
                        .fields
                        .all()
                        .iter()
                        .map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value.to_vec()))
                        .collect();
                    if let Some(length) = head.content_length {
                        fields.push(("content-length".to_owned(), length.to_string().into_bytes()));
                    }
                    coming.is_complete = head.ended;
                    let status = head.status;
                    coming.response = Some(Response { status, fields, body: Vec::new(), is_whole: true });
                }
                Event::Data { stream: of, bytes, ended } => {
                    if let Some(response) = coming.response.as_mut().filter(|_| of == stream) {
                        let room = max.saturating_sub(response.body.len());
                        response.body.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
                        response.is_whole &= bytes.len() <= room;
                        coming.is_complete |= ended || !response.is_whole;
                    }
                    let count = bytes.len();
                    self.session.consumed(of, count);
                }
                Event::Trailers { stream: of, .. } if of == stream => coming.is_complete = true,
                Event::Reset { stream: of, .. } if of == stream && !coming.is_complete => {
                    result = Err(if coming.response.is_some() { Failure::Aborted } else { Failure::Reset });
                }
                _ => {}
            }
        }
        self.pending.drain(..at.min(self.pending.len()));
        result
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let bytes = std::mem::take(self.session.out());
        if bytes.is_empty() { Ok(()) } else { self.link.send(&bytes) }
    }
}
