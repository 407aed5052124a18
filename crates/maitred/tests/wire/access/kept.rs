//! Answers of `forward_auth` that are kept (`cache`).

use rustix::process::Signal;

use crate::support::h2::Connection;
use crate::support::upstream::Upstream;
use crate::support::{Client, Server, Setup, eventually};

/// Admits clients with `session=NAME`, and those with an `X-Api-Key`; numbers its answers. Names with a meaning have an answer of
/// their own.
fn guard() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let cookie = asked.field("cookie").unwrap_or_default().to_owned();
            let name = cookie.split("; ").find_map(|pair| pair.strip_prefix("session=")).map(str::to_owned);
            let ok = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\n\r\nok");
            let answer = match name.as_deref() {
                Some("error") => "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
                Some("guest") => {
                    "HTTP/1.1 403 No\r\nX-Why: guest\r\nContent-Length: 3\r\n\r\nno\n".to_owned()
                }
                Some("away") => "HTTP/1.1 302 Found\r\nLocation: /in\r\nContent-Length: 0\r\n\r\n".to_owned(),
                Some("unkept") => ok("Remote-User: unkept\r\nCache-Control: no-store\r\n"),
                Some("renewed") => ok("Remote-User: renewed\r\nSet-Cookie: session=renewed2\r\n"),
                Some("long") => ok(&format!("Remote-User: {}\r\n", "x".repeat(5000))),
                Some(name) => ok(&format!(
                    "Remote-User: {name}\r\nX-Inner: 1\r\nRemote-Groups: a\r\nRemote-Groups: b\r\n"
                )),
                None if asked.field("x-api-key").is_some() => ok("Remote-User: key\r\n"),
                None => {
                    "HTTP/1.1 401 Who\r\nWWW-Authenticate: Form\r\nContent-Length: 4\r\n\r\nwho?".to_owned()
                }
            };
            peer.send(answer)?;
        }
    })
}

/// Says what it was told.
fn application() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let all = |name: &str| {
                let found = asked.fields.iter().filter(|(found, _)| found == name);
                found.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(",")
            };
            peer.answer(format!("{}|{}|{}", all("remote-user"), all("remote-groups"), all("x-inner")))?;
        }
    })
}

fn setup(guard: &Upstream, application: &Upstream, cache: &str) -> Setup {
    Setup::with_files()
        .log("access = \"json\"")
        .site(&format!(
            "forward_auth = {{ pool = \"guard\", path = \"/verify\", copy_headers = [\"Remote-User\", \"Remote-Groups\"], \
             cache = {{ {cache} }} }}"
        ))
        .route("/app/*", "pool = \"app\"")
        .route("/other/*", "pool = \"app\"")
        .table(&format!("[pool.guard]\nconnect = \"{}\"\n", guard.name()))
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", application.name()))
}

fn start(guard: &Upstream, application: &Upstream, cache: &str) -> Server {
    setup(guard, application, cache).start()
}

fn get(client: &mut Client, target: &str, fields: &str) -> String {
    let response = client.method("GET", target, fields);
    format!("{} {}", response.status, response.text())
}

fn session(name: &str) -> String {
    format!("Cookie: session={name}\r\n")
}

#[test]
fn one_question_is_enough_for_requests_that_are_alike() {
    let (guard, application) = (guard(), application());
    let server = start(&guard, &application, "");
    let mut client = server.connect();
    for _ in 0..5 {
        assert_eq!(get(&mut client, "/app/a?b", &session("ann")), "200 ann|a,b|");
    }
    assert_eq!(guard.requests(), 1);
    // Over another connection and protocol, and as another user.
    assert_eq!(get(&mut server.connect(), "/app/a?b", &session("ann")), "200 ann|a,b|");
    let mut h2 = Connection::new(server.address);
    assert_eq!(h2.method("GET", "/app/a?b", &[("cookie", "session=bob")]).text(), "bob|a,b|");
    assert_eq!(h2.method("GET", "/app/a?b", &[("cookie", "session=bob")]).text(), "bob|a,b|");
    assert_eq!(guard.requests(), 2);
    // Each part of the key makes another question.
    for (asked, (method, target, fields)) in [
        ("GET", "/app/a?c", session("ann")),
        ("POST", "/app/a?b", format!("{}Content-Length: 0\r\n", session("ann"))),
        ("GET", "/app/a?b", format!("{}Authorization: Basic x\r\n", session("ann"))),
    ]
    .into_iter()
    .enumerate()
    {
        for _ in 0..2 {
            assert_eq!(client.method(method, target, &fields).text(), "ann|a,b|", "{method} {target}");
        }
        assert_eq!(guard.requests(), 3 + asked, "{method} {target} {fields}");
    }
    for _ in 0..2 {
        client.send(format!("GET /app/a?b HTTP/1.1\r\nHost: other.example\r\n{}\r\n", session("ann")));
        assert_eq!(client.response("GET").text(), "ann|a,b|");
    }
    assert_eq!(guard.requests(), 6, "another host");
    assert_eq!(server.total("auth_cached"), 4 + 1 + 1 + 3 + 1);
    let stopped = server.stop();
    let users = stopped.json_lines();
    let users = users.iter().filter(|line| line["user"] == "ann").count();
    assert_eq!(users, 5 + 1 + 6 + 2, "the log has the user of a kept answer as well");
}

