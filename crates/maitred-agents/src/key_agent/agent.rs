//! The key agent's process: clock, socket and tasks around the schedules.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::UnixDatagram;
use tokio::sync::mpsc;

use super::fetch::fetch;
use super::messages::{FromAgent, MESSAGE_BYTES_MAX, Start, ToAgent};
use super::schedule::Schedule;
use crate::agents::process::{self, Role};
use maitred_base::jwt::keys::{Key, KeySet};

/// The whole life of the agent.
pub fn run() -> ExitCode {
    process::run(Role { thread: c"maitred-keys", log: "keys", whole: "the process that fetches keys" }, live)
}

/// A source with what is known of it.
struct Source {
    schedule: Schedule,
    keys: Vec<Key>,
}

async fn live(start: Start, socket: UnixDatagram) -> Result<(), String> {
    let (start, begun) = (Arc::new(start), Instant::now());
    let (done, mut ended) = mpsc::unbounded_channel();
    let source = |refresh| Source { schedule: Schedule::new(refresh), keys: Vec::new() };
    let mut sources: Vec<Source> = start.sources.iter().map(|one| source(one.refresh)).collect();
    loop {
        for (index, source) in sources.iter_mut().enumerate() {
            if source.schedule.begins(begun.elapsed()) {
                let (start, done) = (Arc::clone(&start), done.clone());
                tokio::spawn(async move {
                    let outcome = match start.sources.get(index) {
                        Some(source) => fetch(source).await,
                        None => Err("it is not there".to_owned()),
                    };
                    // Without a receiver this process is about to end.
                    let _ = done.send((index, outcome));
                });
            }
        }
        let next = sources.iter().filter_map(|source| source.schedule.next()).min();
        let wait = next.map_or(Duration::MAX, |next| next.saturating_sub(begun.elapsed()));
        tokio::select! {
            message = process::receive(&socket, MESSAGE_BYTES_MAX) => match message? {
                None => return Ok(()),
                Some(ToAgent::Wanted(index)) => {
                    sources.get_mut(index).into_iter().for_each(|source| source.schedule.wanted(begun.elapsed()));
                }
            },
            Some((index, outcome)) = ended.recv() => {
                let (Some(source), Some(of)) = (sources.get_mut(index), start.sources.get(index)) else { continue };
                source.schedule.ended(begun.elapsed(), outcome.is_ok());
                if let Some(message) = source.take(index, &of.url, outcome) {
                    let text = serde_json::to_vec(&message).map_err(|error| error.to_string())?;
                    socket.send(&text).await.map_err(|error| format!("the master: {error}"))?;
                }
            }
            () = tokio::time::sleep(wait) => {}
        }
    }
}

impl Source {
    /// What is said of a fetch: keys that are others than before. After a failure those that are there stay.
    fn take(&mut self, index: usize, url: &str, outcome: Result<KeySet, String>) -> Option<FromAgent> {
        match outcome {
            Ok(set) if set.keys == self.keys => None,
            Ok(set) => {
                tracing::info!(url, keys = set.keys.len(), "there are new keys for tokens");
                if !set.skipped.is_empty() {
                    tracing::info!(url, "keys that cannot be used: {}", set.skipped.join("; "));
                }
                self.keys.clone_from(&set.keys);
                Some(FromAgent::Keys(index, set.keys))
            }
            Err(why) => {
                tracing::error!(
                    url,
                    "keys for tokens cannot be fetched; the previous ones stay in use: {why}"
                );
                None
            }
        }
    }
}
