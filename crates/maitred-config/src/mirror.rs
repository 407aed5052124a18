//! `mirror` of sites and routes: a copy of each request goes to another pool, and nothing comes of it.

use serde::{Deserialize, Serialize};

use super::conditions::Share;
use super::keys::{Default, Key, Kind, Table};

/// What a site or a route says of copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MirrorChoice {
    /// `"off"`
    Off,
    /// To this pool.
    To(Mirror),
}

impl MirrorChoice {
    /// Where copies go, if anywhere.
    pub fn target(&self) -> Option<&Mirror> {
        match self {
            MirrorChoice::Off => None,
            MirrorChoice::To(mirror) => Some(mirror),
        }
    }
}

/// `mirror`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// `pool`: an index into `Config::pools`.
    pub pool: usize,
    /// `share`: of how many requests there is a copy, of [`Share::WHOLE`].
    pub parts: u16,
    /// `concurrent`: copies under way, per thread.
    pub concurrent: u16,
}

/// The default of `concurrent`: what a pool of some dozens of processes has under way, with room for a burst.
const CONCURRENT: u64 = 128;

/// The most of `concurrent`: each has two descriptors and a request in memory.
const CONCURRENT_MAX: u64 = 4096;

/// `mirror`
pub(super) const KEY: Key = Key::new(
    "mirror",
    Kind::ChoiceOrSection { words: &["off"], table: &TABLE },
    Default::Absent("none"),
    "A pool that gets a copy of each request that goes to a pool. `\"off\"`: none, whatever the site says.",
);

/// `mirror`
pub(super) const TABLE: Table = Table {
    title: "mirror",
    doc: "Copies of requests for another pool, such as the next version of an application. What it answers is dropped. A request \
          does not wait for its copy; one whose body is longer than `body_inline_bytes_max`, or goes on while it comes, has none.",
    example: "[pool.app]\nconnect = \"http://127.0.0.1:3000\"\n\n[pool.next]\nconnect = \"http://127.0.0.1:3001\"\n\n[[site]]\n\n\
              [[site.route]]\npath = \"/*\"\npool = \"app\"\nmirror = { pool = \"next\", share = \"10%\" }\n",
    keys: &[
        Key::new(
            "pool",
            Kind::Text("the NAME of a `[pool.NAME]`"),
            Default::Required,
            "The pool that gets the copies.",
        ),
        Key::new(
            "share",
            Kind::Text("a percentage such as `\"10%\"`"),
            Default::Text("100%"),
            "Of how many requests there is a copy: a random choice.",
        ),
        Key {
            reason: "What a pool of some dozens of processes has under way, with room for a burst. A copy has two descriptors.",
            ..Key::new(
                "concurrent",
                Kind::Whole { min: 1, max: CONCURRENT_MAX },
                Default::Whole(CONCURRENT),
                "Copies that may be under way at a time, per thread; requests beyond that have none, unless one has been under \
                 way for more than a minute: it is aborted.",
            )
        },
    ],
};

impl Mirror {
    /// Whether the request of this number has a copy; numbers are random.
    pub fn takes(&self, number: u128) -> bool {
        number % u128::from(Share::WHOLE) < u128::from(self.parts)
    }
}
