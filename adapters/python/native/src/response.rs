//! One ordinary request of a WSGI application (PEP 3333), and its response. What is not ordinary goes on as a
//! `maitred.response.Response`, which this object then stands for.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use maitred_handoff::Outcome;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use rustix::io::Errno;

use crate::channel::Channel;
use crate::date::append_date;
use crate::environ::Parts;
use crate::head::{Framing, Head, Unusual};
use crate::names;
use crate::raw::text_of;
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
    /// The head was said, and nothing was written.
    Headed(Head),
    /// Bytes of the body follow: so many, if the length is known; otherwise in chunks.
    Body { left: Option<u64> },
    /// Nothing more may be written.
    Over,
    /// Python is about to go on with it.
    Leaving,
    /// Python goes on with it.
    Python(Py<PyAny>),
}

/// The application's `start_response`.
#[pyclass(module = "maitred._native", name = "Response")]
#[derive(Debug)]
pub(crate) struct Response {
    channel: Py<Channel>,
    /// None when the request is over: an application may keep this object.
    to: Option<Arc<OwnedFd>>,
    entry: Entry,
    anonymous: bool,
    stage: Stage,
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
        if let Some(pure) = Self::in_python(slf) {
            return pure.call_method1(intern!(py, "start_response"), (status, headers, exc_info));
        }
        match &slf.borrow().stage {
            Stage::Fresh => {}
            Stage::Headed(_) if again => {}
            Stage::Body { .. } | Stage::Over if again => return Err(reraised(exc_info)),
            _ => {
                return Err(PyRuntimeError::new_err(
                    "start_response was called a second time without exc_info",
                ));
            }
        }
        match head_of(status, headers) {
            Ok(head) => slf.borrow_mut().stage = Stage::Headed(head),
            Err(Unusual) => {
                Self::go_on_in_python(slf)?
                    .call_method1(intern!(py, "start_response"), (status, headers, exc_info))?;
            }
        }
        slf.getattr(intern!(py, "write"))
    }

    /// A piece of the body, sent at once.
    fn write(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        if let Some(pure) = Self::in_python(slf) {
            return pure.call_method1(intern!(py, "write"), (data,)).map(drop);
        }
        let Ok(bytes) = data.cast::<PyBytes>() else {
            let kind = data.get_type().name()?;
            return Err(PyTypeError::new_err(format!("the application wrote {kind}, not bytes")));
        };
        let bytes = bytes.as_bytes();
        if bytes.is_empty() {
            return Ok(());
        }
        let piece = slf.borrow_mut().piece(bytes);
        match piece {
            Piece::Of { before, taken, behind } => {
                Self::send(slf, &[&before, taken, behind], None)?;
                slf.borrow_mut().body_bytes += taken.len() as u64;
                if taken.len() < bytes.len() {
                    return Err(PyValueError::new_err("the application writes more bytes than it stated"));
                }
                Ok(())
            }
            Piece::Unusual => {
                Self::go_on_in_python(slf)?.call_method1(intern!(py, "write"), (data,)).map(drop)
            }
            Piece::Wrong(why) => Err(PyRuntimeError::new_err(why)),
        }
    }

    /// `wsgi.early_hints`: 103 Early Hints; what would come too late, or is too much, is dropped.
    fn hint(slf: &Bound<'_, Self>, headers: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        if let Some(pure) = Self::in_python(slf) {
            return pure.call_method1(intern!(py, "hint"), (headers,)).map(drop);
        }
        {
            let mut this = slf.borrow_mut();
            if !this.may_inform() || this.informed >= INFORMATIONAL_MAX {
                return Ok(());
            }
            this.informed += 1;
        }
        let head = names::informational(py)?.call1((intern!(py, "103 Early Hints"), headers))?;
        // The iterator of the fields is the application's: by now the response may have begun.
        if !slf.borrow().may_inform() {
            return Ok(());
        }
        Self::send(slf, &[head.cast::<PyBytes>()?.as_bytes()], None)
    }
}

/// The fate of a piece of a body.
enum Piece<'a> {
    /// Bytes, what stands before them, and what behind them.
    Of { before: Vec<u8>, taken: &'a [u8], behind: &'static [u8] },
    /// The piece is Python's.
    Unusual,
    /// There is no place for it.
    Wrong(&'static str),
}

