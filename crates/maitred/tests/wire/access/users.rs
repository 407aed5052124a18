//! `basic_auth`: users with passwords.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;

use crate::support::h2::Connection;
use crate::support::processes::send_signal;
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup, eventually};

/// Of "secret": bcrypt, Argon2, crypt(5).
pub(crate) const BCRYPT: &str = "$2y$05$rghXMw387UPLDQBml3anFOiGL5e4WhS1Evoq2xew3jrq52ZayqZQ.";
const ARGON2: &str = "$argon2id$v=19$m=1024,t=2,p=1$c2FsdHNhbHQ$5n+dqKA654HpeA9ZUkM9fgOil+sHaLHsKpxAaxMk/T4";
const SHA512: &str =
    "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1";

fn users() -> String {
    format!("# users\nann:{BCRYPT}\nbob:{ARGON2}\neve smith:{SHA512}\n")
}

pub(crate) fn value(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

pub(crate) fn field(user: &str, password: &str) -> String {
    format!("Authorization: {}\r\n", value(user, password))
}

const TRUSTING: &str = "trusted_proxies = [\"127.0.0.0/8\"]";

fn setup(upstream: &Upstream) -> Setup {
    Setup::with_files()
        .outside("users", users().as_bytes())
        .file("401.html", b"who are you?\n")
        .server(TRUSTING)
        .log("access = \"json\"")
        .site("error_pages = { 401 = \"/401.html\" }")
        .site("basic_auth = { realm = \"Inner\", users_file = \"users\" }")
        .route("/open/*", "pool = \"app\"\nbasic_auth = \"off\"")
        .route("/app/*", "pool = \"app\"")
        .route(
            "/own/*",
            &format!(
                "pool = \"app\"\nbasic_auth = {{ users = {{ root = \"{BCRYPT}\" }}, remove_authorization = true }}"
            ),
        )
        .route("/either/*", "respond = { status = 200, body = \"hi\" }\nallow = [\"192.0.2.0/24\"]\nsatisfy = \"any\"")
        .route("/both/*", "respond = { status = 200, body = \"hi\" }\nallow = [\"192.0.2.0/24\"]")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
}

/// Says what it was told of the user.
fn telling() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let told = |name: &str| asked.field(name).unwrap_or("-").to_owned();
            peer.answer(format!("{} {} {}", told("x-remote-user"), told("authorization"), asked.body.len()))?;
        }
    })
}

#[test]
fn a_route_is_for_the_users_that_it_names() {
    let upstream = telling();
    let server = setup(&upstream)
        .table("[[site.route]]\npath = \"/named/*\"\nmatch = { user = [\"ann\", \"eve smith\"] }\npool = \"app\"\n")
        .table(
            "[[site.route]]\npath = \"/near/*\"\nmatch = { user = \"ann\" }\nallow = [\"127.0.0.0/8\"]\nsatisfy = \"any\"\n\
             respond = { status = 200, body = \"hi\" }\n",
        )
        .start();
    let mut client = server.connect();
    for (user, password, status) in [
        ("ann", "secret", 200),
        ("eve smith", "secret", 200),
        ("bob", "secret", 403),
        ("ann", "Secret", 401),
        ("nobody", "secret", 401),
    ] {
        // The client is at an address that is trusted, and what it says of itself is not looked at all the same.
        let fields = format!("{}X-Remote-User: ann\r\n", field(user, password));
        for _ in 0..2 {
            let response = client.method("GET", "/named/x", &fields);
            assert_eq!(response.status, status, "{user}");
            assert!(
                status != 200 || response.text().starts_with(&format!("{user} Basic")),
                "{}",
                response.text()
            );
        }
        let mut second = Connection::new(server.address);
        let value = value(user, password);
        let response =
            second.method("GET", "/named/x", &[("authorization", &value), ("x-remote-user", "ann")]);
        assert_eq!(response.status, status, "{user}");
    }
    assert_eq!(client.method("GET", "/named/x", "X-Remote-User: ann\r\n").status, 401);
    // Who passes by the address alone is no user.
    assert_eq!(client.get("/near/x").status, 403);
    server.stop();
}

