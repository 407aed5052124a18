//! Responses that are fetched for the cache.
//!
//! A fill is a request of this thread to itself, as a question is ([`ask`](super::ask)): it has all that requests to a pool have,
//! depends on no client, and passes no client's socket. The response is read here, and judged when its head has come:
//!
//! | the response | what becomes of it |
//! |---|---|
//! | is kept, and short | the requests that wait are answered when it is whole, as from the store |
//! | is kept, and long | they are answered with what comes, while a helper writes it to a file ([`follow`](super::follow)) |
//! | is a 304 about what is kept | that is kept for longer, and given |
//! | is an error, and something stale may be given | that is given |
//! | is not kept | the request that began the fill gets it, or what it wants of it; all others go to the pool by themselves |
//! | is not whole | nothing of it is kept |
//!
//! What is given to all who have one key must not depend on what the key does not have. So the request is without the parameters
//! and cookies that do not count, and its `Host` is in the spelling that the key has. If something was left out, and the response
//! is not kept, the request that began the fill goes to the pool once more, with all that its client has sent.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use maitred_http::cache::{Wanted, canonical_authority, reduced};
use maitred_http::fields::FieldLines;
use maitred_http::request::{HeadRoom, Request, RequestHead};
use maitred_http::response::{Filter, FramedHead};
use rustix::event::epoll;

use super::Exchanges;
use super::ask::{Copied, Inner, POLICY, Sent, head_of};
use crate::connection::body::RequestBody;
use crate::fills::{Facts, Fill, How, Phase};
use crate::inbox::Message;
use crate::kept::sent_query;
use crate::keys::{ConnKey, FillId, FillKey};
use crate::step::RequestInput;
use crate::token::{SERIAL_MASK, Token};
use crate::upstream::fill::filling::{Filling, Received, Stage};
use crate::upstream::fill::keeping::{Judged, Keeping, Now, Request as Asked, Taken};
use crate::upstream::fill::selected::{Part, SKIPPED_BYTES_MAX, select};
use crate::upstream::fill::writing::{FillFile, Places, Written};
use crate::upstream::remote_thread::Remote;
use maitred_cache::{Entry, Key};
use maitred_files::DiskJob;
use maitred_files::exchange::{Decision, Routed};
use maitred_policy::filter::cache::Caching;
use maitred_policy::route::Choice;

/// Content that is kept in memory before it goes to a file: as much as a short response has.
const MEMORY_BYTES_MAX: u64 = 64 * 1024;

/// For so long a response that was not kept is taken to be one that never is, in seconds: requests for it do not wait for one
/// another.
const PASS_SECS: u64 = 10;

/// What a fill is begun with.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The fill.
    pub(crate) fill: Arc<Fill>,
    /// The key without what the response varies with.
    pub(crate) primary: Key,
    /// What the rules look at in the request.
    pub(crate) wanted: Wanted,
    /// What its response depends on besides its key and the fields that it varies with.
    pub(crate) besides: Vec<u8>,
    /// What is kept, and no longer fresh.
    pub(crate) stale: Option<Arc<Entry>>,
    /// The pool.
    pub(crate) pool: usize,
    /// The request waits for it. Otherwise it is answered with what is stale.
    pub(crate) leads: bool,
}

/// What a request wants of a response that was fetched for it.
enum Wants {
    All,
    /// A part of the content, with this head.
    Part(FramedHead, Range<u64>),
    /// A part so far behind its beginning that the pool gives it for less.
    FarPart,
}

impl Exchanges {
    /// Begins to fetch a response, with a request that is made of that of a connection. Gives back the number of the request.
    /// `None` if that cannot be: no descriptors are left, or the head is too long.
    pub(crate) fn begin_fill(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        begun: Begun,
    ) -> Option<u128> {
        let caching: &'static Caching = given.routed.plan.cache.as_deref()?;
        let store = self.shared.cache.as_ref()?;
        let (sent, reduced) = self.sent_of_fill(index, request, given, &begun)?;
        let Begun { fill, primary, wanted, besides, stale, pool, leads } = begun;
        let mut head = RequestHead::default();
        match given.kept {
            Some(kept) => head.copy_from(kept),
            None => head.take(request, given.head),
        }
        // Before the request is sent: what is purged from now on is not stored.
        let asked = Asked {
            caching,
            wanted,
            besides,
            reduced,
            head,
            fetch: store.fetch(&primary),
            update: stale.as_deref().map(|stale| store.fetch(&store.key(stale.key()))),
            primary,
            stale,
            at: Now::of(&self.clock),
            names_files: !given.routed.plan.named_files.is_empty(),
        };
        let (Inner { socket, held, remote, id }, transfer) =
            self.prepare_inner(index, request, pool, sent)?;
        self.upstreams.serial = self.upstreams.serial.wrapping_add(1) & SERIAL_MASK;
        let serial = self.upstreams.serial;
        use epoll::EventFlags as F;
        let token = Token::Fill(FillId { key: self.fillings.vacant_key(), serial }).pack();
        let base = &self.processes.clients.base;
        epoll::add(&base.epoll, &socket, token, F::IN | F::RDHUP | F::ET).ok()?;
        let leader = leads.then(|| self.processes.clients.id(index));
        let (filter, taken) = (Filter::new(POLICY), Taken::default());
        let (pool, raw, stage) = (pool as u16, Vec::new(), Stage::Head);
        self.fillings.insert(Filling {
            fill,
            socket,
            serial,
            held,
            remote,
            pool,
            leader,
            filter,
            taken,
            raw,
            asked,
            stage,
        });
        self.row.response_cache_fills.add(1);
        self.shared.transfer(self.number, transfer);
        Some(id)
    }

