//! What the random test has found, each as a short story.

use std::time::Duration;

use maitred_testing::response::pattern;

use crate::ownership::play::{Play, get, receives};
use crate::support::eventually;

#[test]
fn a_connection_is_not_given_away_when_bytes_behind_the_request_were_read() {
    let mut play = Play::new(100);
    let upgrade = "GET /direct/1 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: puppet\r\n\r\n";
    let mut client = play.connect(format!("{upgrade}{}", get("/direct/2")));
    for path in ["/direct/1", "/direct/2"] {
        let (who, given) = play.request();
        assert_eq!((given.target.as_str(), given.flags.may_detach), (path, false));
        play.answer(who, &given);
    }
    receives(&mut client, "okHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let mut alone = play.connect(upgrade);
    let (who, given) = play.request();
    assert!(given.flags.may_detach);
    play.answer(who, &given);
    receives(&mut alone, "ok");
    play.server.stop();
}

#[test]
fn the_body_of_a_refused_request_is_not_given_to_the_next() {
    let mut play = Play::new(0);
    let _clients = [play.connect(get("/direct/1")), play.connect(get("/direct/2"))];
    let busy = [play.request(), play.request()];
    let body = "b".repeat(30_000);
    let post = format!("POST /direct/3 HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut client = play.connect(post + &get("/relay/4"));
    receives(&mut client, "503 Service Unavailable");
    let (who, given) = play.request();
    assert_eq!((given.target.as_str(), given.body.len(), given.flags.body_fd), ("/relay/4", 0, false));
    play.answer(who, &given);
    receives(&mut client, "ok");
    for (who, given) in busy {
        play.answer(who, &given);
    }
    play.server.stop();
}

#[test]
fn a_request_that_is_not_safe_is_not_given_again_because_an_earlier_one_was_safe() {
    let mut play = Play::new(100);
    let post = "POST /relay/2 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    let mut client = play.connect(format!("{}{post}", get("/relay/1")));
    let (who, given) = play.request();
    assert_eq!(given.target, "/relay/1");
    play.answer(who, &given);
    let (who, given) = play.request();
    assert_eq!((given.target.as_str(), given.body.as_slice()), ("/relay/2", b"body".as_slice()));
    play.puppets[who].end(true);
    receives(&mut client, "502 Bad Gateway");
    play.server.stop();
}

#[test]
fn what_a_client_left_in_a_relay_is_not_given_to_the_next() {
    let mut play = Play::new(100);
    // The only other process of the pool is busy.
    let _busy = play.connect(get("/relay/1"));
    let (other, held) = play.request();
    let mut slow = play.connect(get("/relay/2"));
    slow.set_room(16 * 1024);
    let (who, given) = play.request();
    let body = pattern(2, 20_000_000);
    let file = maitred_sys::memfile::sealed("body", &body).unwrap().into();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    // So much that neither the client's socket nor the relay takes any more.
    play.answer_with(who, &given, (&head, &file, &body), Duration::from_millis(300));
    receives(&mut slow, "0000002@");
    slow.leave(true);
    eventually("Maitred notices", || play.server.total("connections") == 2);
    let mut next = play.connect(get("/relay/3"));
    let (again, given) = play.request();
    assert!(again == who && again != other, "the same process gets the next request");
    play.answer(again, &given);
    receives(&mut next, "\r\n\r\nok");
    assert!(next.received.starts_with(b"HTTP/1.1 200 OK\r\n"));
    play.answer(other, &held);
    play.server.stop();
}

#[test]
fn a_process_does_not_wait_for_the_body_of_a_client_that_has_left() {
    let mut play = Play::of_sockets_only();
    // More than a relay holds, so that most of it is still Maitred's.
    let body = vec![b'b'; 3_000_000];
    let head = format!("POST /relay/1 HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut client = play.connect([head.as_bytes(), &body].concat());
    eventually("a process is given the request", || {
        client.send(usize::MAX);
        play.server.total("handed_off") == 1
    });
    client.leave(true);
    eventually("Maitred notices", || play.server.total("connections") == 1);
    // Reads the body to its end.
    let (who, given) = play.request();
    assert!(given.flags.body_stream && given.body.len() < body.len(), "{} bytes", given.body.len());
    play.answer(who, &given);
    play.server.stop();
}

#[test]
fn what_a_client_sends_behind_its_last_request_does_not_take_the_response_from_it() {
    let mut play = Play::new(100);
    let mut client = play.connect("GET /direct/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.set_room(16 * 1024);
    let (who, given) = play.request();
    let written = play.answer_to_the_brim(who, &given);
    eventually("Maitred has done with it", || play.server.total("handed_off") == 0);
    client.add(get("/direct/2").as_bytes());
    client.send(usize::MAX);
    eventually("the response ends", || {
        client.read(usize::MAX);
        client.ended
    });
    assert_eq!((client.received.len(), client.error), (written, None));
    play.server.stop();
}

#[test]
fn a_connection_outlives_the_process_that_has_answered_on_it() {
    let mut play = Play::new(100);
    let mut client = play.connect(get("/relay/1") + &get("/relay/2"));
    client.set_room(16 * 1024);
    let (who, given) = play.request();
    let body = pattern(1, 20_000_000);
    let file = maitred_sys::memfile::sealed("body", &body).unwrap().into();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    play.answer_with(who, &given, (&head, &file, &body), Duration::from_millis(300));
    play.puppets[who].end(true);
    // The response is Maitred's, and on its way.
    eventually("the process is gone", || play.puppets[who].has_exited());
    client.set_room(1024 * 1024);
    let bytes = head.len() + body.len();
    eventually("the rest of the response", || {
        client.read(usize::MAX);
        client.received.len() >= bytes || client.ended
    });
    let (next, given) = play.request();
    play.answer(next, &given);
    receives(&mut client, "\r\n\r\nok");
    play.server.stop();
}
