//! Verdicts.

use super::*;
use crate::health::{self, State, Verdict};
use crate::losses::Lost;

const DAY: u64 = 86_400;

/// Nothing is wrong with anything.
fn well() -> (Box<Scoreboard>, Facts, Live) {
    let board = board();
    board.slots[2].state.set(SlotState::Idle as u64);
    board.slots[3].state.set(SlotState::Idle as u64);
    let mut live = live();
    live.automatic.clear();
    live.troubles.clear();
    live.ends.clear();
    live.pool_queues = vec![0, 0];
    live.certificates.iter_mut().for_each(|certificate| certificate.not_after = live.unix_secs + 90 * DAY);
    live.servers.iter_mut().for_each(|server| server.state = "up");
    if let Some(cache) = &mut live.cache {
        cache.counts.off = false;
    }
    (board, facts(), live)
}

/// The verdict on a subject, whatever else there is.
fn of(subject: &str, name: &str, (board, facts, live): &(Box<Scoreboard>, Facts, Live)) -> Verdict {
    let all = health::verdicts(board, facts, live);
    let mut found = all.into_iter().filter(|verdict| verdict.subject == subject && verdict.name == name);
    let verdict = found.next().expect("a verdict");
    assert_eq!(found.next(), None, "one a subject");
    assert_eq!(verdict.state == State::Ok, verdict.advice.is_empty(), "{verdict:?}");
    verdict
}

fn check(subject: &str, name: &str, server: &(Box<Scoreboard>, Facts, Live), state: State, reason: &str) {
    let verdict = of(subject, name, server);
    assert_eq!((verdict.state, verdict.reason.as_str()), (state, reason));
}

#[test]
fn all_is_well_and_each_subject_says_so() {
    let (board, facts, live) = well();
    let said = health::verdicts(&board, &facts, &live);
    assert!(said.iter().all(|verdict| verdict.state == State::Ok), "{said:?}");
    let subjects: Vec<&str> = said.iter().map(|verdict| verdict.subject).collect();
    assert_eq!(
        subjects,
        ["reload", "overload", "pool", "pool", "servers", "certificates", "limits", "cache"]
    );
    let status = json::render(&board, &facts, &live);
    assert_eq!(status["health"][7]["reason"], "3 responses kept; 50 % of its directory is read");
    assert_eq!(status["health"][6]["reason"], "5 requests refused since start");
    assert!(text::render(&status).contains("\nhealth      all is well\n"));
    let nothing = Live { certificates: vec![], limits: vec![], cache: None, servers: vec![], ..live };
    let said = health::verdicts(&board, &Facts { pools: vec![], ..facts }, &nothing);
    assert_eq!(said.len(), 2, "what is not configured has no verdict: {said:?}");
}

#[test]
fn lines_that_are_missing_in_a_log_are_told_for_a_day() {
    let server = well();
    let now = server.2.unix_secs;
    assert!(
        !health::verdicts(&server.0, &server.1, &server.2).iter().any(|verdict| verdict.subject == "log")
    );
    for (ago, state) in [(0, State::Bad), (299, State::Bad), (300, State::Warn), (DAY - 1, State::Warn)] {
        server.0.threads[1].log_dropped_at.set(now - ago);
        // Both threads have lost four.
        check("log", "", &server, state, &format!("8 lines of access logs lost, the last one {ago} s ago"));
    }
    server.0.threads[1].log_dropped_at.set(now - DAY);
    assert!(
        !health::verdicts(&server.0, &server.1, &server.2).iter().any(|verdict| verdict.subject == "log")
    );
}

#[test]
fn a_module_that_is_turned_off_is_bad() {
    let server = well();
    server.0.master.modules_off.set(2);
    let reason = "2 modules turned off, because the worker process has crashed in it again and again: its routes answer 503";
    check("modules", "", &server, State::Bad, reason);
}