    /// The request of a fill, as this thread gets it; and whether something that the client has sent is not in it.
    fn sent_of_fill(
        &self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        begun: &Begun,
    ) -> Option<(Sent, bool)> {
        let before = self.exchange_of(index).and_then(|exchange| exchange.dispatch.gated.as_deref());
        let gated = before.map(|before| Box::new(before.of_copy()));
        let caching = given.routed.plan.cache.as_deref()?;
        let decision = Decision::Route(Choice::Pool(begun.pool));
        let (head, reduced) = self.head_of_fill(index, request, caching, begun.stale.as_deref())?;
        let sent = Sent {
            head,
            body: RequestBody::default(),
            routed: Routed { decision, ..given.routed },
            path: (given.path != request.path.as_bytes()).then(|| given.path.into()),
            gated,
        };
        Some((sent, reduced))
    }

    /// The request that a fill sends: that of the client, without its conditions and what the key does not have, and with the
    /// conditions of what is kept.
    fn head_of_fill(
        &self,
        index: ConnKey,
        request: &Request<'_, '_>,
        caching: &Caching,
        stale: Option<&Entry>,
    ) -> Option<(RequestHead, bool)> {
        let reduced = reduced(request, sent_query(request), &caching.keys);
        let target = match &reduced.query {
            None => request.path.to_owned(),
            Some(query) => format!("{}?{query}", request.path),
        };
        let mut conditions = FieldLines::default();
        if let Some(stale) = stale {
            maitred_http::cache::put_conditions(stale.head.fields.all(), &mut conditions);
        }
        let scheme = if self.origin(index, request).https { "https" } else { "http" };
        let how = Copied {
            authority: &canonical_authority(scheme, request.authority),
            cookies: reduced.cookies.as_deref(),
            further: conditions.all(),
            ..Copied::of(request, "GET", &target)
        };
        Some((head_of(request, &how, &self.head_limits)?, reduced.any))
    }

    /// Something of a response has come.
    pub(crate) fn on_fill(&mut self, id: FillId) {
        let key = id.key;
        let current = self.fillings.get(key).is_some_and(|filling| filling.serial == id.serial);
        if current {
            self.read_fill(key);
        }
    }

    /// Reads what there is, until a helper has to write first.
    fn read_fill(&mut self, key: FillKey) {
        loop {
            let Some(filling) = self.fillings.get_mut(key) else { return };
            if matches!(filling.stage, Stage::Writing(_)) {
                return;
            }
            let mut rx = self.processes.clients.buffers.rx.take();
            let read = filling.receive(&mut rx);
            self.buffers.rx.put_back(rx);
            let goes_on = match read {
                Received::Nothing => {
                    self.wake_followers(key);
                    return;
                }
                Received::Broken => return self.fail_fill(key),
                Received::Some { complete } => self.take_filled(key, complete),
            };
            if !goes_on {
                return;
            }
        }
    }

    fn wake_followers(&self, key: FillKey) {
        if let Some(filling) = self.fillings.get(key) {
            self.shared.wake(&filling.fill);
        }
    }

