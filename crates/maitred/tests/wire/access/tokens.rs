//! `jwt`: signed tokens. Tokens of `tokens.json` were made by PyJWT 2.15; the others here.

use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::h2::Connection;
use crate::support::processes::send_signal;
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup, eventually};

pub(super) fn made() -> Value {
    serde_json::from_str(include_str!("tokens.json")).unwrap()
}

pub(super) fn token(kind: &str, name: &str) -> String {
    made()[kind][name].as_str().unwrap().to_owned()
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

const RULES: &str = "jwks_file = \"keys.json\", issuer = \"https://issuer.example/\"";

/// Says what it was told.
fn telling() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let told = |name: &str| asked.field(name).unwrap_or("-").to_owned();
            let has_token = asked.field("authorization").is_some();
            peer.answer(format!(
                "{}|{}|{}|{has_token}|{}",
                told("x-remote-user"),
                told("x-roles"),
                told("x-email"),
                asked.body.len()
            ))?;
        }
    })
}

fn setup(upstream: &Upstream) -> Setup {
    let web = "audience = \"web\", require = { scope = [\"write\", \"admin\"] }";
    let fields = "claim_headers = { X-Roles = \"/realm_access/roles\", X-Email = \"email\" }";
    Setup::with_files()
        .outside("keys.json", made()["jwks"].to_string().as_bytes())
        .file("403.html", b"not enough\n")
        .log("access = \"json\"")
        .site("error_pages = { 403 = \"/403.html\" }")
        .site(&format!("jwt = {{ {RULES}, {web}, {fields}, realm = \"Api\" }}"))
        .route("/app/*", "pool = \"app\"\nmethods = [\"GET\", \"POST\", \"OPTIONS\"]\ncors = { origins = [\"https://a.example\"] }")
        .route("/open/*", "pool = \"app\"\njwt = \"off\"")
        .route(
            "/places/*",
            &format!(
                "pool = \"app\"\njwt = {{ {RULES}, audience = \"*\", from = [\"cookie:session\", \"header:X-Token\", \"query:t\"] }}"
            ),
        )
        .route(
            "/bare/*",
            &format!(
                "pool = \"app\"\njwt = {{ {RULES}, audience = \"*\", user_claim = \"email\", remove_authorization = true }}"
            ),
        )
        .route("/ecdsa/*", &format!("pool = \"app\"\njwt = {{ {RULES}, audience = \"*\", algorithms = [\"ES256\"] }}"))
        .route("/either/*", "respond = { status = 200, body = \"hi\" }\nallow = [\"192.0.2.0/24\"]\nsatisfy = \"any\"")
        .server("trusted_proxies = [\"127.0.0.0/8\"]")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
}

#[test]
fn tokens_of_another_program_are_taken_and_forged_ones_are_not() {
    let upstream = telling();
    let server = setup(&upstream).start();
    let mut client = server.connect();
    for name in ["RS256", "ES256", "EdDSA"] {
        let told = client.method("GET", "/app/", &bearer(&token("good", name)));
        assert_eq!((told.status, told.text()), (200, "ann|admin,user|änn@example.com|true|0"), "{name}");
    }
    assert_eq!(client.method("GET", "/a.txt", &bearer(&token("good", "EdDSA"))).text(), "file a\n");
    for (name, why) in [
        ("none", "the algorithm is not accepted"),
        ("hmac", "the algorithm is not accepted"),
        ("stranger", "the signature is wrong"),
        ("unknown", "the key is not known"),
        ("expired", "the token has expired"),
        ("endless", "the token has expired"),
        ("early", "the token is not valid yet"),
        ("issuer", "the token is from another issuer"),
        ("audience", "the token is for another audience"),
    ] {
        let refused = client.method("GET", "/app/", &bearer(&token("bad", name)));
        assert_eq!(refused.status, 401, "{name}");
        assert_eq!(
            refused.need("www-authenticate"),
            format!("Bearer realm=\"Api\", error=\"invalid_token\", error_description=\"{why}\""),
            "{name}"
        );
    }
    let short = client.method("GET", "/app/", &bearer(made()["short"].as_str().unwrap()));
    assert_eq!((short.status, short.text()), (403, "not enough\n"));
    assert!(short.need("www-authenticate").contains("error=\"insufficient_scope\""));
    for fields in
        ["", "Authorization: Basic YTpi\r\n", "Authorization: Bearer\r\n", "Authorization: Bearer \r\n"]
    {
        let refused = client.method("GET", "/app/", fields);
        assert_eq!(
            (refused.status, refused.need("www-authenticate")),
            (401, "Bearer realm=\"Api\""),
            "{fields}"
        );
    }
    let twice = bearer(&token("good", "EdDSA")).repeat(2);
    assert_eq!(client.method("GET", "/app/", &twice).status, 401);
    assert_eq!(client.method("GET", "/ecdsa/", &bearer(&token("good", "RS256"))).status, 401);
    assert_eq!(client.method("GET", "/ecdsa/", &bearer(&token("good", "ES256"))).status, 200);
    let stopped = server.stop();
    let lines = stopped.json_lines();
    let users: Vec<_> = lines.iter().filter_map(|line| line["user"].as_str()).collect();
    assert_eq!(users, ["ann"; 5]);
}

