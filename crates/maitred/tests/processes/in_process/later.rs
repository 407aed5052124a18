//! Answers that come later. The probe keeps requests until the test has them released, by a request on another connection: with
//! one thread, that shows that the thread answers meanwhile.

use std::io::Write as _;

use maitred_http::h3::Code;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::in_process::scene::{
    ask_only, hello, module, modules, probe_of, table, tell, wait_for_waiting, with_faulty, with_probe,
};
use crate::support::h2::Connection;
use crate::support::h3::{self, Asks as _, Text as _, reload};
use crate::support::libraries::{example, probe};
use crate::support::processes::runs;
use crate::support::{Client, Server, eventually};

const RELEASED: &str = "released\n";

#[test]
fn others_are_answered_while_a_request_waits() {
    let server = with_probe("").start();
    let (mut waits, mut other) = (server.connect(), server.connect());
    ask_only(&mut waits, "/probe?wait");
    wait_for_waiting(&mut other, 1);
    for _ in 0..20 {
        assert_eq!(other.get("/a.txt").text(), "file a\n");
    }
    assert!(waits.is_quiet());
    assert_eq!(tell(&mut other, "release"), "1");
    let response = waits.response("GET");
    assert_eq!((response.status, response.text()), (200, RELEASED));
    assert_eq!(waits.get("/a.txt").text(), "file a\n", "the connection goes on");
    ask_only(&mut waits, "/probe?wait");
    wait_for_waiting(&mut other, 1);
    tell(&mut other, "release");
    assert_eq!(waits.response("GET").text(), RELEASED);
    let stopped = server.stop();
    let waited =
        stopped.access.iter().filter(|line| line.contains("GET /probe?wait HTTP/1.1\" 200 9")).count();
    assert_eq!(waited, 2, "{:?}", stopped.access);
}

#[test]
fn many_wait_at_a_time() {
    let server = with_probe("").start();
    let mut other = server.connect();
    let mut clients: Vec<Client> = (0..200).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| ask_only(client, "/probe?wait"));
    let mut connection = Connection::new(server.address);
    let ids: Vec<u32> = (0..50).map(|_| connection.request("GET", "/probe?wait", &[], true)).collect();
    wait_for_waiting(&mut other, 250);
    assert_eq!(connection.get("/a.txt").text(), "file a\n");
    assert_eq!(tell(&mut other, "release"), "250");
    for client in &mut clients {
        assert_eq!(client.response("GET").text(), RELEASED);
        assert_eq!(client.get("/b.txt").text(), "file b\n");
    }
    for id in ids {
        assert_eq!(connection.response(id).text(), RELEASED);
    }
    server.stop();
}

/// Connections that the worker process has.
fn connections(server: &Server) -> u64 {
    server.total("connections")
}

/// A client that has only closed its sending side may still read.
#[test]
fn an_answer_for_a_client_that_has_gone_is_dropped() {
    let server = with_probe("").start();
    let mut other = server.connect();
    let (mut closes, mut resets, mut half) = (server.connect(), server.connect(), server.connect());
    ask_only(&mut closes, "/probe?wait");
    ask_only(&mut resets, "/probe?wait");
    ask_only(&mut half, "/probe?wait");
    let mut connection = Connection::new(server.address);
    let id = connection.request("GET", "/probe?wait", &[], true);
    let stays = connection.request("GET", "/probe?wait", &[], true);
    wait_for_waiting(&mut other, 5);
    let all = connections(&server);
    drop(closes);
    half.finish_sending();
    resets.reset();
    connection.cancel(id);
    connection.sync();
    eventually("the server has seen the reset", || connections(&server) < all);
    // The place of a client that has gone is taken by others, which get nothing of what was meant for it.
    let mut next: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for client in &mut next {
        assert_eq!(client.get("/a.txt").text(), "file a\n");
    }
    assert_eq!(tell(&mut other, "release"), "5");
    assert_eq!(connection.response(stays).text(), RELEASED);
    assert_eq!(half.response("GET").text(), RELEASED);
    for client in &mut next {
        assert!(client.is_quiet());
        assert_eq!(client.get("/b.txt").text(), "file b\n");
    }
    drop(next);
    eventually("their connections are closed", || connections(&server) <= all - 3);
    server.stop();
}

