//! What helper threads do for commands of the operator about the cache: purges, and what is kept for a URL. The connection of the
//! command waits for it, as for the master ([`Message::CommandDone`]).

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use maitred_http::cache::{Rules, put_variant_key};
use maitred_http::request::{HeadRoom, RequestHead};
use serde_json::{Value, json};

use super::inbox::Message;
use super::kept::{BESIDES, lifetime_of, variant_key};
use super::shared::Shared;
use crate::keys::ConnId;
use maitred_cache::{Body, Entry, Found, Job, Key, Kind, Outcome, Purge, PurgeError, Store};
use maitred_control::Document;
use maitred_files::DiskJob;

/// The operator hears of a purge that goes on after this time, and then again.
const REPORT_EVERY: Duration = Duration::from_secs(5);

const BUSY: &str = "helper threads have too much to do (`disk_threads`): try again later";

/// The connection that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    pub(super) thread: usize,
    pub(super) connection: ConnId,
    /// The connection may be sent interim responses.
    pub(super) interim: bool,
}

/// What is to be shown.
#[derive(Debug)]
pub(super) struct Shown {
    /// The keys that the URL may have, with the rules for what varies, and whether it is only shown if something is there.
    pub(super) keys: Vec<(Vec<u8>, Rules, bool)>,
    /// A route of the site keeps responses.
    pub(super) is_cached: bool,
    /// The request whose response it is.
    pub(super) head: RequestHead,
    /// Seconds since 1970.
    pub(super) now: u64,
}

/// A purge that is under way.
#[derive(Debug)]
struct Purging {
    jobs: Vec<Job>,
    soft: bool,
    files: u64,
    failed: Option<io::Error>,
    asker: Asker,
    reported: Instant,
}

impl Shared {
    /// Purges responses: from now on they are not found, or are stale. Helper threads do the rest, and answer.
    ///
    /// # Errors
    /// Why that cannot be. What has been begun goes on then.
    pub(super) fn purge_cache(
        &'static self,
        purges: Vec<Purge>,
        soft: bool,
        asker: Asker,
    ) -> Result<(), String> {
        let store = self.cache.as_ref().ok_or("there is no cache")?;
        let jobs: Result<Vec<Job>, PurgeError> =
            purges.into_iter().map(|purge| store.purge(purge, soft)).collect();
        let jobs = jobs.map_err(|error| match error {
            PurgeError::Busy => "too many purges are under way: wait until some of them are done",
            PurgeError::TooLong => "what is to be purged is too long to be a key",
        })?;
        let reported = Instant::now();
        let purging = Purging { jobs, soft, files: 0, failed: None, asker, reported };
        match self.submit_purging(purging) {
            None => Ok(()),
            // The purge holds already, and the files go with the next process at the latest.
            Some(_) => Err(BUSY.to_owned()),
        }
    }

    /// Gives it back if helpers have too much to do.
    fn submit_purging(&'static self, purging: Purging) -> Option<Purging> {
        let asker = purging.asker;
        let cell = Arc::new(Mutex::new(Some(purging)));
        let taken = Arc::clone(&cell);
        let job = DiskJob::task(move || {
            if let Some(purging) = taken.lock().unwrap_or_else(PoisonError::into_inner).take() {
                self.go_on_purging(purging);
            }
        });
        match self.disk.submit(job, self.on_failure(asker)) {
            Ok(()) => None,
            Err(_) => cell.lock().unwrap_or_else(PoisonError::into_inner).take(),
        }
    }

    /// Does a part, and lets others have the helper thread then.
    fn go_on_purging(&'static self, mut purging: Purging) {
        loop {
            match purging.jobs.pop().map(Job::run) {
                None => return self.answer_purge(purging),
                Some(Outcome::Again(job)) => purging.jobs.push(job),
                Some(Outcome::Purged { files, failed }) => {
                    purging.files += files;
                    purging.failed = purging.failed.take().or(failed);
                }
                Some(Outcome::Trouble(trouble)) => {
                    purging.failed = purging.failed.take().or(Some(trouble.error));
                }
                Some(Outcome::Done | Outcome::Loaded(_)) => {}
            }
            if purging.reported.elapsed() >= REPORT_EVERY {
                purging.reported = Instant::now();
                let Asker { thread, connection, interim } = purging.asker;
                let text = "the files of what was purged are removed".to_owned();
                self.answer(thread, Message::CommandWaits { connection, interim, text });
            }
            match self.submit_purging(purging) {
                None => return,
                Some(same) => purging = same,
            }
        }
    }

    fn answer_purge(&self, purging: Purging) {
        let Purging { soft, files, failed, asker, .. } = purging;
        tracing::info!(files, soft, "responses of the cache were purged");
        let Some(error) = failed else {
            return self.answer_with(asker, &json!({ "files": files, "soft": soft }));
        };
        tracing::warn!(%error, "some files of the cache could not be purged");
        let text = format!(
            "what was purged is not given any more, but some of its files could not be changed: {error}. The next worker process \
             tries again; see to the directory of [cache], then `maitred reload`"
        );
        self.answer_failure(asker, text);
    }

