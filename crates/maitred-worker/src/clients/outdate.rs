//! What a response that passes by says about others that the cache keeps: one to an unsafe method makes them invalid (RFC 9111
//! section 4.4), one to HEAD shows whether they are still what they were (section 4.3.5).

use maitred_http::cache::{
    HeadUpdate, Rules, Tag, Target, Times, Wanted, Why, for_each_invalidated, for_each_invalidated_group,
    freshen, head_updates, invalidates, overridden,
};
use maitred_http::fields::FieldLines;
use maitred_http::request::{HeadRoom, Method, RequestHead};
use maitred_http::response::ResponseHead;

use super::Clients;
use crate::kept::{self, ToldApart, primary_text};
use crate::keys::ConnKey;
use maitred_cache::{Fetch, Found, Head, Kind, Purge, Store};
use maitred_policy::filter::cache::Caching;
use maitred_policy::plan::Plan;

/// A request whose response is looked at.
#[derive(Debug)]
pub(super) struct Watched {
    store: &'static Store,
    /// What the routes of its site keep: what it makes invalid is so for all of them.
    cachings: Vec<&'static Caching>,
    head: RequestHead,
    /// The method that its application takes it for.
    method: Method,
    https: bool,
    times: Times,
    /// What is kept is updated by this, by these rules, in case of HEAD.
    update: Option<(Fetch, Wanted, &'static Rules)>,
    jobs: Vec<maitred_cache::Job>,
}

impl Clients {
    /// The request of a connection, if its response has to be looked at.
    #[inline]
    pub(super) fn watched(&self, index: ConnKey, plan: &'static Plan) -> Option<Watched> {
        if plan.site_keeps { self.watched_by(index, plan) } else { None }
    }

    #[cold]
    fn watched_by(&self, index: ConnKey, plan: &'static Plan) -> Option<Watched> {
        let store = self.shared.cache.as_ref()?;
        let connection = &self.connections[index];
        let exchange = connection.exchange.as_deref().filter(|_| !connection.internal)?;
        let mut room = HeadRoom::default();
        let request = exchange.head.view(&mut room)?;
        let https = self.origin(index, &request).https;
        let method = overridden(&request).unwrap_or(request.method);
        if matches!(method, Method::Get | Method::Options | Method::Trace | Method::Connect) {
            return None;
        }
        let mut head = RequestHead::default();
        head.copy_from(&exchange.head);
        let of_head =
            plan.cache.as_deref().filter(|_| request.method == Method::Head && method == Method::Head);
        let update = of_head.map(|caching| {
            let client = self.told_apart(index, &request, plan, caching);
            let key = store.key(&primary_text(&kept::target(&request, https), &request, caching, &client));
            (store.fetch(&key), kept::wanted(&request, caching, &client), &caching.rules)
        });
        let taken = self.clock.now.saturating_duration_since(connection.began);
        let (wall, kept_at) = (self.clock.unix_secs, self.clock.steady_secs());
        let times =
            Times { request_time: wall.saturating_sub(taken.as_secs()), response_time: wall, kept_at };
        let cachings =
            if update.is_some() { Vec::new() } else { self.shared.router.cachings(plan.site).collect() };
        Some(Watched { store, cachings, head, method, https, times, update, jobs: Vec::new() })
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
        if let Some((fetch, wanted, rules)) = self.update.take() {
            self.jobs.extend(update(store, &fetch, head, (&wanted, self.times, rules)));
        }
        if !invalidates(self.method, head.status) {
            return;
        }
        // What was kept for any client that is told apart is as old as what all others have.
        for caching in &self.cachings {
            for client in [ToldApart::NoOne, ToldApart::Someone] {
                for_each_invalidated(&target, head, |target: &Target<'_>| {
                    let text = primary_text(target, &request, caching, &client);
                    self.jobs.push(store.remove(&store.key(&text)));
                });
            }
        }
        let Some(caching) = self.cachings.first() else { return };
        let text = primary_text(&target, &request, caching, &ToldApart::NoOne);
        let host = kept::origin_of(&text);
        for_each_invalidated_group(head, |group| {
            let tag = kept::tag_text(Tag::Group(group), host);
            self.jobs.extend(store.purge(Purge::Tag(tag), false));
        });
    }
}

/// What the response to HEAD says about the one to GET that is kept.
fn update(
    store: &Store,
    fetch: &Fetch,
    head: &ResponseHead<'_>,
    (wanted, times, rules): (&Wanted, Times, &Rules),
) -> Option<maitred_cache::Job> {
    let Found::Entry(entry) = store.find(fetch.key(), times.kept_at) else { return None };
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
                // What this client may see says nothing about others.
                Err(Why::Authorization) => return None,
                Err(_) => return Some(store.remove(fetch.key())),
            }
        }
    };
    let head = Head { fields, lifetime: kept::encode(&lifetime), ..entry.head.clone() };
    store.update(fetch, &entry, head).1
}
