//! What one route, one pool, or one client that the server tells apart has got is given to no other, unless the response says so.

use rcgen::PKCS_ECDSA_P256_SHA256;

use crate::access::users::{BCRYPT, field};
use crate::cache::lasting::reload;
use crate::cache::origin::{Origin, response};
use crate::cache::{HIT, STORED, status};
use crate::support::stage::{Authority, connect};
use crate::support::{Server, Setup, eventually};

const FRESH: &str = "Cache-Control: max-age=600\r\n";

/// Says who is asked, by whom, and for the how-manieth time.
fn telling(name: &'static str, control: &'static str) -> Origin {
    let count = std::sync::atomic::AtomicUsize::new(0);
    Origin::start(move |peer, asked| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        let told = |field: &str| asked.field(field).unwrap_or("-").to_owned();
        let who = [told("x-remote-user"), told("remote-user"), told("x-ssl-client-verify")].concat();
        let body = format!("{name} {} {who} {number}", asked.target());
        peer.send(response(&format!("Cache-Control: {control}\r\nETag: \"e\"\r\n"), body))
    })
}

/// Two routes for one path, the first of which has this condition; both keep responses.
fn two_routes(condition: &str, one: &Origin, other: &Origin) -> Setup {
    Setup::with_files()
        .server("trusted_proxies = [\"127.0.0.0/8\"]")
        .site("cache = true")
        .route("/*", &format!("match = {{ {condition} }}\npool = \"one\""))
        .route("/*", "pool = \"other\"")
        .table("[cache]\ndirectory = \"store\"\n")
        .table(&format!(
            "[pool.one]\nconnect = [\"{}\"]\n[pool.other]\nconnect = [\"{}\"]\n",
            one.name(),
            other.name()
        ))
}

fn get(server: &Server, target: &str, fields: &str) -> String {
    server.connect().method("GET", target, fields).text().to_owned()
}

fn said(server: &Server, target: &str, fields: &str) -> String {
    status(&server.connect().method("GET", target, fields))
}

#[test]
fn routes_with_different_conditions_share_nothing() {
    for (condition, fields) in [
        ("client = [\"10.9.9.9\"]", "X-Forwarded-For: 10.9.9.9\r\n"),
        ("header = { X-Beta = \"1\" }", "X-Beta: 1\r\n"),
        ("cookie = { beta = \"1\" }", "Cookie: beta=1\r\n"),
        ("scheme = \"https\"", "X-Forwarded-Proto: https\r\n"),
        (
            "share = \"100%\", share_by = \"header:X-Who\", client = [\"10.9.9.9\"]",
            "X-Forwarded-For: 10.9.9.9\r\n",
        ),
    ] {
        let (one, other) = (Origin::numbered(FRESH), Origin::numbered(FRESH));
        let server = two_routes(condition, &one, &other).start();
        for _ in 0..2 {
            server.connect().method("GET", "/page", fields);
            server.connect().get("/page");
        }
        assert_eq!((one.count(), other.count()), (1, 1), "{condition}");
        server.stop();
    }
}

#[test]
fn one_pool_behind_two_routes_is_asked_for_each() {
    let origin =
        Origin::start(|peer, asked| peer.send(response(FRESH, asked.field("x-beta").unwrap_or("none"))));
    let server = two_routes("header = { X-Beta = \"*\" }", &origin, &origin).start();
    for _ in 0..2 {
        assert_eq!(get(&server, "/page", "X-Beta: 1\r\n"), "1");
        assert_eq!(get(&server, "/page", ""), "none");
    }
    assert_eq!(origin.count(), 2);
    server.stop();
}

/// What routes make of one URL by a field of the request is not one resource.
#[test]
fn targets_that_depend_on_more_than_the_url_are_kept_apart() {
    let by_field = "path_regex = \"^/(.*)$\"\nrewrite = \"/{header.X-Lang}/{capture.1}\"\npool = \"app\"";
    let origin = Origin::start(|peer, asked| peer.send(response(FRESH, asked.target())));
    let pool = format!("[pool.app]\nconnect = [\"{}\"]\n", origin.name());
    let store = "[cache]\ndirectory = \"store\"\n";
    let rewriting =
        Setup::with_files().site("cache = true").route("/*", by_field).table(store).table(&pool).start();
    let rerouting = Setup::with_files()
        .site("cache = true")
        .route("/page", "match = { header = { X-Lang = \"de\" } }\nreroute = \"/de/page\"")
        .route("/page", "reroute = \"/fr/page\"")
        .route("/*", "pool = \"app\"")
        .table(store)
        .table(&pool)
        .start();
    for server in [rewriting, rerouting] {
        let before = origin.count();
        for _ in 0..2 {
            for lang in ["de", "fr"] {
                let field = format!("X-Lang: {lang}\r\n");
                assert_eq!(get(&server, "/page", &field), format!("/{lang}/page"));
            }
        }
        assert_eq!((origin.count() - before, said(&server, "/page", "X-Lang: de\r\n").as_str()), (2, HIT));
        assert_eq!(server.connect().post("/page", b"").status, 200);
        let hits = ["de", "fr"].map(|lang| said(&server, "/page", &format!("X-Lang: {lang}\r\n")));
        assert!(hits.iter().all(|said| said != HIT), "a POST makes all of them invalid: {hits:?}");
        server.stop();
    }
}

