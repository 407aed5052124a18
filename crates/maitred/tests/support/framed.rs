//! A server of HTTP/2 whose every frame the test decides.

use std::io;
use std::net::SocketAddr;

use crate::support::h2::frame::{self, Frame, PREFACE, flag, kind};
use crate::support::h2::hpack::{self, Decoder};
use crate::support::upstream::{Peer, Upstream};

/// Names and values.
pub(crate) type Fields = Vec<(String, String)>;

/// What has come of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Came {
    Head { id: u32, fields: Fields, ended: bool },
    Data { id: u32, bytes: Vec<u8>, ended: bool },
    Reset { id: u32, code: u32 },
}

/// One connection of Maitred's.
pub(crate) struct Far<'p> {
    pub(crate) peer: &'p mut Peer,
    unread: Vec<u8>,
    decoder: Decoder,
}

/// The address of a server for `connect`.
pub(crate) fn name(upstream: &Upstream) -> String {
    format!("h2://{}", upstream.address())
}

/// Listens; `serve` has each connection, after the preface and with these settings said.
pub(crate) fn start(
    settings: &'static [(u16, u32)],
    serve: impl Fn(&mut Far<'_>) -> io::Result<()> + Send + Sync + 'static,
) -> Upstream {
    on(SocketAddr::from(([127, 0, 0, 1], 0)), settings, serve)
}

/// The same, at this address.
pub(crate) fn on(
    address: SocketAddr,
    settings: &'static [(u16, u32)],
    serve: impl Fn(&mut Far<'_>) -> io::Result<()> + Send + Sync + 'static,
) -> Upstream {
    Upstream::on(address, move |peer| serve(&mut Far::new(peer, settings)?))
}

impl Far<'_> {
    pub(crate) fn new<'p>(peer: &'p mut Peer, settings: &[(u16, u32)]) -> io::Result<Far<'p>> {
        assert_eq!(peer.take(PREFACE.len())?, PREFACE);
        peer.send(frame::settings(settings))?;
        Ok(Far { peer, unread: Vec::new(), decoder: Decoder::new(4096) })
    }

    /// The next of what is about a stream. Windows are opened as content comes, settings and PING answered.
    pub(crate) fn next(&mut self) -> io::Result<Came> {
        loop {
            let Some(Frame { kind, flags, stream: id, payload }) = Frame::take(&mut self.unread) else {
                let piece = self.peer.piece()?;
                if piece.is_empty() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.unread.extend(piece);
                continue;
            };
            let ended = flags & flag::END_STREAM != 0;
            match kind {
                kind::HEADERS => {
                    assert!(flags & flag::END_HEADERS != 0, "short heads are one frame");
                    return Ok(Came::Head { id, fields: self.decoder.decode(&payload), ended });
                }
                kind::DATA => {
                    if !payload.is_empty() {
                        let bytes = payload.len() as u32;
                        self.peer.send(
                            [frame::window_update(0, bytes), frame::window_update(id, bytes)].concat(),
                        )?;
                    }
                    return Ok(Came::Data { id, bytes: payload, ended });
                }
                kind::RST_STREAM => {
                    let code = u32::from_be_bytes(payload.try_into().unwrap());
                    return Ok(Came::Reset { id, code });
                }
                kind::SETTINGS if !ended => {
                    self.peer.send(frame::frame(kind::SETTINGS, flag::ACK, 0, &[]))?
                }
                kind::PING if !ended => self.peer.send(frame::frame(kind::PING, flag::ACK, 0, &payload))?,
                _ => {}
            }
        }
    }

    /// The next whole request: its stream, its fields, its content.
    pub(crate) fn request(&mut self) -> io::Result<(u32, Fields, Vec<u8>)> {
        let (id, fields, mut over) = loop {
            if let Came::Head { id, fields, ended } = self.next()? {
                break (id, fields, ended);
            }
        };
        let mut content = Vec::new();
        while !over {
            match self.next()? {
                Came::Data { id: of, bytes, ended } => {
                    assert_eq!(of, id);
                    content.extend(bytes);
                    over = ended;
                }
                // Trailers.
                Came::Head { id: of, ended, .. } => {
                    assert_eq!(of, id);
                    over = ended;
                }
                Came::Reset { .. } => return Err(io::ErrorKind::ConnectionReset.into()),
            }
        }
        Ok((id, fields, content))
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.peer.send(bytes)
    }

    pub(crate) fn answer(&mut self, id: u32, text: &str) -> io::Result<()> {
        self.send([head(id, &[(":status", "200")], false), frame::data(id, text.as_bytes(), true)].concat())
    }
}

pub(crate) fn head(id: u32, fields: &[(&str, &str)], ended: bool) -> Vec<u8> {
    frame::headers(id, &hpack::block(fields), ended)
}

pub(crate) fn field<'f>(fields: &'f [(String, String)], name: &str) -> Option<&'f str> {
    fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
}
