//! Session tickets (RFC 5077, RFC 8446 section 4.6.1) that every thread and every worker process of a master can read.
//!
//! Time is cut into epochs of [`EPOCH_SECS`]. The keys of an epoch follow from its *chain key*, and so does the chain key of
//! the next epoch, but not that of the one before (HKDF, RFC 5869). All processes that begin with one [`Seed`] thus have the
//! same keys at any time, without talking to one another. Once a process has made or read a ticket in an epoch, nothing in its
//! memory opens one that is older than the epoch before.
//!
//! A ticket is made with the key of the present epoch, and accepted in that epoch and the next. A ticket is
//! `epoch (4 bytes) | nonce (12) | encrypted session | tag (16)`, sealed with AES-256-GCM. Nonces are random; the bound of 2³²
//! tickets under one key (SP 800-38D section 8.3) is reached at 99,000 new sessions a second.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use rustix::rand::{GetRandomFlags, getrandom};
use rustls::server::ProducesTickets;
use rustls::time_provider::TimeProvider;
use serde::{Deserialize, Serialize};

use zeroize::Zeroizing;

use maitred_base::pki::Bytes;

/// Length of an epoch, in seconds, and the lifetime of a ticket as sent to clients. Twelve hours let a visitor of this
/// morning come back in the evening; keys live twice as long.
pub(crate) const EPOCH_SECS: u32 = 12 * 60 * 60;
/// Epochs that are walked through one by one: fourteen years. A clock that jumps further begins a chain of its own.
const STEPS_MAX: u64 = 10_000;
const KEY_BYTES: usize = 32;
const EPOCH_BYTES: usize = 4;

/// The chain key of the epoch before the present one: from it follow all that are needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed {
    epoch: u64,
    chain: Bytes,
}

/// An error of the cryptographic library, which does not say more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed;

impl From<Unspecified> for Failed {
    fn from(_: Unspecified) -> Failed {
        Failed
    }
}

fn epoch_of(unix_secs: u64) -> u64 {
    unix_secs / u64::from(EPOCH_SECS)
}

impl Seed {
    /// A new one, which opens no ticket that was made before. `unix_secs` is the present time.
    ///
    /// # Errors
    /// If there are no random numbers.
    pub fn new(unix_secs: u64) -> Result<Seed, Failed> {
        let mut chain = vec![0; KEY_BYTES];
        // From the kernel: a server without TLS must not wait for the library to collect entropy of its own, some 25 ms.
        let read = getrandom(&mut chain, GetRandomFlags::empty()).map_err(|_| Failed)?;
        if read < KEY_BYTES {
            return Err(Failed);
        }
        Ok(Seed { epoch: epoch_of(unix_secs).saturating_sub(1), chain: Bytes(chain) })
    }

    /// The seed at this time: what is needed no more can then not be derived any more. Time that goes backwards changes
    /// nothing.
    ///
    /// # Errors
    /// None that is known to happen.
    pub fn advance(&mut self, unix_secs: u64) -> Result<(), Failed> {
        let wanted = epoch_of(unix_secs).saturating_sub(1);
        if wanted.saturating_sub(self.epoch) > STEPS_MAX {
            self.chain = Bytes(derive(&self.chain.0, &[b"maitred jump", &wanted.to_be_bytes()])?.to_vec());
            self.epoch = wanted;
        }
        while self.epoch < wanted {
            self.chain = Bytes(derive(&self.chain.0, &[b"maitred next"])?.to_vec());
            self.epoch += 1;
        }
        Ok(())
    }

    /// The keys of tickets in the epoch of the chain key, and in the next.
    fn keys(&self, context: &[u8]) -> Result<Keys, Failed> {
        let next = derive(&self.chain.0, &[b"maitred next"])?;
        let key = |chain: &[u8]| -> Result<LessSafeKey, Failed> {
            let key = derive(chain, &[b"maitred ticket", context])?;
            Ok(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*key)?))
        };
        Ok(Keys { previous: key(&self.chain.0)?, present: key(&*next)? })
    }
}

struct KeyBytes;

impl KeyType for KeyBytes {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

fn derive(chain: &[u8], info: &[&[u8]]) -> Result<Zeroizing<[u8; KEY_BYTES]>, Failed> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    Prk::new_less_safe(HKDF_SHA256, chain).expand(info, KeyBytes)?.fill(&mut *key)?;
    Ok(key)
}

struct Keys {
    previous: LessSafeKey,
    present: LessSafeKey,
}

struct State {
    seed: Seed,
    keys: Keys,
}

/// Makes and reads tickets; shared by all threads.
pub(crate) struct Ticketer {
    state: RwLock<State>,
    /// Whose tickets these are: others', made with the same seed, are not read.
    context: [u8; 32],
    time: Arc<dyn TimeProvider>,
}

impl Ticketer {
    /// `context` stands for all that must not differ between the listener that gave a ticket and the one that takes it.
    ///
    /// # Errors
    /// None that is known to happen.
    pub(crate) fn new(
        seed: &Seed,
        context: [u8; 32],
        time: Arc<dyn TimeProvider>,
    ) -> Result<Ticketer, Failed> {
        let state = State { seed: seed.clone(), keys: seed.keys(&context)? };
        Ok(Ticketer { state: RwLock::new(state), context, time })
    }

    /// Works with the keys of the present time.
    fn with<T>(&self, work: impl FnOnce(&State) -> Option<T>) -> Option<T> {
        let now = self.time.current_time()?.as_secs();
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if epoch_of(now).saturating_sub(1) <= state.seed.epoch {
            return work(&state);
        }
        drop(state);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been here first; then this changes nothing.
        state.seed.advance(now).ok()?;
        state.keys = state.seed.keys(&self.context).ok()?;
        work(&state)
    }
}

