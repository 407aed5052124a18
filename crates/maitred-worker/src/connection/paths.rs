//! The addresses of one QUIC client: which one is proved, and how much may be sent to the others.
//!
//! The library uses a new address from the first datagram that comes from there, and validates it afterwards (RFC 9000 section
//! 9); what it sends meanwhile is more than section 8.1 allows. A datagram says nothing of where it really comes from. So here is
//! kept what is known of addresses, apart from the library:
//!
//! | address | requests from there | bytes to it |
//! |---|---|---|
//! | the one that was proved last | are judged by it | as many as there are |
//! | the candidate, which the library uses and has not validated | wait; refused if it is not proved | 3 × what came from it |
//! | the one that was proved before it | late datagrams count as those of the last one | 3 × what came from it |
//! | any other | are refused | 3 × what came from it |
//!
//! An address is proved by a token (Retry, or that of an earlier connection), by the end of the handshake, or by the answer to
//! the library's challenge. What is proved is the IP address, as by tokens (RFC 9000 section 8.1.4): all that depends on
//! addresses depends on that, and a client that receives at one port can have as much sent there as it likes. A client that gets
//! another port from its router, and only acknowledges what comes, could not prove more: the library's challenges have 1,200
//! bytes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Times what has come from an address that is not proved: as much may be sent to it (RFC 9000 sections 8.1, 8.2.1, 9.3.1).
const AMPLIFICATION_MAX: u64 = 3;

/// Addresses that are not proved of which a connection knows how much has come: a client that changes its network has one, and
/// one that tries another network first a second. What is forgotten gets nothing until more has come from it.
const ACCOUNTS_MAX: usize = 4;

/// Changes to an address that is not proved that a client may make at once. Each costs the library a challenge, a new estimate of
/// the path, and a connection id; a client whose network comes and goes makes a few.
const CHANGES_MAX: u8 = 8;
/// How long it takes until it may make another one. At one a second, a download through a router that gives another address after
/// each 300 datagrams came to a halt.
const CHANGE_EVERY: Duration = Duration::from_millis(125);

/// What has come from an address that is not proved, and what was sent to it, in bytes.
#[derive(Debug, Clone, Copy)]
struct Account {
    address: SocketAddr,
    received: u64,
    sent: u64,
}

