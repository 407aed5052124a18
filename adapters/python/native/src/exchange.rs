//! One ordinary request of an ASGI application (HTTP, version 2.3), and its response. What is not ordinary goes on as a
//! `maitred.asgi_http.Http`.

use std::collections::HashMap;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use maitred_handoff::{Outcome, RequestFlags};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use rustix::io::Errno;

use crate::date::append_date;
use crate::head::{Framing, Head, Unusual};
use crate::names;
use crate::session::{Ended, Session};

/// Up to here head and body are copied into one piece, which is cheaper than a vector.
const JOIN_BYTES_MAX: usize = 16 * 1024;

/// The parts that an exchange is made of.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) scope: Py<PyDict>,
    pub(crate) meta: Py<PyBytes>,
    pub(crate) head: Py<PyBytes>,
    pub(crate) body: Py<PyBytes>,
    pub(crate) anonymous: bool,
}

/// How far a response is.
#[derive(Debug)]
enum Stage {
    /// The application has not said its head yet.
    Fresh,
    /// The head was said, and nothing was written.
    Headed(Head),
    /// Bytes of the body follow: so many, if the length is known; otherwise in chunks.
    Body { left: Option<u64> },
    /// The response is complete.
    Complete,
    /// Python is about to go on with it.
    Leaving,
    /// Python goes on with it.
    Python(Py<PyAny>),
}

/// A request, as its application has it.
#[pyclass(module = "maitred._native", name = "Exchange")]
#[derive(Debug)]
pub(crate) struct Exchange {
    session: Py<Session>,
    connection: u32,
    request: u32,
    flags: RequestFlags,
    /// None once the channel is lost, or the response over: an application may keep this object.
    to: Option<Arc<OwnedFd>>,
    given: Given,
    body_given: bool,
    gone: bool,
    told: bool,
    /// The head, once its stage is over: Python may have to go on in the middle of a body.
    said: Option<Head>,
    /// Futures of those who wait for the client's end.
    waiters: Vec<Py<PyAny>>,
    task: Option<Py<PyAny>>,
    returned: bool,
    /// Set while the head waits where Python's timer looks for it.
    late: bool,
    stage: Stage,
    outcome: Outcome,
    status: u16,
    body_bytes: u64,
    began: Instant,
}

#[pymethods]
impl Exchange {
    /// The scope of this request.
    #[getter]
    fn scope(&self, py: Python<'_>) -> Py<PyDict> {
        self.given.scope.clone_ref(py)
    }

    /// The bytes of the request's head.
    #[getter]
    fn head(&self, py: Python<'_>) -> Py<PyBytes> {
        self.given.head.clone_ref(py)
    }

    /// True if nothing is left to be sent: the response is complete, or its client has gone.
    #[getter]
    fn over(slf: &Bound<'_, Self>) -> PyResult<bool> {
        match Self::in_python(slf) {
            Some(http) => http.getattr(intern!(slf.py(), "over"))?.extract(),
            None => {
                let this = slf.borrow();
                Ok(this.gone || matches!(this.stage, Stage::Complete))
            }
        }
    }

