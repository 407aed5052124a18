//! Environments of WSGI, in the form that `maitred.environ` gives them.

use foldhash::HashMap;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::parse::{
    Fields, is_anonymous, split_head, split_line, split_own, unquoted, variable, without_queue_time,
};
use crate::raw::text_of;

/// As in `maitred.environ`: blocks of fields are repeated word for word.
const CACHED_BLOCK_BYTES_MAX: usize = 2048;
const CACHE_ENTRIES_MAX: usize = 256;

/// Parts that repeat from request to request.
#[derive(Debug)]
pub(crate) struct Environs {
    /// A `maitred.environ.EnvironBuilder`, for what is made once.
    builder: Py<PyAny>,
    bytes_io: Py<PyAny>,
    bases: HashMap<Vec<u8>, Base>,
    blocks: HashMap<Vec<u8>, Py<PyDict>>,
}

/// The common part of requests with one meta part.
#[derive(Debug)]
struct Base {
    environ: Py<PyDict>,
    mount: Option<Py<PyAny>>,
    hints: bool,
    anonymous: bool,
}

/// The bytes of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) meta: &'a [u8],
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
    /// The descriptor of a body in a file.
    pub(crate) body_file: Option<i32>,
    pub(crate) http10: bool,
}

/// An environment, and what of it the response has to know.
#[derive(Debug)]
pub(crate) struct Environ<'py> {
    pub(crate) variables: Bound<'py, PyDict>,
    /// Set if the client may have informational responses.
    pub(crate) hints: bool,
    /// Set if a response whose application names no server is to have no `Server`.
    pub(crate) anonymous: bool,
}

impl Environs {
    pub(crate) fn new(py: Python<'_>, builder: Py<PyAny>) -> PyResult<Self> {
        let bytes_io = py.import("io")?.getattr("BytesIO")?.unbind();
        Ok(Self { builder, bytes_io, bases: HashMap::default(), blocks: HashMap::default() })
    }

    /// A new environment.
    pub(crate) fn build<'py>(&mut self, py: Python<'py>, parts: Parts<'_>) -> PyResult<Environ<'py>> {
        let base = self.base(py, parts.meta)?;
        let (hints, anonymous) = (base.hints, base.anonymous);
        let mount = base.mount.as_ref().map(|mount| mount.clone_ref(py));
        let variables = base.environ.bind(py).copy()?;
        let (line, block) = split_head(parts.head);
        // The request's number and what follows it come last, and differ each time.
        let (block, own) = split_own(block);
        self.add_block(py, &variables, block, parts)?;
        add_fields(py, &variables, own)?;
        let Some((method, target)) = split_line(line) else {
            return Err(pyo3::exceptions::PyValueError::new_err("a request line that is none"));
        };
        let at = memchr::memchr(b'?', target);
        let (path, query) = target.split_at_checked(at.unwrap_or(target.len())).unwrap_or((target, b""));
        match mount {
            Some(mount) => self.set_below(py, &variables, path, &mount)?,
            None => variables.set_item(intern!(py, "PATH_INFO"), text_of(py, &unquoted(path))?)?,
        }
        match method {
            b"GET" => variables.set_item(intern!(py, "REQUEST_METHOD"), intern!(py, "GET"))?,
            b"POST" => variables.set_item(intern!(py, "REQUEST_METHOD"), intern!(py, "POST"))?,
            _ => variables.set_item(intern!(py, "REQUEST_METHOD"), text_of(py, method)?)?,
        }
        variables.set_item(intern!(py, "QUERY_STRING"), text_of(py, query.get(1..).unwrap_or_default())?)?;
        let target = text_of(py, target)?;
        variables.set_item(intern!(py, "RAW_URI"), &target)?;
        variables.set_item(intern!(py, "REQUEST_URI"), &target)?;
        let input = match parts.body_file {
            None => self.bytes_io.bind(py).call1((PyBytes::new(py, parts.body),))?,
            Some(number) => self.builder.bind(py).call_method1(intern!(py, "file_input"), (number,))?,
        };
        variables.set_item(intern!(py, "wsgi.input"), input)?;
        if parts.http10 {
            variables.set_item(intern!(py, "SERVER_PROTOCOL"), intern!(py, "HTTP/1.0"))?;
        }
        Ok(Environ { variables, hints, anonymous })
    }

