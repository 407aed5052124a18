//! Who the client is, as applications get it by the means of their interface: `REMOTE_USER` and `AUTH_TYPE` of WSGI.

use serde_json::{Value, json};

use super::tokens::{made, token};
use super::users::{BCRYPT, value};
use crate::support::h2::Connection;
use crate::support::h3::{self, Asks as _};
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup, eventually};

/// Admits clients with a cookie `user=NAME`. Some names are those of no user.
fn guard() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let cookie = asked.field("cookie").unwrap_or_default().to_owned();
            let name = match cookie.strip_prefix("user=").unwrap_or_default() {
                "latin1" => b"Jos\xe9".to_vec(),
                "longest" => vec![b'x'; 1024],
                "longer" => vec![b'x'; 1025],
                name => name.as_bytes().to_vec(),
            };
            let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n".to_vec();
            for field in ["Remote-User", "X-Remote-User", "X-authentik-username"] {
                answer.extend([field.as_bytes(), b": ", &name, b"\r\n"].concat());
            }
            answer.extend(b"\r\n");
            peer.send(answer)?;
        }
    })
}

const ISSUER: &str = "jwks_file = \"keys.json\", issuer = \"https://issuer.example/\", audience = \"*\"";

/// Routes of all gates to one application.
fn fill(setup: Setup, guard: &Upstream, pool: &str) -> Setup {
    let users = |names: &[&str]| {
        let all: Vec<_> = names.iter().map(|name| format!("\"{name}\" = \"{BCRYPT}\"")).collect();
        format!("basic_auth = {{ users = {{ {} }} }}", all.join(", "))
    };
    let forward = |copied: &str| {
        format!("forward_auth = {{ pool = \"guard\", path = \"/\", copy_headers = [{copied}] }}")
    };
    let (asked, ann) = (forward("\"Remote-Groups\", \"Remote-User\""), users(&["ann", "änn", "eve smith"]));
    let all = format!(
        "{}\njwt = {{ {ISSUER}, from = [\"cookie:token\"], claim_headers = {{ X-Roles = \"/realm_access/roles\" }} }}\n{}",
        users(&["bob"]),
        forward("\"X-Remote-User\"")
    );
    let either = "allow = [\"@loopback\"]\nsatisfy = \"any\"";
    let setup = [
        ("open", ""),
        ("password", &*ann),
        ("token", &format!("jwt = {{ {ISSUER} }}")),
        ("asked", &asked),
        ("authentik", &forward("\"X-authentik-name\", \"X-authentik-username\"")),
        ("all", &all),
        ("either", &format!("{ann}\n{either}")),
        ("cached", &format!("{ann}\ncache = true")),
        ("mirrored", &format!("{ann}\nmirror = {{ pool = \"mirror\" }}")),
    ]
    .into_iter()
    .fold(setup, |setup, (name, rules)| {
        setup.route(&format!("/{name}/*"), &format!("pool = \"app\"\n{rules}"))
    });
    setup
        .outside("who.py", include_bytes!("who.py"))
        .outside("keys.json", made()["jwks"].to_string().as_bytes())
        .log("access = \"json\"")
        .table(&format!("[pool.guard]\nconnect = \"{}\"\n", guard.name()))
        .python("app", "who:application", "A = \"1\"", pool)
}

fn start(guard: &Upstream, pool: &str) -> Server {
    let server = fill(Setup::with_files(), guard, pool)
        .python("mirror", "who:application", "A = \"1\"", "workers = 1")
        .start();
    server.wait_for_processes();
    server
}

/// What a client says who it is, and what must not count.
const LIES: [(&str, &str); 6] = [
    ("x-remote-user", "root"),
    ("remote-user", "root"),
    ("remote_user", "root"),
    ("x-authentik-username", "root"),
    ("auth-type", "x"),
    ("user", "root"),
];