    /// Something was received. False if nothing more is to be read for now.
    fn take_filled(&mut self, key: FillKey, complete: bool) -> bool {
        let shared = self.shared;
        let (Some(filling), Some(store)) = (self.fillings.get_mut(key), shared.cache.as_ref()) else {
            return false;
        };
        if matches!(filling.stage, Stage::Head) {
            if !filling.taken.has_head() {
                return true;
            }
            let now = Now::of(&self.processes.clients.base.clock);
            match filling.asked.judge(store, &filling.taken, now) {
                Judged::Keep(keeping) => {
                    shared.fills.note_reason(filling.asked.primary.text(), None);
                    filling.begin(keeping, now);
                }
                Judged::Validated(entry, job, own) => {
                    let own = (!own.is_empty()).then(|| Arc::new(own));
                    filling.fill.note(Facts { own, ..Facts::default() });
                    job.into_iter().for_each(|job| self.run_cache_job(job));
                    self.row.response_cache_validated.add(1);
                    return self.settle_fill(key, Phase::Kept(entry, How::Validated), Some(false));
                }
                Judged::Instead(entry) => {
                    return self.settle_fill(key, Phase::Kept(entry, How::InsteadOfError), Some(true));
                }
                Judged::NotKept { passes, failed, why } => {
                    shared.fills.note_reason(filling.asked.primary.text(), Some(why));
                    if passes {
                        store.pass(&filling.asked.primary, now.steady + PASS_SECS);
                    }
                    return self.release_fill(key, failed);
                }
                Judged::Unusable(job) => {
                    job.into_iter().for_each(|job| self.run_cache_job(job));
                    return self.settle_fill(key, Phase::Released, Some(false));
                }
            }
        }
        self.keep_filled(key, complete)
    }

    /// Keeps the content that has come. False if nothing more is to be read for now.
    fn keep_filled(&mut self, key: FillKey, complete: bool) -> bool {
        let Some(filling) = self.fillings.get_mut(key) else { return false };
        let content = filling.taken.take_content();
        match std::mem::replace(&mut filling.stage, Stage::Head) {
            Stage::Head | Stage::Writing(_) => false,
            Stage::Memory(keeping) => {
                filling.fill.append(&content);
                let length = filling.fill.length();
                if complete && !keeping.may_have(length) {
                    return self.end_coming(key);
                }
                if complete {
                    filling.stage = Stage::Memory(keeping);
                    return self.keep_short(key);
                }
                if length <= MEMORY_BYTES_MAX {
                    filling.stage = Stage::Memory(keeping);
                    return true;
                }
                let all = filling.fill.in_memory();
                self.write_fill(key, keeping, None, all, complete)
            }
            Stage::File(keeping, file) => {
                if content.is_empty() && !complete {
                    filling.stage = Stage::File(keeping, file);
                    return true;
                }
                self.write_fill(key, keeping, Some(file), content, complete)
            }
        }
    }

    /// A whole response is in memory.
    fn keep_short(&mut self, key: FillKey) -> bool {
        let shared = self.shared;
        let Some(filling) = self.fillings.get_mut(key) else { return false };
        let (Stage::Memory(keeping), Some(store)) =
            (std::mem::replace(&mut filling.stage, Stage::Head), shared.cache.as_ref())
        else {
            return false;
        };
        let body = filling.fill.in_memory();
        let (_, jobs) = keeping.put(store, body.into());
        jobs.into_iter().for_each(|job| self.run_cache_job(job));
        self.row.response_cache_stored.add(1);
        self.end_coming(key)
    }

    /// Has a helper write content to a file, which it makes if there is none yet. False: nothing is read meanwhile.
    fn write_fill(
        &mut self,
        key: FillKey,
        keeping: Box<Keeping>,
        file: Option<Box<FillFile>>,
        content: Vec<u8>,
        last: bool,
    ) -> bool {
        let shared = self.shared;
        let inbox = &shared.inboxes[self.number];
        let Some(filling) = self.fillings.get_mut(key) else { return false };
        let fill = FillId { key, serial: filling.serial };
        let piece = keeping.piece(content, last);
        filling.stage = Stage::Writing(keeping);
        shared.wake(&filling.fill);
        let job = DiskJob::task(move || {
            let places = Places {
                store: shared.cache.as_ref(),
                spool: &shared.start.config.server.spool,
                on_disk: &shared.bodies_on_disk,
                in_memory: &shared.bodies_in_memory,
            };
            let result = FillFile::write(&places, file, piece);
            inbox.send(Message::FillWritten { fill, result });
        });
        let done = move |result: io::Result<()>| {
            if let Err(error) = result {
                inbox.send(Message::FillWritten { fill, result: Err(error) });
            }
        };
        self.row.disk_waits.add(1);
        if shared.disk.submit(job, Box::new(done)).is_err() {
            self.fail_fill(key);
        }
        false
    }

    /// A helper has written content to a file.
    pub(crate) fn on_fill_written(&mut self, id: FillId, result: io::Result<Written>) {
        let key = id.key;
        let Some(filling) = self.fillings.get_mut(key).filter(|filling| filling.serial == id.serial) else {
            return;
        };
        let Stage::Writing(mut keeping) = std::mem::replace(&mut filling.stage, Stage::Head) else { return };
        let shared = self.processes.clients.base.shared;
        match result {
            Ok(Written::Open(file)) => {
                if let Some((of, offset, bytes)) = file.content() {
                    filling.fill.in_file(of, offset, bytes);
                }
                filling.stage = Stage::File(keeping, file);
                shared.wake(&filling.fill);
                self.read_fill(key);
            }
            Ok(Written::Whole(of, offset, bytes, entry)) => {
                filling.fill.in_file(of, offset, bytes);
                let (Some(_), Some(store)) = (entry, shared.cache.as_ref()) else {
                    self.end_coming(key);
                    return;
                };
                self.row.response_cache_stored.add(1);
                keeping.note(store).into_iter().for_each(|job| self.run_cache_job(job));
                self.end_coming(key);
            }
            Err(error) => {
                self.log_limited(|| tracing::warn!(%error, "a response cannot be kept (cache)"));
                self.fail_fill(key);
            }
        }
    }

