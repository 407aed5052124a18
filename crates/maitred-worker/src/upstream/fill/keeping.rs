//! What is kept of a response that was fetched for the cache, and under which key.

use std::sync::Arc;

use maitred_http::cache::{
    self, Asked, Lifetime, Rules, Times, Vary, Wanted, Why, for_each_tag, freshen, may_serve_on_error,
    put_conditions, put_stored_fields, split_fields, storable, updates, vary,
};
use maitred_http::fields::{FRAMING_FIELDS, FieldLines};
use maitred_http::request::{HeadRoom, Method, RequestHead};
use maitred_http::response::{Encode, Ending, FramedHead, ResponseHead};

use super::writing::Piece;
use crate::fills::Variant;
use crate::kept::{BESIDES, decode, encode, lifetime_of, origin_of, tag_text, variant_key, variant_text};
use maitred_base::clock::Clock;
use maitred_cache::{Entry, Fetch, Found, Head, Job, Key, Kind, Store};
use maitred_files::exchange::named_file::NamedFile;
use maitred_policy::filter::cache::Caching;

/// For so many seconds it is known of a response that is good for nothing any more that it was there: to say so.
const KNOWN_SECS: u64 = 60;

/// The request that a response was fetched for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) caching: &'static Caching,
    pub(crate) wanted: Wanted,
    pub(crate) head: RequestHead,
    /// The key of the request, without what the response varies with.
    pub(crate) primary: Key,
    /// What it is stored by, if it is that of the resource.
    pub(crate) fetch: Fetch,
    /// What is kept is updated by this.
    pub(crate) update: Option<Fetch>,
    /// What is kept, and was asked about.
    pub(crate) stale: Option<Arc<Entry>>,
    /// What its response depends on besides its key and the fields that it varies with.
    pub(crate) besides: Vec<u8>,
    /// Something that the client has sent was left out, because the key does not have it.
    pub(crate) reduced: bool,
    /// When it was sent.
    pub(crate) at: Now,
    /// Responses may name files in their place.
    pub(crate) names_files: bool,
}

/// The time, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// By the wall clock, as dates in responses have it.
    pub(crate) wall: u64,
    /// By a clock that is never set back, as ages are counted.
    pub(crate) steady: u64,
}

impl Now {
    pub(crate) fn of(clock: &Clock) -> Now {
        Now { wall: clock.unix_secs, steady: clock.steady_secs() }
    }
}

/// What has come of a response.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    status: u16,
    /// Without those that frame it.
    fields: FieldLines,
    length: Option<u64>,
    content: Vec<u8>,
}

/// What becomes of a response.
#[derive(Debug)]
pub(crate) enum Judged {
    /// The response is kept.
    Keep(Box<Keeping>),
    /// What is kept is still good; these fields are for the client alone that has asked.
    Validated(Arc<Entry>, Option<Job>, FieldLines),
    /// What is stale is given in its place.
    Instead(Arc<Entry>),
    /// The response is not kept.
    NotKept {
        /// The next response will not be kept either, so that requests do not wait for it.
        passes: bool,
        /// The response is an error of the pool.
        failed: bool,
        /// In words, for those who ask.
        why: &'static str,
    },
    /// The response answers a condition that the client has not made: all requests go to the pool by themselves.
    Unusable(Option<Job>),
}

/// What is kept, while its content comes.
#[derive(Debug)]
pub(crate) struct Keeping {
    fetch: Fetch,
    head: Head,
    bytes_max: u64,
    variant: Option<Arc<Variant>>,
    /// Notes that the response varies, for the store.
    note: Option<(Fetch, Head)>,
}

impl Encode for Taken {
    fn interim(&mut self, _head: &ResponseHead<'_>) {}

    fn head(&mut self, head: &ResponseHead<'_>, _ending: &Ending) {
        self.status = head.status;
        head.for_each(|name, value| {
            if name.eq_ignore_ascii_case(b"content-length") {
                self.length = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
            }
            let frames = |framing: &str| name.eq_ignore_ascii_case(framing.as_bytes());
            if !FRAMING_FIELDS.iter().any(|framing| frames(framing)) {
                self.fields.push(name, value);
            }
        });
    }

    fn content(&mut self) -> &mut Vec<u8> {
        &mut self.content
    }
}

impl Taken {
    pub(crate) fn has_head(&self) -> bool {
        self.status != 0
    }

    pub(crate) fn take_content(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.content)
    }

