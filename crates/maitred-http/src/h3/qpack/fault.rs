//! What can be wrong in bytes of QPACK, and instructions that come in pieces.

use crate::compression::Malformed;
use crate::h3::{Code, Error};

/// Why a section or an instruction cannot be decoded. The error code depends on where it stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The bytes end within it: on a stream of instructions, more will come.
    Truncated,
    Integer,
    Huffman,
    StaticIndex,
    DynamicIndex,
    /// A Required Insert Count that cannot be, or one that does not cover what the section refers to.
    Required,
    /// A base below zero.
    Base,
    /// A capacity that is larger than what was advertised.
    Capacity,
    /// An entry that is larger than the table.
    EntryTooLarge,
    /// More streams are blocked than was advertised.
    Blocked,
    /// An acknowledgement of something that was never sent.
    Acknowledgement,
}

impl Fault {
    /// The error of this fault, and the end of the connection (9204-6).
    #[cold]
    pub(super) fn on(self, code: Code) -> Error {
        Error::new(code, self.reason())
    }

    fn reason(self) -> &'static str {
        match self {
            Fault::Truncated => "field section ends within a field",
            Fault::Integer => "integer of QPACK is too long",
            Fault::Huffman => "string of QPACK is not a Huffman code",
            Fault::StaticIndex => "index of no entry of the static table",
            Fault::DynamicIndex => "index of no entry of the dynamic table",
            Fault::Required => "wrong Required Insert Count",
            Fault::Base => "base below zero",
            Fault::Capacity => "dynamic table larger than was advertised",
            Fault::EntryTooLarge => "entry larger than the dynamic table",
            Fault::Blocked => "too many blocked streams",
            Fault::Acknowledgement => "acknowledgement of what was not sent",
        }
    }
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Fault {
        match malformed {
            Malformed::Truncated => Fault::Truncated,
            Malformed::Integer => Fault::Integer,
            Malformed::Huffman => Fault::Huffman,
        }
    }
}

/// Memory for the start of an instruction that is kept for the next one.
const PENDING_BYTES_KEPT: usize = 256;

/// The start of an instruction whose end has not come.
#[derive(Debug, Default)]
pub(super) struct Pending(Vec<u8>);

impl Pending {
    /// Takes the next bytes of a stream. `take` carries out the instruction that its bytes begin with, and says how many bytes it
    /// has, or that it is [`Fault::Truncated`]; it bounds how long an instruction can be, and so what is kept here.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<usize, Fault>,
    ) -> Result<(), Fault> {
        if self.0.is_empty() {
            let used = take_all(bytes, &mut take)?;
            self.0.extend_from_slice(bytes.get(used..).unwrap_or_default());
            return Ok(());
        }
        self.0.extend_from_slice(bytes);
        let used = take_all(&self.0, &mut take)?;
        self.0.drain(..used);
        if self.0.is_empty() && self.0.capacity() > PENDING_BYTES_KEPT {
            self.0 = Vec::new();
        }
        Ok(())
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Carries out all whole instructions; how many bytes they have.
fn take_all(bytes: &[u8], take: &mut impl FnMut(&[u8]) -> Result<usize, Fault>) -> Result<usize, Fault> {
    let mut used = 0;
    while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
        match take(rest) {
            Ok(taken) => used += taken,
            Err(Fault::Truncated) => break,
            Err(fault) => return Err(fault),
        }
    }
    Ok(used)
}
