//! The names agent's process: clock, socket and tasks around the schedules.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::UnixDatagram;
use tokio::sync::mpsc;

use super::lookup::resolve;
use super::messages::{FromAgent, MESSAGE_BYTES_MAX, Start, ToAgent};
use super::schedule::Schedule;
use crate::agents::process::{self, Role};
use maitred_config::Found;

/// The whole life of the agent.
pub fn run() -> ExitCode {
    let role = Role { thread: c"maitred-names", log: "names", whole: "the process that resolves names" };
    process::run(role, live)
}

/// A name with what is known of it.
#[derive(Default)]
struct Name {
    schedule: Schedule,
    found: Vec<Found>,
}

type Outcome = Result<(Vec<Found>, Duration), String>;

async fn live(start: Start, socket: UnixDatagram) -> Result<(), String> {
    let (start, begun) = (Arc::new(start), Instant::now());
    let (done, mut ended) = mpsc::unbounded_channel::<(usize, Outcome)>();
    let name = |_| Name { schedule: Schedule::new(), found: Vec::new() };
    let mut names: Vec<Name> = start.queries.iter().map(name).collect();
    loop {
        for (index, name) in names.iter_mut().enumerate() {
            if name.schedule.begins(begun.elapsed()) {
                let (start, done) = (Arc::clone(&start), done.clone());
                tokio::spawn(async move {
                    let outcome = match start.queries.get(index) {
                        Some(query) => resolve(query, &start.resolver).await,
                        None => Err("it is not there".to_owned()),
                    };
                    // Without a receiver this process is about to end.
                    let _ = done.send((index, outcome));
                });
            }
        }
        let next = names.iter().filter_map(|name| name.schedule.next()).min();
        let wait = next.map_or(Duration::MAX, |next| next.saturating_sub(begun.elapsed()));
        tokio::select! {
            message = process::receive::<ToAgent>(&socket, MESSAGE_BYTES_MAX) => if message?.is_none() {
                return Ok(());
            },
            Some((index, outcome)) = ended.recv() => {
                let (Some(name), Some(query)) = (names.get_mut(index), start.queries.get(index)) else { continue };
                if let Some(message) = name.take(begun.elapsed(), index, &query.host, outcome) {
                    let text = serde_json::to_vec(&message).map_err(|error| error.to_string())?;
                    socket.send(&text).await.map_err(|error| format!("the master: {error}"))?;
                }
            }
            () = tokio::time::sleep(wait) => {}
        }
    }
}

impl Name {
    /// What is said of an answer: servers that are others than before. After a failure those that are there stay.
    fn take(&mut self, now: Duration, index: usize, host: &str, outcome: Outcome) -> Option<FromAgent> {
        self.schedule.ended(now, outcome.as_ref().ok().map(|(_, ttl)| *ttl));
        match outcome {
            Ok((found, _)) if found == self.found => None,
            Ok((found, _)) => {
                tracing::info!(name = host, servers = found.len(), "the name leads elsewhere");
                self.found.clone_from(&found);
                Some(FromAgent::Found(index, found))
            }
            Err(why) => {
                // Once per failure, not per attempt.
                if self.schedule.has_just_failed() {
                    tracing::error!(
                        name = host,
                        "the name cannot be resolved; its servers stay as they are: {why}"
                    );
                }
                None
            }
        }
    }
}
