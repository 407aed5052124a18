//! One channel of a worker of ASGI applications, and the requests that it has brought. `maitred.native_session` begins and ends
//! it; requests that are not ordinary run in Python, whose session is asked to begin with them.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use foldhash::HashMap;
use maitred_handoff::{Done, Outcome, encode_done, encode_pong};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PySet};
use pyo3::{PyTraverseError, PyVisit};

use crate::exchange::{Exchange, Given};
use crate::names;
use crate::order::{Asked, Order, Turn};
use crate::scope::Scopes;
use crate::wire::{Entry, Frame, Received, Violation, Wire};

/// Objects of Python's for all requests of a worker.
#[derive(Debug)]
struct Host {
    /// The `native_session.Session`.
    session: Py<PyAny>,
    /// `loop.call_soon`.
    call_soon: Py<PyAny>,
    /// Makes a task of an exchange, and of the application.
    start: Py<PyAny>,
    /// Makes what scopes with one meta part have in common.
    base_of: Py<PyAny>,
    state: Py<PyDict>,
    /// Fields in front of those of each response.
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    tasks: Py<PySet>,
    /// Changes a scope; called with each response; counts requests.
    change_scope: Option<Py<PyAny>>,
    on_response: Option<Py<PyAny>>,
    count: Option<Py<PyAny>>,
}

/// Hooks: one changes a scope, one is called with each response, one counts requests.
type Hooks = (Option<Py<PyAny>>, Option<Py<PyAny>>, Option<Py<PyAny>>);

/// One channel.
#[pyclass(subclass, module = "maitred._native", name = "Session")]
#[derive(Debug)]
pub(crate) struct Session {
    host: Option<Host>,
    /// Taken out, as `scopes` are, while a request is prepared: that runs code of Python, which may come back here.
    wire: Option<Wire>,
    order: Order,
    scopes: Option<Box<Scopes>>,
    running: HashMap<(u32, u32), Py<Exchange>>,
    /// Frames that leave at the end of this turn of the loop.
    out: Vec<u8>,
    flushing: bool,
    /// Responses whose head waits for a body.
    headed: Vec<Py<Exchange>>,
    /// Set while requests begin in this turn: their reports leave together.
    in_turn: bool,
    /// Set if one of them goes on behind this turn.
    waits: bool,
    /// Set once the channel is lost.
    dropped: bool,
}

/// The bytes of one request.
struct Parts<'a> {
    meta: &'a [u8],
    head: &'a [u8],
    body: &'a [u8],
}

#[pymethods]
impl Session {
    #[new]
    fn new() -> Self {
        Self {
            host: None,
            wire: None,
            order: Order::default(),
            scopes: None,
            running: HashMap::default(),
            out: Vec::new(),
            flushing: false,
            headed: Vec::new(),
            in_turn: false,
            waits: false,
            dropped: false,
        }
    }

    /// Begins with a channel, by a copy of this descriptor. Raises OSError.
    #[allow(clippy::too_many_arguments)]
    fn open(
        slf: &Bound<'_, Self>,
        number: i32,
        session: Py<PyAny>,
        call_soon: Py<PyAny>,
        start: Py<PyAny>,
        base_of: Py<PyAny>,
        state: Py<PyDict>,
        headers: Vec<(Vec<u8>, Vec<u8>)>,
        tasks: Py<PySet>,
        hooks: Hooks,
    ) -> PyResult<()> {
        let (change_scope, on_response, count) = hooks;
        let sock = Arc::new(crate::raw::duplicate(number)?);
        let mut this = slf.borrow_mut();
        this.host = Some(Host {
            session,
            call_soon,
            start,
            base_of,
            state,
            headers,
            tasks,
            change_scope,
            on_response,
            count,
        });
        this.wire = Some(Wire::new(sock, false));
        Ok(())
    }

    /// Takes what has come, and begins with it. True unless the channel has ended. Raises ProtocolError.
    fn readable(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let mut received = {
            let mut this = slf.borrow_mut();
            let Some(wire) = &mut this.wire else { return Ok(true) };
            wire.receive(false)
        };
        slf.borrow_mut().in_turn = true;
        let handled = Self::handle_all(slf);
        slf.borrow_mut().in_turn = false;
        Self::end_turn(slf)?;
        handled?;
        let is_broken = slf.borrow().wire.as_ref().is_some_and(Wire::is_broken);
        if is_broken && let Some(wire) = &mut slf.borrow_mut().wire {
            received = wire.receive(false);
        }
        match received {
            Ok(received) => Ok(received != Received::End),
            Err(violation) => Err(names::protocol_error(py, &violation)),
        }
    }

    /// Hands out what waits for the end of the turn.
    fn flush(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.borrow_mut().flushing = false;
        Self::flush_now(slf)
    }

