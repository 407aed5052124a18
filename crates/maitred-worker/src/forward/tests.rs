use std::time::Instant;

use crate::keys::{Key, SessionKey};
use maitred_handoff::{FromServer, PAYLOAD_BYTES_MAX, RequestFlags};
use maitred_http::fields::FieldLines;
use maitred_http::uri::{self, Slashes};

use super::*;
use crate::connection::remote::Remote;
use crate::connection::wire::Wire;
use crate::testing::{config, with_request};
use crate::upstream::remote_thread::{Heard, RemoteRequest};
use maitred_config::Template;
use maitred_policy::target::Target;

fn passed(names: &[&str], rules: &RequestHeaders, proxied: bool) -> Vec<String> {
    names.iter().filter(|name| passes(name, rules, proxied)).map(|name| (*name).to_owned()).collect()
}

const NAMES: [&str; 7] = [
    "Accept",
    "api_key",
    "v1.key",
    "X-Remote-User",
    "X_Remote_User",
    "x.remote.user",
    "X-Auth-Request-Email",
];

#[test]
fn what_only_a_proxy_can_know_is_not_a_clients_to_say() {
    let rules = |keep: &[&str], underscores| RequestHeaders {
        keep: keep.iter().map(|name| (*name).to_owned()).collect(),
        underscores,
        trusted: None,
        client_address: None,
    };
    assert_eq!(passed(&NAMES, &rules(&[], false), false), ["Accept"]);
    assert_eq!(passed(&NAMES, &rules(&[], true), false), ["Accept", "api_key", "v1.key"]);
    let trusted = ["Accept", "X-Remote-User", "X-Auth-Request-Email"];
    assert_eq!(passed(&NAMES, &rules(&[], false), true), trusted, "another spelling is not the proxy's");
    let others = ["X-Consumer-Username", "OIDC-CLAIM-sub", "IV-User", "X-Vouch-User"];
    assert!(passed(&others, &rules(&[], false), true).is_empty(), "a proxy passes on what clients send");
    let kept = rules(&["api_key", "x-remote-user"], false);
    assert_eq!(passed(&NAMES, &kept, false), ["Accept", "api_key", "X-Remote-User"]);
    assert_eq!(passed(&NAMES, &rules(&["x_remote_user"], true), false)[3], "X_Remote_User");
}

#[test]
fn a_trusted_proxy_may_say_what_its_pool_names() {
    let rules = |trusted: &[&str]| RequestHeaders {
        keep: Vec::new(),
        underscores: false,
        trusted: Some(trusted.iter().map(|name| (*name).to_owned()).collect()),
        client_address: None,
    };
    let known = rules(&["x-remote-user", "x-auth-request-*", "x-own-*"]);
    let names = [&NAMES[..], &["X-Own-Id", "X_Own_Id", "X-Own-A_b", "X-Owner"]].concat();
    let trusted = ["Accept", "X-Remote-User", "X-Auth-Request-Email", "X-Own-Id", "X-Owner"];
    assert_eq!(passed(&names, &known, true), trusted, "another spelling is not the proxy's");
    assert_eq!(passed(&names, &known, false), ["Accept", "X-Owner"], "what it names is nobody else's to say");
    let loose = RequestHeaders { underscores: true, ..known };
    assert_eq!(passed(&["X_Own_Id", "x.remote.user", "api_key"], &loose, true), ["api_key"]);
    // mod_auth_openidc writes names with `_`.
    let openidc = rules(&["oidc_claim_*"]);
    assert_eq!(passed(&["OIDC_CLAIM_sub", "OIDC-CLAIM-sub"], &openidc, true), ["OIDC_CLAIM_sub"]);
    assert!(passed(&["OIDC_CLAIM_sub", "OIDC-CLAIM-sub"], &openidc, false).is_empty());
}