#[test]
fn a_pool_fails_in_part_or_as_a_whole() {
    let mut server = well();
    server.0.slots[2].state.set(SlotState::Dead as u64);
    check("pool", "web", &server, State::Ok, "2 of 3 slots in use");
    server.2.ends.insert(2, "exited with status 1".to_owned());
    check("pool", "web", &server, State::Ok, "2 of 3 slots in use");
    server.0.starts[2].deaths.set(3);
    server.0.starts[2].delayed_until.set(server.2.unix_secs + 7);
    let reason = "slot 2 failing: exited with status 1; 3 times in a row; next start in 7 s";
    check("pool", "web", &server, State::Warn, reason);
    let status = json::render(&server.0, &server.1, &server.2);
    assert_eq!(status["pools"][0]["failing"], serde_json::json!([reason]));
    assert!(text::render(&status).contains(&format!("\nhealth      warn: pool web: {reason}; read what")));
    server.2.ends.clear();
    let unknown = reason.replace("exited with status 1", "ended early");
    check("pool", "web", &server, State::Warn, &unknown);
    (0..2).for_each(|slot| server.0.slots[slot].state.set(SlotState::Dead as u64));
    check("pool", "web", &server, State::Bad, &unknown);
    server.2.troubles.insert(1, "its command does not exist".to_owned());
    check("pool", "a\"b\\c", &server, State::Warn, "its command does not exist");
}

#[test]
fn a_queue_is_near_its_bound_and_at_it() {
    let mut server = well();
    for (queued, state) in [(5, State::Ok), (6, State::Warn), (7, State::Warn), (8, State::Bad)] {
        server.2.pool_queues[0] = queued;
        assert_eq!(of("pool", "web", &server).state, state, "{queued}");
    }
    check("pool", "web", &server, State::Bad, "8 of 8 places of its queue are taken");
    server.1.pools[0].queue_max = 0;
    assert_eq!(of("pool", "web", &server).state, State::Ok, "there is no queue");
}

#[test]
fn servers_are_away_one_by_one() {
    let mut server = well();
    let name = "a\"b\\c";
    check("servers", name, &server, State::Ok, "2 of 2 servers up");
    for state in ["out", "unwell", "ejected"] {
        server.2.servers[1].state = state;
        let reason = format!("1 of 2 servers up: 10.0.0.2:80 is {state}");
        check("servers", name, &server, State::Warn, &reason);
    }
    server.2.servers[0].state = "draining";
    check("servers", name, &server, State::Bad, "0 of 2 servers up: 10.0.0.2:80 is ejected");
    server.2.servers[0].state = "up";
    server.2.servers[1].state = "draining";
    check("servers", name, &server, State::Ok, "1 of 2 servers up");
    let many: Vec<ServerFacts> =
        (0..9).map(|_| ServerFacts { state: "out", ..server.2.servers[0].clone() }).collect();
    server.2.servers = many;
    assert!(of("servers", name, &server).reason.ends_with(", and 6 more"));
}

#[test]
fn the_worst_certificate_is_told() {
    let mut server = well();
    check("certificates", "", &server, State::Ok, "2 in use; the first expires in 90 days");
    let now = server.2.unix_secs;
    for (left, state) in [
        (14 * DAY, State::Ok),
        (14 * DAY - 1, State::Warn),
        (3 * DAY, State::Warn),
        (3 * DAY - 1, State::Bad),
    ] {
        server.2.certificates[0].not_after = now + left;
        assert_eq!(of("certificates", "", &server).state, state, "{left}");
    }
    server.2.certificates[1].not_after = now;
    check("certificates", "", &server, State::Bad, "the one of a\"example has expired; 1 more to look at");
}

#[test]
fn automatic_certificates_are_judged_by_their_orders() {
    let mut server = well();
    let now = server.2.unix_secs;
    server.2.certificates[0].not_after = now + 2 * DAY;
    let report = |renew_at, failures| Report {
        name: "b.example".into(),
        not_after: Some(now + 2 * DAY),
        renew_at: Some(renew_at),
        error: (failures > 0).then(|| "no address".to_owned()),
        failures,
        ..Report::default()
    };
    server.2.automatic = vec![report(now, 0)];
    assert_eq!(of("certificates", "", &server).state, State::Ok, "a short one that is renewed on time");
    server.2.automatic = vec![report(now - DAY, 0)];
    check("certificates", "", &server, State::Bad, "the one of b.example expires in 2 days");
    server.2.certificates.clear();
    server.2.automatic = vec![report(now, 1)];
    check("certificates", "", &server, State::Warn, "no new one for b.example: no address");
    server.2.automatic[0].not_after = None;
    check("certificates", "", &server, State::Bad, "no new one for b.example: no address");
}

