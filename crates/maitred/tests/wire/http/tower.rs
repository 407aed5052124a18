//! The example of `maitred-handoff` that serves a `tower::Service`, behind the real server.

use std::path::Path;
use std::process::Command;

use crate::support::{Server, Setup};

/// Builds the example, which cargo does by itself only if all tests are run, and starts it behind Maitred.
fn with(transport: &str) -> Server {
    with_more(transport, "")
}

fn with_more(transport: &str, more: &str) -> Server {
    // `cargo xtask test` has built all examples of the workspace.
    if std::env::var_os("MAITRED_XTASK_BUILT").is_none() {
        let build = ["build", "--quiet", "--package", "maitred-handoff", "--example", "tower"];
        assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
    }
    let example = Path::new(env!("CARGO_BIN_EXE_maitred")).with_file_name("examples").join("tower");
    let pool = format!(
        "[pool.rust]\ncommand = [\"{}\"]\nworkers = 2\ntransport = \"{transport}\"\nqueue = {{ timeout = \"30s\" }}\n{more}",
        example.display()
    );
    let setup = Setup::new().limit("body_bytes_max = \"8MiB\"").route("/*", "pool = \"rust\"").table(&pool);
    let server = setup.start();
    server.wait_for_processes();
    server
}

#[test]
fn a_tower_service_answers() {
    for transport in ["direct", "relay"] {
        let server = with(transport);
        let mut client = server.connect();
        for size in [0, 1, 1000, 300_000, 20_000_000] {
            let response = client.get(&format!("/bytes/{size}"));
            assert_eq!((response.status, response.body.len()), (200, size), "{transport}");
            assert!(response.body.iter().all(|byte| *byte == b'x'));
        }
        assert_eq!(client.get("/chunks/30/5000").body, vec![b'y'; 150_000]);
        for size in [0, 1000, 100_000, 5_000_000] {
            let wanted = format!("{size} bytes, 0 of them not x");
            assert_eq!(client.post("/count", &vec![b'x'; size]).text(), wanted, "{transport}");
        }
        assert_eq!(client.get("/nowhere").status, 404);
        assert_eq!(client.get("/status/304").status, 304);
        assert_eq!(client.get("/error").status, 500);
        let head = client.method("HEAD", "/bytes/1000", "");
        assert_eq!((head.status, head.need("content-length")), (200, "1000"));
        drop(client);
        server.stop();
    }
}

#[test]
fn requests_of_a_tower_service_run_at_the_same_time() {
    let server = with("auto");
    let mut slow: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for client in &mut slow {
        client.send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    assert_eq!(server.connect().get("/bytes/3").body, b"xxx");
    // The slow clients go away, which ends the service's futures: otherwise the processes would not end.
    drop(slow);
    server.stop();
}

#[test]
fn a_silent_request_of_a_tower_service_ends_alone() {
    for transport in ["direct", "relay"] {
        let server = with_more(transport, "request_timeout = \"1s\"");
        assert_eq!(server.connect().get("/wait").status, 504, "{transport}");
        assert_eq!(server.connect().get("/bytes/3").body, b"xxx");
        assert_eq!((server.total("request_timeouts"), server.total("handoff_lost")), (1, 0), "{transport}");
        server.stop();
    }
}

#[test]
fn a_tower_service_hints_and_names_files() {
    let root = std::env::temp_dir();
    for transport in ["direct", "relay"] {
        let more = format!("early_hints = \"always\"\nsendfile_root = {:?}", root.display().to_string());
        let server = with_more(transport, &more);
        let mut client = server.connect();
        client.send("GET /early-hints HTTP/1.1\r\nHost: h\r\n\r\n");
        let hint = client.head().unwrap();
        assert_eq!(
            (hint.status, hint.need("link")),
            (103, "</style.css>; rel=preload; as=style"),
            "{transport}"
        );
        assert_eq!(client.response("GET").body, b"hinted");
        let pattern: Vec<u8> = (0..300_000).map(|at| (at % 251) as u8).collect();
        assert!(client.get("/sendfile/300000").body == pattern, "{transport}");
        assert_eq!(client.get("/sendfile-path?/etc/passwd").status, 500);
        assert_eq!(client.get("/hop").body, b"hop");
        let refused = client.get("/426");
        assert_eq!((refused.status, refused.need("upgrade")), (426, "websocket"), "{transport}");
        drop(client);
        server.stop();
    }
}

#[test]
fn a_tower_service_has_trailers() {
    for transport in ["direct", "relay"] {
        let server = with(transport);
        let mut client = server.connect();
        for _ in 0..2 {
            client.send("GET /trailers HTTP/1.1\r\nHost: h\r\nTE: trailers\r\n\r\n");
            let head = String::from_utf8(client.raw_head().unwrap()).unwrap();
            assert!(head.to_ascii_lowercase().contains("\r\ntrailer: x-sum\r\n"), "{transport}: {head}");
            let body = String::from_utf8(client.exactly(24).unwrap()).unwrap();
            assert_eq!(body, "4\r\nbody\r\n0\r\nx-sum: 4\r\n\r\n", "{transport}");
        }
        client.send("GET /trailers HTTP/1.1\r\nHost: h\r\n\r\n");
        let head = String::from_utf8(client.raw_head().unwrap()).unwrap();
        assert!(!head.to_ascii_lowercase().contains("trailer"), "{transport}: {head}");
        assert_eq!(client.exactly(14).unwrap(), b"4\r\nbody\r\n0\r\n\r\n", "{transport}");
        assert_eq!(client.get("/bytes/3").body, b"xxx");
        drop(client);
        let said = Command::new("curl")
            .args(["-sv", "--max-time", "60", "--http2-prior-knowledge"])
            .arg(format!("http://{}/trailers", server.address))
            .output()
            .unwrap();
        let (_, behind) = std::str::from_utf8(&said.stderr).unwrap().split_once("< \r\n").unwrap();
        assert!(said.stdout == b"body" && behind.contains("< x-sum: 4"), "{transport}: {behind}");
        server.stop();
    }
}

#[test]
fn a_tower_service_sees_what_comes_behind_a_request() {
    for transport in ["direct", "relay"] {
        let server = with(transport);
        let mut client = server.connect();
        let request = "POST /request-trailers HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n";
        let said = client.ask(format!("{request}X-Sum: 4\r\nHost: evil\r\nX-A: b\r\n\r\n"));
        assert_eq!(said.text(), "4\nx-a: b\nx-sum: 4\n", "{transport}");
        assert_eq!(client.ask(format!("{request}\r\n")).text(), "4\n", "{transport}");
        drop(client);
        server.stop();
    }
}
