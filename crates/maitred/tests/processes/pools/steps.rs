//! A load that doubles in steps and then stops: processes follow it, and no more of them come and go than the rules want.

use std::time::{Duration, Instant};

use maitred_base::pool::sizing::{Phase, Settings, Sizing, SlotView};

use crate::pools::look::{breathing, letters, ready, settled, starts_and_crashes};
use crate::support::{Gate, Setup, Waiting, eventually};

/// The most requests at a time.
const PEAK: u16 = 8;
const SETTINGS: Settings = Settings {
    start: 1,
    min_spare: 1,
    max_spare: 3,
    max: 20,
    spawn_max: 32,
    retire_after: Duration::from_secs(1),
    max_requests: None,
    max_age: None,
    max_memory: None,
    retired_max: None,
};
const LINES: &str = "workers = { start = 1, min_spare = 1, max_spare = 3, max = 20, retire_after = \"1s\" }\n\
                     queue = { timeout = \"60s\" }";

/// What the sizing core does under the same steps, by itself: how many it starts, and how many it retires. Each step lasts until
/// the pool has settled, as it does in the test.
fn predicted(startup: Duration) -> (u64, u64) {
    let mut now = Instant::now();
    let mut sizing = Sizing::new(now, SETTINGS);
    let mut slots = vec![SlotView::empty(now); usize::from(SETTINGS.slots())];
    let (mut starts, mut retirements) = (0, 0);
    let steps = std::iter::successors(Some(1), |load| (*load < PEAK).then_some(load * 2)).chain([0]);
    for load in steps {
        let until = now + Duration::from_secs(60);
        while now < until {
            now += Duration::from_millis(10);
            let mut left = load;
            for slot in &mut slots {
                if slot.phase == Phase::Starting && now - slot.started >= startup {
                    (slot.phase, slot.capacity, slot.since) = (Phase::Idle, 1, now);
                }
                if matches!(slot.phase, Phase::Idle | Phase::Busy) {
                    let phase = if left > 0 { Phase::Busy } else { Phase::Idle };
                    if phase != slot.phase {
                        (slot.phase, slot.busy, slot.since) = (phase, u32::from(left > 0), now);
                    }
                    left = left.saturating_sub(1);
                }
            }
            let decision = sizing.decide(now, &slots, u32::from(left));
            starts += u64::from(decision.start);
            for _ in 0..decision.start {
                let slot = slots.iter_mut().find(|slot| slot.phase == Phase::Empty).unwrap();
                *slot = SlotView { phase: Phase::Starting, ..SlotView::empty(now) };
            }
            if let Some(retirement) = decision.retire {
                retirements += 1;
                slots[usize::from(retirement.slot)] = SlotView::empty(now);
            }
        }
    }
    (starts, retirements)
}

fn steps(starts_in: &str, startup: Duration) {
    let gate = Gate::new();
    let server =
        breathing(Setup::new(), "app", Some(&gate), &format!("STARTS_IN = \"{starts_in}\""), LINES).start();
    server.wait_for_processes();
    let (mut clients, mut held): (Vec<_>, Vec<Waiting>) = (Vec::new(), Vec::new());
    while clients.len() < usize::from(PEAK) {
        let load = (clients.len() * 2).max(1);
        while clients.len() < load {
            let mut client = server.connect();
            client.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
            clients.push(client);
        }
        held.extend((held.len()..load).map(|_| gate.arrival()));
        eventually("there is one to spare", || {
            let letters = letters(&server, "app");
            letters.matches('W').count() == load && ready(&letters) > load
        });
    }
    held.into_iter().for_each(Waiting::release);
    for mut client in clients {
        assert_eq!(client.response("GET").text(), "waited\n");
    }
    settled(&server, "app", usize::from(SETTINGS.max_spare));
    let (starts, retirements) = predicted(startup);
    assert_eq!(starts, u64::from(PEAK + SETTINGS.min_spare), "the prediction");
    assert_eq!(starts - retirements, u64::from(SETTINGS.max_spare), "the prediction");
    let (started, crashed) = starts_and_crashes(&server);
    assert_eq!(crashed, 0);
    // Processes that are not there any more were retired.
    assert!(started <= starts, "{started} started, where {starts} are enough");
    assert_eq!((server.total("queue_refused"), server.total("handoff_lost")), (0, 0));
    let stopped = server.stop();
    let retired =
        stopped.said.iter().filter(|line| line.contains("is retired: it is not needed")).count() as u64;
    assert!(retired <= retirements, "{retired} retired, where {retirements} are enough");
}

#[test]
fn processes_follow_a_load_that_doubles_and_stops() {
    steps("0", Duration::from_millis(200));
}

/// While they start, the load waits, and nothing more is started for it than it needs.
#[test]
fn slow_starters_follow_it_as_well() {
    steps("1", Duration::from_millis(1_200));
}