    fn head(&self) -> ResponseHead<'_> {
        ResponseHead::own(self.status, self.fields.all())
    }

    /// The head as it has come.
    pub(crate) fn framed(&self) -> FramedHead {
        self.framed_with(&self.fields)
    }

    /// The head for all who are answered while the content comes, and the fields that only the one has who has asked for it.
    pub(crate) fn shared(&self, rules: &Rules, now: u64) -> (FramedHead, FieldLines) {
        let (mut shared, mut own) = (FieldLines::default(), FieldLines::default());
        split_fields(&self.head(), now, rules, &mut shared, &mut own);
        (self.framed_with(&shared), own)
    }

    fn framed_with(&self, lines: &FieldLines) -> FramedHead {
        let mut fields = FieldLines::default();
        for (name, value) in lines.all().iter() {
            fields.push(&name.to_ascii_lowercase(), value);
        }
        FramedHead { status: self.status, content_length: self.length, fields, ended: false }
    }
}

impl Request {
    /// Whether the response names a file in its place.
    pub(crate) fn names_file(&self, taken: &Taken) -> bool {
        self.names_files && NamedFile::of(&taken.head()).is_some()
    }

    /// What becomes of the response.
    pub(crate) fn judge(&self, store: &Store, taken: &Taken, clock: Now) -> Judged {
        let (head, rules) = (taken.head(), &self.caching.rules);
        // The client's own range and conditions did not go along.
        let mut wanted = self.wanted;
        (wanted.method, wanted.range, wanted.precondition) = (Method::Get, false, false);
        let (now, waited) = (clock.steady, clock.steady.saturating_sub(self.at.steady));
        let times = Times {
            request_time: clock.wall.saturating_sub(waited),
            response_time: clock.wall,
            kept_at: now,
        };
        if let Some(stale) = &self.stale {
            let mut conditions = FieldLines::default();
            put_conditions(stale.head.fields.all(), &mut conditions);
            if taken.status == 304 && !conditions.is_empty() {
                return self.judge_unchanged(store, stale, &head, &wanted, times);
            }
            let grace =
                lifetime_of(stale).is_some_and(|lifetime| may_serve_on_error(&lifetime, &wanted, now));
            if cache::is_error(taken.status) && grace {
                return Judged::Instead(Arc::clone(stale));
            }
        }
        if taken.status == 304 {
            return Judged::Unusable(None);
        }
        let failed = cache::is_error(taken.status);
        let too_long = taken.length.is_some_and(|length| length > self.caching.object_bytes_max);
        let endless = taken.fields.all().get(b"content-type").is_some_and(is_event_stream);
        let names_file = self.names_file(taken);
        let why = match () {
            () if too_long => Some("it is larger than `object_bytes_max`"),
            () if endless => Some("it is a stream of events"),
            () if names_file => Some("it names a file in its place"),
            () => None,
        };
        if let Some(why) = why {
            return Judged::NotKept { passes: true, failed, why };
        }
        match storable(&wanted, &head, times, rules) {
            Ok(lifetime) => match self.keeping(store, &head, &lifetime) {
                Some(keeping) => Judged::Keep(Box::new(keeping)),
                None => Judged::NotKept { passes: false, failed, why: Why::Vary.text() },
            },
            // The causes are about the request: the response to another client may be kept.
            Err(why @ (Why::Authorization | Why::RequestNoStore)) => {
                Judged::NotKept { passes: false, failed, why: why.text() }
            }
            Err(why) => Judged::NotKept { passes: !failed, failed, why: why.text() },
        }
    }

    /// The pool says that what is kept is still good.
    fn judge_unchanged(
        &self,
        store: &Store,
        stale: &Arc<Entry>,
        head: &ResponseHead<'_>,
        wanted: &Wanted,
        times: Times,
    ) -> Judged {
        let kept = stale.head.fields.all();
        if !updates(kept, head, Asked::One) {
            return Judged::Unusable(None);
        }
        let (mut fields, mut own) = (FieldLines::default(), FieldLines::default());
        split_fields(head, times.response_time, &self.caching.rules, &mut FieldLines::default(), &mut own);
        match freshen((stale.head.status, kept), head, wanted, times, &self.caching.rules, &mut fields) {
            Ok(lifetime) => {
                let head = self.head_of(&ResponseHead::own(stale.head.status, fields.all()), &lifetime);
                let Some(update) = &self.update else { return Judged::Unusable(None) };
                let (entry, job) = store.update(update, stale, Head { fields, ..head });
                Judged::Validated(entry, job, own)
            }
            Err(Why::Authorization) => Judged::Unusable(None),
            Err(_) => Judged::Unusable(Some(store.remove(&store.key(stale.key())))),
        }
    }

