//! What a response that passes by says about others that the cache keeps: one to an unsafe method makes them invalid (RFC 9111
//! section 4.4), one to HEAD shows whether they are still what they were (section 4.3.5).

use maitred_http::cache::{
    HeadUpdate, Rules, Tag, Target, Times, Wanted, for_each_invalidated, for_each_invalidated_group, freshen,
    head_updates, invalidates, put_key,
};
use maitred_http::fields::FieldLines;
use maitred_http::request::{HeadRoom, Method, RequestHead};
use maitred_http::response::ResponseHead;

use super::Clients;
use crate::kept;
use maitred_cache::{Fetch, Found, Head, Kind, Purge, Store};
use maitred_policy::filter::cache::Caching;
use maitred_policy::plan::Plan;

/// A request whose response is looked at.
#[derive(Debug)]
pub(super) struct Watched {
    store: &'static Store,
    caching: &'static Caching,
    head: RequestHead,
    https: bool,
    /// When it was sent, and the present time, in seconds since 1970.
    at: u64,
    now: u64,
    /// What is kept is updated by this, in case of HEAD.
    fetch: Option<Fetch>,
    jobs: Vec<maitred_cache::Job>,
}

impl Clients {
    /// The request of a connection, if its response has to be looked at.
    #[inline]
    pub(super) fn watched(&self, index: u32, plan: &'static Plan) -> Option<Watched> {
        let caching = plan.cache.as_deref()?;
        self.watched_by(index, caching)
    }

    #[cold]
    fn watched_by(&self, index: u32, caching: &'static Caching) -> Option<Watched> {
        let store = self.shared.cache.as_ref()?;
        let connection = &self.connections[index as usize];
        let exchange = connection.exchange.as_deref().filter(|_| !connection.internal)?;
        let mut room = HeadRoom::default();
        let request = exchange.head.view(&mut room)?;
        let https = self.origin(index, &request).https;
        let method = request.method;
        if matches!(method, Method::Get | Method::Options | Method::Trace | Method::Connect) {
            return None;
        }
        let mut head = RequestHead::default();
        head.copy_from(&exchange.head);
        let fetch = (method == Method::Head).then(|| {
            let mut text = Vec::new();
            put_key(&kept::target(&request, https), &request, (&caching.keys, &caching.rules), &mut text);
            store.fetch(&store.key(&text))
        });
        let now = self.clock.unix_secs;
        let taken = self.clock.now.saturating_duration_since(connection.began);
        let at = now.saturating_sub(taken.as_secs());
        Some(Watched { store, caching, head, https, at, now, fetch, jobs: Vec::new() })
    }

    /// Has done what the response has said.
    pub(super) fn finish_watching(&self, watched: Option<Watched>) {
        for job in watched.into_iter().flat_map(|watched| watched.jobs) {
            self.shared.run_cache_job(job);
        }
    }
}

impl Watched {
    /// Looks at the head of the response.
    pub(super) fn see(&mut self, head: &ResponseHead<'_>) {
        let store = self.store;
        let mut room = HeadRoom::default();
        let Some(request) = self.head.view(&mut room) else { return };
        let target = kept::target(&request, self.https);
        let caching = self.caching;
        match self.fetch.take() {
            Some(fetch) => {
                let wanted = Wanted::of(&request, &caching.rules);
                let times = Times { request_time: self.at, response_time: self.now };
                self.jobs.extend(update(store, &fetch, head, (&wanted, times, &caching.rules)));
            }
            None if invalidates(request.method, head.status) => {
                for_each_invalidated(&target, head, |target: &Target<'_>| {
                    let mut text = Vec::new();
                    put_key(target, &request, (&caching.keys, &caching.rules), &mut text);
                    self.jobs.push(store.remove(&store.key(&text)));
                });
                let mut text = Vec::new();
                put_key(&target, &request, (&caching.keys, &caching.rules), &mut text);
                let host = kept::origin_of(&text);
                for_each_invalidated_group(head, |group| {
                    let tag = kept::tag_text(Tag::Group(group), host);
                    self.jobs.extend(store.purge(Purge::Tag(tag), false));
                });
            }
            None => {}
        }
    }
}

/// What the response to HEAD says about the one to GET that is kept.
fn update(
    store: &Store,
    fetch: &Fetch,
    head: &ResponseHead<'_>,
    (wanted, times, rules): (&Wanted, Times, &Rules),
) -> Option<maitred_cache::Job> {
    let Found::Entry(entry) = store.find(fetch.key(), times.response_time) else { return None };
    if entry.head.kind != Kind::Response || entry.head.status != 200 {
        return None;
    }
    let stored = entry.head.fields.all();
    let lifetime = kept::lifetime_of(&entry)?;
    let mut fields = FieldLines::default();
    let lifetime = match head_updates(stored, head) {
        HeadUpdate::Nothing => return None,
        HeadUpdate::Outdated => {
            fields = entry.head.fields.clone();
            lifetime.outdated()
        }
        HeadUpdate::Update => {
            let mut wanted = *wanted;
            wanted.method = Method::Get;
            match freshen((200, stored), head, &wanted, times, rules, &mut fields) {
                Ok(lifetime) => lifetime,
                Err(_) => return Some(store.remove(fetch.key())),
            }
        }
    };
    let head = Head { fields, lifetime: kept::encode(&lifetime), ..entry.head.clone() };
    store.update(fetch, &entry, head).1
}
