//! Idle connections to a server: how many are kept, and what must not be taken for an answer.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use crate::proxy::start;
use crate::support::upstream::{Peer, Upstream};
use crate::support::{Server, Setup, TIMEOUT, eventually};

/// Says its connection's number; or, without being asked, `poison`, or closes, when the test says so.
struct Odd {
    upstream: Upstream,
    tell: Sender<&'static str>,
    told: Receiver<()>,
}

fn odd() -> Odd {
    let (tell, orders) = channel::<&'static str>();
    let (done, told) = channel();
    let (orders, done) = (Mutex::new(orders), Mutex::new(done));
    let upstream = Upstream::start(move |peer| {
        // The first connection does what is said; those after it only answer.
        if peer.number > 0 {
            return answer_all(peer);
        }
        peer.request()?;
        peer.answer("0")?;
        let order = orders.lock().unwrap().recv().unwrap();
        match order {
            "poison" => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")?,
            "half" => peer.send("HTTP/1.1 408 Request Timeout\r\nConte")?,
            "finish" => peer.finish()?,
            _ => {}
        }
        done.lock().unwrap().send(()).unwrap();
        peer.wait_for_end()
    });
    Odd { upstream, tell, told }
}

fn answer_all(peer: &mut Peer) -> std::io::Result<()> {
    loop {
        peer.request()?;
        let number = peer.number.to_string();
        peer.answer(number)?;
    }
}

#[test]
fn what_a_server_says_unasked_is_nobodys_answer() {
    for order in ["poison", "half", "finish"] {
        for client_first in [true, false] {
            let Odd { upstream, tell, told } = odd();
            let server = start(&upstream, "");
            let mut client = server.connect();
            assert_eq!(client.get("/first").text(), "0");
            let ask = "POST /second HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx";
            // The request and what the server behind does are there before the worker process sees either.
            server.while_worker_sleeps(|| {
                if client_first {
                    client.send(ask);
                }
                tell.send(order).unwrap();
                told.recv_timeout(TIMEOUT).unwrap();
                if !client_first {
                    client.send(ask);
                }
            });
            assert_eq!(client.response("POST").text(), "1", "{order}, client first: {client_first}");
            assert_eq!(client.get("/third").text(), "1");
            assert_eq!((server.total("upstream_retries"), server.total("upstream_failures")), (0, 0));
            eventually("the first one is closed", || upstream.open() == 1);
            server.stop();
        }
    }
}

/// Under load, with a server that closes each connection after some requests: most of them while they are idle.
#[test]
fn a_server_that_closes_idle_connections_loses_nobodys_request() {
    let upstream = Upstream::start(|peer| {
        for _ in 0..=peer.number % 5 {
            let asked = peer.request()?;
            peer.answer(asked.target())?;
        }
        peer.finish()?;
        peer.wait_for_end()
    });
    let server = start(&upstream, "");
    std::thread::scope(|scope| {
        for number in 0..8 {
            let mut client = server.connect();
            scope.spawn(move || {
                for turn in 0..100 {
                    let target = format!("/{number}/{turn}");
                    assert_eq!(client.get(&target).text(), target);
                }
            });
        }
    });
    assert_eq!(server.total("upstream_failures"), 0);
    server.stop();
}

/// As many requests at the same time, of which each waits for all others.
fn together(server: &Server, requests: usize) {
    let mut clients: Vec<_> = (0..requests).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").text(), "together"));
}

#[test]
fn connections_are_kept_for_as_many_requests_as_there_were_and_no_more_than_256() {
    const SIZES: [usize; 3] = [100, 100, 300];
    let barriers: Arc<Vec<Barrier>> = Arc::new(SIZES.iter().map(|size| Barrier::new(*size)).collect());
    let stage = Arc::new(AtomicUsize::new(0));
    let now = stage.clone();
    let upstream = Upstream::start(move |peer| {
        loop {
            peer.request()?;
            barriers[now.load(SeqCst)].wait();
            peer.answer("together")?;
        }
    });
    let server = start(&upstream, "");
    for (turn, (size, kept)) in SIZES.into_iter().zip([100, 100, 256]).enumerate() {
        stage.store(turn, SeqCst);
        together(&server, size);
        eventually("the others are closed", || upstream.open() == kept);
    }
    assert_eq!(upstream.connections(), 300, "none was made that was there already");
    server.stop();
}

#[test]
fn a_server_that_accepts_nothing_is_given_up_in_time() {
    // A listener whose queue is full: the kernel drops what asks for more.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(listener.as_fd(), 0).unwrap();
    let address = listener.local_addr().unwrap();
    let short = Duration::from_millis(300);
    let queued: Vec<_> = (0..8).map_while(|_| TcpStream::connect_timeout(&address, short).ok()).collect();
    assert!(queued.len() < 8, "the queue is full");
    let full = format!("http://{address}");
    let pool = |lines: &str| format!("[pool.app]\nconnect = \"{full}\"\n{lines}\n");
    let server =
        Setup::with_files().route("/*", "pool = \"app\"").table(&pool("connect_timeout = \"200ms\"")).start();
    let began = Instant::now();
    // The kernel would try for two minutes, longer than the client waits.
    assert_eq!(server.connect().get("/").status, 504);
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(200), "{took:?}");
    server.stop();
    // Another server is asked instead, whatever the method.
    let good = Upstream::start(answer_all);
    let names =
        format!("[pool.app]\nconnect = [\"{full}\", \"{}\"]\nconnect_timeout = \"200ms\"\n", good.name());
    let server = Setup::with_files().route("/*", "pool = \"app\"").table(&names).start();
    for _ in 0..4 {
        assert_eq!(server.connect().post("/", b"x").status, 200);
    }
    server.stop();
}

/// What a server sends too much is dropped: its connection is of no use any more, the client's goes on, as was announced.
#[test]
fn what_a_server_sends_too_much_costs_its_own_connection_only() {
    let upstream = Upstream::start(|peer| {
        peer.request()?;
        peer.send(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        )?;
        peer.wait_for_end()
    });
    let server = start(&upstream, "");
    let mut client = server.connect();
    for _ in 0..5 {
        let response = client.get("/x");
        assert_eq!((response.text(), response.says_close()), ("ok", false));
    }
    assert!(client.is_quiet());
    assert_eq!((upstream.connections(), upstream.requests()), (5, 5));
    server.stop();
}