    fn keeping(&self, store: &Store, head: &ResponseHead<'_>, lifetime: &Lifetime) -> Option<Keeping> {
        let mut fields = FieldLines::default();
        put_stored_fields(head, lifetime, &self.caching.rules, &mut fields);
        let stored = Head { fields, ..self.head_of(head, lifetime) };
        let named = match vary(head) {
            Vary::Any => return None,
            Vary::Nothing if self.besides.is_empty() => None,
            Vary::Nothing => Some(Box::from(BESIDES)),
            Vary::Fields(names) if self.besides.is_empty() => Some(names),
            Vary::Fields(names) => Some(format!("{BESIDES},{names}").into()),
        };
        let (fetch, variant, note) = match named {
            None => (self.fetch.clone(), None, None),
            Some(names) => {
                let (epoch, note) = self.epoch_of(store, &names)?;
                let variant = self.variant(&names)?;
                let key = store.key(&variant_key(self.primary.text(), epoch, &variant.text));
                (store.fetch_variant(&self.fetch, &key), Some(Arc::new(variant)), note)
            }
        };
        let bytes_max = self.caching.object_bytes_max;
        Some(Keeping { fetch, head: stored, bytes_max, variant, note })
    }

    /// What of the head is no field.
    fn head_of(&self, head: &ResponseHead<'_>, lifetime: &Lifetime) -> Head {
        let mut tags = Vec::new();
        let origin = origin_of(self.primary.text());
        for_each_tag(head, |tag| tags.push(tag_text(tag, origin)));
        let (mut can_be_validated, all) = (false, ["etag", "last-modified"]);
        head.for_each(|name, _| {
            can_be_validated |= all.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
        });
        Head {
            kind: Kind::Response,
            status: head.status,
            fields: FieldLines::default(),
            lifetime: encode(lifetime),
            // What can be validated is of use as long as there is room.
            keep_until: match can_be_validated {
                true => u64::MAX,
                false => lifetime.useful_until().saturating_add(KNOWN_SECS),
            },
            tags,
        }
    }

    /// The number that keys of the variants contain, and a note about these names if there is none yet.
    fn epoch_of(&self, store: &Store, names: &str) -> Option<(u64, Option<(Fetch, Head)>)> {
        let listed: Vec<Box<[u8]>> = names.split(',').map(|name| name.as_bytes().into()).collect();
        if let Found::Entry(entry) = store.find(&self.primary, self.at.steady)
            && let Kind::Vary { names, epoch } = &entry.head.kind
            && *names == listed
        {
            return Some((*epoch, None));
        }
        let epoch = store.epoch();
        let kind = Kind::Vary { names: listed, epoch };
        let head = Head { kind, keep_until: u64::MAX, ..Head::default() };
        Some((epoch, Some((self.fetch.clone(), head))))
    }

    fn variant(&self, names: &str) -> Option<Variant> {
        let mut room = HeadRoom::default();
        let request = self.head.view(&mut room)?;
        let text = variant_text(names, &request, self.caching, &self.besides);
        Some(Variant { names: names.into(), text: text.into() })
    }
}

impl Keeping {
    /// What tells requests apart that it answers.
    pub(crate) fn variant(&self) -> Option<Arc<Variant>> {
        self.variant.clone()
    }

    /// How long it is good.
    pub(crate) fn lifetime(&self) -> Option<Lifetime> {
        decode(&self.head.lifetime)
    }

    /// Whether it is kept if it has so many bytes.
    pub(crate) fn may_have(&self, bytes: u64) -> bool {
        bytes <= self.bytes_max
    }

    /// Keeps it, with all of its content.
    pub(crate) fn put(mut self: Box<Self>, store: &Store, body: Arc<[u8]>) -> (Arc<Entry>, Vec<Job>) {
        let mut jobs = self.note(store);
        let (entry, job) = store.put(&self.fetch, self.head, body);
        jobs.extend(job);
        (entry, jobs)
    }

    /// Notes that it varies.
    pub(crate) fn note(&mut self, store: &Store) -> Vec<Job> {
        let note = self.note.take();
        note.and_then(|(fetch, head)| store.put(&fetch, head, Arc::from([])).1).into_iter().collect()
    }

    /// A piece of the content, for a file.
    pub(crate) fn piece(&self, content: Vec<u8>, last: bool) -> Piece {
        Piece { content, last, fetch: self.fetch.clone(), head: self.head.clone(), bytes_max: self.bytes_max }
    }
}

/// Streams of events have no end, and are for one client each.
fn is_event_stream(value: &[u8]) -> bool {
    value
        .get(.."text/event-stream".len())
        .is_some_and(|start| start.eq_ignore_ascii_case(b"text/event-stream"))
}