    /// The request is the caller's to answer from now on: its descriptor, which is closed nowhere else; None if there is none.
    fn detach(&mut self, connection: u32, request: u32) -> Option<i32> {
        let to = self.order.detach(connection, request)?;
        // Another request of the connection cannot run: this one has it.
        match Arc::try_unwrap(to) {
            Ok(owned) => Some(owned.into_raw_fd()),
            Err(shared) => shared.try_clone().ok().map(IntoRawFd::into_raw_fd),
        }
    }

    /// A request of Python's is over.
    fn release(slf: &Bound<'_, Self>, connection: u32, request: u32) -> PyResult<()> {
        Self::go_on(slf, connection, request)
    }

    /// The channel is lost: what runs is cancelled, and what has not begun never will.
    fn drop_all(slf: &Bound<'_, Self>) -> PyResult<()> {
        let running: Vec<Py<Exchange>> = {
            let mut this = slf.borrow_mut();
            this.order.clear();
            this.wire = None;
            this.dropped = true;
            this.out.clear();
            this.running.drain().map(|(_, exchange)| exchange).collect()
        };
        for exchange in running {
            Exchange::disown(exchange.bind(slf.py()))?;
        }
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(host) = &self.host {
            visit.call(&host.session)?;
            visit.call(&host.call_soon)?;
            visit.call(&host.start)?;
            visit.call(&host.base_of)?;
            visit.call(&host.state)?;
            visit.call(&host.tasks)?;
            visit.call(&host.change_scope)?;
            visit.call(&host.on_response)?;
            visit.call(&host.count)?;
        }
        for exchange in self.running.values().chain(&self.headed) {
            visit.call(exchange)?;
        }
        Ok(())
    }

    fn __clear__(slf: &Bound<'_, Self>) {
        let mut this = slf.borrow_mut();
        let dropped = (this.host.take(), std::mem::take(&mut this.running), std::mem::take(&mut this.headed));
        drop(this);
        drop(dropped);
    }
}

impl Session {
    fn handle_all(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        loop {
            let mut this = slf.borrow_mut();
            let Some(frame) = this.wire.as_mut().and_then(|wire| wire.queue.pop_front()) else {
                return Ok(());
            };
            match frame {
                Frame::Forget { connection } => this.order.forget(connection),
                Frame::Ping { request } => encode_pong(&mut this.out, request),
                Frame::Cancel { connection, request } => {
                    drop(this);
                    Self::cancel(slf, connection, request)?;
                }
                Frame::Shutdown => {
                    let session = this.session(py)?;
                    drop(this);
                    session.bind(py).call_method0(intern!(py, "on_shutdown"))?;
                    return Ok(());
                }
                Frame::Request(entry) if this.order.is_busy(entry.connection) => {
                    let asked = this.asked(entry);
                    this.order.wait(asked);
                }
                Frame::Request(entry) => {
                    drop(this);
                    Self::take(slf, entry)?;
                }
            }
        }
    }

    /// A request with bytes of its own: it has to wait.
    fn asked(&self, entry: Entry) -> Asked {
        let bytes = |range| self.wire.as_ref().map(|wire| wire.bytes(range).to_vec()).unwrap_or_default();
        Asked {
            connection: entry.connection,
            request: entry.request,
            flags: entry.flags,
            meta: bytes(&entry.meta),
            head: bytes(&entry.head),
            body: bytes(&entry.body),
            passed: entry.passed,
            body_file: entry.body_file,
            cancelled: entry.cancelled,
        }
    }

    /// A request that need not wait.
    fn take(slf: &Bound<'_, Self>, mut entry: Entry) -> PyResult<()> {
        let py = slf.py();
        let (connection, request) = (entry.connection, entry.request);
        let turn = slf.borrow_mut().order.start(connection, request, entry.passed.take(), entry.cancelled);
        match turn {
            Turn::Skip => {
                slf.borrow_mut().report(connection, request, Outcome::Broken, 0, 0, 0);
                Ok(())
            }
            Turn::Missing => Err(missing(py, connection)),
            Turn::Begin(to) => {
                let Some(wire) = slf.borrow_mut().wire.take() else { return Ok(()) };
                let [meta, head, body] =
                    [&entry.meta, &entry.head, &entry.body].map(|range| wire.bytes(range));
                let parts = Parts { meta, head, body };
                let given = Self::prepare(slf, &entry.flags, entry.body_file.take(), parts);
                let mut this = slf.borrow_mut();
                if !this.dropped {
                    this.wire = Some(wire);
                }
                drop(this);
                Self::begin(slf, (connection, request), entry.flags, to, given?, true)
            }
        }
    }

