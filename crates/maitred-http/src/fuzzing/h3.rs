//! Frames of one stream of HTTP/3.

use crate::h3::frame::{Place, Side};
use crate::h3::reader::{Event, Reader};

/// What came of the bytes, as text: events, content as a whole, and the error or how the stream can end.
fn told(place: Place, from: Side, pieces: &[&[u8]]) -> String {
    let mut reader = Reader::new(place, from, 64);
    let (mut text, mut in_content) = (String::new(), false);
    for piece in pieces {
        let mut at = 0;
        loop {
            match reader.next(piece, &mut at) {
                Ok(None) => break,
                Ok(Some(Event::Data(bytes))) => {
                    assert!(!bytes.is_empty(), "no content");
                    text += if in_content { "" } else { "content " };
                    bytes.iter().for_each(|byte| text += &format!("{byte:02x}"));
                    in_content = true;
                }
                Ok(Some(event)) => {
                    text += &format!("\n{event:?}\n");
                    in_content = false;
                }
                Err(error) => return text + &format!("\n{error:?}"),
            }
        }
        assert_eq!(at, piece.len(), "bytes were left");
    }
    text + &format!("\n{:?}", reader.finish())
}

/// Frames of one stream: every split of the bytes gives the same events, content and errors. The first byte says which stream.
pub fn h3_frames(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    let place = match kind % 3 {
        0 => Place::Control,
        1 => Place::Request,
        _ => Place::Push,
    };
    let from = if kind & 0x80 == 0 { Side::Client } else { Side::Server };
    let whole = told(place, from, &[bytes]);
    assert_eq!(told(place, from, &bytes.chunks(1).collect::<Vec<_>>()), whole);
    assert_eq!(told(place, from, &bytes.chunks(7).collect::<Vec<_>>()), whole);
}
