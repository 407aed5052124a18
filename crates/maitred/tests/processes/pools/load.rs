//! Clients that keep asking, none of whose requests may fail.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::support::load::SetOnDrop;
use crate::support::{Client, Server, eventually};

/// What the clients have found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    done: AtomicBool,
    answered: AtomicUsize,
    failed: Mutex<Vec<String>>,
}

impl Found {
    /// Waits for so many more answers.
    pub(crate) fn more(&self, count: usize) {
        let before = self.answered.load(Relaxed);
        eventually("requests are answered", || {
            self.answered.load(Relaxed) >= before + count || !self.failed.lock().unwrap().is_empty()
        });
        self.check();
    }

    #[track_caller]
    fn check(&self) {
        let failed = self.failed.lock().unwrap();
        assert!(failed.is_empty(), "failed requests: {failed:#?}");
    }

    fn ask(&self, client: &mut Client, target: &str) -> bool {
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let wrong = match client.try_send(request).and_then(|()| client.try_response("GET")) {
            Ok(response) if response.status == 200 => {
                self.answered.fetch_add(1, Relaxed);
                return true;
            }
            Ok(response) => format!("{target}: {response:?}"),
            Err(error) => format!("{target}: {error}"),
        };
        self.failed.lock().unwrap().push(wrong);
        false
    }
}

/// Runs `act` while so many clients ask for `target`, half of them on a connection that they keep, half on a new one each time.
/// Every request must be answered with 200. Gives back how many were.
#[track_caller]
pub(crate) fn under_load(server: &Server, clients: usize, target: &str, act: impl FnOnce(&Found)) -> usize {
    let found = Found::default();
    std::thread::scope(|scope| {
        let _stop = SetOnDrop(&found.done);
        for number in 0..clients {
            let found = &found;
            scope.spawn(move || {
                let mut client = server.connect();
                while !found.done.load(Relaxed) && found.ask(&mut client, target) {
                    if number % 2 == 1 {
                        client = server.connect();
                    }
                }
            });
        }
        act(&found);
    });
    found.check();
    found.answered.into_inner()
}
