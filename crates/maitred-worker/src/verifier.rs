//! Helper threads that check passwords, which takes a twentieth of a second and more: an event loop must not wait for that.
//!
//! A password that was checked is known for a while ([`Known`]), by a keyed hash of it, its user and its hash. Requests with the
//! same credentials that come while these are checked wait for the one check: a browser sends six at a time.

mod line;

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use self::line::Line;
use maitred_base::passwords;
use maitred_base::rates::AddressKey;
use maitred_policy::access::known::{Digest, KeyedHash, Known};

/// Checks that may wait for a thread. With bcrypt's usual cost that is two seconds of work; past it, trying passwords is what
/// keeps the threads busy, and a client is asked to come again: one of the address from which most wait ([`mod@line`]).
pub(super) const CHECKS_MAX: usize = 64;
/// Requests that may wait for one check.
pub(super) const WAITERS_MAX: usize = 256;
/// The threads: two, so that one expensive hash does not keep all others waiting.
const THREADS: usize = 2;

/// Called on a helper thread with the verdict; `None` if there is none, because another address has got the place.
pub(super) type Done = Box<dyn FnOnce(Option<bool>) + Send>;

/// What has to be checked.
#[derive(Debug)]
pub(super) struct Check {
    /// The user.
    pub(super) user: String,
    /// The password.
    pub(super) password: Zeroizing<Vec<u8>>,
    /// The hash that it has to have.
    pub(super) hash: Arc<str>,
    /// Whether there is such a user; otherwise the verdict is known, and only has to take its time.
    pub(super) exists: bool,
    /// How long the verdict is known.
    pub(super) cache: Duration,
    /// The client's address; `None` for one that has none.
    pub(super) from: Option<AddressKey>,
}

/// What is known at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The verdict.
    Known(bool),
    /// The verdict comes later.
    Waits,
    /// Too many checks wait.
    Full,
}

/// The threads, and what they know.
pub(super) struct Verifier {
    inner: Arc<Inner>,
    threads: usize,
}

struct Inner {
    /// The hash, which is missing only if the kernel gives no random bytes.
    hash: Option<KeyedHash>,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    known: Known,
    queue: Line<(Digest, Check)>,
    /// Who waits for which check, also for those that are done at the moment.
    waiting: HashMap<Digest, Vec<Done>>,
}

impl Verifier {
    /// Starts the threads, if they are needed.
    pub(super) fn new(needed: bool) -> Verifier {
        let mut verifier = Verifier::by_hand();
        let start = |_: &usize| {
            let inner = Arc::clone(&verifier.inner);
            let thread = std::thread::Builder::new().name("maitred-auth".to_owned());
            let started = thread.spawn(move || inner.run());
            if let Err(error) = &started {
                tracing::error!(%error, "cannot start a thread that checks passwords");
            }
            started.is_ok()
        };
        verifier.threads = (0..if needed { THREADS } else { 0 }).filter(start).count();
        verifier
    }

    /// A verifier whose checks are done by `work_once` alone.
    pub(super) fn by_hand() -> Verifier {
        let inner = Inner { hash: KeyedHash::random(), state: Mutex::default(), wake: Condvar::new() };
        Verifier { inner: Arc::new(inner), threads: 1 }
    }

    /// Has a password checked. `done` is called only where the answer is [`Asked::Waits`].
    pub(super) fn ask(&self, check: Check, now: Instant, done: Done) -> Asked {
        let Some(digest) = self.inner.digest(&check) else { return Asked::Full };
        let mut state = self.inner.lock();
        if let Some(verdict) = state.known.verdict(&digest, now) {
            return Asked::Known(verdict);
        }
        if let Some(waiting) = state.waiting.get_mut(&digest) {
            if waiting.len() >= WAITERS_MAX {
                return Asked::Full;
            }
            waiting.push(done);
            return Asked::Waits;
        }
        if self.threads == 0 {
            return Asked::Full;
        }
        let Ok(lost) = state.queue.push(check.from, (digest, check), CHECKS_MAX) else { return Asked::Full };
        let displaced = lost.and_then(|(digest, _)| state.waiting.remove(&digest)).unwrap_or_default();
        state.waiting.insert(digest, vec![done]);
        drop(state);
        displaced.into_iter().for_each(|done| done(None));
        self.inner.wake.notify_one();
        Asked::Waits
    }

    /// Does the check that waits longest. False if there is none.
    #[cfg(test)]
    pub(super) fn work_once(&self) -> bool {
        let next = self.inner.lock().queue.pop();
        next.map(|(digest, check)| self.inner.work(digest, &check)).is_some()
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Verifier").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock, so a poisoned state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn digest(&self, check: &Check) -> Option<Digest> {
        let mut parts = self.hash.as_ref()?.begin();
        for part in [check.user.as_bytes(), check.hash.as_bytes(), &[u8::from(check.exists)], &check.password]
        {
            parts.add(part);
        }
        Some(parts.digest())
    }

