//! How a connection ends (9114-5.2), and streams that are refused (9114-4.1.1).

use super::*;

const REJECTED: &str = "stop 8 RequestRejected\nabort 8 RequestRejected\n";

#[test]
fn leaving_is_announced_and_then_decided() {
    let mut client = Client::new();
    client.get(0);
    client.session.go_away();
    assert_eq!(client.heard(), format!("GOAWAY {}\n", (1_u64 << 62) - 4));
    client.get(4);
    assert!(!client.session.is_over());
    client.session.go_away();
    assert_eq!(client.heard(), "GOAWAY 8\n");
    assert_eq!(client.ask(8, &[headers(&GET)], true), REJECTED);
    assert_eq!(client.session.take_refused(), 0, "it is not for the caller's sake");
    client.session.go_away();
    assert_eq!(client.heard(), "", "there is nothing more to say");
    client.answer(0);
    client.answer(4);
    assert!(!client.session.is_over(), "nothing was taken");
    client.stuck.insert(4);
    client.heard();
    assert!(!client.session.is_over(), "a part is held");
    client.unstick(4);
    assert!(client.session.is_over() && client.session.fatal().is_none());
}

#[test]
fn a_connection_without_requests_leaves_at_once() {
    let mut client = Client::new();
    client.session.go_away();
    client.session.go_away();
    assert_eq!(client.heard(), format!("GOAWAY {}\nGOAWAY 0\n", (1_u64 << 62) - 4));
    assert!(client.session.is_over());
    let mut client = Client::new();
    client.session.lose_timeout("slow");
    client.session.go_away();
    assert_eq!(client.heard(), "", "a dead session says nothing");
}

#[test]
fn a_client_that_leaves_gets_its_responses() {
    let mut client = Client::new();
    client.get(0);
    assert_eq!(client.tell(&[number(kind::GOAWAY, 0)]), "");
    assert!(!client.session.is_over());
    client.get(4);
    client.answer(0);
    client.answer(4);
    client.heard();
    assert!(client.session.is_over());
}

#[test]
fn a_session_serves_fewer_requests_than_it_has_announced() {
    let mut client = Client::new();
    client.session.limit_streams(2);
    client.get(0);
    client.get(4);
    assert_eq!(client.ask(8, &[headers(&GET)], true), REJECTED);
    assert_eq!((client.session.take_refused(), client.session.take_refused()), (1, 0));
    client.answer(0);
    client.heard();
    client.get(12);
    client.session.limit_streams(100);
    client.get(16);
    client.get(20);
    let refused = "stop 24 RequestRejected\nabort 24 RequestRejected\n";
    assert_eq!(client.ask(24, &[headers(&GET)], true), refused, "no more than the settings say");
    assert_eq!(client.session.fatal(), None);
    client.session.limit_streams(0);
    [4, 12, 16, 20].into_iter().for_each(|id| client.answer(id));
    client.heard();
    client.get(28);
    // Limits of nothing are those of one.
    let mut client = Client::with(&Settings { streams_max: 0, ..small() });
    client.session.limit_streams(0);
    client.get(0);
}

#[test]
fn a_session_that_refuses_streams_takes_the_only_one() {
    let mut client = Client::new();
    client.session.refuse_streams(true);
    client.get(0);
    client.open(4);
    client.open(8);
    let heard =
        "stop 4 RequestRejected\nabort 4 RequestRejected\nstop 8 RequestRejected\nabort 8 RequestRejected\n";
    assert_eq!((client.heard().as_str(), client.session.take_refused()), (heard, 2));
    client.session.refuse_streams(false);
    client.get(12);
    client.answer(0);
    client.answer(12);
    client.heard();
    client.session.refuse_streams(true);
    client.get(16);
    assert_eq!(client.session.streams(), 1);
}

#[test]
fn an_error_ends_all_streams_at_once() {
    let mut client = Client::new();
    client.get(0);
    client.respond(0, 200, &[], false);
    client.write(0, b"half", false);
    client.post(4);
    client.stuck.insert(4);
    client.respond(4, 200, &[], true);
    client.open(8);
    client.session.wait(client.key(0));
    client.session.lose_timeout("slow");
    assert_eq!(client.session.fatal(), Some(Error::new(Code::ExcessiveLoad, "slow")));
    client.session.control_stopped();
    assert_eq!(client.session.fatal(), Some(Error::new(Code::ExcessiveLoad, "slow")), "the first one counts");
    assert_eq!((client.heard(), client.session.queued()), (String::new(), 0));
    assert_eq!((client.session.next_writable(), client.session.half_head()), (None, None));
    assert_eq!(client.say(4, &[data(b"x")], true), "fatal ExcessiveLoad\n");
    assert_eq!(client.lose(0), "fatal ExcessiveLoad\n");
    client.write_nothing(0);
    client.release(0);
    client.release(4);
    assert_eq!((client.heard(), client.session.streams()), (String::new(), 1));
}

impl Client {
    /// What is written to a stream that is over goes nowhere.
    fn write_nothing(&mut self, id: u64) {
        let key = self.key(id);
        assert_eq!(self.session.room(key), 0);
        self.session.data(key, 3, true).extend_from_slice(b"abc");
        assert_eq!(self.session.fill(key, |_| true, |out| out.push(b'x')), 0);
        self.session.end(key);
        self.session.wait(key);
        self.session.streams.check();
    }
}

/// The streams are those of clients that have not proved where they are.
#[test]
fn streams_are_refused_until_their_heads_have_come() {
    let mut client = Client::new();
    client.get(0);
    client.open(4);
    assert!(!client.session.refuse_begun(0), "its head has come");
    assert!(client.session.refuse_begun(4) && !client.session.refuse_begun(4));
    client.session.refuse_unopened(8);
    let rejected = "stop 4 RequestRejected\nabort 4 RequestRejected\n".to_owned() + REJECTED;
    assert_eq!(client.heard(), rejected);
    client.get(12);
    client.session.go_away();
    client.session.go_away();
    assert!(client.heard().contains("16"), "the last one counts");
    assert_eq!(client.session.fatal(), None);
}
