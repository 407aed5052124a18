//! Which of several servers gets a request: the one with the fewest under way, among those that are not known to fail.
//!
//! Health is passive: there are no probes, only the outcomes of requests count. A server that cannot be reached, or that has
//! aborted [`BROKEN_MAX`] requests in a row, gets none for a while: [`BACK_OFF_FIRST`], and twice as long each time after that,
//! up to [`BACK_OFF_MAX`]. Then one request tries it; if that goes well, all is as before.
//!
//! When every server is out, the one that comes back first is asked all the same: an answer may come of it, while a
//! refusal of our own is none. So a single server is never out.

use std::time::{Duration, Instant};

/// How long a server gets no requests after its first failure: long enough for a restart, short enough not to be noticed.
pub(super) const BACK_OFF_FIRST: Duration = Duration::from_secs(1);
/// The longest such time. A server that comes back after a long absence waits no longer than this.
pub(super) const BACK_OFF_MAX: Duration = Duration::from_secs(30);
/// Requests in a row that a server may abort before it is out. A single one may be caused by the request.
pub(super) const BROKEN_MAX: u32 = 3;

/// How a server has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No connection could be made.
    Unreachable,
    /// A connection was made, and no response came of it.
    Broken,
}

/// What is known of the servers of one pool.
#[derive(Debug)]
pub struct Balancer {
    servers: Vec<Server>,
    /// Where the search begins, so that equals take turns.
    next: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Server {
    /// Failures in a row without a response between them.
    broken: u32,
    /// Times in a row that it was taken out.
    outs: u32,
    /// Until when it gets no request.
    out_until: Option<Instant>,
    /// A request is trying it out.
    on_trial: bool,
}

impl Balancer {
    /// A pool of so many servers, all of them good. `first` is where the search begins: threads that begin at different
    /// ones do not all prefer the same.
    pub fn new(servers: usize, first: usize) -> Balancer {
        Balancer { servers: vec![Server::default(); servers], next: first % servers.max(1) }
    }

    /// The server for a request that was not given to any of `tried` yet; `load` says how many each has. `None` if all were
    /// tried.
    pub fn choose(&mut self, now: Instant, tried: &[u16], load: impl Fn(usize) -> u32) -> Option<usize> {
        let count = self.servers.len();
        let order = (0..count).map(|step| (self.next + step) % count);
        let candidates = order.filter(|server| !tried.iter().any(|tried| usize::from(*tried) == *server));
        let good = candidates.clone().filter(|server| self.takes(*server, now));
        let chosen = match good.min_by_key(|server| load(*server)) {
            Some(server) => server,
            // An instant that has passed comes first; one on trial may be no better, but is at least due.
            None => candidates.min_by_key(|server| self.servers[*server].out_until)?,
        };
        self.next = (chosen + 1) % count;
        let server = &mut self.servers[chosen];
        server.on_trial = server.out_until.is_some();
        Some(chosen)
    }

    /// Whether a server gets requests, or may be tried again.
    fn takes(&self, server: usize, now: Instant) -> bool {
        let server = &self.servers[server];
        server.out_until.is_none_or(|until| until <= now && !server.on_trial)
    }

    /// A response has come. True if the server was out until now.
    pub fn succeeded(&mut self, server: usize) -> bool {
        let Some(server) = self.servers.get_mut(server) else { return false };
        std::mem::take(server).out_until.is_some()
    }

    /// The request came to its end without telling anything of the server: its client has gone.
    pub fn unknown(&mut self, server: usize) {
        if let Some(server) = self.servers.get_mut(server) {
            server.on_trial = false;
        }
    }