#[test]
fn after_its_timeout_a_request_gets_504() {
    let server = with_probe("timeout = \"100ms\"").start();
    let (mut waits, mut other) = (server.connect(), server.connect());
    ask_only(&mut waits, "/probe?wait");
    let response = waits.response("GET");
    assert_eq!(response.status, 504);
    assert!(!response.says_close());
    assert_eq!(waits.get("/a.txt").text(), "file a\n");
    let mut connection = Connection::new(server.address);
    assert_eq!(connection.get("/probe?wait").status, 504);
    // The answer that comes then is for none of those that wait now.
    assert_eq!(tell(&mut other, "release"), "2");
    assert!(waits.is_quiet());
    assert_eq!(waits.get("/b.txt").text(), "file b\n");
    assert_eq!(connection.get("/b.txt").text(), "file b\n");
    server.stop();
}

#[test]
fn requests_behind_one_that_waits_are_answered_after_it() {
    let server = with_probe("").start();
    let (mut waits, mut other) = (server.connect(), server.connect());
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let targets = ["/a.txt", "/probe?wait", "/b.txt", "/probe?wait", "/probe?none", "/a.txt"];
    waits.send(targets.map(get).concat());
    assert_eq!(waits.response("GET").text(), "file a\n");
    wait_for_waiting(&mut other, 1);
    assert!(waits.is_quiet());
    tell(&mut other, "release");
    assert_eq!(waits.response("GET").text(), RELEASED);
    assert_eq!(waits.response("GET").text(), "file b\n");
    wait_for_waiting(&mut other, 1);
    assert!(waits.is_quiet());
    tell(&mut other, "release");
    assert_eq!(waits.response("GET").text(), RELEASED);
    assert_eq!(waits.response("GET").text(), "the probe\n");
    assert_eq!(waits.response("GET").text(), "file a\n");
    server.stop();
}

#[test]
fn a_ticket_answers_one_request_once() {
    let server = with_probe("").start();
    let (mut waits, mut other) = (server.connect(), server.connect());
    let mut connection = Connection::new(server.address);
    for _ in 0..3 {
        ask_only(&mut waits, "/probe?wait");
        let id = connection.request("GET", "/probe?wait", &[], true);
        wait_for_waiting(&mut other, 2);
        assert_eq!(tell(&mut other, "release"), "2");
        assert_eq!(waits.response("GET").text(), RELEASED);
        assert_eq!(connection.response(id).text(), RELEASED);
        // The next requests of the same connections wait when the tickets are used once more.
        ask_only(&mut waits, "/probe?wait");
        let id = connection.request("GET", "/probe?wait", &[], true);
        wait_for_waiting(&mut other, 2);
        assert_eq!(tell(&mut other, "stale"), "2");
        assert_eq!(other.get("/a.txt").text(), "file a\n");
        assert!(waits.is_quiet());
        assert_eq!(tell(&mut other, "release"), "2");
        assert_eq!(waits.response("GET").text(), RELEASED);
        assert_eq!(connection.response(id).text(), RELEASED);
    }
    server.stop();
}

/// A module can read all memory of the process, so that this is no protection from one that wants to do harm.
#[test]
fn a_ticket_that_was_changed_answers_nothing() {
    let server = with_probe("").start();
    let mut other = server.connect();
    let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| ask_only(client, "/probe?wait"));
    wait_for_waiting(&mut other, 20);
    assert_eq!(tell(&mut other, "forge"), "20");
    assert_eq!(tell(&mut other, "waiting"), "20", "it goes on");
    assert!(clients.iter().all(Client::is_quiet));
    tell(&mut other, "release");
    for client in &mut clients {
        assert_eq!(client.response("GET").text(), RELEASED);
    }
    server.stop();
}

