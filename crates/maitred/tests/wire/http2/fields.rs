//! `expires`, `types`, `cors` and `security_headers`, for whatever answers, over both versions of HTTP.

use crate::support::h2::Connection;
use crate::support::upstream::{Peer, Upstream};
use crate::support::{Client, Server, Setup};

/// A response, whichever way it came.
struct Answer {
    status: u16,
    fields: Vec<(String, String)>,
}

impl Answer {
    /// All values of a field, `|` between them.
    fn all(&self, name: &str) -> String {
        let values = self.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        values.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("|")
    }
}

/// The same request over HTTP/1 and over HTTP/2.
fn both(server: &Server, method: &str, target: &str, fields: &[(&str, &str)]) -> [Answer; 2] {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut client: Client = server.connect();
    let first = client.method(method, target, &lines);
    let second = Connection::new(server.address).method(method, target, fields);
    [
        Answer { status: first.status, fields: first.fields },
        Answer { status: second.status, fields: second.fields },
    ]
}

/// Answers what the last part of the path says: `TYPE`, `TYPE+FIELD` or a status.
fn answer(peer: &mut Peer) -> std::io::Result<()> {
    loop {
        let request = peer.request()?;
        let path = request.target().split('?').next_back().unwrap_or_default().to_owned();
        let (status, fields) = match path.as_str() {
            "own" => (
                "200 OK",
                "Cache-Control: private\r\nX-Frame-Options: ALLOWALL\r\nAccess-Control-Allow-Origin: *\r\n",
            ),
            "old" => ("200 OK", "Expires: 0\r\n"),
            "404" => ("404 Not Found", "Content-Type: text/css\r\n"),
            "css" => ("200 OK", "Content-Type: text/css; charset=utf-8\r\n"),
            "vary" => ("200 OK", "Vary: Accept\r\n"),
            _ => ("200 OK", ""),
        };
        peer.send(format!("HTTP/1.1 {status}\r\n{fields}Content-Length: 2\r\n\r\nok"))?;
    }
}

fn with_application(setup: Setup, upstream: &Upstream) -> Setup {
    setup
        .route("/app/*", "pool = \"app\"")
        .pool("python", None, "transport = \"direct\"\nqueue = { timeout = \"60s\" }")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
}

#[test]
fn responses_say_how_long_they_are_kept() {
    let upstream = Upstream::start(answer);
    let setup = Setup::with_files()
        .file("app.3f2a9c1b.js", b"js")
        .file("style.css", b"css")
        .file("sw.js", b"js")
        .file("own/a.css", b"css")
        .file("plain/a.css", b"css")
        .site(
            "expires = { \"*.html\" = \"no-cache\", \"sw.js\" = \"off\", hashed = \"immutable\", \"text/css\" = \"1h\", default = \
             \"5m\" }\nresponse_headers = { if_absent = { Cache-Control = \"no-store\" } }",
        )
        .route("/own/*", "root = \"root\"\nheaders = { set = { Cache-Control = \"private\" } }")
        .route("/plain/*", "root = \"root\"\nexpires = {}")
        .route("/said", "respond = { body = \"hi\", content_type = \"text/css\" }")
        .route("/moved", "redirect = \"/\"")
        .route("/gone.html", "respond = { status = 410 }");
    let server = with_application(setup, &upstream).start();
    for (target, status, expected) in [
        ("/", 200, "no-cache"),
        ("/dir/", 200, "no-cache"),
        ("/app.3f2a9c1b.js", 200, "max-age=31536000, immutable"),
        ("/style.css", 200, "max-age=3600"),
        ("/sw.js", 200, "no-store"),
        ("/a.txt", 200, "max-age=300"),
        ("/none.html", 404, "no-store"),
        ("/dir", 301, "no-store"),
        ("/own/a.css", 200, "private"),
        ("/plain/a.css", 200, "no-store"),
        ("/said", 200, "max-age=3600"),
        ("/moved", 302, "no-store"),
        ("/gone.html", 410, "no-store"),
        ("/app/x?css", 200, "max-age=3600"),
        ("/app/x.html?css", 200, "no-cache"),
        ("/app/x?own", 200, "private"),
        ("/app/x?old", 200, ""),
        ("/app/x?404", 404, "no-store"),
        ("/app/x?", 200, "max-age=300"),
        ("/python/hello?x", 200, "max-age=300"),
    ] {
        for answer in both(&server, "GET", target, &[]).into_iter().chain(both(&server, "HEAD", target, &[]))
        {
            assert_eq!((answer.status, answer.all("cache-control").as_str()), (status, expected), "{target}");
        }
    }
    let etag = server.connect().get("/style.css").need("etag").to_owned();
    for answer in both(&server, "GET", "/style.css", &[("if-none-match", &etag)]) {
        assert_eq!((answer.status, answer.all("cache-control").as_str()), (304, "max-age=3600"));
    }
    for answer in both(&server, "GET", "/style.css", &[("range", "bytes=0-0")]) {
        assert_eq!((answer.status, answer.all("cache-control").as_str()), (206, "max-age=3600"));
    }
    let posted = server.connect().post("/app/x?css", b"");
    assert_eq!(posted.field("cache-control"), Some("no-store"), "what answers POST is kept by nobody");
    server.stop();
}

