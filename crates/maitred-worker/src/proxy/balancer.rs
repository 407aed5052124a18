//! Which of several servers gets a request, as one thread decides it. What is known of the servers is shared by all threads
//! ([`Server`](super::Server)); whose turn it is, each thread counts by itself.
//!
//! | `balance` | of the servers that get requests |
//! |---|---|
//! | least requests | up to [`LOOKED_AT_MAX`]: the one with the fewest for its weight. More: the better of two, drawn by weight |
//! | round robin | by turns, as often as their weights say |
//! | least time | as the first, by requests under way times latency |
//! | hash | the first on a ring from the key's place on that has no more than its share and a quarter |
//!
//! A server that cannot be reached, or that has aborted some requests in a row, gets none for a while; then one request tries it.
//! A server whose checks fail or that was ejected gets none either, unless so many are in that state that the judgement is
//! rather wrong than they are. Backups get requests when no other server does. When every server is out, the one that comes back
//! first is asked all the same: an answer may come of it, while a refusal of our own is none. So a single server is never out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::group::Group;
use super::server::{Moment, mix};
use super::table::{List, Row, ServerTable};
use super::turns::Turns;
use maitred_config::Balance;

/// Of so many servers all are looked at; of more, two.
pub(super) const LOOKED_AT_MAX: usize = 8;
/// How often another server is drawn for one that gets no requests, before all are looked at.
const DRAWS_MAX: u32 = 12;
/// Points of the ring that are looked at: more than all of them are of one or two servers only if these have most of the weight.
const POINTS_LOOKED_AT_MAX: usize = 4096;
/// How long the number of those that checks and ejections have taken out is believed, in microseconds: it is counted over all.
const JUDGED_FOR: Duration = Duration::from_millis(100);

/// What a request has to say about its server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish<'a> {
    /// Servers that it was given to already.
    pub tried: &'a [u16],
    /// What is hashed for it.
    pub key: Option<u64>,
    /// The server that has answered its client before.
    pub sticky: Option<u16>,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The server of this slot. The request is counted there.
    Server(u16),
    /// All that could answer it have as many requests as they may have.
    Full,
    /// None is left.
    Nothing,
}

/// One thread's view of the servers of a pool.
#[derive(Debug)]
pub struct Balancer {
    list: Arc<List>,
    thread: usize,
    turns: [Turns; 2],
    random: u64,
    /// For each rank, whether judgements are not believed; and until when that is so.
    panics: [bool; 2],
    looked_until: Option<Instant>,
}

impl Balancer {
    /// The view of this thread.
    pub fn new(table: &ServerTable, thread: usize) -> Balancer {
        let list = table.list();
        let turns = turns(&list, thread);
        Balancer { list, thread, turns, random: thread as u64, panics: [false; 2], looked_until: None }
    }

    /// Takes the present list. Gives back the one before if it was another.
    #[inline]
    pub fn refresh(&mut self, table: &ServerTable) -> Option<Arc<List>> {
        if table.is_present(self.list.revision) {
            return None;
        }
        let before = std::mem::replace(&mut self.list, table.list());
        (self.turns, self.looked_until) = (turns(&self.list, self.thread), None);
        Some(before)
    }

    /// The list that this thread has.
    pub fn list(&self) -> &Arc<List> {
        &self.list
    }

    /// The server for a request, and counts it there.
    pub fn choose(&mut self, table: &ServerTable, now: Instant, wish: &Wish<'_>) -> Choice {
        let moment = table.moment(now);
        self.look(table, now, moment);
        let mut busy = Vec::new();
        if let Some(slot) = wish.sticky.filter(|slot| self.may_stay(*slot, wish, moment))
            && self.claim(table, slot, moment, &mut busy)
        {
            return Choice::Server(slot);
        }
        // A server may be taken by another thread meanwhile; then it is busy, and another one is looked for.
        for rank in 0..self.list.groups.len() {
            while let Some(at) = self.pick(table, rank, moment, wish, &busy) {
                let Some(slot) = self.list.groups[rank].members.get(at).map(|member| member.slot) else {
                    break;
                };
                if self.claim(table, slot, moment, &mut busy) {
                    return Choice::Server(slot);
                }
            }
        }
        self.last_resort(table, moment, wish, &mut busy)
    }