#[test]
fn the_field_with_the_clients_address_is_only_a_proxys() {
    let mut rules = RequestHeaders {
        keep: Vec::new(),
        underscores: true,
        trusted: None,
        client_address: Some("x-edge-client".into()),
    };
    let names = ["X-Edge-Client", "X_Edge_Client", "X-Edge-Clients", "x-edge.client"];
    assert_eq!(passed(&names, &rules, false), ["X-Edge-Clients"]);
    assert_eq!(passed(&names, &rules, true), ["X-Edge-Client", "X-Edge-Clients"]);
    rules.client_address = None;
    assert_eq!(passed(&names, &rules, false).len(), 4);
}

/// Names of what goes on of a request with these fields.
fn sent_on(fields: &[&str]) -> Vec<String> {
    let (kept, rules) = (
        RequestHeaders { keep: Vec::new(), underscores: false, trusted: None, client_address: None },
        RequestEdits::default(),
    );
    with_request("GET / HTTP/1.1", fields, |request| {
        let mut lines = FieldLines::default();
        append_fields(&mut lines, request, (&kept, &rules), (false, Traced::AsSent));
        lines.all().iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
    })
}

#[test]
fn what_connection_names_stays_here_whatever_else_it_says() {
    assert_eq!(sent_on(&["Connection: keep-alive", "X-Hop: a", "Keep-Alive: b", "C: d"]), ["X-Hop", "C"]);
    assert_eq!(sent_on(&["X-Hop: a", "Connection: keep-alive, x-HOP", "C: d"]), ["C"]);
    assert_eq!(sent_on(&["X-Hop: a", "Connection: close", "Close: b", "C: d"]), ["X-Hop", "C"]);
    assert_eq!(sent_on(&["Connection: Upgrade", "X-Hop: a", "Connection: ,X-Hop ,", "C: d"]), ["C"]);
    assert_eq!(sent_on(&["X-Hop: a", "C: d"]), ["X-Hop", "C"]);
}

/// What a pool with these keys gets of a target whose site decodes encoded slashes.
fn sent_to(keys: &str, target: &str) -> Result<String, u16> {
    let pools = config(&format!("[pool.p]\ncommand = [\"a\"]\n{keys}\n")).pools;
    with_request(&format!("GET {target} HTTP/1.1"), &[], |request| {
        let judged = uri::judge(request.path, Slashes::Decode, true).unwrap();
        let target = Target::routed(request, Slashes::Decode);
        target.check_for(&pools[0]).map_err(|reject| reject.status)?;
        Ok(target.for_pool(&pools[0], &judged).into_owned())
    })
}

#[test]
fn a_pool_gets_the_form_that_it_asks_for() {
    for (target, canonical, as_sent, keeps) in [
        ("/a?b", "/a?b", "/a?b", Ok("/a?b")),
        ("/a//b%2Fc?%7e|", "/a/b/c?%7e%7C", "/a//b%2Fc?%7e|", Ok("/a/b%2Fc?%7e%7C")),
        ("/a/../%7euser", "/~user", "/a/../%7euser", Ok("/~user")),
        ("/a/..%2Fb", "/b", "/a/..%2Fb", Err(400)),
        ("http://example.com/a//b?c", "/a/b?c", "/a//b?c", Ok("/a/b?c")),
        ("http://example.com", "/", "/", Ok("/")),
    ] {
        let as_text = |text: &str| Ok(text.to_owned());
        assert_eq!(sent_to("", target), as_text(canonical), "{target}");
        assert_eq!(sent_to("target = \"as_sent\"", target), as_text(as_sent), "{target}");
        assert_eq!(sent_to("encoded_slashes = \"keep\"", target), keeps.map(str::to_owned), "{target}");
    }
    assert_eq!(sent_to("encoded_slashes = \"reject\"", "/a%2Fb"), Err(400));
    assert_eq!(sent_to("encoded_slashes = \"reject\"", "/a/b"), Ok("/a/b".to_owned()));
}

