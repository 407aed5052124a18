//! What other worker processes have at the process of a channel ([`super::super::link`]), and how the channel is handed on.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::keys::{ConnKey, LinkKey, RelayKey};
use maitred_handoff::{Header, OPTIONAL, RequestFlags, kind};

use super::{Carried, Channel, Passing};
use crate::handoff::link::{CLOSED, Frame, GIVEN_UP, HANDED_OVER, HandedOver, Late, Link, Share, free_tag};
use crate::handoff::{RELAY_BIT, Relay, SentBody, Unsent, UnsentBody};
use maitred_base::budget::Permit;
use maitred_base::passed::Passed;

/// How long a process has to say that it is still there, when a user of its channel has asked: as long as when its owner does.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A request of another worker process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Away {
    /// Key of the link to it; `None` once that has ended.
    pub link: Option<LinkKey>,
    /// The number of the request there.
    pub request: u32,
    /// The number that the process knows the response descriptor by.
    pub number: u32,
    /// The client does not wait for it any more, or its worker process has gone: from when on that it has not ended counts as
    /// stuck.
    pub late_at: Option<Instant>,
}

impl Channel {
    /// Requests that the process has, of this worker process and of others.
    pub(crate) fn load(&self) -> u32 {
        (self.in_flight.len() + self.away.len()) as u32
    }

    /// Whether neither side is in the middle of a frame, so that another worker process can go on.
    pub(crate) fn is_between_frames(&self) -> bool {
        let heard = self.input.is_empty() && self.received.is_empty() && self.unjudged.is_empty();
        heard && !self.judging && !self.astray && !self.joining && !self.has_output()
    }

    /// The next number of a request. A number that another worker process still has is not used again.
    pub(super) fn take_request_number(&mut self) -> u32 {
        while !self.away.is_empty() && self.away.contains_key(&self.next_request) {
            self.next_request = self.next_request.wrapping_add(1);
        }
        let request = self.next_request;
        self.next_request = request.wrapping_add(1);
        request
    }