#[test]
fn users_have_passwords_of_all_kinds() {
    let upstream = telling();
    let server = setup(&upstream).start();
    let mut client = server.connect();
    let refused = client.get("/a.txt");
    assert_eq!((refused.status, refused.text()), (401, "who are you?\n"));
    assert_eq!(refused.need("www-authenticate"), "Basic realm=\"Inner\", charset=\"UTF-8\"");
    for user in ["ann", "bob", "eve smith"] {
        for _ in 0..2 {
            assert_eq!(client.method("GET", "/a.txt", &field(user, "secret")).text(), "file a\n", "{user}");
            assert_eq!(client.method("GET", "/a.txt", &field(user, "Secret")).status, 401, "{user}");
        }
    }
    for fields in
        [field("nobody", "secret"), field("root", "secret"), "Authorization: Bearer x\r\n".to_owned()]
    {
        assert_eq!(client.method("GET", "/a.txt", &fields).status, 401, "{fields}");
    }
    assert_eq!(client.method("GET", "/none", &field("ann", "secret")).status, 404);
    assert_eq!(client.get("/none").status, 401, "what is there is not said");
    // Another list on a route, and none.
    assert_eq!(client.method("GET", "/own/", &field("ann", "secret")).status, 401);
    assert_eq!(client.method("GET", "/own/", &field("root", "secret")).text(), "root - 0");
    assert_eq!(client.get("/open/").status, 200);
    let stopped = server.stop();
    let lines = stopped.json_lines();
    let users: Vec<_> = lines.iter().filter_map(|line| line["user"].as_str()).collect();
    assert_eq!(users, ["ann", "ann", "bob", "bob", "eve smith", "eve smith", "ann", "root"]);
}

#[test]
fn a_pool_is_told_of_users_who_were_proved_and_of_no_others() {
    let upstream = telling();
    let server = setup(&upstream).start();
    let mut client = server.connect();
    let claim = "X-Remote-User: root\r\nX_Remote_User: root\r\nx-remote-user: root\r\n";
    let ann = field("ann", "secret");
    let told = client.method("GET", "/app/", &format!("{claim}{ann}"));
    assert_eq!(
        told.text(),
        format!("ann {} 0", value("ann", "secret")),
        "Authorization goes on unless it is removed"
    );
    // A peer that is a trusted proxy may say who a client is, but not on a site that finds that out itself.
    assert_eq!(client.method("GET", "/open/", claim).text(), "- - 0");
    server.stop();
}

#[test]
fn bodies_wait_for_their_users() {
    let upstream = telling();
    let server = setup(&upstream).start();
    let body = vec![b'x'; 300_000];
    let post = |user: &str, fields: &str| {
        let auth = field(user, "secret");
        format!("POST /app/ HTTP/1.1\r\nHost: localhost\r\n{auth}Content-Length: 300000\r\n{fields}\r\n")
    };
    let told = |user: &str| format!("{user} {} 300000", value(user, "secret"));
    // The head and its body at once, and another request behind them.
    let mut client = server.connect();
    let next = format!("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n{}\r\n", field("bob", "secret"));
    client.send([post("ann", "").as_bytes(), &body, next.as_bytes()].concat());
    assert_eq!(client.response("POST").text(), told("ann"));
    assert_eq!(client.response("GET").text(), "file a\n");
    // A client that asks first.
    client.send(post("eve smith", "Expect: 100-continue\r\n"));
    assert_eq!(client.head().unwrap().status, 100);
    client.send(&body);
    assert_eq!(client.response("POST").text(), told("eve smith"));
    client.send(post("nobody", "Expect: 100-continue\r\n"));
    assert_eq!(client.response("POST").status, 401);
    client.end();
    server.stop();
}