/// A route may have judged another path than the one that the target has by now.
#[test]
fn what_was_not_judged_does_not_go_on_as_it_was_sent() {
    let pools = config("[pool.p]\ncommand = [\"a\"]\ntarget = \"as_sent\"\n").pools;
    with_request("GET /a//b HTTP/1.1", &[], |request| {
        let target = Target::routed(request, Slashes::Decode);
        assert_eq!(target.for_pool(&pools[0], b"/a/b"), "/a//b");
        assert_eq!(target.for_pool(&pools[0], b"/other"), "/a/b");
    });
}

const UPGRADE: &str = "Connection: Upgrade";

fn upgrade_pool(allowed: &str) -> Vec<Pool> {
    config(&format!("[pool.p]\ncommand = [\"a\"]\nupgrade = {allowed}\n")).pools
}

#[test]
fn a_client_switches_to_the_first_protocol_that_it_asks_for_and_the_pool_allows() {
    let pools = upgrade_pool("[\"websocket\", \"Chat/2\"]");
    let asked = |line: &str, fields: &[&str]| {
        with_request(line, fields, |request| protocol(request, &pools[0]).map(str::to_owned))
    };
    let get = |fields: &[&str]| asked("GET / HTTP/1.1", fields);
    for (fields, expected) in [
        (&[UPGRADE, "Upgrade: WebSocket"][..], Some("websocket")),
        (&[UPGRADE, "Upgrade: chat/2, websocket"], Some("Chat/2")),
        (&[UPGRADE, "Upgrade: h2c ,\tWEBSOCKET"], Some("websocket")),
        (&[UPGRADE, "Upgrade: h2c", "Upgrade: websocket"], Some("websocket")),
        (&[UPGRADE, "Upgrade: chat"], None),
        (&[UPGRADE, "Upgrade: websockets"], None),
        (&[UPGRADE, "Upgrade: ,"], None),
        (&[UPGRADE], None),
        (&["Upgrade: websocket"], None),
        (&["Connection: keep-alive", "Upgrade: websocket"], None),
        (&[UPGRADE, "Upgrade: websocket", "Content-Length: 3"], None),
        (&[UPGRADE, "Upgrade: websocket", "Transfer-Encoding: chunked"], None),
    ] {
        assert_eq!(get(fields).as_deref(), expected, "{fields:?}");
    }
    assert_eq!(asked("GET / HTTP/1.0", &[UPGRADE, "Upgrade: websocket"]), None);
    assert_eq!(protocol_of_none(&[UPGRADE, "Upgrade: websocket"]), None, "a pool without the key");
}

fn protocol_of_none(fields: &[&str]) -> Option<String> {
    let pools = upgrade_pool("[]");
    with_request("GET / HTTP/1.1", fields, |request| protocol(request, &pools[0]).map(str::to_owned))
}

#[test]
fn an_extended_connect_gets_no_success_from_what_cannot_switch() {
    let pools = upgrade_pool("[\"websocket\"]");
    let respond = |status| Choice::Respond { status, body: "", content_type: "" };
    let methods = ["GET".to_owned()];
    let misleads = |fields: &[&str], choice: &Choice<'_>| {
        with_request("GET / HTTP/1.1", fields, |request| would_mislead(request, choice, &pools))
    };
    let websocket = [UPGRADE, "Upgrade: websocket"];
    for (choice, expected) in [
        (Choice::Files(0), true),
        (Choice::Pool(0), false),
        (Choice::Pool(1), true),
        (respond(199), false),
        (respond(200), true),
        (respond(299), true),
        (respond(300), false),
        (Choice::Redirect { to: &Template::default(), status: 302 }, false),
        (Choice::Nothing, false),
        (Choice::NotThisMethod(&methods), false),
    ] {
        assert_eq!(misleads(&websocket, &choice), expected, "{choice:?}");
        assert!(!misleads(&[], &choice), "nothing was asked for: {choice:?}");
    }
    assert!(misleads(&[UPGRADE, "Upgrade: h2c"], &Choice::Pool(0)), "not this one");
}

