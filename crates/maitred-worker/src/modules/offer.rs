//! What modules can do in any thread.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::keys::{ConnId, ConnKey};
use maitred_sys::module::abi::{Response, Ticket};
use maitred_sys::module::host::{ServerCalls, Task, serve};

use super::Answer;
use crate::inbox::Message;
use crate::shared::Shared;

/// Threads that wait for modules: a handful of files or lookups at a time, which is not what modules are for.
const HELPERS: usize = 4;
/// Calls that may wait for one of them, in all: a second's worth at a millisecond each. What they hold is the modules' own.
const WAITING_MAX: usize = 4096;

/// The ticket of a request.
pub(crate) fn ticket(thread: usize, ConnId { key, serial }: ConnId, number: u32) -> Ticket {
    let connection = u64::from(key.number()) << 32 | u64::from(serial);
    Ticket { words: [thread as u64, connection, u64::from(number)] }
}

/// What modules call.
#[derive(Debug)]
struct Offer {
    shared: &'static Shared,
    helpers: SyncSender<Task>,
}

impl ServerCalls for Offer {
    fn complete(&self, ticket: Ticket, response: Option<&Response<'_>>) -> bool {
        let [thread, connection, number] = ticket.words;
        let inbox = usize::try_from(thread).ok().and_then(|thread| self.shared.inboxes.get(thread));
        let Some(inbox) = inbox else { return false };
        let (mut answer, mut valid) = (None, true);
        if let Some(response) = response {
            let mut taken = Box::new(Answer::default());
            valid = taken.take(response);
            if !valid {
                taken.status = 500;
            }
            answer = Some(taken);
        }
        let key = ConnKey::from_number((connection >> 32) as u32);
        let connection = ConnId { key, serial: connection as u32 };
        inbox.send(Message::ModuleDone { connection, number: number as u32, answer });
        valid
    }

    fn run(&self, task: Task) -> bool {
        match self.helpers.try_send(task) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    fn log(&self, level: u32, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        match level {
            0 => tracing::error!("module: {text}"),
            1 => tracing::warn!("module: {text}"),
            2 => tracing::info!("module: {text}"),
            _ => tracing::debug!("module: {text}"),
        }
    }
}

/// Starts the helper threads, and lets modules call.
///
/// # Errors
/// A thread cannot be started.
pub(crate) fn begin(shared: &'static Shared) -> std::io::Result<()> {
    let (helpers, tasks) = sync_channel(WAITING_MAX);
    let tasks = Arc::new(Mutex::new(tasks));
    for number in 0..HELPERS {
        let tasks = Arc::clone(&tasks);
        let thread = std::thread::Builder::new().name(format!("module-{number}"));
        thread.spawn(move || help(&tasks))?;
    }
    serve(Box::leak(Box::new(Offer { shared, helpers })));
    Ok(())
}

fn help(tasks: &Mutex<Receiver<Task>>) {
    maitred_sys::module::calls::track(Box::leak(Box::default()));
    loop {
        let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(task) => task.call(),
            // The process ends.
            Err(_) => return,
        }
    }
}
