//! The checks agent's process: a task for each server, which asks it, waits, and asks again.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::net::UnixDatagram;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::check::{Asking, check};
use super::messages::{Checked, FromAgent, MESSAGE_BYTES_MAX, Start, Target, ToAgent, WHY_BYTES_MAX};
use super::verdict::{Rules, Verdict};
use crate::agents::process::{self, Role};

/// Checks that are under way at a time; each has a descriptor or two. Others wait for one of them.
const AT_A_TIME_MAX: usize = 128;

/// The whole life of the agent.
pub fn run() -> ExitCode {
    let role = Role { thread: c"maitred-checks", log: "checks", whole: "the process that checks servers" };
    process::run(role, live)
}

/// The servers of one pool.
struct Pool {
    asking: Arc<Asking>,
    tasks: HashMap<Target, AbortHandle>,
    /// The servers of a list whose end has not come.
    coming: Vec<(Target, bool)>,
}

struct Shared {
    permits: Semaphore,
    news: mpsc::UnboundedSender<FromAgent>,
}

async fn live(start: Start, socket: UnixDatagram) -> Result<(), String> {
    let (news, mut heard) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared { permits: Semaphore::new(AT_A_TIME_MAX), news });
    let mut pools = start.pools.into_iter().map(Pool::new).collect::<Result<Vec<_>, _>>()?;
    loop {
        tokio::select! {
            message = process::receive::<ToAgent>(&socket, MESSAGE_BYTES_MAX) => match message? {
                None => return Ok(()),
                Some(ToAgent::Servers { pool: number, servers, goes_on }) => {
                    let Some(pool) = pools.get_mut(number) else { continue };
                    pool.coming.extend(servers);
                    if !goes_on {
                        pool.change(number, &shared);
                    }
                }
            },
            Some(message) = heard.recv() => {
                let text = serde_json::to_vec(&message).map_err(|error| error.to_string())?;
                socket.send(&text).await.map_err(|error| format!("the master: {error}"))?;
            }
        }
    }
}

impl Pool {
    fn new(pool: Checked) -> Result<Pool, String> {
        let wrong = |text: String| format!("pool.{}: {text}", pool.name);
        let tls = match &pool.tls {
            None => None,
            Some((settings, material)) => {
                let whole = material.with_system_roots(settings).map_err(wrong)?;
                Some(Arc::new(whole.config(settings).map_err(wrong)?))
            }
        };
        Ok(Pool { asking: Arc::new(Asking { pool, tls }), tasks: HashMap::new(), coming: Vec::new() })
    }

    /// Another list is whole.
    fn change(&mut self, number: usize, shared: &Arc<Shared>) {
        let mut before = std::mem::take(&mut self.tasks);
        for (target, well) in self.coming.drain(..) {
            let task = before.remove(&target).unwrap_or_else(|| {
                let (asking, shared) = (Arc::clone(&self.asking), Arc::clone(shared));
                tokio::spawn(watch(asking, (number, target.clone()), Verdict::new(well), shared))
                    .abort_handle()
            });
            self.tasks.insert(target, task);
        }
        before.into_values().for_each(|task| task.abort());
    }
}

/// The life of one server here: it ends when the server has gone.
async fn watch(
    asking: Arc<Asking>,
    (pool, target): (usize, Target),
    mut verdict: Verdict,
    shared: Arc<Shared>,
) {
    let health = &asking.pool.health;
    let rules = Rules { healthy_after: health.healthy_after, unhealthy_after: health.unhealthy_after };
    loop {
        let begun = Instant::now();
        let outcome = {
            let Ok(_permit) = shared.permits.acquire().await else { return };
            check(&asking, &target).await
        };
        if let Some(well) = verdict.note(outcome.is_ok(), rules) {
            let why = outcome.err().map(shortened);
            let (name, server) = (&asking.pool.name, &target.address);
            match &why {
                Some(why) => tracing::warn!(pool = name, %server, "a server is unwell: {why}"),
                None => tracing::info!(pool = name, %server, "a server is well again"),
            }
            debug_assert_eq!(well, why.is_none());
            let message = FromAgent::Checked { pool, address: target.address.clone(), why };
            // Without a receiver this process is about to end.
            let _ = shared.news.send(message);
        }
        tokio::time::sleep_until(begun + health.interval).await;
    }
}

fn shortened(mut why: String) -> String {
    why.truncate(why.floor_char_boundary(WHY_BYTES_MAX));
    why
}
