//! The agent's way to the master, which orders use, too.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::messages::{FromAgent, HookCall};
use maitred_control::{Answer, Challenge};

/// How long the worker process may take to answer a challenge; it is there most of the time.
const PLACE_TIMEOUT: Duration = Duration::from_secs(60);

type Outcome = Result<(), String>;

/// How orders speak to the master.
#[derive(Debug, Clone)]
pub struct Link {
    say: mpsc::UnboundedSender<FromAgent>,
    /// The tasks that wait for a challenge to be in place, or a hook to end.
    waiting: Arc<Mutex<HashMap<u64, oneshot::Sender<Outcome>>>>,
    serials: Arc<AtomicU64>,
}

impl Link {
    /// Says what there is to say by `say`.
    pub fn new(say: mpsc::UnboundedSender<FromAgent>) -> Link {
        Link { say, waiting: Arc::default(), serials: Arc::default() }
    }

    /// Has a challenge answered, and returns when it is.
    ///
    /// # Errors
    /// A text, when it is not in time.
    pub async fn place(&self, name: &str, answer: Answer) -> Result<Placed, String> {
        let (serial, told) = self.wait();
        let placed = Placed { link: self.clone(), serial };
        self.say(FromAgent::Challenge(Challenge { serial, name: name.to_owned(), answer }));
        match tokio::time::timeout(PLACE_TIMEOUT, told).await {
            Ok(Ok(Ok(()))) => Ok(placed),
            _ => Err("no worker process answers the challenge".to_owned()),
        }
    }

    /// Has the hook run that makes and removes records, and returns when it has ended.
    ///
    /// # Errors
    /// A text, when it has failed.
    pub async fn hook(&self, call: HookCall) -> Result<(), String> {
        let (serial, told) = self.wait();
        let placed = Hooked { link: self.clone(), serial };
        self.say(FromAgent::Hook(serial, call));
        let outcome = told.await;
        drop(placed);
        outcome.unwrap_or_else(|_| Err("the master has gone".to_owned()))
    }

    /// A new number, and what comes when that is done.
    fn wait(&self) -> (u64, oneshot::Receiver<Outcome>) {
        let serial = self.serials.fetch_add(1, Relaxed) + 1;
        let (tell, told) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(serial, tell);
        (serial, told)
    }

    /// Says something to the master.
    pub fn say(&self, message: FromAgent) {
        // There is no receiver when the master has gone, and then this process ends.
        let _ = self.say.send(message);
    }

    /// Takes note that a challenge is answered, or a hook has ended.
    pub fn done(&self, serial: u64, outcome: Outcome) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&serial);
        if let Some(tell) = waiting {
            let _ = tell.send(outcome);
        }
    }
}

/// A hook that is waited for until this is dropped.
struct Hooked {
    link: Link,
    serial: u64,
}

impl Drop for Hooked {
    fn drop(&mut self) {
        self.link.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.serial);
    }
}

/// A challenge that is answered until this is dropped.
#[derive(Debug)]
pub struct Placed {
    link: Link,
    serial: u64,
}

impl Drop for Placed {
    fn drop(&mut self) {
        self.link.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.serial);
        self.link.say(FromAgent::Over(self.serial));
    }
}
