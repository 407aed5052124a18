//! The decoder stream of a peer whose sections never refer to the dynamic table (9204-4.4).

use super::fault::{Fault, Pending};
use crate::compression::input::Input;
use crate::h3::{Code, Error};

/// Reads the peer's decoder stream. [`Encoder`](super::Encoder) inserts nothing, so that there is nothing to acknowledge.
#[derive(Debug, Default)]
pub struct DecoderStream {
    pending: Pending,
}

impl DecoderStream {
    /// Takes the next bytes, in pieces of any size. At most ten of them are kept.
    ///
    /// # Errors
    ///
    /// QPACK_DECODER_STREAM_ERROR, which ends the connection: an acknowledgement of a section without references, or of
    /// entries that were not inserted. To cancel a stream is allowed to any peer (9204-2.2.2.2), and means nothing here.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.pending.read(bytes, take).map_err(|fault| fault.on(Code::DecoderStreamError))
    }
}

fn take(bytes: &[u8]) -> Result<usize, Fault> {
    let mut input = Input::new(bytes);
    match input.peek().ok_or(Fault::Truncated)? {
        0x40..=0x7f => {
            input.long_integer(6)?;
            Ok(bytes.len() - input.left())
        }
        _ => Err(Fault::Acknowledgement),
    }
}