#[test]
fn of_two_answers_the_first_counts() {
    // The forged ticket is of a thread that is not there, and with two of a connection that is not.
    for threads in [1, 2] {
        let server = with_faulty("").server(&format!("threads = {threads}")).start();
        let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.get("/faulty/twice").text(), "first\n");
            // Whether it was taken need not be known at once.
            let forged = client.get("/faulty/forged").text().to_owned();
            assert!(forged == "refused\n" || threads == 2 && forged == "taken\n", "{forged}");
            assert_eq!(client.get("/faulty/twice").text(), "first\n");
            assert_eq!(client.get("/a.txt").text(), "file a\n");
        }
        server.stop();
    }
}

#[test]
fn any_thread_may_answer() {
    let setup = with_faulty("");
    let library = setup.directory.path().join("libfaulty.so");
    let server = setup.route("/never", &module(&library, "", "timeout = \"50ms\"")).start();
    let mut client = server.connect();
    let mut connection = Connection::new(server.address);
    for _ in 0..20 {
        assert_eq!(client.get("/faulty/thread").text(), "from a thread\n");
        assert_eq!(connection.get("/faulty/thread").text(), "from a thread\n");
    }
    assert_eq!(client.get("/faulty/helper").text(), "from a thread\n");
    assert_eq!(client.get("/never").status, 504);
    assert_eq!(client.get("/faulty/thread").text(), "from a thread\n");
    server.stop();
}

#[test]
fn slow_reads_in_a_helper_thread() {
    let setup = with_probe("").outside("list.txt", b"one\ntwo\nthree\n");
    let file = setup.directory.path().join("list.txt");
    let config = |max| format!("file = \"{}\", waiting_max = {max}", file.display());
    let server = setup
        .route("/lines", &module(&example("slow"), &config(8), ""))
        .route("/full", &module(&example("slow"), &config(0), ""))
        .start();
    let mut client = server.connect();
    assert_eq!(client.get("/lines").text(), "3\n");
    assert_eq!(Connection::new(server.address).get("/lines").text(), "3\n");
    assert_eq!(client.method("HEAD", "/lines", "").need("Content-Length"), "2");
    let full = client.get("/full");
    assert_eq!((full.status, full.need("Retry-After")), (503, "1"));
    server.stop();
}

#[test]
fn more_calls_than_may_wait_are_refused() {
    let setup = with_probe("").outside("list.txt", b"one\n");
    let config = format!("file = \"{}\", waiting_max = 8", setup.directory.path().join("list.txt").display());
    let server = setup.route("/lines", &module(&example("slow"), &config, "")).start();
    let mut client = server.connect();
    assert_eq!(client.get("/lines").text(), "1\n");
    let taken: usize = tell(&mut client, "fill").parse().unwrap();
    eventually("all helper threads are taken", || tell(&mut client, "standing") == "4");
    // In place of those that the helpers have taken meanwhile.
    let more: usize = tell(&mut client, "fill").parse().unwrap();
    assert_eq!(taken + more, 4096 + 4);
    let refused = client.get("/lines");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(Connection::new(server.address).get("/lines").status, 503);
    assert_eq!(client.get("/a.txt").text(), "file a\n");
    tell(&mut client, "open");
    eventually("there is room again", || client.get("/lines").status == 200);
    server.stop();
}

/// A pool behind the probe, which says when a request goes on to it.
fn before_a_pool() -> Server {
    let setup = with_probe("");
    let library = probe_of(&setup);
    let action = format!("pool = \"app\"\n{}", module(&library, "passes = true", ""));
    let server = setup.route("/asked/*", &action).pool("app", None, "workers = 1").start();
    server.wait_for_processes();
    server
}

