//! Threads that have as many connections as they may have.

use crate::support::{Client, Setup};

/// Places on each of the two threads.
const PLACES: u64 = 4;

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
