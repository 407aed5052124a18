//! Requests whose clients have gone, and which their processes therefore abort: this is no failure of a process.

use crate::support::{Client, Server, Setup, eventually};

fn start(setup: Setup, transport: &str) -> Server {
    let pool = format!(
        "[pool.app]\ncommand = [\"python3\", \"cancelled.py\"]\nworkers = 1\ntransport = \"{transport}\"\n"
    );
    let setup = setup.outside("cancelled.py", include_bytes!("cancelled.py")).log("access = \"json\"");
    let server = setup.route("/app/*", "pool = \"app\"").table(&pool).start();
    server.wait_for_processes();
    server
}

#[test]
fn what_a_process_gives_up_when_it_is_told_to_is_no_fault_of_it() {
    for transport in ["direct", "relay"] {
        let server = start(Setup::with_files(), transport);
        let mut client = server.connect();
        client.send("GET /app/waits HTTP/1.1\r\nHost: localhost\r\n\r\n");
        eventually("the process has it", || server.total("handoffs") == 1);
        drop(client);
        eventually("it was aborted", || server.total("client_aborts") == 1);
        let mut client = server.connect();
        client.send("GET /app/begun HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.raw_head().unwrap();
        assert_eq!(client.exactly(4).unwrap(), b"half");
        drop(client);
        eventually("it was aborted", || server.total("connections") == 1);
        assert_eq!((server.total("cancelled"), server.total("handoff_lost")), (2, 0), "{transport}");
        let stopped = server.stop();
        let blamed: Vec<_> = stopped.said.iter().filter(|line| line.contains("bad response")).collect();
        assert!(blamed.is_empty(), "{transport}: {blamed:#?}");
        let lines = stopped.json_lines();
        let logged: Vec<_> = lines.iter().map(|line| (&line["target"], &line["status"])).collect();
        assert_eq!(logged.len(), 2, "{transport}: {logged:?}");
        assert_eq!(
            (logged[0].0.as_str(), logged[0].1.as_u64()),
            (Some("/app/waits"), Some(499)),
            "{transport}"
        );
    }
}

/// A thread that is full takes the request alone, so that two of them have to agree that the client has gone.
#[test]
fn what_was_sent_to_another_thread_is_not_sent_again() {
    for transport in ["direct", "relay"] {
        let setup = Setup::with_files()
            .limit("connections_per_thread_max = 4")
            .server("threads = 2")
            .listen("buckets = 1");
        let server = start(setup, transport);
        let mut admin = Client::connect_unix(&server.path("admin.sock"));
        let mut total = |key: &str| -> u64 {
            let status: serde_json::Value = serde_json::from_slice(&admin.get("/status.json").body).unwrap();
            status["totals"][key].as_u64().unwrap()
        };
        total("handoffs");
        // With the one above, as many as the threads take.
        let mut clients: Vec<Client> = (0..7).map(|_| server.connect()).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
        for client in &mut clients {
            client.send("GET /app/waits HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
        eventually("the process has them", || total("handoffs") == 7);
        assert!(total("requests_transferred") > 0, "{transport}");
        drop(clients);
        eventually("all were aborted", || total("client_aborts") == 7);
        assert_eq!((total("handoffs"), total("handoff_retries")), (7, 0), "{transport}");
        drop(admin);
        let stopped = server.stop();
        let blamed =
            |line: &&String| line.contains("bad response") || line.contains("no response from another");
        assert_eq!(stopped.said.iter().find(blamed), None, "{transport}");
        let statuses = stopped.json_lines().iter().filter(|line| line["status"] == 499).count();
        assert_eq!(statuses, 7, "{transport}: {:#?}", stopped.access);
    }
}
