//! Requests that wait for a fill of the cache ([`fill`](super::fill)), and are answered with what comes of it.
//!
//! To the rest, a fill is one more upstream: a request waits for its head, is answered with its content as that comes, and can be
//! aborted. What is its own: until the head is there, the request may leave it without a trace.
//!
//! | the fill | the request has nothing yet | it has the head |
//! |---|---|---|
//! | is kept | is answered from the store (`answer_with_kept`) | takes the rest |
//! | is for requests with other fields (`Vary`) | looks for a response anew | – |
//! | is not kept | goes to the pool by itself (`go_alone`); the first one takes the fill over | – |
//! | has failed | the same | is aborted |
//! | takes longer than `collapse_timeout` | the same | – |

use std::os::fd::OwnedFd;
use std::sync::Arc;

use maitred_http::cache::{CacheStatus, Outcome, put_cache_status};
use maitred_http::fields::FieldLines;
use maitred_http::h1::Persistence;
use maitred_http::request::{HeadRoom, Request};
use maitred_http::response::{Filter, FramedHead};

use super::Exchanges;
use crate::agenda::Next;
use crate::connection::cached::Kept;
use crate::connection::retry::RetryState;
use crate::fills::{Fill, Phase, Piece, Variant, Waiter};
use crate::kept::variant_text;
use crate::keys::{ConnId, ConnKey};
use crate::step::{RequestInput, Step};
use crate::upstream::failure::Cause;
use crate::upstream::fill::Follow;
use crate::upstream::fill::selected::select;
use crate::upstream::remote_thread::{Remote, TIMEOUT};
use crate::upstream::{Attempt, By, Read, Source};
use maitred_base::budget::Permit;

/// What this cache is called in `Cache-Status`.
pub(crate) const CACHE_NAME: &str = "maitred";

impl Exchanges {
    /// Has a request wait for a fill, which has this number if it was begun for it.
    pub(crate) fn follow_fill(
        &mut self,
        index: ConnKey,
        (pool, id): (usize, Option<u128>),
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        fill: Arc<Fill>,
    ) -> Step {
        if !self.register(index) {
            self.close(index);
            return Step::Gone;
        }
        let Some(caching) = given.routed.plan.cache.as_deref() else { return Step::FlushFirst };
        let settings = &self.shared.start.config.pools[pool];
        self.note_traits(index, request, given);
        let keep = self.persistence(index, request, given.last) != Persistence::Close;
        let filter = Filter::new(self.wanted(index, request, keep, settings));
        let now = self.clock.now;
        let leads = id.is_some();
        let id = id.unwrap_or_else(|| self.forwarded.next_id());
        let id = self.exchange(index).dispatch.id_or(id);
        self.keep_head(index, request, given);
        let exchange = self.exchange(index);
        exchange.last = given.last;
        exchange.body.content.clear();
        exchange.dispatch.begin(pool as u16, 0, now);
        exchange.dispatch.set_request_id(id);
        exchange.dispatch.retry = RetryState::default();
        let follow = Follow::new(fill, leads, now, caching.collapse_timeout);
        let attempt = Attempt::new(filter, keep, None, By::Fill(follow), now);
        self.enter_upstream(index, Box::new(attempt));
        self.wheel.arm(index, now + caching.collapse_timeout);
        // The fill may have come further since it was looked for.
        self.look_again(index);
        Step::Waits
    }

    /// The fill that a connection waits for has come further.
    pub(crate) fn on_filled(&mut self, connection: ConnId) {
        if self.is_current(connection) && self.source_of(connection.key) == Some(Source::Fill) {
            self.pump_to_client(connection.key);
        }
    }

