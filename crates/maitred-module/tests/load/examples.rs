//! The examples in Rust answer as their heads say.

use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use maitred_sys::module::abi::Client;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::server::{Asked, Head, IS_FULL, SERVER, get};
use crate::support::{begin, refusal};

fn file(directory: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn hello_says_the_greeting_of_its_configuration() {
    let module = begin("hello", r#"{ "greeting": "Good day" }"#);
    // Each configuration has an instance of its own.
    let other = begin("hello", r#"{ "greeting": "Hi" }"#);
    for (module, wanted) in [(&module, "Good day, world\n"), (&other, "Hi, world\n")] {
        let answer = get(module, "/").unwrap();
        assert_eq!((answer.status, answer.content.as_str()), (200, wanted));
        assert_eq!(answer.field("Content-Type"), Some("text/plain; charset=utf-8"));
    }
    assert!(refusal("hello", r#"{ "greeting": "Hi", "name": 1 }"#).contains("unknown field `name`"));
}

fn counted(module: &maitred_sys::module::host::Module, asked: &mut Asked) -> (u64, u64) {
    let answer: Value = serde_json::from_str(&asked.to(module).unwrap().content).unwrap();
    assert_eq!(answer["worker"], std::process::id());
    (answer["requests"].as_u64().unwrap(), answer["over_tls"].as_u64().unwrap())
}

#[test]
fn counter_goes_on_where_another_instance_has_counted() {
    let directory = tempfile::tempdir().unwrap();
    let config = json!({ "counters": directory.path().join("counters") }).to_string();
    let module = begin("counter", &config);
    assert_eq!(counted(&module, &mut Asked::new("/")), (1, 0));
    let mut secure = Asked { client: Client { secure: 1, ..Client::default() }, ..Asked::new("/") };
    assert_eq!(counted(&module, &mut secure), (2, 1));
    // As after a reload, while the old instance still is there.
    let other = begin("counter", &config);
    assert_eq!(counted(&other, &mut Asked::new("/")), (3, 1));
    assert_eq!(counted(&module, &mut Asked::new("/")), (4, 1));
}

#[test]
fn counter_loses_nothing_between_threads() {
    let directory = tempfile::tempdir().unwrap();
    let config = json!({ "counters": directory.path().join("counters") }).to_string();
    let module = begin("counter", &config);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|_| drop(get(&module, "/"))));
        }
    });
    assert_eq!(counted(&module, &mut Asked::new("/")), (2001, 0));
}

#[test]
fn counter_says_which_file_it_cannot_use() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), "text", "a text that is no counter");
    let error = refusal("counter", &json!({ "counters": path }).to_string());
    assert_eq!(error, format!("its `init` refuses: {path}: it holds something else than counters"));
}

#[test]
fn links_lead_to_their_targets() {
    let directory = tempfile::tempdir().unwrap();
    let links: String = (0..100_000).map(|number| format!("link-{number} /target/{number}\n")).collect();
    let path = file(directory.path(), "links.txt", links + "# more\ndocs  https://docs.example.com/?a=b\n");
    let module = begin("links", &json!({ "table": path, "prefix": "/go/", "status": 308 }).to_string());
    assert_eq!(SERVER.logged("links: 100001 links"), 2);
    for (target, location) in [
        ("/go/docs", "https://docs.example.com/?a=b"),
        ("/go/docs?ref=1", "https://docs.example.com/?a=b"),
        ("/go/link-0", "/target/0"),
        ("/go/link-99999", "/target/99999"),
    ] {
        let answer = get(&module, target).unwrap();
        assert_eq!((answer.status, answer.field("location")), (308, Some(location)), "{target}");
        assert_eq!(answer.content, "");
    }
    for target in ["/go/", "/go/doc", "/go/docs/", "/docs", "/go/link-100000"] {
        assert_eq!(get(&module, target), None, "{target}");
    }
}