    fn base(&mut self, py: Python<'_>, meta: &[u8]) -> PyResult<&Base> {
        // The time in the queue is the last line and differs each time; the rest stays the same for a connection.
        let meta = without_queue_time(meta);
        if !self.bases.contains_key(meta) {
            let environ =
                self.builder.bind(py).call_method1(intern!(py, "base"), (PyBytes::new(py, meta),))?;
            let environ = environ.cast_into::<PyDict>()?;
            let mount = environ.get_item("SCRIPT_NAME")?.filter(|mount| mount.is_truthy().unwrap_or(false));
            let base = Base {
                mount: mount.map(Bound::unbind),
                hints: environ.contains("wsgi.early_hints")?,
                anonymous: is_anonymous(meta),
                environ: environ.unbind(),
            };
            if self.bases.len() >= CACHE_ENTRIES_MAX {
                self.bases.clear();
            }
            self.bases.insert(meta.to_vec(), base);
        }
        self.bases.get(meta).ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("a base is missing"))
    }

    /// The variables of the fields that repeat.
    fn add_block(
        &mut self,
        py: Python<'_>,
        variables: &Bound<'_, PyDict>,
        block: &[u8],
        parts: Parts<'_>,
    ) -> PyResult<()> {
        if let Some(found) = self.blocks.get(block) {
            return variables.update(found.bind(py).as_mapping());
        }
        if block.len() > CACHED_BLOCK_BYTES_MAX || !parts.body.is_empty() || parts.body_file.is_some() {
            return add_fields(py, variables, block);
        }
        let fields = PyDict::new(py);
        add_fields(py, &fields, block)?;
        variables.update(fields.as_mapping())?;
        if self.blocks.len() >= CACHE_ENTRIES_MAX {
            self.blocks.clear();
        }
        self.blocks.insert(block.to_vec(), fields.unbind());
        Ok(())
    }

    /// Path and script name below the mount of the application.
    fn set_below(
        &self,
        py: Python<'_>,
        variables: &Bound<'_, PyDict>,
        path: &[u8],
        mount: &Py<PyAny>,
    ) -> PyResult<()> {
        let found = self.builder.bind(py).call_method1(intern!(py, "below"), (text_of(py, path)?, mount))?;
        let (path, script): (Bound<'_, PyAny>, Bound<'_, PyAny>) = found.extract()?;
        variables.set_item(intern!(py, "PATH_INFO"), path)?;
        variables.set_item(intern!(py, "SCRIPT_NAME"), script)
    }
}

/// `HTTP_*` and `CONTENT_*` of lines `name: value`.
fn add_fields(py: Python<'_>, variables: &Bound<'_, PyDict>, block: &[u8]) -> PyResult<()> {
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for (name, value) in Fields(block) {
        // x_forwarded_for and x-forwarded-for would be the same variable, and the client could choose which one wins.
        if name.is_empty() || name.contains(&b'_') {
            continue;
        }
        let key = variable(name);
        let value = text_of(py, value)?;
        let text = text_of(py, &key)?;
        if !seen.contains(&key) {
            variables.set_item(&text, value)?;
            seen.push(key);
            continue;
        }
        // RFC 9110, section 5.3: repeated fields are one list; RFC 6265, section 5.4: cookies are joined by a semicolon.
        let between = if key == b"HTTP_COOKIE" { "; " } else { ", " };
        if let Some(before) = variables.get_item(&text)? {
            let joined = before.add(between)?.add(value)?;
            variables.set_item(&text, joined)?;
        }
    }
    Ok(())
}
