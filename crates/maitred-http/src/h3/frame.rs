//! The frame layer (9114-7, 9218-7.2): types, where each may stand, settings, and how frames are written.
//!
//! | frame | control stream | request stream | push stream | sent by |
//! |---|---|---|---|---|
//! | DATA, HEADERS | no | yes | yes | both; on push streams, servers |
//! | SETTINGS | the first one, and no other | no | no | both |
//! | GOAWAY, CANCEL_PUSH | yes | no | no | both |
//! | MAX_PUSH_ID, PRIORITY_UPDATE | yes | no | no | clients |
//! | PUSH_PROMISE | no | yes | no | servers |
//! | those of HTTP/2 only | no | no | no | neither side |
//! | unknown ones | yes, but for the first | yes | yes | both |
//!
//! Whatever is not allowed is the connection error H3_FRAME_UNEXPECTED; without SETTINGS at first, H3_MISSING_SETTINGS.

use super::error::{Code, Error};
use super::varint;

/// Types of frames.
pub mod kind {
    #![allow(missing_docs, reason = "the names are those of the sections of RFC 9114, and of RFC 9218")]
    pub const DATA: u64 = 0;
    pub const HEADERS: u64 = 1;
    pub const CANCEL_PUSH: u64 = 3;
    pub const SETTINGS: u64 = 4;
    pub const PUSH_PROMISE: u64 = 5;
    pub const GOAWAY: u64 = 7;
    pub const MAX_PUSH_ID: u64 = 0xd;
    pub const PRIORITY_UPDATE_REQUEST: u64 = 0xf_0700;
    pub const PRIORITY_UPDATE_PUSH: u64 = 0xf_0701;
    /// PRIORITY, PING, WINDOW_UPDATE and CONTINUATION of HTTP/2 (9114-7.2.8).
    pub const OF_HTTP2: [u64; 4] = [2, 6, 8, 9];
}

/// Identifiers of settings (9114-7.2.4.1, 9204-5, 9220-3, 9297-2.1.1).
pub mod setting {
    #![allow(missing_docs, reason = "the names are those of the RFCs")]
    pub const QPACK_MAX_TABLE_CAPACITY: u64 = 1;
    pub const MAX_FIELD_SECTION_SIZE: u64 = 6;
    pub const QPACK_BLOCKED_STREAMS: u64 = 7;
    pub const ENABLE_CONNECT_PROTOCOL: u64 = 8;
    pub const H3_DATAGRAM: u64 = 0x33;
    /// Types that have no meaning in HTTP/3 (9114-11.2.2).
    pub const OF_HTTP2: [u64; 5] = [0, 2, 3, 4, 5];
}

/// Settings of one SETTINGS frame at most, unknown ones included. Six are defined, and clients add one or two that mean nothing.
pub const SETTINGS_MAX: usize = 32;

/// Bytes of a SETTINGS frame's payload at most: the bytes of so many settings.
pub const SETTINGS_BYTES_MAX: u64 = (SETTINGS_MAX * 2 * varint::BYTES_MAX) as u64;

/// The kind of stream that a frame stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A control stream (9114-6.2.1).
    Control,
    /// A request stream, in one of its directions (9114-6.1).
    Request,
    /// A push stream, behind its push ID (9114-6.2.2).
    Push,
}

/// Who has sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// Whether a frame means something, or is to be skipped (9114-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Known,
    Unknown,
}

const fn unexpected(reason: &'static str) -> Error {
    Error::new(Code::FrameUnexpected, reason)
}

/// The module's table, but for the order of frames.
///
/// # Errors
///
/// H3_FRAME_UNEXPECTED, which ends the connection.
pub(super) fn judge(kind: u64, place: Place, from: Side) -> Result<Meaning, Error> {
    let on_control = place == Place::Control;
    let (right_place, right_side) = match kind {
        kind::DATA | kind::HEADERS => (!on_control, place != Place::Push || from == Side::Server),
        kind::SETTINGS | kind::GOAWAY | kind::CANCEL_PUSH => (on_control, true),
        kind::MAX_PUSH_ID | kind::PRIORITY_UPDATE_REQUEST | kind::PRIORITY_UPDATE_PUSH => {
            (on_control, from == Side::Client)
        }
        kind::PUSH_PROMISE => (place == Place::Request, from == Side::Server),
        kind if kind::OF_HTTP2.contains(&kind) => return Err(unexpected("frame of HTTP/2")),
        _ => return Ok(Meaning::Unknown),
    };
    match (right_place, right_side) {
        (true, true) => Ok(Meaning::Known),
        (false, _) => Err(unexpected("frame on the wrong stream")),
        (true, false) => Err(unexpected("frame from the wrong side")),
    }
}