#[test]
fn a_pool_is_told_by_claims_and_not_by_clients() {
    let upstream = telling();
    let server = setup(&upstream).start();
    let mut client = server.connect();
    let good = token("good", "EdDSA");
    let lies = "X-Roles: root\r\nX_Roles: root\r\nX-Remote-User: root\r\nX-Email: root\r\n";
    let told = client.method("GET", "/app/", &format!("{lies}{}", bearer(&good)));
    assert_eq!(told.text(), "ann|admin,user|änn@example.com|true|0");
    assert_eq!(client.method("GET", "/open/", lies).text(), "-|-|-|false|0");
    let bare = client.method("GET", "/bare/", &bearer(&good));
    assert_eq!(bare.text(), "änn@example.com|-|-|false|0", "another claim, and no token");
    // Other places, in their order.
    let old = token("bad", "expired");
    for (target, fields, status) in [
        ("/places/", format!("Cookie: a=b; session={good}\r\n"), 200),
        ("/places/", format!("X-Token: {good}\r\n"), 200),
        ("/places/", format!("X-Token: bearer {good}\r\n"), 200),
        (&*format!("/places/?a=b&t={good}"), String::new(), 200),
        (&*format!("/places/?t={good}"), format!("Cookie: session={old}\r\n"), 401),
        ("/places/?t=", "Cookie: session=\r\n".to_owned(), 401),
        ("/places/", bearer(&good), 401),
    ] {
        assert_eq!(client.method("GET", target, &fields).status, status, "{target} {fields}");
    }
    // An address is enough, or a token.
    let from = |address: &str, rest: &str| format!("X-Forwarded-For: {address}\r\n{rest}");
    assert_eq!(client.method("GET", "/either/", &from("192.0.2.1", "")).status, 200);
    assert_eq!(client.method("GET", "/either/", &from("198.51.100.1", "")).status, 401);
    assert_eq!(client.method("GET", "/either/", &from("198.51.100.1", &bearer(&good))).status, 200);
    // Browsers ask without credentials whether they may send them.
    let preflight = "Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n";
    assert_eq!(client.method("OPTIONS", "/app/", preflight).status, 204);
    assert_eq!(client.method("OPTIONS", "/app/", "").status, 401);
    server.stop();
}