// Code of the application may run whenever Python does, and come back here: a hash, an iterator, a finalizer, a signal's handler,
// another thread. So nothing is borrowed then.
impl Response {
    fn in_python<'py>(slf: &Bound<'py, Self>) -> Option<Bound<'py, PyAny>> {
        match &slf.borrow().stage {
            Stage::Python(pure) => Some(pure.clone_ref(slf.py()).into_bound(slf.py())),
            _ => None,
        }
    }

    fn may_inform(&self) -> bool {
        matches!(self.stage, Stage::Fresh | Stage::Headed(_))
    }

    /// Goes on in Python; nothing of the response was written yet.
    fn go_on_in_python<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if let Some(pure) = Self::in_python(slf) {
            return Ok(pure);
        }
        let mut this = slf.borrow_mut();
        let head = match std::mem::replace(&mut this.stage, Stage::Leaving) {
            Stage::Fresh => None,
            Stage::Headed(head) => Some(head),
            other => {
                this.stage = other;
                return Err(PyRuntimeError::new_err("the application writes to a response that is over"));
            }
        };
        let channel = this.channel.clone_ref(py).into_bound(py);
        let (connection, request, flags) =
            (this.entry.connection, this.entry.request, this.entry.flags.bits());
        let number = this.to.as_ref().map_or(-1, |to| to.as_raw_fd());
        let meta = channel.borrow().wire().map(|wire| PyBytes::new(py, wire.bytes(&this.entry.meta)));
        let (informed, tail) = (this.informed, this.tail.take());
        drop(this);
        let pure = names::response(py)?.call1((channel, connection, request, number, flags, meta))?;
        pure.call_method1(intern!(py, "go_on"), (informed, tail))?;
        if let Some(head) = head {
            let (status, fields) = said(py, &head)?;
            pure.call_method1(intern!(py, "start_response"), (status, fields))?;
        }
        slf.borrow_mut().stage = Stage::Python(pure.clone().unbind());
        Ok(pure)
    }

    /// A body that is all of the response.
    fn whole(slf: &Bound<'_, Self>, body: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = body.py();
        let bytes = body.cast::<PyBytes>().map(|bytes| bytes.as_bytes());
        let out = bytes.ok().and_then(|bytes| Some((slf.borrow_mut().head_of_whole(bytes)?, bytes)));
        let Some((out, bytes)) = out else {
            return Self::go_on_in_python(slf)?.call_method1(intern!(py, "whole"), (body,)).map(drop);
        };
        Self::send(slf, &[&out, bytes], Some(body))?;
        let mut this = slf.borrow_mut();
        this.body_bytes = bytes.len() as u64;
        this.outcome = Outcome::Clean;
        Ok(())
    }

    /// None if the response is Python's.
    fn head_of_whole(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let Stage::Headed(head) = &self.stage else { return None };
        let length = bytes.len() as u64;
        if head.is_bodiless(self.entry.flags) || head.length.is_some_and(|stated| stated != length) {
            return None;
        }
        self.status = head.status;
        let mut out = Vec::with_capacity(if bytes.len() <= JOIN_BYTES_MAX { 512 + bytes.len() } else { 512 });
        head.write(&mut out, Framing::Length(length), self.entry.flags, self.anonymous, append_date);
        self.stage = Stage::Over;
        Some(out)
    }

    fn piece<'a>(&mut self, bytes: &'a [u8]) -> Piece<'a> {
        let mut before = Vec::new();
        if let Stage::Headed(head) = &self.stage {
            let framing = match head.length {
                _ if head.is_bodiless(self.entry.flags) => None,
                Some(length) => Some(Framing::Length(length)),
                None if self.entry.flags.http10 => None,
                None => Some(Framing::Chunks),
            };
            let Some(framing) = framing else { return Piece::Unusual };
            head.write(&mut before, framing, self.entry.flags, self.anonymous, append_date);
            self.status = head.status;
            self.stage = Stage::Body { left: head.length };
        }
        match &mut self.stage {
            Stage::Body { left: Some(left) } => {
                let taken = bytes.get(..usize::try_from(*left).unwrap_or(usize::MAX)).unwrap_or(bytes);
                *left -= taken.len() as u64;
                Piece::Of { before, taken, behind: b"" }
            }
            Stage::Body { left: None } => {
                before.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
                Piece::Of { before, taken: bytes, behind: b"\r\n" }
            }
            Stage::Fresh => Piece::Wrong("the application did not call start_response"),
            _ => Piece::Wrong("the application writes to a response that is over"),
        }
    }

    /// All pieces were written.
    fn end(slf: &Bound<'_, Self>) -> PyResult<()> {
        let mut this = slf.borrow_mut();
        match this.stage {
            Stage::Fresh | Stage::Headed(_) => {
                drop(this);
                Self::whole(slf, PyBytes::new(slf.py(), b"").as_any())
            }
            Stage::Body { left: None } => {
                this.stage = Stage::Over;
                drop(this);
                Self::send(slf, &[b"0\r\n\r\n"], None)?;
                slf.borrow_mut().outcome = Outcome::Clean;
                Ok(())
            }
            Stage::Body { left: Some(0) } => {
                this.stage = Stage::Over;
                this.outcome = Outcome::Clean;
                Ok(())
            }
            Stage::Body { left: Some(left) } => {
                let text = format!("the application did not write {left} of the bytes that it stated");
                Err(PyValueError::new_err(text))
            }
            Stage::Over | Stage::Leaving | Stage::Python(_) => Ok(()),
        }
    }

    /// Sends all pieces; what the socket does not take is kept. If nothing follows, `last` is the object of the last piece, which
    /// is not copied then.
    fn send(slf: &Bound<'_, Self>, pieces: &[&[u8]], last: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let py = slf.py();
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        if total == 0 {
            return Ok(());
        }
        let (tail, mut sent) = {
            let this = slf.borrow();
            match &this.tail {
                Some(tail) => (Some(tail.clone_ref(py)), Ok(0)),
                None => (None, taken(this.to.as_deref(), pieces, total)),
            }
        };
        if let Err(()) = sent {
            return Err(names::gone(py));
        }
        if sent == Ok(total) {
            return Ok(());
        }
        let tail = match tail {
            Some(tail) => tail,
            None => Self::make_tail(slf)?,
        };
        for (number, piece) in pieces.iter().enumerate() {
            let at = sent.unwrap_or(0);
            let rest = piece.get(at..).unwrap_or_default();
            sent = Ok(at.saturating_sub(piece.len()));
            if rest.is_empty() {
                continue;
            }
            match last.filter(|_| number + 1 == pieces.len()) {
                Some(last) => {
                    tail.bind(py).call_method1(intern!(py, "last"), (last, at, piece.len()))?;
                }
                None => {
                    tail.bind(py).call_method1(intern!(py, "write"), (PyBytes::new(py, rest),))?;
                }
            }
        }
        Ok(())
    }

    /// The object that keeps the bytes that the socket does not take.
    fn make_tail(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let arguments = {
            let this = slf.borrow();
            let number = this.to.as_ref().map_or(-1, |to| to.as_raw_fd());
            (this.channel.clone_ref(py), this.entry.connection, this.entry.request, number, true)
        };
        let tail = names::tail(py)?.call1(arguments)?.unbind();
        let before = slf.borrow_mut().tail.replace(tail.clone_ref(py));
        drop(before);
        Ok(tail)
    }
}

