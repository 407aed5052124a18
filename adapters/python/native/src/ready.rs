//! What `receive` and `send` return where there is nothing to wait for: awaited, it has its value at once.

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;

/// A coroutine that never waits.
#[pyclass(module = "maitred._native", name = "Ready", frozen)]
#[derive(Debug)]
pub(crate) struct Ready {
    value: Option<Py<PyAny>>,
}

impl Ready {
    /// One whose value is None may be awaited again and again.
    pub(crate) fn with(value: Option<Py<PyAny>>) -> Self {
        Self { value }
    }
}

// All methods of collections.abc.Coroutine, so that `asyncio.create_task(receive())` works as with a coroutine.
#[pymethods]
impl Ready {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// The end of the iteration, whose value is that of the `await`.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match &self.value {
            Some(value) => Err(PyStopIteration::new_err((value.clone_ref(py),))),
            None => Ok(None),
        }
    }

    fn send(&self, py: Python<'_>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = self.value.as_ref().map(|value| value.clone_ref(py));
        Err(PyStopIteration::new_err((value,)))
    }

    /// Raises what is thrown, as a coroutine does that has not begun.
    #[pyo3(signature = (kind, value = None, _traceback = None))]
    fn throw(
        &self,
        kind: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        Err(PyErr::from_value(match value {
            Some(value) if !value.is_none() => value.clone(),
            _ => kind.clone(),
        }))
    }

    fn close(&self) {}
}