    /// The response is not there, or not whole.
    fn fail_fill(&mut self, key: FillKey) {
        self.row.response_cache_failed.add(1);
        self.settle_fill(key, Phase::Failed, Some(true));
    }

    /// A fill has come to its end. `failed`: whether the pool has, if that is known. Gives back false: nothing is to be read.
    fn settle_fill(&mut self, key: FillKey, phase: Phase, failed: Option<bool>) -> bool {
        let shared = self.shared;
        let now = self.clock.now;
        if let Some(filling) = self.fillings.try_remove(key) {
            if let Some(failed) = failed {
                shared.fills.note_outcome(filling.fill.key(), failed, now);
            }
            shared.fills.remove(&filling.fill);
            filling.fill.settle(phase);
            shared.wake(&filling.fill);
        }
        false
    }

    /// All of the response has come. The requests that wait are answered with that, and not from the store: the phase stays
    /// `Coming`, because what they get must not depend on how soon the rest has followed its head.
    fn end_coming(&mut self, key: FillKey) -> bool {
        let (shared, now) = (self.shared, self.clock.now);
        if let Some(filling) = self.fillings.try_remove(key) {
            shared.fills.note_outcome(filling.fill.key(), false, now);
            shared.fills.remove(&filling.fill);
            filling.fill.end();
            shared.wake(&filling.fill);
        }
        false
    }

    /// The response is not kept: the request that began the fill gets it, with all that has come of it and will. Others go to the
    /// pool by themselves.
    fn release_fill(&mut self, key: FillKey, failed: bool) -> bool {
        let (shared, now) = (self.shared, self.clock.now);
        let Some(filling) = self.fillings.try_remove(key) else { return false };
        shared.fills.note_outcome(filling.fill.key(), failed, now);
        shared.fills.remove(&filling.fill);
        let _ = epoll::delete(&self.processes.clients.base.epoll, &filling.socket);
        let fill = Arc::clone(&filling.fill);
        let leader = filling.leader.filter(|_| !filling.asked.reduced).filter(|leader| {
            self.is_current(*leader)
                && self
                    .attempt_of(leader.key)
                    .and_then(|attempt| attempt.follow())
                    .is_some_and(|follow| Arc::ptr_eq(&follow.fill, &filling.fill))
        });
        match leader.map(|leader| (leader.key, self.wants_of(leader.key, &filling))) {
            None | Some((_, Wants::FarPart)) => {}
            Some((index, Wants::All)) => {
                let Filling { socket, held, remote, pool, raw, .. } = filling;
                self.take_over_fill(index, (socket, held), (remote, pool), &raw);
            }
            Some((index, Wants::Part(head, range))) => {
                let Filling { socket, held, remote, pool, filter, mut taken, .. } = filling;
                let content = taken.take_content();
                let part = Some(Box::new(Part::new(head, range, filter, taken, &content)));
                self.take_over_fill(index, (socket, held), (Remote { part, ..remote }, pool), &[]);
            }
        }
        fill.settle(Phase::Released);
        shared.wake(&fill);
        false
    }

    /// What the request that began a fill wants of a response that is not kept: its own conditions, and its range, did not go to
    /// the pool.
    fn wants_of(&self, index: ConnKey, filling: &Filling) -> Wants {
        let mut room = HeadRoom::default();
        let request = self.exchange_of(index).and_then(|exchange| exchange.head.view(&mut room));
        // Of a file that takes its place, a part is given where that is read.
        let Some(request) = request.filter(|_| !filling.asked.names_file(&filling.taken)) else {
            return Wants::All;
        };
        match select(&filling.taken.framed(), self.clock.unix_secs, &request) {
            None => Wants::All,
            Some((_, range)) if range.start > SKIPPED_BYTES_MAX => Wants::FarPart,
            Some((head, range)) => Wants::Part(head, range),
        }
    }

    /// Has a helper thread do something for the store.
    pub(crate) fn run_cache_job(&mut self, job: maitred_cache::Job) {
        if !self.shared.run_cache_job(job) {
            self.log_limited(|| {
                tracing::warn!("helpers have too much to do: a response is not written (cache)")
            });
        }
    }
}
