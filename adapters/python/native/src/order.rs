//! The connections of a channel with requests that run at the same time: their descriptors, and the order of their requests, as
//! `maitred.connections` has it in Python.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use foldhash::HashMap;
use maitred_handoff::RequestFlags;

/// A request with bytes of its own.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) connection: u32,
    pub(crate) request: u32,
    pub(crate) flags: RequestFlags,
    pub(crate) passed: Option<OwnedFd>,
    pub(crate) body_file: Option<OwnedFd>,
    pub(crate) meta: Vec<u8>,
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) cancelled: bool,
}

/// A frame that waits until the request that is under way on its connection is over.
#[derive(Debug)]
enum Waiting {
    Request(Asked),
    Forget,
}

/// The fate of a request.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The request runs from now on, and writes here.
    Begin(Arc<OwnedFd>),
    /// The request was cancelled before, and is to be reported.
    Skip,
    /// The connection's descriptor never came.
    Missing,
}

/// The connections of one channel.
#[derive(Debug, Default)]
pub(crate) struct Order {
    descriptors: HashMap<u32, Arc<OwnedFd>>,
    /// For each connection with a request under way: which, and what came for it since.
    busy: HashMap<u32, (u32, VecDeque<Waiting>)>,
    /// Descriptors of requests under way whose connection was forgotten meanwhile: by then its number may be another
    /// connection's, which does not wait for the old request.
    parted: HashMap<(u32, u32), Option<Arc<OwnedFd>>>,
}

impl Order {
    /// True if a request of this connection has to wait.
    pub(crate) fn is_busy(&self, connection: u32) -> bool {
        self.busy.contains_key(&connection)
    }

    /// A request waits.
    pub(crate) fn wait(&mut self, asked: Asked) {
        if let Some((_, waiting)) = self.busy.get_mut(&asked.connection) {
            waiting.push_back(Waiting::Request(asked));
        }
    }

    /// A request that need not wait.
    pub(crate) fn start(
        &mut self,
        connection: u32,
        request: u32,
        passed: Option<OwnedFd>,
        cancelled: bool,
    ) -> Turn {
        if let Some(passed) = passed {
            self.descriptors.insert(connection, Arc::new(passed));
        }
        if cancelled {
            return Turn::Skip;
        }
        match self.descriptors.get(&connection) {
            Some(to) => {
                self.busy.insert(connection, (request, VecDeque::new()));
                Turn::Begin(Arc::clone(to))
            }
            None => Turn::Missing,
        }
    }

    /// FORGET.
    pub(crate) fn forget(&mut self, connection: u32) {
        match self.busy.get_mut(&connection) {
            None => drop(self.descriptors.remove(&connection)),
            Some((request, waiting)) if waiting.is_empty() => {
                self.parted.insert((connection, *request), self.descriptors.remove(&connection));
                self.busy.remove(&connection);
            }
            Some((_, waiting)) => waiting.push_back(Waiting::Forget),
        }
    }

    /// Cancels a request that may wait here.
    pub(crate) fn cancel(&mut self, connection: u32, request: u32) {
        if let Some((_, waiting)) = self.busy.get_mut(&connection) {
            for asked in waiting {
                if let Waiting::Request(asked) = asked
                    && asked.request == request
                {
                    asked.cancelled = true;
                    asked.body_file = None;
                }
            }
        }
    }

    /// The descriptor of a request under way, which is the caller's from now on.
    pub(crate) fn detach(&mut self, connection: u32, request: u32) -> Option<Arc<OwnedFd>> {
        match self.parted.remove(&(connection, request)) {
            Some(parted) => parted,
            None => self.descriptors.remove(&connection),
        }
    }

    /// A request is over: requests of its connection that are next, until one waits again. Comes again for one that was detached,
    /// and then does nothing.
    pub(crate) fn release(&mut self, connection: u32, request: u32) -> VecDeque<Asked> {
        let mut next = VecDeque::new();
        match self.busy.get(&connection) {
            Some((current, _)) if *current == request => {}
            _ => {
                self.parted.remove(&(connection, request));
                return next;
            }
        }
        let Some((_, mut waiting)) = self.busy.remove(&connection) else { return next };
        while let Some(first) = waiting.pop_front() {
            match first {
                Waiting::Forget => drop(self.descriptors.remove(&connection)),
                Waiting::Request(asked) if asked.cancelled => next.push_back(asked),
                Waiting::Request(asked) => {
                    // The request is under way from now on, and those behind it wait.
                    self.busy.insert(connection, (asked.request, waiting));
                    next.push_back(asked);
                    break;
                }
            }
        }
        next
    }

    /// The descriptor of a request that `release` has named.
    pub(crate) fn resume(&mut self, connection: u32, passed: Option<OwnedFd>) -> Option<Arc<OwnedFd>> {
        if let Some(passed) = passed {
            self.descriptors.insert(connection, Arc::new(passed));
        }
        self.descriptors.get(&connection).map(Arc::clone)
    }

    /// Requests that have not begun never will, and all descriptors are closed here.
    pub(crate) fn clear(&mut self) {
        self.descriptors.clear();
        self.busy.clear();
        self.parted.clear();
    }
}