    /// The `asgi_http.Http` that goes on with the request, if there is one.
    #[getter]
    fn python<'py>(slf: &Bound<'py, Self>) -> Option<Bound<'py, PyAny>> {
        Self::in_python(slf)
    }

    /// The message that `receive` has at once; None if it waits, or if Python knows.
    fn take<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let py = slf.py();
        let body = {
            let mut this = slf.borrow_mut();
            match this.stage {
                Stage::Python(_) | Stage::Leaving => return Ok(None),
                _ if this.gone => None,
                Stage::Complete => return Ok(None),
                _ if this.body_given => return Ok(None),
                _ => {
                    this.body_given = true;
                    Some(this.given.body.clone_ref(py))
                }
            }
        };
        // No borrow is held: each new container may run the collector, and with it code of the application.
        let message = PyDict::new(py);
        match body {
            Some(body) => {
                message.set_item(intern!(py, "type"), intern!(py, "http.request"))?;
                message.set_item(intern!(py, "body"), body)?;
                message.set_item(intern!(py, "more_body"), false)?;
            }
            None => message.set_item(intern!(py, "type"), intern!(py, "http.disconnect"))?,
        }
        Ok(Some(message))
    }

    /// A future to resolve when the client has gone, or the response is complete.
    fn wait(&mut self, future: Py<PyAny>) {
        self.waiters.push(future);
    }

    /// A future is not waited for any more.
    fn wait_no_longer(slf: &Bound<'_, Self>, future: &Bound<'_, PyAny>) {
        let mut this = slf.borrow_mut();
        let at = this.waiters.iter().position(|waiter| waiter.is(future));
        let found = at.map(|at| this.waiters.swap_remove(at));
        drop(this);
        drop(found);
    }

    /// The work of `send`; returns an awaitable if it has to wait.
    fn say<'py>(slf: &Bound<'py, Self>, message: &Bound<'py, PyAny>) -> Awaited<'py> {
        let py = slf.py();
        if let Some(http) = Self::in_python(slf) {
            return http.call_method1(intern!(py, "_send"), (message,)).map(Some);
        }
        let kind = message.get_item(intern!(py, "type"))?;
        if slf.borrow().gone {
            return names::after_the_end(py)?.call0().map(Some);
        }
        match kind.cast_exact::<PyString>() {
            Ok(kind) if kind == "http.response.start" => Self::start(slf, message),
            Ok(kind) if kind == "http.response.body" => Self::send_body(slf, message),
            _ => Self::send_in_python(slf, message),
        }
    }

    /// The application has failed: 500, if nothing was written.
    fn fail(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        {
            let mut this = slf.borrow_mut();
            match this.stage {
                _ if this.gone => return Ok(()),
                Stage::Complete | Stage::Body { .. } | Stage::Leaving => return Ok(()),
                Stage::Fresh | Stage::Headed(_) => this.stage = Stage::Fresh,
                Stage::Python(_) => {}
            }
        }
        Self::go_on_in_python(slf)?.call_method0(intern!(py, "_fail")).map(drop)
    }

    /// The application has returned, and nothing more will come of the response.
    fn end(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        Self::tell(slf)?;
        let (task, session) = {
            let mut this = slf.borrow_mut();
            this.returned = true;
            (this.task.take(), this.session.clone_ref(py))
        };
        let tasks = session.borrow(py).tasks(py);
        if let (Some(task), Some(tasks)) = (task, tasks) {
            tasks.bind(py).discard(task)?;
        }
        Ok(())
    }

    /// Nothing of the body has come for a while: the head by itself.
    fn send_head(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let mut this = slf.borrow_mut();
        this.late = false;
        if this.gone || !matches!(this.stage, Stage::Headed(_)) {
            return Ok(());
        }
        let Some(out) = this.begin_body() else {
            drop(this);
            return Self::go_on_in_python(slf)?.call_method0(intern!(py, "send_head")).map(drop);
        };
        match this.write(&[&out]) {
            Ok(sent) if sent == out.len() => Ok(()),
            Ok(sent) => {
                drop(this);
                let rest = PyBytes::new(py, out.get(sent..).unwrap_or_default()).unbind();
                Self::go_on_in_python_with(slf, Some(rest)).map(drop)
            }
            Err(()) => {
                drop(this);
                Self::cancel(slf)
            }
        }
    }

    // An application may keep `send` in the scope, which is kept here.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.session)?;
        visit.call(&self.given.scope)?;
        visit.call(&self.task)?;
        for waiter in &self.waiters {
            visit.call(waiter)?;
        }
        match &self.stage {
            Stage::Python(http) => visit.call(http),
            _ => Ok(()),
        }
    }

    fn __clear__(slf: &Bound<'_, Self>) {
        let mut this = slf.borrow_mut();
        let stage = match this.stage {
            Stage::Python(_) => Some(std::mem::replace(&mut this.stage, Stage::Leaving)),
            _ => None,
        };
        let dropped = (this.task.take(), std::mem::take(&mut this.waiters), stage);
        drop(this);
        drop(dropped);
    }
}

