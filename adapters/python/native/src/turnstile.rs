//! Lets one thread at a time write to a channel, and others of the interpreter run meanwhile.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

/// Frames of two threads must not mix, and one that waits for room holds no lock of the interpreter's.
#[derive(Debug, Default)]
pub(crate) struct Turnstile {
    busy: Mutex<bool>,
    free: Condvar,
}

/// The turn of a thread, until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turnstile);

impl Turnstile {
    /// Waits until no other thread writes. The one that does must not enter again.
    pub(crate) fn enter(&self, py: Python<'_>) -> Turn<'_> {
        if std::mem::replace(&mut *self.lock(), true) {
            py.detach(|| {
                let mut busy = self.lock();
                while std::mem::replace(&mut *busy, true) {
                    busy = self.free.wait(busy).unwrap_or_else(PoisonError::into_inner);
                }
            });
        }
        Turn(self)
    }

    /// Held for no longer than it takes to look.
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.free.notify_one();
    }
}
