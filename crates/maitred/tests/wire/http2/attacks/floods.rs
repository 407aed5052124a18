//! Frames that cost little to send and something to deal with.

use super::{Bounds, Stage};
use crate::support::h2::Connection;
use crate::support::h2::frame::{self, code, kind, setting};

/// How many of a kind are sent at most.
const FRAMES: usize = 300_000;

/// How a flood has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// With GOAWAY(ENHANCE_YOUR_CALM), or another code that fits, before all of it was sent.
    Ended,
    /// Either so, or all of it is taken and the connection goes on: it costs no more than reading it.
    Either,
}

/// Sends `piece` again and again. With `reads` the client takes what comes back.
#[track_caller]
fn flood(fate: Fate, reads: bool, pieces: impl Fn(usize) -> Vec<u8> + Sync) {
    Stage::new(Stage::site()).play(Bounds::default(), |server| {
        let mut connection = Connection::new(server.address);
        connection.sync();
        let mut number = 0;
        let mut ended = false;
        while number < FRAMES && !ended {
            let mut bytes = Vec::new();
            while bytes.len() < 32 * 1024 {
                bytes.extend(pieces(number));
                number += 1;
            }
            ended = connection.try_send(bytes).is_err() || (reads && connection.try_sync().is_err());
        }
        if !ended {
            ended = connection.try_sync().is_err();
        }
        if ended {
            connection.end();
            let found = connection.goaway.map(|(_, code)| code);
            // A peer that reads nothing may lose the GOAWAY to a reset of the connection.
            assert!(found == Some(code::ENHANCE_YOUR_CALM) || !reads && found.is_none(), "{found:?}");
        } else {
            assert_eq!(fate, Fate::Either, "it took {number} frames");
            assert_eq!(connection.get("/a.txt").text(), "file a\n");
        }
    });
}

#[test]
fn ping_flood() {
    flood(Fate::Ended, true, |number| frame::ping(1 << 40 | number as u64));
}

/// The answers are not read: they must not pile up.
#[test]
fn ping_flood_of_one_who_does_not_read() {
    flood(Fate::Ended, false, |number| frame::ping(1 << 40 | number as u64));
}

#[test]
fn settings_flood() {
    flood(Fate::Ended, true, |_| frame::settings(&[]));
    flood(Fate::Ended, false, |_| frame::settings(&[]));
    flood(Fate::Ended, true, |number| {
        frame::settings(&[(setting::INITIAL_WINDOW_SIZE, number as u32 % 65_535); 50])
    });
}

#[test]
fn acknowledgements_nobody_asked_for() {
    flood(Fate::Either, true, |_| frame::frame(kind::SETTINGS, 1, 0, &[]));
    flood(Fate::Either, true, |_| frame::frame(kind::PING, 1, 0, &[0; 8]));
}

#[test]
fn priority_flood() {
    flood(Fate::Either, true, |number| {
        frame::frame(kind::PRIORITY, 0, 1 + 2 * (number as u32 % 100_000), &[0, 0, 0, 0, 16])
    });
}

/// Each frame names another stream that is not open yet; what is kept of it is bounded.
#[test]
fn priority_update_flood() {
    flood(Fate::Either, true, |number| frame::priority_update(1 + 2 * number as u32, "u=1, i"));
    flood(Fate::Either, true, |number| {
        frame::priority_update(1 + 2 * number as u32, &format!("u=1, x=\"{}\"", "x".repeat(1000)))
    });
}

#[test]
fn window_update_flood() {
    // One byte each, so that the window of the connection never overflows.
    flood(Fate::Either, true, |_| frame::window_update(0, 1));
}

#[test]
fn unknown_frames() {
    flood(Fate::Either, true, |number| frame::frame(0x50, number as u8, number as u32 & 0xff, &[]));
}

/// Streams with a body that has begun: empty frames never end it, and never cost a window.
#[test]
fn empty_frames() {
    let empty_data = frame::data(1, b"", false);
    let padded = frame::frame(kind::DATA, frame::flag::PADDED, 1, &[0]);
    for (what, piece) in [("DATA", empty_data), ("DATA with padding of nothing", padded)] {
        println!("{what}");
        let lines = "workers = 1\nqueue = { timeout = \"60s\" }";
        Stage::new(Stage::site().pool("app", None, lines)).play(Bounds::default(), |server| {
            let mut connection = Connection::new(server.address);
            let id = connection.request("POST", "/app/echo", &[], false);
            assert_eq!(id, 1);
            let bytes = piece.repeat(32 * 1024 / piece.len());
            let rounds = FRAMES * piece.len() / bytes.len();
            let ended =
                (0..rounds).any(|_| connection.try_send(&bytes).is_err() || connection.try_sync().is_err());
            assert!(ended, "{what}: it took all of it");
            connection.end();
            assert_eq!(connection.goaway.map(|(_, code)| code), Some(code::ENHANCE_YOUR_CALM), "{what}");
        });
    }
}

/// 9113-6.9.1: on the connection it ends it, on a stream it ends that.
#[test]
fn windows_that_overflow() {
    Stage::new(Stage::site()).play(Bounds::default(), |server| {
        let mut connection = Connection::new(server.address);
        connection.send(frame::window_update(0, (1 << 31) - 1));
        assert_eq!(connection.end(), Some(code::FLOW_CONTROL_ERROR));
        let mut connection = Connection::new(server.address);
        connection.reads = false;
        let id = connection.request("GET", "/zeros.bin", &[], true);
        connection.head(id);
        // Some of the first one may have been used up by then.
        connection.send(frame::window_update(id, (1 << 31) - 1).repeat(2));
        assert_eq!(connection.reset_of(id), code::FLOW_CONTROL_ERROR);
        // The window of the connection is used up.
        assert_eq!(connection.method("HEAD", "/a.txt", &[]).status, 200);
        // By SETTINGS, with a window that has been opened before.
        let mut connection = Connection::new(server.address);
        connection.reads = false;
        let id = connection.request("GET", "/zeros.bin", &[], true);
        connection.head(id);
        connection.send(frame::window_update(id, 1 << 30));
        connection.send(frame::settings(&[(setting::INITIAL_WINDOW_SIZE, (1 << 31) - 1)]));
        assert_eq!(connection.end(), Some(code::FLOW_CONTROL_ERROR));
    });
}