#[test]
fn a_request_that_passes_later_goes_on_with_its_body() {
    let server = before_a_pool();
    let (mut waits, mut other) = (server.connect(), server.connect());
    let mut connection = Connection::new(server.address);
    for bytes in [0_usize, 10, 70_000, 300_000] {
        let body: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        let target = "/asked/echo?wait";
        waits.send(format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n"));
        let id = connection.request("POST", target, &[], bytes == 0);
        wait_for_waiting(&mut other, 2);
        // Before and after the answer of the module: nothing is read of it meanwhile.
        let (first, second) = body.split_at(bytes / 3);
        waits.send(first);
        assert_eq!(tell(&mut other, "release=pass"), "2");
        waits.send(second);
        if bytes > 0 {
            connection.upload(id, &body, true);
        }
        let response = waits.response("POST");
        assert!(response.status == 200 && response.body == body, "{bytes}: {}", response.status);
        let response = connection.response(id);
        assert!(response.status == 200 && response.body == body, "{bytes}: {}", response.status);
    }
    let shown = |client: &mut Client| client.get("/asked/hello?x").text().to_owned();
    assert_eq!(shown(&mut waits), "hello x\n", "the next request is asked about anew");
    server.stop();
}

#[test]
fn a_request_that_is_refused_later_reaches_nothing() {
    let server = before_a_pool();
    let (mut waits, mut other) = (server.connect(), server.connect());
    waits.send("POST /asked/echo?wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\na body");
    wait_for_waiting(&mut other, 1);
    tell(&mut other, "release");
    let response = waits.response("POST");
    assert_eq!((response.status, response.text()), (200, RELEASED));
    assert_eq!(waits.get("/asked/hello?y").text(), "hello y\n");
    let expects = "Expect: 100-continue\r\nContent-Length: 9\r\n";
    waits.send(format!("POST /asked/echo?wait HTTP/1.1\r\nHost: localhost\r\n{expects}\r\n"));
    wait_for_waiting(&mut other, 1);
    tell(&mut other, "release");
    let response = waits.response("POST");
    assert_eq!((response.status, response.text(), response.interim.len()), (200, RELEASED, 0));
    server.stop();
}

/// The body has been read by then; the module behind the one that waited gets it.
#[test]
fn after_a_module_that_passes_later_the_next_one_answers() {
    let setup = with_probe("");
    let library = probe_of(&setup);
    let passes = table(&library, "passes = true", "");
    let echoes = table(&library, "reads = true, echoes = true", "body_bytes_max = \"1MiB\"");
    let server = setup
        .route("/list", &modules(&[passes.clone(), hello("Second")]))
        .route("/bodies", &modules(&[passes.clone(), passes.clone(), echoes]))
        .route("/none", &modules(std::slice::from_ref(&passes)))
        .start();
    let (mut waits, mut other) = (server.connect(), server.connect());
    let mut connection = Connection::new(server.address);
    for (target, wanted) in [("/list", (200, "Second, world\n")), ("/none", (404, ""))] {
        ask_only(&mut waits, &format!("{target}?wait"));
        let id = connection.request("GET", &format!("{target}?wait"), &[], true);
        wait_for_waiting(&mut other, 2);
        tell(&mut other, "release=pass");
        let response = waits.response("GET");
        assert_eq!(response.status, wanted.0, "{target}");
        assert!(wanted.1.is_empty() || response.text() == wanted.1, "{target}: {response:?}");
        assert_eq!(connection.response(id).status, wanted.0, "{target}");
    }
    for bytes in [0_usize, 10, 300_000] {
        let body = vec![b'x'; bytes];
        let head = "POST /bodies?wait HTTP/1.1\r\nHost: localhost\r\n";
        waits.send([format!("{head}Content-Length: {bytes}\r\n\r\n").as_bytes(), &body].concat());
        wait_for_waiting(&mut other, 1);
        tell(&mut other, "release=pass");
        // The second one is asked then, and waits as well.
        wait_for_waiting(&mut other, 1);
        tell(&mut other, "release=pass");
        assert!(waits.response("POST").body == body, "{bytes}");
        assert!(waits.post("/bodies", &body).body == body, "{bytes}");
        assert_eq!(waits.get("/bodies").text(), "", "{bytes}: no request gets the body of another");
    }
    server.stop();
}

/// What a limit counts, it counts once; and what is asked behind the module is asked, too.
#[test]
fn gates_before_and_behind_a_module_that_waits_are_asked_once() {
    let setup = with_probe("");
    let library = probe_of(&setup);
    let passes = module(&library, "passes = true", "");
    let server = setup
        .route(
            "/limited",
            &format!("respond = {{ body = \"said\" }}\nlimit = [\"two\"]\ndelay = \"20ms\"\n{passes}"),
        )
        .table("[limit.two]\nrate = \"1/h\"\nburst = 1\n")
        .start();
    let (mut waits, mut other) = (server.connect(), server.connect());
    for _ in 0..2 {
        ask_only(&mut waits, "/limited?wait");
        wait_for_waiting(&mut other, 1);
        tell(&mut other, "release=pass");
        let response = waits.response("GET");
        assert_eq!((response.status, response.text()), (200, "said"));
    }
    assert_eq!(waits.get("/limited?wait").status, 429, "and no module is asked");
    assert_eq!(tell(&mut other, "waiting"), "0");
    server.stop();
}

#[test]
fn requests_over_http3_wait_as_well() {
    let setup = h3::setup("").table("[[listen]]\naddress = \"127.0.0.1:0\"\n");
    let library = probe(setup.directory.path());
    let passes = module(&library, "passes = true", "");
    let server = setup
        .route("/probe", &module(&library, "", ""))
        .route("/asked/*", &format!("pool = \"app\"\n{passes}"))
        .pool("app", None, "workers = 1")
        .start();
    server.wait_for_processes();
    let mut other = Client::connect(server.address_of("http"));
    let mut guest = h3::connect(&server);
    let mut ids: Vec<_> = (0..10).map(|_| guest.send_get("/probe?wait", &[])).collect();
    wait_for_waiting(&mut other, 10);
    assert_eq!(guest.ask("GET", "/a.txt", &[], b"").text(), "file a\n");
    // What has gone is not answered, and all others are.
    let gone = ids.remove(3);
    guest.stop_sending(gone, Code::RequestCancelled.number()).unwrap();
    assert_eq!(tell(&mut other, "release"), "10");
    for id in ids {
        assert_eq!(guest.response(id).unwrap().text(), RELEASED);
    }
    let upload = guest.begin("POST", "/asked/echo?wait", &[]);
    wait_for_waiting(&mut other, 1);
    let body = vec![b'x'; 100_000];
    tell(&mut other, "release=pass");
    guest.upload(upload, &body);
    guest.finish(upload).unwrap();
    assert!(guest.response(upload).unwrap().body == body);
    drop((guest, other));
    server.stop();
}

/// The worker process that was replaced keeps the request; a FIFO that both have opened lets the test answer it there.
#[test]
fn a_reload_loses_no_request_that_waits() {
    let setup = with_probe("");
    let gate = setup.directory.path().join("gate");
    mknodat(CWD, &gate, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let library = probe_of(&setup);
    let config = format!("gate = \"{}\"", gate.display());
    let server = setup.route("/gate", &module(&library, &config, "")).start();
    let mut other = server.connect();
    let old = server.answering_worker();
    let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| ask_only(client, "/gate?gate"));
    let mut connection = Connection::new(server.address);
    let id = connection.request("GET", "/gate?gate", &[], true);
    eventually("all stand at the gate", || tell(&mut other, "gates") == "4");
    reload(&server, 2);
    assert!(runs(old) && clients.iter().all(Client::is_quiet));
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    let mut bytes = std::fs::OpenOptions::new().read(true).write(true).open(&gate).unwrap();
    bytes.write_all(b"1234").unwrap();
    for client in &mut clients {
        assert_eq!(client.response("GET").text(), "through the gate\n");
    }
    assert_eq!(connection.response(id).text(), "through the gate\n");
    drop((connection, clients, other));
    eventually("the old worker process ends", || !runs(old));
    server.stop();
}

/// Not while its requests wait, but once they are answered or have timed out.
#[test]
fn a_stop_waits_for_requests_that_wait() {
    let server = with_probe("").server("grace = \"60s\"").start();
    let (mut waits, mut other) = (server.connect(), server.connect());
    ask_only(&mut waits, "/probe?wait");
    wait_for_waiting(&mut other, 1);
    let worker = server.worker();
    other.send("GET /probe?release HTTP/1.1\r\nHost: localhost\r\n");
    server.signal(rustix::process::Signal::TERM);
    eventually("it accepts no more", || std::net::TcpStream::connect(server.address).is_err());
    assert!(runs(worker) && waits.is_quiet());
    other.send("\r\n");
    assert_eq!(other.response("GET").text(), "1\n");
    assert_eq!(waits.response("GET").text(), RELEASED);
    let stopped = server.wait_for_exit();
    assert!(stopped.status.success());
}