#[test]
fn overload_cache_and_reload_have_their_say() {
    let mut server = well();
    server.0.threads[1].overload[2].set(1);
    check("overload", "", &server, State::Warn, "event loop elevated");
    server.0.threads[0].overload[0].set(2);
    check("overload", "", &server, State::Bad, "memory critical, event loop elevated");
    server.0.threads[0].overload[0].set(0);
    server.0.threads[1].overload[2].set(0);
    server.0.threads[2].full.set(1);
    check("overload", "", &server, State::Ok, "no resource is short");
    server.0.threads[1].full.set(1);
    check("overload", "", &server, State::Warn, "1 thread at `connections_per_thread_max`");
    server.0.master.reload_refused.set(1);
    let reason = "the last reload was refused: the earlier configuration stays in use";
    check("reload", "", &server, State::Warn, reason);
    if let Some(cache) = &mut server.2.cache {
        cache.counts.off = true;
    }
    check("cache", "", &server, State::Bad, "nothing is stored, because of trouble with the disk");
    let text = text::render(&json::render(&server.0, &server.1, &server.2));
    let (cache, reload) = (text.find("bad: cache: "), text.find("warn: reload: "));
    assert!(cache.is_some() && cache < reload, "the worst comes first: {text}");
}

#[test]
fn a_pool_that_answers_with_errors_or_slowly_is_named() {
    let mut server = well();
    let mut check_window = |recent: TimingFacts, before: TimingFacts, state: State, reason: &str| {
        server.2.pool_windows[0] = PoolWindow { recent, before };
        check("pool", "web", &server, state, reason);
    };
    let fine = "3 of 3 slots in use";
    let usual = || timing(&[(40_000, 100)], 1);
    check_window(timing(&[(40_000, 19)], 19), usual(), State::Ok, fine);
    check_window(timing(&[(40_000, 100)], 1), usual(), State::Ok, fine);
    check_window(
        timing(&[(40_000, 100)], 2),
        usual(),
        State::Warn,
        "2.0 % of 100 requests in the last five minutes were answered with 5xx; 1.0 % in the hour before",
    );
    check_window(
        timing(&[(1_500_000, 25)], 13),
        TimingFacts::default(),
        State::Bad,
        "52.0 % of 25 requests in the last five minutes were answered with 5xx",
    );
    let slow =
        "one of ten requests took longer than 2.4 s in the last five minutes, mostly in the application";
    check_window(timing(&[(1_500_000, 25)], 0), TimingFacts::default(), State::Warn, slow);
    let slower = "one of ten requests took longer than 235 ms in the last five minutes, mostly in the application; 47 ms in the hour \
                  before";
    check_window(timing(&[(200_000, 25)], 0), usual(), State::Warn, slower);
    check_window(timing(&[(80_000, 25)], 0), usual(), State::Ok, fine);
}

#[test]
fn a_server_that_nobody_has_asked_is_neither_up_nor_down() {
    let mut server = well();
    server.2.servers.iter_mut().for_each(|server| server.state = "unknown");
    check("servers", "a\"b\\c", &server, State::Ok, "2 servers, of which nothing has been asked yet");
    server.2.servers[0].state = "up";
    check("servers", "a\"b\\c", &server, State::Ok, "1 of 2 servers up, 1 not known yet");
    server.2.servers[0].state = "out";
    let reason = "0 of 2 servers up, 1 not known yet: 10.0.0.1:80 is out";
    check("servers", "a\"b\\c", &server, State::Warn, reason);
}

#[test]
fn what_was_lost_of_late_is_told() {
    let mut server = well();
    let lost = |count, secs_ago| Some(Lost { count, secs_ago });
    server.2.lost = (lost(3, 7), lost(1, 0));
    check("traces", "", &server, State::Warn, "3 spans not delivered, the last one 7 s ago");
    let reason = "1 request refused because there was no room for the body, the last one 0 s ago";
    check("bodies", "", &server, State::Warn, reason);
}