#[test]
fn streams_and_bodies_have_their_tokens() {
    let upstream = telling();
    let server = setup(&upstream).start();
    let mut connection = Connection::new(server.address);
    let good = format!("Bearer {}", token("good", "ES256"));
    let bad = format!("Bearer {}", token("bad", "stranger"));
    let ask = |connection: &mut Connection, value: &str| {
        connection.request("GET", "/app/", &[("authorization", value)], true)
    };
    let ids = [&good, &bad, &good].map(|value| ask(&mut connection, value));
    let upload = connection.request("POST", "/app/", &[("authorization", &good)], false);
    connection.upload(upload, &[b'x'; 100_000], true);
    let refused = connection.request("POST", "/app/", &[("authorization", &bad)], false);
    connection.upload(refused, &[b'x'; 100_000], true);
    assert_eq!(ids.map(|id| connection.response(id).status), [200, 401, 200]);
    assert!(connection.response(upload).text().ends_with("|100000"));
    assert_eq!(connection.response(refused).status, 401);
    // A client that asks first is refused before it sends anything.
    let mut client = server.connect();
    client.send(
        "POST /app/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(client.response("POST").status, 401);
    server.stop();
}

#[test]
fn a_broken_set_is_an_error_at_the_start_and_changes_nothing_at_a_reload() {
    let upstream = telling();
    let broken = setup(&upstream)
        .outside("keys.json", b"{\"keys\": [{\"kty\": \"oct\", \"k\": \"c2VjcmV0\"}]}")
        .launch();
    let stopped = broken.wait_for_exit();
    let said = stopped.said.join("\n");
    assert!(
        !stopped.status.success() && said.contains("key 1 is a shared secret, which is not taken"),
        "{said}"
    );
    assert!(said.contains("maitred.toml:"), "with its place: {said}");
    assert!(!said.contains("c2VjcmV0"), "{said}");

    let server = setup(&upstream).start();
    let good = token("good", "EdDSA");
    let status = |server: &Server| server.connect().method("GET", "/app/", &bearer(&good)).status;
    std::fs::write(server.path("keys.json"), "{").unwrap();
    let (outcome, said) = server.command(&["reload"]);
    assert!(!outcome.success() && said.contains("it is not JSON"), "{said}");
    assert_eq!(status(&server), 200, "nothing has changed");
    let mut keys = made()["jwks"].clone();
    keys["keys"].as_array_mut().unwrap().truncate(1);
    std::fs::write(server.path("keys.json"), keys.to_string()).unwrap();
    let (outcome, said) = server.command(&["reload"]);
    assert!(outcome.success(), "{said}");
    eventually("the key is not taken any more", || status(&server) == 401);
    let stopped = server.terminate(Signal::TERM);
    assert!(stopped.said.join("\n").contains("reload refused, the present configuration stays"));
}

/// A set with these keys of PyJWT's.
fn set(names: &[&str]) -> String {
    let mut keys = made()["jwks"].clone();
    let is_in = |key: &Value| names.iter().any(|name| key["kid"] == name.to_lowercase());
    keys["keys"].as_array_mut().unwrap().retain(is_in);
    keys.to_string()
}

fn status(server: &Server, name: &str) -> u16 {
    server.connect().method("GET", "/a.txt", &bearer(&token("good", name))).status
}

/// Keys in the file are replaced as a program would do it.
fn place(server: &Server, text: &str) {
    std::fs::write(server.path("beside"), text).unwrap();
    std::fs::rename(server.path("beside"), server.path("keys.json")).unwrap();
}

#[test]
fn keys_of_a_file_are_read_again_when_it_changes() {
    let server = Setup::with_files()
        .outside("keys.json", set(&["RS256"]).as_bytes())
        .site(&format!("jwt = {{ {RULES}, audience = \"web\" }}"))
        .start();
    assert_eq!([status(&server, "RS256"), status(&server, "ES256")], [200, 401]);
    place(&server, &set(&["ES256"]));
    eventually("the new key is taken", || status(&server, "ES256") == 200);
    assert_eq!(status(&server, "RS256"), 401);
    place(&server, "{\"keys\": [");
    server.wait_for("keys.json has changed, but cannot be used");
    assert_eq!(status(&server, "ES256"), 200, "the previous ones stay");
    place(&server, &set(&["RS256"]));
    eventually("it is whole again", || status(&server, "RS256") == 200);
    server.terminate(Signal::TERM);
}

/// Answers with what is in `content`: a set of keys, or a status.
fn provider(content: &Arc<Mutex<String>>) -> Upstream {
    let content = Arc::clone(content);
    Upstream::start(move |peer| {
        loop {
            let asked = peer.request()?;
            let text = content.lock().unwrap().clone();
            match text.parse::<u16>() {
                Ok(status) => peer.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"))?,
                Err(_) if asked.line.starts_with("GET /keys?a=b ") => peer.answer(text)?,
                Err(_) => peer.answer("elsewhere")?,
            }
        }
    })
}

#[test]
fn keys_are_fetched_when_they_are_missing_and_stay_when_they_cannot_be() {
    let content = Arc::new(Mutex::new("503".to_owned()));
    let provider = provider(&content);
    let rules = "issuer = \"https://issuer.example/\", audience = \"web\"";
    let gate = format!("jwt = {{ jwks_url = \"{}/keys?a=b\", {rules} }}", provider.name());
    let server = Setup::with_files().site(&gate).start();
    // No keys are known as yet.
    server.wait_for("keys for tokens cannot be fetched");
    let waits = server.connect().method("GET", "/a.txt", &bearer(&token("good", "RS256")));
    assert_eq!(waits.status, 503);
    waits.need("retry-after");
    assert_eq!(server.connect().get("/a.txt").status, 401, "without a token there is nothing to wait for");
    *content.lock().unwrap() = set(&["RS256"]);
    eventually("the keys are there", || status(&server, "RS256") == 200);
    // The provider has another key from now on, which the first token by it shows.
    *content.lock().unwrap() = set(&["ES256", "RS256"]);
    assert_eq!(status(&server, "ES256"), 401);
    eventually("the new key is fetched", || status(&server, "ES256") == 200);
    assert_eq!(status(&server, "RS256"), 200);
    // A broken provider changes nothing, and is not asked more often, however many tokens name other keys.
    *content.lock().unwrap() = "{\"keys\": []}".to_owned();
    let before = provider.requests();
    eventually("it was asked", || {
        assert_eq!(status(&server, "EdDSA"), 401);
        provider.requests() > before
    });
    server.wait_for("it has no keys");
    assert_eq!([status(&server, "RS256"), status(&server, "ES256")], [200, 200]);
    for _ in 0..50 {
        assert_eq!(status(&server, "EdDSA"), 401);
    }
    assert!(provider.requests() <= before + 3, "{} times", provider.requests() - before);
    // What was fetched is there in the next worker process, from its first request on.
    let (outcome, said) = server.command(&["reload"]);
    assert!(outcome.success(), "{said}");
    assert_eq!(status(&server, "ES256"), 200);
    server.terminate(Signal::TERM);
}

/// What an agent has fetched stays when it is killed, and the next one goes on with its work.
#[test]
fn keys_stay_when_the_process_that_fetches_them_is_killed() {
    let content = Arc::new(Mutex::new(set(&["RS256"])));
    let provider = provider(&content);
    let rules = "issuer = \"https://issuer.example/\", audience = \"web\"";
    let gate = format!("jwt = {{ jwks_url = \"{}/keys?a=b\", {rules} }}", provider.name());
    let server = Setup::with_files().site(&gate).start();
    eventually("the keys are there", || status(&server, "RS256") == 200);
    *content.lock().unwrap() = "503".to_owned();
    let killed = server.agent("keys");
    send_signal(killed, Signal::KILL);
    server.wait_for("the process that fetches keys");
    assert_eq!(status(&server, "RS256"), 200);
    eventually("there is another one", || server.agent("keys") != killed);
    // The new process finds no keys.
    server.wait_for("keys for tokens cannot be fetched");
    assert_eq!([status(&server, "RS256"), status(&server, "ES256")], [200, 401]);
    *content.lock().unwrap() = set(&["ES256"]);
    eventually("it fetches them when there are any", || status(&server, "ES256") == 200);
    assert_eq!(status(&server, "RS256"), 401);
    server.terminate(Signal::TERM);
}