/// What a SETTINGS frame says. Without one, and for settings that it has not, the initial values hold: [`Settings::default`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of the dynamic table that the encoder may use.
    pub table_bytes_max: u64,
    /// Bytes of a field section, counted as [`Bounds`](super::qpack::Bounds) does; `None` is without a bound.
    pub list_bytes_max: Option<u64>,
    /// Streams that the encoder may block.
    pub blocked_max: u64,
    /// Extended CONNECT is offered (RFC 9220).
    pub connect_protocol: bool,
    /// Datagrams are offered (RFC 9297).
    pub datagrams: bool,
}

impl Settings {
    /// Reads the payload of a SETTINGS frame. Unknown settings are ignored.
    ///
    /// # Errors
    ///
    /// Connection errors: H3_SETTINGS_ERROR for those of HTTP/2, for one that is there twice, and for values that are neither 0
    /// nor 1 where nothing else is allowed; H3_FRAME_ERROR if the payload ends within a setting; H3_EXCESSIVE_LOAD for more
    /// than [`SETTINGS_MAX`].
    pub fn parse(payload: &[u8]) -> Result<Settings, Error> {
        let (mut settings, mut rest) = (Settings::default(), payload);
        let (mut seen, mut count) = ([0; SETTINGS_MAX], 0);
        while !rest.is_empty() {
            let (id, value, behind) = pair(rest).ok_or(Error::new(Code::FrameError, "half a setting"))?;
            rest = behind;
            if seen.iter().take(count).any(|other| *other == id) {
                return Err(Error::new(Code::SettingsError, "setting more than once"));
            }
            let place = seen.get_mut(count).ok_or(Error::new(Code::ExcessiveLoad, "too many settings"))?;
            (*place, count) = (id, count + 1);
            settings.apply(id, value)?;
        }
        Ok(settings)
    }