    /// Has a helper thread look for what is kept, and answer.
    ///
    /// # Errors
    /// Why that cannot be.
    pub(super) fn show_cached(&'static self, shown: Shown, asker: Asker) -> Result<(), String> {
        let job = DiskJob::task(move || {
            let Some(store) = &self.cache else { return };
            let found = |(text, rules, if_there): &(Vec<u8>, Rules, bool)| {
                let value = self.shown(store, &shown, text, rules);
                (!if_there || value["state"] != "nothing" || !value["varies"].is_null()).then_some(value)
            };
            let keys = shown.keys.iter().filter_map(found);
            self.answer_with(asker, &json!({ "keys": keys.collect::<Vec<_>>() }));
        });
        self.disk.submit(job, self.on_failure(asker)).map_err(|_| BUSY.to_owned())
    }

    /// What is known about a key.
    fn shown(&self, store: &Store, shown: &Shown, text: &[u8], rules: &Rules) -> Value {
        let primary = store.key(text);
        let show = |state: &str, why: Option<&str>| json!({ "key": String::from_utf8_lossy(text), "state": state, "why": why });
        let reason = self.fills.reason(text);
        let mut found = find(store, &primary, shown.now);
        let mut names = Vec::new();
        if let Ok(Some(entry)) = &found
            && let Kind::Vary { names: all, epoch } = &entry.head.kind
        {
            names = all.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
            if names.iter().any(|name| name == BESIDES) {
                let why = "each client, or each target that the pool is asked for, has a response of its own";
                return show("of each client", Some(why));
            }
            let mut room = HeadRoom::default();
            let Some(request) = shown.head.view(&mut room) else { return show("nothing", None) };
            let mut variant = Vec::new();
            put_variant_key(&names.join(","), &request, rules, &mut variant);
            found = find(store, &store.key(&variant_key(text, *epoch, &variant)), shown.now);
        }
        let mut value = match found {
            Ok(Some(entry)) => return of_entry(&entry, text, &names, shown.now),
            Err(Missing::Passed) => show("not kept", reason.or(Some("the last response could not be kept"))),
            Err(Missing::Error(error)) => show("nothing", Some(&format!("its file cannot be read: {error}"))),
            Ok(None) if !names.is_empty() => show(
                "nothing",
                Some("there are responses for requests with other fields (Vary): name them by `field`"),
            ),
            Ok(None) if !shown.is_cached => {
                show("nothing", Some("no route of the site of this host has `cache`"))
            }
            Ok(None) => show("nothing", reason),
        };
        if !names.is_empty() {
            value["varies"] = names.into();
        }
        value
    }

    fn on_failure(&'static self, asker: Asker) -> maitred_files::disk::Done {
        Box::new(move |result: io::Result<()>| {
            if let Err(error) = result {
                self.answer_failure(asker, format!("a helper thread has failed: {error}"));
            }
        })
    }

    fn answer_failure(&self, asker: Asker, text: String) {
        let Asker { thread, connection, .. } = asker;
        self.answer(thread, Message::CommandDone { connection, well: false, text });
    }

    fn answer_with(&self, asker: Asker, value: &Value) {
        let Asker { thread, connection, .. } = asker;
        let document = Document {
            status: 200,
            content_type: "application/json".to_owned(),
            etag: None,
            text: format!("{value}\n"),
        };
        self.answer(thread, Message::CommandDocument { connection, document: Box::new(document) });
    }

    fn answer(&self, thread: usize, message: Message) {
        if let Some(inbox) = self.inboxes.get(thread) {
            inbox.send(message);
        }
    }
}

/// Why there is nothing.
enum Missing {
    /// The response is not to be kept.
    Passed,
    Error(io::Error),
}

/// What the store has, wherever it is.
fn find(store: &Store, key: &Key, now: u64) -> Result<Option<Arc<Entry>>, Missing> {
    match store.find(key, now) {
        Found::Entry(entry) => Ok(Some(entry)),
        Found::Nothing => Ok(None),
        Found::Pass => Err(Missing::Passed),
        Found::OnDisk(job) => match job.run() {
            Outcome::Loaded(Ok(entry)) => Ok(entry),
            Outcome::Loaded(Err(error)) => Err(Missing::Error(error)),
            _ => Ok(None),
        },
    }
}

/// A response that is kept.
fn of_entry(entry: &Entry, key: &[u8], names: &[String], now: u64) -> Value {
    let lifetime = lifetime_of(entry);
    let tags = |kind: &[u8]| -> Vec<String> {
        let of_kind = entry.head.tags.iter().filter_map(|tag| tag.strip_prefix(kind));
        of_kind.map(|tag| String::from_utf8_lossy(tag).into_owned()).collect()
    };
    let fresh = lifetime.is_some_and(|lifetime| lifetime.is_fresh(now));
    json!({
        "key": String::from_utf8_lossy(key),
        "state": if fresh { "fresh" } else { "stale" },
        "status": entry.head.status,
        "age": lifetime.map(|lifetime| lifetime.age(now)),
        "ttl": lifetime.map(|lifetime| lifetime.ttl(now)),
        "kept_until": entry.head.keep_until,
        "bytes": entry.body.len(),
        "in": match entry.body { Body::Memory(_) => "memory", Body::File { .. } => "file" },
        "soft_purged": entry.is_soft_purged(),
        "varies": names,
        "tags": tags(b"k "),
        "groups": tags(b"g "),
    })
}
