//! A server under attack, clients that are to be served meanwhile, and what it costs.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::support::h2::Connection;
use crate::support::processes::cpu_ticks;
use crate::support::{Server, Setup, eventually};

/// What an attack may cost the worker process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Growth of the largest resident set.
    pub(crate) memory_bytes_max: u64,
    /// CPU time, user and system, of the server without optimisation.
    pub(crate) cpu_ms_max: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        // Memory: some megabytes are the allocator's, for a server that is small. CPU: no attack here sends more than some ten
        // megabytes, and reading these takes a server without optimisation about a second.
        Bounds { memory_bytes_max: 24 << 20, cpu_ms_max: 10_000 }
    }
}

/// A server, looked at from outside.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) server: Server,
    pid: i32,
    /// Resident memory and CPU time before the attack.
    memory_bytes: u64,
    cpu_ms: u64,
}

impl Stage {
    /// Starts a server, and has it serve some requests, so that what it opens once is open.
    pub(crate) fn new(setup: Setup) -> Stage {
        let server = setup.start();
        let mut connection = Connection::new(server.address);
        for _ in 0..20 {
            assert_eq!(connection.get("/a.txt").status, 200);
            assert_eq!(server.connect().get("/a.txt").status, 200);
        }
        drop(connection);
        let pid = server.worker();
        // The peak so far is forgotten (proc(5)); where this is not allowed, it counts as the attack's.
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        let (memory_bytes, cpu_ms) = (memory(pid, "VmRSS:"), 10 * cpu_ticks(pid));
        Stage { server, pid, memory_bytes, cpu_ms }
    }

    /// A small site and a file of 50 MB, which takes no disk.
    pub(crate) fn site() -> Setup {
        let setup = Setup::with_files();
        let path = setup.directory.path().join("root/zeros.bin");
        fs::File::create(path).unwrap().set_len(50_000_000).unwrap();
        setup
    }

    /// Plays an attack, while others are served in both versions of HTTP; then looks at what it has cost, and that the server
    /// still is well.
    #[track_caller]
    pub(crate) fn play(self, bounds: Bounds, attack: impl FnOnce(&Server) + Send) {
        let over = AtomicBool::new(false);
        let served = std::thread::scope(|scope| {
            let (server, over) = (&self.server, &over);
            let attacker = scope.spawn(move || {
                attack(server);
                over.store(true, Relaxed);
            });
            let mut served = 0;
            let mut kept = Connection::new(server.address);
            while !attacker.is_finished() || served < 5 {
                assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
                assert_eq!(kept.get("/b.txt").text(), "file b\n", "a connection that is there already");
                assert_eq!(Connection::new(server.address).get("/none").status, 404, "and a new one");
                if kept.goaway.is_some() {
                    // After `requests_per_connection_max`.
                    kept = Connection::new(server.address);
                }
                served += 1;
            }
            attacker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            served
        });
        assert!(over.load(Relaxed) && served >= 5);
        self.check(bounds, served);
    }

    #[track_caller]
    fn check(self, bounds: Bounds, served: u64) {
        let grown = memory(self.pid, "VmHWM:").saturating_sub(self.memory_bytes);
        let spent = 10 * cpu_ticks(self.pid) - self.cpu_ms;
        println!("{} KiB more at most, {spent} ms of CPU time, {served} rounds of others", grown >> 10);
        assert!(grown <= bounds.memory_bytes_max, "{grown} bytes more");
        // What serving the others has cost is not the attack's: a generous 20 ms for each round of three requests.
        assert!(spent <= bounds.cpu_ms_max + 20 * served, "{spent} ms of CPU time");
        eventually("all connections are closed", || self.server.total("connections") <= 1);
        assert_eq!(self.server.worker(), self.pid, "it is the same process");
        self.server.stop();
    }
}

/// A figure of proc(5)'s `status`, in bytes.
fn memory(pid: i32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
