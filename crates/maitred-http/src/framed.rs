//! What HTTP/2 and HTTP/3 have in common: streams with heads that are fields. [`Session`] is one connection of either of them.

mod session;

pub use session::Session;

use crate::bytes::is_name;
use crate::fields::{FieldEdits, Present};
use crate::response::ResponseHead;

/// A stream, as the caller knows it: its slot in the low 16 bits, and which stream of this slot it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamKey(pub u32);

impl StreamKey {
    /// The slot: below `streams_max`, used again after a release.
    #[inline]
    pub fn slot(self) -> usize {
        usize::from(self.0 as u16)
    }
}

/// Gives out the fields of a response as edits leave them.
#[inline]
pub(crate) fn each_field(head: &ResponseHead<'_>, edits: &FieldEdits, mut field: impl FnMut(&[u8], &[u8])) {
    if edits.is_empty() {
        return head.for_each(field);
    }
    let mut present = Present::default();
    head.for_each(|name, value| {
        if edits.keeps(name, &mut present) {
            field(name, value);
        }
    });
    edits.further(present).for_each(|(name, value)| field(name, value));
}

/// Whether a field goes on to the client: all but those of the connection. Length and first letter choose the only name that
/// it can be.
#[inline]
pub(crate) fn is_for_client(name: &[u8], tunnel: bool) -> bool {
    let is = |expected: &[u8]| is_name(name, expected);
    match (name.len(), name.first().map_or(0, |byte| byte | 0x20)) {
        (0, _) => false,
        (7, b'u') => !is(b"upgrade"),
        (10, b'c') => !is(b"connection"),
        (10, b'k') => !is(b"keep-alive"),
        (16, b'p') => !is(b"proxy-connection"),
        (17, b't') => !is(b"transfer-encoding"),
        (20, b's') => !(tunnel && is(b"sec-websocket-accept")),
        _ => true,
    }
}