    fn apply(&mut self, id: u64, value: u64) -> Result<(), Error> {
        match id {
            setting::QPACK_MAX_TABLE_CAPACITY => self.table_bytes_max = value,
            setting::MAX_FIELD_SECTION_SIZE => self.list_bytes_max = Some(value),
            setting::QPACK_BLOCKED_STREAMS => self.blocked_max = value,
            setting::ENABLE_CONNECT_PROTOCOL => self.connect_protocol = flag(value)?,
            setting::H3_DATAGRAM => self.datagrams = flag(value)?,
            id if setting::OF_HTTP2.contains(&id) => {
                return Err(Error::new(Code::SettingsError, "setting of HTTP/2"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Appends a SETTINGS frame with what differs from the initial values.
    pub fn write(&self, out: &mut Vec<u8>) {
        let all = [
            (setting::QPACK_MAX_TABLE_CAPACITY, Some(self.table_bytes_max).filter(|bytes| *bytes > 0)),
            (setting::MAX_FIELD_SECTION_SIZE, self.list_bytes_max),
            (setting::QPACK_BLOCKED_STREAMS, Some(self.blocked_max).filter(|streams| *streams > 0)),
            (setting::ENABLE_CONNECT_PROTOCOL, self.connect_protocol.then_some(1)),
            (setting::H3_DATAGRAM, self.datagrams.then_some(1)),
        ];
        let mut payload = Vec::new();
        for (id, value) in all {
            if let Some(value) = value {
                varint::write(&mut payload, id);
                varint::write(&mut payload, value);
            }
        }
        put_header(out, kind::SETTINGS, payload.len() as u64);
        out.extend_from_slice(&payload);
    }
}

fn flag(value: u64) -> Result<bool, Error> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::new(Code::SettingsError, "setting is neither 0 nor 1")),
    }
}

fn pair(bytes: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (id, id_bytes) = varint::read(bytes)?;
    let behind = bytes.get(id_bytes..)?;
    let (value, value_bytes) = varint::read(behind)?;
    Some((id, value, behind.get(value_bytes..)?))
}

/// Appends a frame's header: its type, one of [`kind`], and the bytes of its payload (9114-7.1).
#[inline]
pub fn put_header(out: &mut Vec<u8>, kind: u64, length: u64) {
    varint::write(out, kind);
    varint::write(out, length);
}

/// Appends a frame whose payload is one identifier: GOAWAY, CANCEL_PUSH or MAX_PUSH_ID.
pub fn put_identifier(out: &mut Vec<u8>, kind: u64, identifier: u64) {
    put_header(out, kind, varint::length(identifier) as u64);
    varint::write(out, identifier);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_stands_where_its_row_says() {
        use Place::{Control, Push, Request};
        use Side::{Client, Server};
        let places: [(Place, Side); 6] = [
            (Control, Client),
            (Control, Server),
            (Request, Client),
            (Request, Server),
            (Push, Client),
            (Push, Server),
        ];
        let rows: [(u64, [bool; 6]); 9] = [
            (kind::DATA, [false, false, true, true, false, true]),
            (kind::HEADERS, [false, false, true, true, false, true]),
            (kind::SETTINGS, [true, true, false, false, false, false]),
            (kind::GOAWAY, [true, true, false, false, false, false]),
            (kind::CANCEL_PUSH, [true, true, false, false, false, false]),
            (kind::MAX_PUSH_ID, [true, false, false, false, false, false]),
            (kind::PRIORITY_UPDATE_REQUEST, [true, false, false, false, false, false]),
            (kind::PRIORITY_UPDATE_PUSH, [true, false, false, false, false, false]),
            (kind::PUSH_PROMISE, [false, false, false, true, false, false]),
        ];
        let code =
            |kind: u64, (place, from): (Place, Side)| judge(kind, place, from).map_err(|error| error.code);
        for (number, place) in places.into_iter().enumerate() {
            for (kind, allowed) in rows {
                let wanted = if allowed[number] { Ok(Meaning::Known) } else { Err(Code::FrameUnexpected) };
                assert_eq!(code(kind, place), wanted, "{kind:#x} at {place:?}");
            }
            for kind in [2, 6, 8, 9] {
                assert_eq!(code(kind, place), Err(Code::FrameUnexpected), "{kind}");
            }
            for kind in [0xa, 0xb, 0xc, 0xe, 0x21, 0x40, 0xf_0702, varint::VALUE_MAX] {
                assert_eq!(code(kind, place), Ok(Meaning::Unknown), "{kind}");
            }
        }
    }

    fn parsed(pairs: &[(u64, u64)]) -> Result<Settings, Code> {
        let mut payload = Vec::new();
        for (id, value) in pairs {
            varint::write(&mut payload, *id);
            varint::write(&mut payload, *value);
        }
        Settings::parse(&payload).map_err(|error| error.code)
    }

    #[test]
    fn settings_come_back() {
        let settings = Settings {
            table_bytes_max: 4096,
            list_bytes_max: Some(32 << 10),
            blocked_max: 16,
            connect_protocol: true,
            datagrams: true,
        };
        for (settings, bytes) in [(settings, 16), (Settings::default(), 2)] {
            let mut out = Vec::new();
            settings.write(&mut out);
            assert_eq!(out.len(), bytes);
            assert_eq!((out[0], usize::from(out[1])), (4, out.len() - 2));
            assert_eq!(Settings::parse(&out[2..]), Ok(settings));
        }
        assert_eq!(
            parsed(&[(0x21, 7), (0x33, 0), (8, 0), (7, 1)]).map(|settings| settings.blocked_max),
            Ok(1)
        );
    }

    #[test]
    fn settings_that_must_not_be_are_errors() {
        for id in [0, 2, 3, 4, 5] {
            assert_eq!(parsed(&[(id, 0)]), Err(Code::SettingsError), "{id}");
        }
        for twice in [6, 0x21, 0x1234_5678] {
            assert_eq!(parsed(&[(twice, 0), (7, 0), (twice, 0)]), Err(Code::SettingsError));
        }
        for flag in [8, 0x33] {
            assert_eq!(parsed(&[(flag, 2)]), Err(Code::SettingsError));
        }
        let many: Vec<_> = (0..SETTINGS_MAX as u64 + 1).map(|number| (0x100 + number, number)).collect();
        assert_eq!(parsed(&many[1..]), Ok(Settings::default()));
        assert_eq!(parsed(&many), Err(Code::ExcessiveLoad));
        for half in [&[6][..], &[6, 0x40], &[0x40]] {
            assert_eq!(Settings::parse(half).map_err(|error| error.code), Err(Code::FrameError));
        }
    }
}
