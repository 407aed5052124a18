//! `compress` of sites and routes.

use serde::{Deserialize, Serialize};

use super::coding::Coding;
use super::keys::{Default, Key, Kind, Table};

/// `compress`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compression {
    /// `false`
    Off,
    /// `true`, or a table.
    On(Compress),
}

/// Which responses are compressed, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compress {
    /// `types`: media types, in lower case; `text/*` stands for a family, `*+json` for all with that ending.
    pub types: Vec<String>,
    /// `bytes_min`: shorter ones stay as they are.
    pub bytes_min: u64,
    /// `codings`: in order of preference; at least one, each once.
    pub codings: Vec<Coding>,
    /// `zstd_level`
    pub zstd_level: u8,
    /// `gzip_level`
    pub gzip_level: u8,
    /// `cookies_over_tls`: also responses that set cookies, to clients with TLS.
    pub cookies_over_tls: bool,
}

/// `types` unless told otherwise: what is text, by whatever name, and what is as easy to compress.
const TYPES: &[&str] = &[
    "text/*",
    "*+json",
    "*+xml",
    "application/javascript",
    "application/json",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/xml",
    "font/otf",
    "font/ttf",
];
const CODINGS: &[&str] = &["br", "zstd", "gzip"];
const BYTES_MIN: u64 = 1000;
/// 10 KB of JSON take 0.24 × the time of zlib 6 as nginx uses it; at 3 they take 0.31 ×, for 1 % fewer bytes
/// (`bench/runs/2026-11-23-compression`).
const ZSTD_LEVEL: u64 = 1;
/// 0.40 × the time of the same; 1 takes 0.24 ×, and makes the content a third larger.
const GZIP_LEVEL: u64 = 2;
/// Higher ones take longer than an event loop may.
const LEVEL_MAX: u64 = 9;

/// `compress`
pub(super) const KEY: Key = Key::new(
    "compress",
    Kind::FlagOrSection(&COMPRESS),
    Default::Flag(false),
    "Compress responses for clients that accept it: [compression](compression.md). That of a route replaces that of its site. It is \
     off unless told otherwise, because compression can reveal secrets over TLS, and because processes with \
     `transport = \"auto\"` or `\"direct\"` no longer write to the client's socket themselves.",
);

/// `compress`
pub(super) const COMPRESS: Table = Table {
    title: "compress",
    doc: "Which responses are compressed, and how. `compress = true` is the same with all defaults. See \
          [compression](compression.md).",
    example: "[pool.api]\nconnect = \"http://127.0.0.1:3000\"\n\n[[site]]\ncompress = true\n\n[[site.route]]\npath = \"/api/*\"\n\
              pool = \"api\"\ncompress = { types = [\"application/json\"], gzip_level = 4 }\n",
    keys: &[
        Key::new(
            "types",
            Kind::Texts("media types, `\"text/*\"` for a family, `\"*+json\"` for an ending"),
            Default::Texts(TYPES),
            "Media types that are compressed. `text/event-stream` only where it is named itself: each stream holds an encoder for as \
             long as it lasts.",
        ),
        Key::new(
            "bytes_min",
            Kind::Size { min: 0, max: 1 << 30 },
            Default::Size(BYTES_MIN),
            "Responses that announce a shorter length stay as they are: they fit into one packet anyway.",
        ),
        Key::new(
            "codings",
            Kind::Choices(CODINGS),
            Default::Texts(CODINGS),
            "Codings, the preferred one first: it is taken among those that the client likes best. `br` (Brotli) is for what is \
             compressed once: files, and responses that the cache keeps. What comes from applications cannot wait for it.",
        ),
        Key::new(
            "zstd_level",
            Kind::Whole { min: 1, max: LEVEL_MAX },
            Default::Whole(ZSTD_LEVEL),
            "Level of zstd. 3 makes 10 KB of JSON 1 % smaller than 1, and 100 KB 6 %, in a quarter more time.",
        ),
        Key::new(
            "gzip_level",
            Kind::Whole { min: 1, max: LEVEL_MAX },
            Default::Whole(GZIP_LEVEL),
            "Level of gzip. 2 makes JSON about a fifth larger than 6, in half of its time or less.",
        ),
        Key::new(
            "cookies_over_tls",
            Kind::Flag,
            Default::Flag(false),
            "Whether responses with `Set-Cookie` are compressed over TLS, too: they are about one user, and their length can reveal \
             what they say ([BREACH](compression.md#secrets-over-tls)).",
        ),
    ],
};

impl std::default::Default for Compress {
    fn default() -> Compress {
        Compress {
            types: TYPES.iter().map(|text| (*text).to_owned()).collect(),
            bytes_min: BYTES_MIN,
            codings: CODINGS.iter().filter_map(|token| Coding::of_token(token)).collect(),
            zstd_level: ZSTD_LEVEL as u8,
            gzip_level: GZIP_LEVEL as u8,
            cookies_over_tls: false,
        }
    }
}
