//! Requests whose clients have gone, and whose processes therefore give them up: nobody is to blame.

use crate::support::{Setup, eventually};

#[test]
fn what_a_process_gives_up_when_it_is_told_to_is_no_fault_of_it() {
    for transport in ["direct", "relay"] {
        let pool = format!(
            "[pool.app]\ncommand = [\"python3\", \"cancelled.py\"]\nworkers = 1\ntransport = \"{transport}\"\n"
        );
        let server = Setup::with_files()
            .outside("cancelled.py", include_bytes!("cancelled.py"))
            .log("access = \"json\"")
            .route("/app/*", "pool = \"app\"")
            .table(&pool)
            .start();
        server.wait_for_processes();
        let mut client = server.connect();
        client.send("GET /app/waits HTTP/1.1\r\nHost: localhost\r\n\r\n");
        eventually("the process has it", || server.total("handoffs") == 1);
        drop(client);
        eventually("it was given up", || server.total("cut_off") == 1);
        let mut client = server.connect();
        client.send("GET /app/begun HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.raw_head().unwrap();
        assert_eq!(client.exactly(4).unwrap(), b"half");
        drop(client);
        eventually("it was given up", || server.total("connections") == 1);
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
