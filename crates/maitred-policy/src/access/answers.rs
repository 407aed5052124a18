//! Answers of `forward_auth` that are kept: which, how long, and how many.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use maitred_http::fields::FieldsRef;

use super::known::Digest;
use maitred_config::{AuthCache, KeyPart};

/// The most bytes of fields and content of one answer that is kept: more than the name of a user, groups and a short token take.
pub const ANSWER_BYTES_MAX: usize = 4096;

/// A bounded memory of answers.
#[derive(Debug)]
pub struct Answers<T> {
    max: usize,
    kept: HashMap<Digest, (Instant, Arc<T>)>,
    /// What is kept, each once, the oldest first.
    order: VecDeque<Digest>,
}

impl<T> Answers<T> {
    /// At most so many.
    pub fn new(max: usize) -> Answers<T> {
        Answers { max, kept: HashMap::new(), order: VecDeque::new() }
    }

    /// What was answered, while that holds.
    pub fn get(&self, of: &Digest, now: Instant) -> Option<Arc<T>> {
        let (until, answer) = self.kept.get(of)?;
        (now < *until).then(|| Arc::clone(answer))
    }

    fn is_over(&self, of: &Digest, now: Instant) -> bool {
        self.kept.get(of).is_none_or(|(until, _)| *until <= now)
    }

    /// Keeps an answer for this time. The oldest goes for it where there is no place.
    pub fn keep(&mut self, of: Digest, answer: T, time: Duration, now: Instant) {
        let entry = (now + time, Arc::new(answer));
        if let Some(known) = self.kept.get_mut(&of) {
            // The answer keeps its place in the order: each is there once.
            *known = entry;
            return;
        }
        while let Some(oldest) = self.order.front().copied()
            && (self.kept.len() >= self.max || self.is_over(&oldest, now))
        {
            self.kept.remove(&oldest);
            self.order.pop_front();
        }
        self.order.push_back(of);
        self.kept.insert(of, entry);
    }
}

/// How long an answer is kept; `None` if it is not.
///
/// `named`: the request has a field or a cookie of the key, or the key names none.
pub fn time_of(rules: &AuthCache, status: u16, fields: FieldsRef<'_>, named: bool) -> Option<Duration> {
    let most = match status {
        // What admits a client without any of the credentials in the key is something that is not in the key.
        200..300 if named => rules.time,
        401 | 403 => rules.refused_time,
        _ => return None,
    };
    let mut own: Option<u64> = None;
    let (mut shared, mut expires) = (None, false);
    for (name, value) in fields.iter() {
        if name.eq_ignore_ascii_case(b"set-cookie") {
            return None;
        }
        expires |= name.eq_ignore_ascii_case(b"expires");
        if name.eq_ignore_ascii_case(b"vary")
            && !value.split(|byte| *byte == b',').all(|name| covers(rules, name))
        {
            return None;
        }
        if !name.eq_ignore_ascii_case(b"cache-control") {
            continue;
        }
        for directive in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let (name, value) = match directive.iter().position(|byte| *byte == b'=') {
                Some(at) => (directive.get(..at).unwrap_or_default(), directive.get(at + 1..)),
                None => (directive, None),
            };
            match name.to_ascii_lowercase().as_slice() {
                b"no-store" | b"no-cache" | b"private" => return None,
                b"max-age" => own = Some(seconds(value)),
                b"s-maxage" => shared = Some(seconds(value)),
                _ => {}
            }
        }
    }
    let said = shared.or(own);
    if said.is_none() && expires {
        // What has a date mostly has one that is over; who wants to have it kept says so by `max-age`.
        return None;
    }
    let time = said.map_or(most, |seconds| most.min(Duration::from_secs(seconds)));
    (!time.is_zero()).then_some(time)
}

/// What is no number is no time (RFC 9111 section 4.2.1).
fn seconds(value: Option<&[u8]>) -> u64 {
    let text = value.and_then(|value| std::str::from_utf8(value).ok());
    text.and_then(|text| text.trim_matches('"').parse().ok()).unwrap_or(0)
}

/// Whether the key has what an answer varies by (a name of a field of the question).
fn covers(rules: &AuthCache, name: &[u8]) -> bool {
    let name = name.trim_ascii().to_ascii_lowercase();
    let has = |wanted: fn(&KeyPart) -> bool| rules.key.iter().any(wanted);
    match name.as_slice() {
        // Content of an answer that admits is of no use, and scheme and host are a part of each key.
        b"" | b"accept-encoding" | b"host" | b"x-forwarded-host" | b"x-forwarded-proto" => true,
        b"x-forwarded-method" => has(|part| *part == KeyPart::Method),
        b"x-forwarded-uri" => has(|part| *part == KeyPart::Uri),
        b"x-forwarded-for" => has(|part| *part == KeyPart::Client),
        // A key that names one cookie says that others do not count.
        b"cookie" if has(|part| matches!(part, KeyPart::Cookie(_))) => true,
        name => {
            rules.key.iter().any(|part| matches!(part, KeyPart::Header(known) if known.as_bytes() == name))
        }
    }
}