/// Connections of a client over HTTP/1, of a stream, and of another thread, which sends what its client accepts.
fn connections() -> [(&'static str, Connection); 4] {
    let now = Instant::now();
    let plain = || Connection::new(Wire::Clear, Remote::new(None), false, now);
    let across = |may_be_informed| {
        let mut connection = Connection { internal: true, ..plain() };
        let (heard, fields) = (Heard::default(), Vec::new());
        let request =
            RemoteRequest { secure: false, request_id: 0, began: now, heard, may_be_informed, fields };
        connection.exchange().dispatch.across = Some(Box::new(request));
        connection
    };
    let stream = Connection::new(
        Wire::Stream { session: SessionKey::of(0), stream: 1 },
        Remote::new(None),
        false,
        now,
    );
    [("http/1", plain()), ("stream", stream), ("thread", across(true)), ("mute thread", across(false))]
}

#[test]
fn informational_responses_are_for_clients_that_understand_them() {
    let informed = |early_hints: &str, line: &str| {
        let text = format!("[pool.p]\ncommand = [\"a\"]\nearly_hints = \"{early_hints}\"\n");
        let pools = config(&text).pools;
        let informed = connections().into_iter().filter(|(_, connection)| {
            with_request(line, &[], |request| may_be_informed(connection, request, &pools[0]))
        });
        informed.map(|(name, _)| name).collect::<Vec<_>>()
    };
    let (new, old) = ("GET / HTTP/1.1", "GET / HTTP/1.0");
    assert_eq!(informed("http2", new), ["stream", "thread"]);
    assert_eq!(informed("always", new), ["http/1", "stream", "thread"]);
    assert_eq!(informed("always", old), ["thread"]);
    assert_eq!(informed("never", new), ["thread"], "that thread has asked its own configuration");
}

#[test]
fn trailers_are_for_clients_that_say_so_or_have_frames() {
    let takes = |line: &str, fields: &[&str]| {
        let takes = connections().into_iter().filter(|(_, connection)| {
            with_request(line, fields, |request| takes_trailers(connection, request))
        });
        takes.map(|(name, _)| name).collect::<Vec<_>>()
    };
    let framed = ["stream", "thread", "mute thread"];
    let all = ["http/1", "stream", "thread", "mute thread"];
    assert_eq!(takes("GET / HTTP/1.1", &[]), framed);
    assert_eq!(takes("GET / HTTP/1.1", &["TE: trailers"]), all);
    assert_eq!(takes("GET / HTTP/1.1", &["te: gzip;q=0.5 , TRAILERS"]), all);
    assert_eq!(takes("GET / HTTP/1.1", &["TE: gzip", "TE: trailers"]), all);
    assert_eq!(takes("GET / HTTP/1.1", &["TE: trailers;q=1"]), framed, "it has no parameters");
    assert_eq!(takes("GET / HTTP/1.0", &["TE: trailers"]), framed);
}

/// The fields of a request that go on.
fn forwarded(fields: &[&str], rules: &RequestEdits, proxied: bool) -> Vec<String> {
    let kept = RequestHeaders { keep: Vec::new(), underscores: true, trusted: None, client_address: None };
    let mut out = FieldLines::default();
    with_request("GET / HTTP/1.1", fields, |request| {
        append_fields(&mut out, request, (&kept, rules), (proxied, Traced::AsSent));
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    out.all().iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect()
}

#[test]
fn fields_of_one_hop_do_not_go_on() {
    let fields = [
        "Accept: a",
        "Connection: X-Hop , keep-alive",
        "X-Hop: 1",
        "Keep-Alive: timeout=5",
        "TE: trailers",
        "Transfer_Encoding: chunked",
        "Proxy: evil",
        "Connection: accept-language",
        "Accept-Language: de",
        "X-Hop-Too: 2",
        "X-Forwarded-For: 192.0.2.1",
        "X-Remote-User: root",
        "Accept: b",
    ];
    let rules = RequestEdits::default();
    assert_eq!(forwarded(&fields, &rules, false), ["accept: a", "x-hop-too: 2", "accept: b"].map(cased));
    let proxied = ["accept: a", "x-hop-too: 2", "x-remote-user: root", "accept: b"].map(cased);
    assert_eq!(forwarded(&fields, &rules, true), proxied, "a proxy may say who the user is");
}

/// Names go on as they were sent, first letters of words in capitals.
fn cased(line: &str) -> String {
    let (name, value) = line.split_once(": ").unwrap();
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    format!("{}: {value}", name.split('-').map(word).collect::<Vec<_>>().join("-"))
}

#[test]
fn a_route_changes_fields_in_all_spellings_that_an_application_takes_for_the_same() {
    let mut rules = RequestEdits::default();
    rules.fields.remove("X-Key");
    rules.fields.set("X-Tenant", b"ours");
    rules.fields.add_if_absent("X-Default", b"made");
    let fields = ["X-Key: 1", "x_key: 2", "X.Key: 3", "X-Keys: 4", "X-Tenant: theirs", "x_tenant: theirs"];
    let expected = ["X-Keys: 4", "X-Tenant: ours", "X-Default: made"];
    assert_eq!(forwarded(&fields, &rules, false), expected);
    assert_eq!(forwarded(&["X_Default: 1"], &rules, false), ["X_Default: 1", "X-Tenant: ours"]);
    assert_eq!(forwarded(&["X-Default: 1"], &rules, false), ["X-Default: 1", "X-Tenant: ours"]);
}

#[test]
fn an_application_is_told_a_length_where_there_may_be_content() {
    for (line, field, body, expected) in [
        ("GET", "Accept: a", "", None),
        ("POST", "Accept: a", "", None),
        ("POST", "Content-Length: 0", "", Some(0)),
        ("DELETE", "content-length: 0", "", Some(0)),
        ("GET", "Content-Length: 0", "", None),
        ("HEAD", "Content-Length: 0", "", None),
        ("GET", "Content-Length: 3", "abc", Some(3)),
        ("POST", "Transfer-Encoding: chunked", "abcd", Some(4)),
        ("POST", "Transfer-Encoding: chunked", "", Some(0)),
    ] {
        let length = with_request(&format!("{line} / HTTP/1.1"), &[field], |request| {
            content_length(request, body.as_bytes())
        });
        assert_eq!(length, expected, "{line} with {field}");
    }
}

#[test]
fn a_switch_is_asked_for_by_both_of_its_fields() {
    let head = |switch| {
        let mut out = Vec::new();
        let head = maitred_handoff::begin_request(&mut out, 1, 1, RequestFlags::default(), 0);
        let mut head = head.head("GET", "/");
        append_switch(&mut head, switch);
        assert!(head.body(None).finish(PAYLOAD_BYTES_MAX));
        match FromServer::decode(&out, PAYLOAD_BYTES_MAX) {
            Ok(Some((FromServer::Request(request), _))) => String::from_utf8_lossy(request.head).into_owned(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(head(None), "GET / HTTP/1.1\r\n\r\n");
    assert_eq!(head(Some("Chat/2")), "GET / HTTP/1.1\r\nupgrade: Chat/2\r\nconnection: upgrade\r\n\r\n");
}

#[test]
fn an_ambiguous_name_is_known_by_any_of_its_bytes() {
    for length in 0..=40 {
        let mut name = vec![b'a'; length];
        assert!(!is_ambiguous(&name), "{length}");
        for at in 0..length {
            for byte in 0..=u8::MAX {
                name[at] = byte;
                assert_eq!(is_ambiguous(&name), matches!(byte, b'_' | b'.'), "{byte} at {at} of {length}");
            }
            name[at] = b'a';
        }
    }
}
