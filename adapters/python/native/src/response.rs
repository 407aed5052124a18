//! One ordinary request of a WSGI application (PEP 3333), and its response. What is not ordinary goes on as a
//! `maitred.response.Response`, which this object then stands for.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use maitred_handoff::Outcome;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use rustix::io::Errno;

use crate::channel::Channel;
use crate::date::append_date;
use crate::environ::Parts;
use crate::head::{Framing, Head, Unusual};
use crate::names;
use crate::wire::Entry;

/// Up to here head and body are copied into one piece, which is cheaper than a vector.
const JOIN_BYTES_MAX: usize = 16 * 1024;
/// As PROTOCOL.md says in "Informational responses".
const INFORMATIONAL_MAX: u32 = maitred_handoff::INFORMATIONAL_MAX as u32;

/// How far a response is.
#[derive(Debug)]
enum Stage {
    /// The application has not said its head yet.
    Fresh,
    /// It has, and nothing was written.
    Headed(Head),
    /// Bytes of the body follow: so many, if the length is known; otherwise in chunks.
    Body { left: Option<u64> },
    /// Nothing more may be written.
    Over,
    /// Python goes on with it.
    Python(Py<PyAny>),
}

/// What is the application's `start_response`.
#[pyclass(module = "maitred._native", name = "Response")]
#[derive(Debug)]
pub(crate) struct Response {
    channel: Py<Channel>,
    /// None when the request is over: an application may keep this object.
    to: Option<Arc<OwnedFd>>,
    entry: Entry,
    anonymous: bool,
    stage: Stage,
    /// Status and fields as the application said them, for Python.
    said: Option<(Py<PyAny>, Py<PyAny>)>,
    /// Holds what the socket did not take.
    tail: Option<Py<PyAny>>,
    informed: u32,
    outcome: Outcome,
    status: u16,
    body_bytes: u64,
}

#[pymethods]
impl Response {
    #[pyo3(signature = (status, headers, exc_info = None))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        status: &Bound<'py, PyAny>,
        headers: &Bound<'py, PyAny>,
        exc_info: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let again = match exc_info {
            Some(info) => info.is_truthy()?,
            None => false,
        };
        let mut this = slf.borrow_mut();
        match &this.stage {
            Stage::Fresh => {}
            Stage::Headed(_) if again => {}
            Stage::Body { .. } | Stage::Over if again => {
                drop(this);
                return Err(reraised(exc_info));
            }
            Stage::Python(pure) => {
                let pure = pure.clone_ref(py);
                drop(this);
                return pure
                    .bind(py)
                    .call_method1(intern!(py, "start_response"), (status, headers, exc_info));
            }
            Stage::Headed(_) | Stage::Body { .. } | Stage::Over => {
                return Err(PyRuntimeError::new_err(
                    "start_response was called a second time without exc_info",
                ));
            }
        }
        match head_of(status, headers) {
            Ok(head) => {
                this.stage = Stage::Headed(head);
                this.said = Some((status.clone().unbind(), headers.clone().unbind()));
            }
            Err(Unusual) => {
                this.stage = Stage::Fresh;
                this.said = None;
                let pure = this.go_on_in_python(py)?;
                drop(this);
                pure.call_method1(intern!(py, "start_response"), (status, headers, exc_info))?;
            }
        }
        slf.getattr(intern!(py, "write"))
    }

    /// A piece of the body, sent at once.
    fn write(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut this = slf.borrow_mut();
        if let Stage::Python(pure) = &this.stage {
            let pure = pure.clone_ref(slf.py());
            drop(this);
            return pure.bind(slf.py()).call_method1(intern!(slf.py(), "write"), (data,)).map(drop);
        }
        this.write_piece(data)
    }

    /// `wsgi.early_hints`: 103 Early Hints; what would come too late, or is too much, is dropped.
    fn hint(slf: &Bound<'_, Self>, headers: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let mut this = slf.borrow_mut();
        match &this.stage {
            Stage::Python(pure) => {
                let pure = pure.clone_ref(py);
                drop(this);
                return pure.bind(py).call_method1(intern!(py, "hint"), (headers,)).map(drop);
            }
            Stage::Fresh | Stage::Headed(_) if this.informed < INFORMATIONAL_MAX => {}
            _ => return Ok(()),
        }
        this.informed += 1;
        let head = names::informational(py)?.call1((intern!(py, "103 Early Hints"), headers))?;
        this.send(py, head.cast::<PyBytes>()?.as_bytes())
    }
}