    /// A request has failed. `Some` if the server is out because of that: for how long.
    pub fn failed(&mut self, server: usize, failure: Failure, now: Instant) -> Option<Duration> {
        let server = self.servers.get_mut(server)?;
        server.on_trial = false;
        server.broken = server.broken.saturating_add(1);
        let was_out = server.out_until.is_some();
        if failure == Failure::Broken && server.broken < BROKEN_MAX && !was_out {
            return None;
        }
        if server.out_until.is_some_and(|until| now < until) {
            // It failed on a request that it had before, or that no other server could take: that says nothing new.
            return None;
        }
        let back_off = BACK_OFF_FIRST.saturating_mul(1 << server.outs.min(16)).min(BACK_OFF_MAX);
        server.outs = server.outs.saturating_add(1);
        server.out_until = Some(now + back_off);
        Some(back_off)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_one_with_the_fewest_requests_is_chosen_and_equals_take_turns() {
        let (mut balancer, now) = (Balancer::new(3, 0), Instant::now());
        assert_eq!(balancer.choose(now, &[], |server| [5, 2, 9][server]), Some(1));
        let turns: Vec<_> = (0..4).map(|_| balancer.choose(now, &[], |_| 1)).collect();
        assert_eq!(turns, [Some(2), Some(0), Some(1), Some(2)]);
        assert_eq!(balancer.choose(now, &[0, 2], |_| 0), Some(1));
        assert_eq!(balancer.choose(now, &[0, 1, 2], |_| 0), None);
        assert_eq!(Balancer::new(2, 7).choose(now, &[], |_| 0), Some(1));
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_out_for_longer_each_time_and_comes_back() {
        let (mut balancer, mut now) = (Balancer::new(2, 0), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..8 {
            let out = balancer.failed(0, Failure::Unreachable, now).unwrap();
            waits.push(out.as_secs());
            // Loaded as the other one is, it would be preferred.
            assert!((0..4).all(|_| balancer.choose(now, &[], |server| server as u32) == Some(1)));
            now += out;
            assert_eq!(balancer.choose(now, &[], |server| server as u32), Some(0), "one request tries it");
            assert_eq!(balancer.choose(now, &[], |server| server as u32), Some(1), "and only one");
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert!(balancer.succeeded(0));
        assert!(!balancer.succeeded(0));
        assert_eq!(balancer.choose(now, &[], |server| server as u32), Some(0));
        assert_eq!(balancer.failed(0, Failure::Unreachable, now), Some(SECOND), "from the start again");
    }

    #[test]
    fn it_takes_some_broken_requests_in_a_row() {
        let (mut balancer, now) = (Balancer::new(2, 0), Instant::now());
        assert_eq!(balancer.failed(0, Failure::Broken, now), None);
        assert_eq!(balancer.failed(0, Failure::Broken, now), None);
        assert!(!balancer.succeeded(0));
        assert_eq!(balancer.failed(0, Failure::Broken, now), None);
        assert_eq!(balancer.failed(0, Failure::Broken, now), None);
        assert_eq!(balancer.failed(0, Failure::Broken, now), Some(SECOND));
        // Others that were under way say nothing new.
        assert_eq!(balancer.failed(0, Failure::Broken, now), None);
        let later = now + SECOND;
        assert_eq!(balancer.choose(later, &[1], |_| 0), Some(0));
        balancer.unknown(0);
        assert_eq!(balancer.choose(later, &[1], |_| 0), Some(0), "the trial said nothing, and is repeated");
        assert_eq!(balancer.failed(0, Failure::Broken, later), Some(2 * SECOND), "one is enough on trial");
    }

    #[test]
    fn a_single_server_is_always_asked() {
        let (mut balancer, now) = (Balancer::new(1, 0), Instant::now());
        for _ in 0..5 {
            assert_eq!(balancer.choose(now, &[], |_| 0), Some(0));
            balancer.failed(0, Failure::Unreachable, now);
        }
    }

    proptest! {
        #[test]
        fn whatever_happens_a_request_that_was_not_everywhere_finds_a_server(
            events in prop::collection::vec((0_u8..5, 0_usize..3, 0_u64..3000), 0..60),
        ) {
            let (mut balancer, mut now) = (Balancer::new(3, 1), Instant::now());
            for (what, server, millis) in events {
                now += Duration::from_millis(millis);
                match what {
                    0 => drop(balancer.failed(server, Failure::Unreachable, now)),
                    1 => drop(balancer.failed(server, Failure::Broken, now)),
                    2 => drop(balancer.succeeded(server)),
                    3 => balancer.unknown(server),
                    _ => {
                        let chosen = balancer.choose(now, &[server as u16], |_| 0);
                        prop_assert!(chosen.is_some_and(|chosen| chosen < 3 && chosen != server));
                    }
                }
            }
        }
    }
}
