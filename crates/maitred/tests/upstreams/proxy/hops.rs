//! Fields of one hop (9110-7.6.1): none of them reaches a server of any kind, or comes back from one, but for what is said anew.

use std::sync::mpsc::channel;

use crate::proxy::fastcgi;
use crate::support::h2::{self, frame};
use crate::support::upstream::Upstream;
use crate::support::{Setup, TIMEOUT, framed};

const REQUEST: &str = "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: x-hop, upgrade, te\r\nX-Hop: 1\r\n\
     Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nProxy: http://evil.example\r\nTE: trailers, deflate\r\n\
     Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nTrailer: X-Sum\r\nX-End: 2\r\n\r\n";

/// What a server answers with, besides its framing.
const ANSWER: [(&str, &str); 7] = [
    ("Keep-Alive", "timeout=5"),
    ("Proxy-Connection", "keep-alive"),
    ("TE", "trailers"),
    ("Trailer", "X-Sum"),
    ("Upgrade", "h2c"),
    ("Connection", "x-hop"),
    ("X-Hop", "1"),
];

const GONE: [&str; 7] =
    ["x-hop", "keep-alive", "proxy-connection", "proxy", "upgrade", "http2-settings", "trailer"];

/// As HTTP/1 and CGI write it.
fn answer() -> String {
    ANSWER.map(|(name, value)| format!("{name}: {value}\r\n")).concat()
}

#[test]
fn fields_of_one_hop_go_no_further() {
    let (sender, seen) = channel::<Vec<String>>();
    let tell = sender.clone();
    let plain = Upstream::start(move |peer| {
        loop {
            let asked = peer.request()?;
            tell.send(asked.fields.into_iter().map(|(name, _)| name).collect()).unwrap();
            peer.send(format!("HTTP/1.1 200 OK\r\n{}X-End: 2\r\nContent-Length: 2\r\n\r\nok", answer()))?;
        }
    });
    let tell = sender.clone();
    let application = Upstream::start(move |peer| {
        let asked = fastcgi::request(peer)?;
        tell.send(asked.names().map(|name| name.to_lowercase().replace('_', "-")).collect()).unwrap();
        fastcgi::answer_with(peer, &format!("{}X-End: 2\r\n\r\nok", answer()))
    });
    let streams = framed::start(&[], move |far| {
        loop {
            let (id, fields, _) = far.request()?;
            sender.send(fields.into_iter().map(|(name, _)| name).collect()).unwrap();
            // HTTP/2 has no others that a server may send (9113-8.2.2).
            let fields = [(":status", "200"), ("te", "trailers"), ("trailer", "x-sum"), ("x-end", "2")];
            far.send([framed::head(id, &fields, false), frame::data(id, b"ok", true)].concat())?;
        }
    });
    let mut setup = Setup::with_files();
    for (name, connect) in [
        ("h1", plain.name().to_owned()),
        ("cgi", format!("fastcgi://{}", application.address())),
        ("h2", framed::name(&streams)),
    ] {
        setup = setup
            .route(&format!("/{name}/*"), &format!("pool = \"{name}\""))
            .table(&format!("[pool.{name}]\nconnect = \"{connect}\"\n"));
    }
    let server = setup.start();
    for kind in ["h1", "cgi", "h2"] {
        let response = server.connect().ask(REQUEST.replace("/x", &format!("/{kind}/x")));
        assert_eq!((response.text(), response.field("x-end")), ("ok", Some("2")), "{kind}");
        let got = seen.recv_timeout(TIMEOUT).unwrap();
        assert!(got.iter().any(|name| name.ends_with("x-end")), "{kind}: {got:?}");
        for gone in GONE {
            let prefixed = format!("http-{gone}");
            assert!(!got.iter().any(|name| *name == gone || *name == prefixed), "{kind} {gone}: {got:?}");
        }
        // What is said anew: that the client takes trailers, where there are any.
        let says = |name: &str| got.iter().any(|found| found == name);
        assert_eq!((says("te"), says("connection")), (kind != "cgi", kind == "h1"), "{kind}: {got:?}");
        for (name, _) in ANSWER {
            // The client has said that it takes trailers, so that it may know which will come; and in CGI, `Connection` names no
            // fields.
            let may = name == "Trailer" && kind != "cgi" || name == "X-Hop" && kind == "cgi";
            assert!(response.field(name).is_none() || may, "{kind} {name}: {response:?}");
        }
        let response = h2::get(server.address_of("http"), &format!("/{kind}/x"));
        assert_eq!((response.text(), response.field("te")), ("ok", None), "{kind} over HTTP/2");
        let _ = seen.recv_timeout(TIMEOUT).unwrap();
    }
    server.stop();
}
