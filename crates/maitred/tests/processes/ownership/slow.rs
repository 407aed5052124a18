//! Slow clients hold no application process.

use std::fs::File;
use std::time::{Duration, Instant};

use maitred_testing::response::pattern;

use crate::ownership::client::Client;
use crate::ownership::play::{Play, get, receives};
use crate::support::eventually;

/// Clients that are slow, and what each of them is to receive.
const SLOW: usize = 50;
const BODY_BYTES: usize = 10_000_000;
/// What a slow client takes at a time, and its receive buffer.
const PIECE_BYTES: usize = 5_000;
const ROOM_BYTES: usize = 64 * 1024;
/// Requests that are answered meanwhile, and how long one of them may take. Far more than it does, also on a machine under load;
/// but less than the minutes that it would have to wait for a slow client.
const QUICK: usize = 100;
const QUICK_MAX: Duration = Duration::from_secs(30);

/// Fifty clients have not received most of ten megabytes each, all processes are idle, and requests of others are answered.
fn hold_nobody(pool: &str) {
    let mut play = Play::new(100);
    let body = pattern(7, BODY_BYTES);
    let file = File::from(maitred_sys::memfile::sealed("body", &body).unwrap());
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
    let slow = |play: &mut Play| {
        let client = play.connect(get(&format!("/{pool}/slow")));
        client.set_room(ROOM_BYTES);
        let (who, given) = play.request();
        play.answer_with(who, &given, (&head, &file, &body), Duration::ZERO);
        client
    };
    let mut slow: Vec<Client> = (0..SLOW).map(|_| slow(&mut play)).collect();
    eventually("both processes are idle while all fifty are being sent to", || is_idle(&play, pool));
    let mut quick = play.connect("");
    for _ in 0..QUICK {
        let began = Instant::now();
        quick.received.clear();
        quick.add(get(&format!("/{pool}/quick")).as_bytes());
        quick.send(usize::MAX);
        let (who, given) = play.request();
        play.answer(who, &given);
        receives(&mut quick, "ok");
        assert!(began.elapsed() < QUICK_MAX, "a quick request took {:?}", began.elapsed());
        slow.iter_mut().for_each(|client| _ = client.read(PIECE_BYTES));
    }
    assert!(is_idle(&play, pool), "they still wait, and no other client does");
    slow.drain(3..).for_each(|mut client| client.leave(true));
    for client in &mut slow {
        client.set_room(BODY_BYTES);
        eventually("a slow client has all in the end", || {
            client.read(usize::MAX);
            client.received.len() > BODY_BYTES && client.received.ends_with(&body[BODY_BYTES - 16..])
        });
        let head_bytes = client.received.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        assert!(client.received[head_bytes..] == body);
    }
    play.server.stop();
}

/// Whether all slow clients are being sent to, and no process of the pool has anything to do.
fn is_idle(play: &Play, pool: &str) -> bool {
    let status = play.server.status();
    let gauge = |name: &str| status["totals"][name].as_u64().unwrap();
    let pools = status["pools"].as_array().unwrap();
    let letters = pools.iter().find(|found| found["name"] == pool).unwrap()["letters"].as_str().unwrap();
    gauge("writing") + gauge("handed_off") == SLOW as u64 && letters == "__."
}

#[test]
fn fifty_slow_clients_hold_no_process_by_their_own_socket() {
    hold_nobody("direct");
}

#[test]
fn fifty_slow_clients_hold_no_process_by_a_relay() {
    hold_nobody("relay");
}