    /// Counts the request at a server.
    fn claim(&self, table: &ServerTable, slot: u16, moment: Moment, busy: &mut Vec<u16>) -> bool {
        let claimed = self.list.row(slot).is_some_and(|row| table.enter(row));
        if claimed && !self.list.row(slot).is_some_and(|row| row.server.begin(moment)) {
            self.list.row(slot).into_iter().for_each(|row| table.leave(&row.server));
            busy.push(slot);
            return false;
        }
        if !claimed {
            busy.push(slot);
        }
        claimed
    }

    /// Whether a client stays with the server that it had: also with one that drains.
    fn may_stay(&self, slot: u16, wish: &Wish<'_>, moment: Moment) -> bool {
        !wish.tried.contains(&slot)
            && self
                .list
                .row(slot)
                .is_some_and(|row| row.server.takes(moment) && !row.server.is_judged(moment))
    }

    /// Looks how many are out by judgement, now and then.
    fn look(&mut self, table: &ServerTable, now: Instant, moment: Moment) {
        if self.looked_until.is_some_and(|until| now < until) {
            return;
        }
        self.looked_until = Some(now + JUDGED_FOR);
        for rank in 0..self.panics.len() {
            let members = &self.list.groups[rank].members;
            let rows = members.iter().filter_map(|member| self.list.row(member.slot));
            let out = rows.filter(|row| row.server.is_judged(moment)).count();
            self.panics[rank] =
                out > 0 && out * 100 > members.len() * usize::from(table.policy.panic_percent);
        }
    }

    /// The position of the best server of a rank.
    fn pick(
        &mut self,
        table: &ServerTable,
        rank: usize,
        moment: Moment,
        wish: &Wish<'_>,
        busy: &[u16],
    ) -> Option<usize> {
        let Balancer { list, turns, random, panics, .. } = self;
        let (group, turns) = (&list.groups[rank], &mut turns[rank]);
        let looking = Looking { list, group, moment, wish, busy, believes: !panics[rank] };
        let few = group.members.len() <= LOOKED_AT_MAX;
        let (policy, slow_start) = (table.policy.balance, table.policy.slow_start);
        let chosen = match policy {
            Balance::RoundRobin => turns.first(&group.members, |at| looking.is_good(at)),
            Balance::Hash => looking.by_key(table, random),
            Balance::LeastRequests | Balance::LeastTime if few => {
                let good = (0..group.members.len()).filter(|at| looking.is_good(*at));
                let fallback = if policy == Balance::LeastTime { looking.least_latency() } else { 0 };
                good.min_by_key(|at| (looking.score(*at, policy, fallback, slow_start), turns.when(*at)))
            }
            Balance::LeastRequests | Balance::LeastTime => looking.better_of_two(random, policy, slow_start),
        }?;
        if few && policy != Balance::Hash || policy == Balance::RoundRobin {
            let member = group.members.get(chosen)?;
            let share = list.row(member.slot).map_or(256, |row| row.server.share(moment, slow_start));
            turns.take(chosen, member.weight, share);
        }
        Some(chosen)
    }

    /// No server is good: the one that comes back first.
    fn last_resort(
        &self,
        table: &ServerTable,
        moment: Moment,
        wish: &Wish<'_>,
        busy: &mut Vec<u16>,
    ) -> Choice {
        let mut full = false;
        let mut refused: Vec<u16> = Vec::new();
        loop {
            let members = self.list.groups.iter().flat_map(|group| &group.members);
            let rows = members.filter_map(|member| Some((member.slot, self.list.row(member.slot)?)));
            let rows = rows.filter(|(slot, _)| !wish.tried.contains(slot) && !refused.contains(slot));
            let Some((slot, row)) = rows.min_by_key(|(_, row)| row.server.out_until()) else { break };
            if row.server.under_way() < row.listed.max && table.enter(row) {
                // The server may be tried by another request: to ask it is better than to ask none.
                let _ = row.server.begin(moment);
                return Choice::Server(slot);
            }
            full = true;
            refused.push(slot);
        }
        busy.clear();
        if full { Choice::Full } else { Choice::Nothing }
    }
}

/// The next of a thread's numbers.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

