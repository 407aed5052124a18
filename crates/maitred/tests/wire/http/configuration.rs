//! The configuration by the admin address: read, replaced, refused.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use rustix::process::Signal;

use crate::support::{Client, Response, Server, Setup};

fn get(server: &Server) -> Response {
    server.admin("GET /config HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn put(server: &Server, fields: &str, text: &[u8]) -> Response {
    let head =
        format!("PUT /config HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {}\r\n\r\n", text.len());
    let mut client = Client::connect_unix(&server.path("admin.sock"));
    client.send(head.as_bytes());
    client.send(text);
    client.response("PUT")
}

/// The present configuration with one more route.
fn with_route(server: &Server, path: &str) -> String {
    let text = get(server).text().to_owned();
    format!("{text}\n[[site.route]]\npath = \"{path}\"\nrespond = {{ status = 418 }}\n")
}

fn setup() -> Setup {
    Setup::new().file("a.txt", b"a")
}

fn names(server: &Server) -> Vec<String> {
    let entries = fs::read_dir(server.path(".")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains("toml")).collect()
}

#[test]
fn what_is_put_is_in_force_and_in_the_file() {
    let server = setup().start();
    let before = get(&server);
    assert_eq!((before.status, before.need("content-type")), (200, "application/toml"));
    assert_eq!(before.text(), fs::read_to_string(server.path("maitred.toml")).unwrap());
    let tag = before.need("etag").to_owned();
    let over = Arc::new(AtomicBool::new(false));
    let (seen, mut client) = (over.clone(), server.connect());
    let loaded = std::thread::spawn(move || {
        let mut requests = 0;
        while !seen.load(SeqCst) || requests == 0 {
            assert_eq!(client.get("/a.txt").status, 200);
            requests += 1;
        }
    });
    let text = with_route(&server, "/teapot");
    let answer = put(&server, &format!("If-Match: \"another\", {tag}\r\n"), text.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(server.connect().get("/teapot").status, 418);
    assert_eq!(fs::read_to_string(server.path("maitred.toml")).unwrap(), text);
    let after = get(&server);
    assert_eq!((after.text(), after.need("etag")), (text.as_str(), answer.need("etag")));
    assert_ne!(after.need("etag"), tag);
    over.store(true, SeqCst);
    loaded.join().unwrap();
    // What was read before that cannot take its place.
    let late = put(&server, &format!("If-Match: {tag}\r\n"), b"# old\n");
    assert_eq!((late.status, late.need("etag")), (412, after.need("etag")), "{}", late.text());
    assert_eq!(get(&server).text(), text);
    // A reload finds the same.
    assert!(server.command(&["reload"]).0.success());
    assert_eq!(server.connect().get("/teapot").status, 418);
    assert_eq!(names(&server), ["maitred.toml"]);
    server.stop();
}

#[test]
fn what_cannot_be_in_force_changes_nothing() {
    let server = setup().start();
    let (before, tag) = (get(&server).text().to_owned(), get(&server).need("etag").to_owned());
    let wrong = with_route(&server, "/teapot").replace("respond", "respnod");
    let answer = put(&server, "", wrong.as_bytes());
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(
        answer.text().contains("respnod") && answer.text().contains("maitred.toml:"),
        "{}",
        answer.text()
    );
    // A configuration that is right, but of which a part is taken: the master finds out, not the text.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = format!("{before}\n[[listen]]\naddress = \"{}\"\n", taken.local_addr().unwrap());
    let answer = put(&server, "", other.as_bytes());
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(answer.text().contains("in use"), "{}", answer.text());
    for (fields, text, status) in [
        ("", b"".as_slice(), 400),
        ("", b"# \xff\n", 400),
        ("Origin: http://example.com\r\n", b"# a\n", 403),
        ("If-Match: W/\"x\"\r\n", b"# a\n", 412),
    ] {
        let answer = put(&server, fields, text);
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    assert_eq!(get(&server).need("etag"), tag);
    assert_eq!(fs::read_to_string(server.path("maitred.toml")).unwrap(), before);
    assert_eq!(names(&server), ["maitred.toml"]);
    assert_eq!(server.connect().get("/a.txt").status, 200);
    let answer = server.admin("POST /config HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((answer.status, answer.need("allow")), (405, "GET, PUT"));
    assert!(server.terminate(Signal::TERM).status.success());
}

#[test]
fn changes_in_the_file_are_not_undone() {
    let server = setup().start();
    let text = with_route(&server, "/teapot");
    let edited = get(&server).text().to_owned() + "# edited\n";
    fs::write(server.path("maitred.toml"), &edited).unwrap();
    let answer = put(&server, "", text.as_bytes());
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("was changed since it was read"), "{}", answer.text());
    assert_eq!(fs::read_to_string(server.path("maitred.toml")).unwrap(), edited);
    assert!(server.command(&["reload"]).0.success());
    assert_eq!(put(&server, "", text.as_bytes()).status, 200);
    assert!(server.terminate(Signal::TERM).status.success());
}

#[test]
fn long_texts_come_whole_and_are_bounded() {
    let server = setup().start();
    let long = with_route(&server, "/teapot") + &"# a \"long\" comment: ä\n".repeat(20_000);
    let head = format!(
        "PUT /config HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        long.len()
    );
    let mut client = Client::connect_unix(&server.path("admin.sock"));
    client.send(head);
    assert_eq!(client.head().unwrap().status, 100);
    client.send(&long);
    assert_eq!(client.response("PUT").status, 200);
    assert_eq!(get(&server).text(), long);
    assert_eq!(put(&server, "", "# long\n".repeat(400_000).as_bytes()).status, 413);
    assert_eq!(server.connect().get("/teapot").status, 418);
    server.stop();
}

#[test]
fn of_two_at_the_same_time_one_is_told() {
    let server = setup().start();
    let tag = get(&server).need("etag").to_owned();
    let texts = [with_route(&server, "/one"), with_route(&server, "/two")];
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let put = |text: &String| put(&server, &format!("If-Match: {tag}\r\n"), text.as_bytes()).status;
        let tasks: Vec<_> = texts.iter().map(|text| scope.spawn(move || put(text))).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    });
    let mut sorted = answers.clone();
    sorted.sort_unstable();
    assert!(matches!(sorted[..], [200, 409 | 412]), "{answers:?}");
    let first = answers[0] == 200;
    assert_eq!(server.connect().get("/one").status, if first { 418 } else { 404 });
    assert_eq!(server.connect().get("/two").status, if first { 404 } else { 418 });
    assert_eq!(fs::read_to_string(server.path("maitred.toml")).unwrap(), texts[usize::from(!first)]);
    server.stop();
}
