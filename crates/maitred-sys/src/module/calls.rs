//! Which module a thread is in. A thread has a cell in memory that is kept when the process ends; a call of a module stands in it
//! as long as it lasts, so that others see which one does not come back, and a signal handler can say in which one the process
//! crashed.

use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU64};

/// Bits of a cell that hold 1 + the number of the module; those above count the calls.
const NUMBER_BITS: u32 = 16;
/// Signals that a process dies of by what its own code does (signal(7)).
const FATAL: [libc::c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

/// The cell of a thread that has none: what is written there is not read.
static NOWHERE: AtomicU64 = AtomicU64::new(0);
/// Where the handler says in which module the process crashed.
static REPORT: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    static CELL: Cell<&'static AtomicU64> = const { Cell::new(&NOWHERE) };
}

/// What a cell says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The number of the module.
    pub module: u16,
    /// How many calls the thread had made before, of any module; counted modulo 2⁴⁸.
    pub serial: u64,
}

impl Call {
    /// What a cell's value means; `None` outside of any module.
    pub fn of(value: u64) -> Option<Call> {
        let module = (value & ((1 << NUMBER_BITS) - 1)).checked_sub(1)? as u16;
        Some(Call { module, serial: value >> NUMBER_BITS })
    }
}

/// From now on, the calling thread says in this cell which module it is in.
pub fn track(cell: &'static AtomicU64) {
    CELL.set(cell);
}

/// The calling thread is in a module, until this is dropped.
#[derive(Debug)]
pub struct Inside(&'static AtomicU64);

impl Inside {
    /// Enters the module of this number.
    #[inline]
    pub fn enter(module: u16) -> Inside {
        let cell = CELL.get();
        // The cell has one writer: its thread.
        let serial = (cell.load(Relaxed) >> NUMBER_BITS).wrapping_add(1);
        cell.store(serial << NUMBER_BITS | (u64::from(module) + 1), Relaxed);
        Inside(cell)
    }
}

/// The module that the calling thread is in.
pub fn current() -> Option<u16> {
    Call::of(CELL.get().load(Relaxed)).map(|call| call.module)
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        self.0.store(self.0.load(Relaxed) & !((1 << NUMBER_BITS) - 1), Relaxed);
    }
}

/// Has a crash of this process say in `report` which module the thread was in, as [`Call::of`] reads it. The process dies of the
/// signal as it would have otherwise.
///
/// # Errors
/// What sigaction(2) says.
pub fn report_crashes(report: &'static AtomicU64) -> io::Result<()> {
    REPORT.store(std::ptr::from_ref(report).cast_mut(), Relaxed);
    for (place, signal) in FATAL.into_iter().enumerate() {
        // SAFETY: both structures live through the call, all zeros is a value of theirs, and the handler is one of its type. What
        // was there before is written once, before any handler of this signal can run.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_crash as *const () as usize;
            // On the thread's signal stack, if it has one: its own may be what is used up.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigemptyset(&mut action.sa_mask);
            let before = std::ptr::addr_of_mut!(BEFORE).cast::<libc::sigaction>().add(place);
            if libc::sigaction(signal, &action, before) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

/// What was done about these signals before.
// SAFETY: all zeros is a value of `sigaction`: the default action.
static mut BEFORE: [libc::sigaction; FATAL.len()] = unsafe { std::mem::zeroed() };

/// Only loads, stores and sigaction(2), which a signal handler may call (signal-safety(7)).
extern "C" fn on_crash(signal: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let report = REPORT.load(Relaxed);
    // SAFETY: it is null, or comes from a reference for good.
    if let Some(report) = unsafe { report.as_ref() } {
        let value = CELL.get().load(Relaxed);
        if Call::of(value).is_some() {
            // The first thread that crashes is the one that counts.
            let _ = report.compare_exchange(0, value, Relaxed, Relaxed);
        }
    }
    if let Some(place) = FATAL.iter().position(|fatal| *fatal == signal) {
        // SAFETY: it was filled before this handler was installed, and it is not changed any more. The faulting instruction, or
        // abort(3), is carried on with after the return, now with the action from before.
        unsafe {
            let before = std::ptr::addr_of!(BEFORE).cast::<libc::sigaction>().add(place);
            libc::sigaction(signal, before, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_says_which_module_the_thread_is_in() {
        let cell: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
        std::thread::spawn(move || {
            track(cell);
            for serial in 1..4 {
                assert_eq!((Call::of(cell.load(Relaxed)), current()), (None, None));
                let _inside = Inside::enter(7);
                assert_eq!(Call::of(cell.load(Relaxed)), Some(Call { module: 7, serial }));
            }
            drop(Inside::enter(u16::MAX - 1));
            assert_eq!(Call::of(cell.load(Relaxed)), None);
        })
        .join()
        .unwrap();
    }
}