impl Account {
    fn left(&self) -> u64 {
        (self.received.saturating_mul(AMPLIFICATION_MAX)).saturating_sub(self.sent)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Paths {
    proved: Option<SocketAddr>,
    before: Option<SocketAddr>,
    /// The address that the library uses.
    used: SocketAddr,
    /// The latest one is the last.
    accounts: Vec<Account>,
    /// Changes that the client may make now, as of the time beside it.
    changes: (u8, Option<Instant>),
}

impl Paths {
    /// The paths of a client whose address a token has proved.
    pub(crate) fn proved(address: SocketAddr) -> Paths {
        Paths {
            proved: Some(address),
            before: None,
            used: address,
            accounts: Vec::new(),
            changes: (CHANGES_MAX, None),
        }
    }

    /// The paths of a client that has begun with so many bytes.
    pub(crate) fn unproved(address: SocketAddr, bytes: usize) -> Paths {
        let account = Account { address, received: bytes as u64, sent: 0 };
        Paths { proved: None, accounts: vec![account], ..Paths::proved(address) }
    }

    /// The address that was proved last, with the port of then.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.proved
    }

    /// The address that the library uses, if it is not proved.
    pub(crate) fn candidate(&self) -> Option<SocketAddr> {
        (!self.is_proved(self.used)).then_some(self.used)
    }

    /// Whether an address is the one that was proved last.
    #[inline]
    pub(crate) fn is_proved(&self, address: SocketAddr) -> bool {
        self.proved.is_some_and(|proved| proved.ip() == address.ip())
    }

    /// Whether a datagram has come as those before it: there is nothing to decide.
    #[inline]
    pub(crate) fn is_usual(&self, from: SocketAddr) -> bool {
        from == self.used && self.is_proved(from)
    }

    /// Whether what has come from an address, without a change to it, is the client's: late datagrams of the address before.
    pub(crate) fn was_proved(&self, address: SocketAddr) -> bool {
        self.used.ip() != address.ip() && self.before.is_some_and(|before| before.ip() == address.ip())
    }

    /// Something has come that is not usual. False: the library must not see it, because the client changes its address too
    /// often.
    pub(crate) fn arrive(&mut self, from: SocketAddr, bytes: usize, now: Instant) -> bool {
        // Late datagrams of a client that has moved, or its way back, which the change counts for.
        let back = self.is_proved(from) && self.candidate().is_some();
        if self.used != from && !back && !self.may_change(now) {
            return false;
        }
        if self.is_proved(from) {
            return true;
        }
        let known = self.accounts.iter().position(|account| account.address == from);
        let mut account = match known {
            Some(at) => self.accounts.remove(at),
            None => Account { address: from, received: 0, sent: 0 },
        };
        account.received = account.received.saturating_add(bytes as u64);
        if self.accounts.len() >= ACCOUNTS_MAX {
            self.accounts.remove(0);
        }
        self.accounts.push(account);
        true
    }

    fn may_change(&mut self, now: Instant) -> bool {
        let (left, since) = self.changes;
        let since = since.unwrap_or(now);
        let passed = now.saturating_duration_since(since).as_millis() / CHANGE_EVERY.as_millis();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        let left = u32::from(left).saturating_add(passed).min(u32::from(CHANGES_MAX)) as u8;
        // What is left of the time counts for the next one.
        let since = if left == CHANGES_MAX { now } else { since + CHANGE_EVERY * passed };
        self.changes = (left.saturating_sub(1), Some(since));
        left > 0
    }

    /// The library uses this address now. Gives back whether there was a candidate that is none any more: it was not proved.
    pub(crate) fn follow(&mut self, used: SocketAddr) -> bool {
        let ip = |candidate: Option<SocketAddr>| candidate.map(|candidate| candidate.ip());
        let before = ip(self.candidate());
        self.used = used;
        before.is_some() && before != ip(self.candidate())
    }

    /// The candidate is proved.
    pub(crate) fn prove(&mut self) {
        let Some(address) = self.candidate() else { return };
        self.before = self.proved.replace(address);
        self.accounts.retain(|account| account.address.ip() != address.ip());
        if self.accounts.is_empty() {
            self.accounts = Vec::new();
        }
    }

    /// Whether a datagram of this size may be sent to the address that the library uses.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.candidate().is_none_or(|candidate| self.left(candidate) >= bytes)
    }

    /// Bytes that may be sent to an address that is not proved.
    fn left(&self, address: SocketAddr) -> u64 {
        let account = self.accounts.iter().find(|account| account.address == address);
        account.map_or(0, Account::left)
    }

