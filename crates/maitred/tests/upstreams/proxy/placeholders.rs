//! Placeholders in the fields of requests and responses: for all kinds of pools, over all versions of HTTP.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, channel};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::support::framed;
use crate::support::h2::Connection;
use crate::support::h3::{self, Asks as _, Text as _};
use crate::support::upstream::Upstream;
use crate::support::{Setup, TIMEOUT};

/// Of "secret".
const BCRYPT: &str = "$2y$05$rghXMw387UPLDQBml3anFOiGL5e4WhS1Evoq2xew3jrq52ZayqZQ.";

/// A user whose name could end a value.
const USER: &str = "ann b;c";
const ENCODED: &str = "ann%20b%3Bc";

const TOLD: &str =
    "X-Told = '{scheme}|{host}|{port}|{uri}|{client}|{user}', X-Id = '{request_id}', X-Json = '{{\"a\":1}}'";

const APPLICATION: &str = "
def application(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain'), ('X-Told', 'own')])
    names = ['HTTP_X_TOLD', 'HTTP_X_ID', 'HTTP_X_REQUEST_ID', 'HTTP_X_JSON']
    return ['\\n'.join(environ.get(name, '-') for name in names).encode()]
";

fn authorization() -> String {
    format!("Basic {}", STANDARD.encode(format!("{USER}:secret")))
}

/// Fields of a request by their names.
type Asked = HashMap<String, String>;

/// A server that keeps what it was asked for, and says a field of its own; and one of HTTP/2.
fn servers() -> (Upstream, Upstream, Receiver<Asked>) {
    let (sender, asked) = channel();
    let sender_2 = sender.clone();
    let one = Upstream::start(move |peer| {
        loop {
            let request = peer.request()?;
            sender.send(request.fields.into_iter().collect()).unwrap();
            peer.send(
                "HTTP/1.1 200 OK\r\nX-Told: own\r\nCache-Control: public, max-age=600\r\nContent-Length: 2\r\n\r\nok",
            )?;
        }
    });
    let two = framed::start(&[], move |far| {
        loop {
            let (id, fields, _) = far.request()?;
            sender_2.send(fields.into_iter().collect()).unwrap();
            far.answer(id, "ok")?;
        }
    });
    (one, two, asked)
}

fn routes(setup: Setup, (one, two): (&Upstream, &Upstream), lines: &str) -> Setup {
    let pools = format!(
        "[pool.one]\nconnect = \"{}\"\n[pool.two]\nconnect = \"{}\"\n",
        one.name(),
        framed::name(two)
    );
    let of = |pool: &str| format!("pool = \"{pool}\"\n{lines}");
    setup
        .log("access = \"json\"")
        .outside("told.py", APPLICATION.as_bytes())
        .site(&format!("basic_auth = {{ users = {{ \"{USER}\" = \"{BCRYPT}\" }} }}"))
        .route("/one/*", &of("one"))
        .route("/two/*", &of("two"))
        .route("/direct/*", &of("direct"))
        .route("/relay/*", &of("relay"))
        .table(&pools)
        .python("direct", "told:application", "", "transport = \"direct\"\nworkers = 1")
        .python("relay", "told:application", "", "transport = \"relay\"\nworkers = 1")
}

/// What an application was told, whether it has said so in its response or a server has got it.
fn told(pool: &str, text: &str, asked: &Receiver<Asked>) -> [String; 4] {
    if matches!(pool, "direct" | "relay") {
        let lines: Vec<_> = text.split('\n').map(str::to_owned).collect();
        return lines.try_into().unwrap();
    }
    let asked = asked.recv_timeout(TIMEOUT).unwrap();
    ["x-told", "x-id", "x-request-id", "x-json"].map(|name| asked.get(name).cloned().unwrap_or_default())
}

#[test]
fn applications_are_told_what_the_placeholders_stand_for() {
    let (one, two, asked) = servers();
    let lines = format!("request_headers = {{ set = {{ {TOLD} }} }}");
    let server = routes(Setup::with_files().server("threads = 2"), (&one, &two), &lines).start();
    server.wait_for_processes();
    let port = server.address.port();
    let mut client = server.connect();
    let mut connection = Connection::new(server.address);
    for pool in ["one", "two", "direct", "relay"] {
        let auth = authorization();
        let response = client.ask(format!(
            "GET /{pool}/./a%20b?q=%22;x HTTP/1.1\r\nHost: localhost:81\r\nX-Told: forged\r\nX-Id: forged\r\nAuthorization: {auth}\r\n\r\n"
        ));
        let expected = format!("http|localhost|{port}|/{pool}/a%20b?q=%22;x|127.0.0.1|{ENCODED}");
        let [line, id, request_id, json] = told(pool, response.text(), &asked);
        assert_eq!((line.as_str(), json.as_str()), (expected.as_str(), "{\"a\":1}"), "{pool}");
        assert_eq!((id.len(), &id), (32, &request_id), "{pool}");
        let path = format!("/{pool}/a?b");
        let response = connection.method("GET", &path, &[("authorization", &auth), ("x-told", "forged")]);
        let [line, id, request_id, _] = told(pool, response.text(), &asked);
        assert_eq!(line, format!("http|localhost|{port}|{path}|127.0.0.1|{ENCODED}"), "{pool}");
        assert_eq!(id, request_id);
    }
    server.stop();
}

#[test]
fn responses_of_all_kinds_say_what_the_placeholders_stand_for() {
    let (one, two, asked) = servers();
    let server = routes(Setup::with_files(), (&one, &two), "")
        .table("[cache]\ndirectory = \"store\"\n")
        .route("/to", "redirect = \"/new\"")
        .route("/said", "respond = { status = 200, body = \"hi\" }")
        .route("/none/*", "pool = \"none\"")
        .route("/kept/*", "pool = \"one\"\nbasic_auth = \"off\"\ncache = true")
        .route("/own/*", "pool = \"one\"\nresponse_headers = { set = { X-Told = \"{{own}}\" } }")
        .table("[pool.none]\nconnect = \"http+unix:none.sock\"\n")
        .site(&format!("response_headers = {{ set = {{ {TOLD} }}, add = {{ Link = \"<{{scheme}}://{{host}}{{uri}}>\" }} }}"))
        .start();
    server.wait_for_processes();
    let port = server.address.port();
    let mut client = server.connect();
    let mut connection = Connection::new(server.address);
    let auth = authorization();
    let mut ids = Vec::new();
    for (path, expected_status) in [
        ("/a.txt", 200),
        ("/missing", 404),
        ("/dir", 301),
        ("/to", 302),
        ("/said", 200),
        ("/none/x", 502),
        ("/one/x", 200),
        ("/kept/x", 200),
        ("/kept/x", 200),
        ("/two/x", 200),
        ("/direct/x?y", 200),
        ("/relay/x?y", 200),
    ] {
        let user = if path.starts_with("/kept/") { "" } else { ENCODED };
        let expected = format!("http|localhost|{port}|{path}|127.0.0.1|{user}");
        let first = client.method("GET", path, &format!("Authorization: {auth}\r\n"));
        let second = connection.method("GET", path, &[("authorization", &auth)]);
        let of = |status: u16, field: &dyn Fn(&str) -> Option<String>| {
            let [told, link, json, id] =
                ["x-told", "link", "x-json", "x-id"].map(|name| field(name).unwrap_or_default());
            assert_eq!((status, told), (expected_status, expected.clone()), "{path}");
            assert_eq!((link, json.as_str()), (format!("<http://localhost{path}>"), "{\"a\":1}"), "{path}");
            id
        };
        ids.push((path, of(first.status, &|name| first.field(name).map(str::to_owned))));
        ids.push((path, of(second.status, &|name| second.field(name).map(str::to_owned))));
    }
    let own = client.method("GET", "/own/x", &format!("Authorization: {auth}\r\n"));
    assert_eq!(own.need("x-told"), "{own}");
    let refused = client.get("/a.txt");
    let expected = format!("http|localhost|{port}|/a.txt|127.0.0.1|");
    assert_eq!(
        (refused.status, refused.need("x-told")),
        (401, expected.as_str()),
        "no gate has found a user"
    );
    // Two of /one/, two of /two/, one of /own/: and one of /kept/, for which the cache has answered the others.
    assert_eq!(asked.try_iter().count(), 6);
    let logged: Vec<Value> = server.stop().json_lines();
    for (path, id) in ids {
        assert_eq!(id.len(), 32);
        let of = logged.iter().filter(|line| line["request_id"] == id.as_str());
        assert_eq!(of.map(|line| &line["target"]).collect::<Vec<_>>(), [path], "{id}");
    }
}

#[test]
fn streams_of_http_3_have_them_as_well() {
    let (one, two, asked) = servers();
    let fields =
        format!("request_headers = {{ set = {{ {TOLD} }} }}\nresponse_headers = {{ set = {{ {TOLD} }} }}");
    let server = routes(h3::setup(""), (&one, &two), &fields).start();
    server.wait_for_processes();
    let mut client = h3::connect(&server);
    let auth = authorization();
    for pool in ["one", "two", "relay"] {
        let path = format!("/{pool}/x?y");
        let response = client.ask("GET", &path, &[("authorization", &auth)], b"");
        let [line, id, ..] = told(pool, response.text(), &asked);
        assert!(
            line.starts_with("https|localhost|") && line.ends_with(&format!("|{path}|127.0.0.1|{ENCODED}")),
            "{line}"
        );
        assert_eq!(
            (response.field("x-told"), response.field("x-id")),
            (Some(line.as_str()), Some(id.as_str()))
        );
    }
    drop(client);
    server.stop();
}

#[test]
fn a_retried_request_keeps_the_id_that_its_response_has() {
    let (sender, asked) = channel();
    let upstream = |answers: bool| {
        let sender = sender.clone();
        Upstream::start(move |peer| {
            let request = peer.request()?;
            sender.send(request.field("x-id").unwrap().to_owned()).unwrap();
            if answers { peer.answer("ok") } else { Ok(()) }
        })
    };
    let (one, two) = (upstream(false), upstream(true));
    let set = "{ set = { X-Id = \"{request_id}\" } }";
    let server = Setup::with_files()
        .route("/*", &format!("pool = \"app\"\nrequest_headers = {set}\nresponse_headers = {set}"))
        .table(&format!("[pool.app]\nconnect = [\"{}\", \"{}\"]\n", one.name(), two.name()))
        .start();
    for _ in 0..6 {
        let response = server.connect().get("/x");
        let ids: Vec<String> = asked.try_iter().collect();
        assert_eq!(response.status, 200);
        assert!(!ids.is_empty() && ids.iter().all(|id| id == response.need("x-id")), "{ids:?} {response:?}");
    }
    assert!(server.total("upstream_retries") >= 1);
    server.stop();
}
