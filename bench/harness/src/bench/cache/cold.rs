//! Many clients want the same thing while it is not in the cache yet: how many requests the server behind sees, and how long it
//! takes from its first byte to the first byte of the last client.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::json;

use super::origin::{HELD, Origin, READY};
use super::{Cache, Front, ROOM};
use crate::Result;
use crate::bench::report::{Budget, Outcome, Row};
use crate::bench::{Bench, median};

const CLIENTS: usize = 1000;
/// From the last request to the first byte behind: all requests are read by then, by anyone who reads them.
const SETTLE: Duration = Duration::from_millis(500);
/// How long clients may wait for anything.
const DEADLINE: Duration = Duration::from_secs(20);
/// Clients that are seen at once.
const EVENTS: usize = 256;

/// A response of Maitred's with its head.
const RESPONSE_BYTES: usize = 1220;

/// One round.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// From the first byte behind to the last client's first one.
    after: Duration,
    /// What the server behind was asked.
    requests: u64,
}

/// In each round, a key that no client has asked for yet.
pub(in crate::bench) fn run(bench: &Bench) -> Result<Outcome> {
    let mut rows = Vec::new();
    let mut raw = serde_json::Map::new();
    for cache in Cache::ALL {
        let origin = Origin::start()?;
        let front = Front {
            name: "cold",
            backend: origin.address(),
            megabytes: Some(ROOM),
            large: false,
            ready: READY,
        };
        let server = match cache.start(bench, front) {
            Ok(server) => server,
            Err(error) => {
                eprintln!("  {} is absent: {error}", cache.name());
                continue;
            }
        };
        let rounds =
            (0..bench.rounds).map(|round| ask(server.address, &origin, CLIENTS, &format!("{HELD}{round}")));
        let seen: Vec<Seen> = match rounds.collect() {
            Ok(seen) => seen,
            Err(error) => {
                eprintln!("  {}: {error}", cache.name());
                continue;
            }
        };
        let after: Vec<f64> = seen.iter().map(|seen| seen.after.as_secs_f64() * 1e3).collect();
        let requests: Vec<u64> = seen.iter().map(|seen| seen.requests).collect();
        let worst = after.iter().copied().fold(0.0, f64::max);
        let note = format!(
            "at most {worst:.1}; {} requests behind in the worst round",
            requests.iter().max().unwrap_or(&0)
        );
        eprintln!("  {}: {after:.1?} ms, {requests:?} requests behind", cache.name());
        let failures = requests.iter().map(|requests| requests.saturating_sub(1)).sum();
        rows.push(Row { server: cache.name(), cost: median(after.iter().copied()), note, failures });
        raw.insert(cache.name().to_owned(), json!({ "ms": after, "requests": requests }));
    }
    let floor: Vec<f64> =
        (0..bench.rounds).map(|_| Ok(floor(CLIENTS)?.as_secs_f64() * 1e3)).collect::<Result<_>>()?;
    eprintln!("  floor: {floor:.1?} ms");
    let note = "one `send` of as many bytes to each, by a thread that does nothing else".to_owned();
    rows.push(Row { server: "floor", cost: median(floor.iter().copied()), note, failures: 0 });
    raw.insert("floor".to_owned(), json!({ "ms": floor }));
    let what = "1,000 clients ask for the same 1 KB before it has come: from the first byte of the server behind to the first byte \
                of the last client; one request behind";
    Ok(Outcome::new("cache-cold", what, Budget::Absolute(5.0), "ms", rows, raw.into()))
}

/// Lets all clients ask for one path, which the server behind answers when all have.
fn ask(address: SocketAddr, origin: &Origin, number: usize, path: &str) -> Result<Seen> {
    origin.hold();
    let before = origin.requests();
    let mut clients = (0..number)
        .map(|_| {
            let stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(DEADLINE))?;
            Ok(stream)
        })
        .collect::<std::io::Result<Vec<TcpStream>>>()?;
    let waiting = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (place, client) in clients.iter_mut().enumerate() {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: xtask\r\nAccept: */*\r\n\r\n");
        client.write_all(request.as_bytes())?;
        let data = epoll::EventData::new_u64(place as u64);
        epoll::add(&waiting, &*client, data, epoll::EventFlags::IN | epoll::EventFlags::ONESHOT)?;
    }
    let deadline = Instant::now() + DEADLINE;
    while origin.requests() == before {
        if Instant::now() > deadline {
            return Err("no request was passed on".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(SETTLE);
    origin.release();
    let last = wait_for_all(&waiting, number, deadline)?;
    let first = origin.first_byte().ok_or("nothing was held back")?;
    for client in &mut clients {
        let mut status = [0; 12];
        client.read_exact(&mut status)?;
        if !status.ends_with(b" 200") {
            return Err(format!("a client got {:?}", String::from_utf8_lossy(&status)).into());
        }
    }
    Ok(Seen { after: last.saturating_duration_since(first), requests: origin.requests() - before })
}

/// What the kernel takes for the responses alone, on the CPU of the servers.
fn floor(number: usize) -> Result<Duration> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let waiting = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut pairs = Vec::new();
    for place in 0..number {
        let client = TcpStream::connect(listener.local_addr()?)?;
        let data = epoll::EventData::new_u64(place as u64);
        epoll::add(&waiting, &client, data, epoll::EventFlags::IN | epoll::EventFlags::ONESHOT)?;
        pairs.push((listener.accept()?.0, client));
    }
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut first = CpuSet::new();
            first.set(0);
            sched_setaffinity(None, &first)?;
            let begin = Instant::now();
            for (mut server, _) in pairs.iter().map(|(server, client)| (server, client)) {
                server.write_all(&[b'x'; RESPONSE_BYTES])?;
            }
            std::io::Result::Ok(begin)
        });
        let last = wait_for_all(&waiting, number, Instant::now() + DEADLINE)?;
        let begin = sender.join().map_err(|_| "the sender has panicked")??;
        Ok(last.saturating_duration_since(begin))
    })
}

/// When the last client has something to read.
fn wait_for_all(waiting: &impl std::os::fd::AsFd, number: usize, deadline: Instant) -> Result<Instant> {
    let mut events = Vec::with_capacity(EVENTS);
    let mut seen = 0;
    while seen < number {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now()))?;
        events.clear();
        match epoll::wait(waiting, rustix::buffer::spare_capacity(&mut events), Some(&left)) {
            Ok(0) => return Err(format!("{} of {number} clients got nothing", number - seen).into()),
            Ok(ready) => seen += ready,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_reaches_every_client() {
        assert!(floor(50).unwrap() < DEADLINE);
    }

    #[test]
    fn without_a_cache_between_the_server_behind_is_asked_by_every_client() {
        let origin = Origin::start().unwrap();
        let seen = ask(origin.address(), &origin, 30, "/app/held/1").unwrap();
        assert_eq!(seen.requests, 30);
        assert!(seen.after < DEADLINE);
    }
}
