//! Requests that change something: what is kept of their target, and of what they name, is fetched anew. Pools of servers and of
//! processes.

use crate::cache::origin::{Origin, response};
use crate::cache::{HIT, STORED, start, status};
use crate::support::{Server, Setup};

/// GET: what may be kept. Anything else: `fields`, with this status.
fn changing(line: &'static str, fields: &'static str) -> Origin {
    let count = std::sync::atomic::AtomicUsize::new(1);
    Origin::start(move |peer, asked| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if asked.line.starts_with("GET ") {
            return peer.send(response("Cache-Control: max-age=600\r\n", format!("{number}")));
        }
        peer.send(format!("HTTP/1.1 {line}\r\n{fields}Content-Length: 0\r\n\r\n"))
    })
}

fn text(server: &Server, target: &str) -> String {
    server.connect().get(target).text().to_owned()
}

#[test]
fn what_is_changed_is_fetched_anew() {
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let origin = changing("200 OK", "");
        let server = start(&origin, "true");
        assert_eq!(
            (text(&server, "/a"), text(&server, "/b"), text(&server, "/a?q")),
            ("1".into(), "2".into(), "3".into())
        );
        let answer = server.connect().method(method, "/a", "Content-Length: 0\r\n");
        assert_eq!((answer.status, origin.count()), (200, 4));
        assert_eq!(
            (text(&server, "/a"), text(&server, "/b"), text(&server, "/a?q")),
            ("5".into(), "2".into(), "3".into())
        );
        assert_eq!(text(&server, "/a"), "5");
        server.stop();
    }
}

#[test]
fn what_was_not_changed_stays() {
    let origin = changing("403 Forbidden", "");
    let server = start(&origin, "true");
    assert_eq!(text(&server, "/a"), "1");
    assert_eq!(server.connect().post("/a", b"body").status, 403);
    assert_eq!(text(&server, "/a"), "1");
    let answer = server.connect().method("OPTIONS", "/a", "");
    assert_eq!((answer.status, text(&server, "/a").as_str()), (403, "1"));
    server.stop();
}

#[test]
fn what_an_answer_names_is_fetched_anew_if_it_is_of_the_same_origin() {
    let fields = "Location: /made\r\nContent-Location: http://localhost/shown\r\n";
    let origin = changing("201 Created", fields);
    let server = start(&origin, "true");
    for (at, target) in ["/made", "/shown", "/else", "/list"].iter().enumerate() {
        assert_eq!(text(&server, target), (at + 1).to_string());
    }
    assert_eq!(server.connect().post("/list", b"body").status, 201);
    assert_eq!(text(&server, "/else"), "3");
    for (at, target) in ["/made", "/shown", "/list"].iter().enumerate() {
        assert_eq!(text(&server, target), (at + 6).to_string(), "{target}");
    }
    server.stop();
    let origin = changing("201 Created", "Location: http://other.example/made\r\n");
    let server = start(&origin, "true");
    let of_other = || {
        let request = "GET /made HTTP/1.1\r\nHost: other.example\r\n\r\n";
        server.connect().ask(request).text().to_owned()
    };
    assert_eq!((of_other().as_str(), text(&server, "/made").as_str()), ("1", "2"));
    assert_eq!(server.connect().post("/list", b"body").status, 201);
    assert_eq!((of_other().as_str(), text(&server, "/made").as_str()), ("1", "2"));
    server.stop();
}

#[test]
fn all_variants_of_what_is_changed_are_fetched_anew() {
    let origin = Origin::numbered("Cache-Control: max-age=600\r\nVary: X-Kind\r\n");
    let server = start(&origin, "true");
    let get = |kind: &str| {
        let response = server.connect().method("GET", "/v", &format!("X-Kind: {kind}\r\n"));
        response.text().to_owned()
    };
    for _ in 0..2 {
        assert_eq!((get("a").as_str(), get("b").as_str()), ("/v 1", "/v 2"));
    }
    assert_eq!(server.connect().post("/v", b"").status, 200);
    for _ in 0..2 {
        assert_eq!((get("a").as_str(), get("b").as_str()), ("/v 4", "/v 5"));
    }
    server.stop();
}

/// Counts what it is asked.
const APPLICATION: &[u8] = br#"
count = 0

def application(environ, start_response):
    global count
    count += 1
    body = environ["wsgi.input"].read()
    fields = [] if environ["REQUEST_METHOD"] == "POST" else [("Cache-Control", "max-age=600")]
    if environ["PATH_INFO"] == "/long":
        start_response("200 OK", fields)
        return (b"%07d\n" % number for number in range(50000))
    text = b"%d %s" % (count, body)
    start_response("200 OK", fields + [("Content-Length", str(len(text)))])
    return [text]
"#;

#[test]
fn responses_of_processes_are_kept_too() {
    let server = Setup::with_files()
        .outside("kept.py", APPLICATION)
        .route("/*", "pool = \"app\"\ncache = true")
        .table("[cache]\ndirectory = \"store\"\n")
        .python("app", "kept:application", "", "workers = 1")
        .start();
    server.wait_for_processes();
    let first = server.connect().get("/a");
    assert_eq!((first.text(), status(&first).as_str()), ("1 ", STORED));
    let hit = server.connect().get("/a");
    assert_eq!((hit.text(), status(&hit).as_str()), ("1 ", HIT));
    assert_eq!(server.connect().post("/b", b"body").text(), "2 body");
    assert_eq!(text(&server, "/a"), "1 ");
    assert_eq!(server.connect().post("/a", b"body").text(), "3 body");
    assert_eq!((text(&server, "/a").as_str(), text(&server, "/a").as_str()), ("4 ", "4 "));
    let whole: String = (0..50_000).map(|number| format!("{number:07}\n")).collect();
    for _ in 0..3 {
        assert!(server.connect().get("/long").body == whole.as_bytes());
    }
    assert_eq!(text(&server, "/c"), "6 ");
    server.stop();
}