/// How many bytes a full, or ready, socket took; an error if the client has gone.
fn taken(to: Option<&OwnedFd>, pieces: &[&[u8]], total: usize) -> Result<usize, ()> {
    let Some(to) = to else { return Err(()) };
    loop {
        let sent = if let [piece] = pieces {
            rustix::io::write(to, piece)
        } else if total <= JOIN_BYTES_MAX {
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

/// Status and fields as the application said them.
fn said<'py>(py: Python<'py>, head: &Head) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyList>)> {
    let fields = PyList::empty(py);
    for (name, value) in head.fields() {
        fields.append((text_of(py, name)?, text_of(py, value)?))?;
    }
    if let Some(length) = head.length {
        fields.append((intern!(py, "Content-Length"), length.to_string()))?;
    }
    Ok((text_of(py, head.status_line())?, fields))
}

/// The exception that the application hands on when its response has begun.
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
    let response = Bound::new(
        py,
        Response {
            channel: channel.clone().unbind(),
            to: Some(to),
            entry,
            anonymous: false,
            stage: Stage::Fresh,
            tail: None,
            informed: 0,
            outcome: Outcome::Broken,
            status: 0,
            body_bytes: 0,
        },
    )?;
    let run = match environ_of(channel, &response) {
        Ok(environ) => run(&response, application, &environ),
        Err(error) => Err(error),
    };
    let (outcome, status, body_bytes) = finish(&response, run)?;
    Channel::end_request(channel, connection, request, outcome, status, body_bytes);
    Ok(())
}

fn environ_of<'py>(
    channel: &Bound<'py, Channel>,
    response: &Bound<'py, Response>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = channel.py();
    let (wire, mut environs) = channel.borrow_mut().take_for_environ()?;
    let built = {
        let this = response.borrow();
        let entry = &this.entry;
        let ranges = [entry.meta.clone(), entry.head.clone(), entry.body.clone()];
        let (file, http10) = (entry.body_file.as_ref().map(AsRawFd::as_raw_fd), entry.flags.http10);
        drop(this);
        let [meta, head, body] = ranges.each_ref().map(|range| wire.bytes(range));
        environs.build(py, Parts { meta, head, body, body_file: file, http10 })
    };
    channel.borrow_mut().put_back(wire, environs);
    let environ = built?;
    response.borrow_mut().anonymous = environ.anonymous;
    if environ.hints {
        environ
            .variables
            .set_item(intern!(py, "wsgi.early_hints"), response.getattr(intern!(py, "hint"))?)?;
    }
    Ok(environ.variables)
}