#[cfg(test)]
mod tests {
    use maitred_http::fields::FieldLines;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn digest(number: usize) -> Digest {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        digest
    }

    #[test]
    fn answers_hold_for_a_time_and_the_oldest_goes_first() {
        let (mut answers, now) = (Answers::new(2), Instant::now());
        answers.keep(digest(1), 'a', MINUTE, now);
        answers.keep(digest(2), 'b', MINUTE * 2, now);
        let all =
            |answers: &Answers<char>, at| [1, 2, 3].map(|of| answers.get(&digest(of), at).map(|kept| *kept));
        assert_eq!(all(&answers, now), [Some('a'), Some('b'), None]);
        assert_eq!(all(&answers, now + MINUTE), [None, Some('b'), None]);
        answers.keep(digest(1), 'c', MINUTE, now);
        assert_eq!(all(&answers, now), [Some('c'), Some('b'), None]);
        answers.keep(digest(3), 'd', MINUTE, now);
        assert_eq!(all(&answers, now), [None, Some('b'), Some('d')]);
        answers.keep(digest(1), 'e', MINUTE, now + MINUTE * 2);
        assert_eq!((answers.kept.len(), answers.order.len()), (1, 1), "what is over is dropped");
    }

    #[test]
    fn they_are_bounded_whatever_comes() {
        let (mut answers, now) = (Answers::new(100), Instant::now());
        for number in 0..10_000 {
            answers.keep(digest(number % 777), number, MINUTE, now);
            assert!(answers.kept.len() <= 100 && answers.order.len() == answers.kept.len());
        }
    }

    fn time(key: &[KeyPart], status: u16, fields: &[(&str, &str)], named: bool) -> Option<u64> {
        let rules =
            AuthCache { answers: 0, time: MINUTE, refused_time: Duration::from_secs(5), key: key.to_vec() };
        let mut lines = FieldLines::default();
        fields.iter().for_each(|(name, value)| lines.push(name.as_bytes(), value.as_bytes()));
        time_of(&rules, status, lines.all(), named).map(|time| time.as_secs())
    }

    #[test]
    fn the_other_server_says_what_may_be_kept() {
        let key = [KeyPart::Header("cookie".to_owned()), KeyPart::Method];
        let of = |fields: &[(&str, &str)]| time(&key, 200, fields, true);
        assert_eq!(of(&[("remote-user", "ann")]), Some(60));
        for control in
            ["no-store", "public, No-Cache", "private", "max-age=0", "max-age=x", "s-maxage=0, max-age=9"]
        {
            assert_eq!(of(&[("Cache-Control", control)]), None, "{control}");
        }
        assert_eq!(of(&[("cache-control", "public, max-age=7")]), Some(7));
        assert_eq!(of(&[("cache-control", "max-age=7, s-maxage=\"9\"")]), Some(9));
        assert_eq!(of(&[("cache-control", "max-age=700")]), Some(60));
        assert_eq!(of(&[("Set-Cookie", "a=b")]), None);
        assert_eq!(of(&[("Expires", "0")]), None);
        assert_eq!(of(&[("Expires", "0"), ("cache-control", "max-age=7")]), Some(7));
        assert_eq!(of(&[("Vary", "Cookie, Accept-Encoding")]), Some(60));
        for vary in ["*", "Authorization", "cookie, X-Forwarded-Uri", "X-Forwarded-For"] {
            assert_eq!(of(&[("Vary", vary)]), None, "{vary}");
        }
        assert_eq!(time(&[KeyPart::Cookie("s".to_owned())], 200, &[("Vary", "cookie")], true), Some(60));
        assert_eq!(time(&[KeyPart::Uri], 200, &[("Vary", "x-forwarded-uri")], true), Some(60));
    }

    #[test]
    fn errors_and_redirects_are_never_kept() {
        let of = |status, named| time(&[KeyPart::Client], status, &[], named);
        assert_eq!(
            [200, 204, 401, 403].map(|status| of(status, true)),
            [Some(60), Some(60), Some(5), Some(5)]
        );
        assert_eq!([302, 404, 425, 429, 500, 503].map(|status| of(status, true)), [None; 6]);
        assert_eq!((of(200, false), of(401, false)), (None, Some(5)), "without credentials that the key has");
    }
}
