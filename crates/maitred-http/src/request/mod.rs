//! A judged request head: what is left of it once every rule of RFC 9112 that binds a server was applied.

mod early;
mod fields;
mod framing;
mod head;
mod host;
mod judge;
mod list;
mod target;
#[cfg(test)]
mod tests;
mod value;

pub use head::{HeadRoom, RequestHead};
pub(crate) use head::{Parts, Span};
pub use httparse::Header;
pub use list::List;
pub(crate) use target::encode_beyond_ascii;
pub use target::{NOT_ENCODED, encode_text};
pub(crate) use value::is_token_byte;
pub use value::{Framing, HeadLimits, Known, MISDIRECTED, Method, Reject, Request, Version};

use std::mem::MaybeUninit;

use value::bad_request;

use crate::limits::{EMPTY_LINES_MAX, FIELDS_MAX};

/// Room for the fields of one head, on the caller's stack; never initialised before use.
pub type FieldRoom<'b> = [MaybeUninit<httparse::Header<'b>>; FIELDS_MAX];

/// Room for the fields of one head, uninitialised, so that making it costs nothing.
#[inline]
pub fn field_room<'b>() -> FieldRoom<'b> {
    [const { MaybeUninit::uninit() }; FIELDS_MAX]
}

/// Parses the head that `bytes` start with, and judges it.
///
/// Returns `None` while the head is incomplete; otherwise the request, and how many bytes it took: those of
/// the head, and of the empty lines before it that are skipped (9112-2.2). Whatever way the bytes arrive, the
/// first answer other than `None` is the one that all of them at once would have had.
///
/// # Errors
///
/// A [`Reject`] for a head that breaks a rule, or that has no hope to keep a limit.
#[inline]
pub fn parse<'h, 'b>(
    bytes: &'b [u8],
    room: &'h mut FieldRoom<'b>,
    limits: &HeadLimits,
) -> Result<Option<(Request<'h, 'b>, usize)>, Reject> {
    let skipped = match bytes {
        [b'\r' | b'\n', ..] => skip_empty_lines(bytes)?,
        _ => 0,
    };
    let received = bytes.get(skipped..).unwrap_or_default();
    let window = received.get(..limits.head_bytes_max).unwrap_or(received);
    let fields = room.get_mut(..limits.header_count_max.min(FIELDS_MAX)).unwrap_or_default();
    let mut parsed = httparse::Request::new(&mut []);
    match parsed.parse_with_uninit_headers(window, fields) {
        Ok(httparse::Status::Complete(head_bytes)) => {
            let head = window.get(..head_bytes).unwrap_or_default();
            Ok(Some((judge::judge(parsed, head, limits)?, skipped + head_bytes)))
        }
        Ok(httparse::Status::Partial) => {
            early::over_bounds(window, limits)?;
            if received.len() >= limits.head_bytes_max {
                return Err(Reject { status: 431, reason: "head too big" });
            }
            Ok(None)
        }
        Err(error) => Err(early::refusal(window, error, limits)),
    }
}

/// Counts the bytes of empty lines before a request line.
#[cold]
fn skip_empty_lines(bytes: &[u8]) -> Result<usize, Reject> {
    let mut skipped = 0;
    loop {
        match bytes.get(skipped..).unwrap_or_default() {
            [b'\r', b'\n', ..] if skipped < EMPTY_LINES_MAX * 2 => skipped += 2,
            [b'\r'] if skipped < EMPTY_LINES_MAX * 2 => return Ok(skipped),
            [b'\r' | b'\n', ..] => return Err(bad_request("empty lines before the request line")),
            _ => return Ok(skipped),
        }
    }
}
