//! The hooks that run, between [`maitred_agents::acme::supervise`] and the system.

use std::time::Instant;

use super::{Shell, exited, log_failure};
use crate::hook::Running;
use maitred_agents::acme::supervise::{Action, Hook};

impl Shell<'_> {
    /// Starts a hook; what is to be done if it cannot be started.
    pub(super) fn start_hook(&mut self, hook: &Hook) -> Vec<Action> {
        let prepared = self.plan_present.and_then(|number| self.plans.get(&number));
        let Some(prepared) = prepared else { return Vec::new() };
        match Running::start(prepared, hook, Instant::now()) {
            Ok(running) => {
                self.hooks.push(running);
                Vec::new()
            }
            Err(error) => self
                .supervisor
                .hook_ended(hook.number, Err(format!("the hook could not be started: {error}"))),
        }
    }

    /// Ends all hooks, which are not waited for.
    pub(super) fn end_hooks(&mut self) {
        for running in self.hooks.drain(..) {
            log_failure("ending a hook", running.child.kill());
            self.ended_children.push(running.child);
        }
    }

    /// Takes what hooks have written, and how they have ended.
    pub(super) fn take_hooks(&mut self) -> Vec<Action> {
        let (now, room, mut ended) = (Instant::now(), &mut self.output_room, Vec::new());
        self.hooks.retain_mut(|running| {
            running.pass_on(room);
            running.check_time(now);
            let Some((clean, how)) = exited(&running.child) else { return true };
            running.finish(room);
            ended.push((running.number, running.outcome(clean, &how)));
            false
        });
        let ended = ended.into_iter();
        ended.flat_map(|(number, outcome)| self.supervisor.hook_ended(number, outcome)).collect()
    }
}