fn run(
    response: &Bound<'_, Response>,
    application: &Bound<'_, PyAny>,
    environ: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let py = response.py();
    let result = application.call1((environ, response))?;
    let is_list = result.is_exact_instance_of::<PyList>() || result.is_exact_instance_of::<PyTuple>();
    if is_list && Response::in_python(response).is_none() {
        return give_list(response, &result);
    }
    let given = give_other(response, &result);
    let closed = match result.getattr_opt(intern!(py, "close")) {
        Ok(Some(close)) if !close.is_none() => close.call0().map(drop),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    match (given, closed) {
        (given, Ok(())) => given,
        (Ok(()), Err(second)) => Err(second),
        (Err(first), Err(second)) => {
            // As `finally` does it.
            let (first, second) = (first.into_value(py), second.into_value(py));
            if !first.is(&second) {
                second.bind(py).setattr(intern!(py, "__context__"), first)?;
            }
            Err(PyErr::from_value(second.into_bound(py).into_any()))
        }
    }
}

/// A result whose pieces are all there.
fn give_list(response: &Bound<'_, Response>, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = response.py();
    if !response.borrow().may_inform() {
        return give_other(response, result);
    }
    if result.len()? == 1 {
        return Response::whole(response, &result.get_item(0)?);
    }
    let joined = PyBytes::new(py, b"").call_method1(intern!(py, "join"), (result,))?;
    Response::whole(response, &joined)
}

/// A result that is asked for its pieces.
fn give_other(response: &Bound<'_, Response>, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = response.py();
    if result.get_type().is(names::file_wrapper(py)?) && response.borrow().may_inform() {
        Response::go_on_in_python(response)?;
    }
    if let Some(pure) = Response::in_python(response) {
        return names::give(py)?.call1((pure, result)).map(drop);
    }
    if response.borrow().may_inform() && is_one(result)? {
        return match result.try_iter()?.next() {
            Some(piece) => Response::whole(response, &piece?),
            None => Response::end(response),
        };
    }
    for piece in result.try_iter()? {
        Response::write(response, &piece?)?;
    }
    match Response::in_python(response) {
        Some(pure) => pure.call_method0(intern!(py, "end")).map(drop),
        None => Response::end(response),
    }
}

/// True if a result says that it is one piece.
fn is_one(result: &Bound<'_, PyAny>) -> PyResult<bool> {
    // A generator has none, and an exception for that costs.
    if result.get_type().getattr_opt(intern!(result.py(), "__len__"))?.is_none() {
        return Ok(false);
    }
    match result.len() {
        Ok(length) => Ok(length == 1),
        Err(error) if error.is_instance_of::<PyTypeError>(result.py()) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Leaves the rest to Maitred, and says how the response has ended.
fn finish(response: &Bound<'_, Response>, run: PyResult<()>) -> PyResult<(Outcome, u16, u64)> {
    let py = response.py();
    {
        let mut this = response.borrow_mut();
        if run.is_ok() && this.tail.is_none() && !matches!(this.stage, Stage::Python(_)) {
            return Ok(this.close());
        }
        if run.is_err() && this.may_inform() {
            // The response of a failure is Python's, and has nothing of the application's.
            this.stage = Stage::Fresh;
        }
    }
    if matches!(response.borrow().stage, Stage::Fresh) {
        Response::go_on_in_python(response)?;
    }
    let error = run.err().map(|error| error.into_value(py));
    let (pure, tail, head) = {
        let mut this = response.borrow_mut();
        let pure = match std::mem::replace(&mut this.stage, Stage::Over) {
            Stage::Python(pure) => Some(pure),
            _ => None,
        };
        let channel = this.channel.bind(py).borrow();
        let head = channel.wire().map(|wire| PyBytes::new(py, wire.bytes(&this.entry.head)));
        drop(channel);
        (pure, this.tail.take(), head)
    };
    let settled = names::settle(py)?.call1((pure, tail, error, head))?;
    let (mut outcome, mut status, mut body_bytes) = response.borrow_mut().close();
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

impl Response {
    /// The application may keep this object, but not what belongs to the request.
    fn close(&mut self) -> (Outcome, u16, u64) {
        self.stage = Stage::Over;
        self.to = None;
        self.entry.body_file = None;
        (self.outcome, self.status, self.body_bytes)
    }
}

/// Text of an application, as ISO 8859-1. `None` for what is no text, or has other characters.
fn latin1<'py>(text: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    let text = text.cast::<PyString>().ok()?;
    crate::raw::latin1(text)
}
