//! `forward_auth`: another server decides. The server here answers in the shape of Authelia and oauth2-proxy.

use crate::support::h2::Connection;
use crate::support::upstream::{Asked, Upstream};
use crate::support::{Server, Setup};

/// Admits clients with the cookie `session=NAME`, and sends others to a page where they can sign in.
fn guard() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked: Asked = peer.request()?;
            let cookie = asked.field("cookie").unwrap_or_default().to_owned();
            let told = |name: &str| asked.field(name).unwrap_or("-").to_owned();
            let about = format!(
                "{} {} {} {} {}",
                asked.line,
                told("x-forwarded-method"),
                told("x-forwarded-uri"),
                told("x-forwarded-host"),
                told("x-forwarded-proto")
            );
            let bodiless = asked.field("content-length").is_none() && asked.body.is_empty();
            match cookie.strip_prefix("session=") {
                Some("bad") => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")?,
                Some("error") => peer.send("HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops")?,
                Some("never") => drop(peer.request()?),
                Some("guest") => peer.send(
                    "HTTP/1.1 403 Forbidden\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\nno\n",
                )?,
                Some(name) if bodiless => peer.send(format!(
                    "HTTP/1.1 200 OK\r\nRemote-User: {name}\r\nRemote-Groups: a\r\nRemote-Groups: b\r\n\
                     X-About: {about}\r\nX-Inner: 1\r\nContent-Length: 2\r\n\r\nok"
                ))?,
                _ => peer.send(
                    "HTTP/1.1 302 Found\r\nLocation: https://auth.example/?rd=x\r\nSet-Cookie: a=1\r\n\
                     Set-Cookie: b=2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nsee\r\n0\r\n\r\n",
                )?,
            }
            if matches!(cookie.as_str(), "session=bad") {
                return Ok(());
            }
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
            let inner = asked.field("x-inner").is_some();
            peer.answer(format!(
                "{}|{}|{}|{}|{inner}",
                all("remote-user"),
                all("remote-groups"),
                all("x-about"),
                asked.body.len()
            ))?;
        }
    })
}

fn start(guard: &Upstream, application: &Upstream) -> Server {
    Setup::with_files()
        .log("access = \"json\"")
        .site(
            "forward_auth = { pool = \"guard\", path = \"/verify?x=1\", timeout = \"1s\", \
             copy_headers = [\"Remote-User\", \"Remote-Groups\", \"X-About\"] }",
        )
        .route("/open/*", "pool = \"app\"\nforward_auth = \"off\"")
        .route("/app/*", "pool = \"app\"")
        .table(&format!("[pool.guard]\nconnect = \"{}\"\n", guard.name()))
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", application.name()))
        .start()
}

#[test]
fn a_client_is_admitted_and_its_application_is_told_who_it_is() {
    let (guard, application) = (guard(), application());
    let server = start(&guard, &application);
    let mut client = server.connect();
    let lies = "Remote-User: root\r\nX-About: me\r\nX_About: me\r\n";
    let about = "GET /verify?x=1 HTTP/1.1 GET /app/a?b=c localhost http";
    let told = client.method("GET", "/app/a?b=c", &format!("Cookie: session=ann\r\n{lies}"));
    assert_eq!(told.text(), format!("ann|a,b|{about}|0|false"));
    assert_eq!(client.method("GET", "/a.txt", "Cookie: session=ann\r\n").text(), "file a\n");
    assert_eq!(
        client.method("GET", "/open/", lies).text(),
        "|||0|false",
        "no route of the site lets them through"
    );
    // The body of the request goes to the application and not to the guard.
    let body = "x".repeat(200_000);
    client.send(format!(
        "POST /app/up HTTP/1.1\r\nHost: localhost\r\nCookie: session=bob\r\nContent-Length: 200000\r\n\r\n{body}"
    ));
    let about = "GET /verify?x=1 HTTP/1.1 POST /app/up localhost http";
    assert_eq!(client.response("POST").text(), format!("bob|a,b|{about}|200000|false"));
    let stopped = server.stop();
    let users: Vec<_> =
        stopped.json_lines().iter().map(|line| line["user"].as_str().map(str::to_owned)).collect();
    assert_eq!(users, [Some("ann".to_owned()), Some("ann".to_owned()), None, Some("bob".to_owned())]);
}