#[test]
fn a_purge_and_an_unsafe_request_reach_what_all_routes_and_pools_have_kept() {
    let (one, other) = (Origin::numbered(FRESH), Origin::numbered(FRESH));
    let server = two_routes("header = { X-Beta = \"1\" }", &one, &other).start();
    let fields = ["", "X-Beta: 1\r\n"];
    let fill = || {
        for fields in fields {
            get(&server, "/page", fields);
            assert_eq!(said(&server, "/page", fields), HIT, "{fields:?}");
        }
    };
    let ways: [(&str, &dyn Fn()); 5] = [
        ("command", &|| assert!(server.command(&["cache", "purge", "http://localhost/page"]).0.success())),
        ("soft", &|| {
            assert!(server.command(&["cache", "purge", "--soft", "http://localhost/page"]).0.success());
        }),
        ("prefix", &|| {
            assert!(server.command(&["cache", "purge", "--prefix", "http://localhost/"]).0.success());
        }),
        ("POST to one", &|| assert_eq!(server.connect().post("/page", b"").status, 200)),
        ("POST to the other", &|| {
            let fields = "X-Beta: 1\r\nContent-Length: 0\r\n";
            assert_eq!(server.connect().method("POST", "/page", fields).status, 200);
        }),
    ];
    for (name, purge) in ways {
        fill();
        purge();
        for fields in fields {
            assert_ne!(said(&server, "/page", fields), HIT, "{name} {fields:?}");
        }
    }
    let shown = server.command(&["cache", "show", "http://localhost/page"]).1;
    assert!(shown.matches("fresh for another").count() == 2 && shown.contains("pool other"), "{shown}");
    server.stop();
}

/// A route that keeps nothing itself makes invalid what others of the site keep.
#[test]
fn an_unsafe_request_by_a_route_without_a_cache_counts() {
    let origin = Origin::numbered(FRESH);
    let server = Setup::with_files()
        .route("/*", "methods = [\"GET\"]\npool = \"app\"\ncache = true")
        .route("/*", "pool = \"app\"")
        .table("[cache]\ndirectory = \"store\"\n")
        .table(&format!("[pool.app]\nconnect = [\"{}\"]\n", origin.name()))
        .start();
    assert_eq!(get(&server, "/a", ""), "/a 1");
    assert_eq!(server.connect().post("/a", b"").status, 200);
    assert_eq!(get(&server, "/a", ""), "/a 3");
    server.stop();
}

