//! Modules that are asked before what a route answers with.

use std::time::UNIX_EPOCH;

use aws_lc_rs::hmac;

use crate::in_process::scene::{finish, module, modules, table, wait_for_all};
use crate::support::h2::Connection;
use crate::support::libraries::{example, faulty, probe};
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup};

const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";

/// A token of this user that is good for an hour, or was so an hour ago.
fn token(user: &str, good: bool) -> String {
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
    let signed = format!("{user}.{}", if good { now + 3600 } else { now - 3600 });
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, KEY), signed.as_bytes());
    let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{signed}.{digits}")
}

/// Says what it was told of the user, and how long the body was.
fn application() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let told = asked.fields.iter().filter(|(name, _)| name.replace('_', "-") == "x-user");
            let users: Vec<&str> = told.map(|(_, value)| value.as_str()).collect();
            peer.answer(format!("{}|{}", users.join(","), asked.body.len()))?;
        }
    })
}

/// A site on which `token` is asked before files, a pool, and a fixed answer.
fn start(application: &Upstream) -> Server {
    let setup = Setup::with_files().outside("token.key", KEY).file("files/a.txt", b"file a\n");
    let key = format!("key = \"{}\"", setup.directory.path().join("token.key").display());
    let token = module(&example("token"), &key, "request_fields = [\"X-User\"]");
    setup
        .route("/files/*", &format!("root = \"root\"\n{token}"))
        .route("/said", &format!("respond = {{ body = \"said\" }}\n{token}"))
        .route("/moved", &format!("redirect = \"/new\"\n{token}"))
        .route("/server/*", &format!("pool = \"server\"\n{token}"))
        .route("/open/*", "pool = \"server\"")
        .pool("app", None, "workers = 1")
        .route("/shown/*", &format!("pool = \"app\"\n{token}"))
        .table(&format!("[pool.server]\nconnect = \"{}\"\n", application.name()))
        .start()
}

#[test]
fn requests_that_are_not_admitted_reach_nothing() {
    let application = application();
    let server = start(&application);
    let (old, mut forged) = (token("ada", false), token("ada", true));
    forged.replace_range(..3, "bob");
    let mut client = server.connect();
    let mut connection = Connection::new(server.address);
    let denied = "a valid token is needed\n";
    for target in ["/files/a.txt", "/files/none", "/said", "/moved", "/server/x", "/shown/hello"] {
        for given in ["", old.as_str(), forged.as_str()] {
            let response = client.method("GET", target, &format!("Cookie: token={given}\r\n"));
            assert_eq!((response.status, response.text()), (403, denied), "{target} {given}");
            let cookie = format!("token={given}");
            let response = connection.method("GET", target, &[("cookie", cookie.as_str())]);
            assert_eq!((response.status, response.text()), (403, denied), "{target} {given}");
        }
        let head = client.method("HEAD", target, "");
        assert_eq!((head.status, head.need("Content-Length")), (403, "24"), "{target}");
        // The body of a refused request is dropped, and the connection goes on.
        assert_eq!(client.post(target, b"a body").status, 403, "{target}");
    }
    assert_eq!(application.requests(), 0);
    let stopped = server.stop();
    assert!(stopped.access.iter().all(|line| line.contains("\" 403 ")), "{:?}", stopped.access);
}

#[test]
fn requests_that_pass_get_what_the_route_answers_with() {
    let application = application();
    let server = start(&application);
    server.wait_for_processes();
    let mut client = server.connect();
    let cookie = format!("Cookie: token={}\r\n", token("ada", true));
    let mut get = |target: &str| client.method("GET", target, &cookie);
    assert_eq!(get("/files/a.txt").text(), "file a\n");
    assert_eq!(get("/files/a.txt").text(), "file a\n", "from memory");
    assert_eq!(get("/files/none").status, 404);
    assert_eq!(get("/said").text(), "said");
    assert_eq!(get("/moved").need("Location"), "/new");
    assert_eq!(get("/server/x").text(), "ada|0");
    let tag = get("/files/a.txt").need("ETag").to_owned();
    let again = client.method("GET", "/files/a.txt", &format!("{cookie}If-None-Match: {tag}\r\n"));
    assert_eq!(again.status, 304);
    let mut connection = Connection::new(server.address);
    let query = format!("/server/x?token={}", token("eve", true));
    assert_eq!(connection.get(&query).text(), "eve|0");
    assert_eq!(connection.post(&query, &vec![b'x'; 300_000]).text(), "eve|300000");
    server.stop();
}

