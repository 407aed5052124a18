//! DATA as it comes, and the windows that it uses up (9113-5.2, 9113-6.1, 9113-6.9).

use std::time::Instant;

use super::streams::{Standing, UNKNOWN};
use super::{Code, Event, Fatal, Rest, Session, StreamKey, protocol_error};
use crate::floods::Act;
use crate::h2::frame::{self, FrameHeader, flag, kind};

/// Bytes before the content, the length of the padding, which has to be there before the frame can be judged.
pub(super) fn prefix_bytes(frame: &FrameHeader, behind: &[u8]) -> Result<Option<usize>, Fatal> {
    if !frame.has(flag::PADDED) {
        return Ok(Some(0));
    }
    if frame.length == 0 {
        return Err(Fatal {
            code: Code::FrameSizeError,
            reason: "padded frame without the length of its padding",
        });
    }
    Ok(if behind.is_empty() { None } else { Some(1) })
}

impl Session {
    /// A DATA frame begins. The frame's header is judged as if all of it were there; what it holds is then given out by
    /// [`Session::take_rest`].
    pub(super) fn on_data(
        &mut self,
        now: Instant,
        frame: &FrameHeader,
        behind: &[u8],
    ) -> Result<Option<Event<'static>>, Fatal> {
        if frame.stream == 0 {
            return Err(protocol_error("DATA on stream 0"));
        }
        let padded = frame.has(flag::PADDED);
        let padding = if padded { behind.first().map_or(0, |bytes| u32::from(*bytes)) } else { 0 };
        let overhead = padding + u32::from(padded);
        let content =
            frame.length.checked_sub(overhead).ok_or(protocol_error("padding longer than its frame"))?;
        let ends = frame.has(flag::END_STREAM);
        let standing = self.streams.standing(frame.stream);
        if matches!(standing, Standing::Idle) {
            return Err(protocol_error("DATA on an idle stream"));
        }
        self.receive_window -= frame.length as i32;
        if self.receive_window < 0 {
            return Err(Fatal {
                code: Code::FlowControlError,
                reason: "DATA beyond the connection's window",
            });
        }
        // Padding is given back at once, as is all that is dropped: the caller never sees it.
        self.give_back(overhead);
        if content == 0 && !ends {
            self.ledger.charge(Act::EmptyFrame, now)?;
        }
        self.rest = Rest { stream: 0, content, padding, ends };
        let fault = match standing {
            Standing::Open(key) => match self.judge_data(key, frame.length, overhead, content, ends) {
                Ok(()) => {
                    self.rest.stream = frame.stream;
                    let event = Event::Data { stream: key, bytes: &[], ended: true };
                    return Ok((content == 0 && ends).then_some(event));
                }
                Err(code) => code,
            },
            Standing::RemoteEnded(_) | Standing::PeerReset => Code::StreamClosed,
            Standing::Reset => {
                self.give_back(content);
                // A server that is told to end sends on until it hears that; its windows bound how much.
                if self.far.is_none() && !self.parting.receive(frame.stream, frame.length) {
                    self.ledger.charge(Act::Ignored, now)?;
                }
                if ends {
                    self.parting.remove(frame.stream);
                }
                return Ok(None);
            }
            Standing::Idle | Standing::Skipped | Standing::Ended => {
                return Err(Fatal { code: Code::StreamClosed, reason: "DATA on a closed stream" });
            }
        };
        self.give_back(content);
        self.stream_error(now, frame.stream, fault)
    }

    /// Accounts a frame's bytes in its stream; or the code that they are refused with.
    fn judge_data(
        &mut self,
        key: StreamKey,
        length: u32,
        overhead: u32,
        content: u32,
        ends: bool,
    ) -> Result<(), Code> {
        let Some(stream) = self.streams.get(key) else { return Err(Code::InternalError) };
        if stream.head_due {
            return Err(Code::ProtocolError);
        }
        stream.receive_window = stream.receive_window.saturating_sub_unsigned(length);
        if stream.receive_window < 0 {
            return Err(Code::FlowControlError);
        }
        if stream.content_left != UNKNOWN {
            stream.content_left =
                stream.content_left.checked_sub(content.into()).ok_or(Code::ProtocolError)?;
            if ends && stream.content_left != 0 {
                return Err(Code::ProtocolError);
            }
        }
        stream.remote_ended = ends;
        stream.due += overhead;
        self.open_stream_window(key);
        Ok(())
    }

    /// What has come of the frame that began: content for the caller; padding, and content of streams that are gone, is
    /// dropped.
    pub(super) fn take_rest<'i>(&mut self, input: &'i [u8], at: &mut usize) -> Option<Event<'i>> {
        let unread = input.get(*at..).unwrap_or_default();
        if self.rest.content == 0 {
            let bytes = unread.len().min(self.rest.padding as usize);
            self.rest.padding -= bytes as u32;
            *at += bytes;
            return None;
        }
        let bytes = unread.get(..self.rest.content as usize).unwrap_or(unread);
        let count = bytes.len() as u32;
        *at += bytes.len();
        self.rest.content -= count;
        if self.rest.stream == 0 {
            return None;
        }
        let key = self.streams.find(self.rest.stream);
        let stream = key.and_then(|key| self.streams.get(key)).filter(|stream| !stream.reset);
        let (Some(stream), Some(key)) = (stream, key) else {
            // The stream was reset in the middle of the frame.
            self.rest.stream = 0;
            self.give_back(count + self.rest.content);
            return None;
        };
        stream.unconsumed += count;
        let ended = self.rest.content == 0 && self.rest.ends;
        (count > 0).then_some(Event::Data { stream: key, bytes, ended })
    }

    /// The caller is done with bytes of a body: when they make half a window, the peer may send as many again.
    pub fn consumed(&mut self, stream: StreamKey, bytes: usize) {
        let Some(known) = self.streams.get(stream) else { return };
        let bytes = known.unconsumed.min(u32::try_from(bytes).unwrap_or(u32::MAX));
        known.unconsumed -= bytes;
        known.due += bytes;
        self.open_stream_window(stream);
        self.give_back(bytes);
    }

    /// Opens a stream's window, if it is worth a frame and the peer can use it.
    fn open_stream_window(&mut self, key: StreamKey) {
        let half = self.settings.stream_window / 2;
        let Some(stream) = self.streams.get(key) else { return };
        if stream.due == 0 || stream.due < half || stream.remote_ended || stream.reset {
            return;
        }
        let due = std::mem::take(&mut stream.due);
        stream.receive_window += due as i32;
        frame::put_number(&mut self.out, kind::WINDOW_UPDATE, stream.id, due);
    }

    /// Gives bytes back to the connection's window.
    pub(super) fn give_back(&mut self, bytes: u32) {
        self.due += bytes;
        if self.due >= self.settings.connection_window / 2 && self.dead.is_none() {
            let due = std::mem::take(&mut self.due);
            self.receive_window += due as i32;
            frame::put_number(&mut self.out, kind::WINDOW_UPDATE, 0, due);
        }
    }
}
