//! Reloads while requests are under way.

use crate::fastcgi::site::{at, start};
use crate::support::php::Php;
use crate::support::{Gate, eventually};

/// Whatever a script is at when the configuration is read again, its response is whole.
#[test]
fn a_reload_loses_nothing() {
    let Some(php) = Php::fpm(4) else { return };
    let gate = Gate::new();
    let server = start(&php, "");
    let old = server.worker();
    let mut clients: Vec<_> = ["wait", "halves"].into_iter().map(|case| (case, server.connect())).collect();
    let mut waiting = Vec::new();
    for (case, client) in &mut clients {
        client.send(format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", at(&gate, case)));
        waiting.push(gate.arrival());
    }
    // An upload, half of which has come.
    let mut upload = server.connect();
    upload.send("POST /echo.php HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nfirst");
    let mut idle = server.connect();
    assert_eq!(idle.get("/page").status, 200);
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    eventually("another process answers", || server.answering_worker() != old);
    assert_eq!(server.connect().get("/page").status, 200);
    upload.send(" half");
    for stands in waiting {
        stands.release();
    }
    for (case, mut client) in clients {
        let response = client.response("GET");
        let expected = if case == "wait" { "waited" } else { "first half\nsecond half\n" };
        assert_eq!((response.status, response.text()), (200, expected));
    }
    assert_eq!(upload.response("POST").text(), "first half");
    assert_eq!(idle.get("/again").text(), "index.php of root: GET /again");
    eventually("the old process ends", || server.worker_is_not(old));
    server.stop();
}

/// A configuration that leads to another PHP is followed by the next request.
#[test]
fn a_reload_can_lead_to_another_php() {
    let (Some(first), Some(second)) = (Php::fpm(1), Php::fpm(1)) else { return };
    let server = start(&first, "");
    let configuration = server.path("maitred.toml");
    let text = std::fs::read_to_string(&configuration).unwrap();
    drop(first);
    assert_eq!(server.connect().get("/page").status, 502);
    let from = text.lines().find(|line| line.starts_with("connect")).unwrap();
    let text = text.replace(from, &format!("connect = \"{}\"", second.url()));
    std::fs::write(&configuration, text).unwrap();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    eventually("the other one answers", || server.connect().get("/page").status == 200);
    server.stop();
}
