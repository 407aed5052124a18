//! Records for DNS-01 (RFC 8555 section 8.4): made, waited for, and removed when they are not needed any more, also by the agent
//! that comes after this one.
//!
//! | module | what it holds |
//! |---|---|
//! | [`message`] | messages of the DNS: pure |
//! | [`tsig`] | their signatures: pure |
//! | [`server`] | exchanges with name servers |

pub mod message;
mod server;
pub(crate) mod tsig;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::link::Link;
use super::messages::{HookCall, Start};
use super::store::{Record, Store};
use maitred_config::{Dns, DnsBy};
use message::Change;

/// Records that are made or removed at a time: hooks are processes.
const TURNS: usize = 4;
/// How often removing a record is tried, and how long after a failure.
const REMOVE_TRIES: u32 = 3;
const REMOVE_AGAIN: Duration = Duration::from_secs(5);
/// Records that are remembered; more than any agent makes at a time.
const RECORDS_MAX: usize = 1024;

/// See the module.
#[derive(Clone)]
pub(crate) struct Records {
    start: Arc<Start>,
    store: Arc<Store>,
    link: Link,
    /// The records that are there, or may be.
    present: Arc<Mutex<Vec<Record>>>,
    turns: Arc<Semaphore>,
}

/// A record that is there until this is dropped.
pub(crate) struct Added {
    records: Records,
    record: Record,
}

impl Records {
    /// Removes what an agent before this one has left.
    pub(crate) fn new(start: Arc<Start>, store: Arc<Store>, link: Link) -> Records {
        let left = store.records();
        let turns = Arc::new(Semaphore::new(TURNS));
        let records = Records { start, store, link, present: Arc::new(Mutex::new(left.clone())), turns };
        for record in left.into_iter().take(RECORDS_MAX) {
            records.let_go(record);
        }
        records
    }

    /// Adds the record that proves a name with this text, and returns when the name servers show it.
    ///
    /// # Errors
    /// A text; the record may be there then, and is removed.
    pub(crate) async fn add(&self, name: &str, text: String) -> Result<Added, String> {
        let name = format!("{}{}", HookCall::PREFIX, name.strip_prefix("*.").unwrap_or(name));
        let dns = self.dns(&name).ok_or_else(|| format!("no [[acme.dns]] covers {name}"))?;
        let record = Record { name, text };
        self.remember(|present| {
            if present.len() >= RECORDS_MAX {
                present.remove(0);
            }
            present.push(record.clone());
        })?;
        let added = Added { records: self.clone(), record };
        let Record { name, text } = &added.record;
        self.change(dns, name, text, true).await?;
        let end = Instant::now() + dns.timeout;
        let own = match &dns.by {
            DnsBy::Update(update) if dns.check.is_empty() => Some(update.server),
            _ => None,
        };
        for server in dns.check.iter().copied().chain(own) {
            server::wait_for(server, name, text, end).await?;
        }
        tracing::debug!("the record {name} is there");
        Ok(added)
    }

    fn dns(&self, name: &str) -> Option<&Dns> {
        self.start.acme.dns_for(name.strip_prefix(HookCall::PREFIX).unwrap_or(name))
    }

    async fn change(&self, dns: &Dns, name: &str, text: &str, add: bool) -> Result<(), String> {
        let _turn = self.turns.acquire().await.map_err(|error| error.to_string())?;
        let whole = async {
            match &dns.by {
                DnsBy::Update(config) => {
                    let change = if add { Change::Add(config.ttl) } else { Change::Remove };
                    server::update(config, name, text, change).await
                }
                DnsBy::Hook(_) => {
                    self.link.hook(HookCall { add, name: name.to_owned(), text: text.to_owned() }).await
                }
            }
        };
        let late = || Err(format!("{name}: it took longer than {} s", dns.timeout.as_secs()));
        // The master ends a hook then, and says so.
        let slack = Duration::from_secs(10);
        tokio::time::timeout(dns.timeout + slack, whole).await.unwrap_or_else(|_| late())
    }

    /// Removes a record, in its own time.
    fn let_go(&self, record: Record) {
        let records = self.clone();
        tokio::spawn(async move {
            for tries in 1..=REMOVE_TRIES {
                let Some(dns) = records.dns(&record.name) else { break };
                match records.change(dns, &record.name, &record.text, false).await {
                    Ok(()) => {
                        tracing::debug!("the record {} is removed", record.name);
                        break;
                    }
                    Err(why) if tries == REMOVE_TRIES => {
                        tracing::warn!("the record {} may still be there: {why}", record.name);
                    }
                    Err(why) => {
                        tracing::debug!("the record {} is not removed yet: {why}", record.name);
                        tokio::time::sleep(REMOVE_AGAIN).await;
                    }
                }
            }
            if let Err(error) = records.remember(|present| {
                if let Some(at) = present.iter().position(|one| *one == record) {
                    present.remove(at);
                }
            }) {
                tracing::warn!("{error}");
            }
        });
    }

    /// Changes what is remembered beyond the end of this process.
    fn remember(&self, change: impl FnOnce(&mut Vec<Record>)) -> Result<(), String> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut present);
        self.store.keep_records(&present).map_err(|error| error.to_string())
    }
}

impl Drop for Added {
    fn drop(&mut self) {
        self.records.let_go(self.record.clone());
    }
}
