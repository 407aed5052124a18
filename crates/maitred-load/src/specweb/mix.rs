//! Which request comes next.

use super::files::{self, CLASSES, FILES};
use super::random::Random;

/// Shares of the classes: 35, 50, 14 and 1 %.
const CLASS_SHARES: [f64; CLASSES as usize] = [0.35, 0.50, 0.14, 0.01];
/// Shares of the nine files of a class.
const FILE_SHARES: [f64; FILES as usize] = [0.039, 0.059, 0.088, 0.177, 0.353, 0.118, 0.071, 0.050, 0.045];
/// Shares of the kinds, in the order of [`Kind`].
const KIND_SHARES: [f64; 4] = [0.70, 0.1260, 0.1260, 0.0480];
/// Share of connections that are kept for several requests, and for how many.
const KEPT_SHARE: f64 = 0.70;
const KEPT_REQUESTS: std::ops::RangeInclusive<u64> = 5..=15;
/// Users that the custom rotation knows.
const USERS: u64 = 36_000;
/// Last advertisements that a cookie names.
const ADS: u64 = 360;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Static,
    /// A page made of a file.
    Dynamic,
    /// A page made of a file, with an advertisement chosen by the cookie.
    Rotation,
    /// Registers a user, and gives a page made of a file.
    Post,
}

#[derive(Debug)]
pub(super) struct Mix {
    random: Random,
    kinds: Vec<f64>,
    classes: Vec<f64>,
    files: Vec<f64>,
    /// Zipf with exponent 1: directory *i* (from 1) is asked for in proportion to 1/*i*.
    directories: Vec<f64>,
}

fn cumulative(shares: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sum = 0.0;
    let mut sums: Vec<f64> = shares
        .into_iter()
        .map(|share| {
            sum += share;
            sum
        })
        .collect();
    sums.iter_mut().for_each(|share| *share /= sum);
    sums
}

impl Mix {
    pub(super) fn new(seed: u64, directories: u64) -> Self {
        Mix {
            random: Random::new(seed),
            kinds: cumulative(KIND_SHARES),
            classes: cumulative(CLASS_SHARES),
            files: cumulative(FILE_SHARES),
            directories: cumulative((1..=directories.max(1)).map(|rank| 1.0 / rank as f64)),
        }
    }

    /// How many requests the next connection brings.
    pub(super) fn session(&mut self) -> u64 {
        if self.random.unit() >= KEPT_SHARE {
            return 1;
        }
        KEPT_REQUESTS.start() + self.random.below(KEPT_REQUESTS.end() - KEPT_REQUESTS.start() + 1)
    }

    /// Appends a request; `closes`: it is the connection's last.
    pub(super) fn request(&mut self, host: &str, closes: bool, out: &mut Vec<u8>) -> Kind {
        let kind = match self.random.pick(&self.kinds) {
            0 => Kind::Static,
            1 => Kind::Dynamic,
            2 => Kind::Rotation,
            _ => Kind::Post,
        };
        let directory = self.random.pick(&self.directories) as u64;
        let (class, file) = (self.random.pick(&self.classes) as u64, self.random.pick(&self.files) as u64);
        let path = files::path(directory, class, file);
        let close = if closes { "Connection: close\r\n" } else { "" };
        let text = match kind {
            Kind::Static => format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\n{close}\r\n"),
            Kind::Dynamic => format!("GET /app/get?/{path} HTTP/1.1\r\nHost: {host}\r\n{close}\r\n"),
            Kind::Rotation => {
                let (user, ad) = (self.random.below(USERS), self.random.below(ADS));
                format!(
                    "GET /app/rotate?/{path} HTTP/1.1\r\nHost: {host}\r\nCookie: user_id={user}; last_ad={ad}\r\n{close}\r\n"
                )
            }
            Kind::Post => {
                let body = format!("urlroot=/{path}&user_id={}", self.random.below(USERS));
                format!(
                    "POST /app/post HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                     Content-Length: {}\r\n{close}\r\n{body}",
                    body.len()
                )
            }
        };
        out.extend_from_slice(text.as_bytes());
        kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(count: usize, of: usize, share: f64) -> bool {
        (count as f64 / of as f64 - share).abs() < 0.01
    }

    #[test]
    fn the_shares_are_as_published() {
        const COUNT: usize = 50_000;
        let mut mix = Mix::new(7, 100);
        let requests: Vec<(Kind, String)> = (0..COUNT)
            .map(|_| {
                let mut out = Vec::new();
                let kind = mix.request("h", false, &mut out);
                (kind, String::from_utf8(out).unwrap())
            })
            .collect();
        let count =
            |wanted: &dyn Fn(&(Kind, String)) -> bool| requests.iter().filter(|found| wanted(found)).count();
        assert!(near(count(&|(kind, _)| *kind == Kind::Static), COUNT, 0.70));
        assert!(near(count(&|(kind, _)| *kind == Kind::Post), COUNT, 0.048));
        for (class, share) in CLASS_SHARES.iter().enumerate() {
            assert!(
                near(count(&|(_, text)| text.contains(&format!("class{class}_"))), COUNT, *share),
                "{class}"
            );
        }
        // Zipf over 100 directories: the first has 1/H(100), the second half of that.
        assert!(near(count(&|(_, text)| text.contains("dir00000")), COUNT, 1.0 / 5.187));
        assert!(near(count(&|(_, text)| text.contains("dir00001")), COUNT, 0.5 / 5.187));
        assert!(count(&|(_, text)| text.contains("dir00100")) == 0);
    }

    #[test]
    fn sessions_are_single_or_five_to_fifteen() {
        let mut mix = Mix::new(7, 1);
        let sessions: Vec<u64> = (0..50_000).map(|_| mix.session()).collect();
        assert!(sessions.iter().all(|count| *count == 1 || KEPT_REQUESTS.contains(count)));
        assert!(near(sessions.iter().filter(|count| **count == 1).count(), sessions.len(), 0.30));
        assert!(near(sessions.iter().filter(|count| **count == 15).count(), sessions.len(), 0.70 / 11.0));
    }

    #[test]
    fn the_same_seed_gives_the_same_requests() {
        let run = |seed| {
            let (mut mix, mut out) = (Mix::new(seed, 50), Vec::new());
            for _ in 0..100 {
                mix.request("h", true, &mut out);
            }
            out
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
