//! Requests for a pool whose responses are kept: which of them are answered from the store, and which wait for what is fetched.
//!
//! | what the store has | the request |
//! |---|---|
//! | a response that is fresh | is answered |
//! | one that may be given stale while it is fetched anew | is answered, and begins a fill if none is under way |
//! | one that has to be validated | begins a fill with the conditions of what is kept, or waits for the one under way |
//! | nothing | begins a fill, or waits for the one under way |
//! | the mark of a response that is not kept | goes to the pool, as if there were no cache |
//! | something that is on the disk only | waits for a helper thread, and is looked at again |

use std::sync::Arc;

use maitred_http::cache::{
    CacheStatus, Consult, Fwd, Lifetime, Outcome, Use, Wanted, judge, put_cache_status, put_key,
    put_variant_key,
};
use maitred_http::request::{Method, Request};
use maitred_http::uri;

use super::Requests;
use super::cache_coding::Chosen;
use crate::connection::cached::Cached;
use crate::exchanges::fill::Begun;
use crate::exchanges::follow::CACHE_NAME;
use crate::fills::{Fill, How, Joined, Phase};
use crate::forward::sent_uri;
use crate::kept::{lifetime_of, target, variant_key};
use crate::step::{RequestInput, Step};
use maitred_cache::{Entry, Found, Key, Kind, Store};
use maitred_files::kept::Kept;
use maitred_files::{DiskJob, RequestContext, Served};
use maitred_policy::filter::cache::Caching;

/// How often a request waits for a helper thread that fetches something from the disk: a note that a response varies, and the
/// variant. What is not there then is asked of the pool.
const LOADS_MAX: u8 = 2;

/// What the store has for a request.
enum Looked {
    /// This response.
    Entry(Arc<Entry>),
    /// Nothing; if there are responses for other requests of its resource, the key of the one for this request.
    Nothing(Option<Key>),
    /// The mark of a response that is not kept.
    Pass,
    /// Something that a helper thread has to fetch.
    OnDisk(DiskJob),
}