    /// What its own worker process has there, as the next owner has to know it.
    fn share<'r>(&self, relays: impl Iterator<Item = (RelayKey, &'r Relay)>) -> Share {
        let requests =
            self.in_flight.iter().map(|(request, found)| (*request, *request, found.number | self.tag));
        let relays = relays.map(|(key, _)| key.known_as());
        let kept =
            self.known.order.iter().map(|key| key.number()).chain(relays).map(|number| number | self.tag);
        Share { tag: self.tag, requests: requests.collect(), kept: kept.collect() }
    }

    /// Orphaned requests.
    fn late(&self, now: Instant) -> Vec<Late> {
        let own = self.in_flight.iter();
        let own = own.map(|(request, found)| (*request, found.number | self.tag, found.late_at));
        let others = self.away.iter().map(|(request, away)| (*request, away.number, away.late_at));
        let late = own.chain(others).filter_map(|(request, connection, late_at)| {
            let in_ms = milliseconds(late_at?.saturating_duration_since(now));
            Some(Late { request, connection, in_ms })
        });
        late.collect()
    }

    /// Hands the channel over: from now on this worker process reaches the process over `link`, and says there first what is
    /// under way, with the links of `others`. `relays` are those that the process has. Nothing may be in any buffer.
    pub(crate) fn hand_over<'r>(
        &mut self,
        link: OwnedFd,
        others: Vec<(LinkKey, Link)>,
        relays: impl Iterator<Item = (RelayKey, &'r Relay)>,
        now: Instant,
    ) {
        let of = |key: LinkKey| {
            let theirs = self.away.iter().filter(move |(_, away)| away.link == Some(key));
            theirs.map(|(number, away)| (*number, away.request, away.number)).collect()
        };
        let share = |(key, link): &(LinkKey, Link)| Share {
            tag: link.tag,
            requests: of(*key),
            kept: link.kept.iter().copied().collect(),
        };
        let said = HandedOver {
            next_request: self.next_request,
            own: self.share(relays),
            others: others.iter().map(share).collect(),
            late: self.late(now),
        };
        let payload = serde_json::to_vec(&said).unwrap_or_default();
        let header = Header {
            payload_bytes: payload.len() as u32,
            kind: HANDED_OVER,
            descriptors: others.len() as u16,
            ..Header::default()
        };
        self.socket = Passed::own(link, None, self.lane.clone());
        self.frames.push((0, None));
        for (_, link) in others {
            self.passing.push(Passing { offset: 0, carried: Carried::Relay(link.into_socket()) });
        }
        self.out.extend_from_slice(&header.to_bytes());
        self.out.extend_from_slice(&payload);
        self.away.clear();
        self.links.clear();
        (self.linked, self.asked) = (true, None);
    }

    /// Takes in what the owner before has said: the first of `links` leads to it, the others to those before. The connections
    /// of this worker process get a tag that none of theirs has.
    pub(crate) fn take_over(&mut self, said: &HandedOver, links: &[LinkKey], now: Instant) {
        self.next_request = said.next_request;
        for (share, link) in std::iter::once(&said.own).chain(&said.others).zip(links) {
            for (number, request, connection) in &share.requests {
                let away = Away { link: Some(*link), request: *request, number: *connection, late_at: None };
                self.away.insert(*number, away);
            }
        }
        for Late { request, connection, in_ms } in &said.late {
            let gone = Away { link: None, request: 0, number: *connection, late_at: None };
            let late_at = now + Duration::from_millis((*in_ms).into());
            self.away.entry(*request).or_insert(gone).late_at = Some(late_at);
        }
        let used: Vec<u32> = std::iter::once(&said.own).chain(&said.others).map(|share| share.tag).collect();
        self.tag = free_tag(&used);
        self.joining = false;
    }

    /// Tells the owner of the channel when a request of this worker process counts as stuck.
    pub(super) fn say_given_up(&mut self, request: u32, after: Duration) {
        let header = Header { kind: GIVEN_UP, connection: milliseconds(after), request, ..Header::default() };
        self.frames.push((self.out.len(), None));
        self.out.extend_from_slice(&header.to_bytes());
    }

    /// Tells the owner of the channel that no more requests come.
    pub(crate) fn say_closed(&mut self) {
        self.frames.push((self.out.len(), None));
        self.out.extend_from_slice(&Header { kind: CLOSED, ..Header::default() }.to_bytes());
    }

    /// Passes a frame of a user of this channel on to the process. Gives back whether there is something to flush.
    pub(crate) fn pass_on(&mut self, link: (LinkKey, &mut Link), frame: Frame, now: Instant) -> bool {
        let (key, link) = link;
        let Frame { mut header, payload, trailers, descriptors } = frame;
        let theirs = |away: &Away| away.link == Some(key) && away.request == header.request;
        match header.kind {
            kind::REQUEST => {
                let number = self.take_request_number();
                let away = Away {
                    link: Some(key),
                    request: header.request,
                    number: header.connection,
                    late_at: None,
                };
                self.away.insert(number, away);
                let body_fd = RequestFlags::from_bits(header.flags).is_some_and(|flags| flags.body_fd);
                if descriptors.len() > usize::from(body_fd) {
                    link.kept.insert(header.connection);
                }
                header.request = number;
            }
            kind::CANCEL => {
                let Some((number, _)) = self.away.iter().find(|(_, away)| theirs(away)) else { return false };
                header.request = *number;
            }
            CLOSED => {
                link.drained = true;
                return false;
            }
            GIVEN_UP => {
                let late_at = now + Duration::from_millis(header.connection.into());
                if let Some(away) = self.away.values_mut().find(|away| theirs(away)) {
                    away.late_at = Some(away.late_at.map_or(late_at, |at| at.min(late_at)));
                }
                return false;
            }
            kind::FORGET if link.kept.remove(&header.connection) => self.note_forgotten(),
            kind::PING => {
                link.asks = true;
                // The user may be gone by then: its request was all that it had.
                self.probed.get_or_insert(now + ANSWER_TIMEOUT);
            }
            _ => return false,
        }
        let offset = self.out.len();
        // A request that the process cannot have seen is given back.
        let request = (header.kind == kind::REQUEST).then_some(header.request);
        self.frames.push((offset, request));
        self.passing.extend(
            descriptors.into_iter().map(|descriptor| Passing { offset, carried: Carried::Relay(descriptor) }),
        );
        if !trailers.is_empty() {
            let (payload_bytes, flags) = (trailers.len() as u32, OPTIONAL);
            let before = Header { payload_bytes, flags, kind: kind::TRAILERS, descriptors: 0, ..header };
            self.out.extend_from_slice(&before.to_bytes());
            self.out.extend_from_slice(&trailers);
        }
        self.out.extend_from_slice(&header.to_bytes());
        self.out.extend_from_slice(&payload);
        true
    }

    /// Drops the requests of users that the process cannot have seen as a whole. Gives back those, each with the key of its
    /// link, as far as its frame is still there; [`Channel::take_unsent`] drops the rest.
    pub(crate) fn take_unsent_of_users(&mut self) -> Vec<(LinkKey, Frame)> {
        let ends = self.frames.iter().skip(1).map(|(start, _)| *start).chain([self.out.len()]);
        let unsent = self.frames.iter().zip(ends).filter(|(_, end)| *end > self.sent);
        let unsent: Vec<(usize, u32, usize)> =
            unsent.filter_map(|((start, request), end)| Some((*start, (*request)?, end))).collect();
        let mut given_up = Vec::new();
        for (start, number, end) in unsent {
            let Some(Away { link: Some(link), request, number: connection, .. }) = self.away.remove(&number)
            else {
                continue;
            };
            let bytes = self.out.get(start..end).unwrap_or_default();
            let split = |bytes| {
                <[u8]>::split_first_chunk(bytes).map(|(head, rest)| (Header::from_bytes(*head), rest))
            };
            let first = split(bytes);
            // The user of the link still has the trailers.
            let trailers = first
                .filter(|(header, _)| (header.kind, header.request) == (kind::TRAILERS, number))
                .and_then(|(header, rest)| rest.get(header.payload_bytes as usize..));
            let whole = trailers.map_or(first, split);
            // The beginning of the frame may have been sent, and be gone from the buffer; its descriptors are, then.
            let whole = whole.filter(|(header, rest)| {
                let is_it = (header.kind, header.request) == (kind::REQUEST, number);
                is_it && header.payload_bytes as usize == rest.len()
            });
            let (header, payload) = whole.unwrap_or((Header::default(), bytes));
            let descriptors = self.passing.extract_if(.., |passing| passing.offset == start);
            let descriptors = descriptors.filter_map(|passing| match passing.carried {
                Carried::Relay(descriptor) => Some(descriptor),
                Carried::Connection(_) | Carried::Body(..) => None,
            });
            let (descriptors, payload) = (descriptors.collect(), payload.to_vec());
            let payload_bytes = payload.len() as u32;
            let header = Header { kind: kind::REQUEST, request, connection, payload_bytes, ..header };
            given_up.push((link, Frame { header, payload, trailers: Vec::new(), descriptors }));
        }
        given_up
    }

    /// The owner gives a request back: that, with its body. `payload` and `file` are what came with it.
    pub(crate) fn refused(
        &mut self,
        header: Header,
        payload: &[u8],
        file: Option<(OwnedFd, Permit)>,
    ) -> Option<Unsent> {
        let request = self.in_flight.remove(&header.request)?;
        let body_fd = RequestFlags::from_bits(header.flags).is_some_and(|flags| flags.body_fd);
        if header.descriptors > u16::from(body_fd) && request.number & RELAY_BIT == 0 {
            // The descriptor came along, and has not arrived.
            self.known.remove(ConnKey::from_number(request.number));
        }
        let body = match (request.body, file) {
            (SentBody::Inline(bytes), _) => payload
                .len()
                .checked_sub(bytes)
                .and_then(|at| payload.get(at..))
                .map(|body| UnsentBody::Inline(body.to_vec())),
            (SentBody::Carried, Some((file, held))) => Some(UnsentBody::Spooled(file, held)),
            (SentBody::Carried | SentBody::Elsewhere, _) => None,
        };
        Some(Unsent { request, body })
    }

    /// A user has gone: its requests are cancelled, and have until `late_at` to end; what the process keeps for it is forgotten.
    pub(crate) fn link_ended(&mut self, key: LinkKey, link: &Link, late_at: Instant) {
        self.links.retain(|other| *other != key);
        let theirs: Vec<(u32, u32)> = self
            .away
            .iter_mut()
            .filter(|(_, away)| away.link == Some(key))
            .map(|(number, away)| {
                away.link = None;
                away.late_at = Some(away.late_at.map_or(late_at, |at| at.min(late_at)));
                (*number, away.number)
            })
            .collect();
        let told = matches!(self.phase, super::Phase::Live | super::Phase::Starting);
        for (request, number) in theirs.into_iter().filter(|_| told) {
            self.frames.push((self.out.len(), None));
            maitred_handoff::encode_cancel(&mut self.out, number, request);
        }
        for number in link.kept.iter().filter(|_| told) {
            self.frames.push((self.out.len(), None));
            maitred_handoff::encode_forget(&mut self.out, *number);
            self.note_forgotten();
        }
    }
}

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