#[test]
fn types_of_files_can_be_set() {
    let server = Setup::with_files()
        .file("a.user.js", b"js")
        .file("LICENSE", b"free")
        .file("data.json", b"{}")
        .site(
            "types = { \"user.js\" = \"text/x-userscript\", default = \"text/plain\" }\ncharset = \"koi8-r\"\n\
             charset_types = [\"text/*\", \"application/json\"]",
        )
        .route("/b.txt", "root = \"root\"\ncharset = \"off\"")
        .start();
    for (target, expected) in [
        ("/a.user.js", "text/x-userscript; charset=koi8-r"),
        ("/LICENSE", "text/plain; charset=koi8-r"),
        ("/data.json", "application/json; charset=koi8-r"),
        ("/a.txt", "text/plain; charset=koi8-r"),
        ("/b.txt", "text/plain"),
    ] {
        for answer in both(&server, "GET", target, &[]) {
            assert_eq!(answer.all("content-type"), expected, "{target}");
        }
    }
    server.stop();
}

const ORIGIN: (&str, &str) = ("origin", "https://a.example");
const OTHER: (&str, &str) = ("origin", "https://evil.example");

/// What a response says about other origins.
fn said(answer: &Answer) -> String {
    let names = ["allow-origin", "allow-credentials", "expose-headers"];
    let values = names.map(|name| answer.all(&format!("access-control-{name}")));
    format!("{} {} {} {}", values[0], values[1], values[2], answer.all("vary"))
}

#[test]
fn pages_of_other_origins_may_use_what_the_rules_say() {
    let upstream = Upstream::start(answer);
    let setup = Setup::with_files()
        .site(
            "cors = { origins = [\"https://a.example\", \"https://*.b.example\"], methods = [\"GET\", \"PUT\"], headers = \
             [\"X-A\", \"X-B\"], expose = [\"X-Sum\"], credentials = true, max_age = \"1h\" }",
        )
        .route("/open/*", "root = \"root\"\nstrip_prefix = \"/open/\"\ncors = { origins = [\"*\"] }")
        .route("/shut/*", "root = \"root\"\nstrip_prefix = \"/shut/\"\ncors = { origins = [] }")
        .route("/old", "redirect = \"/new\"")
        .route("/gone", "respond = { status = 410 }");
    let server = with_application(setup, &upstream).start();
    const USED: &str = "https://a.example true X-Sum Origin";
    for (target, used, unused) in [
        ("/a.txt", USED, "   Origin"),
        ("/none", USED, "   Origin"),
        ("/dir", USED, "   Origin"),
        ("/old", USED, "   Origin"),
        ("/gone", USED, "   Origin"),
        ("/app/x?own", USED, "   Origin"),
        ("/app/x?vary", "https://a.example true X-Sum Accept|Origin", "   Accept|Origin"),
        ("/python/hello?x", USED, "   Origin"),
        ("/python/none", USED, "   Origin"),
        ("/open/a.txt", "*   ", "*   "),
        ("/shut/a.txt", "   Origin", "   Origin"),
    ] {
        for answer in both(&server, "GET", target, &[ORIGIN]) {
            assert_eq!(said(&answer), used, "{target}");
        }
        for answer in
            both(&server, "GET", target, &[OTHER]).into_iter().chain(both(&server, "GET", target, &[]))
        {
            assert_eq!(said(&answer), unused, "{target}");
        }
    }
    let answer = &both(&server, "GET", "/a.txt", &[("origin", "https://x.y.b.example")])[0];
    assert_eq!(answer.all("access-control-allow-origin"), "https://x.y.b.example");
    let etag = server.connect().get("/a.txt").need("etag").to_owned();
    for answer in both(&server, "GET", "/a.txt", &[ORIGIN, ("if-none-match", &etag)]) {
        assert_eq!((answer.status, said(&answer).as_str()), (304, USED));
    }
    // The next request of the same connection has another origin, or none.
    let mut client = server.connect();
    for (lines, expected) in
        [("Origin: https://a.example\r\n", Some("https://a.example")), ("", None)].repeat(2)
    {
        for target in ["/a.txt", "/python/hello?x", "/app/x?"] {
            let answer = client.method("GET", target, lines);
            assert_eq!(answer.field("access-control-allow-origin"), expected, "{target}");
        }
    }
    server.stop();
}

