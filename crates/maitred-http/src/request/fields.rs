//! The one pass over the fields: everything that this server acts on.

use super::{Known, List, Reject, bad_request, framing};
use crate::bytes::is_name;
use crate::limits::CONNECTION_OPTIONS_MAX;

/// What the one pass over the fields finds.
#[derive(Default)]
pub(super) struct Facts<'h, 'b> {
    pub(super) host: Option<&'b [u8]>,
    pub(super) framing: framing::Seen,
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) connection_upgrade: bool,
    connection_options: u32,
    pub(super) upgrade: bool,
    pub(super) expects_continue: bool,
    pub(super) other_expectation: bool,
    pub(super) known: Known<'h>,
}

/// The one pass over the fields. Length and first letter choose the only name that a field can have here, so
/// that the unknown ones cost one jump, and the known ones one comparison.
#[inline]
pub(super) fn facts<'h, 'b>(fields: &'h [httparse::Header<'b>]) -> Result<Facts<'h, 'b>, Reject> {
    let mut facts = Facts::default();
    for (at, field) in fields.iter().enumerate() {
        let (name, value) = (field.name.as_bytes(), field.value);
        let first = name.first().map_or(0, |byte| byte | 0x20);
        let is = |expected: &[u8]| is_name(name, expected);
        let known = &mut facts.known;
        match (name.len(), first) {
            (4, b'h') if is(b"host") => facts.host(value)?,
            (5, b'r') if is(b"range") => keep_only(&mut known.range, value),
            (6, b'e') if is(b"expect") => facts.expect(value),
            (7, b'r') if is(b"referer") => keep_first(&mut known.referer, value),
            (7, b'u') if is(b"upgrade") => facts.upgrade = true,
            (8, b'i') if is(b"if-match") => List::take(&mut known.if_match, "if-match", fields, at),
            (8, b'i') if is(b"if-range") => keep_only(&mut known.if_range, value),
            (10, b'c') if is(b"connection") => facts.connection(value)?,
            (10, b'u') if is(b"user-agent") => keep_first(&mut known.user_agent, value),
            (13, b'i') if is(b"if-none-match") => {
                List::take(&mut known.if_none_match, "if-none-match", fields, at)
            }
            (14, b'c') if is(b"content-length") => facts.framing.content_length(value)?,
            (15, b'a') if is(b"accept-encoding") => {
                List::take(&mut known.accept_encoding, "accept-encoding", fields, at)
            }
            (17, b't') if is(b"transfer-encoding") => facts.framing.transfer_encoding(value)?,
            (17, b'i') if is(b"if-modified-since") => keep_only(&mut known.if_modified_since, value),
            (19, b'i') if is(b"if-unmodified-since") => keep_only(&mut known.if_unmodified_since, value),
            _ => {}
        }
    }
    Ok(facts)
}

#[inline]
fn keep_first<'b>(slot: &mut Option<&'b [u8]>, value: &'b [u8]) {
    slot.get_or_insert(value);
}

/// Keeps the value of a field that may stand once. Standing twice makes it a list, which no such field can
/// be, and an empty value is invalid for all of them too: it is ignored where an invalid one is (9110-13.1.3
/// to 13.1.5, 14.2).
#[inline]
fn keep_only<'b>(slot: &mut Option<&'b [u8]>, value: &'b [u8]) {
    *slot = Some(if slot.is_none() { value } else { b"" });
}

impl<'b> Facts<'_, 'b> {
    #[inline]
    fn host(&mut self, value: &'b [u8]) -> Result<(), Reject> {
        match self.host.replace(value) {
            None => Ok(()),
            Some(_) => Err(bad_request("Host more than once")),
        }
    }

    fn expect(&mut self, value: &[u8]) {
        for expectation in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            match expectation {
                b"" => {}
                known if known.eq_ignore_ascii_case(b"100-continue") => self.expects_continue = true,
                _ => self.other_expectation = true,
            }
        }
    }

    fn connection(&mut self, value: &[u8]) -> Result<(), Reject> {
        for option in value.split(|byte| *byte == b',') {
            self.connection_options += 1;
            if self.connection_options > CONNECTION_OPTIONS_MAX {
                return Err(bad_request("too many options of Connection"));
            }
            let option = option.trim_ascii();
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            self.connection_upgrade |= option.eq_ignore_ascii_case(b"upgrade");
        }
        Ok(())
    }
}