impl State {
    fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let epoch = self.seed.epoch + 1;
        let epoch = u32::try_from(epoch).ok()?.to_be_bytes();
        let mut nonce = [0; NONCE_LEN];
        aws_lc_rs::rand::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let nonce_used = Nonce::assume_unique_for_key(nonce);
        self.keys.present.seal_in_place_append_tag(nonce_used, Aad::from(&epoch), &mut sealed).ok()?;
        Some([&epoch[..], &nonce[..], &sealed[..]].concat())
    }

    fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (epoch, rest) = ticket.split_first_chunk::<EPOCH_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let key = match u64::from(u32::from_be_bytes(*epoch)).checked_sub(self.seed.epoch)? {
            0 => &self.keys.previous,
            1 => &self.keys.present,
            _ => return None,
        };
        let mut room = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = key.open_in_place(nonce, Aad::from(epoch), &mut room).ok()?.len();
        room.truncate(plain);
        Some(room)
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        EPOCH_SECS
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.with(|state| state.seal(plain))
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.with(|state| state.open(ticket))
    }
}

impl fmt::Debug for Ticketer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Ticketer").finish_non_exhaustive()
    }
}

/// Makes no tickets.
#[derive(Debug)]
pub(crate) struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use rustls::pki_types::UnixTime;

    use super::*;

    #[derive(Debug)]
    struct Clock(AtomicU64);

    impl TimeProvider for Clock {
        fn current_time(&self) -> Option<UnixTime> {
            Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(self.0.load(Relaxed))))
        }
    }

    const NOON: u64 = 1_800_000_000;
    const EPOCH: u64 = EPOCH_SECS as u64;

    fn clock(at: u64) -> Arc<Clock> {
        Arc::new(Clock(AtomicU64::new(at)))
    }

    fn ticketer(seed: &Seed, clock: &Arc<Clock>) -> Ticketer {
        Ticketer::new(seed, [7; 32], Arc::clone(clock) as Arc<dyn TimeProvider>).unwrap()
    }

    #[test]
    fn a_ticket_is_good_in_its_epoch_and_the_next() {
        let (seed, clock) = (Seed::new(NOON).unwrap(), clock(NOON));
        let tickets = ticketer(&seed, &clock);
        let ticket = tickets.encrypt(b"session").unwrap();
        for (epochs, good) in [(0, true), (1, true), (2, false), (3, false)] {
            clock.0.store(NOON + epochs * EPOCH, Relaxed);
            assert_eq!(tickets.decrypt(&ticket).is_some(), good, "{epochs} epochs later");
        }
        // A clock that is set back brings no old keys back.
        clock.0.store(NOON, Relaxed);
        assert_eq!(tickets.decrypt(&ticket), None);
        let later = tickets.encrypt(b"later").unwrap();
        assert_eq!(tickets.decrypt(&later).as_deref(), Some(&b"later"[..]));
    }

    #[test]
    fn the_next_generation_reads_the_tickets_of_the_last_one() {
        let (mut seed, clock) = (Seed::new(NOON).unwrap(), clock(NOON));
        let first = ticketer(&seed, &clock);
        let ticket = first.encrypt(b"session").unwrap();
        clock.0.store(NOON + EPOCH, Relaxed);
        seed.advance(NOON + EPOCH).unwrap();
        let second = ticketer(&seed, &clock);
        assert_eq!(second.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        let other = second.encrypt(b"other").unwrap();
        assert_eq!(first.decrypt(&other).as_deref(), Some(&b"other"[..]), "and the other way round");
        let stranger = ticketer(&Seed::new(NOON).unwrap(), &clock);
        assert_eq!(stranger.decrypt(&other), None);
    }

    #[test]
    fn a_ticket_of_another_kind_of_listener_is_not_read() {
        let (seed, clock) = (Seed::new(NOON).unwrap(), clock(NOON));
        let ticket = ticketer(&seed, &clock).encrypt(b"session").unwrap();
        let other = Ticketer::new(&seed, [8; 32], clock).unwrap();
        assert_eq!(other.decrypt(&ticket), None);
    }

    #[test]
    fn a_ticket_with_any_byte_changed_or_missing_is_not_read() {
        let (seed, clock) = (Seed::new(NOON).unwrap(), clock(NOON));
        let tickets = ticketer(&seed, &clock);
        let ticket = tickets.encrypt(b"session").unwrap();
        for at in 0..ticket.len() {
            let mut forged = ticket.clone();
            forged[at] ^= 1;
            assert_eq!(tickets.decrypt(&forged), None, "byte {at}");
            assert_eq!(tickets.decrypt(&ticket[..at]), None, "the first {at} bytes");
        }
        assert_ne!(tickets.encrypt(b"session"), tickets.encrypt(b"session"), "nonces differ");
    }

    #[test]
    fn a_clock_that_jumps_far_is_followed_at_once() {
        let (seed, clock) = (Seed::new(0).unwrap(), clock(0));
        let tickets = ticketer(&seed, &clock);
        clock.0.store(u64::from(u32::MAX) * EPOCH, Relaxed);
        let ticket = tickets.encrypt(b"session").unwrap();
        assert_eq!(tickets.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
    }

    #[test]
    fn no_key_is_shown() {
        let seed = Seed::new(NOON).unwrap();
        assert!(format!("{seed:?}").contains("32 bytes"), "{seed:?}");
    }
}
