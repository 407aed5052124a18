//! The compiled part of Maitred's Python adapter: what every ordinary request goes through. `maitred.native` in Python chooses
//! it, and goes on with every request that is not ordinary; the package works without it.

mod channel;
mod date;
mod environ;
mod exchange;
mod head;
mod names;
mod order;
mod parse;
mod raw;
mod response;
mod scope;
mod session;
mod turnstile;
mod wire;

use pyo3::prelude::*;

/// `maitred._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<channel::Channel>()?;
    module.add_class::<response::Response>()?;
    module.add_class::<session::Session>()?;
    module.add_class::<exchange::Exchange>()
}
