//! Connection ids (RFC 9000 section 5.1) that say which socket, and which worker process, their datagrams are for.
//!
//! ```text
//! byte    0                1                    2 … 6         7
//!         socket ^ mask    generation ^ mask    random        check
//! ```
//!
//! The masks follow from bytes 2 to 5 and three secret constants, so that an observer does not see which ids are of one thread
//! or of one process. The mask is a mixture and no encryption, because the kernel has to compute it for each datagram, in
//! classic BPF: 32-bit arithmetic ([`maitred_sys::sockopt::steer_datagrams`]). A client that finds the constants can choose the
//! thread that its datagrams go to, and see which ids are of one thread, and nothing else.
//!
//! The layout is the same in all versions of this program that read one another's upgrade states.

use std::fmt;
use std::io;
use std::time::Duration;

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Bytes of the ids that this server gives.
pub(crate) const ID_BYTES: usize = 8;
/// Where the random part stands.
const RANDOM: std::ops::Range<usize> = 2..7;
const RANDOM_BYTES: usize = 5;
/// The first bit of a datagram: it has a long header (RFC 8999 section 5).
pub const LONG_HEADER: u8 = 0x80;
/// Where the length of the destination id stands in a long header, behind the first byte and the version.
const LENGTH_AT: usize = 5;

/// The secret constants; see the module.
#[derive(Clone, Copy)]
pub struct Mask {
    xor: u32,
    first: u32,
    second: u32,
}

/// Where the datagrams with an id go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The number of the socket in its group, which is that of the thread that reads it.
    pub socket: u8,
    /// The generation of the worker process, modulo 256.
    pub generation: u8,
}

impl Mask {
    /// Of three random numbers. A multiplication by an even one would lose a bit.
    pub(super) fn new(xor: u32, first: u32, second: u32) -> Mask {
        Mask { xor, first: first | 1, second: second | 1 }
    }

    /// The constants as [`maitred_sys::sockopt::steer_datagrams`] takes them.
    pub fn constants(self) -> [u32; 3] {
        [self.xor, self.first, self.second]
    }

    /// Where the datagrams with this id go; `None` if no process of this master has given it. Of other ids of eight bytes, one
    /// of 256 is taken for one.
    pub fn place(self, id: &[u8]) -> Option<Place> {
        let id: &[u8; ID_BYTES] = id.try_into().ok()?;
        let [socket, generation, check] = self.masks(id);
        let place = Place { socket: id[0] ^ socket, generation: id[1] ^ generation };
        (id[7] == check).then_some(place)
    }

    /// The masks of bytes 0 and 1, and byte 7, of an id whose other bytes are there.
    fn masks(self, id: &[u8; ID_BYTES]) -> [u8; 3] {
        let mut mixed = u32::from_be_bytes([id[2], id[3], id[4], id[5]]) ^ self.xor;
        mixed = mixed.wrapping_mul(self.first);
        mixed ^= mixed >> 15;
        mixed = mixed.wrapping_mul(self.second);
        mixed ^= mixed >> 13;
        let [high, low, generation, socket] = mixed.to_be_bytes();
        [socket, generation, high ^ low ^ id[0] ^ id[1] ^ id[6]]
    }

    fn make(self, place: Place, random: [u8; RANDOM_BYTES]) -> [u8; ID_BYTES] {
        let mut id = [0; ID_BYTES];
        id[RANDOM].copy_from_slice(&random);
        let [socket, generation, _] = self.masks(&id);
        (id[0], id[1]) = (place.socket ^ socket, place.generation ^ generation);
        let [.., check] = self.masks(&id);
        id[7] = check;
        id
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Mask").finish_non_exhaustive()
    }
}

/// The destination id of a datagram, in either form of the header (RFC 8999 section 5); `None` if it is too short. An id behind a
/// short header is one that this server has given, or means nothing.
pub fn destination(datagram: &[u8]) -> Option<&[u8]> {
    if datagram.first()? & LONG_HEADER == 0 {
        return datagram.get(1..1 + ID_BYTES);
    }
    let length = usize::from(*datagram.get(LENGTH_AT)?);
    datagram.get(LENGTH_AT + 1..)?.get(..length)
}

/// Random numbers are asked of the kernel for so many bytes at a time: some eight hundred ids.
const RANDOM_AT_ONCE: usize = 4096;

/// Gives ids; one for each socket of a worker process.
pub struct Ids {
    mask: Mask,
    place: Place,
    random: Box<[u8; RANDOM_AT_ONCE]>,
    used: usize,
    /// How often random numbers had to be used again because the kernel gave none, which is not known to happen. Ids have to
    /// differ all the same: the library asks until it gets one that it does not have.
    again: u64,
}

impl Ids {
    /// For connections that this worker process gets on this socket.
    ///
    /// # Errors
    /// If there are no random numbers.
    pub fn new(mask: Mask, place: Place) -> io::Result<Ids> {
        let mut random = Box::new([0; RANDOM_AT_ONCE]);
        fill(&mut *random)?;
        Ok(Ids { mask, place, random, used: 0, again: 0 })
    }

    /// Where datagrams with its ids go.
    #[cfg(test)]
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Another one.
    pub fn give(&mut self) -> [u8; ID_BYTES] {
        self.mask.make(self.place, self.random())
    }

    fn random(&mut self) -> [u8; RANDOM_BYTES] {
        if self.used + RANDOM_BYTES > RANDOM_AT_ONCE {
            self.used = 0;
            self.again = match fill(&mut *self.random) {
                Ok(()) => 0,
                Err(_) => self.again + 1,
            };
        }
        let mut next = [0; RANDOM_BYTES];
        if let Some(unused) = self.random.get(self.used..self.used + RANDOM_BYTES) {
            next.copy_from_slice(unused);
        }
        self.used += RANDOM_BYTES;
        for (byte, again) in next.iter_mut().zip(self.again.to_le_bytes()) {
            *byte ^= again;
        }
        next
    }
}

/// Random numbers of the kernel, which gives fewer than it is asked for when a signal comes.
fn fill(mut room: &mut [u8]) -> io::Result<()> {
    while !room.is_empty() {
        match getrandom(&mut *room, GetRandomFlags::empty()) {
            Ok(read @ 1..) => room = room.get_mut(read..).unwrap_or_default(),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.give())
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        self.mask.place(id).map(|_| ()).ok_or(InvalidCid)
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

impl fmt::Debug for Ids {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Ids").field("place", &self.place).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