#[test]
fn what_is_kept_survives_a_reload_and_a_restart_that_change_nothing_of_its_route() {
    let (one, other) = (Origin::numbered(FRESH), Origin::numbered(FRESH));
    let setup = two_routes("header = { X-Beta = \"1\" }", &one, &other);
    let server = setup.start();
    let ask = |server: &Server| ["", "X-Beta: 1\r\n"].map(|fields| get(server, "/page", fields));
    let before = ask(&server);
    reload(&server, 2);
    // Another route, another pool, in front of these: their numbers change.
    let file = server.path("maitred.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let pools = format!("[pool.a]\nconnect = [\"{}\"]\n\n[pool.one]", one.name());
    let new = "[[site.route]]\npath = \"/new\"\npool = \"a\"\n\n[[site.route]]";
    let changed = text.replacen("[[site.route]]", new, 1).replacen("[pool.one]", &pools, 1);
    assert_ne!(text, changed);
    std::fs::write(&file, changed).unwrap();
    reload(&server, 3);
    assert_eq!(ask(&server), before);
    let server = server.stop().setup.start();
    for fields in ["", "X-Beta: 1\r\n"] {
        let fields = format!("{fields}Cache-Control: only-if-cached\r\n");
        eventually("it is found", || server.connect().method("GET", "/page", &fields).status == 200);
    }
    assert_eq!((ask(&server), one.count(), other.count()), (before, 1, 1));
    server.stop();
}

/// Admits clients by `session=NAME`, and says who they are, or does not.
fn guard(says: bool) -> Origin {
    Origin::start(move |peer, asked| {
        let name = asked.field("cookie").and_then(|cookie| cookie.strip_prefix("session=")).unwrap_or("");
        let user = if says { format!("Remote-User: {name}\r\n") } else { String::new() };
        match name {
            "" => peer.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"),
            _ => peer.send(response(&user, "ok")),
        }
    })
}

/// Everything behind a gate that asks `guard`, with this `cache`.
fn gated(guard: &Origin, origin: &Origin, cache: &str) -> Server {
    let copies = "copy_headers = [\"Remote-User\"]";
    Setup::with_files()
        .site(&format!("forward_auth = {{ pool = \"guard\", path = \"/auth\", {copies} }}"))
        .route("/*", &format!("pool = \"app\"\ncache = {cache}"))
        .table("[cache]\ndirectory = \"store\"\n")
        .table(&format!(
            "[pool.app]\nconnect = [\"{}\"]\n[pool.guard]\nconnect = [\"{}\"]\n",
            origin.name(),
            guard.name()
        ))
        .start()
}

const ANN: &str = "Cookie: session=ann\r\n";
const BOB: &str = "Cookie: session=bob\r\n";

#[test]
fn what_a_gate_has_decided_about_is_kept_as_with_authorization() {
    for (control, shared) in [
        ("max-age=600", false),
        ("public, max-age=600", true),
        ("s-maxage=600", true),
        ("max-age=600, must-revalidate", true),
    ] {
        let (guard, origin) = (guard(true), telling("app", control));
        let server = gated(&guard, &origin, "true");
        let ann = get(&server, "/page", ANN);
        assert!(ann.contains("-ann-"), "{ann}");
        assert_eq!(get(&server, "/page", BOB) == ann, shared, "{control}");
        assert_eq!(server.connect().get("/page").status, 401);
        assert_eq!(origin.count(), if shared { 1 } else { 2 }, "{control}");
        server.stop();
    }
}

#[test]
fn each_client_has_responses_of_its_own_by_its_identity() {
    let (guard, origin) = (guard(true), telling("app", "max-age=600"));
    let server = gated(&guard, &origin, "{ key_identity = true }");
    let users = ["ann", "bob", "ann,bob", "annbob"];
    let ask = |name: &str| get(&server, "/page", &format!("Cookie: session={name}\r\n"));
    let first = users.map(&ask);
    for (name, text) in users.iter().zip(&first) {
        assert!(text.contains(&format!(" -{name}- ")), "{text}");
    }
    assert_eq!((users.map(&ask), origin.count()), (first.clone(), 4));
    assert_eq!(said(&server, "/page", ANN), HIT);
    let part = server.connect().method("GET", "/page", &format!("{BOB}Range: bytes=0-2\r\n"));
    assert_eq!((part.status, part.text(), status(&part).as_str()), (206, "app", HIT));
    reload(&server, 2);
    assert_eq!((users.map(&ask), origin.count()), (first, 4), "a digest is the same in another process");
    // One of the users changes the page, for all.
    let fields = format!("{ANN}Content-Length: 0\r\n");
    assert_eq!(server.connect().method("POST", "/page", &fields).status, 200);
    assert_ne!(said(&server, "/page", BOB), HIT);
    assert!(server.command(&["cache", "purge", "http://localhost/page"]).0.success());
    assert_ne!(said(&server, "/page", BOB), HIT);
    let shown = server.command(&["cache", "show", "http://localhost/page"]).1;
    assert!(shown.contains("has a response of its own"), "{shown}");
    server.stop();
}

#[test]
fn a_gate_that_names_nobody_leaves_nobody_to_be_told_apart() {
    let (guard, origin) = (guard(false), telling("app", "max-age=600"));
    let server = gated(&guard, &origin, "{ key_identity = true }");
    for number in 1..=3 {
        assert!(get(&server, "/page", ANN).ends_with(&format!(" {number}")));
    }
    server.stop();
}

/// Clients that wait for what another one fetches get it only if it is for them.
#[test]
fn those_who_wait_get_no_response_of_another_client() {
    for cache in ["{ collapse_timeout = \"1h\" }", "{ key_identity = true, collapse_timeout = \"1h\" }"] {
        let (guard, steps) = (guard(true), crate::cache::origin::Steps::default());
        let allowed = steps.clone();
        let origin = Origin::start(move |peer, asked| {
            let user = asked.field("remote-user").unwrap_or("-").to_owned();
            if user == "ann" {
                allowed.wait_for(1)?;
            }
            peer.send(response(FRESH, user))
        });
        let server = gated(&guard, &origin, cache);
        let mut ann = server.connect();
        ann.send(format!("GET /page HTTP/1.1\r\nHost: localhost\r\n{ANN}\r\n"));
        eventually("the pool is asked", || origin.count() == 1);
        let mut bob = server.connect();
        bob.send(format!("GET /page HTTP/1.1\r\nHost: localhost\r\n{BOB}\r\n"));
        if !cache.contains("key_identity") {
            eventually("bob waits", || server.total("response_cache_collapsed") == 1);
            steps.allow();
        }
        assert_eq!(bob.response("GET").text(), "bob", "{cache}");
        steps.allow();
        assert_eq!(ann.response("GET").text(), "ann", "{cache}");
        server.stop();
    }
}

/// The user of a password, of a token, and of another server are not one, though they have one name.
#[test]
fn users_of_passwords_are_told_apart() {
    for (cache, asked) in [("true", 4), ("{ key_identity = true }", 2)] {
        let origin = telling("app", "max-age=600");
        let users = format!("ann = \"{BCRYPT}\", bob = \"{BCRYPT}\"");
        let server = Setup::with_files()
            .site(&format!("basic_auth = {{ users = {{ {users} }}, remove_authorization = true }}"))
            .route("/*", &format!("pool = \"app\"\ncache = {cache}"))
            .table("[cache]\ndirectory = \"store\"\n")
            .table(&format!("[pool.app]\nconnect = [\"{}\"]\n", origin.name()))
            .start();
        for _ in 0..2 {
            for user in ["ann", "bob"] {
                let text = get(&server, "/page", &field(user, "secret"));
                assert!(text.contains(&format!(" {user}--")), "{cache}: {text}");
            }
        }
        assert_eq!(origin.count(), asked, "{cache}");
        assert_eq!(server.connect().get("/page").status, 401);
        server.stop();
    }
}

#[test]
fn a_certificate_tells_a_client_apart() {
    for (cache, control, asked) in [
        ("true", "max-age=600", 5),
        ("true", "public, max-age=600", 2),
        ("{ key_identity = true }", "max-age=600", 3),
    ] {
        let authority = Authority::new();
        let origin = telling("app", control);
        let tls = "client_auth = \"optional\", client_ca = \"ca.pem\"";
        let server = crate::support::stage::setup(&authority, tls)
            .route("/*", &format!("pool = \"app\"\ncache = {cache}"))
            .table("[cache]\ndirectory = \"store\"\n")
            .table(&format!("[pool.app]\nconnect = [\"{}\"]\n", origin.name()))
            .start();
        let own = |name: &str| authority.sign(&[name], &PKCS_ECDSA_P256_SHA256);
        let (ann, bob) = (own("ann"), own("bob"));
        let as_client = |own| {
            let client = authority.client_of(&[&rustls::version::TLS13], own);
            connect(&server, &client).get("/page").text().to_owned()
        };
        for _ in 0..2 {
            assert!(as_client(Some(&ann)).contains("SUCCESS"), "{cache} {control}");
            assert!(as_client(Some(&bob)).contains("SUCCESS"), "{cache} {control}");
            assert!(!as_client(None).contains("SUCCESS"), "{cache} {control}");
        }
        assert_eq!(origin.count(), asked, "{cache} {control}");
        server.stop();
    }
}

/// A trusted proxy that has checked a user or a certificate says so in a field.
#[test]
fn a_client_that_a_trusted_proxy_has_told_apart_is() {
    let origin = Origin::numbered(FRESH);
    let server = two_routes("header = { X-None = \"1\" }", &origin, &origin).start();
    for (field, number) in
        [("X-Remote-User: ann", 1), ("X-Remote-User: bob", 2), ("X-SSL-Client-Verify: SUCCESS", 3)]
    {
        assert_eq!(get(&server, "/page", &format!("{field}\r\n")), format!("/page {number}"));
    }
    let none = server.connect().method("GET", "/page", "X-SSL-Client-Verify: NONE\r\n");
    assert_eq!((none.text(), status(&none).as_str()), ("/page 4", STORED));
    assert_eq!(get(&server, "/page", ""), "/page 4");
    server.stop();
}