/// An awaitable, if there is something to wait for.
type Awaited<'py> = PyResult<Option<Bound<'py, PyAny>>>;

impl Exchange {
    pub(crate) fn begin<'py>(
        session: &Bound<'py, Session>,
        connection: u32,
        request: u32,
        flags: RequestFlags,
        to: Arc<OwnedFd>,
        given: Given,
    ) -> PyResult<Bound<'py, Self>> {
        let exchange = Self {
            session: session.clone().unbind(),
            connection,
            request,
            flags,
            to: Some(to),
            given,
            body_given: false,
            gone: false,
            told: false,
            said: None,
            waiters: Vec::new(),
            task: None,
            returned: false,
            late: false,
            stage: Stage::Fresh,
            outcome: Outcome::Broken,
            status: 0,
            body_bytes: 0,
            began: Instant::now(),
        };
        Bound::new(session.py(), exchange)
    }

    /// Keeps the task that runs the application; false if it has returned already.
    pub(crate) fn keep_task(&mut self, task: &Bound<'_, PyAny>) -> bool {
        if !self.returned {
            self.task = Some(task.clone().unbind());
        }
        !self.returned
    }

    /// The client has gone.
    pub(crate) fn cancel(slf: &Bound<'_, Self>) -> PyResult<()> {
        let waiters = {
            let mut this = slf.borrow_mut();
            this.gone = true;
            std::mem::take(&mut this.waiters)
        };
        wake(slf.py(), waiters)
    }

    /// The same, and the descriptor is closed.
    pub(crate) fn disown(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.borrow_mut().to = None;
        Self::cancel(slf)
    }

    /// A head that still waits is left to Python's timer.
    pub(crate) fn look_at_head(slf: &Bound<'_, Self>, session: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let waits = {
            let mut this = slf.borrow_mut();
            let waits = matches!(this.stage, Stage::Headed(_)) && !this.gone;
            this.late = waits;
            waits
        };
        if waits {
            session.call_method1(intern!(py, "wait_for_body"), (slf,))?;
        }
        Ok(())
    }

    fn in_python<'py>(slf: &Bound<'py, Self>) -> Option<Bound<'py, PyAny>> {
        match &slf.borrow().stage {
            Stage::Python(http) => Some(http.clone_ref(slf.py()).into_bound(slf.py())),
            _ => None,
        }
    }

    fn start<'py>(slf: &Bound<'py, Self>, message: &Bound<'py, PyAny>) -> Awaited<'py> {
        let py = slf.py();
        let mut this = slf.borrow_mut();
        let head = match (&this.stage, message.cast_exact::<PyDict>()) {
            (Stage::Fresh, Ok(message)) => head_of(message, this.session.borrow(py).headers()),
            (Stage::Complete, _) => return Err(after_complete("http.response.start")),
            _ => Err(Unusual),
        };
        let Ok(head) = head else {
            drop(this);
            return Self::send_in_python(slf, message);
        };
        this.stage = Stage::Headed(head);
        let session = this.session.clone_ref(py);
        drop(this);
        Session::note_head(session.bind(py), slf.clone().unbind())?;
        Ok(None)
    }

    fn send_body<'py>(slf: &Bound<'py, Self>, message: &Bound<'py, PyAny>) -> Awaited<'py> {
        let py = slf.py();
        let Ok(fields) = message.cast_exact::<PyDict>() else { return Self::send_in_python(slf, message) };
        let body = match fields.get_item(intern!(py, "body"))? {
            None => PyBytes::new(py, b""),
            Some(body) => match body.cast_into_exact::<PyBytes>() {
                Ok(body) => body,
                Err(_) => return Self::send_in_python(slf, message),
            },
        };
        let more = match fields.get_item(intern!(py, "more_body"))? {
            None => false,
            Some(more) => more.is_truthy()?,
        };
        Self::leave_timer(slf)?;
        let mut this = slf.borrow_mut();
        match &this.stage {
            Stage::Complete => return Err(after_complete("http.response.body")),
            Stage::Headed(head) if !more && this.is_whole(head, body.as_bytes()) => {}
            Stage::Headed(head) if more && !head.is_bodiless(this.flags) && !this.is_framed_by_end(head) => {}
            Stage::Body { .. } => {}
            _ => {
                drop(this);
                return Self::send_in_python(slf, message);
            }
        }
        let (out, taken) = this.frame(body.as_bytes(), more);
        let over = body.as_bytes().len() - taken;
        let pieces =
            [out.as_slice(), body.as_bytes().get(..taken).unwrap_or_default(), this.ending(taken, more)];
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let Ok(sent) = this.write(&pieces) else {
            this.gone = true;
            drop(this);
            Self::cancel(slf)?;
            return names::after_the_end(py)?.call0().map(Some);
        };
        this.body_bytes += taken as u64;
        if let Stage::Body { left: Some(left) } = &mut this.stage {
            *left -= taken as u64;
        }
        drop(this);
        let rest = (sent < total).then(|| Rest::of(py, &pieces, &body, sent));
        Self::sent(slf, rest, more, over > 0)
    }

    /// The steps behind a piece that was sent, but for `rest`.
    fn sent<'py>(slf: &Bound<'py, Self>, rest: Option<Rest>, more: bool, over: bool) -> Awaited<'py> {
        let py = slf.py();
        if more && !over {
            return match rest {
                None => Ok(None),
                Some(rest) => {
                    let http = Self::go_on_in_python_with(slf, Some(rest.joined(py)))?;
                    http.call_method0(intern!(py, "drain")).map(Some)
                }
            };
        }
        let left = match slf.borrow().stage {
            Stage::Body { left: Some(left) } => left,
            _ => 0,
        };
        if !more {
            let mut this = slf.borrow_mut();
            this.stage = Stage::Complete;
            this.outcome = if left == 0 && !over { Outcome::Clean } else { Outcome::Broken };
        }
        if let Some(rest) = rest {
            Self::leave(slf, rest)?;
        }
        if !more {
            Self::tell(slf)?;
        }
        if over {
            return Err(PyValueError::new_err("the application writes more bytes than it stated"));
        }
        if left > 0 {
            let text = format!("the application did not write {left} of the bytes that it stated");
            return Err(PyValueError::new_err(text));
        }
        Ok(None)
    }

    /// True if a body with nothing behind it is all of the response, in a form that is written here.
    fn is_whole(&self, head: &Head, body: &[u8]) -> bool {
        !head.is_bodiless(self.flags) && head.length.is_none_or(|length| length == body.len() as u64)
    }

    fn is_framed_by_end(&self, head: &Head) -> bool {
        head.length.is_none() && self.flags.http10
    }

    /// The bytes before a piece, and how much of the piece may be sent.
    fn frame(&mut self, body: &[u8], more: bool) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        if let Stage::Headed(head) = &self.stage {
            let framing = match head.length {
                Some(length) => Framing::Length(length),
                None if more => Framing::Chunks,
                None => Framing::Length(body.len() as u64),
            };
            out.reserve(512 + if body.len() <= JOIN_BYTES_MAX { body.len() } else { 0 });
            head.write(&mut out, framing, self.flags, self.given.anonymous, append_date);
            self.status = head.status;
            let left = match framing {
                Framing::Length(length) => Some(length),
                Framing::Chunks => None,
            };
            if let Stage::Headed(head) = std::mem::replace(&mut self.stage, Stage::Body { left }) {
                self.said = Some(head);
            }
        }
        match self.stage {
            Stage::Body { left: Some(left) } => {
                (out, body.len().min(usize::try_from(left).unwrap_or(usize::MAX)))
            }
            _ if body.is_empty() => (out, 0),
            _ => {
                out.extend_from_slice(format!("{:x}\r\n", body.len()).as_bytes());
                (out, body.len())
            }
        }
    }

    /// The bytes behind a piece.
    fn ending(&self, taken: usize, more: bool) -> &'static [u8] {
        match (&self.stage, taken > 0, more) {
            (Stage::Body { left: None }, true, true) => b"\r\n",
            (Stage::Body { left: None }, true, false) => b"\r\n0\r\n\r\n",
            (Stage::Body { left: None }, false, false) => b"0\r\n\r\n",
            _ => b"",
        }
    }

    /// The head of a body that follows; None if that is Python's.
    fn begin_body(&mut self) -> Option<Vec<u8>> {
        match &self.stage {
            Stage::Headed(head) if !head.is_bodiless(self.flags) && !self.is_framed_by_end(head) => {
                Some(self.frame(b"", true).0)
            }
            _ => None,
        }
    }

    /// How many bytes the socket took; an error if the client has gone.
    fn write(&self, pieces: &[&[u8]]) -> Result<usize, ()> {
        let Some(to) = &self.to else { return Err(()) };
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        if total == 0 {
            return Ok(0);
        }
        loop {
            let sent = if total <= JOIN_BYTES_MAX {
                rustix::io::write(to, &pieces.concat())
            } else {
                let vector: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
                rustix::io::writev(to, &vector)
            };
            match sent {
                Ok(sent) => return Ok(sent),
                Err(Errno::AGAIN) => return Ok(0),
                Err(Errno::INTR) => {}
                Err(_) => return Err(()),
            }
        }
    }

    /// The rest of a response that is complete is Maitred's to deliver.
    fn leave(slf: &Bound<'_, Self>, rest: Rest) -> PyResult<()> {
        let py = slf.py();
        let this = slf.borrow();
        let (session, connection, request) =
            (this.session.borrow(py).python(py)?, this.connection, this.request);
        let number = this.to.as_ref().map_or(-1, |to| to.as_raw_fd());
        let head = this.given.head.clone_ref(py);
        drop(this);
        let Rest { before, body, start, end, behind } = rest;
        let rest = (before, body, start, end, behind);
        let left = session
            .bind(py)
            .call_method1(intern!(py, "leave_rest"), (connection, request, number, rest, head))?;
        if !left.is_truthy()? {
            slf.borrow_mut().outcome = Outcome::Broken;
        }
        Ok(())
    }

    /// The response is over, or nothing more will come of it.
    fn tell(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let (session, waiters, http) = {
            let mut this = slf.borrow_mut();
            if this.told {
                return Ok(());
            }
            this.told = true;
            this.gone = true;
            let http = match &this.stage {
                Stage::Python(http) => Some(http.clone_ref(py)),
                _ => None,
            };
            (this.session.clone_ref(py), std::mem::take(&mut this.waiters), http)
        };
        wake(py, waiters)?;
        if let Some(http) = http {
            let told = http.call_method0(py, intern!(py, "_tell")).map(drop);
            slf.borrow_mut().to = None;
            return told;
        }
        Self::leave_timer(slf)?;
        slf.borrow_mut().to = None;
        let this = slf.borrow();
        let over = Ended {
            connection: this.connection,
            request: this.request,
            outcome: this.outcome,
            status: this.status,
            body_bytes: this.body_bytes,
            began: this.began,
            scope: &this.given.scope.clone_ref(py),
        };
        drop(this);
        Session::complete(session.bind(py), &over)
    }

    /// Takes the exchange from Python's timer.
    fn leave_timer(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let session = {
            let mut this = slf.borrow_mut();
            if !std::mem::take(&mut this.late) {
                return Ok(());
            }
            this.session.clone_ref(py)
        };
        let python = session.borrow(py).python(py)?;
        python.bind(py).call_method1(intern!(py, "body_has_come"), (slf,)).map(drop)
    }

    fn send_in_python<'py>(slf: &Bound<'py, Self>, message: &Bound<'py, PyAny>) -> Awaited<'py> {
        let py = slf.py();
        if matches!(slf.borrow().stage, Stage::Complete) {
            let kind = message.get_item(intern!(py, "type"))?.str()?;
            return Err(after_complete(&kind.to_string_lossy()));
        }
        let http = Self::go_on_in_python(slf)?;
        http.call_method1(intern!(py, "_send"), (message,)).map(Some)
    }

    fn go_on_in_python<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::go_on_in_python_with(slf, None)
    }

    /// Python goes on, with `unsent` bytes that the socket has not taken.
    fn go_on_in_python_with<'py>(
        slf: &Bound<'py, Self>,
        unsent: Option<Py<PyBytes>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if let Some(http) = Self::in_python(slf) {
            return Ok(http);
        }
        Self::leave_timer(slf)?;
        let mut this = slf.borrow_mut();
        let (head, left, has_begun) = match std::mem::replace(&mut this.stage, Stage::Leaving) {
            Stage::Leaving | Stage::Python(_) => {
                return Err(PyRuntimeError::new_err("send was called while another call of it was waiting"));
            }
            Stage::Headed(head) => (Some(head), None, false),
            Stage::Body { left } => (this.said.take(), left, true),
            Stage::Fresh | Stage::Complete => (None, None, false),
        };
        let numbers = (this.connection, this.request, this.flags.bits());
        let number = this.to.as_ref().map_or(-1, |to| to.as_raw_fd());
        let given = &this.given;
        let what = (
            given.scope.clone_ref(py),
            given.meta.clone_ref(py),
            given.head.clone_ref(py),
            given.body.clone_ref(py),
        );
        let began_s = this.began.elapsed().as_secs_f64();
        let body = (this.body_given, has_begun, left, this.body_bytes, unsent, this.gone);
        let session = this.session.clone_ref(py);
        drop(this);
        let (python, more) = {
            let session = session.borrow(py);
            (session.python(py)?, session.headers().len())
        };
        let start = head.map(|head| message_of(py, &head, more)).transpose()?;
        let http = python
            .bind(py)
            .call_method1(intern!(py, "go_on_with"), (numbers, number, what, began_s, start, body))?;
        let mut this = slf.borrow_mut();
        this.stage = Stage::Python(http.clone().unbind());
        let waiters = std::mem::take(&mut this.waiters);
        drop(this);
        let kept = session.borrow_mut(py).hand_over(numbers.0, numbers.1);
        drop(kept);
        // Those who wait for the client's end go on to wait, there.
        http.call_method1(intern!(py, "take_waiters"), (waiters,))?;
        Ok(http)
    }
}

