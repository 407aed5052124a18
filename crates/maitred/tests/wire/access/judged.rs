//! What a gate is shown is what the application gets, however the client spells it.

use crate::support::h2::Connection;
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup};

/// Admits what is under `/public/`, and says what it was shown.
fn guard() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let shown = asked.field("x-forwarded-uri").unwrap_or("-").to_owned();
            let status = if shown.starts_with("/public/") { "200 OK" } else { "401 No" };
            peer.send(format!("HTTP/1.1 {status}\r\nX-Shown: {shown}\r\nContent-Length: 0\r\n\r\n"))?;
        }
    })
}

/// Says what it got, and what its gate was shown.
fn application() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            peer.answer(format!("{} {}", asked.target(), asked.field("x-shown").unwrap_or("-")))?;
        }
    })
}

fn start(guard: &Upstream, application: &Upstream, site: &str, pool: &str) -> Server {
    Setup::with_files()
        .site(&format!(
            "{site}\nforward_auth = {{ pool = \"guard\", path = \"/\", copy_headers = [\"X-Shown\"], \
             sign_in = \"https://auth.example/?rd={{uri}}\", \
             cache = {{ key = [\"client\", \"uri\", \"path\"], time = \"1h\" }} }}"
        ))
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.guard]\nconnect = \"{}\"\n", guard.name()))
        .table(&format!("[pool.app]\nconnect = \"{}\"\n{pool}\n", application.name()))
        .start()
}

/// Status and content, over HTTP/1.1 and over HTTP/2, which are the same.
fn answered(server: &Server, target: &str) -> (u16, String) {
    let first = server.connect().get(target);
    let second = Connection::new(server.address).get(target);
    let first = (first.status, first.text().to_owned());
    assert_eq!((second.status, second.text().to_owned()), first, "{target}");
    first
}

#[test]
fn no_spelling_shows_the_gate_another_path() {
    let (guard, application) = (guard(), application());
    let server = start(&guard, &application, "", "");
    for target in [
        "/private/x",
        "/public/../private/x",
        "/public/%2e%2e/private/x",
        "/public/..%2fprivate/x",
        "/public/a/b/../../../private/x",
        "//private/x",
    ] {
        assert_eq!(answered(&server, target).0, 401, "{target}");
    }
    let absolute = server.connect().get("http://localhost/public/../private/x");
    assert_eq!(absolute.status, 401);
    assert_eq!(application.requests(), 0);
    for (target, form) in [
        ("/public/x", "/public/x"),
        ("/private/../public//%7ex|?a=|&b", "/public/~x%7C?a=%7C&b"),
        ("/public%2Fx", "/public/x"),
    ] {
        assert_eq!(answered(&server, target), (200, format!("{form} {form}")), "{target}");
    }
    assert_eq!(
        server.connect().get("http://localhost/a/../public/x?y").text(),
        "/public/x?y /public/x?y",
        "the absolute form"
    );
    let page = "Accept: text/html\r\n";
    let sent = server.connect().method("GET", "/public/../private/x?a|", page);
    assert_eq!(sent.need("location"), "https://auth.example/?rd=%2Fprivate%2Fx%3Fa%257C");
    server.stop();
}

#[test]
fn a_site_and_a_pool_say_what_an_encoded_slash_is() {
    let (guard, application) = (guard(), application());
    for (site, pool, form) in [
        ("encoded_slashes = \"keep\"", "", Some("/public/a%2Fb")),
        ("encoded_slashes = \"reject\"", "", None),
        ("", "encoded_slashes = \"keep\"", Some("/public/a%2Fb")),
        ("", "encoded_slashes = \"reject\"", None),
        ("encoded_slashes = \"keep\"", "encoded_slashes = \"decode\"", Some("/public/a/b")),
    ] {
        let server = start(&guard, &application, site, pool);
        let expected = form.map_or(400, |_| 200);
        let (status, text) = answered(&server, "/public/a%2fb");
        assert_eq!(status, expected, "{site} {pool}");
        if let Some(form) = form {
            assert_eq!(text, format!("{form} {form}"), "{site} {pool}");
        }
        let (status, _) = answered(&server, "/public/..%2fprivate");
        assert!(matches!(status, 400 | 401), "{site} {pool}: {status}");
        server.stop();
    }
}

/// The application gets the spelling of the client; what decides is the form that all spellings have.
#[test]
fn a_pool_that_wants_targets_as_they_were_sent_gets_what_was_judged() {
    let (guard, application) = (guard(), application());
    let server = start(&guard, &application, "", "target = \"as_sent\"");
    for (target, form) in [
        ("/public/k//double", "/public/k/double"),
        ("/public/%7ea%2Fb?x=|", "/public/~a/b?x=%7C"),
        ("/private/../public/x", "/public/x"),
    ] {
        assert_eq!(answered(&server, target), (200, format!("{target} {form}")), "{target}");
    }
    for target in ["/public/../private/x", "//private", "/public/..%2Fprivate"] {
        assert_eq!(answered(&server, target).0, 401, "{target}");
    }
    server.stop();
}

/// An application that answers with the target that it got, and with that of its gate.
const APPLICATION: &str = r#"
def application(environ, start_response):
    said = (environ["RAW_URI"] + " " + environ.get("HTTP_X_SHOWN", "-")).encode()
    start_response("200 OK", [("Content-Length", str(len(said)))])
    return [said]
"#;

#[test]
fn application_processes_get_the_form_that_they_ask_for() {
    let guard = guard();
    for transport in ["direct", "relay"] {
        let pool = |target: &str| format!("transport = \"{transport}\"\nworkers = 1\ntarget = \"{target}\"");
        let server = Setup::with_files()
            .outside("echo.py", APPLICATION.as_bytes())
            .site("forward_auth = { pool = \"guard\", path = \"/\", copy_headers = [\"X-Shown\"] }")
            .route("/public/sent/*", "pool = \"sent\"")
            .route("/public/one/*", "pool = \"one\"")
            .python("sent", "echo:application", "", &pool("as_sent"))
            .python("one", "echo:application", "", &pool("canonical"))
            .table(&format!("[pool.guard]\nconnect = \"{}\"\n", guard.name()))
            .start();
        for (target, sent, form) in [
            ("/public/sent/k//a%2fb|?%7e", "/public/sent/k//a%2fb|?%7e", "/public/sent/k/a/b%7C?%7e"),
            ("/public/one/k//a%2fb|?%7e", "/public/one/k/a/b%7C?%7e", "/public/one/k/a/b%7C?%7e"),
        ] {
            assert_eq!(answered(&server, target), (200, format!("{sent} {form}")), "{transport}");
        }
        server.stop();
    }
}