impl Requests {
    /// Asks the store about a request. `None`: it goes to the pool, and what comes of it is not kept.
    pub(super) fn ask_cache(
        &mut self,
        index: u32,
        pool: usize,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Option<Step> {
        let caching: &'static Caching = given.routed.plan.cache.as_deref()?;
        let store = self.shared.cache.as_ref()?;
        let (request, connection) = (context.request, &self.connections[index as usize]);
        if connection.internal || request.upgrade || maitred_http::grpc::Form::of(request).is_some() {
            return None;
        }
        let note = connection.exchange.as_deref().and_then(|exchange| exchange.dispatch.cached.as_deref());
        if note.is_some_and(|note| note.alone) {
            self.note_cached(index, Cached::Miss);
            return None;
        }
        let loads = note.map_or(0, |note| note.loads);
        let wanted = Wanted::of(request, &caching.rules);
        if let Some(kept) = note.and_then(|note| note.kept.clone()) {
            let said = Said { caching, how: Some(kept.how), fwd: note.and_then(|note| note.forwarded) };
            match kept.how {
                How::Fetched => {}
                How::Validated => self.note_cached(index, Cached::Validated),
                How::InsteadOfError => self.note_cached(index, Cached::Stale),
            }
            return Some(self.answer_kept(index, request, given, &kept.entry, said));
        }
        if matches!(wanted.consult(), Consult::Bypass(_)) || !caching.cookies && has_cookies(request) {
            self.note_cached(index, Cached::Bypass);
            self.row.response_cache_bypassed.add(1);
            return None;
        }
        let primary = self.primary_key(index, store, request, (caching, self.sees_spelling(pool, given)));
        let looked = self.look(store, &primary, request, caching);
        let asked = Asked { caching, wanted, primary, variant: None, pool };
        match looked {
            Looked::Pass => {
                self.note_cached(index, Cached::Bypass);
                self.row.response_cache_bypassed.add(1);
                None
            }
            Looked::OnDisk(_) if given.warmed && loads >= LOADS_MAX => {
                self.fetch_for(index, request, given, asked, None, Fwd::Miss)
            }
            Looked::OnDisk(job) => {
                let note = self.exchange(index).dispatch.cached.get_or_insert_default();
                note.loads = note.loads.saturating_add(1);
                let reply = self.reply_context(index, request, given);
                Some(self.served(index, request, given, reply.persistence, Served::Blocked(job)))
            }
            Looked::Nothing(variant) => {
                let fwd = if variant.is_some() { Fwd::VaryMiss } else { Fwd::UriMiss };
                self.fetch_for(index, request, given, Asked { variant, ..asked }, None, fwd)
            }
            Looked::Entry(entry) => self.use_kept(index, request, given, asked, entry),
        }
    }

    fn note_cached(&mut self, index: u32, cached: Cached) {
        self.connections[index as usize].cached = cached;
    }

    /// The key of what a request is for, without what its response varies with.
    fn primary_key(
        &self,
        index: u32,
        store: &Store,
        request: &Request<'_, '_>,
        (caching, sees_spelling): (&Caching, bool),
    ) -> Key {
        let https = self.origin(index, request).https;
        let mut text = Vec::with_capacity(256);
        put_key(&target(request, https), request, (&caching.keys, &caching.rules), &mut text);
        if sees_spelling {
            self.put_spelling(request, &mut text);
        }
        store.key(&text)
    }

    /// Whether the application sees how the client has spelled the path.
    fn sees_spelling(&self, pool: usize, given: RequestInput<'_>) -> bool {
        let settings = self.shared.start.config.pools.get(pool).and_then(|pool| pool.source.fastcgi());
        given.routed.plan.front_controller.is_some() || settings.is_some_and(|settings| settings.uri_as_sent)
    }

    /// Adds the path to a key, if it is not in its canonical form: what is made for it is for no other spelling.
    fn put_spelling(&self, request: &Request<'_, '_>, key: &mut Vec<u8>) {
        let slashes = self.shared.start.config.server.encoded_slashes.into();
        let sent = sent_uri(request.target, slashes);
        let path = sent.split_once('?').map_or(&*sent, |(path, _)| path);
        let mut canonical = Vec::with_capacity(path.len());
        if uri::canonical_path(path, slashes, &mut canonical).is_err() || canonical != path.as_bytes() {
            key.extend_from_slice(b"path ");
            key.extend_from_slice(path.as_bytes());
            key.push(b'\n');
        }
    }

    /// What the store has for a request.
    fn look(&self, store: &Store, primary: &Key, request: &Request<'_, '_>, caching: &Caching) -> Looked {
        let now = self.clock.unix_secs;
        let found = |found: Found| match found {
            Found::Nothing => Looked::Nothing(None),
            Found::Pass => Looked::Pass,
            Found::OnDisk(job) => Looked::OnDisk(self.shared.cache_job(job)),
            Found::Entry(entry) => Looked::Entry(entry),
        };
        let entry = match found(store.find(primary, now)) {
            Looked::Entry(entry) => entry,
            other => return other,
        };
        let Kind::Vary { names, epoch } = &entry.head.kind else { return Looked::Entry(entry) };
        let mut variant = Vec::new();
        let names = names.iter().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>().join(",");
        put_variant_key(&names, request, &caching.rules, &mut variant);
        let key = store.key(&variant_key(primary.text(), *epoch, &variant));
        match found(store.find(&key, now)) {
            Looked::Nothing(_) => Looked::Nothing(Some(key)),
            other => other,
        }
    }

    /// Decides about a response that is there.
    fn use_kept(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        asked: Asked,
        entry: Arc<Entry>,
    ) -> Option<Step> {
        let (now, instant) = (self.clock.unix_secs, self.clock.now);
        let Some(lifetime) = lifetime_of(&entry) else {
            return self.fetch_for(index, request, given, asked, None, Fwd::Miss);
        };
        let said = Said { caching: asked.caching, how: None, fwd: None };
        match judge(&lifetime, &asked.wanted, now) {
            Use::Fresh { .. } => {
                self.note_cached(index, Cached::Hit);
                self.row.response_cache_hits.add(1);
                Some(self.answer_kept(index, request, given, &entry, said))
            }
            Use::Stale { refresh, .. } => {
                self.note_cached(index, Cached::Stale);
                self.row.response_cache_stale.add(1);
                let backs_off = self.shared.fills.is_backing_off(entry.key(), instant);
                if refresh && !backs_off {
                    self.refresh(index, request, given, &asked, &entry);
                }
                Some(self.answer_kept(index, request, given, &entry, said))
            }
            Use::OnlyIfCached504 => Some(self.site_error(index, request, given, (504, &[]))),
            Use::Validate => {
                let backs_off = self.shared.fills.is_backing_off(entry.key(), instant);
                let graced = maitred_http::cache::may_serve_on_error(&lifetime, &asked.wanted, now);
                if backs_off && graced {
                    self.note_cached(index, Cached::Stale);
                    self.row.response_cache_stale.add(1);
                    let said = Said { how: Some(How::InsteadOfError), ..said };
                    return Some(self.answer_kept(index, request, given, &entry, said));
                }
                let fwd = if lifetime.is_fresh(now) { Fwd::Request } else { Fwd::Stale };
                self.fetch_for(index, request, given, asked, Some(entry), fwd)
            }
        }
    }

    /// Fetches a response anew, behind the back of a client that gets what is stale.
    fn refresh(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        asked: &Asked,
        stale: &Arc<Entry>,
    ) {
        let Joined::Leads(fill) = self.shared.fills.join(stale.key()) else { return };
        let begun = Begun {
            fill: Arc::clone(&fill),
            primary: asked.primary.clone(),
            stale: Some(Arc::clone(stale)),
            pool: asked.pool,
            leads: false,
        };
        if self.begin_fill(index, request, given, begun).is_none() {
            self.abandon(&fill);
        }
    }

    /// A fill cannot begin: requests that have joined it meanwhile go to the pool by themselves.
    fn abandon(&self, fill: &Arc<Fill>) {
        self.shared.fills.remove(fill);
        fill.settle(Phase::Failed);
        self.shared.wake(fill);
    }

    /// Has a request wait for a response that is fetched; `None`: it goes to the pool by itself.
    fn fetch_for(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        asked: Asked,
        stale: Option<Arc<Entry>>,
        fwd: Fwd,
    ) -> Option<Step> {
        if asked.wanted.only_if_cached() {
            return Some(self.site_error(index, request, given, (504, &[])));
        }
        if request.method == Method::Head {
            self.note_cached(index, Cached::Bypass);
            self.row.response_cache_bypassed.add(1);
            return None;
        }
        if !self.buffers.tx.is_empty() {
            return Some(Step::FlushFirst);
        }
        self.row.response_cache_misses.add(1);
        self.note_cached(index, Cached::Miss);
        let Asked { primary, variant, pool, .. } = asked;
        let key = match (&stale, &variant) {
            (Some(stale), _) => stale.key(),
            // Requests for other variants do not wait for this one.
            (None, Some(variant)) => variant.text(),
            (None, None) => primary.text(),
        };
        let (fill, id, collapsed) = match self.shared.fills.join(key) {
            Joined::Follows(fill) => (fill, None, true),
            Joined::Leads(fill) => {
                let begun =
                    Begun { fill: Arc::clone(&fill), primary: primary.clone(), stale, pool, leads: true };
                match self.begin_fill(index, request, given, begun) {
                    Some(id) => (fill, Some(id), false),
                    None => {
                        self.abandon(&fill);
                        return None;
                    }
                }
            }
        };
        let step = self.follow_fill(index, (pool, id), request, given, fill);
        if step == Step::Waits {
            if collapsed {
                self.note_cached(index, Cached::Collapsed);
            }
            self.row.response_cache_collapsed.add(u64::from(collapsed));
            let note = self.exchange(index).dispatch.cached.get_or_insert_default();
            (note.forwarded, note.collapsed) = (Some(fwd), collapsed);
        }
        Some(step)
    }

    /// Answers with what is kept.
    fn answer_kept(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        entry: &Arc<Entry>,
        said: Said,
    ) -> Step {
        let now = self.clock.unix_secs;
        let Some(lifetime) = lifetime_of(entry) else {
            return self.site_error(index, request, given, (502, &[]));
        };
        let collapsed = self
            .exchange_of(index)
            .and_then(|exchange| exchange.dispatch.cached.as_deref())
            .is_some_and(|note| note.collapsed);
        let coded = match self.coding_of_kept(index, request, given, entry) {
            Chosen::Given(coded) => coded,
            Chosen::OnDisk(job) => {
                let reply = self.reply_context(index, request, given);
                return self.served(index, request, given, reply.persistence, Served::Blocked(job));
            }
        };
        let status = said.caching.says_status.then(|| said.status(entry, &lifetime, now, collapsed));
        let kept = Kept {
            entry,
            lifetime: &lifetime,
            age: lifetime.age(now),
            status: status.as_deref(),
            coded: coded.as_ref(),
        };
        let reply = self.reply_context(index, request, given);
        let persistence = reply.persistence;
        let (_, mut writer) = self.files_and_writer(index, reply);
        let served = kept.answer(request, &mut writer);
        self.served(index, request, given, persistence, served)
    }
}

/// What is asked of the store, and of the pool.
struct Asked {
    caching: &'static Caching,
    wanted: Wanted,
    primary: Key,
    /// The key of the response for this request, if it is known what the response varies with.
    variant: Option<Key>,
    pool: usize,
}

fn has_cookies(request: &Request<'_, '_>) -> bool {
    request.fields.iter().any(|field| field.name.eq_ignore_ascii_case("cookie"))
}

/// What `Cache-Status` is made of.
#[derive(Clone, Copy)]
struct Said {
    caching: &'static Caching,
    how: Option<How>,
    fwd: Option<Fwd>,
}

impl Said {
    fn status(&self, entry: &Entry, lifetime: &Lifetime, now: u64, collapsed: bool) -> Vec<u8> {
        let outcome = match (self.how, self.fwd) {
            (Some(_), Some(fwd)) => Outcome::Fwd(fwd),
            _ => Outcome::Hit,
        };
        let status = CacheStatus {
            cache: CACHE_NAME,
            outcome,
            fwd_status: (self.how == Some(How::Validated)).then_some(304),
            ttl: Some(lifetime.ttl(now)),
            stored: self.how == Some(How::Fetched),
            collapsed,
            detail: (self.how == Some(How::InsteadOfError)).then_some("the pool has failed"),
        };
        let fields = entry.head.fields.all().iter();
        let lines = fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"cache-status"));
        let mut out = Vec::new();
        put_cache_status(lines.map(|(_, value)| value), &status, &mut out);
        out
    }
}