    /// Takes what there is of a fill.
    pub(crate) fn read_from_fill(&mut self, index: ConnKey, moved: &mut usize) -> Read {
        let waiter = Waiter { thread: self.number, connection: self.id(index) };
        let Some(follow) = self.attempt_of(index).and_then(Attempt::follow) else { return Read::Failed };
        let fill = Arc::clone(&follow.fill);
        if follow.head.is_none() {
            match fill.watch(waiter) {
                Phase::Asking => return Read::Drained,
                Phase::Released | Phase::Failed => {
                    self.go_alone(index);
                    return Read::Failed;
                }
                Phase::Coming(_) | Phase::Kept(..) if !self.is_of_variant(index, fill.facts().variant) => {
                    self.look_anew(index);
                    return Read::Failed;
                }
                Phase::Kept(entry, how) => {
                    let own = fill.facts().own.filter(|_| follow.leads);
                    self.answer_with_kept(index, Kept { entry, how, own });
                    return Read::Failed;
                }
                Phase::Coming(head) => {
                    let facts = fill.facts();
                    let own = facts.own.filter(|_| follow.leads);
                    let said = self.say_status(index, Some(facts.ttl), Some(&head.fields));
                    let head = if said { without_status(head) } else { head };
                    self.begin_following(index, head, own.as_deref());
                }
            }
        }
        self.read_content(index, &fill, waiter, moved)
    }

    /// The head of a response has come that a request follows: what it gets of it is decided.
    fn begin_following(&mut self, index: ConnKey, shared: Arc<FramedHead>, own: Option<&FieldLines>) {
        let head = match own {
            None => shared,
            Some(own) => {
                let mut head = FramedHead::clone(&shared);
                head.fields.extend(own.all());
                Arc::new(head)
            }
        };
        let now = self.clock.unix_secs;
        let mut room = HeadRoom::default();
        let request = self.exchange_of(index).and_then(|exchange| exchange.head.view(&mut room));
        let selected = request.and_then(|request| select(&head, now, &request));
        let Some(follow) = self.attempt_mut(index).and_then(Attempt::follow_mut) else { return };
        match selected {
            None => follow.head = Some(head),
            Some((head, range)) => {
                follow.head = Some(Arc::new(head));
                (follow.taken, follow.until) = (range.start, range.end);
                follow.ended = range.is_empty();
            }
        }
    }

    fn read_content(&mut self, index: ConnKey, fill: &Fill, waiter: Waiter, moved: &mut usize) -> Read {
        let Some(follow) = self.attempt_of(index).and_then(Attempt::follow) else { return Read::Failed };
        let (taken, until) = (follow.taken, follow.until);
        let mut content = Vec::new();
        let piece = match taken >= until {
            true => Ok(Piece::End),
            false => fill.read(taken, &mut content, waiter),
        };
        content.truncate(usize::try_from(until.saturating_sub(taken)).unwrap_or(usize::MAX));
        let Some(attempt) = self.attempt_mut(index) else { return Read::Failed };
        attempt.drained = matches!(piece, Ok(Piece::Nothing));
        if let Some(follow) = attempt.follow_mut() {
            follow.taken += content.len() as u64;
            follow.ended = matches!(piece, Ok(Piece::End));
        }
        *moved += content.len();
        let failed = match self.pass_on(index, &content) {
            Err((cause, why)) => Some((cause, why)),
            Ok(()) => match piece {
                Ok(Piece::Some | Piece::End) => return Read::More,
                Ok(Piece::Nothing) => return Read::Drained,
                Ok(Piece::Failed) => Some((Cause::Lost, "the rest of a response was not fetched".to_owned())),
                Err(error) => Some((Cause::Lost, error.to_string())),
            },
        };
        if let Some((cause, why)) = failed {
            self.fail_upstream(index, cause, &why);
        }
        Read::Failed
    }

    /// Has a response say why it was fetched, and for how many seconds it is fresh, if it is kept: behind what caches nearer to
    /// the pool have said in `fields`. Returns whether it says that.
    fn say_status(&mut self, index: ConnKey, ttl: Option<i64>, fields: Option<&FieldLines>) -> bool {
        let exchange = self.exchange(index);
        let caching = exchange.routed.and_then(|routed| routed.plan.cache.as_deref());
        let note = exchange.dispatch.cached.as_deref();
        let (Some(fwd), Some(true)) =
            (note.and_then(|note| note.forwarded), caching.map(|caching| caching.says_status))
        else {
            return false;
        };
        let collapsed = note.is_some_and(|note| note.collapsed);
        let (outcome, detail) = (Outcome::Fwd(fwd), None);
        let status = CacheStatus {
            cache: CACHE_NAME,
            outcome,
            fwd_status: None,
            ttl,
            stored: ttl.is_some(),
            collapsed,
            detail,
        };
        let mut value = Vec::new();
        let fields = fields.into_iter().flat_map(|fields| fields.all().iter());
        let earlier = fields.filter(|(name, _)| is_status(name)).map(|(_, value)| value);
        put_cache_status(earlier, &status, &mut value);
        exchange.dispatch.set_cookie.get_or_insert_default().push(b"Cache-Status", &value);
        true
    }