#[test]
fn only_the_module_can_say_who_the_user_is() {
    let application = application();
    let server = start(&application);
    server.wait_for_processes();
    let lies = "X-User: root\r\nx-user: root\r\nX_User: root\r\nX-Other: mine\r\n";
    let cookie = format!("Cookie: token={}\r\n", token("ada", true));
    let mut client = server.connect();
    assert_eq!(client.method("GET", "/server/x", &format!("{lies}{cookie}{lies}")).text(), "ada|0");
    // Where no module sets it, no client does either: applications of a site may be one.
    assert_eq!(client.method("GET", "/open/x", lies).text(), "|0");
    let shown = client.method("GET", "/shown/show", &format!("{lies}{cookie}"));
    let shown: serde_json::Value = serde_json::from_slice(&shown.body).unwrap();
    assert_eq!((&shown["HTTP_X_USER"], &shown["HTTP_X_OTHER"]), (&"ada".into(), &"mine".into()), "{shown}");
    let shown: serde_json::Value =
        serde_json::from_slice(&client.method("GET", "/app/show", lies).body).unwrap();
    assert_eq!((&shown["HTTP_X_USER"], &shown["HTTP_X_OTHER"]), (&serde_json::Value::Null, &"mine".into()));
    let mut connection = Connection::new(server.address);
    let token = format!("token={}", token("eve", true));
    let lies = [("x-user", "root"), ("cookie", token.as_str()), ("x_user", "root")];
    assert_eq!(connection.method("GET", "/server/x", &lies).text(), "eve|0");
    assert_eq!(connection.method("GET", "/open/x", &lies).text(), "|0");
    server.stop();
}

#[test]
fn a_body_reaches_the_application_behind_the_module() {
    let application = application();
    let server = start(&application);
    server.wait_for_processes();
    let token = token("ada", true);
    let body: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    let mut client = server.connect();
    for bytes in [0, 10, 70_000, 200_000] {
        let target = format!("/shown/echo?token={token}");
        assert!(client.post(&target, &body[..bytes]).body == body[..bytes], "{bytes}");
        client.send(format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {bytes}\r\n\r\n"
        ));
        if bytes > 0 {
            assert_eq!(client.head().unwrap().status, 100);
        }
        client.send(&body[..bytes]);
        assert!(client.response("POST").body == body[..bytes], "{bytes}");
    }
    // A client that is refused is not told to send its body.
    let refused = client.method("POST", "/shown/echo", "Expect: 100-continue\r\nContent-Length: 9\r\n");
    assert_eq!((refused.status, refused.interim), (403, Vec::new()));
    server.stop();
}

#[test]
fn a_field_that_is_not_listed_is_not_set() {
    let application = application();
    let setup = Setup::with_files().outside("token.key", KEY);
    let library = faulty(setup.directory.path());
    let key = format!("key = \"{}\"", setup.directory.path().join("token.key").display());
    let server = setup
        .route("/set", &module(&library, "", "request_fields = [\"X-User\"]"))
        .route("/set/listed", &module(&library, "", "request_fields = [\"X-User\", \"x-other\"]"))
        .route("/unlisted", &format!("pool = \"server\"\n{}", module(&example("token"), &key, "")))
        .table(&format!("[pool.server]\nconnect = \"{}\"\n", application.name()))
        .start();
    let mut client = server.connect();
    assert_eq!(client.get("/set").text(), "refused\n");
    assert_eq!(client.get("/set/listed").text(), "set\n");
    let token = token("ada", true);
    assert_eq!(client.get(&format!("/unlisted?token={token}")).status, 500, "it does not let that pass");
    wait_for_all(&server, &["ERROR", "module: token: `request_fields` of the configuration has no X-User"]);
    wait_for_all(&server, &["ERROR", "libtoken.so", "500: the module has failed"]);
    assert_eq!(application.requests(), 0);
    finish(server);
}

/// What is asked first is what the route says besides: addresses, limits, passwords.
#[test]
fn modules_are_asked_after_the_other_gates() {
    let setup = Setup::with_files();
    let library = probe(setup.directory.path());
    let probe = module(&library, "", "");
    let server = setup
        .route("/denied", &format!("respond = {{ body = \"said\" }}\ndeny = [\"127.0.0.1\"]\n{probe}"))
        .route("/asked", &format!("respond = {{ body = \"said\" }}\n{probe}"))
        .start();
    let mut client = server.connect();
    assert_eq!(client.get("/denied").status, 403);
    assert_eq!(client.get("/asked").text(), "the probe\n");
    server.stop();
}

#[test]
fn all_modules_of_a_list_have_to_let_a_request_pass() {
    let application = application();
    let setup = Setup::with_files().outside("token.key", KEY);
    let library = probe(setup.directory.path());
    let key = format!("key = \"{}\"", setup.directory.path().join("token.key").display());
    let passes = table(&library, "passes = true", "");
    let token_table = table(&example("token"), &key, "request_fields = [\"X-User\"]");
    let server = setup
        .route(
            "/server/*",
            &format!("pool = \"server\"\n{}", modules(&[passes.clone(), token_table, passes])),
        )
        .table(&format!("[pool.server]\nconnect = \"{}\"\n", application.name()))
        .start();
    let mut client = server.connect();
    let cookie = format!("Cookie: token={}\r\n", token("ada", true));
    for _ in 0..3 {
        assert_eq!(client.get("/server/x").status, 403);
        assert_eq!(client.method("GET", "/server/x", &cookie).text(), "ada|0");
    }
    let failed = client.method("GET", "/server/x?failed", &cookie);
    assert_eq!(failed.status, 500);
    assert_eq!(application.requests(), 3);
    finish(server);
}
