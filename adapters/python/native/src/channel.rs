//! The channel of a worker that answers one request after another, as `maitred.channel.Channel` is in Python. Ordinary requests
//! of WSGI are answered here; all others are given to Python, as that class would.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::{HashMap, HashSet};
use maitred_handoff::{
    Done, Outcome, encode_detach, encode_done, encode_pong, encode_tail, encode_tail_file,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::environ::Environs;
use crate::names;
use crate::response::answer;
use crate::turnstile::Turnstile;
use crate::wire::{
    Entry, Frame, Full, Received, Violation, Wire, send_what_fits, wait_for_descriptors, wait_for_room,
};

/// Reports wait for company this long at most: half of what the protocol allows, because a request that is running cannot be
/// interrupted.
const REPORT_WAIT: Duration = Duration::from_micros(500);
/// After a request of this length, so many requests are reported at once: the report of a fast request does not wait while a slow
/// one runs.
const SLOW: Duration = Duration::from_millis(1);
const SLOW_REQUESTS: u32 = 100;
/// Tails do not wait for company beyond this.
const WAITING_BYTES_MAX: usize = 64 * 1024;
const WAITING_RIGHTS_MAX: usize = 32;

/// One channel. Python's subclass knows how it begins, and where another one comes from.
#[pyclass(subclass, module = "maitred._native", name = "Channel")]
#[derive(Debug)]
pub(crate) struct Channel {
    sock: Option<Arc<OwnedFd>>,
    /// Taken out while the channel is waited for.
    wire: Option<Wire>,
    ended: bool,
    /// Set once the server has said that this is the end.
    told: bool,
    descriptors: HashMap<u32, Arc<OwnedFd>>,
    /// Requests that were cancelled, and are not known to be over.
    cancelled: HashSet<(u32, u32)>,
    reports: Vec<u8>,
    rights: Vec<OwnedFd>,
    turnstile: Arc<Turnstile>,
    waiting_bytes: usize,
    first_report: Instant,
    began: Instant,
    report_at_once: u32,
    /// Taken out while an environment is made, as `wire` is: that runs code of Python, which may come back here.
    environs: Option<Box<Environs>>,
}

#[pymethods]
impl Channel {
    #[new]
    #[pyo3(signature = (*_arguments, **_named))]
    fn new(_arguments: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyAny>>) -> Self {
        let now = Instant::now();
        Self {
            sock: None,
            wire: None,
            ended: false,
            told: false,
            descriptors: HashMap::default(),
            cancelled: HashSet::default(),
            reports: Vec::new(),
            rights: Vec::new(),
            turnstile: Arc::default(),
            waiting_bytes: 0,
            first_report: now,
            began: now,
            report_at_once: 0,
            environs: None,
        }
    }

    /// Begins with a channel, by a copy of this descriptor. Raises OSError.
    fn open_wire(&mut self, number: i32) -> PyResult<()> {
        let sock = Arc::new(crate::raw::duplicate(number)?);
        self.wire = Some(Wire::new(Arc::clone(&sock), true));
        self.sock = Some(sock);
        self.ended = false;
        self.told = false;
        self.began = Instant::now();
        Ok(())
    }

    /// Sends bytes as they are.
    fn send_now(slf: &Bound<'_, Self>, data: &[u8]) {
        let sock = slf.borrow().sock.clone();
        if let Some(sock) = sock {
            Self::send(slf, &sock, data, &[]);
        }
    }

    /// Answers requests of `application` until one comes that is Python's, which is returned; None at the end of the channel, or
    /// when it is lost. Without an application each request is. `build` is an EnvironBuilder, `wait` is called before each wait.
    fn run(
        slf: &Bound<'_, Self>,
        application: Option<&Bound<'_, PyAny>>,
        build: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let py = slf.py();
        if let Some(build) = build
            && slf.borrow().environs.is_none()
        {
            let environs = Environs::new(py, build.clone().unbind())?;
            slf.borrow_mut().environs = Some(Box::new(environs));
        }
        loop {
            let next = Self::next(slf, wait);
            if next.is_err() {
                Self::report(slf);
            }
            let Some(frame) = next? else { return Ok(None) };
            let mut this = slf.borrow_mut();
            match frame {
                Frame::Forget { connection } => drop(this.descriptors.remove(&connection)),
                Frame::Cancel { connection, request } => this.note_cancelled(connection, request),
                Frame::Ping { request } => {
                    encode_pong(&mut this.reports, request);
                    drop(this);
                    Self::report(slf);
                }
                Frame::Shutdown => {
                    this.told = true;
                    this.ended = true;
                    drop(this);
                    Self::report(slf);
                    return Ok(None);
                }
                Frame::Request(entry) => {
                    let turn = this.begin(entry);
                    drop(this);
                    if turn.is_err() {
                        Self::report(slf);
                    }
                    let turn = turn.map_err(|violation| names::protocol_error(py, &violation))?;
                    let Turn::Begin(entry, to) = turn else {
                        if let Turn::Skip(connection, request) = turn {
                            Self::end_request(slf, connection, request, Outcome::Broken, 0, 0);
                        }
                        continue;
                    };
                    match application {
                        Some(application) if !entry.flags.may_detach && !entry.flags.body_stream => {
                            answer(slf, application, entry, to)?;
                        }
                        _ => return Self::given_to_python(slf, entry, &to).map(Some),
                    }
                }
            }
        }
    }

    /// True if nothing more comes.
    #[getter]
    fn ended(&self) -> bool {
        self.ended
    }

    /// True if the server has said SHUTDOWN, or will have when all that has come is done.
    #[getter]
    fn told(&self) -> bool {
        self.told || self.wire.as_ref().is_some_and(Wire::is_told)
    }

    /// Reports the request that runs; the report may wait a little for others.
    fn done(slf: &Bound<'_, Self>, connection: u32, request: u32, flags: u8, status: u16, body_bytes: u64) {
        let outcome = match flags {
            1 => Outcome::Clean,
            2 => Outcome::Close,
            _ => Outcome::Broken,
        };
        Self::end_request(slf, connection, request, outcome, status, body_bytes);
    }

    /// Reports that the connection of the request that runs is the application's from now on.
    fn detach(slf: &Bound<'_, Self>, connection: u32, request: u32) {
        let mut this = slf.borrow_mut();
        this.began = Instant::now();
        this.descriptors.remove(&connection);
        encode_detach(&mut this.reports, connection, request);
        drop(this);
        Self::report(slf);
    }

    /// Leaves bytes of the response that runs to Maitred.
    fn tail(slf: &Bound<'_, Self>, connection: u32, request: u32, data: &[u8]) {
        let mut this = slf.borrow_mut();
        this.note_first();
        encode_tail(&mut this.reports, connection, request, data);
        this.waiting_bytes += data.len();
        drop(this);
        Self::report_if_much(slf);
    }

    /// Leaves a part of a file to Maitred; the caller may close its descriptor. Raises OSError if there is no free one.
    fn tail_file(
        slf: &Bound<'_, Self>,
        connection: u32,
        request: u32,
        descriptor: i32,
        offset: u64,
        length: u64,
    ) -> PyResult<()> {
        let copy = crate::raw::duplicate(descriptor)?;
        let mut this = slf.borrow_mut();
        this.note_first();
        this.rights.push(copy);
        encode_tail_file(&mut this.reports, connection, request, offset, length);
        drop(this);
        Self::report_if_much(slf);
        Ok(())
    }

    /// Sends all reports that wait.
    fn report(slf: &Bound<'_, Self>) {
        let turnstile = Arc::clone(&slf.borrow().turnstile);
        let _turn = turnstile.enter(slf.py());
        let mut this = slf.borrow_mut();
        if this.reports.is_empty() {
            return;
        }
        let (mut reports, mut rights) = (std::mem::take(&mut this.reports), std::mem::take(&mut this.rights));
        this.waiting_bytes = 0;
        let Some(sock) = this.sock.clone() else { return };
        drop(this);
        Self::send(slf, &sock, &reports, &rights);
        reports.clear();
        rights.clear();
        let mut this = slf.borrow_mut();
        if this.reports.is_empty() && reports.capacity() <= 2 * WAITING_BYTES_MAX {
            // The next ones need not ask for memory.
            (this.reports, this.rights) = (reports, rights);
        }
    }

    /// True if the request that runs was cancelled; reads first.
    fn is_cancelled(slf: &Bound<'_, Self>, connection: u32, request: u32) -> PyResult<bool> {
        Self::peek(slf)?;
        Ok(slf.borrow().cancelled.contains(&(connection, request)))
    }

    /// Closes every descriptor that was received, and the channel.
    fn close_wire(&mut self) {
        self.descriptors.clear();
        self.cancelled.clear();
        self.reports.clear();
        self.rights.clear();
        self.waiting_bytes = 0;
        self.wire = None;
        self.sock = None;
        self.ended = true;
    }
}

impl Channel {
    /// The next frame; None at the end of the channel.
    fn next(slf: &Bound<'_, Self>, wait: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Frame>> {
        loop {
            let mut this = slf.borrow_mut();
            let Some(wire) = &this.wire else { return Ok(None) };
            if matches!(wire.queue.front(), Some(Frame::Request(_))) && this.report_at_once > 0 && !this.ended
            {
                // Requests are slow: time enough to look whether the clients of those that wait are still there.
                let looked = this.look();
                drop(this);
                looked.map_err(|violation| names::protocol_error(slf.py(), &violation))?;
                this = slf.borrow_mut();
            }
            if let Some(frame) = this.wire.as_mut().and_then(|wire| wire.queue.pop_front()) {
                return Ok(Some(frame));
            }
            drop(this);
            Self::report(slf);
            let this = slf.borrow();
            if this.wire.as_ref().is_some_and(|wire| !wire.queue.is_empty()) {
                // What has come while the reports left.
                continue;
            }
            let ended = this.ended;
            drop(this);
            if ended {
                return Ok(None);
            }
            Self::fill(slf, wait)?;
        }
    }

    /// Waits for more.
    fn fill(slf: &Bound<'_, Self>, wait: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let py = slf.py();
        if let Some(wait) = wait {
            wait.call0()?;
        }
        py.check_signals()?;
        let Some(mut wire) = slf.borrow_mut().wire.take() else { return Ok(()) };
        let received = py.detach(|| wire.receive(true));
        let mut this = slf.borrow_mut();
        if this.sock.is_some() {
            this.wire = Some(wire);
        }
        this.began = Instant::now();
        this.cancelled.clear();
        match received {
            Ok(Received::End) => this.ended = true,
            Ok(Received::Some | Received::None | Received::Interrupted) => {}
            Err(violation) => {
                drop(this);
                return Err(names::protocol_error(py, &violation));
            }
        }
        Ok(())
    }

    /// Takes what has come in the meantime, without waiting.
    fn look(&mut self) -> Result<(), Violation> {
        while let Some(wire) = &mut self.wire
            && !wire.is_broken()
        {
            match wire.receive(false)? {
                Received::Some | Received::Interrupted => {}
                Received::None => break,
                Received::End => {
                    self.ended = true;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends all of it; others may run while it waits for room.
    fn send(slf: &Bound<'_, Self>, sock: &OwnedFd, data: &[u8], rights: &[OwnedFd]) {
        let mut rest = data;
        loop {
            let rights = if rest.len() == data.len() { rights } else { &[] };
            let left = send_what_fits(sock, rest, rights);
            let Some((left, full)) = left else { return };
            rest = left;
            match full {
                Full::Bytes => slf.py().detach(|| wait_for_room(sock)),
                Full::Descriptors => {
                    // Those that wait here count as well: of one user there is one number.
                    slf.borrow_mut().look_for_later();
                    if slf.py().detach(|| wait_for_descriptors(sock)) {
                        return;
                    }
                }
            }
        }
    }

    /// As `look`; a violation shows when everything before it is done.
    fn look_for_later(&mut self) {
        if let Err(violation) = self.look()
            && let Some(wire) = &mut self.wire
        {
            wire.break_off(violation);
        }
    }

    /// The same for a request that runs, and asks whether it was cancelled.
    fn peek(slf: &Bound<'_, Self>) -> PyResult<()> {
        let mut this = slf.borrow_mut();
        let looked = if this.ended { Ok(()) } else { this.look() };
        if let Err(violation) = looked {
            drop(this);
            return Err(names::protocol_error(slf.py(), &violation));
        }
        let this = &mut *this;
        if let Some(wire) = &mut this.wire {
            wire.queue.retain(|frame| match frame {
                Frame::Cancel { connection, request } => {
                    this.cancelled.insert((*connection, *request));
                    false
                }
                _ => true,
            });
        }
        Ok(())
    }

    /// One that runs, or is over: only what runs asks.
    fn note_cancelled(&mut self, connection: u32, request: u32) {
        self.cancelled.insert((connection, request));
    }

    /// Takes the connection's descriptor.
    fn begin(&mut self, mut entry: Entry) -> Result<Turn, Violation> {
        if let Some(passed) = entry.passed.take() {
            self.descriptors.insert(entry.connection, Arc::new(passed));
        }
        if entry.cancelled {
            return Ok(Turn::Skip(entry.connection, entry.request));
        }
        match self.descriptors.get(&entry.connection) {
            Some(to) => Ok(Turn::Begin(entry, Arc::clone(to))),
            None => {
                let text =
                    format!("a REQUEST for connection {}, whose descriptor never came", entry.connection);
                Err(Violation(text))
            }
        }
    }

    /// `(connection, request, flags, descriptor, meta, head, body, body_file)`.
    fn given_to_python(slf: &Bound<'_, Self>, entry: Entry, to: &Arc<OwnedFd>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let this = slf.borrow();
        let Some(wire) = &this.wire else { return Err(PyRuntimeError::new_err("the channel is closed")) };
        let [meta, head, body] =
            [&entry.meta, &entry.head, &entry.body].map(|range| PyBytes::new(py, wire.bytes(range)));
        drop(this);
        let body_file = entry.body_file.map(IntoRawFd::into_raw_fd);
        let parts = (
            entry.connection,
            entry.request,
            entry.flags.bits(),
            to.as_raw_fd(),
            meta,
            head,
            body,
            body_file,
        );
        Ok(parts.into_pyobject(py)?.into_any().unbind())
    }

    pub(crate) fn end_request(
        slf: &Bound<'_, Self>,
        connection: u32,
        request: u32,
        outcome: Outcome,
        status: u16,
        body_bytes: u64,
    ) {
        let mut this = slf.borrow_mut();
        if let Some(wire) = &mut this.wire {
            wire.is_held = false;
        }
        let now = Instant::now();
        let service = now.duration_since(this.began);
        this.began = now;
        if this.reports.is_empty() {
            this.first_report = now;
        }
        let service_us = u32::try_from(service.as_micros()).unwrap_or(u32::MAX);
        encode_done(
            &mut this.reports,
            &Done { connection, request, outcome, status, service_us, body_bytes },
        );
        if service > SLOW {
            this.report_at_once = SLOW_REQUESTS;
        }
        let leaves = this.report_at_once > 0 || now.duration_since(this.first_report) > REPORT_WAIT;
        this.report_at_once = this.report_at_once.saturating_sub(1);
        drop(this);
        if leaves {
            Self::report(slf);
        }
    }

    /// The bytes of a request that runs.
    pub(crate) fn wire(&self) -> Option<&Wire> {
        self.wire.as_ref()
    }

    /// The same, and what environments are made with, until `put_back`.
    pub(crate) fn take_for_environ(&mut self) -> PyResult<(Wire, Box<Environs>)> {
        match (self.wire.take(), self.environs.take()) {
            (Some(wire), Some(environs)) => Ok((wire, environs)),
            (wire, environs) => {
                (self.wire, self.environs) = (wire, environs);
                Err(PyRuntimeError::new_err("the channel is closed"))
            }
        }
    }

    /// The bytes of the request stay where they are until it is over.
    pub(crate) fn put_back(&mut self, mut wire: Wire, environs: Box<Environs>) {
        wire.is_held = true;
        if self.sock.is_some() {
            self.wire = Some(wire);
        }
        self.environs = Some(environs);
    }

    fn note_first(&mut self) {
        if self.reports.is_empty() {
            self.first_report = Instant::now();
        }
    }

    fn report_if_much(slf: &Bound<'_, Self>) {
        let this = slf.borrow();
        let is_much = this.waiting_bytes > WAITING_BYTES_MAX || this.rights.len() >= WAITING_RIGHTS_MAX;
        drop(this);
        if is_much {
            Self::report(slf);
        }
    }
}

/// The fate of a request.
enum Turn {
    /// The request runs, and writes here.
    Begin(Entry, Arc<OwnedFd>),
    /// The request was cancelled before, and is to be reported.
    Skip(u32, u32),
}
