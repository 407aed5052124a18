//! A request and its response in HTTP/1.1.

use super::link::Link;
use super::response::{Answer, Failure, INTERIM_MAX, Response, wire_bytes_max};
use crate::client::{Body, FIELDS_MAX, HEAD_BYTES_MAX, head};

/// Bytes that are received at a time.
const PIECE_BYTES: usize = 16 * 1024;

/// Sends a request, and reads the response.
pub(super) fn exchange(
    link: &mut Link,
    request: &[u8],
    is_head: bool,
    body_bytes_max: usize,
) -> Result<Answer, (Failure, bool)> {
    let mut reader = Reader { link, bytes: Vec::new(), total: 0, total_max: wire_bytes_max(body_bytes_max) };
    let silent = |failure: Failure| (failure, true);
    reader.link.send(request).map_err(silent)?;
    if reader.more().map_err(silent)? == 0 {
        return Err((Failure::Closed, true));
    }
    reader.response(is_head, body_bytes_max).map_err(|failure| (failure, false))
}

struct Reader<'l> {
    link: &'l mut Link,
    /// What has come and was not used.
    bytes: Vec<u8>,
    /// What has come in all.
    total: usize,
    total_max: usize,
}

impl Reader<'_> {
    /// Receives more; 0 at the end.
    fn more(&mut self) -> Result<usize, Failure> {
        if self.total > self.total_max {
            return Err(Failure::Endless);
        }
        let start = self.bytes.len();
        self.bytes.resize(start + PIECE_BYTES, 0);
        let read = self.link.receive(self.bytes.get_mut(start..).unwrap_or_default());
        self.bytes.truncate(start + read.as_ref().copied().unwrap_or(0));
        self.total += self.bytes.len() - start;
        read
    }

    fn response(&mut self, is_head: bool, body_bytes_max: usize) -> Result<Answer, Failure> {
        let mut interim = 0;
        let (head, fields) = loop {
            let Some(found) = head(&self.bytes, is_head).map_err(|_| Failure::Malformed)? else {
                if self.bytes.len() > HEAD_BYTES_MAX || self.more()? == 0 {
                    return Err(Failure::Malformed);
                }
                continue;
            };
            let fields = fields(&self.bytes);
            self.bytes.drain(..found.bytes);
            // A switch of protocols is final: what follows it is no HTTP.
            if found.status >= 200 || found.status == 101 {
                break (found, fields);
            }
            interim += 1;
            if interim > INTERIM_MAX {
                return Err(Failure::Endless);
            }
        };
        let mut response = Response { status: head.status, fields, body: Vec::new(), is_whole: true };
        let is_complete =
            head.body == Body::Length(0) || self.body(head.body, &mut response, body_bytes_max)?;
        // What comes behind a response was not asked for.
        let keeps = head.keeps && is_complete && head.status != 101 && self.bytes.is_empty();
        Ok(Answer { response, keeps })
    }

    /// Reads the body; whether it has come as a whole.
    fn body(&mut self, mut body: Body, response: &mut Response, max: usize) -> Result<bool, Failure> {
        loop {
            let content = &mut response.body;
            let taken = body.take_into(&self.bytes, |piece| {
                let room = max.saturating_sub(content.len()).saturating_add(1);
                content.extend_from_slice(piece.get(..room).unwrap_or(piece));
            });
            let taken = taken.map_err(|_| Failure::Malformed)?;
            self.bytes.drain(..taken.bytes.min(self.bytes.len()));
            if response.body.len() > max {
                response.body.truncate(max);
                response.is_whole = false;
                return Ok(false);
            }
            if taken.is_complete {
                return Ok(true);
            }
            if self.more()? == 0 {
                return if body == Body::UntilClose { Ok(true) } else { Err(Failure::Aborted) };
            }
        }
    }
}

/// The fields of a head that was read before.
fn fields(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    if !matches!(response.parse(bytes), Ok(httparse::Status::Complete(_))) {
        return Vec::new();
    }
    let field =
        |field: &httparse::Header<'_>| (field.name.to_ascii_lowercase(), field.value.trim_ascii().to_vec());
    response.headers.iter().map(field).collect()
}