#[test]
fn what_refuses_is_passed_on_with_its_fields() {
    let (guard, application) = (guard(), application());
    let server = start(&guard, &application);
    let mut client = server.connect();
    let refused = client.get("/app/");
    assert_eq!((refused.status, refused.text()), (302, "see"));
    assert_eq!(refused.need("location"), "https://auth.example/?rd=x");
    let cookies: Vec<_> = refused
        .fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
    let refused = client.method("HEAD", "/a.txt", "Cookie: session=guest\r\n");
    assert_eq!((refused.status, refused.need("content-length")), (403, "3"));
    let expecting = "Cookie: session=guest\r\nContent-Length: 5\r\nExpect: 100-continue\r\n";
    client.send(format!("POST /app/ HTTP/1.1\r\nHost: localhost\r\n{expecting}\r\n"));
    assert_eq!(client.response("POST").text(), "no\n");
    client.end();
    assert_eq!(application.requests(), 0, "nothing has come to the application");
    server.stop();
}

#[test]
fn without_an_answer_no_request_is_admitted() {
    let (guard, application) = (guard(), application());
    let server = start(&guard, &application);
    let mut client = server.connect();
    for (session, status) in [("error", 502), ("bad", 502), ("never", 504)] {
        let fields = format!("Cookie: session={session}\r\n");
        assert_eq!(client.method("GET", "/app/", &fields).status, status, "{session}");
    }
    drop(guard);
    assert_eq!(application.requests(), 0);
    let stopped = server.terminate(rustix::process::Signal::TERM);
    assert!(stopped.said.join("\n").contains("forward_auth"));
}

#[test]
fn streams_ask_side_by_side() {
    let (guard, application) = (guard(), application());
    let server = start(&guard, &application);
    let mut connection = Connection::new(server.address);
    let ask = |connection: &mut Connection, session: &str| {
        connection.request("GET", "/app/", &[("cookie", &format!("session={session}"))], true)
    };
    let sessions = ["ann", "guest", "bob", "none"];
    let ids = sessions.map(|session| ask(&mut connection, session));
    let lost = ask(&mut connection, "never");
    connection.cancel(lost);
    for (id, session) in ids.into_iter().zip(sessions) {
        let response = connection.response(id);
        match session {
            "guest" => assert_eq!(response.status, 403),
            name => assert!(response.text().starts_with(&format!("{name}|a,b|")), "{}", response.text()),
        }
    }
    let upload = connection.request("POST", "/app/", &[("cookie", "session=ann")], false);
    connection.upload(upload, &[b'x'; 100_000], true);
    assert!(connection.response(upload).text().contains("|100000|"));
    server.stop();
}

/// As the guard, in an application process.
const GUARD: &str = r#"
def application(environ, start_response):
    name = environ.get("HTTP_COOKIE", "").removeprefix("session=")
    if not name:
        start_response("302 Found", [("Location", "https://auth.example/"), ("Content-Length", "3")])
        return [b"see"]
    about = " ".join(environ[key] for key in ("REQUEST_METHOD", "PATH_INFO", "HTTP_X_FORWARDED_METHOD", "HTTP_X_FORWARDED_URI"))
    start_response("200 OK", [("Remote-User", name), ("X-About", about), ("Content-Length", "2")])
    return [b"ok"]
"#;

#[test]
fn application_processes_decide_as_well() {
    for transport in ["direct", "relay"] {
        let application = application();
        let server = Setup::with_files()
            .outside("guard.py", GUARD.as_bytes())
            .python("guard", "guard:application", "", &format!("transport = \"{transport}\""))
            .site("forward_auth = { pool = \"guard\", path = \"/verify\", copy_headers = [\"Remote-User\", \"X-About\"] }")
            .route("/app/*", "pool = \"app\"")
            .table(&format!("[pool.app]\nconnect = \"{}\"\n", application.name()))
            .start();
        let mut client = server.connect();
        let refused = client.get("/app/");
        assert_eq!((refused.status, refused.need("location")), (302, "https://auth.example/"), "{transport}");
        assert_eq!(refused.text(), "see");
        let told = client.method("GET", "/app/a?b=c", "Cookie: session=ann\r\n");
        assert_eq!(told.text(), "ann||GET /verify GET /app/a?b=c|0|false", "{transport}");
        let body = "x".repeat(200_000);
        client.send(format!(
            "POST /app/up HTTP/1.1\r\nHost: localhost\r\nCookie: session=bob\r\nContent-Length: 200000\r\n\r\n{body}"
        ));
        assert_eq!(
            client.response("POST").text(),
            "bob||GET /verify POST /app/up|200000|false",
            "{transport}"
        );
        let mut connection = Connection::new(server.address);
        let ids = ["session=ann", "", "session=bob"]
            .map(|cookie| connection.request("GET", "/app/", &[("cookie", cookie)], true));
        assert_eq!(ids.map(|id| connection.response(id).status), [200, 302, 200], "{transport}");
        assert_eq!(application.requests(), 4, "{transport}");
        server.stop();
    }
}