#[test]
fn links_that_are_none_are_found_at_the_beginning() {
    let directory = tempfile::tempdir().unwrap();
    for (content, wanted) in [
        ("a /b\nc javascript:alert(1)", "line 2: a target begins with `/`, `http://` or `https://`"),
        ("a /b c", "line 1: a target has the byte 0x20, which has to be percent-encoded"),
        ("a /b\rX-Y: c", "line 1: it has a control character"),
        ("a /ü", "line 1: a target has the byte 0xc3, which has to be percent-encoded"),
    ] {
        let path = file(directory.path(), "links.txt", content);
        let error = refusal("links", &json!({ "table": path, "prefix": "/" }).to_string());
        assert_eq!(error, format!("its `init` refuses: {path}: {wanted}"), "{content}");
    }
    let path = file(directory.path(), "links.txt", "");
    let error = refusal("links", &json!({ "table": path, "prefix": "/", "status": 200 }).to_string());
    assert_eq!(error, "its `init` refuses: `status` is 200, which is no redirect");
}

const KEY: &str = "0123456789abcdef0123456789abcdef";

fn token(user: &str, expiry: u64, key: &str) -> String {
    let signed = format!("{user}.{expiry}");
    let signature = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap().chain_update(&signed).finalize();
    let digits: String = signature.into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{signed}.{digits}")
}

#[test]
fn token_admits_those_who_have_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), "key", format!("{KEY}\n"));
    let module = begin("token", &json!({ "key": path }).to_string());
    // What `openssl dgst -sha256 -hmac KEY` says of "ada.9999999999".
    let good = token("ada", 9_999_999_999, KEY);
    assert!(good.ends_with("c03276611ff455"), "{good}");
    for mut asked in [
        Asked::new(&format!("/?token={good}")),
        Asked::new(&format!("/?a=b&token={good}&c=d")),
        Asked::new("/").with("Cookie", format!("token={good}")),
        Asked::new("/").with("cookie", "theme=dark").with("cookie", format!("a=b; token={good}; c=d")),
    ] {
        assert_eq!(asked.to(&module), None, "{asked:?}");
        assert_eq!(asked.given, [("X-User".to_owned(), "ada".to_owned())]);
    }
    let mut unnamed = Asked { may_set: &[], ..Asked::new(&format!("/?token={good}")) };
    assert_eq!(unnamed.to(&module).unwrap().status, 500);
    assert_eq!(SERVER.logged("token: `request_fields` of the configuration has no X-User"), 0);
}

#[test]
fn token_refuses_all_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), "key", KEY);
    let module = begin("token", &json!({ "key": path }).to_string());
    let good = token("ada", 9_999_999_999, KEY);
    let (signed, _) = good.rsplit_once('.').unwrap();
    for wrong in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        signed.to_owned(),
        format!("{signed}."),
        format!("{signed}.{}", "0".repeat(64)),
        good.to_uppercase(),
        format!("{good}0"),
        good.replace("ada", "bob"),
        good.replace("9999999999", "9999999998"),
        token("ada", 1, KEY),
        token("ada", 9_999_999_999, "another key, and as long as that"),
        token("", 9_999_999_999, KEY),
        token("a b", 9_999_999_999, KEY),
        token(&"a".repeat(65), 9_999_999_999, KEY),
    ] {
        let mut asked = Asked::new(&format!("/?token={wrong}")).with("X-User", "eve");
        let answer = asked.to(&module).map(|answer| answer.status);
        assert_eq!((answer, asked.given.len()), (Some(403), 0), "{wrong}");
    }
    let answer = get(&module, "/").unwrap();
    assert_eq!((answer.status, answer.content.as_str()), (403, "a valid token is needed\n"));
    assert_eq!(answer.field("Content-Type"), Some("text/plain; charset=utf-8"));
    let short = file(directory.path(), "short", &KEY[1..]);
    let error = refusal("token", &json!({ "key": short }).to_string());
    assert_eq!(error, format!("its `init` refuses: {short}: the key has less than 32 bytes"));
}

#[test]
fn stamp_changes_the_fields_of_responses() {
    let config =
        r#"{ "set": { "X-Served-By": "alpha", "Content-Length": "1" }, "remove": ["X-Powered-By"] }"#;
    let module = begin("stamp", config);
    assert!(module.sees_responses() && !module.sees_requests());
    let head = Head::new(&[("x-powered-by", "a"), ("X-Served-By", "b"), ("Content-Length", "5")]);
    let wanted =
        [("Content-Length", "5"), ("X-Served-By", "alpha"), ("Server-Timing", "maitred;desc=\"GET 200\"")];
    assert_eq!(head.through(&module, "/"), Head::new(&wanted).fields);
    assert_eq!(SERVER.logged("stamp: \"Content-Length\" is no field that can be set"), 1);
}