    /// All that a request needs to run. The session is not borrowed: hooks, and the collector, run code of the application.
    fn prepare(
        slf: &Bound<'_, Self>,
        flags: &maitred_handoff::RequestFlags,
        body_file: Option<OwnedFd>,
        parts: Parts<'_>,
    ) -> PyResult<Prepared> {
        let py = slf.py();
        let [head, body] = [parts.head, parts.body].map(|bytes| PyBytes::new(py, bytes).unbind());
        if flags.may_detach || flags.body_stream || flags.body_fd {
            let meta = PyBytes::new(py, parts.meta).unbind();
            return Ok(Prepared::Python { meta, head, body, body_file });
        }
        let (mut scopes, base_of, state, change_scope) = {
            let mut this = slf.borrow_mut();
            let scopes = this.scopes.take().unwrap_or_default();
            let host = this.host.as_ref().ok_or_else(closed)?;
            let change_scope = host.change_scope.as_ref().map(|change| change.clone_ref(py));
            (scopes, host.base_of.clone_ref(py), host.state.clone_ref(py), change_scope)
        };
        let built = scopes.build(py, base_of.bind(py), parts.meta, parts.head, flags.http10);
        let before = slf.borrow_mut().scopes.replace(scopes);
        drop(before);
        let built = built?;
        built.scope.set_item(intern!(py, "state"), state.bind(py).copy()?)?;
        if let Some(change) = change_scope {
            change.bind(py).call1((&built.scope,))?;
        }
        let (scope, anonymous) = (built.scope.unbind(), built.anonymous);
        Ok(Prepared::Here(Given { scope, meta: built.meta, head, body, anonymous }))
    }

    /// The next requests of a connection, whose request is over.
    fn go_on(slf: &Bound<'_, Self>, connection: u32, request: u32) -> PyResult<()> {
        let py = slf.py();
        let next = slf.borrow_mut().order.release(connection, request);
        for mut asked in next {
            if asked.cancelled {
                let mut this = slf.borrow_mut();
                this.order.resume(connection, asked.passed.take());
                this.report(connection, asked.request, Outcome::Broken, 0, 0, 0);
                drop(this);
                Self::schedule(slf)?;
                continue;
            }
            let Some(to) = slf.borrow_mut().order.resume(connection, asked.passed.take()) else {
                let session = slf.borrow().session(py)?;
                let error = missing(py, connection).into_value(py);
                session.bind(py).call_method1(intern!(py, "on_violation"), (error,))?;
                return Ok(());
            };
            let parts = Parts { meta: &asked.meta, head: &asked.head, body: &asked.body };
            let given = Self::prepare(slf, &asked.flags, asked.body_file.take(), parts)?;
            Self::begin(slf, (connection, asked.request), asked.flags, to, given, false)?;
        }
        Ok(())
    }

    fn begin(
        slf: &Bound<'_, Self>,
        (connection, request): (u32, u32),
        flags: maitred_handoff::RequestFlags,
        to: Arc<OwnedFd>,
        prepared: Prepared,
        at_once: bool,
    ) -> PyResult<()> {
        let py = slf.py();
        let (session, start, count) = {
            let this = slf.borrow();
            let host = this.host.as_ref().ok_or_else(closed)?;
            let count = host.count.as_ref().map(|count| count.clone_ref(py));
            (host.session.clone_ref(py), host.start.clone_ref(py), count)
        };
        let given = match prepared {
            Prepared::Python { meta, head, body, body_file } => {
                let body_file = body_file.map(IntoRawFd::into_raw_fd);
                let entry = (1, connection, request, flags.bits(), py.None(), meta, head, body, body_file);
                session.bind(py).call_method1(intern!(py, "begin"), (entry, to.as_raw_fd()))?;
                return Ok(());
            }
            Prepared::Here(given) => given,
        };
        let exchange = Exchange::begin(slf, connection, request, flags, to, given)?;
        let before = slf.borrow_mut().running.insert((connection, request), exchange.clone().unbind());
        drop(before);
        if let Some(count) = count {
            count.bind(py).call0()?;
        }
        let task = start.bind(py).call1((&exchange, at_once))?;
        if exchange.borrow_mut().keep_task(&task) {
            slf.borrow_mut().waits = true;
            let tasks = slf.borrow().host.as_ref().map(|host| host.tasks.clone_ref(py));
            if let Some(tasks) = tasks {
                tasks.bind(py).add(task)?;
            }
        }
        Ok(())
    }

    fn cancel(slf: &Bound<'_, Self>, connection: u32, request: u32) -> PyResult<()> {
        let py = slf.py();
        let mut this = slf.borrow_mut();
        if let Some(exchange) = this.running.get(&(connection, request)) {
            let exchange = exchange.clone_ref(py);
            drop(this);
            return Exchange::cancel(exchange.bind(py));
        }
        let session = this.session(py)?;
        this.order.cancel(connection, request);
        drop(this);
        session.bind(py).call_method1(intern!(py, "cancel_running"), (connection, request)).map(drop)
    }

