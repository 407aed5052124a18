//! What becomes of redirects, cookies and very many fields of a server.

use crate::proxy::{setup, start};
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup};

/// Answers with the field that the query has: `?Location=/x`. `SELF` in it is the host that was asked.
fn redirecting() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let query = asked.target().split_once('?').map_or("", |(_, query)| query).to_owned();
            let (name, value) = query.split_once('=').unwrap();
            let value = value.replace("SELF", asked.field("host").unwrap());
            peer.send(format!("HTTP/1.1 302 Found\r\n{name}: {value}\r\nContent-Length: 0\r\n\r\n"))?;
        }
    })
}

/// The field of a redirect as a client gets it.
fn mapped(server: &Server, field: &str) -> String {
    let response = server.connect().get(&format!("/app/x?{field}"));
    assert_eq!(response.status, 302);
    response.need(field.split('=').next().unwrap()).to_owned()
}

fn stripping(upstream: &Upstream, keys: &str) -> Server {
    Setup::with_files()
        .route("/app/*", "pool = \"app\"\nstrip_prefix = \"/app/\"")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n{keys}\n", upstream.name()))
        .start()
}

#[test]
fn a_redirect_to_the_server_itself_becomes_a_path_here() {
    let upstream = redirecting();
    let server = stripping(&upstream, "host = \"server\"");
    for (field, expected) in [
        ("Location=http://SELF/login", "/app/login"),
        ("Content-Location=http://SELF/login", "/app/login"),
        ("Refresh=5;url=http://SELF/login", "5;url=/app/login"),
        ("Location=/login", "/login"),
        ("Location=https://elsewhere.example/", "https://elsewhere.example/"),
        ("Set-Cookie=a=b;Path=/", "a=b;Path=/"),
    ] {
        assert_eq!(mapped(&server, field), expected, "{field}");
    }
    server.stop();
}

#[test]
fn what_a_pool_says_of_redirects_counts() {
    let upstream = redirecting();
    let address = upstream.name();
    let own = format!("Location={address}/login");
    let off = stripping(&upstream, "map_redirects = false");
    assert_eq!(mapped(&off, &own), format!("{address}/login"));
    off.stop();
    let paths = stripping(&upstream, "map_redirects = \"paths\"");
    for (field, expected) in [
        (own.as_str(), "/app/login"),
        ("Location=/login", "/app/login"),
        ("Location=/app/login", "/app/login"),
        ("Location=http://SELF/login", "http://localhost/app/login"),
        ("Set-Cookie=a=b;Path=/", "a=b;Path=/app/"),
    ] {
        assert_eq!(mapped(&paths, field), expected, "{field}");
    }
    paths.stop();
    let pairs = stripping(
        &upstream,
        "redirects = { \"https://inner/\" = \"/x/\" }\n\
         cookies = { domain = { \"inner\" = \"\" }, path = { \"/\" = \"/y/\" } }",
    );
    for (field, expected) in [
        ("Location=https://inner/login", "/x/login"),
        ("Set-Cookie=a=b;Domain=inner;Path=/z", "a=b;Path=/y/z"),
    ] {
        assert_eq!(mapped(&pairs, field), expected, "{field}");
    }
    pairs.stop();
}

#[test]
fn a_response_has_up_to_a_thousand_fields() {
    let upstream = Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let number: usize = asked.target().trim_start_matches('/').parse().unwrap();
            let mut head = String::from("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n");
            (1..number).for_each(|at| head += &format!("X-{at}: {at}\r\n"));
            peer.send(head + "\r\nok")?;
        }
    });
    let server = start(&upstream, "");
    for number in [1, 127, 128, 129, 1000] {
        let response = server.connect().get(&format!("/{number}"));
        assert_eq!((response.status, response.text()), (200, "ok"), "{number}");
        if number > 1 {
            let last = number - 1;
            assert_eq!(response.need(&format!("x-{last}")), last.to_string(), "{number}");
        }
    }
    assert_eq!(server.connect().get("/1001").status, 502);
    assert_eq!(server.connect().get("/10000").status, 502);
    let log = server.stop().said;
    let found = log.iter().filter(|line| line.contains("more than 1000 fields in a response head")).count();
    assert!(found >= 1, "{log:?}");
}

#[test]
fn responses_of_other_servers_of_a_pool_are_mapped_by_their_own_names() {
    let gone = Upstream::start(|peer| peer.request().map(drop));
    let last = redirecting();
    let server = setup(&[&gone, &last], "host = \"server\"").start();
    for _ in 0..2 {
        assert_eq!(mapped(&server, "Location=http://SELF/login"), "/login");
    }
    server.stop();
}
