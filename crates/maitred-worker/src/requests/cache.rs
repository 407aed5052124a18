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
    CacheStatus, Consult, Fwd, Lifetime, Outcome, Use, Wanted, judge, put_cache_status,
};
use maitred_http::fields::FieldLines;
use maitred_http::request::{Method, Request};

use super::Requests;
use super::cache_coding::Chosen;
use crate::connection::cached::Cached;
use crate::exchanges::fill::Begun;
use crate::exchanges::follow::CACHE_NAME;
use crate::fills::{Fill, How, Joined, Phase};
use crate::kept::{besides, lifetime_of, primary_text, target, variant_key, variant_text, wanted};
use crate::keys::ConnKey;
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
    /// The response for the request.
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
        index: ConnKey,
        pool: usize,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Option<Step> {
        let caching: &'static Caching = given.routed.plan.cache.as_deref()?;
        let store = self.shared.cache.as_ref()?;
        let (request, connection) = (context.request, &self.connections[index]);
        if connection.internal || request.upgrade || maitred_http::grpc::Form::of(request).is_some() {
            return None;
        }
        let note = connection.exchange.as_deref().and_then(|exchange| exchange.dispatch.cached.as_deref());
        if note.is_some_and(|note| note.alone) {
            self.note_cached(index, Cached::Miss);
            return None;
        }
        let loads = note.map_or(0, |note| note.loads);
        let client = self.told_apart(index, request, given.routed.plan, caching);
        let wanted = wanted(request, caching, &client);
        if let Some(kept) = note.and_then(|note| note.kept.clone()) {
            let fwd = note.and_then(|note| note.forwarded);
            let said = Said { caching, how: Some(kept.how), fwd, own: kept.own };
            self.note_how(index, kept.how);
            return Some(self.answer_kept(index, request, given, &kept.entry, said));
        }
        if matches!(wanted.consult(), Consult::Bypass(_)) || !caching.cookies && has_cookies(request) {
            return self.bypass(index);
        }
        let https = self.origin(index, request).https;
        let primary = store.key(&primary_text(&target(request, https), request, caching, &client));
        let besides = besides(request, caching, &client);
        let looked = self.look(store, &primary, request, (caching, &besides));
        let asked = Asked { caching, wanted, primary, besides, variant: None, pool };
        match looked {
            Looked::Pass => self.bypass(index),
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

    fn note_cached(&mut self, index: ConnKey, cached: Cached) {
        self.connections[index].cached = cached;
    }

    /// Notes how a request has come to what it is answered with.
    fn note_how(&mut self, index: ConnKey, how: How) {
        match how {
            How::Validated => self.note_cached(index, Cached::Validated),
            How::InsteadOfError => self.note_cached(index, Cached::Stale),
        }
    }

    /// A request goes to the pool, and what comes of it is not kept.
    fn bypass(&mut self, index: ConnKey) -> Option<Step> {
        self.note_cached(index, Cached::Bypass);
        self.row.response_cache_bypassed.add(1);
        None
    }

    /// What the store has for a request.
    fn look(
        &self,
        store: &Store,
        primary: &Key,
        request: &Request<'_, '_>,
        (caching, besides): (&Caching, &[u8]),
    ) -> Looked {
        let now = self.clock.steady_secs();
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
        let Kind::Vary { names, epoch } = &entry.head.kind else {
            // What depends on more than the key is never stored by that alone.
            return if besides.is_empty() { Looked::Entry(entry) } else { Looked::Nothing(None) };
        };
        let names = names.iter().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>().join(",");
        let variant = variant_text(&names, request, caching, besides);
        let key = store.key(&variant_key(primary.text(), *epoch, &variant));
        match found(store.find(&key, now)) {
            Looked::Nothing(_) => Looked::Nothing(Some(key)),
            other => other,
        }
    }

    /// Decides about a response that is there.
    fn use_kept(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        asked: Asked,
        entry: Arc<Entry>,
    ) -> Option<Step> {
        let (now, instant) = (self.clock.steady_secs(), self.clock.now);
        let Some(lifetime) = lifetime_of(&entry) else {
            return self.fetch_for(index, request, given, asked, None, Fwd::Miss);
        };
        let said = Said { caching: asked.caching, how: None, fwd: None, own: None };
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
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        asked: &Asked,
        stale: &Arc<Entry>,
    ) {
        let Joined::Leads(fill) = self.shared.fills.join(stale.key()) else { return };
        let begun = asked.begun(&fill, Some(Arc::clone(stale)), false);
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
        index: ConnKey,
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
            return self.bypass(index);
        }
        if !self.buffers.tx.is_empty() {
            return Some(Step::FlushFirst);
        }
        self.row.response_cache_misses.add(1);
        self.note_cached(index, Cached::Miss);
        let (fill, id, collapsed) = match self.shared.fills.join(&asked.waits_by(stale.as_deref())) {
            Joined::Follows(fill) => (fill, None, true),
            Joined::Leads(fill) => {
                let begun = asked.begun(&fill, stale, true);
                match self.begin_fill(index, request, given, begun) {
                    Some(id) => (fill, Some(id), false),
                    None => {
                        self.abandon(&fill);
                        return None;
                    }
                }
            }
        };
        let step = self.follow_fill(index, (asked.pool, id), request, given, fill);
        if step == Step::Waits {
            if collapsed {
                self.note_cached(index, Cached::Collapsed);
            }
            self.row.response_cache_collapsed.add(u64::from(collapsed));
            let note = self.exchange(index).dispatch.cached.get_or_insert_default();
            (note.forwarded, note.collapsed, note.besides) = (Some(fwd), collapsed, asked.besides);
        }
        Some(step)
    }

    /// Answers with what is kept.
    fn answer_kept(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        entry: &Arc<Entry>,
        said: Said,
    ) -> Step {
        let now = self.clock.steady_secs();
        let Some(lifetime) = lifetime_of(entry) else {
            return self.site_error(index, request, given, (502, &[]));
        };
        let collapsed = self
            .exchange_of(index)
            .and_then(|exchange| exchange.dispatch.cached.as_deref())
            .is_some_and(|note| note.collapsed);
        let coded = match self.coding_of_kept(index, request, given, (entry, said.own.as_deref())) {
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
            own: said.own.as_deref(),
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
    /// See [`besides`].
    besides: Vec<u8>,
    /// The key of the response for this request, if it is known what the response varies with.
    variant: Option<Key>,
    pool: usize,
}

impl Asked {
    /// What requests have in common that wait for one another.
    fn waits_by(&self, stale: Option<&Entry>) -> Vec<u8> {
        match (stale, &self.variant) {
            (Some(stale), _) => stale.key().to_vec(),
            // Requests for other variants do not wait for this one.
            (None, Some(variant)) => variant.text().to_vec(),
            (None, None) => [self.primary.text(), &self.besides].concat(),
        }
    }

    /// What a fill is begun with.
    fn begun(&self, fill: &Arc<Fill>, stale: Option<Arc<Entry>>, leads: bool) -> Begun {
        Begun {
            fill: Arc::clone(fill),
            primary: self.primary.clone(),
            wanted: self.wanted,
            besides: self.besides.clone(),
            stale,
            pool: self.pool,
            leads,
        }
    }
}

fn has_cookies(request: &Request<'_, '_>) -> bool {
    request.fields.iter().any(|field| field.name.eq_ignore_ascii_case("cookie"))
}

/// What `Cache-Status` is made of, and what else a response gets that is not in the store.
struct Said {
    caching: &'static Caching,
    how: Option<How>,
    fwd: Option<Fwd>,
    own: Option<Arc<FieldLines>>,
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
            stored: false,
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
