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
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use rustix::io::Errno;

use crate::date::append_date;
use crate::head::{Framing, Head, Unusual};
use crate::names;
use crate::ready::Ready;
use crate::session::{Ended, Session};

/// Up to here head and body are copied into one piece, which is cheaper than a vector.
const JOIN_BYTES_MAX: usize = 16 * 1024;

/// What an exchange is made of.
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
    /// It has, and nothing was written. The message is kept for Python.
    Headed(Head, Py<PyAny>),
    /// Bytes of the body follow: so many, if the length is known; otherwise in chunks.
    Body { left: Option<u64> },
    /// The response is complete.
    Complete,
    /// Python goes on with it.
    Python(Py<PyAny>),
}

/// What an application has of its request.
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
    /// The message of the head, once its stage is over: Python may have to go on in the middle of a body.
    head_message: Option<Py<PyAny>>,
    /// Futures of those who wait for the client's end.
    waiters: Vec<Py<PyAny>>,
    task: Option<Py<PyAny>>,
    returned: bool,
    /// Whether the head waits where Python's timer looks for it.
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

    /// Whether there is nothing left to be sent: the response is complete, or its client has gone.
    #[getter]
    fn over(&self, py: Python<'_>) -> PyResult<bool> {
        match &self.stage {
            Stage::Python(http) => http.bind(py).getattr(intern!(py, "over"))?.extract(),
            Stage::Complete => Ok(true),
            _ => Ok(self.gone),
        }
    }

    /// ASGI's `receive`.
    fn receive(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let mut this = slf.borrow_mut();
        if let Stage::Python(http) = &this.stage {
            let http = http.clone_ref(py);
            drop(this);
            return http.call_method0(py, intern!(py, "_receive"));
        }
        if !this.body_given && !matches!(this.stage, Stage::Complete) && !this.gone {
            this.body_given = true;
            let message = PyDict::new(py);
            message.set_item(intern!(py, "type"), intern!(py, "http.request"))?;
            message.set_item(intern!(py, "body"), &this.given.body)?;
            message.set_item(intern!(py, "more_body"), false)?;
            return Ok(Py::new(py, Ready::with(Some(message.into_any().unbind())))?.into_any());
        }
        if this.gone {
            let message = PyDict::new(py);
            message.set_item(intern!(py, "type"), intern!(py, "http.disconnect"))?;
            return Ok(Py::new(py, Ready::with(Some(message.into_any().unbind())))?.into_any());
        }
        let session = this.session.borrow(py).python(py)?;
        drop(this);
        let (future, waits): (Py<PyAny>, Py<PyAny>) =
            session.bind(py).call_method0(intern!(py, "until_gone"))?.extract()?;
        slf.borrow_mut().waiters.push(future);
        Ok(waits)
    }

    /// ASGI's `send`.
    fn send(slf: &Bound<'_, Self>, message: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let this = slf.borrow();
        if let Stage::Python(http) = &this.stage {
            let http = http.clone_ref(py);
            drop(this);
            return http.call_method1(py, intern!(py, "_send"), (message,));
        }
        if this.gone {
            drop(this);
            return Ok(names::after_the_end(py)?.call0()?.unbind());
        }
        drop(this);
        let kind = message.get_item(intern!(py, "type"))?;
        let kind = kind.cast::<PyString>()?;
        if kind == "http.response.start" {
            Self::start(slf, message)
        } else if kind == "http.response.body" {
            Self::send_body(slf, message)
        } else {
            Self::send_in_python(slf, message)
        }
    }

    /// The application has failed: 500, if nothing was written.
    fn fail(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.borrow();
        let is_here = !matches!(this.stage, Stage::Python(_));
        if this.gone || matches!(this.stage, Stage::Complete | Stage::Body { .. }) {
            return Ok(());
        }
        drop(this);
        if is_here {
            slf.borrow_mut().stage = Stage::Fresh;
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
        if this.gone || !matches!(this.stage, Stage::Headed(..)) {
            return Ok(());
        }
        let Some(out) = this.begin_body(py) else {
            drop(this);
            return Self::go_on_in_python(slf)?.call_method0(intern!(py, "send_head")).map(drop);
        };
        match this.write(&[&out]) {
            Ok(sent) if sent == out.len() => Ok(()),
            Ok(sent) => {
                let rest = PyBytes::new(py, out.get(sent..).unwrap_or_default()).unbind();
                drop(this);
                Self::go_on_in_python_with(slf, Some(rest)).map(drop)
            }
            Err(()) => {
                drop(this);
                Self::cancel(slf)
            }
        }
    }
}

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
            head_message: None,
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
            let waits = matches!(this.stage, Stage::Headed(..)) && !this.gone;
            this.late = waits;
            waits
        };
        if waits {
            session.call_method1(intern!(py, "wait_for_body"), (slf,))?;
        }
        Ok(())
    }

    fn start(slf: &Bound<'_, Self>, message: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let mut this = slf.borrow_mut();
        let message = match (&this.stage, message.cast::<PyDict>()) {
            (Stage::Fresh, Ok(message)) => message,
            (Stage::Complete, _) => return Err(after_complete("http.response.start")),
            _ => {
                drop(this);
                return Self::send_in_python(slf, message);
            }
        };
        let head = head_of(message, this.session.borrow(py).headers());
        let Ok(head) = head else {
            drop(this);
            return Self::send_in_python(slf, message);
        };
        this.stage = Stage::Headed(head, message.clone().into_any().unbind());
        let session = this.session.clone_ref(py);
        drop(this);
        Session::note_head(session.bind(py), slf.clone().unbind())?;
        session.borrow(py).nothing(py)
    }

    fn send_body(slf: &Bound<'_, Self>, message: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let Ok(fields) = message.cast::<PyDict>() else { return Self::send_in_python(slf, message) };
        let body = match fields.get_item(intern!(py, "body"))? {
            None => PyBytes::new(py, b""),
            Some(body) => match body.cast_into::<PyBytes>() {
                Ok(body) => body,
                Err(_) => return Self::send_in_python(slf, message),
            },
        };
        let more = match fields.get_item(intern!(py, "more_body"))? {
            None => false,
            Some(more) => more.is_truthy()?,
        };
        slf.borrow_mut().leave_timer(py, slf)?;
        let mut this = slf.borrow_mut();
        match &this.stage {
            Stage::Complete => return Err(after_complete("http.response.body")),
            Stage::Headed(head, _) if !more && this.is_whole(head, body.as_bytes()) => {}
            Stage::Headed(head, _)
                if more && !head.is_bodiless(this.flags) && !this.is_framed_by_end(head) => {}
            Stage::Body { .. } => {}
            _ => {
                drop(this);
                return Self::send_in_python(slf, message);
            }
        }
        let (out, taken) = this.frame(py, body.as_bytes(), more);
        let over = body.as_bytes().len() - taken;
        let pieces =
            [out.as_slice(), body.as_bytes().get(..taken).unwrap_or_default(), this.ending(taken, more)];
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let Ok(sent) = this.write(&pieces) else {
            this.gone = true;
            drop(this);
            Self::cancel(slf)?;
            return Ok(names::after_the_end(py)?.call0()?.unbind());
        };
        this.body_bytes += taken as u64;
        if let Stage::Body { left: Some(left) } = &mut this.stage {
            *left -= taken as u64;
        }
        let rest = (sent < total).then(|| PyBytes::new(py, &behind(&pieces, sent)).unbind());
        drop(this);
        Self::sent(slf, rest, more, over > 0)
    }

    /// What follows a piece that was sent, but for `rest`.
    fn sent(slf: &Bound<'_, Self>, rest: Option<Py<PyBytes>>, more: bool, over: bool) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        if more && !over {
            return match rest {
                None => slf.borrow().session.borrow(py).nothing(py),
                Some(rest) => {
                    let http = Self::go_on_in_python_with(slf, Some(rest))?;
                    Ok(http.call_method0(intern!(py, "drain"))?.unbind())
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
            Self::leave(slf, &rest)?;
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
        slf.borrow().session.borrow(py).nothing(py)
    }

    /// Whether a body without any that follows is all of the response, in a form that is written here.
    fn is_whole(&self, head: &Head, body: &[u8]) -> bool {
        !head.is_bodiless(self.flags) && head.length.is_none_or(|length| length == body.len() as u64)
    }

    fn is_framed_by_end(&self, head: &Head) -> bool {
        head.length.is_none() && self.flags.http10
    }

    /// What stands before a piece, and how much of it may be sent.
    fn frame(&mut self, py: Python<'_>, body: &[u8], more: bool) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        if let Stage::Headed(head, _) = &self.stage {
            let framing = match head.length {
                Some(length) => Framing::Length(length),
                None if more => Framing::Chunks,
                None => Framing::Length(body.len() as u64),
            };
            out.reserve(512 + if body.len() <= JOIN_BYTES_MAX { body.len() } else { 0 });
            head.write(&mut out, framing, self.flags, self.given.anonymous, |out| append_date(py, out));
            self.status = head.status;
            let left = match framing {
                Framing::Length(length) => Some(length),
                Framing::Chunks => None,
            };
            if let Stage::Headed(_, message) = std::mem::replace(&mut self.stage, Stage::Body { left }) {
                self.head_message = Some(message);
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

    /// What stands behind a piece.
    fn ending(&self, taken: usize, more: bool) -> &'static [u8] {
        match (&self.stage, taken > 0, more) {
            (Stage::Body { left: None }, true, true) => b"\r\n",
            (Stage::Body { left: None }, true, false) => b"\r\n0\r\n\r\n",
            (Stage::Body { left: None }, false, false) => b"0\r\n\r\n",
            _ => b"",
        }
    }

    /// The head of a body that follows; None if that is Python's.
    fn begin_body(&mut self, py: Python<'_>) -> Option<Vec<u8>> {
        match &self.stage {
            Stage::Headed(head, _) if !head.is_bodiless(self.flags) && !self.is_framed_by_end(head) => {
                Some(self.frame(py, b"", true).0)
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
    fn leave(slf: &Bound<'_, Self>, rest: &Py<PyBytes>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.borrow();
        let (session, connection, request) =
            (this.session.borrow(py).python(py)?, this.connection, this.request);
        let number = this.to.as_ref().map_or(-1, |to| to.as_raw_fd());
        let head = this.given.head.clone_ref(py);
        drop(this);
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
        slf.borrow_mut().leave_timer(py, slf)?;
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

    fn leave_timer(&mut self, py: Python<'_>, slf: &Bound<'_, Self>) -> PyResult<()> {
        if self.late {
            self.late = false;
            let session = self.session.borrow(py).python(py)?;
            session.bind(py).call_method1(intern!(py, "body_has_come"), (slf,))?;
        }
        Ok(())
    }

    fn send_in_python(slf: &Bound<'_, Self>, message: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        if matches!(slf.borrow().stage, Stage::Complete) {
            let kind: String = message.get_item(intern!(py, "type"))?.extract()?;
            return Err(after_complete(&kind));
        }
        let http = Self::go_on_in_python(slf)?;
        Ok(http.call_method1(intern!(py, "_send"), (message,))?.unbind())
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
        let mut this = slf.borrow_mut();
        let (start, left) = match &this.stage {
            Stage::Python(http) => return Ok(http.clone_ref(py).into_bound(py)),
            Stage::Headed(_, message) => (Some(message.clone_ref(py)), None),
            Stage::Body { left } => (this.head_message.as_ref().map(|message| message.clone_ref(py)), *left),
            Stage::Fresh | Stage::Complete => (None, None),
        };
        this.leave_timer(py, slf)?;
        let has_begun = matches!(this.stage, Stage::Body { .. });
        let numbers = (this.connection, this.request, this.flags.bits());
        let number = this.to.as_ref().map_or(-1, |to| to.as_raw_fd());
        let given = &this.given;
        let what = PyTuple::new(
            py,
            [
                given.scope.clone_ref(py).into_any(),
                given.meta.clone_ref(py).into_any(),
                given.head.clone_ref(py).into_any(),
                given.body.clone_ref(py).into_any(),
            ],
        )?;
        let began_s = this.began.elapsed().as_secs_f64();
        let body = (this.body_given, has_begun, left, this.body_bytes, unsent, this.gone);
        let session = this.session.clone_ref(py);
        drop(this);
        let python = session.borrow(py).python(py)?;
        let http = python
            .bind(py)
            .call_method1(intern!(py, "go_on_with"), (numbers, number, what, began_s, start, body))?;
        let mut this = slf.borrow_mut();
        this.stage = Stage::Python(http.clone().unbind());
        let waiters = std::mem::take(&mut this.waiters);
        drop(this);
        session.borrow_mut(py).hand_over(numbers.0, numbers.1);
        // Those who wait for the client's end go on to wait, there.
        http.call_method1(intern!(py, "take_waiters"), (waiters,))?;
        Ok(http)
    }
}

/// Bytes of all pieces behind the first `sent`.
fn behind(pieces: &[&[u8]], mut sent: usize) -> Vec<u8> {
    let mut rest = Vec::new();
    for piece in pieces {
        rest.extend_from_slice(piece.get(sent..).unwrap_or_default());
        sent = sent.saturating_sub(piece.len());
    }
    rest
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

/// `more` are fields in front of the application's own.
fn head_of(message: &Bound<'_, PyDict>, more: &[(Vec<u8>, Vec<u8>)]) -> Result<Head, Unusual> {
    let py = message.py();
    let get = |name| message.get_item(name).ok().flatten();
    if get(intern!(py, "trailers")).is_some() {
        return Err(Unusual);
    }
    let status: u16 = get(intern!(py, "status")).and_then(|status| status.extract().ok()).ok_or(Unusual)?;
    let mut head = Head::begin_with(status, reason(py, status).map_err(|_| Unusual)?)?;
    for (name, value) in more {
        head.field(name, value)?;
    }
    let Some(headers) = get(intern!(py, "headers")) else { return Ok(head) };
    for pair in headers.try_iter().map_err(|_| Unusual)? {
        let pair = pair.map_err(|_| Unusual)?;
        let (name, value) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>().map_err(|_| Unusual)?;
        let (Ok(name), Ok(value)) = (name.cast::<PyBytes>(), value.cast::<PyBytes>()) else {
            return Err(Unusual);
        };
        head.field(name.as_bytes(), value.as_bytes())?;
    }
    Ok(head)
}

/// The usual reason of a status, as Python's `http.HTTPStatus` has it.
fn reason(py: Python<'_>, status: u16) -> PyResult<&str> {
    static REASONS: PyOnceLock<HashMap<u16, String>> = PyOnceLock::new();
    let reasons = REASONS.get_or_try_init(py, || names::phrases(py)?.extract())?;
    Ok(reasons.get(&status).map_or("", String::as_str))
}