#[test]
fn a_server_can_be_named_by_its_url() {
    let (guard, application) = (guard(), application());
    let server = Setup::with_files()
        .site(&format!(
            "forward_auth = {{ url = \"{}/verify?x=1\", copy_headers = [\"Remote-User\", \"X-About\"] }}",
            guard.name()
        ))
        .route("/app/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", application.name()))
        .start();
    let mut client = server.connect();
    let admitted = client.method("GET", "/app/a?b", "Cookie: session=ann\r\n");
    assert!(
        admitted.text().starts_with("ann||GET /verify?x=1 HTTP/1.1 GET /app/a?b "),
        "{}",
        admitted.text()
    );
    let refused = client.get("/app/a");
    assert_eq!((refused.status, refused.need("location")), (302, "https://auth.example/?rd=x"));
    server.stop();
}

/// Whatever answers a request has the cookies of the answer that admits; one that is refused by 401 is sent to sign in, if it
/// opens a page.
#[test]
fn cookies_of_the_other_server_reach_the_client_and_browsers_are_sent_to_sign_in() {
    let guard = Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let (status, content) = match asked.field("cookie") {
                Some(_) => ("202 Accepted", "Content-Length: 0\r\n\r\n"),
                None => ("401 No", "WWW-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nno"),
            };
            peer.send(format!("HTTP/1.1 {status}\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n{content}"))?;
        }
    });
    let application = application();
    let server = Setup::with_files()
        .site(
            "forward_auth = { pool = \"guard\", path = \"/\", set_cookies = true, sign_in = \"https://auth.example/?rd={url}\" }",
        )
        .route("/app/*", "pool = \"app\"")
        .route("/moved", "redirect = \"/a.txt\"\nstatus = 302")
        .route(
            "/plain/*",
            "pool = \"app\"\nforward_auth = { pool = \"guard\", path = \"/\" }",
        )
        .pool("direct", None, "workers = 1\ntransport = \"direct\"")
        .table(&format!("[pool.guard]\nconnect = \"{}\"\n", guard.name()))
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", application.name()))
        .start();
    let cookies = |fields: &[(String, String)]| {
        let found = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        found.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let mut client = server.connect();
    let mut streams = Connection::new(server.address);
    for (target, status) in
        [("/a.txt", 200), ("/app/", 200), ("/moved", 302), ("/none", 404), ("/direct/hello", 200)]
    {
        let said = client.method("GET", target, "Cookie: session=1\r\n");
        assert_eq!(
            (said.status, cookies(&said.fields)),
            (status, vec!["a=1".into(), "b=2".into()]),
            "{target}"
        );
        let id = streams.request("GET", target, &[("cookie", "session=1")], true);
        let said = streams.response(id);
        assert_eq!(said.status, status, "{target}");
        assert_eq!(said.fields.iter().filter(|(name, _)| name == "set-cookie").count(), 2, "{target}");
    }
    assert!(cookies(&client.method("GET", "/plain/", "Cookie: session=1\r\n").fields).is_empty());
    let page = "Accept: text/html\r\n";
    let sent = client.method("GET", "/app/?a=b", page);
    assert_eq!((sent.status, sent.need("cache-control"), sent.body.len()), (302, "no-store", 0));
    assert_eq!(sent.need("location"), "https://auth.example/?rd=http%3A%2F%2Flocalhost%2Fapp%2F%3Fa%3Db");
    assert_eq!(cookies(&sent.fields), ["a=1", "b=2"]);
    assert_eq!(sent.field("www-authenticate"), None);
    for (target, fields) in [("/app/", ""), ("/plain/", page)] {
        let refused = client.method("GET", target, fields);
        assert_eq!((refused.status, refused.text(), refused.need("www-authenticate")), (401, "no", "Basic"));
    }
    server.stop();
}
