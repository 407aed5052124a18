//! Requests that wait for a server: all servers of their pool have as many as they may have (`max_connections`).
//!
//! The requests wait like those for processes (`queue` of the pool), each in its thread, and in one order over all threads
//! ([`Line`](crate::proxy::ServerTable::line)).
//!
//! | a place becomes free | what is done |
//! |---|---|
//! | a request has ended at a server | the thread of the first in the line gets a message |
//! | the list of servers has changed | all threads get one |
//! | a request enters the line, and a place has become free meanwhile | its thread gets one |

use super::Requests;
use crate::connection::State;
use crate::inbox::Message;
use crate::keys::ConnKey;
use crate::proxy::List;
use crate::step::{RequestInput, Step};
use maitred_files::RequestContext;

impl Requests {
    /// Lets a request wait for a server, if there is room in the queue of its pool.
    pub(super) fn wait_for_server(
        &mut self,
        index: ConnKey,
        pool: usize,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Step {
        let settings = &self.shared.start.config.pools[pool];
        let joined = self.shared.join_queue(pool, u64::from(settings.queue_max)).is_some();
        let Some(table) = self.shared.servers(pool as u16).filter(|_| joined) else {
            return self.refuse_queued(index, pool, context, given);
        };
        let now = self.clock.now;
        let waits_since = &mut self.exchange(index).dispatch.waits_since;
        // The place that it was to get may have gone to a retry: it is still the first.
        let again = waits_since.is_some();
        let due = *waits_since.get_or_insert(now) + settings.queue_timeout;
        self.keep(index, context.request, given);
        self.enter(index, State::Queued { pool: pool as u16, pin: None });
        self.wheel.arm(index, due);
        let queue = &mut self.pools.pools[pool].queue;
        match again {
            true => queue.push_front(index),
            false => queue.push_back(index),
        }
        table.line.join(self.number, again);
        if self.upstreams.list(pool as u16).is_some_and(List::has_place) {
            self.shared.inboxes[self.number].send(Message::ServerRoom(pool as u16));
        }
        Step::Waits
    }

    /// Servers of a pool may have room: the first that wait get it, in this thread and in others.
    pub(crate) fn serve_line(&mut self, pool: u16) {
        self.refresh_servers(pool);
        let Some(table) = self.shared.servers(pool) else { return };
        // Each of those that wait here is looked at once: one that finds no place after all is among them again.
        let here = self.pools.pools.get(usize::from(pool)).map_or(0, |pool| pool.queue.len());
        for _ in 0..=here {
            let Some(thread) = table.line.front() else { return };
            if !self.upstreams.list(pool).is_some_and(List::has_place) {
                return;
            }
            if thread != self.number {
                return self.shared.inboxes[thread].send(Message::ServerRoom(pool));
            }
            match self.pools.pools.get(usize::from(pool)).and_then(|pool| pool.queue.front().copied()) {
                Some(index) => {
                    self.leave_queue(index);
                    self.resume(index);
                }
                None => table.line.leave(thread),
            }
        }
    }
}