/// The rest of a head, of a part of a body, and of the bytes behind it, that a socket has not taken. The body is not copied.
struct Rest {
    before: Py<PyBytes>,
    body: Py<PyBytes>,
    start: usize,
    end: usize,
    behind: Py<PyBytes>,
}

impl Rest {
    /// Behind the first `sent` bytes of all three pieces, of which the second is the beginning of `body`.
    fn of(py: Python<'_>, pieces: &[&[u8]; 3], body: &Bound<'_, PyBytes>, sent: usize) -> Self {
        let [first, second, third] = pieces;
        let rest =
            |piece: &[u8], sent: usize| PyBytes::new(py, piece.get(sent..).unwrap_or_default()).unbind();
        let start = sent.saturating_sub(first.len()).min(second.len());
        Self {
            before: rest(first, sent),
            body: body.clone().unbind(),
            start,
            end: second.len(),
            behind: rest(third, sent.saturating_sub(first.len() + second.len())),
        }
    }

    /// All of it.
    fn joined(&self, py: Python<'_>) -> Py<PyBytes> {
        let body = self.body.as_bytes(py).get(self.start..self.end).unwrap_or_default();
        PyBytes::new(py, &[self.before.as_bytes(py), body, self.behind.as_bytes(py)].concat()).unbind()
    }
}

