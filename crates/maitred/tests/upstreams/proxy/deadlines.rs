//! `grpc-timeout`: how long a call may take, and what its server is told of that.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::support::framed::{self, Came, field, head};
use crate::support::h2::frame::{code, data};
use crate::support::h2::{Connection, Response};
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup, TIMEOUT};

fn start(upstream: &Upstream) -> Server {
    Setup::with_files()
        .server("threads = 1")
        .log("access = \"combined\"")
        .route("/*", "pool = \"app\"\ngrpc_web = true")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", framed::name(upstream)))
        .start()
}

fn call(connection: &mut Connection, path: &str, timeout: &str) -> u32 {
    let fields = [("te", "trailers"), ("content-type", "application/grpc"), ("grpc-timeout", timeout)];
    connection.request("POST", path, &fields, false)
}

fn is_over(fields: &[(String, String)]) {
    assert_eq!(field(fields, "grpc-status"), Some("4"), "{fields:?}");
    assert!(field(fields, "grpc-message").is_some_and(|text| text.contains("grpc-timeout")), "{fields:?}");
}

/// A server that says what comes, and has begun to answer `/begun`.
fn watched() -> (Upstream, std::sync::mpsc::Receiver<Came>) {
    let (sender, came) = channel();
    let sender = Mutex::new(sender);
    let upstream = framed::start(&[], move |far| {
        loop {
            let next = far.next()?;
            if let Came::Head { id, fields, .. } = &next
                && field(fields, ":path") == Some("/begun")
            {
                far.send(head(*id, &[(":status", "200"), ("content-type", "application/grpc")], false))?;
                far.send(data(*id, b"\0\0\0\0\x02hi", false))?;
            }
            sender.lock().unwrap().send(next).unwrap();
        }
    });
    (upstream, came)
}

fn reset_of(came: &std::sync::mpsc::Receiver<Came>) -> u32 {
    loop {
        if let Came::Reset { code, .. } = came.recv_timeout(TIMEOUT).unwrap() {
            return code;
        }
    }
}

#[test]
fn a_call_whose_time_is_over_ends() {
    let (upstream, came) = watched();
    let server = start(&upstream);
    let mut connection = Connection::new(server.address);
    let id = call(&mut connection, "/silent", "100m");
    let response = connection.response(id);
    assert_eq!((response.status, response.body.len(), response.trailers.len()), (200, 0, 0));
    is_over(&response.fields);
    assert_eq!(reset_of(&came), code::CANCEL);
    let id = call(&mut connection, "/begun", "200000u");
    let response = connection.response(id);
    assert_eq!(response.body, b"\0\0\0\0\x02hi");
    is_over(&response.trailers);
    assert_eq!(reset_of(&came), code::CANCEL);
    assert_eq!(upstream.connections(), 1, "others keep the connection");
    assert_eq!((server.total("request_timeouts"), server.total("upstream_failures")), (2, 0));
    let stopped = server.stop();
    assert!(stopped.access[0].contains("\"POST /silent HTTP/2.0\" 504 "), "{:?}", stopped.access);
}

/// A server that never stops sending does not put the end off.
#[test]
fn a_stream_of_messages_ends_in_time() {
    let upstream = framed::start(&[], |far| {
        let (id, ..) = far.request()?;
        far.send(head(id, &[(":status", "200"), ("content-type", "application/grpc")], false))?;
        loop {
            far.send(data(id, &[0; 1000], false))?;
            if let Came::Reset { .. } = far.next()? {
                return far.peer.wait_for_end();
            }
        }
    });
    let server = start(&upstream);
    let mut connection = Connection::new(server.address);
    let id = call(&mut connection, "/", "300m");
    connection.upload(id, b"", true);
    let response: Response = connection.response(id);
    is_over(&response.trailers);
    server.stop();
}

#[test]
fn a_server_that_accepts_no_stream_in_time_gets_none() {
    let upstream = Upstream::start(|peer| peer.wait_for_end());
    let server = start(&upstream);
    let mut connection = Connection::new(server.address);
    let id = call(&mut connection, "/", "100m");
    is_over(&connection.response(id).fields);
    let id = call(&mut connection, "/", "0S");
    is_over(&connection.response(id).fields);
    server.stop();
}

#[test]
fn a_server_is_told_what_is_left() {
    let upstream = framed::start(&[], |far| {
        loop {
            let (id, fields, _) = far.request()?;
            far.answer(id, field(&fields, "grpc-timeout").unwrap_or("none"))?;
        }
    });
    let server = start(&upstream);
    let mut connection = Connection::new(server.address);
    let mut told = |timeout: &str| {
        let id = call(&mut connection, "/", timeout);
        connection.upload(id, b"", true);
        connection.response(id).text().to_owned()
    };
    let said = told("50S");
    let micros: u64 = said.strip_suffix('u').unwrap_or_else(|| panic!("{said}")).parse().unwrap();
    assert!((20_000_000..50_000_000).contains(&micros), "{said}");
    let said = told("99999999H");
    assert!(["99999998H", "99999999H"].contains(&&*said), "{said}");
    for none in ["1", "123456789S", "5x"] {
        assert_eq!(told(none), none, "what is no time is for the server to judge");
    }
    let response = connection.method("POST", "/", &[("grpc-timeout", "1n")]);
    assert_eq!(response.text(), "1n", "no call");
    server.stop();
}

#[test]
fn a_browser_gets_the_end_in_the_form_of_its_call() {
    let (upstream, came) = watched();
    let server = start(&upstream);
    let kind = "Content-Type: application/grpc-web\r\nGrpc-Timeout: 200m";
    for path in ["/silent", "/begun"] {
        let mut client = server.connect();
        let fields = format!("Host: a\r\n{kind}\r\nContent-Length: 5\r\n");
        let response = client.ask(format!("POST {path} HTTP/1.1\r\n{fields}\r\n\0\0\0\0\0"));
        assert_eq!(response.status, 200, "{path}");
        match path {
            "/silent" => assert_eq!(response.need("grpc-status"), "4"),
            _ => {
                let text = String::from_utf8_lossy(&response.body);
                assert!(text.starts_with("\0\0\0\0\u{2}hi"), "{text:?}");
                assert!(text.contains("grpc-status: 4\r\n"), "{text:?}");
            }
        }
        assert_eq!(reset_of(&came), code::CANCEL);
    }
    assert_eq!(server.total("request_timeouts"), 2);
    server.stop();
}
