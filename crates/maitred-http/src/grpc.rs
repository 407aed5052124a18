//! What gRPC says in fields of HTTP: calls, statuses, messages, deadlines (the document "gRPC over HTTP2" of its project); and
//! [`web`], the form of it for browsers.

use std::time::Duration;

use crate::request::{Method, Request};

#[cfg(test)]
mod tests;
pub mod web;

/// The status of a call whose time is over.
pub const DEADLINE_EXCEEDED: u8 = 4;

/// The digits of a time (`TimeoutValue`).
const DIGITS_MAX: usize = 8;

/// In which form a call comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// gRPC, over HTTP/2.
    Grpc,
    /// gRPC-Web, over any version: what gRPC has as trailers is the last message.
    Web,
    /// The same, in Base64.
    WebText,
}

impl Form {
    /// The form of a request, if it is a call: one with POST and such a `Content-Type`.
    #[inline]
    pub fn of(request: &Request<'_, '_>) -> Option<Form> {
        if request.method != Method::Post {
            return None;
        }
        let mut types = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("content-type"));
        types.find_map(|field| Form::of_type(field.value)).map(|(form, _)| form)
    }

    /// The form that a `Content-Type` says, and what follows its name there (`+proto`).
    pub fn of_type(value: &[u8]) -> Option<(Form, &[u8])> {
        let forms = [
            (&b"application/grpc-web-text"[..], Form::WebText),
            (b"application/grpc-web", Form::Web),
            (b"application/grpc", Form::Grpc),
        ];
        forms.into_iter().find_map(|(name, form)| {
            let (start, rest) = value.split_at_checked(name.len())?;
            let is =
                start.eq_ignore_ascii_case(name) && matches!(rest.first(), None | Some(b'+' | b';' | b' '));
            is.then_some((form, rest))
        })
    }

    /// The `Content-Type` of a response without messages.
    pub fn media_type(self) -> &'static str {
        match self {
            Form::Grpc => "application/grpc",
            Form::Web => "application/grpc-web+proto",
            Form::WebText => "application/grpc-web-text+proto",
        }
    }

    /// Whether it is one for browsers.
    pub fn is_web(self) -> bool {
        self != Form::Grpc
    }
}

/// The status of a call whose response has this status of HTTP, and none of its own (the document "HTTP to gRPC Status Code
/// Mapping").
pub fn status_of(http: u16) -> u8 {
    match http {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => 2,
    }
}

/// Appends the value of `grpc-message`: percent-encoded, but for what ASCII can show.
pub fn put_message(text: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        match byte {
            b'%' | ..b' ' | 0x7f.. => {
                let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
                out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
            }
            byte => out.push(byte),
        }
    }
}

/// The time of a `grpc-timeout`. `None` if it is none: more than eight digits, or an unknown unit.
pub fn timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0_u64, |number, digit| number * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// A `grpc-timeout` of this time, rounded down to the smallest unit that has room for it.
pub fn timeout_value(time: Duration) -> String {
    const MOST: u128 = 10_u128.pow(DIGITS_MAX as u32) - 1;
    let (micros, seconds) = (time.as_micros(), u128::from(time.as_secs()));
    let units =
        [(time.as_nanos(), 'n'), (micros, 'u'), (micros / 1000, 'm'), (seconds, 'S'), (seconds / 60, 'M')];
    let found = units.into_iter().find(|(number, _)| *number <= MOST);
    let (number, unit) = found.unwrap_or((MOST.min(seconds / 3600), 'H'));
    format!("{number}{unit}")
}
