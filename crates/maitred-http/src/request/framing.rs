//! How the body is delimited (9112-6): `Content-Length`, `Transfer-Encoding`, and what they must not be
//! together.

use super::{Framing, HeadLimits, Reject, Version, bad_request};

/// What the fields said so far.
#[derive(Default)]
pub(super) struct Seen {
    length: Option<u64>,
    coding: bool,
    chunked: bool,
    other_coding: bool,
}

impl Seen {
    /// A `Content-Length` field. A field that is repeated, or is a list, is refused even if all values agree: no
    /// client has a reason to send it, and smugglers do.
    pub(super) fn content_length(&mut self, value: &[u8]) -> Result<(), Reject> {
        if self.length.is_some() {
            return Err(bad_request("Content-Length more than once"));
        }
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(bad_request("Content-Length is not a number"));
        }
        let length = value
            .iter()
            .try_fold(0_u64, |length, digit| length.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
        self.length = Some(length.ok_or(Reject { status: 413, reason: "Content-Length beyond 64 bits" })?);
        Ok(())
    }

    /// A `Transfer-Encoding` field; several of them are one list.
    pub(super) fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Reject> {
        self.coding = true;
        for coding in value.split(|byte| *byte == b',') {
            if self.chunked {
                return Err(bad_request("Transfer-Encoding goes on after chunked"));
            }
            if coding.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                self.chunked = true;
            } else {
                self.other_coding = true;
            }
        }
        Ok(())
    }

    /// The framing, once all fields were seen. `unknown_length`: where none is stated, content follows all the same.
    #[inline]
    pub(super) fn judge(
        &self,
        version: Version,
        unknown_length: bool,
        limits: &HeadLimits,
    ) -> Result<Framing, Reject> {
        if self.coding {
            return self.judge_coding(version);
        }
        match self.length {
            None if unknown_length => Ok(Framing::Chunked),
            None | Some(0) => Ok(Framing::None),
            Some(length) if length > limits.body_bytes_max => {
                Err(Reject { status: 413, reason: "Content-Length over the limit" })
            }
            Some(length) => Ok(Framing::Length(length)),
        }
    }

    #[cold]
    fn judge_coding(&self, version: Version) -> Result<Framing, Reject> {
        if self.length.is_some() {
            return Err(bad_request("Content-Length together with Transfer-Encoding"));
        }
        if version == Version::Http10 {
            return Err(bad_request("Transfer-Encoding in HTTP/1.0"));
        }
        if !self.chunked {
            return Err(bad_request("Transfer-Encoding does not end in chunked"));
        }
        if self.other_coding {
            return Err(Reject { status: 501, reason: "unknown transfer coding" });
        }
        Ok(Framing::Chunked)
    }
}
