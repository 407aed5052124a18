//! `early_data`: requests in the first flight of a session (RFC 8446 section 2.3, RFC 8470).

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::support::h3::reload;
use crate::support::stage::{Authority, resumes, setup};
use crate::support::upstream::Upstream;
use crate::support::{Client, Server, TIMEOUT};

fn start(authority: &Authority, tls: &str) -> Server {
    let server = setup(authority, tls).pool("app", None, "workers = 1").start();
    server.wait_for_processes();
    server
}

/// A client of TLS 1.3 that would send early data, and that was here before.
fn returning(server: &Server, authority: &Authority) -> Arc<ClientConfig> {
    let mut client = (*authority.client_of(&[&TLS13], None)).clone();
    client.enable_early_data = true;
    let client = Arc::new(client);
    assert!(!resumes(server, &client));
    client
}

fn socket(server: &Server) -> TcpStream {
    let socket = TcpStream::connect(server.address_of("https")).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// Sends a request in the first flight. What that flight was, and the session after its handshake.
fn early(server: &Server, client: &Arc<ClientConfig>, request: &str) -> (Vec<u8>, Client) {
    let name = ServerName::try_from("localhost").unwrap();
    let mut session = ClientConnection::new(Arc::clone(client), name).unwrap();
    session.early_data().expect("early data is offered").write_all(request.as_bytes()).unwrap();
    let mut flight = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut flight).unwrap();
    }
    let mut socket = socket(server);
    socket.write_all(&flight).unwrap();
    let mut stream = StreamOwned::new(session, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    assert!(stream.conn.is_early_data_accepted());
    (flight, Client::over_tls(stream))
}