#[test]
fn slow_answers_later() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), "list", "line\n".repeat(100_000));
    let module = begin("slow", &json!({ "file": path, "waiting_max": 1 }).to_string());
    assert!(module.may_answer_later());
    // Each request leaves its place to the next one.
    for _ in 0..3 {
        assert_eq!(get(&module, "/").unwrap().content, "100000\n");
    }
    // No helper takes it: the place is free again.
    IS_FULL.set(true);
    assert_eq!(get(&module, "/").unwrap().status, 503);
    IS_FULL.set(false);
    assert_eq!(get(&module, "/").unwrap().content, "100000\n");
    let none = begin("slow", &json!({ "file": path, "waiting_max": 0 }).to_string());
    let answer = get(&none, "/").unwrap();
    assert_eq!((answer.status, answer.field("Retry-After")), (503, Some("1")));
}

/// In the shape of `items.json` of `cargo xtask bench arena`.
fn items() -> Value {
    json!([
        { "id": 1, "name": "Oak \"Lamp\"", "category": "garden", "price": 12, "quantity": 3, "active": true,
          "tags": ["light", "last\\ones", "a\nb\u{1}"], "rating": { "score": 40, "count": 7 } },
        { "id": 2, "name": "Größe", "category": "office", "price": 7, "quantity": 0, "active": false,
          "tags": [], "rating": { "score": 10, "count": 1 } },
    ])
}

fn arena() -> maitred_sys::module::host::Module {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), "items.json", serde_json::to_string_pretty(&items()).unwrap());
    begin("arena", &json!({ "data": path }).to_string())
}

#[test]
fn arena_adds_numbers() {
    let module = arena();
    assert!(module.reads_body());
    for (mut asked, wanted) in [
        (Asked::new("/baseline11?a=13&b=42"), "55"),
        (Asked::new("/baseline2?a=409&b=-7"), "402"),
        (Asked::new("/baseline11"), "0"),
        (Asked::post("/baseline11?a=13&b=42", "945\n"), "1000"),
    ] {
        let answer = asked.to(&module).unwrap();
        assert_eq!((answer.status, answer.content.as_str()), (200, wanted), "{asked:?}");
        assert_eq!(answer.field("Content-Type"), Some("text/plain"));
    }
    let most = i64::MAX;
    let wrong = [
        Asked::new("/baseline11?a=x"),
        Asked::new("/baseline11?a"),
        Asked::new(&format!("/baseline11?a={most}&b=1")),
        Asked::post("/baseline11?a=1", "1 2"),
        Asked::post("/baseline11?a=1", ""),
    ];
    for mut asked in wrong {
        assert_eq!(asked.to(&module).unwrap().status, 400, "{asked:?}");
    }
    assert_eq!(get(&module, "/other"), None);
}

#[test]
fn arena_lists_items_with_their_totals() {
    let module = arena();
    for (target, count, factor) in
        [("/json/2?m=3", 2, 3), ("/json/1?m=8", 1, 8), ("/json/0?m=1", 0, 1), ("/json?m=5", 2, 5)]
    {
        let answer = get(&module, target).unwrap();
        assert_eq!(
            (answer.status, answer.field("Content-Type")),
            (200, Some("application/json")),
            "{target}"
        );
        let mut wanted: Vec<Value> = items().as_array().unwrap()[..count].to_vec();
        for item in &mut wanted {
            let total = item["price"].as_u64().unwrap() * item["quantity"].as_u64().unwrap() * factor;
            item["total"] = total.into();
        }
        let got: Value = serde_json::from_str(&answer.content).unwrap();
        assert_eq!(got, json!({ "items": wanted, "count": count }), "{target}");
    }
    for (target, status) in [
        ("/json/3?m=1", 404),
        ("/json/-1?m=1", 404),
        ("/json/x?m=1", 404),
        ("/json/1", 400),
        ("/json/1?m=x", 400),
    ] {
        assert_eq!(get(&module, target).unwrap().status, status, "{target}");
    }
    assert_eq!(Asked::post("/json/1?m=1", "").to(&module).unwrap().status, 405);
}
