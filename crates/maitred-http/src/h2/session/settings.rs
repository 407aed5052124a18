//! What the server grants to a peer, and how it says so.

use crate::floods::Floods;
use crate::h2::frame::{self, setting};

/// Bytes that wait in `out` before no more content is written to it: enough to keep a fast connection busy for a turn of
/// the event loop, and what a peer that takes nothing costs at most, besides [`CONTROL_BYTES_MAX`].
pub const SENT_AHEAD_BYTES: usize = 256 << 10;

/// Bytes of heads and answers to the peer's frames that wait besides; beyond, nothing more is read from the peer.
pub const CONTROL_BYTES_MAX: usize = 64 << 10;

/// Content of one DATA frame: as much as every peer takes. Larger frames would make others wait longer, and a TLS record
/// holds no more either.
pub const DATA_BYTES_MAX: usize = 16 << 10;

const _: () = assert!(DATA_BYTES_MAX <= frame::FRAME_BYTES_MIN as usize);

/// What a peer may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Requests at a time; more are refused. 9113-6.5.2 recommends no less than 100.
    pub streams_max: u32,
    /// Bytes of one request's body that may be on their way, or held by the caller.
    pub stream_window: u32,
    /// Bytes of all bodies together that may be on their way, or held by the caller: the memory that uploads of one connection
    /// can cost. At least 65,535, since that cannot be taken back.
    pub connection_window: u32,
    /// The largest frame; part of one is what the caller has to hold. 16,384 is the least, and enough.
    pub frame_bytes_max: u32,
    /// Bytes of a request's fields, decoded, with 32 for each; larger heads get 431.
    pub header_list_bytes_max: u32,
    /// Fields of a request, besides the pseudo-fields; more get 431.
    pub header_count_max: u32,
    /// Bytes of a header block as it was sent, which is held while it is incomplete; more end the connection. No well-behaved
    /// encoding is longer than the list that it stands for.
    pub header_block_bytes_max: u32,
    /// CONTINUATION frames of one block (CVE-2024-27316); more end the connection. Four would do for a full block.
    pub continuations_max: u32,
    /// The table of the peer's encoder, held by this side; at least 4096, since the peer may use that before it knows.
    pub header_table_bytes: u32,
    /// Extended CONNECT (RFC 8441) is offered, so that WebSocket can be used.
    pub connect_protocol: bool,
    /// What a peer may do only so often.
    pub floods: Floods,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            streams_max: 128,
            stream_window: 256 << 10,
            connection_window: 1 << 20,
            frame_bytes_max: frame::FRAME_BYTES_MIN,
            header_list_bytes_max: 32 << 10,
            header_count_max: crate::limits::FIELDS_MAX as u32,
            header_block_bytes_max: 64 << 10,
            continuations_max: 16,
            header_table_bytes: 4096,
            connect_protocol: true,
            floods: Floods::default(),
        }
    }
}

impl Settings {
    /// The same within what RFC 9113 allows, and what a slab can hold.
    pub(super) fn within_bounds(&self) -> Self {
        Self {
            streams_max: self.streams_max.clamp(1, u32::from(u16::MAX)),
            stream_window: self.stream_window.clamp(1, frame::WINDOW_MAX),
            connection_window: self.connection_window.clamp(frame::INITIAL_WINDOW, frame::WINDOW_MAX),
            frame_bytes_max: self.frame_bytes_max.clamp(frame::FRAME_BYTES_MIN, frame::FRAME_BYTES_MAX),
            header_table_bytes: self.header_table_bytes.clamp(4096, 1 << 20),
            header_block_bytes_max: self.header_block_bytes_max.max(self.header_list_bytes_max),
            ..*self
        }
    }

    /// Writes SETTINGS to a server: no stream is to be pushed.
    pub(super) fn announce_to_server(&self, out: &mut Vec<u8>) {
        let settings = [
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, self.stream_window),
            (setting::MAX_HEADER_LIST_SIZE, self.header_list_bytes_max),
        ];
        frame::put_settings(out, 0, &settings);
        self.announce_window(out);
    }

    /// Writes SETTINGS, with what differs from the initial values, and opens the connection's window.
    pub(super) fn announce(&self, out: &mut Vec<u8>) {
        let all = [
            (setting::HEADER_TABLE_SIZE, self.header_table_bytes, 4096),
            (setting::MAX_CONCURRENT_STREAMS, self.streams_max, u32::MAX),
            (setting::INITIAL_WINDOW_SIZE, self.stream_window, frame::INITIAL_WINDOW),
            (setting::MAX_FRAME_SIZE, self.frame_bytes_max, frame::FRAME_BYTES_MIN),
            (setting::MAX_HEADER_LIST_SIZE, self.header_list_bytes_max, u32::MAX),
            (setting::ENABLE_CONNECT_PROTOCOL, u32::from(self.connect_protocol), 0),
            (setting::NO_RFC7540_PRIORITIES, 1, 0),
        ];
        let changed = all.iter().filter(|(_, value, initial)| value != initial);
        let changed: Vec<(u16, u32)> = changed.map(|(id, value, _)| (*id, *value)).collect();
        frame::put_settings(out, 0, &changed);
        self.announce_window(out);
    }

    /// Opens the connection's window.
    fn announce_window(&self, out: &mut Vec<u8>) {
        let more = self.connection_window - frame::INITIAL_WINDOW;
        if more > 0 {
            frame::put_number(out, frame::kind::WINDOW_UPDATE, 0, more);
        }
    }
}