fn turns(list: &List, thread: usize) -> [Turns; 2] {
    [0, 1].map(|rank| Turns::new(&list.groups[rank].members, thread))
}

/// One look for a server.
struct Looking<'a> {
    list: &'a List,
    group: &'a Group,
    moment: Moment,
    wish: &'a Wish<'a>,
    busy: &'a [u16],
    believes: bool,
}

impl Looking<'_> {
    fn row(&self, at: usize) -> Option<&Row> {
        self.list.row(self.group.members.get(at)?.slot)
    }

    /// Whether a server gets the request.
    fn is_good(&self, at: usize) -> bool {
        let Some(member) = self.group.members.get(at) else { return false };
        if self.wish.tried.contains(&member.slot) || self.busy.contains(&member.slot) {
            return false;
        }
        self.list.row(member.slot).is_some_and(|row| {
            row.server.takes(self.moment)
                && !(self.believes && row.server.is_judged(self.moment))
                && (row.listed.max == u32::MAX || row.server.under_way() < row.listed.max)
        })
    }

    /// The better of two that are drawn by weight.
    fn better_of_two(&self, random: &mut u64, policy: Balance, slow_start: Duration) -> Option<usize> {
        let mut first = None;
        for _ in 0..DRAWS_MAX {
            let drawn = next_random(random);
            let at = self.group.draw(drawn)?;
            // A server that begins slowly is passed over as often as its share says.
            let share = self.row(at).map_or(256, |row| row.server.share(self.moment, slow_start));
            if first == Some(at) || !self.is_good(at) || share < 256 && mix(drawn) % 256 >= u64::from(share) {
                continue;
            }
            let Some(other) = first else {
                first = Some(at);
                continue;
            };
            let score = |at| self.score(at, policy, 0, Duration::ZERO);
            return Some(if score(at) < score(other) { at } else { other });
        }
        first.or_else(|| {
            let count = self.group.members.len();
            let begin = next_random(random) as usize % count.max(1);
            let good = (0..count).map(|step| (begin + step) % count).filter(|at| self.is_good(*at));
            good.min_by_key(|at| self.score(*at, policy, 0, slow_start))
        })
    }

    /// The first from the key's place on that is good and has no more than a quarter above its share; or any that is good.
    fn by_key(&self, table: &ServerTable, random: &mut u64) -> Option<usize> {
        let key = self.wish.key.unwrap_or_else(|| next_random(random));
        let room = (u64::from(table.total()) + 1) * 5;
        let fits = |at: usize| {
            let member = self.group.members.get(at);
            let load = self.row(at).map_or(0, |row| u64::from(row.server.under_way()));
            // load < ceil(1.25 * (total + 1) * weight / weights)
            member.is_some_and(|member| {
                load < (room * u64::from(member.weight)).div_ceil(4 * self.group.weight.max(1))
            })
        };
        let mut good = None;
        for at in self.group.on_ring(key).take(POINTS_LOOKED_AT_MAX) {
            if !self.is_good(at) {
                continue;
            }
            if fits(at) {
                return Some(at);
            }
            good = good.or(Some(at));
        }
        good.or_else(|| (0..self.group.members.len()).find(|at| self.is_good(*at)))
    }

    /// How much a server has to do, for its weight.
    fn score(&self, at: usize, policy: Balance, fallback: u32, slow_start: Duration) -> u64 {
        let Some(row) = self.row(at) else { return u64::MAX };
        let weight =
            u64::from(row.listed.weight.max(1)) * u64::from(row.server.share(self.moment, slow_start));
        let load = (u64::from(row.server.under_way()) << 20) / weight;
        match policy {
            Balance::LeastTime => {
                let latency = row.server.latency(self.moment);
                let latency = if latency == 0 { fallback } else { latency };
                // The load counts one request more, on what the server has for its weight; a share of 256 is all of it.
                u64::from(latency.max(1)).saturating_mul(load + (1 << 12))
            }
            Balance::LeastRequests | Balance::RoundRobin | Balance::Hash => load,
        }
    }

    /// The least latency that is known: that of servers of which none is known yet.
    fn least_latency(&self) -> u32 {
        let rows = (0..self.group.members.len()).filter_map(|at| self.row(at));
        rows.map(|row| row.server.latency(self.moment)).filter(|latency| *latency > 0).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