fn wake(py: Python<'_>, waiters: Vec<Py<PyAny>>) -> PyResult<()> {
    for waiter in waiters {
        let waiter = waiter.bind(py);
        if !waiter.call_method0(intern!(py, "done"))?.is_truthy()? {
            waiter.call_method1(intern!(py, "set_result"), (py.None(),))?;
        }
    }
    Ok(())
}

fn after_complete(kind: &str) -> PyErr {
    PyRuntimeError::new_err(format!("{kind} after the response was complete"))
}

/// `more` are fields in front of the application's own. What runs code of the application, or could be read only once, is
/// unusual: the exchange is borrowed here.
fn head_of(message: &Bound<'_, PyDict>, more: &[(Vec<u8>, Vec<u8>)]) -> Result<Head, Unusual> {
    let py = message.py();
    let get = |name| message.get_item(name).ok().flatten();
    if get(intern!(py, "trailers")).is_some() {
        return Err(Unusual);
    }
    let status = get(intern!(py, "status")).and_then(|status| status.cast_into::<PyInt>().ok());
    let status: u16 = status.and_then(|status| status.extract().ok()).ok_or(Unusual)?;
    let mut head = Head::begin_with(status, reason(py, status).map_err(|_| Unusual)?)?;
    for (name, value) in more {
        head.field(name, value)?;
    }
    let Some(headers) = get(intern!(py, "headers")) else { return Ok(head) };
    if let Ok(headers) = headers.cast_exact::<PyList>() {
        for pair in headers.iter() {
            add_pair(&mut head, &pair)?;
        }
    } else {
        for pair in headers.cast_exact::<PyTuple>().map_err(|_| Unusual)?.iter() {
            add_pair(&mut head, &pair)?;
        }
    }
    Ok(head)
}