    /// Something is to be sent to an address. False: it must not be.
    pub(crate) fn send(&mut self, to: SocketAddr, bytes: usize) -> bool {
        if self.is_proved(to) {
            return true;
        }
        let account = self.accounts.iter_mut().find(|account| account.address == to);
        let Some(account) = account.filter(|account| account.left() >= bytes as u64) else { return false };
        account.sent += bytes as u64;
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(number: u8) -> SocketAddr {
        ([127, 0, 0, number], 1).into()
    }

    /// Something comes from there. Whether the library uses another address from now on.
    fn change(paths: &mut Paths, to: SocketAddr, now: Instant) -> bool {
        let changes = to != paths.used && paths.arrive(to, 30, now);
        if changes {
            paths.follow(to);
        }
        changes
    }

    #[test]
    fn an_address_gets_three_times_what_has_come_from_it_until_it_is_proved() {
        let mut paths = Paths::unproved(at(1), 1210);
        assert_eq!((paths.address(), paths.candidate()), (None, Some(at(1))));
        let sent = (0..10).filter(|_| paths.has_room(1200) && paths.send(at(1), 1200)).count();
        assert_eq!(sent, 3, "no whole datagram is left of 30 bytes");
        assert!(paths.send(at(1), 30) && !paths.send(at(1), 1) && !paths.send(at(2), 1));
        assert!(!paths.follow(at(1)));
        paths.prove();
        assert_eq!((paths.address(), paths.candidate()), (Some(at(1)), None));
        assert!(paths.has_room(1 << 20) && paths.send(at(1), 1 << 20));
    }

    #[test]
    fn a_candidate_is_proved_or_given_up() {
        let now = Instant::now();
        let mut paths = Paths::proved(at(1));
        assert!(paths.arrive(at(2), 100, now) && !paths.follow(at(2)), "there was no other");
        assert_eq!((paths.address(), paths.candidate()), (Some(at(1)), Some(at(2))));
        assert!(paths.follow(at(1)), "the library has given it up");
        assert!(paths.arrive(at(2), 100, now) && !paths.follow(at(2)));
        assert!(paths.arrive(at(3), 100, now) && paths.follow(at(3)), "another one has come");
        paths.prove();
        assert_eq!((paths.address(), paths.candidate()), (Some(at(3)), None));
        assert!(paths.was_proved(at(1)) && !paths.was_proved(at(2)));
        assert!(paths.arrive(at(1), 100, now) && !paths.follow(at(1)));
        assert!(!paths.was_proved(at(1)), "it has to be proved again");
        assert!(!paths.send(at(1), 301) && paths.send(at(1), 300));
    }

    #[test]
    fn another_port_is_the_same_address() {
        let now = Instant::now();
        let mut paths = Paths::proved(at(1));
        let other: SocketAddr = ([127, 0, 0, 1], 2).into();
        assert!(paths.is_usual(at(1)) && !paths.is_usual(other) && paths.is_proved(other));
        assert!(paths.arrive(other, 30, now) && !paths.follow(other));
        assert!(paths.is_usual(other) && paths.candidate().is_none() && paths.send(other, 1 << 20));
        assert_eq!(paths.address(), Some(at(1)));
        let changes =
            (0..100).filter(|turn| change(&mut paths, if turn % 2 == 0 { at(1) } else { other }, now));
        assert_eq!(changes.count(), usize::from(CHANGES_MAX) - 1);
    }

    #[test]
    fn changes_are_few() {
        let now = Instant::now();
        let mut paths = Paths::proved(at(1));
        let made = (0..100).filter(|number| change(&mut paths, at(100 + number % 2), now)).count();
        assert_eq!(made, usize::from(CHANGES_MAX));
        assert!(paths.arrive(at(1), 30, now), "what is late from the proved one changes nothing");
        assert!(change(&mut paths, at(102), now + CHANGE_EVERY), "one more after a while");
        assert!(!change(&mut paths, at(103), now + CHANGE_EVERY), "and no second one");
    }

    proptest! {
        /// Whatever comes, and whatever the library would send.
        #[test]
        fn no_address_gets_more_than_three_times_what_it_has_sent(
            steps in prop::collection::vec((1_u8..8, 1_usize..1500, 0_u8..4), 1..300),
        ) {
            let now = Instant::now();
            let mut paths = Paths::unproved(at(1), 1200);
            let (mut received, mut sent) = ([0; 8], [0; 8]);
            received[1] = 1200;
            for (second, (number, bytes, what)) in steps.into_iter().enumerate() {
                let (address, place) = (at(number), usize::from(number));
                match what {
                    0 if !paths.is_proved(address) => {
                        let now = now + Duration::from_millis(500) * second as u32;
                        received[place] += bytes;
                        if paths.arrive(address, bytes, now) {
                            paths.follow(address);
                        }
                    }
                    1 => {
                        let _ = paths.follow(address);
                    }
                    _ if !paths.is_proved(address) && paths.send(address, bytes) => sent[place] += bytes,
                    _ => {}
                }
                prop_assert!(sent[place] <= 3 * received[place], "{sent:?} {received:?}");
                prop_assert!(paths.accounts.len() <= ACCOUNTS_MAX);
            }
        }
    }
}
