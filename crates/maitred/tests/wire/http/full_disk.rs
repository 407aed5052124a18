//! Disks that are full: that of an access log, and that of request bodies.

use std::process::{Command, Stdio};

use crate::support::{Server, Setup, binary, eventually, skip_here};

/// Starts the server with a small file system at `small`, which no other process sees. `None` where that takes more rights.
fn start(setup: Setup, bytes: usize) -> Option<Server> {
    if !rustix::process::geteuid().is_root() {
        skip_here("it takes root to mount a file system");
        return None;
    }
    std::fs::create_dir(setup.directory.path().join("small")).unwrap();
    let script =
        format!("mount -t tmpfs -o size={bytes},mode=0777 none small && exec \"$0\" run -c maitred.toml");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).arg(binary()).stdin(Stdio::null());
    Some(setup.start_by(command))
}

/// The verdict on the log.
fn log_verdict(server: &Server) -> Option<serde_json::Value> {
    let status = server.status();
    status["health"].as_array().unwrap().iter().find(|verdict| verdict["subject"] == "log").cloned()
}

#[test]
fn an_access_log_without_room_shows_in_the_servers_health() {
    let setup = Setup::with_files()
        .site("access_log = \"small\"")
        .table("[access_log.small]\nto = \"small/access.log\"\nformat = '{path} {header.X-Long}'\n");
    let Some(server) = start(setup, 64 * 1024) else { return };
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").status, 200);
    assert_eq!(log_verdict(&server), None, "nothing is lost yet");
    let long = format!("X-Long: {}\r\n", "x".repeat(4000));
    eventually("lines are lost", || {
        assert_eq!(client.method("GET", "/a.txt", &long).status, 200, "requests are answered all the same");
        log_verdict(&server).is_some()
    });
    let verdict = log_verdict(&server).unwrap();
    assert_eq!(verdict["state"], "bad", "{verdict}");
    assert!(verdict["reason"].as_str().unwrap().contains("of access logs lost"), "{verdict}");
    let (status, said) = server.command(&["status"]);
    assert!(status.success() && said.contains("bad: log:") && said.contains("disk of the log"), "{said}");
    assert!(server.total("log_dropped") > 0);
}

#[test]
fn an_upload_without_room_on_the_disk_gets_507() {
    let setup = Setup::with_files()
        .server("spool = \"small\"")
        .limit("body_memory_bytes_max = \"64KiB\"")
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }");
    let Some(server) = start(setup, 256 * 1024) else { return };
    assert_eq!(
        server.connect().post("/app/length", &[b'x'; 100_000]).text(),
        "100000",
        "there is room for this one"
    );
    let mut client = server.connect();
    client.send("POST /app/length HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
    // The server may refuse it before it has read all of it.
    let _ = client.try_send(vec![b'x'; 1_000_000]);
    let refused = client.response("POST");
    assert_eq!(refused.status, 507, "{refused:?}");
    assert!(refused.need("Retry-After").parse::<u32>().is_ok());
    server.wait_for_line(|line| line.contains("finds no room in") && line.contains("small"));
    assert_eq!(
        server.connect().post("/app/length", &[b'x'; 100_000]).text(),
        "100000",
        "the room is given back"
    );
}
