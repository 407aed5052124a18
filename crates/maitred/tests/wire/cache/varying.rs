//! Responses that vary with fields of requests.

use crate::cache::origin::{Origin, Steps, response};
use crate::cache::{HIT, start, status};
use crate::support::{Client, eventually};

/// What varies with `X-Kind`, and says it.
fn kinds(steps: Option<Steps>) -> Origin {
    Origin::start(move |peer, asked| {
        if let Some(steps) = steps.as_ref().filter(|_| peer.number == 0) {
            steps.wait_for(1)?;
        }
        let kind = asked.field("x-kind").unwrap_or("none");
        peer.send(response("Cache-Control: max-age=600\r\nVary: X-Kind\r\n", kind))
    })
}

fn request(kind: &str) -> String {
    format!("GET /v HTTP/1.1\r\nHost: localhost\r\nX-Kind: {kind}\r\n\r\n")
}

#[test]
fn each_variant_is_kept() {
    let origin = kinds(None);
    let server = start(&origin, "true");
    let mut client = server.connect();
    let first = client.ask(request("a"));
    assert_eq!((first.text(), status(&first).as_str()), ("a", "maitred; fwd=uri-miss; stored"));
    let second = client.ask(request("b"));
    assert_eq!((second.text(), status(&second).as_str()), ("b", "maitred; fwd=vary-miss; stored"));
    assert_eq!(client.get("/v").text(), "none");
    for _ in 0..3 {
        for kind in ["a", "b"] {
            let hit = client.ask(request(kind));
            assert_eq!((hit.text(), status(&hit).as_str()), (kind, HIT));
        }
        assert_eq!(client.get("/v").text(), "none");
    }
    assert_eq!(origin.count(), 3);
    server.stop();
}

#[test]
fn those_who_wait_for_another_variant_get_their_own() {
    let steps = Steps::default();
    let origin = kinds(Some(steps.clone()));
    let server = start(&origin, "{ collapse_timeout = \"1h\" }");
    let all = ["a", "b", "a", "c", "b", "c", "a", "b", "a", "c"];
    let mut clients: Vec<Client> = all.iter().map(|_| server.connect()).collect();
    for (client, kind) in clients.iter_mut().zip(all) {
        client.send(request(kind));
    }
    eventually("requests wait for one of them", || server.total("response_cache_collapsed") == 9);
    eventually("one request is there", || origin.count() == 1);
    steps.allow();
    for (client, kind) in clients.iter_mut().zip(all) {
        assert_eq!(client.response("GET").text(), kind);
    }
    for kind in ["a", "b", "c"] {
        let hit = server.connect().ask(request(kind));
        assert_eq!((hit.text(), status(&hit).as_str()), (kind, HIT));
    }
    // Which of them were fetched together is a matter of time; none is fetched for each client.
    assert!((3..all.len()).contains(&origin.count()), "{}", origin.count());
    server.stop();
}

#[test]
fn what_varies_with_everything_is_not_kept() {
    let origin = Origin::numbered("Cache-Control: max-age=600\r\nVary: *\r\n");
    let server = start(&origin, "true");
    assert_eq!((server.connect().get("/").text(), server.connect().get("/").text()), ("/ 1", "/ 2"));
    server.stop();
}
