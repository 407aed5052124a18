//! A response that is being fetched for the cache, on the thread that has begun it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::keys::ConnId;
use maitred_http::response::Filter;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::keeping::{Keeping, Now, Request as Asked, Taken};
use super::writing::FillFile;
use crate::fills::{Facts, Fill};
use crate::upstream::remote_thread::Remote;
use maitred_base::budget::Permit;

/// A response on its way into the cache.
#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) fill: Arc<Fill>,
    pub(crate) socket: OwnedFd,
    pub(crate) serial: u32,
    pub(crate) held: Permit,
    pub(crate) remote: Remote,
    pub(crate) pool: u16,
    /// The connection whose request it was begun for.
    pub(crate) leader: Option<ConnId>,
    pub(crate) filter: Filter,
    pub(crate) taken: Taken,
    /// All that was received before the head was judged.
    pub(crate) raw: Vec<u8>,
    pub(crate) asked: Asked,
    pub(crate) stage: Stage,
}

/// How far it has come.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The head has yet to come.
    Head,
    /// Content is kept in memory.
    Memory(Box<Keeping>),
    /// Content is kept in a file.
    File(Box<Keeping>, Box<FillFile>),
    /// The same; a helper has the file, and writes to it.
    Writing(Box<Keeping>),
}

/// What one read brought.
pub(crate) enum Received {
    /// Nothing more for now.
    Nothing,
    /// Something.
    Some {
        /// Whether all of the response has come.
        complete: bool,
    },
    /// What came is no response, or no whole one.
    Broken,
}

impl Filling {
    /// Reads once.
    pub(crate) fn receive(&mut self, rx: &mut Vec<u8>) -> Received {
        loop {
            rx.clear();
            let judged = match recv(&self.socket, rustix::buffer::spare_capacity(rx), RecvFlags::DONTWAIT) {
                Ok((_, 0)) => self.filter.end(&mut self.taken).map(|()| true),
                Ok(_) => self.filter.feed(rx, &mut self.taken).map(|progress| progress.complete),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Received::Nothing,
                Err(_) => return Received::Broken,
            };
            if matches!(self.stage, Stage::Head) {
                self.raw.extend_from_slice(rx);
            }
            return match judged {
                Ok(complete) => Received::Some { complete },
                Err(_) => Received::Broken,
            };
        }
    }

    /// The head is that of a response that is kept.
    pub(crate) fn begin(&mut self, keeping: Box<Keeping>, now: Now) {
        self.raw = Vec::new();
        let (head, own) = self.taken.shared(&self.asked.caching.rules, now.wall);
        let lifetime = keeping.lifetime();
        let facts = Facts {
            variant: keeping.variant(),
            own: (!own.is_empty()).then(|| Arc::new(own)),
            ttl: lifetime.map_or(0, |lifetime| lifetime.ttl(now.steady)),
        };
        let age = lifetime.map_or(0, |lifetime| lifetime.age(now.steady));
        let mut head = head;
        head.fields.push_number(b"age", age.into());
        self.fill.begin(head, facts);
        self.stage = Stage::Memory(keeping);
    }
}