#[test]
fn preflight_requests_are_answered_here() {
    let upstream = Upstream::start(answer);
    let setup = Setup::with_files()
        .site(
            "cors = { origins = [\"https://a.example\"], methods = [\"GET\", \"PUT\"], headers = [\"X-A\", \"X-B\"], max_age = \
             \"1h\" }",
        )
        .route("/get/*", "methods = [\"GET\"]\npool = \"app\"")
        .route("/get/*", "methods = [\"PUT\"]\npool = \"app\"\ncors = { origins = [\"*\"], headers = [\"*\"] }");
    let server = with_application(setup, &upstream).start();
    let asks = |method| ("access-control-request-method", method);
    for target in ["/a.txt", "/app/x", "/python/x", "/get/x"] {
        for answer in both(&server, "OPTIONS", target, &[ORIGIN, asks("GET")]) {
            assert_eq!(answer.status, 204, "{target}");
            assert_eq!(said(&answer), "https://a.example   Origin");
            assert_eq!(answer.all("access-control-allow-methods"), "GET, PUT");
            assert_eq!(answer.all("access-control-allow-headers"), "X-A, X-B");
            assert_eq!(
                (answer.all("access-control-max-age"), answer.all("allow")),
                ("3600".into(), String::new())
            );
        }
        for answer in both(&server, "OPTIONS", target, &[OTHER, asks("GET")]) {
            assert_eq!((answer.status, said(&answer).as_str()), (403, "   Origin"), "{target}");
        }
    }
    // The route decides that the announced request is for.
    for answer in both(&server, "OPTIONS", "/get/x", &[OTHER, asks("PUT")]) {
        assert_eq!((answer.status, said(&answer).as_str()), (204, "*   "));
        assert_eq!(answer.all("access-control-allow-headers"), "*");
    }
    // What no browser asks is an ordinary request.
    for answer in both(&server, "OPTIONS", "/a.txt", &[ORIGIN]) {
        assert_eq!((answer.status, answer.all("allow").as_str()), (204, "GET, HEAD, OPTIONS"));
    }
    assert_eq!((server.total("handoffs"), upstream.requests()), (0, 0));
    server.stop();
}

/// A few of the fields.
fn secured(answer: &Answer) -> String {
    let names = ["x-content-type-options", "x-frame-options", "referrer-policy", "content-security-policy"];
    names.map(|name| answer.all(name).chars().take(16).collect::<String>()).join(" ")
}

#[test]
fn responses_have_the_recommended_fields() {
    let upstream = Upstream::start(answer);
    let setup = Setup::with_files()
        .site("security_headers = true\nresponse_headers = { if_absent = { Referrer-Policy = \"origin\" } }")
        .route("/strict/*", "root = \"root\"\nstrip_prefix = \"/strict/\"\nsecurity_headers = \"strict\"")
        .route("/off/*", "root = \"root\"\nstrip_prefix = \"/off/\"\nsecurity_headers = false")
        .route("/old", "redirect = \"/new\"")
        .route("/gone", "respond = { status = 410 }");
    let server = with_application(setup, &upstream).start();
    for (target, expected) in [
        ("/a.txt", "nosniff SAMEORIGIN origin "),
        ("/none", "nosniff SAMEORIGIN origin "),
        ("/old", "nosniff SAMEORIGIN origin "),
        ("/gone", "nosniff SAMEORIGIN origin "),
        ("/app/x?css", "nosniff SAMEORIGIN origin "),
        ("/app/x?own", "nosniff ALLOWALL origin "),
        ("/python/hello?x", "nosniff SAMEORIGIN origin "),
        ("/strict/a.txt", "nosniff DENY origin default-src 'sel"),
        ("/off/a.txt", "  origin "),
    ] {
        for answer in both(&server, "GET", target, &[]) {
            assert_eq!(secured(&answer), expected, "{target}");
        }
    }
    server.stop();
}

/// A process of another thread than the connection's: the thread that has the client adds the fields, once.
#[test]
fn responses_from_other_threads_have_the_same_fields() {
    let lines = "workers = 1\nsticky = \"cookie\"\nqueue = { timeout = \"60s\" }";
    let server = Setup::with_files()
        .server("threads = 2")
        .site(
            "cors = { origins = [\"https://a.example\"] }\nexpires = { default = \"1h\" }\nsecurity_headers = true",
        )
        .pool("python", None, lines)
        .start();
    server.wait_for_processes();
    let mut rounds = 0;
    while server.total("requests_transferred") < 3 {
        for answer in both(&server, "GET", "/python/hello?x", &[ORIGIN]) {
            assert_eq!(said(&answer), "https://a.example   Origin");
            assert_eq!(
                (answer.all("cache-control").as_str(), answer.all("x-frame-options").as_str()),
                ("max-age=3600", "SAMEORIGIN")
            );
            assert_eq!(answer.all("set-cookie").matches("maitred-python=").count(), 1);
        }
        rounds += 1;
        assert!(rounds < 2000, "all connections are at home");
    }
    server.stop();
}
