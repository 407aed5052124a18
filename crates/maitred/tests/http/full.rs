//! Threads that have as many connections as they may have.

use crate::support::{Client, Gate, Setup, eventually};

/// Places on each of the two threads.
const PLACES: u64 = 4;
/// A limit on open files under which connections alone could take up so much that nothing is left for their requests.
const OPEN_FILES: u32 = 520;
/// What it leaves: a third of what is not reserved.
const PLACES_OF_FEW: u64 = (OPEN_FILES as u64 - 256 - 8) / 3;
/// As many as there would be places, if each took no more than one descriptor.
const CLIENTS: u32 = OPEN_FILES - 256 - 8;

#[test]
fn a_connection_stays_where_it_is_if_the_thread_of_its_process_is_full() {
    let server = Setup::with_files()
        .limit(&format!("connections_per_thread_max = {PLACES}"))
        .server("threads = 2")
        .listen("buckets = 1")
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    // It takes a place like any other, so it is there before the clients are.
    let mut admin = Client::connect_unix(&server.path("admin.sock"));
    let mut status = || -> serde_json::Value {
        let response = admin.get("/status.json");
        serde_json::from_slice(&response.body).unwrap()
    };
    status();
    let mut clients: Vec<Client> = (1..2 * PLACES).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    let body = vec![b'b'; 300_000];
    for client in &mut clients {
        assert_eq!(client.get("/app/hello").status, 200);
        let response = client.post("/app/echo", &body);
        assert_eq!((response.status, response.body == body), (200, true));
        let status = status();
        for thread in status["threads"].as_array().unwrap() {
            assert_eq!(thread["connections"].as_u64(), Some(PLACES), "{status}");
        }
    }
    assert!(status()["totals"]["sent_across"].as_u64() > Some(0));
    let requests = 3 * clients.len();
    drop(clients);
    drop(admin);
    assert_eq!(server.stop().access.len(), requests);
}

/// Each request needs a descriptor besides its client's socket here, for the file of its body. The thread stops accepting before
/// they run out, so that nobody is refused: new connections wait.
#[test]
fn connections_wait_before_descriptors_run_out() {
    let gate = Gate::new();
    let server = Setup::with_files()
        .limit("body_inline_bytes_max = 0\nfile_cache_files_max = 0")
        .pool("app", Some(&gate), "workers = 1\nqueue = { max = 1024, timeout = \"60s\" }")
        .start_with_open_files(OPEN_FILES);
    let mut admin = Client::connect_unix(&server.path("admin.sock"));
    let mut totals = || -> serde_json::Value {
        let response = admin.get("/status.json");
        serde_json::from_slice::<serde_json::Value>(&response.body).unwrap()["totals"].clone()
    };
    totals();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    let request = "POST /app/wait HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
    clients.iter_mut().for_each(|client| client.send(request));
    let first = gate.arrival();
    // One of the places is the admin client's, one request is with the application.
    eventually("all places are taken", || totals()["queued"] == PLACES_OF_FEW - 2);
    assert_eq!((totals()["full"].as_u64(), totals()["connections"].as_u64()), (Some(1), Some(PLACES_OF_FEW)));
    first.release();
    (1..CLIENTS).for_each(|_| gate.arrival().release());
    for client in &mut clients {
        assert_eq!(client.response("POST").text(), "waited\n");
    }
    server.stop();
}