impl Response {
    /// Goes on in Python; nothing of the response was written yet.
    fn go_on_in_python<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let channel = self.channel.bind(py);
        let meta = channel.borrow().wire().map(|wire| PyBytes::new(py, wire.bytes(&self.entry.meta)));
        let pure = names::response(py)?.call1((
            channel,
            self.entry.connection,
            self.entry.request,
            self.to.as_ref().map_or(-1, |to| to.as_raw_fd()),
            self.entry.flags.bits(),
            meta,
        ))?;
        pure.call_method1(intern!(py, "go_on"), (self.informed, self.tail.take()))?;
        if let Some((status, headers)) = self.said.take() {
            pure.call_method1(intern!(py, "start_response"), (status, headers))?;
        }
        self.stage = Stage::Python(pure.clone().unbind());
        Ok(pure)
    }

    /// A body that is all of the response.
    fn whole(&mut self, body: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = body.py();
        let (Stage::Headed(head), Ok(bytes)) = (&self.stage, body.cast::<PyBytes>()) else {
            return self.go_on_in_python(py)?.call_method1(intern!(py, "whole"), (body,)).map(drop);
        };
        let bytes = bytes.as_bytes();
        let length = bytes.len() as u64;
        if head.is_bodiless(self.entry.flags) || head.length.is_some_and(|stated| stated != length) {
            return self.go_on_in_python(py)?.call_method1(intern!(py, "whole"), (body,)).map(drop);
        }
        self.status = head.status;
        let mut out = Vec::with_capacity(if bytes.len() <= JOIN_BYTES_MAX { 512 + bytes.len() } else { 512 });
        head.write(&mut out, Framing::Length(length), self.entry.flags, self.anonymous, |out| {
            append_date(py, out)
        });
        self.stage = Stage::Over;
        self.send_both(py, out, bytes)?;
        self.body_bytes = length;
        self.outcome = Outcome::Clean;
        Ok(())
    }

    fn write_piece(&mut self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = data.py();
        let Ok(bytes) = data.cast::<PyBytes>() else {
            let kind = data.get_type().name()?;
            return Err(PyTypeError::new_err(format!("the application wrote {kind}, not bytes")));
        };
        let bytes = bytes.as_bytes();
        if bytes.is_empty() {
            return Ok(());
        }
        let mut out = Vec::new();
        if let Stage::Headed(head) = &self.stage {
            let framing = match head.length {
                _ if head.is_bodiless(self.entry.flags) => None,
                Some(length) => Some(Framing::Length(length)),
                None if self.entry.flags.http10 => None,
                None => Some(Framing::Chunks),
            };
            let Some(framing) = framing else {
                return self.go_on_in_python(py)?.call_method1(intern!(py, "write"), (data,)).map(drop);
            };
            head.write(&mut out, framing, self.entry.flags, self.anonymous, |out| append_date(py, out));
            self.status = head.status;
            self.stage = Stage::Body { left: head.length };
        }
        match self.stage {
            Stage::Body { left: Some(left) } => {
                let taken = bytes.get(..usize::try_from(left).unwrap_or(usize::MAX)).unwrap_or(bytes);
                self.stage = Stage::Body { left: Some(left - taken.len() as u64) };
                self.send_both(py, out, taken)?;
                self.body_bytes += taken.len() as u64;
                if taken.len() < bytes.len() {
                    return Err(PyValueError::new_err("the application writes more bytes than it stated"));
                }
                Ok(())
            }
            Stage::Body { left: None } => {
                out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
                self.send_chunk(py, out, bytes)?;
                self.body_bytes += bytes.len() as u64;
                Ok(())
            }
            Stage::Fresh => Err(PyRuntimeError::new_err("the application did not call start_response")),
            _ => Err(PyRuntimeError::new_err("the application writes to a response that is over")),
        }
    }

    fn send_chunk(&mut self, py: Python<'_>, mut out: Vec<u8>, data: &[u8]) -> PyResult<()> {
        if data.len() <= JOIN_BYTES_MAX {
            out.extend_from_slice(data);
            out.extend_from_slice(b"\r\n");
            return self.send(py, &out);
        }
        self.send_both(py, out, data)?;
        self.send(py, b"\r\n")
    }

    /// All pieces were written.
    fn end(&mut self, py: Python<'_>) -> PyResult<()> {
        match self.stage {
            Stage::Fresh | Stage::Headed(_) => self.whole(PyBytes::new(py, b"").as_any()),
            Stage::Body { left: None } => {
                self.stage = Stage::Over;
                self.send(py, b"0\r\n\r\n")?;
                self.outcome = Outcome::Clean;
                Ok(())
            }
            Stage::Body { left: Some(0) } => {
                self.stage = Stage::Over;
                self.outcome = Outcome::Clean;
                Ok(())
            }
            Stage::Body { left: Some(left) } => {
                let text = format!("the application did not write {left} of the bytes that it stated");
                Err(PyValueError::new_err(text))
            }
            Stage::Over | Stage::Python(_) => Ok(()),
        }
    }

    fn send_both(&mut self, py: Python<'_>, mut out: Vec<u8>, data: &[u8]) -> PyResult<()> {
        if data.len() <= JOIN_BYTES_MAX {
            out.extend_from_slice(data);
            return self.send(py, &out);
        }
        let mut sent = 0;
        if self.tail.is_none() {
            sent = taken(py, self.to.as_deref(), |to| {
                rustix::io::writev(to, &[IoSlice::new(&out), IoSlice::new(data)])
            })?;
        }
        for piece in [out.as_slice(), data] {
            let rest = piece.get(sent..).unwrap_or_default();
            sent = sent.saturating_sub(piece.len());
            if !rest.is_empty() {
                self.leave(py, rest)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        let mut sent = 0;
        if self.tail.is_none() {
            sent = taken(py, self.to.as_deref(), |to| rustix::io::write(to, data))?;
        }
        match data.get(sent..) {
            Some(rest) if !rest.is_empty() => self.leave(py, rest),
            _ => Ok(()),
        }
    }

    /// What the socket did not take.
    fn leave(&mut self, py: Python<'_>, rest: &[u8]) -> PyResult<()> {
        let tail = match &self.tail {
            Some(tail) => tail.clone_ref(py),
            None => {
                let channel = self.channel.bind(py);
                let number = self.to.as_ref().map_or(-1, |to| to.as_raw_fd());
                let tail = names::tail(py)?.call1((
                    channel,
                    self.entry.connection,
                    self.entry.request,
                    number,
                    true,
                ))?;
                self.tail.insert(tail.unbind()).clone_ref(py)
            }
        };
        tail.bind(py).call_method1(intern!(py, "write"), (PyBytes::new(py, rest),)).map(drop)
    }
}

/// How many bytes a full, or ready, socket took. Raises ClientGone.
fn taken(
    py: Python<'_>,
    to: Option<&OwnedFd>,
    mut write: impl FnMut(&OwnedFd) -> Result<usize, Errno>,
) -> PyResult<usize> {
    let Some(to) = to else { return Err(names::gone(py)) };
    loop {
        match write(to) {
            Ok(sent) => return Ok(sent),
            Err(Errno::AGAIN) => return Ok(0),
            Err(Errno::INTR) => {}
            Err(_) => return Err(names::gone(py)),
        }
    }
}

/// What the application hands on when its response has begun.
fn reraised(exc_info: Option<&Bound<'_, PyAny>>) -> PyErr {
    let error = exc_info.ok_or_else(|| PyTypeError::new_err("no exc_info")).and_then(|info| info.get_item(1));
    match error {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

fn head_of(status: &Bound<'_, PyAny>, headers: &Bound<'_, PyAny>) -> Result<Head, Unusual> {
    let mut head = Head::begin(latin1(status).ok_or(Unusual)?.as_bytes())?;
    let headers = headers.cast_exact::<PyList>().map_err(|_| Unusual)?;
    for pair in headers.iter() {
        let pair = pair.cast_into::<PyTuple>().map_err(|_| Unusual)?;
        if pair.len() != 2 {
            return Err(Unusual);
        }
        let name = pair.get_item(0).ok().and_then(|name| latin1(&name)).ok_or(Unusual)?;
        let value = pair.get_item(1).ok().and_then(|value| latin1(&value)).ok_or(Unusual)?;
        head.field(name.as_bytes(), value.as_bytes())?;
    }
    Ok(head)
}

/// Answers one request, and reports it. What the application raises is its log's.
pub(crate) fn answer(
    channel: &Bound<'_, Channel>,
    application: &Bound<'_, PyAny>,
    entry: Entry,
    to: Arc<OwnedFd>,
) -> PyResult<()> {
    let py = channel.py();
    let (connection, request) = (entry.connection, entry.request);
    let environ = {
        let mut this = channel.borrow_mut();
        let Some((wire, environs)) = this.wire_and_environs() else {
            return Err(PyRuntimeError::new_err("the channel is closed"));
        };
        environs.build(
            py,
            Parts {
                meta: wire.bytes(&entry.meta),
                head: wire.bytes(&entry.head),
                body: wire.bytes(&entry.body),
                body_file: entry.body_file.as_ref().map(AsRawFd::as_raw_fd),
                http10: entry.flags.http10,
            },
        )?
    };
    let response = Bound::new(
        py,
        Response {
            channel: channel.clone().unbind(),
            to: Some(to),
            entry,
            anonymous: environ.anonymous,
            stage: Stage::Fresh,
            said: None,
            tail: None,
            informed: 0,
            outcome: Outcome::Broken,
            status: 0,
            body_bytes: 0,
        },
    )?;
    if environ.hints {
        environ
            .variables
            .set_item(intern!(py, "wsgi.early_hints"), response.getattr(intern!(py, "hint"))?)?;
    }
    let run = run(&response, application, &environ.variables);
    drop(environ);
    let (outcome, status, body_bytes) = finish(&response, run)?;
    Channel::end_request(channel, connection, request, outcome, status, body_bytes);
    Ok(())
}

fn run(
    response: &Bound<'_, Response>,
    application: &Bound<'_, PyAny>,
    environ: &Bound<'_, pyo3::types::PyDict>,
) -> PyResult<()> {
    let py = response.py();
    let result = application.call1((environ, response))?;
    let in_python = matches!(response.borrow().stage, Stage::Python(_));
    let is_list = result.is_exact_instance_of::<PyList>() || result.is_exact_instance_of::<PyTuple>();
    if is_list && !in_python {
        return give_list(response, &result);
    }
    let given = give_other(response, &result);
    let close = result.getattr_opt(intern!(py, "close"))?;
    let closed = match close {
        Some(close) if !close.is_none() => close.call0().map(drop),
        _ => Ok(()),
    };
    // What failed first is what went wrong.
    given.and(closed)
}

/// A result whose pieces are all there.
fn give_list(response: &Bound<'_, Response>, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = response.py();
    let has_begun = !matches!(response.borrow().stage, Stage::Fresh | Stage::Headed(_));
    if let (false, 1) = (has_begun, result.len()?) {
        return response.borrow_mut().whole(&result.get_item(0)?);
    }
    if has_begun {
        return give_other(response, result);
    }
    let joined = PyBytes::new(py, b"").call_method1(intern!(py, "join"), (result,))?;
    response.borrow_mut().whole(&joined)
}

/// A result that is asked for its pieces.
fn give_other(response: &Bound<'_, Response>, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = response.py();
    let is_file = result.get_type().is(names::file_wrapper(py)?);
    if is_file || matches!(response.borrow().stage, Stage::Python(_)) {
        let pure = {
            let mut this = response.borrow_mut();
            match &this.stage {
                Stage::Python(pure) => Some(pure.clone_ref(py).into_bound(py)),
                Stage::Fresh | Stage::Headed(_) => Some(this.go_on_in_python(py)?),
                Stage::Body { .. } | Stage::Over => None,
            }
        };
        if let Some(pure) = pure {
            return names::give(py)?.call1((pure, result)).map(drop);
        }
    }
    let has_begun = !matches!(response.borrow().stage, Stage::Fresh | Stage::Headed(_));
    let pieces = result.try_iter()?;
    if !has_begun && is_one(result) {
        return match pieces.into_iter().next() {
            Some(piece) => response.borrow_mut().whole(&piece?),
            None => response.borrow_mut().end(py),
        };
    }
    for piece in pieces {
        Response::write(response, &piece?)?;
    }
    let stage = match &response.borrow().stage {
        Stage::Python(pure) => Some(pure.clone_ref(py)),
        _ => None,
    };
    match stage {
        Some(pure) => pure.bind(py).call_method0(intern!(py, "end")).map(drop),
        None => response.borrow_mut().end(py),
    }
}

/// Whether a result says that it is one piece.
fn is_one(result: &Bound<'_, PyAny>) -> bool {
    if result.get_type().getattr_opt(intern!(result.py(), "__len__")).ok().flatten().is_none() {
        return false;
    }
    result.len().is_ok_and(|length| length == 1)
}

/// Leaves the rest to Maitred, and says how the response has ended.
fn finish(response: &Bound<'_, Response>, run: PyResult<()>) -> PyResult<(Outcome, u16, u64)> {
    let py = response.py();
    let mut this = response.borrow_mut();
    if run.is_ok() && this.tail.is_none() && !matches!(this.stage, Stage::Python(_)) {
        this.stage = Stage::Over;
        this.to = None;
        return Ok((this.outcome, this.status, this.body_bytes));
    }
    if run.is_err() && matches!(this.stage, Stage::Fresh | Stage::Headed(_)) {
        // The response of a failure is Python's.
        this.said = None;
        this.go_on_in_python(py)?;
    }
    let head =
        this.channel.bind(py).borrow().wire().map(|wire| PyBytes::new(py, wire.bytes(&this.entry.head)));
    let error = run.err().map(|error| error.into_value(py));
    let pure = match std::mem::replace(&mut this.stage, Stage::Over) {
        Stage::Python(pure) => Some(pure),
        _ => None,
    };
    let (tail, mut outcome, mut status, mut body_bytes) =
        (this.tail.take(), this.outcome, this.status, this.body_bytes);
    drop(this);
    let settled = names::settle(py)?.call1((pure, tail, error, head))?;
    response.borrow_mut().to = None;
    if let Ok((flags, said, bytes)) = settled.extract::<(u8, u16, u64)>() {
        outcome = match flags {
            1 => Outcome::Clean,
            2 => Outcome::Close,
            _ => Outcome::Broken,
        };
        (status, body_bytes) = (said, bytes);
    } else if settled.is_none() {
        // The rest could not be left to Maitred.
        outcome = Outcome::Broken;
    }
    Ok((outcome, status, body_bytes))
}

/// Text of an application, as ISO 8859-1. `None` for what is no text, or has other characters.
fn latin1<'py>(text: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    let text = text.cast::<PyString>().ok()?;
    crate::raw::latin1(text)
}
