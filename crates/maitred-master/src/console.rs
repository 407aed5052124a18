//! What a person is told who started an application by one line: when it is ready, or that it does not start, with the address,
//! once. What the application says by itself is shown as it is (`maitred_log::console`).

use std::collections::BTreeMap;
use std::io::Write as _;

use crate::prepare::Prepared;
use crate::state::events::Event;
use maitred_config::Source;
use maitred_control::{FromWorker, SlotId, ToWorker};
use maitred_log::console;

/// What was told, and what there is to tell.
#[derive(Debug, Default)]
pub(crate) struct Console {
    /// Whether there is a person to tell.
    is_on: bool,
    /// The sources of the application are watched.
    watches: bool,
    /// The server listens.
    listens: bool,
    /// The address was said, with whatever was to be said.
    has_said: bool,
    /// Whether a process was ready.
    was_ready: bool,
    /// Something has failed or changed since: it is said when a process is ready again.
    owes_ready: bool,
    /// By the epoch of a process: its last lines, from its end until that is handled.
    words: BTreeMap<u64, String>,
}

impl Console {
    /// For a server that was started so, or another one.
    pub(crate) fn new(is_on: bool, watches: bool) -> Console {
        if is_on {
            console::enable();
        }
        Console { is_on, watches, ..Console::default() }
    }

    /// A process that has ended has said this last.
    pub(crate) fn note(&mut self, slot: SlotId, mut words: String) {
        if self.is_on {
            words = words
                .lines()
                .filter(|line| !console::is_foreign(line))
                .map(|line| format!("{line}\n"))
                .collect();
        }
        self.words.insert(slot.epoch, words);
    }

    /// The server listens: it is ready, unless there are processes to wait for.
    pub(crate) fn listens(&mut self, prepared: Option<&Prepared>) {
        self.listens = true;
        let waits = prepared.is_some_and(|prepared| {
            prepared.config.pools.iter().any(|pool| matches!(pool.source, Source::Command(_)))
        });
        if !waits || self.was_ready {
            self.say_ready(prepared);
        }
    }

    /// Looks at an event before it is handled. Gives back what a process has said last, for the worker processes.
    pub(crate) fn see(&mut self, event: &Event, prepared: Option<&Prepared>) -> Option<ToWorker> {
        match event {
            Event::Worker(_, FromWorker::SlotReady(slot, _)) => {
                console::is_ready(&process_name(*slot, prepared));
                self.was_ready = true;
                self.say_ready(prepared);
            }
            Event::AppExited { slot, .. } => {
                if !self.was_ready {
                    self.say_not_ready(prepared);
                }
                let words = self.words.remove(&slot.epoch).filter(|words| !words.is_empty());
                let words = words.unwrap_or_else(|| "The process has said nothing.".to_owned());
                return Some(ToWorker::LastWords(slot.pool, words));
            }
            Event::SourceChanged(name) => {
                console::forget();
                self.say(&format!("{name} has changed"));
                self.owes_ready = true;
            }
            _ => {}
        }
        None
    }

    fn say_not_ready(&mut self, prepared: Option<&Prepared>) {
        if let Some(address) = self.address_to_say(prepared) {
            let next = if self.watches { ", and it is tried again when a file is saved" } else { "" };
            self.say(&format!("not ready: the application does not start; {address} shows why{next}"));
            self.owes_ready = true;
        }
    }

    fn say_ready(&mut self, prepared: Option<&Prepared>) {
        let owes = std::mem::take(&mut self.owes_ready);
        match self.address_to_say(prepared) {
            Some(address) => self.say(&format!("ready: {address}")),
            None if owes => self.say("ready"),
            None => {}
        }
    }

    /// Where the server is reached, if that is to be said: once, when it listens.
    fn address_to_say(&mut self, prepared: Option<&Prepared>) -> Option<String> {
        if self.has_said || !self.listens {
            return None;
        }
        let addresses = prepared?.announcement();
        self.has_said = true;
        let addresses: Vec<&str> = addresses.iter().filter_map(|line| line.split("  ").next()).collect();
        Some(addresses.join(" "))
    }

    fn say(&self, line: &str) {
        if self.is_on {
            // A missing reader is no reason not to serve.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }
}

fn process_name(slot: SlotId, prepared: Option<&Prepared>) -> String {
    let pool = prepared.and_then(|prepared| prepared.config.pools.get(usize::from(slot.pool)));
    format!("{}/{}", pool.map_or("?", |pool| &pool.name), slot.slot)
}
