//! Clients that ask without a break, while the server is replaced in parts or as a whole.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::{Server, Setup, eventually};

/// What is asked for while [`reloadable`] is reloaded, and how many bytes the answer has: files that are kept in memory and that
/// are not, short and long responses of an application.
const TARGETS: [(&str, usize); 4] =
    [("/a.txt", 7), ("/large.bin", 300_000), ("/app/hello?x", 8), ("/app/large?70000", 70_000)];

/// What clients and the test that waits for them share.
#[derive(Debug, Default)]
pub(crate) struct Load {
    over: AtomicBool,
    answered: AtomicUsize,
}

impl Load {
    /// Whether clients shall end.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Counts requests that were answered as they must be.
    pub(crate) fn answered(&self, requests: usize) {
        self.answered.fetch_add(requests, Relaxed);
    }
}

/// Lets clients end when it is dropped, also because the test fails.
#[derive(Debug)]
pub(crate) struct SetOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Calls `replace` for each generation from the second to `last`, while a client of its own asks for each of `targets`; after
/// each so many requests have to be answered. How many were in all.
pub(crate) fn replace_under_load<T: Copy + Send>(
    targets: &[T],
    client: impl Fn(&Load, T) + Sync,
    last: u64,
    answers: usize,
    replace: impl Fn(u64),
) -> usize {
    let load = Load::default();
    std::thread::scope(|scope| {
        let (load, client) = (&load, &client);
        let start = |target: &T| {
            let target = *target;
            scope.spawn(move || client(load, target))
        };
        let clients: Vec<_> = targets.iter().map(start).collect();
        let stop = SetOnDrop(&load.over);
        for generation in 2..=last {
            let before = load.answered.load(Relaxed);
            replace(generation);
            // A client that has ended by now has failed, which the end of the scope tells.
            eventually("requests are answered after it", || {
                load.answered.load(Relaxed) >= before + answers
                    || clients.iter().any(|client| client.is_finished())
            });
        }
        drop(stop);
    });
    load.answered.into_inner()
}

/// A server with everything that is asked for here.
pub(crate) fn reloadable() -> Server {
    let server = Setup::with_files()
        .server("threads = 2")
        .file("large.bin", &vec![b'l'; 300_000])
        .pool("app", None, "workers = 2\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    server
}

/// Reloads a server up to this generation while clients ask, each for a target with so many bytes. Every request that was
/// answered has to be in the access log, once.
pub(crate) fn reload_under_load(
    last: u64,
    answers: usize,
    client: impl Fn(&Server, &Load, &str, usize) + Sync,
) {
    let server = reloadable();
    let ask = |load: &Load, (target, bytes): (&str, usize)| client(&server, load, target, bytes);
    let answered = replace_under_load(&TARGETS, ask, last, answers, |generation| {
        let (status, said) = server.command(&["reload"]);
        assert!(status.success(), "{said}");
        // Until the old worker process has gone, the admin address may lead to either.
        eventually("the new worker process answers", || server.status()["generation"] == generation);
    });
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), answered, "each is in the access log once");
}