#[test]
fn what_may_not_be_kept_is_asked_each_time() {
    let (guard, application) = (guard(), application());
    let server = start(&guard, &application, "");
    let mut client = server.connect();
    let mut asked = 0;
    for (fields, status) in [
        (session("error"), 502),
        (session("guest"), 403),
        (session("away"), 302),
        (session("unkept"), 200),
        (session("renewed"), 200),
        (session("long"), 200),
        (String::new(), 401),
        ("X-Api-Key: secret\r\n".to_owned(), 200),
    ] {
        for _ in 0..2 {
            assert_eq!(client.method("GET", "/app/", &fields).status, status, "{fields}");
            asked += 1;
            assert_eq!(guard.requests(), asked, "{fields}");
        }
    }
    // So a client without that field does not pass as one that had it.
    assert_eq!(client.get("/app/").status, 401);
    assert_eq!(server.total("auth_cached"), 0);
    server.stop();
}

#[test]
fn refusals_are_kept_where_that_is_wanted_and_routes_share_answers() {
    let (guard, application) = (guard(), application());
    let cache = "refused_time = \"1h\", key = [\"cookie:session\"]";
    let server = start(&guard, &application, cache);
    let mut client = server.connect();
    for _ in 0..3 {
        let refused = client.method("GET", "/app/", &session("guest"));
        assert_eq!((refused.status, refused.need("x-why"), refused.text()), (403, "guest", "no\n"));
        assert_eq!(client.get("/app/").need("www-authenticate"), "Form");
    }
    assert_eq!(guard.requests(), 2);
    for target in ["/app/1", "/app/2?x", "/other/"] {
        assert_eq!(get(&mut client, target, "Cookie: a=1; session=ann; b=2\r\n"), "200 ann|a,b|");
    }
    assert_eq!(get(&mut client, "/a.txt", &session("ann")), "200 file a\n");
    assert_eq!(guard.requests(), 3, "one cookie is the whole key");
    server.stop();
}

#[test]
fn answers_expire() {
    let (guard, application) = (guard(), application());
    let server = start(&guard, &application, "time = \"300ms\"");
    let mut client = server.connect();
    assert_eq!(get(&mut client, "/app/", &session("ann")), "200 ann|a,b|");
    eventually("the answer is not kept any more", || {
        assert_eq!(get(&mut client, "/app/", &session("ann")), "200 ann|a,b|");
        guard.requests() == 2
    });
    server.stop();
}

#[test]
fn they_are_bounded_and_a_reload_forgets_them() {
    let (guard, application) = (guard(), application());
    let server = start(&guard, &application, "time = \"1h\", entries_max = 2");
    let mut client = server.connect();
    let mut ask = |name: &str, asked: usize| {
        assert_eq!(get(&mut client, "/app/", &session(name)), format!("200 {name}|a,b|"));
        assert_eq!(guard.requests(), asked, "{name}");
    };
    for (name, asked) in [("a", 1), ("b", 2), ("a", 2), ("c", 3), ("b", 3), ("a", 4), ("c", 4), ("b", 5)] {
        ask(name, asked);
    }
    let old = server.worker();
    server.signal(Signal::HUP);
    eventually("another process answers", || server.worker_is_not(old) && server.answering_worker() != old);
    let mut client = server.connect();
    assert_eq!(get(&mut client, "/app/", &session("b")), "200 b|a,b|");
    assert_eq!(guard.requests(), 6);
    server.stop();
}

/// Addresses and hosts, as a trusted proxy says them.
#[test]
fn another_client_is_another_question() {
    let (guard, application) = (guard(), application());
    let server = setup(&guard, &application, "").server("trusted_proxies = [\"127.0.0.0/8\"]").start();
    let mut client = server.connect();
    for (number, address) in ["192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.2"].into_iter().enumerate() {
        let fields = format!("X-Forwarded-For: {address}\r\n{}", session("ann"));
        assert_eq!(get(&mut client, "/app/", &fields), "200 ann|a,b|");
        assert_eq!(guard.requests(), 2.min(number + 1), "{address}");
    }
    for host in ["a.example", "b.example", "a.example"] {
        let fields = format!("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: {host}\r\n{}", session("ann"));
        assert_eq!(get(&mut client, "/app/", &fields), "200 ann|a,b|");
    }
    assert_eq!(guard.requests(), 4);
    server.stop();
}
