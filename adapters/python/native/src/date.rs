//! The field Date.

use std::cell::RefCell;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use rustix::time::{ClockId, clock_gettime};

struct Date {
    second: i64,
    line: Vec<u8>,
}

thread_local! {
    static DATE: RefCell<Date> = const { RefCell::new(Date { second: 0, line: Vec::new() }) };
}

/// The field Date, formatted once in a second.
pub(crate) fn append_date(py: Python<'_>, out: &mut Vec<u8>) {
    let second = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
    DATE.with_borrow_mut(|date| {
        if (date.second != second || date.line.is_empty())
            && let Ok(text) = format_date(py, second)
        {
            date.second = second;
            date.line.clear();
            date.line.extend_from_slice(b"Date: ");
            date.line.extend_from_slice(text.as_bytes());
            date.line.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(&date.line);
    });
}

fn format_date(py: Python<'_>, second: i64) -> PyResult<String> {
    static FORMAT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let format = FORMAT.import(py, "maitred.native", "date_of")?;
    format.call1((second,))?.extract()
}
