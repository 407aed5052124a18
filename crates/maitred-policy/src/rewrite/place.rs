//! Where in a template a placeholder stands. The place alone decides how its value is encoded, so that a program that takes the
//! text apart gets exactly the bytes that the placeholder stands for.
//!
//! | place | a path, a group | one value | `{query}` | `{uri}` |
//! |---|---|---|---|---|
//! | `Authority`, `Path` | but for slashes | all of it | all of it | as it is |
//! | `Item`: behind `?` or `&` | for a query | for a query | as it is | for a query |
//! | `Value`: further behind | for a query | for a query | for a query | for a query |
//! | `Parameter`, also the operator's text | for a query | for a query | for a query | for a query |
//! | `Field` | but for slashes | for a field | as it is | as it is |
//! | `Variable` | as it is | as it is | as it is | as it is |

use std::io::Write as _;

use maitred_http::uri;

use super::facts::Origin;
use maitred_config::{Part, Template};

/// A place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In scheme, host and port of a URI.
    Authority,
    /// In a path, or behind `#`.
    Path,
    /// Where an item of a query begins.
    Item,
    /// Within an item of a query, or where that cannot be told from a path: what is encoded for a query can stand in a path.
    Value,
    /// In the value of a parameter, which the template is as a whole.
    Parameter,
    /// In the value of a field.
    Field,
    /// In a variable of FastCGI, which has a length. Nothing in it ends it, but control characters may end what the application
    /// makes of it: a C string, a line.
    Variable,
}

/// What a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'v> {
    /// Bytes in which slashes separate segments.
    Segments(&'v [u8]),
    /// Bytes that are one value.
    One(&'v [u8]),
    /// Items of a query, in their canonical form.
    Query(&'v [u8]),
    /// A path and perhaps a query, in their canonical form.
    Uri(&'v [u8]),
    /// A host without its port. What is no host is left out: it would move the end of the authority.
    Host(&'v str),
    /// An address, a number, a scheme: nothing of which means anything.
    Word(&'v [u8]),
}

impl Place {
    /// Where a template begins that stands for a target, or a place to redirect to.
    pub(super) fn of_uri(template: &Template) -> Place {
        match template.0.first() {
            Some(Part::Text(text)) if !text.starts_with('/') => Place::Authority,
            Some(Part::Scheme | Part::Host) => Place::Authority,
            _ => Place::Path,
        }
    }

    /// The place behind a text of the operator's.
    pub(super) fn behind_text(self, text: &str) -> Place {
        if !self.is_in_uri() {
            return self;
        }
        let rest = match (self, text.split_once("://")) {
            (Place::Authority, Some((_, rest))) => rest,
            _ => text,
        };
        rest.bytes().fold(self, |place, byte| match (place, byte) {
            (Place::Authority | Place::Path, b'?') | (Place::Item | Place::Value, b'&') => Place::Item,
            (Place::Authority, b'/' | b'#') | (Place::Item | Place::Value, b'#') => Place::Path,
            (Place::Authority | Place::Path, _) => place,
            _ => Place::Value,
        })
    }

    /// The place behind the value of a placeholder.
    pub(super) fn behind(self, value: Value<'_>) -> Place {
        match (self, value) {
            // The URI may have had a query.
            (Place::Authority | Place::Path, Value::Uri(_)) | (Place::Item, _) => Place::Value,
            (Place::Authority, Value::Segments(_)) => Place::Path,
            (place, _) => place,
        }
    }

    fn is_in_uri(self) -> bool {
        matches!(self, Place::Authority | Place::Path | Place::Item | Place::Value)
    }

    /// Appends a text of the operator's.
    pub(super) fn put_text(self, text: &str, out: &mut Vec<u8>) {
        match self {
            // What the operator has written is a value, and not a part of a URI.
            Place::Parameter => uri::encode_query(text.as_bytes(), out),
            _ => out.extend_from_slice(text.as_bytes()),
        }
    }

    /// Appends a value.
    pub(super) fn put(self, value: Value<'_>, out: &mut Vec<u8>) {
        match (self, value) {
            (_, Value::Host(host)) if !is_host(host) => {}
            (Place::Authority | Place::Path, Value::Segments(bytes)) => uri::encode_path(bytes, out),
            (Place::Authority | Place::Path, Value::One(bytes) | Value::Query(bytes)) => {
                uri::encode_component(bytes, out);
            }
            (Place::Authority | Place::Path, value) => out.extend_from_slice(value.bytes()),
            (Place::Item, Value::Query(items)) => out.extend_from_slice(items),
            (Place::Item | Place::Value | Place::Parameter, value) => uri::encode_query(value.bytes(), out),
            (Place::Field, Value::Segments(bytes)) => uri::encode_path(bytes, out),
            (Place::Field, Value::One(bytes)) => uri::encode_in_field(bytes, out),
            (Place::Field, value) => out.extend_from_slice(value.bytes()),
            (Place::Variable, value) if value.bytes().iter().any(u8::is_ascii_control) => {}
            (Place::Variable, value) => out.extend_from_slice(value.bytes()),
        }
    }
}

impl<'v> Value<'v> {
    fn bytes(self) -> &'v [u8] {
        match self {
            Value::Segments(bytes)
            | Value::One(bytes)
            | Value::Query(bytes)
            | Value::Uri(bytes)
            | Value::Word(bytes) => bytes,
            Value::Host(host) => host.as_bytes(),
        }
    }
}

fn is_host(host: &str) -> bool {
    host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~[]:%".contains(&byte))
}

/// Gives `take` what is about the client and its connection.
pub(super) fn with_origin(origin: Origin, part: &Part, take: &mut dyn FnMut(Value<'_>)) {
    // The longest address has 45 bytes.
    let mut room = [0; 48];
    let mut rest = &mut room[..];
    let _ = match (part, origin.client) {
        (Part::Port, _) => write!(rest, "{}", origin.port),
        (Part::Client, Some(address)) => write!(rest, "{}", address.to_canonical()),
        (Part::Scheme, _) => rest.write_all(if origin.https { b"https" } else { b"http" }),
        _ => Ok(()),
    };
    let free = rest.len();
    take(Value::Word(room.get(..room.len() - free).unwrap_or_default()));
}