/// Asks by `ask`, which gets a target and fields, for all routes.
fn check(how: &str, mut ask: impl FnMut(&str, &[(&str, &str)]) -> Vec<u8>) {
    let mut told = |route: &str, fields: &[(&str, &str)]| -> Value {
        let fields: Vec<_> = LIES.iter().chain(fields).copied().collect();
        let body = ask(&format!("/{route}/told"), &fields);
        serde_json::from_slice(&body)
            .unwrap_or_else(|_| panic!("{how} {route}: {}", String::from_utf8_lossy(&body)))
    };
    for name in ["ann", "eve smith", "änn"] {
        let found = told("password", &[("authorization", &value(name, "secret"))]);
        let wanted = json!({ "REMOTE_USER": name, "AUTH_TYPE": "Basic", "HTTP_X_REMOTE_USER": name });
        assert_eq!(found, wanted, "{how}");
    }
    let token = token("good", "EdDSA");
    let found = told("token", &[("authorization", &format!("Bearer {token}"))]);
    let wanted = json!({ "REMOTE_USER": "ann", "AUTH_TYPE": "Bearer", "HTTP_X_REMOTE_USER": "ann" });
    assert_eq!(found, wanted, "{how}");
    let found = told("asked", &[("cookie", "user=cat")]);
    let wanted = json!({ "REMOTE_USER": "cat", "AUTH_TYPE": "forward_auth", "HTTP_REMOTE_USER": "cat" });
    assert_eq!(found, wanted, "{how}");
    let found = told("authentik", &[("cookie", "user=dan")]);
    let wanted =
        json!({ "REMOTE_USER": "dan", "AUTH_TYPE": "forward_auth", "HTTP_X_AUTHENTIK_USERNAME": "dan" });
    assert_eq!(found, wanted, "{how}");
    // Three gates, of which the first has found who it is: there is one user, in all places.
    let all =
        [("authorization", &*value("bob", "secret")), ("cookie", &*format!("user=mallory; token={token}"))];
    let wanted = json!({ "REMOTE_USER": "bob", "AUTH_TYPE": "Basic", "HTTP_X_REMOTE_USER": "bob" });
    assert_eq!(told("all", &all), wanted, "{how}");
    // No gate has asked who they are, and nothing that they say of it is true.
    for route in ["open", "either"] {
        assert_eq!(told(route, &[("authorization", &value("ann", "secret"))]), json!({}), "{how} {route}");
    }
}