#[test]
fn streams_wait_side_by_side() {
    let upstream = telling();
    let server = setup(&upstream).start();
    let mut connection = Connection::new(server.address);
    let (ann, bob, wrong) = (value("ann", "secret"), value("bob", "secret"), value("ann", "wrong"));
    let plain: Vec<u32> = [&ann, &bob, &wrong, &ann]
        .map(|value| connection.request("GET", "/app/", &[("authorization", value)], true))
        .to_vec();
    let upload = connection.request("POST", "/app/", &[("authorization", &ann)], false);
    connection.upload(upload, &[b'x'; 200_000], true);
    let refused = connection.request("POST", "/app/", &[("authorization", &wrong)], false);
    connection.upload(refused, &[b'x'; 100_000], true);
    let lost = connection.request("GET", "/app/", &[("authorization", &value("eve smith", "x"))], true);
    connection.cancel(lost);
    assert_eq!(connection.response(plain[0]).text(), format!("ann {ann} 0"));
    assert_eq!(connection.response(plain[1]).text(), format!("bob {bob} 0"));
    assert_eq!(connection.response(plain[2]).status, 401);
    assert_eq!(connection.response(plain[3]).status, 200);
    assert_eq!(connection.response(upload).text(), format!("ann {ann} 200000"));
    assert_eq!(connection.response(refused).status, 401);
    server.stop();
}

#[test]
fn an_address_may_be_enough() {
    let upstream = telling();
    let server = setup(&upstream).start();
    let mut client = server.connect();
    let ann = field("ann", "secret");
    let (inside, outside) = ("X-Forwarded-For: 192.0.2.1\r\n", "X-Forwarded-For: 198.51.100.1\r\n");
    for (target, from, user, status) in [
        ("/either/", inside, "", 200),
        ("/either/", outside, "", 401),
        ("/either/", outside, &*ann, 200),
        ("/both/", inside, "", 401),
        ("/both/", outside, &*ann, 403),
        ("/both/", inside, &*ann, 200),
    ] {
        assert_eq!(
            client.method("GET", target, &format!("{from}{user}")).status,
            status,
            "{target} {from}{user}"
        );
    }
    server.stop();
}

#[test]
fn a_broken_file_is_an_error_at_the_start_and_changes_nothing_at_a_reload() {
    let upstream = telling();
    let broken = setup(&upstream).outside("users", b"ann:secret\n").launch();
    let stopped = broken.wait_for_exit();
    let said = stopped.said.join("\n");
    assert!(!stopped.status.success() && said.contains("line 1: this is no hash"), "{said}");
    assert!(said.contains("maitred.toml:"), "with its place: {said}");
    assert!(!said.contains("ann:secret"), "{said}");

    let server = setup(&upstream).start();
    let is_in = |server: &Server, user: &str| {
        server.connect().method("GET", "/a.txt", &field(user, "secret")).status == 200
    };
    assert!(is_in(&server, "ann") && !is_in(&server, "zoe"));
    std::fs::write(server.path("users"), format!("zoe:{BCRYPT}\nann:oops\n")).unwrap();
    let (status, said) = server.command(&["reload"]);
    assert!(!status.success() && said.contains("line 2"), "{said}");
    assert!(is_in(&server, "ann") && !is_in(&server, "zoe"), "nothing has changed");
    std::fs::write(server.path("users"), format!("zoe:{BCRYPT}\n")).unwrap();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    eventually("the new file holds", || is_in(&server, "zoe") && !is_in(&server, "ann"));
    let stopped = server.terminate(Signal::TERM);
    assert!(stopped.said.join("\n").contains("reload refused, the present configuration stays"));
}

/// Puts a file in the place of that of the users, at once.
fn place(server: &Server, text: &str) {
    std::fs::write(server.path("beside"), text).unwrap();
    std::fs::rename(server.path("beside"), server.path("users")).unwrap();
}

