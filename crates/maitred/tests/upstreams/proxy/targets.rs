//! Targets as an application gets them: one form, whatever form the client has chosen.

use crate::proxy::setup;
use crate::support::Server;
use crate::support::upstream::Upstream;

/// Says which target came.
fn echo() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            peer.answer(asked.target())?;
        }
    })
}

/// What the server got, or the status if it got nothing.
fn seen(server: &Server, target: &str) -> String {
    let response = server.connect().get(target);
    if response.status == 200 { response.text().to_owned() } else { response.status.to_string() }
}

#[test]
fn a_target_has_one_form() {
    let upstream = echo();
    let server = setup(&[&upstream], "").start();
    for (target, form) in [
        ("/a|b?c={\"d\"}^`|&e[]=1", "/a%7Cb?c=%7B%22d%22%7D%5E%60%7C&e[]=1"),
        ("/./a%7cb?c=%7b", "/a%7Cb?c=%7b"),
        ("/a;b'c&/%3b%26", "/a;b'c&/%3B%26"),
        ("/x/../a;b'c&/%3b%26", "/a;b'c&/%3B%26"),
        ("/%7ea/%41", "/~a/A"),
        ("/@scope%2fpkg", "/@scope/pkg"),
        ("/a%5Cb%3C", "/a%5Cb%3C"),
    ] {
        assert_eq!(seen(&server, target), form, "{target}");
        assert_eq!(seen(&server, form), form, "it is left as it is");
    }
    for bad in ["/x\\..\\admin", "/<a>", "/\"", "/a.txt\\"] {
        assert_eq!(seen(&server, bad), "400", "{bad}");
    }
    let lines = server.stop().access;
    assert!(lines[0].contains("GET /a|b?c="), "the log has what the client sent: {}", lines[0]);
}

#[test]
fn encoded_slashes_and_parameters_are_what_the_configuration_says() {
    let upstream = echo();
    let start = |lines: &str| setup(&[&upstream], "").server(lines).start();
    let server = start("encoded_slashes = \"keep\"\npath_parameters = \"reject\"");
    assert_eq!(seen(&server, "/@scope%2fpkg//-?a=%2f;b"), "/@scope%2Fpkg/-?a=%2f;b");
    assert_eq!(seen(&server, "/api/queues/%2F/q"), "/api/queues/%2F/q");
    for bad in ["/x%2Fy/../secret/z", "/secret/..%2Fx", "/a;b", "/secret;a/b"] {
        assert_eq!(seen(&server, bad), "400", "routes and application would not see the same path: {bad}");
    }
    server.stop();
    let server = start("encoded_slashes = \"reject\"");
    for bad in ["/@scope%2fpkg", "/a%5Cb", "/a.txt%2F"] {
        assert_eq!(seen(&server, bad), "400", "{bad}");
    }
    assert_eq!(seen(&server, "/a;b?%2F"), "/a;b?%2F");
    server.stop();
}
