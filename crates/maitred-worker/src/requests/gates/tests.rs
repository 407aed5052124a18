use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::*;
use crate::keys::{ConnId, ConnKey};
use crate::reactor::Reactor;
use crate::testing::{client, reactor, shared};

/// Of "secret".
const HASH: &str = "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0";

struct Stage {
    thread: Reactor,
    index: ConnKey,
    far_end: std::os::fd::OwnedFd,
}

impl Stage {
    fn new() -> Stage {
        let site = format!(
            "[[site]]\nbasic_auth = {{ users = {{ ann = \"{HASH}\" }} }}\n[[site.route]]\npath = \"/fixed\"\n\
             respond = {{ status = 200, body = \"in\" }}\n[[site.route]]\npath = \"/open\"\nbasic_auth = \"off\"\n\
             respond = {{ status = 200, body = \"out\" }}\n"
        );
        let mut thread = reactor(shared(&site, 1), 0);
        let (index, far_end) = client(&mut thread, "192.0.2.1:1");
        Stage { thread, index, far_end }
    }

    /// The client sends something, and the thread looks at it.
    fn send(&mut self, text: &str) {
        send(&self.far_end, text.as_bytes(), SendFlags::NOSIGNAL).unwrap();
        if self.thread.connections.contains(self.index) {
            self.thread.connections[self.index].readable = true;
            self.look();
        }
    }

    /// The thread looks at the connection as often as that asks for it.
    fn look(&mut self) {
        let (index, thread) = (self.index, &mut self.thread);
        if matches!(thread.connections[index].state.phase(), Phase::Idle | Phase::Head | Phase::Body) {
            thread.on_readable(index);
        }
        while let Some(ConnId { key: again, .. }) = thread.again.pop() {
            thread.connections[again].again = false;
            thread.on_readable(again);
        }
    }

    /// A helper thread checks the password that waits longest, and the thread hears of it.
    fn check(&mut self) {
        assert!(self.thread.shared.verifier.work_once());
        for message in self.thread.shared.inboxes[0].take() {
            let Message::Checked { connection, check, right } = message else { panic!("{message:?}") };
            self.thread.on_checked(connection, check, right);
        }
        if self.thread.connections.contains(self.index) {
            self.look();
        }
    }

    /// What the client has received: statuses and bodies.
    fn received(&self) -> Vec<String> {
        let mut room = vec![0; 1 << 16];
        let (bytes, _) = recv(&self.far_end, &mut room[..], RecvFlags::DONTWAIT).unwrap_or((0, 0));
        let text = String::from_utf8_lossy(&room[..bytes]).into_owned();
        let answers = text.split("HTTP/1.1 ").skip(1);
        answers.map(|answer| format!("{} {}", &answer[..3], answer.rsplit("\r\n").next().unwrap())).collect()
    }

    /// The user of the request, as its line in the access log would have it.
    fn user(&self) -> Option<&str> {
        let exchange = self.thread.exchange_of(self.index);
        exchange.and_then(|exchange| exchange.dispatch.user()).map(User::name)
    }

    fn phase(&self) -> Phase {
        self.thread.connections[self.index].state.phase()
    }
}

fn request(line: &str, password: &str, fields: &str) -> String {
    let credentials = STANDARD.encode(format!("ann:{password}"));
    format!("{line} HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {credentials}\r\n{fields}\r\n")
}

#[test]
fn a_request_waits_for_its_gate_and_goes_on_where_it_was() {
    let mut stage = Stage::new();
    let next = "GET /open HTTP/1.1\r\nHost: a\r\n\r\n";
    stage.send(&format!("{next}{}{next}", request("GET /fixed", "secret", "")));
    assert_eq!(stage.received(), ["200 out"], "what comes before it has left");
    assert_eq!(stage.phase(), Phase::Gate);
    stage.send(next);
    assert_eq!(stage.received(), [""; 0], "nothing is read while it waits");
    assert_eq!(
        stage.user(),
        None,
        "a name that is not proved is none: it may be a password in the wrong place"
    );
    stage.check();
    assert_eq!(stage.received(), ["200 in", "200 out", "200 out"]);
    assert_eq!(stage.phase(), Phase::Idle);
    stage.send(&request("GET /fixed", "secret", ""));
    assert_eq!(stage.received(), ["200 in"], "it is known, and checked no more");
    stage.send("GET /fixed HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(stage.received().len(), 1);
    assert!(!stage.thread.shared.verifier.work_once(), "there is nothing to be checked");
}

#[test]
fn its_body_is_asked_for_when_it_has_passed_and_read_no_sooner() {
    let mut stage = Stage::new();
    stage.send(&request("POST /fixed", "secret", "Content-Length: 4\r\nExpect: 100-continue\r\n"));
    assert_eq!((stage.phase(), stage.received()), (Phase::Gate, Vec::new()));
    stage.check();
    assert_eq!(stage.received(), ["200 in"], "a fixed answer needs no body");

    let mut stage = Stage::new();
    stage.send(&request("POST /fixed", "wrong", "Content-Length: 4\r\n"));
    stage.send("bo");
    stage.send("dyGET /open HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((stage.phase(), stage.received()), (Phase::Gate, Vec::new()));
    stage.check();
    let received = stage.received();
    assert_eq!(received.len(), 2, "{received:?}");
    assert!(received[0].starts_with("401") && received[1] == "200 out", "{received:?}");
}

#[test]
fn a_client_that_goes_leaves_nothing_and_one_that_waits_too_long_is_told() {
    let mut stage = Stage::new();
    stage.send(&request("GET /fixed", "secret", ""));
    stage.thread.abort_any(stage.index);
    while let Some(todo) = stage.thread.agenda.next() {
        assert!(matches!(todo, crate::agenda::Todo::Connection { .. }), "{todo:?}");
    }
    stage.thread.close(stage.index);
    stage.check();
    assert_eq!(stage.received(), [""; 0]);

    let mut stage = Stage::new();
    stage.send(&request("GET /fixed", "secret", ""));
    stage.thread.on_gate_timeout(stage.index);
    let received = stage.received();
    assert!(received.len() == 1 && received[0].starts_with("503"), "{received:?}");
    stage.check();
    assert_eq!(stage.received(), [""; 0], "what comes then is about no request any more");
    assert_eq!(stage.phase(), Phase::Idle);
}

#[test]
fn what_is_known_of_one_request_is_not_said_of_the_next() {
    let mut stage = Stage::new();
    stage.send(&request("GET /fixed", "secret", ""));
    stage.check();
    assert_eq!(stage.received(), ["200 in"]);
    stage.send("GET /open HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(stage.received(), ["200 out"]);
    let left = stage.thread.exchange_of(stage.index).and_then(|exchange| exchange.dispatch.gated.as_deref());
    assert!(left.is_none());
}

#[test]
fn what_comes_too_late_says_nothing_of_a_later_request() {
    let mut stage = Stage::new();
    stage.send(&request("GET /fixed", "secret", ""));
    stage.thread.on_gate_timeout(stage.index);
    assert!(stage.received()[0].starts_with("503"));
    stage.send(&request("GET /fixed", "wrong", ""));
    assert_eq!(stage.phase(), Phase::Gate);
    stage.check();
    assert_eq!((stage.phase(), stage.received()), (Phase::Gate, Vec::new()), "that was the first one's");
    stage.check();
    let received = stage.received();
    assert!(received.len() == 1 && received[0].starts_with("401"), "{received:?}");
}