    fn session(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.host.as_ref().map(|host| host.session.clone_ref(py)).ok_or_else(closed)
    }

    fn report(
        &mut self,
        connection: u32,
        request: u32,
        outcome: Outcome,
        status: u16,
        service_us: u32,
        body_bytes: u64,
    ) {
        encode_done(&mut self.out, &Done { connection, request, outcome, status, service_us, body_bytes });
    }

    /// The end of a request of this library: DONE, the hook, and the next request of the connection.
    pub(crate) fn complete(slf: &Bound<'_, Self>, exchange: &Ended<'_>) -> PyResult<()> {
        let py = slf.py();
        let hook = {
            let mut this = slf.borrow_mut();
            let Some(over) = this.running.remove(&(exchange.connection, exchange.request)) else {
                // The channel is lost.
                return Ok(());
            };
            // The caller has another reference: nothing of the exchange is dropped here.
            drop(over);
            let service_us = u32::try_from(exchange.began.elapsed().as_micros()).unwrap_or(u32::MAX);
            this.report(
                exchange.connection,
                exchange.request,
                exchange.outcome,
                exchange.status,
                service_us,
                exchange.body_bytes,
            );
            this.host.as_ref().and_then(|host| host.on_response.as_ref()).map(|hook| hook.clone_ref(py))
        };
        Self::schedule(slf)?;
        if let Some(hook) = hook {
            hook.bind(py).call1((exchange.scope, exchange.status))?;
        }
        Self::go_on(slf, exchange.connection, exchange.request)
    }

    /// A request goes on in Python.
    pub(crate) fn hand_over(&mut self, connection: u32, request: u32) -> Option<Py<Exchange>> {
        self.running.remove(&(connection, request))
    }

    /// Its head has been said; what becomes of it is looked at when the turn ends.
    pub(crate) fn note_head(slf: &Bound<'_, Self>, exchange: Py<Exchange>) -> PyResult<()> {
        slf.borrow_mut().headed.push(exchange);
        Self::schedule(slf)
    }

    pub(crate) fn headers(&self) -> &[(Vec<u8>, Vec<u8>)] {
        self.host.as_ref().map_or(&[], |host| &host.headers)
    }

    /// Python's side of this session.
    pub(crate) fn python(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.session(py)
    }

    /// The tasks of the worker.
    pub(crate) fn tasks(&self, py: Python<'_>) -> Option<Py<PySet>> {
        self.host.as_ref().map(|host| host.tasks.clone_ref(py))
    }

    /// Has `flush` called at the end of this turn of the loop.
    fn schedule(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let mut this = slf.borrow_mut();
        if this.flushing || this.in_turn {
            return Ok(());
        }
        this.flushing = true;
        let Some(host) = &this.host else { return Ok(()) };
        let call_soon = host.call_soon.clone_ref(py);
        drop(this);
        let flush = slf.getattr(intern!(py, "flush"))?;
        call_soon.bind(py).call1((flush,)).map(drop)
    }

    /// Requests have begun: those that run at once have reported, and the tasks of the others come before what is scheduled now.
    fn end_turn(slf: &Bound<'_, Self>) -> PyResult<()> {
        let waits = std::mem::take(&mut slf.borrow_mut().waits);
        Self::flush_now(slf)?;
        if waits { Self::schedule(slf) } else { Ok(()) }
    }

    fn flush_now(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let mut this = slf.borrow_mut();
        let (session, headed) = (this.session(py)?, std::mem::take(&mut this.headed));
        let out = std::mem::take(&mut this.out);
        drop(this);
        for exchange in headed {
            Exchange::look_at_head(exchange.bind(py), session.bind(py))?;
        }
        if out.is_empty() {
            return Ok(());
        }
        session.bind(py).call_method1(intern!(py, "send_now"), (PyBytes::new(py, &out),)).map(drop)
    }
}

/// A response that is over.
#[derive(Debug)]
pub(crate) struct Ended<'a> {
    pub(crate) connection: u32,
    pub(crate) request: u32,
    pub(crate) outcome: Outcome,
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    pub(crate) began: Instant,
    pub(crate) scope: &'a Py<PyDict>,
}

/// A request, ready to run.
enum Prepared {
    /// In this library.
    Here(Given),
    /// In Python: WebSockets, bodies that follow, or come in files.
    Python { meta: Py<PyBytes>, head: Py<PyBytes>, body: Py<PyBytes>, body_file: Option<OwnedFd> },
}

fn missing(py: Python<'_>, connection: u32) -> PyErr {
    let text = format!("a REQUEST for connection {connection}, whose descriptor never came");
    names::protocol_error(py, &Violation(text))
}

fn closed() -> PyErr {
    PyRuntimeError::new_err("the session has not begun")
}
