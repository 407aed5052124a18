//! Scopes of ASGI, in the form that `maitred.asgi_http` gives them.

use foldhash::HashMap;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::parse::{Fields, is_anonymous, split_head, split_line, split_own, unquoted, without_queue_time};
use crate::raw::text_of;

const CACHED_BLOCK_BYTES_MAX: usize = 2048;
const CACHE_ENTRIES_MAX: usize = 256;

/// The common part of requests with one meta part.
#[derive(Debug)]
struct Base {
    scope: Py<PyDict>,
    /// Dictionaries that each scope has of its own.
    asgi: Py<PyDict>,
    extensions: Py<PyDict>,
    mount: String,
    meta: Py<PyBytes>,
    anonymous: bool,
}

/// Parts that repeat from request to request.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    bases: HashMap<Vec<u8>, Base>,
    blocks: HashMap<Vec<u8>, Py<PyTuple>>,
}

/// A scope, and what else is kept of its request.
#[derive(Debug)]
pub(crate) struct Scope<'py> {
    pub(crate) scope: Bound<'py, PyDict>,
    pub(crate) meta: Py<PyBytes>,
    pub(crate) anonymous: bool,
}

impl Scopes {
    /// A new scope of HTTP. `base_of` makes what is kept of a meta part.
    pub(crate) fn build<'py>(
        &mut self,
        py: Python<'py>,
        base_of: &Bound<'py, PyAny>,
        meta: &[u8],
        head: &[u8],
        http10: bool,
    ) -> PyResult<Scope<'py>> {
        let (line, block) = split_head(head);
        let (block, own) = split_own(block);
        let headers = self.headers(py, block)?;
        append_pairs(py, &headers, own)?;
        let Some((method, target)) = split_line(line) else {
            return Err(pyo3::exceptions::PyValueError::new_err("a request line that is none"));
        };
        let at = memchr::memchr(b'?', target);
        let (raw_path, query) = target.split_at_checked(at.unwrap_or(target.len())).unwrap_or((target, b""));
        let decoded = unquoted(raw_path);
        let path = String::from_utf8_lossy(&decoded);
        let base = self.base(py, base_of, meta)?;
        let scope = base.scope.bind(py).copy()?;
        scope.set_item(intern!(py, "asgi"), base.asgi.bind(py).copy()?)?;
        scope.set_item(intern!(py, "extensions"), base.extensions.bind(py).copy()?)?;
        if http10 {
            scope.set_item(intern!(py, "http_version"), intern!(py, "1.0"))?;
        }
        match method {
            b"GET" => scope.set_item(intern!(py, "method"), intern!(py, "GET"))?,
            b"POST" => scope.set_item(intern!(py, "method"), intern!(py, "POST"))?,
            _ => scope.set_item(intern!(py, "method"), text_of(py, method)?)?,
        }
        if !base.mount.is_empty() && !is_below(&path, &base.mount) {
            scope.set_item(intern!(py, "root_path"), intern!(py, ""))?;
        }
        scope.set_item(intern!(py, "path"), PyString::new(py, &path))?;
        scope.set_item(intern!(py, "raw_path"), PyBytes::new(py, raw_path))?;
        scope.set_item(intern!(py, "query_string"), PyBytes::new(py, query.get(1..).unwrap_or_default()))?;
        scope.set_item(intern!(py, "headers"), headers)?;
        Ok(Scope { scope, meta: base.meta.clone_ref(py), anonymous: base.anonymous })
    }

    fn base<'py>(&mut self, py: Python<'py>, base_of: &Bound<'py, PyAny>, meta: &[u8]) -> PyResult<&Base> {
        let meta = without_queue_time(meta);
        if !self.bases.contains_key(meta) {
            let kept = PyBytes::new(py, meta);
            let found = base_of.call1((&kept,))?;
            let (scope, asgi, extensions, mount) =
                found.extract::<(Py<PyDict>, Py<PyDict>, Py<PyDict>, String)>()?;
            let anonymous = is_anonymous(meta);
            if self.bases.len() >= CACHE_ENTRIES_MAX {
                self.bases.clear();
            }
            let base = Base { scope, asgi, extensions, mount, meta: kept.unbind(), anonymous };
            self.bases.insert(meta.to_vec(), base);
        }
        self.bases.get(meta).ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("a base is missing"))
    }

    /// A list of its own of the pairs that repeat.
    fn headers<'py>(&mut self, py: Python<'py>, block: &[u8]) -> PyResult<Bound<'py, PyList>> {
        if let Some(found) = self.blocks.get(block) {
            return Ok(found.bind(py).to_list());
        }
        let pairs = PyList::empty(py);
        append_pairs(py, &pairs, block)?;
        if block.len() <= CACHED_BLOCK_BYTES_MAX {
            if self.blocks.len() >= CACHE_ENTRIES_MAX {
                self.blocks.clear();
            }
            self.blocks.insert(block.to_vec(), pairs.to_tuple().unbind());
        }
        Ok(pairs)
    }
}

fn is_below(path: &str, mount: &str) -> bool {
    path.strip_prefix(mount).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Pairs of bytes of lines `name: value`.
fn append_pairs(py: Python<'_>, pairs: &Bound<'_, PyList>, block: &[u8]) -> PyResult<()> {
    for (name, value) in Fields(block) {
        pairs.append((PyBytes::new(py, name), PyBytes::new(py, value)))?;
    }
    Ok(())
}