    fn run(&self) {
        loop {
            let mut state = self.lock();
            while state.queue.is_empty() {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let Some((digest, check)) = state.queue.pop() else { continue };
            drop(state);
            self.work(digest, &check);
        }
    }

    fn work(&self, digest: Digest, check: &Check) {
        let verified = catch_unwind(AssertUnwindSafe(|| passwords::verify(&check.hash, &check.password)));
        let right = matches!(verified, Ok(true)) && check.exists;
        let mut state = self.lock();
        state.known.note(digest, right, check.cache, Instant::now());
        let waiting = state.waiting.remove(&digest).unwrap_or_default();
        drop(state);
        waiting.into_iter().for_each(|done| done(Some(right)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    const HASH: &str = "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0";
    const HOUR: Duration = Duration::from_secs(3600);

    fn check(password: &str, cache: Duration) -> Check {
        Check {
            user: "ann".to_owned(),
            password: Zeroizing::new(password.as_bytes().to_vec()),
            hash: HASH.into(),
            exists: true,
            cache,
            from: None,
        }
    }

    fn done(sender: &Sender<bool>) -> Done {
        let sender = sender.clone();
        Box::new(move |right| sender.send(right.expect("it has kept its place")).unwrap())
    }

    #[test]
    fn guesses_from_one_address_leave_places_to_others() {
        let (verifier, now) = (Verifier::by_hand(), Instant::now());
        let (sender, verdicts) = channel();
        let ask = |from: u32, password: &str| {
            let sender = sender.clone();
            let check = Check { from: Some(AddressKey::V4(from)), ..check(password, HOUR) };
            verifier.ask(check, now, Box::new(move |right| sender.send((from, right)).unwrap()))
        };
        for number in 0..CHECKS_MAX {
            assert_eq!(ask(1, &format!("guess {number}")), Asked::Waits);
        }
        assert_eq!(ask(1, "one more"), Asked::Full);
        assert_eq!(ask(2, "secret"), Asked::Waits);
        assert_eq!(
            verdicts.try_iter().collect::<Vec<_>>(),
            [(1, None)],
            "the newest guess has lost its place"
        );
        assert!(verifier.work_once() && verifier.work_once());
        assert_eq!(
            verdicts.try_iter().collect::<Vec<_>>(),
            [(1, Some(false)), (2, Some(true))],
            "the next but one"
        );
        assert_eq!(ask(1, &format!("guess {}", CHECKS_MAX - 1)), Asked::Waits, "it may ask again");
    }

    #[test]
    fn a_password_is_checked_once_and_known_for_a_while() {
        let (verifier, now) = (Verifier::by_hand(), Instant::now());
        let (sender, verdicts) = channel();
        let ask = |password: &str| verifier.ask(check(password, HOUR), now, done(&sender));
        assert_eq!([ask("secret"), ask("secret"), ask("wrong")], [Asked::Waits; 3]);
        assert!(verifier.work_once() && verifier.work_once());
        assert!(!verifier.work_once(), "those that ask for the same wait for one check");
        assert_eq!(verdicts.try_iter().collect::<Vec<_>>(), [true, true, false]);
        assert_eq!([ask("secret"), ask("wrong")], [Asked::Known(true), Asked::Known(false)]);
        let other = Check { hash: "$apr1$ab$3BvjXV6fi3l3E.kE6zhpe/".into(), ..check("secret", HOUR) };
        assert_eq!(verifier.ask(other, now, done(&sender)), Asked::Waits, "another list has another hash");
        let unknown = Check { exists: false, ..check("secret", HOUR) };
        assert_eq!(verifier.ask(unknown, now, done(&sender)), Asked::Waits);
        assert!(verifier.work_once() && verifier.work_once());
        assert_eq!(verdicts.try_iter().collect::<Vec<_>>(), [false, false], "there is no such user");
    }

    #[test]
    fn without_a_time_nothing_is_known() {
        let (verifier, now) = (Verifier::by_hand(), Instant::now());
        let (sender, _verdicts) = channel();
        for _ in 0..2 {
            assert_eq!(verifier.ask(check("secret", Duration::ZERO), now, done(&sender)), Asked::Waits);
            assert!(verifier.work_once());
        }
    }

    #[test]
    fn checks_and_those_that_wait_for_one_are_bounded() {
        let (verifier, now) = (Verifier::by_hand(), Instant::now());
        let (sender, _verdicts) = channel();
        let ask = |password: &str| verifier.ask(check(password, HOUR), now, done(&sender));
        for number in 0..CHECKS_MAX {
            assert_eq!(ask(&number.to_string()), Asked::Waits);
        }
        assert_eq!(ask("one more"), Asked::Full);
        for _ in 1..WAITERS_MAX {
            assert_eq!(ask("0"), Asked::Waits);
        }
        assert_eq!(ask("0"), Asked::Full);
        assert!(verifier.work_once());
        assert_eq!(ask("one more"), Asked::Waits);
    }

    #[test]
    fn threads_do_the_work() {
        let verifier = Verifier::new(true);
        let (sender, verdicts) = channel();
        assert_eq!(verifier.ask(check("secret", HOUR), Instant::now(), done(&sender)), Asked::Waits);
        assert!(verdicts.recv().unwrap());
        assert_eq!(Verifier::new(false).ask(check("x", HOUR), Instant::now(), done(&sender)), Asked::Full);
    }
}