#[test]
fn safe_requests_are_answered_early_and_others_later() {
    let authority = Authority::new();
    let server = start(&authority, "early_data = true");
    let client = returning(&server, &authority);
    let (_, mut connection) = early(&server, &client, "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(connection.response("GET").text(), "file a\n");
    assert_eq!(connection.get("/b.txt").text(), "file b\n", "and the connection goes on");

    let (_, mut connection) = early(&server, &client, "GET /app/show HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = connection.response("GET");
    let seen: BTreeMap<String, String> = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(seen["HTTP_EARLY_DATA"], "1", "{seen:?}");
    let seen: BTreeMap<String, String> = serde_json::from_slice(&connection.get("/app/show").body).unwrap();
    assert_eq!(seen.get("HTTP_EARLY_DATA"), None, "this one came later");

    let post = "POST /app/show HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    let (_, mut connection) = early(&server, &client, post);
    assert_eq!(connection.response("POST").status, 425);
    drop(connection);
    let mut again =
        Client::try_connect_tls(server.address_of("https"), &authority.client(), "localhost").unwrap();
    assert_eq!(again.post("/app/show", b"").status, 200);
    drop(again);
    server.stop();
}

/// More than a session keeps of what cannot be sent yet; and an answer with which the connection ends.
#[test]
fn long_and_last_answers_to_early_requests_are_whole() {
    let authority = Authority::new();
    let large = vec![b'l'; 1024 * 1024];
    let server = setup(&authority, "early_data = true").file("large.txt", &large).start();
    let client = returning(&server, &authority);
    let (_, mut connection) = early(&server, &client, "GET /large.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(connection.response("GET").body, large);
    assert_eq!(connection.get("/a.txt").text(), "file a\n");
    for path in ["/large.txt", "/a.txt"] {
        let client = returning(&server, &authority);
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let (_, mut connection) = early(&server, &client, &request);
        assert_eq!(connection.response("GET").status, 200, "{path}");
    }
    server.stop();
}

#[test]
fn a_first_flight_that_is_sent_again_is_not_answered_again() {
    let authority = Authority::new();
    let server = start(&authority, "early_data = true");
    let client = returning(&server, &authority);
    let request = "GET /a.txt?recorded HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (flight, mut connection) = early(&server, &client, request);
    assert_eq!(connection.response("GET").text(), "file a\n");
    let mut replayed = socket(&server);
    replayed.write_all(&flight).unwrap();
    // The server goes on with a whole handshake, which only the real client can complete.
    assert!(replayed.read(&mut [0; 1]).unwrap() > 0);
    drop((replayed, connection));
    let stopped = server.stop();
    let recorded = stopped.access.iter().filter(|line| line.contains("recorded")).count();
    assert_eq!(recorded, 1, "{:#?}", stopped.access);
}

/// RFC 8470: what gates say of safe requests is said early; others come again, and count for nothing until then.
#[test]
fn gates_are_asked_about_early_requests_that_are_safe() {
    let authority = Authority::new();
    // Of "secret".
    let users = "users = { ann = \"$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0\" }";
    let server = setup(&authority, "early_data = true")
        .table("[limit.once]\nrate = \"1/h\"\n")
        .pool("app", None, "workers = 1")
        .route("/users/*", &format!("pool = \"app\"\nlimit = [\"once\"]\nbasic_auth = {{ {users} }}"))
        .route("/user/*", &format!("pool = \"app\"\nbasic_auth = {{ {users} }}"))
        .start();
    server.wait_for_processes();
    let ann = "Host: localhost\r\nAuthorization: Basic YW5uOnNlY3JldA==\r\n";
    // The second time the password is known.
    for _ in 0..2 {
        let (_, mut connection) =
            early(&server, &returning(&server, &authority), &format!("GET /user/show HTTP/1.1\r\n{ann}\r\n"));
        let response = connection.response("GET");
        assert_eq!(response.status, 200, "{}", response.text());
    }
    let (_, mut connection) =
        early(&server, &returning(&server, &authority), "GET /user/show HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(connection.response("GET").status, 401);
    for fields in [ann, "Host: localhost\r\n"] {
        let post = format!("POST /users/show HTTP/1.1\r\n{fields}Content-Length: 5\r\n\r\nhello");
        let (_, mut connection) = early(&server, &returning(&server, &authority), &post);
        assert_eq!(connection.response("POST").status, 425, "with credentials and without");
        drop(connection);
    }
    let mut later =
        Client::try_connect_tls(server.address_of("https"), &authority.client(), "localhost").unwrap();
    for status in [200, 429] {
        later.send(format!("POST /users/show HTTP/1.1\r\n{ann}Content-Length: 5\r\n\r\nhello"));
        assert_eq!(later.response("POST").status, status, "the early ones have not counted");
    }
    drop((connection, later));
    server.stop();
}

/// Admits what is not early, and early requests for `?easy`.
#[test]
fn another_server_knows_that_a_request_is_early() {
    let authority = Authority::new();
    let guard = Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let early = asked.field("early-data") == Some("1");
            let over_tls =
                asked.field("x-forwarded-proto") == Some("https") && asked.field("x-ssl-protocol").is_some();
            assert!(over_tls, "{:?}", asked.fields);
            match early && asked.field("x-forwarded-uri") != Some("/user/show?easy") {
                true => peer.send("HTTP/1.1 425 Too Early\r\nContent-Length: 0\r\n\r\n")?,
                false => {
                    peer.send(format!("HTTP/1.1 200 OK\r\nX-Was: {early}\r\nContent-Length: 0\r\n\r\n"))?
                }
            }
        }
    });
    let server = setup(&authority, "early_data = true")
        .pool("app", None, "workers = 1")
        .route(
            "/user/*",
            &format!(
                "pool = \"app\"\nforward_auth = {{ url = \"{}/verify\", copy_headers = [\"X-Was\"] }}",
                guard.name()
            ),
        )
        .start();
    server.wait_for_processes();
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (_, mut connection) = early(&server, &returning(&server, &authority), &get("/user/show?easy"));
    assert_eq!(connection.response("GET").status, 200);
    let (_, mut connection) = early(&server, &returning(&server, &authority), &get("/user/show"));
    assert_eq!(connection.response("GET").status, 425, "its answer is the client's");
    assert_eq!(connection.get("/user/show").status, 200, "the handshake is over");
    assert_eq!(guard.requests(), 3);
    let post = "POST /user/show HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    let (_, mut connection) = early(&server, &returning(&server, &authority), post);
    assert_eq!(connection.response("POST").status, 425);
    assert_eq!(guard.requests(), 3, "nothing was asked");
    drop(connection);
    server.stop();
}

/// After a reload no session is known: what clients send early is skipped, as much as their tickets allow and in whatever pieces
/// it comes, and their connections go on.
#[test]
fn early_data_that_is_refused_is_skipped() {
    let authority = Authority::new();
    for (generation, (write, record, segment)) in [
        (16_384, 16_384, 65_536),
        (16_384, 16_384, 1_000),
        (16_384, 4_096, 4_096),
        (16_384, 400, 300),
        (9_000, 9_000, 1),
    ]
    .into_iter()
    .enumerate()
    {
        let server =
            start(&authority, ["early_data = true", "early_data = true, ktls = \"auto\""][generation % 2]);
        let client = returning(&server, &authority);
        reload(&server, 2);
        let name = ServerName::try_from("localhost").unwrap();
        let mut session = ClientConnection::new(Arc::clone(&client), name).unwrap();
        let mut early = session.early_data().expect("early data is offered");
        assert_eq!(early.bytes_left(), 16_384);
        let bytes = vec![b'x'; write];
        bytes.chunks(record).for_each(|piece| early.write_all(piece).unwrap());
        let mut flight = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut flight).unwrap();
        }
        assert!(flight.len() > write);
        let mut socket = socket(&server);
        socket.set_nodelay(true).unwrap();
        flight.chunks(segment).for_each(|segment| socket.write_all(segment).unwrap());
        let mut stream = StreamOwned::new(session, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        assert!(!stream.conn.is_early_data_accepted());
        let mut connection = Client::over_tls(stream);
        assert_eq!(connection.get("/a.txt").text(), "file a\n", "{write} {record} {segment}");
        drop(connection);
        server.stop();
    }
}

/// As much as a ticket says is taken, and no more.
#[test]
fn early_data_is_as_long_as_tickets_say() {
    let authority = Authority::new();
    let server = start(&authority, "early_data = true");
    let client = returning(&server, &authority);
    let head = "POST /app/length HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16000\r\n\r\n";
    let request = format!("{head}{}", "x".repeat(16_000));
    let (_, mut connection) = early(&server, &client, &request);
    assert_eq!(connection.response("POST").status, 425);
    drop(connection);
    server.stop();
}

#[test]
fn early_data_is_off_unless_it_is_asked_for() {
    let authority = Authority::new();
    let server = start(&authority, "");
    let client = returning(&server, &authority);
    let name = ServerName::try_from("localhost").unwrap();
    let mut session = ClientConnection::new(Arc::clone(&client), name).unwrap();
    assert!(session.early_data().is_none());
    assert!(resumes(&server, &client), "but the session is resumed");
    server.stop();
}