fn add_pair(head: &mut Head, pair: &Bound<'_, PyAny>) -> Result<(), Unusual> {
    let (name, value) = if let Ok(pair) = pair.cast_exact::<PyTuple>() {
        pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>().map_err(|_| Unusual)?
    } else {
        let pair = pair.cast_exact::<PyList>().map_err(|_| Unusual)?;
        if pair.len() != 2 {
            return Err(Unusual);
        }
        (pair.get_item(0).map_err(|_| Unusual)?, pair.get_item(1).map_err(|_| Unusual)?)
    };
    match (name.cast_exact::<PyBytes>(), value.cast_exact::<PyBytes>()) {
        (Ok(name), Ok(value)) => head.field(name.as_bytes(), value.as_bytes()),
        _ => Err(Unusual),
    }
}

/// `http.response.start` as the application said it, without `more` fields that stand in front of its own.
fn message_of<'py>(py: Python<'py>, head: &Head, more: usize) -> PyResult<Bound<'py, PyDict>> {
    let pairs = PyList::empty(py);
    for (name, value) in head.fields().skip(more) {
        pairs.append((PyBytes::new(py, name), PyBytes::new(py, value)))?;
    }
    if let Some(length) = head.length {
        pairs
            .append((PyBytes::new(py, b"content-length"), PyBytes::new(py, length.to_string().as_bytes())))?;
    }
    let message = PyDict::new(py);
    message.set_item(intern!(py, "status"), head.status)?;
    message.set_item(intern!(py, "headers"), pairs)?;
    Ok(message)
}

/// The usual reason of a status, as Python's `http.HTTPStatus` has it.
fn reason(py: Python<'_>, status: u16) -> PyResult<&str> {
    static REASONS: PyOnceLock<HashMap<u16, String>> = PyOnceLock::new();
    let reasons = REASONS.get_or_try_init(py, || names::phrases(py)?.extract())?;
    Ok(reasons.get(&status).map_or("", String::as_str))
}
