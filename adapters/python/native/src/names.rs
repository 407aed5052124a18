//! Names of the package `maitred` that this library uses.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::wire::Violation;

/// An attribute of a module of the package, looked up once.
macro_rules! imported {
    ($(#[$text:meta])* $function:ident, $module:literal, $name:literal) => {
        $(#[$text])*
        pub(crate) fn $function(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
            static FOUND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            FOUND.import(py, $module, $name)
        }
    };
}

imported!(
    /// The response of the slow path.
    response,
    "maitred.response",
    "Response"
);
imported!(
    /// The class that keeps bytes that a socket did not take.
    tail,
    "maitred.tail",
    "Tail"
);
imported!(
    /// Raised when the client has gone.
    client_gone,
    "maitred.tail",
    "ClientGone"
);
imported!(
    /// `informational(status, headers)`.
    informational,
    "maitred.head",
    "informational"
);
imported!(
    /// `wsgi.file_wrapper`.
    file_wrapper,
    "maitred.sendfile",
    "FileWrapper"
);
imported!(
    /// `settle(response, error, head)`.
    settle,
    "maitred.native",
    "settle"
);
imported!(
    /// `give(response, result)`.
    give,
    "maitred.wsgi",
    "give"
);

imported!(
    /// Reasons by status.
    phrases,
    "maitred.asgi_http",
    "PHRASES"
);
imported!(
    /// `after_the_end()`.
    after_the_end,
    "maitred.asgi_http",
    "after_the_end"
);

/// The exception of a broken protocol.
pub(crate) fn protocol_error(py: Python<'_>, violation: &Violation) -> PyErr {
    static FOUND: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    match FOUND.import(py, "maitred.frames", "ProtocolError") {
        Ok(kind) => PyErr::from_type(kind.clone(), (violation.to_string(),)),
        Err(error) => error,
    }
}

/// The exception that says that the client has gone.
pub(crate) fn gone(py: Python<'_>) -> PyErr {
    match client_gone(py).and_then(|kind| kind.call0()) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}