#[test]
fn a_file_of_users_is_read_again_when_it_changes() {
    let server = Setup::with_files()
        .outside("users", users().as_bytes())
        .site(&format!(
            "basic_auth = {{ users_file = \"users\", users = {{ root = \"{BCRYPT}\" }}, cache = \"1h\" }}"
        ))
        .route("/also/*", "respond = { status = 204 }\nbasic_auth = { users_file = \"users\" }")
        .start();
    let status =
        |user: &str, target: &str| server.connect().method("GET", target, &field(user, "secret")).status;
    let all = || ["ann", "bob", "new", "root"].map(|user| status(user, "/a.txt"));
    assert_eq!(all(), [200, 200, 401, 200]);
    // One user has gone, and one has another password; those were known.
    let other = "$2y$05$abcdefghijklmnopqrstuuZHHhNZhHnLO8lYlJcnGJ3nKrjRfmVfG";
    let worker = server.worker();
    place(&server, &format!("bob:{other}\nnew:{BCRYPT}\nroot:{other}\n"));
    eventually("the new user is there", || status("new", "/a.txt") == 200);
    assert_eq!(all(), [401, 401, 200, 200], "what the configuration itself says holds");
    assert_eq!(["ann", "new", "root"].map(|user| status(user, "/also/")), [401, 204, 401]);
    place(&server, "new:plain\n");
    server.wait_for("has changed, but cannot be used; the previous users stay in use: line 1");
    assert_eq!(all(), [401, 401, 200, 200]);
    std::fs::remove_file(server.path("users")).unwrap();
    place(&server, &users());
    eventually("the file is whole again", || status("ann", "/a.txt") == 200);
    assert_eq!(all(), [200, 200, 401, 200]);
    // An empty one is what a file looks like that is being written.
    place(&server, "");
    eventually("all have gone", || status("ann", "/a.txt") == 401);
    assert_eq!(all(), [401, 401, 401, 200]);
    assert_eq!(server.worker(), worker, "no worker process was replaced");
    // A process that is started later has what is there now.
    send_signal(worker, Signal::KILL);
    eventually("another process serves", || server.worker_is_not(worker));
    eventually("it answers", || server.answering_worker() != worker);
    assert_eq!(all(), [401, 401, 401, 200]);
    server.terminate(Signal::TERM);
}

/// As [`BCRYPT`], with a cost that keeps the threads busy: 128 times as much.
const SLOW: &str = "$2y$12$rghXMw387UPLDQBml3anFOiGL5e4WhS1Evoq2xew3jrq52ZayqZQ.";

#[test]
fn guesses_from_one_address_do_not_keep_others_out() {
    let users = format!("basic_auth = {{ users = {{ ann = \"{BCRYPT}\", eve = \"{SLOW}\" }} }}");
    let server = Setup::with_files().server(TRUSTING).site(&users).start();
    let ask = |from: &str, user: &str, password: &str| {
        let mut client = server.connect();
        let (from, field) = (format!("X-Forwarded-For: {from}\r\n"), field(user, password));
        client.send(format!("GET /a.txt HTTP/1.1\r\nHost: a\r\n{from}{field}\r\n"));
        client
    };
    // One thread takes them in this order: when the last one is refused, all places are taken.
    let mut guessers: Vec<_> =
        (0..100).map(|number| ask("203.0.113.1", "eve", &format!("guess {number}"))).collect();
    assert_eq!(guessers.last_mut().unwrap().response("GET").status, 503);
    for (number, from) in ["203.0.113.2", "198.51.100.7", "2001:db8::1"].iter().enumerate() {
        // Each password is another one, so that nothing of it is known.
        let wrong = ask(from, "ann", &format!("wrong {number}")).response("GET");
        assert_eq!(wrong.status, 401, "{from}: it was checked");
    }
    assert_eq!(ask("203.0.113.2", "ann", "secret").response("GET").text(), "file a\n");
    drop(guessers);
    server.stop();
}
