//! What comes on unidirectional streams (9114-6.2, 9204-4.2).

use std::time::Instant;

use super::{Action, Code, Error, Session};
use crate::floods::Act;
use crate::h3::frame::{Place, Side};
use crate::h3::qpack::DecoderStream;
use crate::h3::reader::{Event, Reader};
use crate::h3::streams::{IntegerReader, PeerStreams, StreamType};
use crate::priority::Priority;

/// Unidirectional streams that a client may have at a time: three that it needs, and some of types that mean nothing here.
pub const UNIDIRECTIONAL_STREAMS_MAX: u32 = 8;

/// One unidirectional stream of the client.
#[derive(Debug)]
pub(super) struct Unidirectional {
    id: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The stream's type has not come.
    Begun(IntegerReader),
    Control(Box<Reader>),
    Encoder,
    Decoder(DecoderStream),
    /// Nothing of it is read.
    Stopped,
}

impl Session {
    /// Bytes have come on a unidirectional stream of the client, and with `ended` the end of it.
    ///
    /// # Errors
    ///
    /// The connection is over, as in [`Session::receive`].
    pub fn receive_unidirectional(
        &mut self,
        now: Instant,
        id: u64,
        input: &[u8],
        ended: bool,
    ) -> Result<(), Error> {
        if let Some(error) = self.dead {
            return Err(error);
        }
        self.take_unidirectional(now, id, input, ended).inspect_err(|error| self.die(*error))
    }

    fn take_unidirectional(&mut self, now: Instant, id: u64, input: &[u8], ended: bool) -> Result<(), Error> {
        let place = self.unidirectional.iter().position(|stream| stream.id == id);
        let mut stream = match place {
            Some(place) => self.unidirectional.swap_remove(place),
            None => Unidirectional { id, state: State::Begun(IntegerReader::default()) },
        };
        let mut at = 0;
        if let State::Begun(reader) = &mut stream.state
            && let Some(number) = reader.next(input, &mut at)
        {
            stream.state = self.begin_unidirectional(now, id, StreamType::of(number))?;
        }
        let rest = input.get(at..).unwrap_or_default();
        match &mut stream.state {
            State::Begun(_) | State::Stopped => {}
            State::Control(reader) => self.take_control_frames(now, reader, rest)?,
            State::Encoder => self.decoder.encoder_stream(rest)?,
            State::Decoder(decoder) => decoder.read(rest)?,
        }
        if ended {
            return PeerStreams::closed(stream.kind());
        }
        if matches!(stream.state, State::Stopped) {
            self.forget_stopped();
        }
        self.unidirectional.push(stream);
        Ok(())
    }

    /// The caller may say nothing more of streams that were stopped. As many as there can be at a time are known, so that what is
    /// still on its way is not taken for a new stream.
    fn forget_stopped(&mut self) {
        let is_stopped = |stream: &&Unidirectional| matches!(stream.state, State::Stopped);
        let stopped = self.unidirectional.iter().filter(is_stopped).map(|stream| stream.id);
        if stopped.clone().count() >= UNIDIRECTIONAL_STREAMS_MAX as usize {
            let oldest = stopped.min();
            self.unidirectional.retain(|stream| Some(stream.id) != oldest);
        }
    }

    fn begin_unidirectional(&mut self, now: Instant, id: u64, kind: StreamType) -> Result<State, Error> {
        self.peer_streams.open(kind)?;
        Ok(match kind {
            StreamType::Control => State::Control(Box::new(Reader::new(Place::Control, Side::Client, 0))),
            StreamType::Encoder => State::Encoder,
            StreamType::Decoder => State::Decoder(DecoderStream::default()),
            StreamType::Push | StreamType::Unknown(_) => {
                self.ledger.charge(Act::Ignored, now)?;
                self.actions.push(Action::Stop { id, code: Code::StreamCreationError });
                State::Stopped
            }
        })
    }

    fn take_control_frames(&mut self, now: Instant, reader: &mut Reader, input: &[u8]) -> Result<(), Error> {
        let mut at = 0;
        while let Some(event) = reader.next(input, &mut at)? {
            match event {
                // Whatever a client would take: nothing here depends on it. Responses have no field section that is too large
                // for any client that sets a sensible bound, and none can be made smaller.
                Event::Settings(_) => {}
                Event::GoAway(_) => {
                    if std::mem::replace(&mut self.peer_leaves, true) {
                        self.ledger.charge(Act::Ignored, now)?;
                    }
                }
                // Nothing was promised, and no client can allow pushes to a server that makes none.
                Event::CancelPush(_) => {
                    return Err(Error::new(Code::IdError, "CANCEL_PUSH of a push that was not promised"));
                }
                Event::MaxPushId(_) => self.ledger.charge(Act::Ignored, now)?,
                Event::PriorityUpdate { push: true, .. } => {
                    return Err(Error::new(Code::IdError, "priority of a push that was not promised"));
                }
                Event::PriorityUpdate { identifier, value, .. } => {
                    self.ledger.charge(Act::Priority, now)?;
                    self.on_priority(identifier, Priority::parse(&value))?;
                }
                _ => return Err(Error::new(Code::FrameUnexpected, "frame on the wrong stream")),
            }
        }
        Ok(())
    }

    /// A client says the priority of a request, which it may have yet to send (9218-7.2).
    fn on_priority(&mut self, id: u64, priority: Priority) -> Result<(), Error> {
        let next = self.streams.highest.map_or(0, |highest| highest + 4);
        if id >= next + 4 * u64::from(self.settings.streams_max) {
            return Err(Error::new(Code::IdError, "priority of a stream beyond the limit"));
        }
        if id >= next {
            self.early.put(id, priority);
            return Ok(());
        }
        if let Some(key) = self.streams.find(id)
            && let Some(stream) = self.streams.get(key)
        {
            (stream.priority, stream.prioritised, stream.priority_due) = (priority, true, true);
            self.streams.list(key);
        }
        Ok(())
    }

    /// The client has reset a unidirectional stream.
    ///
    /// # Errors
    ///
    /// The stream is one that the connection needs.
    pub fn lose_unidirectional(&mut self, id: u64) -> Result<(), Error> {
        let Some(place) = self.unidirectional.iter().position(|stream| stream.id == id) else {
            return Ok(());
        };
        let stream = self.unidirectional.swap_remove(place);
        PeerStreams::closed(stream.kind()).inspect_err(|error| self.die(*error))
    }

    /// The client wants nothing more of a stream that this side needs (9114-6.2.1).
    pub fn control_stopped(&mut self) {
        self.die(Error::new(Code::ClosedCriticalStream, "a stream that the connection needs was stopped"));
    }
}

impl Unidirectional {
    fn kind(&self) -> StreamType {
        match self.state {
            State::Control(_) => StreamType::Control,
            State::Encoder => StreamType::Encoder,
            State::Decoder(_) => StreamType::Decoder,
            // A stream that ends before its type is one that means nothing.
            State::Begun(_) | State::Stopped => StreamType::Unknown(u64::MAX),
        }
    }
}
