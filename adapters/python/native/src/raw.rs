//! The parts of Python's and the kernel's interfaces that have no safe form.
#![allow(unsafe_code)]

use std::os::fd::{OwnedFd, RawFd};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// Text as ISO 8859-1; `None` if it has other characters.
pub(crate) fn latin1<'py>(text: &Bound<'py, PyString>) -> Option<Bound<'py, PyBytes>> {
    // SAFETY: the argument is a str that lives, and the interpreter is attached; the result is a new reference, or null with an
    // exception.
    let bytes = unsafe {
        Bound::from_owned_ptr_or_opt(text.py(), pyo3::ffi::PyUnicode_AsLatin1String(text.as_ptr()))
    };
    match bytes {
        Some(bytes) => bytes.cast_into::<PyBytes>().ok(),
        None => {
            drop(PyErr::take(text.py()));
            None
        }
    }
}

/// A string of bytes in ISO 8859-1.
pub(crate) fn text_of<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let length = isize::try_from(bytes.len()).unwrap_or(isize::MAX);
    // SAFETY: pointer and length are those of a slice; the result is a new reference, or null with an exception.
    unsafe {
        let text = pyo3::ffi::PyUnicode_DecodeLatin1(bytes.as_ptr().cast(), length, std::ptr::null());
        Bound::from_owned_ptr_or_err(py, text)
    }
}

/// A copy of a descriptor of Python's.
pub(crate) fn duplicate(number: RawFd) -> std::io::Result<OwnedFd> {
    // SAFETY: the caller's descriptor is open for as long as this call; a number that is not is answered with EBADF.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    borrowed.try_clone_to_owned()
}
