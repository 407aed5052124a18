//! What the random test has found, each as a short story.

use maitred_handoff::{Done, Outcome, encode_done};
use rustix::net::{SendFlags, send};

use crate::client::Client;
use crate::puppet::{Given, Heard, Puppet};
use crate::support::{Server, eventually};
use crate::world::start;

/// A server, its puppets, and what they have heard and nobody has asked for yet.
struct Play {
    server: Server,
    listener: std::os::unix::net::UnixListener,
    puppets: Vec<Puppet>,
    heard: Vec<(usize, Given)>,
}

impl Play {
    /// With puppets of capacity 1, and a queue of this length.
    fn new(queue: usize) -> Play {
        let (server, listener) = start(1, true, queue);
        let mut play = Play { server, listener, puppets: Vec::new(), heard: Vec::new() };
        for _ in 0..4 {
            play.meet();
        }
        play
    }

    /// Waits for the next process to start.
    fn meet(&mut self) {
        let number = self.puppets.len() as u32;
        let mut puppet = Puppet::accept(&self.listener, number, 1).unwrap();
        eventually("a puppet is welcome", || {
            puppet.hear().unwrap().iter().any(|heard| matches!(heard, Heard::Welcome))
        });
        self.puppets.push(puppet);
    }

    /// Waits for the next request, and says who got it.
    fn request(&mut self) -> (usize, Given) {
        let Play { puppets, heard, .. } = self;
        eventually("a puppet gets a request", || {
            for (at, puppet) in puppets.iter_mut().enumerate() {
                for news in puppet.hear().unwrap() {
                    if let Heard::Request(given) = news {
                        heard.push((at, given));
                    }
                }
            }
            !heard.is_empty()
        });
        self.heard.remove(0)
    }

    fn answer(&mut self, who: usize, given: &Given) {
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let puppet = &mut self.puppets[who];
        send(&puppet.kept[&given.connection], response, SendFlags::NOSIGNAL).unwrap();
        let mut frame = Vec::new();
        let (connection, request) = (given.connection, given.request);
        let outcome = Outcome::Clean;
        encode_done(
            &mut frame,
            &Done { connection, request, status: 200, outcome, service_us: 300_000, body_bytes: 2 },
        );
        assert!(puppet.say(&frame, &[]));
    }

    fn connect(&self, bytes: impl Into<Vec<u8>>) -> Client {
        let mut client = Client::connect(self.server.address, bytes.into());
        client.send(usize::MAX);
        client
    }
}

/// Waits until the client has received `text`.
fn receives(client: &mut Client, text: &str) {
    eventually("a response", || {
        client.read(usize::MAX);
        client.received.windows(text.len()).any(|window| window == text.as_bytes())
    });
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

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
