//! HTTP/3 of one connection: the streams that it needs, what the server says on them, and responses.

use bytes::Bytes;
use maitred_http::h3::frame::{Place, Settings, Side};
use maitred_http::h3::qpack::{Decoder, DecoderStream};
use maitred_http::h3::reader::{Event, Reader};
use maitred_http::h3::streams::{IntegerReader, PeerStreams, StreamType};
use maitred_http::h3::{Code, Error};
use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt};

/// Bytes of a response's field section, as they are encoded.
pub(super) const SECTION_BYTES_MAX: u32 = 256 << 10;
/// Pieces of memory that one read takes, before what they were taken from is looked at again.
const READ_BYTES_MAX: usize = usize::MAX;

/// How reading a stream has ended for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// More will come.
    Open,
    /// All has been read.
    Finished,
    /// The peer has given up, with this code.
    Reset(u64),
    /// The stream was read to its end, or stopped, before.
    Gone,
}

/// Reads what has come on a stream. What comes behind an error is left.
pub(super) fn read(
    connection: &mut Connection,
    id: StreamId,
    mut take: impl FnMut(&Bytes) -> Result<(), Error>,
) -> Result<End, Error> {
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return Ok(End::Gone) };
    let end = loop {
        match chunks.next(READ_BYTES_MAX) {
            Ok(Some(chunk)) => {
                if let Err(error) = take(&chunk.bytes) {
                    break Err(error);
                }
            }
            Ok(None) => break Ok(End::Finished),
            Err(ReadError::Blocked) => break Ok(End::Open),
            Err(ReadError::Reset(code)) => break Ok(End::Reset(code.into_inner())),
        }
    };
    // Whatever has to be said to the peer goes out with what is sent next.
    let _ = chunks.finalize();
    end
}

/// A code as QUIC writes it.
pub(super) fn code(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

/// What a unidirectional stream of the server is.
#[derive(Debug)]
enum Kind {
    Untold(IntegerReader),
    Control(Box<Reader>),
    Encoder,
    Decoder(DecoderStream),
    Ignored,
}

impl Kind {
    fn stream_type(&self) -> StreamType {
        match self {
            Kind::Control(_) => StreamType::Control,
            Kind::Encoder => StreamType::Encoder,
            Kind::Decoder(_) => StreamType::Decoder,
            // None that is needed.
            Kind::Untold(_) | Kind::Ignored => StreamType::Unknown(0x21),
        }
    }
}

/// What one connection has besides its requests.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) decoder: Decoder,
    peers: PeerStreams,
    streams: Vec<(StreamId, Kind)>,
    /// What the server has said of itself.
    pub(super) settings: Option<Settings>,
    /// The first request that the server does not process, if it leaves.
    pub(super) go_away: Option<u64>,
}

impl Session {
    /// A session that uses no dynamic table: its requests and responses never wait for one another.
    pub(super) fn new() -> Session {
        Session {
            decoder: Decoder::new(0, 0),
            peers: PeerStreams::new(Side::Server),
            streams: Vec::new(),
            settings: None,
            go_away: None,
        }
    }

    /// Opens the three streams, and says these settings. Fewer are opened if the server allows fewer.
    pub(super) fn start(connection: &mut Connection, settings: &Settings) {
        let mut control = vec![0];
        settings.write(&mut control);
        for first in [control, vec![2], vec![3]] {
            let Some(id) = connection.streams().open(Dir::Uni) else { return };
            // So few bytes are within any window that is of use.
            let _ = connection.send_stream(id).write(&first);
        }
    }

    /// The server has opened streams.
    ///
    /// # Errors
    /// Of the connection.
    pub(super) fn on_opened(&mut self, connection: &mut Connection) -> Result<(), Error> {
        while let Some(id) = connection.streams().accept(Dir::Uni) {
            self.streams.push((id, Kind::Untold(IntegerReader::default())));
            self.on_readable(connection, id)?;
        }
        Ok(())
    }

    /// Something has come on a stream that the server has opened.
    ///
    /// # Errors
    /// Of the connection.
    pub(super) fn on_readable(&mut self, connection: &mut Connection, id: StreamId) -> Result<(), Error> {
        let Some(place) = self.streams.iter().position(|(stream, _)| *stream == id) else { return Ok(()) };
        let (id, mut kind) = self.streams.swap_remove(place);
        let end = read(connection, id, |bytes| self.take(&mut kind, bytes))?;
        if end == End::Open {
            self.streams.push((id, kind));
            return Ok(());
        }
        PeerStreams::closed(kind.stream_type())
    }

    fn take(&mut self, kind: &mut Kind, bytes: &[u8]) -> Result<(), Error> {
        let mut at = 0;
        if let Kind::Untold(reader) = kind {
            let Some(number) = reader.next(bytes, &mut at) else { return Ok(()) };
            let told = StreamType::of(number);
            self.peers.open(told)?;
            *kind = match told {
                StreamType::Control => {
                    Kind::Control(Box::new(Reader::new(Place::Control, Side::Server, SECTION_BYTES_MAX)))
                }
                StreamType::Encoder => Kind::Encoder,
                StreamType::Decoder => Kind::Decoder(DecoderStream::default()),
                // None was allowed by MAX_PUSH_ID.
                StreamType::Push => return Err(Error { code: Code::IdError, reason: "push without leave" }),
                StreamType::Unknown(_) => Kind::Ignored,
            };
        }
        let rest = bytes.get(at..).unwrap_or_default();
        match kind {
            Kind::Control(reader) => self.control(reader, rest),
            Kind::Encoder => self.decoder.encoder_stream(rest),
            Kind::Decoder(stream) => stream.read(rest),
            Kind::Untold(_) | Kind::Ignored => Ok(()),
        }
    }

    fn control(&mut self, reader: &mut Reader, bytes: &[u8]) -> Result<(), Error> {
        let mut at = 0;
        while let Some(event) = reader.next(bytes, &mut at)? {
            match event {
                Event::Settings(settings) => self.settings = Some(settings),
                Event::GoAway(first) => self.go_away = Some(first),
                Event::CancelPush(_) => {
                    return Err(Error { code: Code::IdError, reason: "push without leave" });
                }
                _ => {}
            }
        }
        Ok(())
    }
}