fn lines(fields: &[(&str, &str)]) -> String {
    fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

#[test]
fn an_application_gets_the_user_as_its_interface_has_it() {
    let guard = guard();
    for transport in ["direct", "relay"] {
        let server = start(&guard, &format!("workers = 1\ntransport = \"{transport}\""));
        let mut client = server.connect();
        check(transport, |target, fields| client.method("GET", target, &lines(fields)).body);
        let mut stream = Connection::new(server.address);
        check("HTTP/2", |target, fields| stream.method("GET", target, fields).body);
        drop((client, stream));
        server.stop();
    }
}

#[test]
fn so_it_does_over_http_3() {
    let guard = guard();
    let server = fill(h3::setup(""), &guard, "workers = 1")
        .python("mirror", "who:application", "A = \"1\"", "workers = 1")
        .start();
    server.wait_for_processes();
    let mut client = h3::connect(&server);
    check("HTTP/3", |target, fields| client.ask("GET", target, fields, b"").body);
    drop(client);
    server.stop();
}

/// The process belongs to one of two threads, and half of the connections to the other.
#[test]
fn a_user_comes_along_to_another_thread_and_to_another_worker_process() {
    let guard = guard();
    let server = fill(Setup::with_files().server("threads = 2"), &guard, "workers = 1")
        .python("mirror", "who:application", "A = \"1\"", "workers = 1")
        .start();
    server.wait_for_processes();
    let ann = value("ann", "secret");
    let wanted = json!({ "REMOTE_USER": "ann", "AUTH_TYPE": "Basic", "HTTP_X_REMOTE_USER": "ann" });
    let mut clients: Vec<_> = (0..8).map(|_| (server.connect(), Connection::new(server.address))).collect();
    let mut ask_all = |when: &str| {
        for (client, stream) in &mut clients {
            let response = client.method("GET", "/password/told", &format!("Authorization: {ann}\r\n"));
            assert_eq!(serde_json::from_slice::<Value>(&response.body).unwrap(), wanted, "{when}");
            let response = stream.method("GET", "/password/told", &[("authorization", &ann)]);
            assert_eq!(serde_json::from_slice::<Value>(&response.body).unwrap(), wanted, "{when}");
        }
    };
    ask_all("at first");
    clients.iter_mut().for_each(|(_, stream)| stream.sync());
    let idle: Vec<_> = clients.into_iter().map(|(client, _)| client).collect();
    h3::reload(&server, 2);
    for mut client in idle {
        let response = client.method("GET", "/password/told", &format!("Authorization: {ann}\r\n"));
        assert_eq!(serde_json::from_slice::<Value>(&response.body).unwrap(), wanted, "after a reload");
    }
    server.stop();
}

#[test]
fn a_user_comes_along_to_a_cache_a_mirror_and_the_next_process() {
    let guard = guard();
    let server = start(&guard, "workers = 2");
    let ann = format!("Authorization: {}\r\n{}", value("ann", "secret"), lines(&LIES));
    let wanted = json!({ "REMOTE_USER": "ann", "AUTH_TYPE": "Basic", "HTTP_X_REMOTE_USER": "ann" });
    let mut client = server.connect();
    let told = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap();
    assert_eq!(told(&client.method("GET", "/cached/told", &ann).body), wanted);
    assert_eq!(server.total("response_cache_fills"), 1, "it was fetched for the cache");
    // On a connection on which nothing was sent yet, it is certain that the dead process has sent nothing.
    let retried = server.connect().method("GET", "/password/die-once", &ann);
    assert_eq!(told(&retried.body), wanted, "it was retried");
    assert_eq!(client.method("GET", "/mirrored/note", &ann).status, 200);
    let noted = server.path("noted");
    eventually("the request and its copy are noted", || {
        std::fs::read_to_string(&noted).unwrap_or_default() == "ann Basic\nann Basic\n"
    });
    server.stop();
}

/// What a name has that could be another one in a field, in a variable or in a line is no name.
#[test]
fn a_name_that_cannot_be_passed_on_as_it_is_is_none() {
    let guard = guard();
    let server = start(&guard, "workers = 1");
    let mut client = server.connect();
    let mut user = |name: &str| {
        let response = client.method("GET", "/asked/told", &format!("Cookie: user={name}\r\n"));
        let found: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(found["REMOTE_USER"].is_string(), found["AUTH_TYPE"].is_string(), "{found}");
        found["REMOTE_USER"].as_str().map(str::to_owned)
    };
    assert_eq!(user("a=b@c").as_deref(), Some("a=b@c"));
    assert_eq!(user("longest"), Some("x".repeat(1024)));
    assert_eq!(user(""), None, "a guest");
    for name in ["longer", "latin1"] {
        assert_eq!(user(name), None, "{name}");
    }
    assert_eq!(user("ann").as_deref(), Some("ann"));
    server.wait_for("the name of a user is left out");
    let stopped = server.stop();
    let users: Vec<_> = stopped.json_lines().iter().map(|line| line["user"].clone()).collect();
    assert_eq!(users[2..], [Value::Null, Value::Null, Value::Null, json!("ann")]);
}

#[test]
fn trac_and_django_know_their_users() {
    let guard = guard();
    let server = start(&guard, "workers = 1");
    let mut client = server.connect();
    let ann = format!("Authorization: {}\r\n", value("ann", "secret"));
    // Trac: its server asks for a password at `/login`, and nowhere else.
    assert_eq!(client.get("/open/login").status, 500);
    let signed_in = client.method("GET", "/password/login", &ann);
    assert_eq!(signed_in.status, 303, "{}", signed_in.text());
    let cookie = format!("Cookie: {}\r\n", signed_in.need("set-cookie"));
    assert_eq!(client.method("GET", "/open/wiki", &cookie).text(), "ann");
    assert_eq!(client.method("GET", "/open/wiki", &lines(&LIES)).text(), "anonymous");
    // Django: a session lasts as long as its user comes with each request.
    let session = "Cookie: sessionid=1\r\n";
    for (target, fields, wanted) in [
        ("/password/django", &*ann, "ann 1"),
        ("/password/django", &ann, "ann 1"),
        ("/open/django", &lines(&LIES), "AnonymousUser 1"),
        ("/password/django", &format!("Authorization: {}\r\n", value("eve smith", "secret")), "eve smith 2"),
    ] {
        let response = client.method("GET", target, &format!("{session}{fields}"));
        assert_eq!(response.text(), wanted, "{target}");
    }
    server.stop();
}
