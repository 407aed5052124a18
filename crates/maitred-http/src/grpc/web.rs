//! gRPC-Web: what a browser cannot say, or see, of gRPC. Messages are framed alike; behind the last one comes a frame with the
//! trailers (`0x80`). In its form as text everything is in Base64, of which each piece may have padding of its own (the document
//! "gRPC Web" of the project).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Form;
use crate::fields::{FieldLines, FieldsRef};
use crate::response::FramedHead;

/// The first byte of a frame that has trailers, and no message.
const TRAILERS: u8 = 0x80;

/// The body of a request in Base64 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotBase64;

/// Decodes what comes in pieces. The decoder holds no more than three bytes.
#[derive(Debug, Default)]
pub struct TextDecoder {
    held: Vec<u8>,
}

/// Digits that are three bytes together.
const GROUP: usize = 4;

impl TextDecoder {
    /// Appends to `out` what can be decoded by now.
    ///
    /// # Errors
    /// The text is not Base64.
    pub fn decode(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), NotBase64> {
        let missing = if self.held.is_empty() { 0 } else { GROUP - self.held.len() };
        let (first, rest) = text.split_at(missing.min(text.len()));
        self.held.extend_from_slice(first);
        if self.held.len() == GROUP {
            decode(&self.held, out)?;
            self.held.clear();
        }
        let (groups, tail) = rest.split_at(rest.len() - rest.len() % GROUP);
        self.held.extend_from_slice(tail);
        decode(groups, out)
    }

    /// Nothing follows.
    ///
    /// # Errors
    /// A group is not complete.
    pub fn finish(&self) -> Result<(), NotBase64> {
        if self.held.is_empty() { Ok(()) } else { Err(NotBase64) }
    }
}

/// Decodes whole groups. Padding ends a piece, behind which another one may begin.
fn decode(mut groups: &[u8], out: &mut Vec<u8>) -> Result<(), NotBase64> {
    while !groups.is_empty() {
        let padded = memchr::memchr(b'=', groups).map(|at| (at / GROUP + 1) * GROUP);
        let (piece, rest) = groups.split_at(padded.unwrap_or(groups.len()).min(groups.len()));
        STANDARD.decode_vec(piece, out).map_err(|_| NotBase64)?;
        groups = rest;
    }
    Ok(())
}

/// Makes a response of gRPC one of gRPC-Web.
#[derive(Debug)]
pub struct Reply {
    form: Form,
    /// Whether the response is one of gRPC; other responses stay what they are.
    applies: bool,
    coded: Vec<u8>,
}

impl Reply {
    /// A reply to a call in this form.
    pub fn new(form: Form) -> Reply {
        Reply { form, applies: false, coded: Vec::new() }
    }

    /// Changes the head of the response.
    pub fn head(&mut self, head: &mut FramedHead) {
        if head.status < 200 {
            return;
        }
        let media = head.fields.all().get(b"content-type").and_then(Form::of_type);
        let Some((Form::Grpc, rest)) = media else { return };
        self.applies = true;
        let mut fields = FieldLines::default();
        let name = match self.form {
            Form::WebText => "application/grpc-web-text",
            Form::Grpc | Form::Web => "application/grpc-web",
        };
        let media = [name.as_bytes(), rest].concat();
        for (name, value) in head.fields.all().iter() {
            match name {
                b"content-type" => fields.push(name, &media),
                b"trailer" => {}
                _ => fields.push(name, value),
            }
        }
        (head.fields, head.content_length) = (fields, None);
    }

    /// The content of the response in the form of the call.
    pub fn content<'c>(&'c mut self, content: &'c [u8]) -> &'c [u8] {
        if !self.applies || self.form != Form::WebText {
            return content;
        }
        self.put(content);
        &self.coded
    }

    /// What trailers are: the end of the content. `None` if they stay trailers.
    pub fn trailers(&mut self, trailers: FieldsRef<'_>) -> Option<&[u8]> {
        if !self.applies {
            return None;
        }
        let mut lines = Vec::new();
        for (name, value) in trailers.iter() {
            lines.extend(name.iter().map(u8::to_ascii_lowercase));
            lines.extend_from_slice(b": ");
            lines.extend_from_slice(value);
            lines.extend_from_slice(b"\r\n");
        }
        let mut frame = vec![TRAILERS];
        frame.extend_from_slice(&u32::try_from(lines.len()).unwrap_or(u32::MAX).to_be_bytes());
        frame.append(&mut lines);
        if self.form != Form::WebText {
            self.coded = frame;
        } else {
            self.put(&frame);
        }
        Some(&self.coded)
    }

    fn put(&mut self, content: &[u8]) {
        self.coded.clear();
        self.coded.extend_from_slice(STANDARD.encode(content).as_bytes());
    }
}