    /// Whether a response is for the request of a connection, by the fields that it varies with.
    fn is_of_variant(&self, index: ConnKey, variant: Option<Arc<Variant>>) -> bool {
        let Some(variant) = variant else { return true };
        let mut room = HeadRoom::default();
        let exchange = self.exchange_of(index);
        let request = exchange.and_then(|exchange| exchange.head.view(&mut room));
        let note = exchange.and_then(|exchange| exchange.dispatch.cached.as_deref());
        let besides = note.map(|note| &*note.besides).unwrap_or_default();
        let plan = exchange.and_then(|exchange| exchange.routed).map(|routed| routed.plan);
        let caching = plan.and_then(|plan| plan.cache.as_deref());
        let (Some(request), Some(caching)) = (request, caching) else { return false };
        variant_text(&variant.names, &request, caching, besides) == *variant.text
    }

    /// A request is answered with what is kept.
    fn answer_with_kept(&mut self, index: ConnKey, kept: Kept) {
        if self.take_attempt(index).is_some() {
            let note = self.exchange(index).dispatch.cached.get_or_insert_default();
            note.kept = Some(kept);
            self.follow_up(index, Next::Resume);
        }
    }

    /// A request looks for a response anew: what was fetched is not for it.
    fn look_anew(&mut self, index: ConnKey) {
        if self.take_attempt(index).is_some() {
            self.follow_up(index, Next::Resume);
        }
    }

    /// A request goes to the pool by itself, and what comes of it is not kept.
    pub(crate) fn go_alone(&mut self, index: ConnKey) {
        if self.take_attempt(index).is_some() {
            self.exchange(index).dispatch.cached.get_or_insert_default().alone = true;
            self.follow_up(index, Next::Resume);
        }
    }

    /// The request that a fill was begun for gets its response, which is not kept: what has come, and what will.
    pub(super) fn take_over_fill(
        &mut self,
        index: ConnKey,
        socket: (OwnedFd, Permit),
        (remote, pool): (Remote, u16),
        received: &[u8],
    ) {
        let Some(before) = self.take_attempt(index) else { return };
        let now = self.clock.now;
        let Ok(upstream) = self.adopt_upstream(socket, pool, index) else {
            self.exchange(index).dispatch.cached.get_or_insert_default().alone = true;
            return self.follow_up(index, Next::Resume);
        };
        let keep = before.keep;
        let attempt = Attempt::new(before.filter, keep, None, By::Thread(Remote { upstream, ..remote }), now);
        self.enter_upstream(index, Box::new(attempt));
        self.say_status(index, None, None);
        let silent = self.request_timeout(index, pool);
        self.wheel.arm(index, now + silent + TIMEOUT);
        match self.pass_on(index, received) {
            Ok(()) => self.pump_to_client(index),
            Err((cause, why)) => self.fail_upstream(index, cause, &why),
        }
    }

    /// A fill takes too long, or its content does; or the client takes nothing.
    pub(crate) fn on_fill_timeout(&mut self, index: ConnKey) {
        let headed = self.attempt_of(index).is_some_and(|attempt| attempt.filter.head_written());
        match headed {
            _ if self.has_output(index) => self.abort_stalled(index),
            false => self.go_alone(index),
            true => self.fail_upstream(index, Cause::Late, "the rest of a response is not fetched"),
        }
    }
}

fn is_status(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"cache-status")
}

/// A head whose `Cache-Status` stands elsewhere.
fn without_status(head: Arc<FramedHead>) -> Arc<FramedHead> {
    if !head.fields.all().iter().any(|(name, _)| is_status(name)) {
        return head;
    }
    let mut fields = FieldLines::default();
    let others = head.fields.all().iter().filter(|(name, _)| !is_status(name));
    others.for_each(|(name, value)| fields.push(name, value));
    Arc::new(FramedHead { fields, ..FramedHead::clone(&head) })
}
