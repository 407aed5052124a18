//! `response_buffering` of sites and routes: what is kept of a response for a client that is slower than what answers.

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};

/// `response_buffering`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseBuffering {
    /// `memory`: bytes of one response; 0 with `"off"`.
    pub memory: u32,
    /// `disk`: further bytes of one response.
    pub disk: u64,
}

impl ResponseBuffering {
    /// `"off"`
    pub const OFF: ResponseBuffering = ResponseBuffering { memory: 0, disk: 0 };
}

/// The default of `memory`: most pages, with what the kernel keeps of them besides.
const MEMORY: u64 = 256 << 10;

/// The default of `disk`: that of nginx (`proxy_max_temp_file_size`).
const DISK: u64 = 1 << 30;

/// `response_buffering`
pub(super) const KEY: Key = Key::new(
    "response_buffering",
    Kind::ChoiceOrSection { words: &["off"], table: &TABLE },
    Default::Absent("`\"off\"`"),
    "How much is kept of the response of a pool for a client that takes it slowly, so that what answers is free early. A response \
     always goes to the client as it comes. `\"off\"`: no more than one read, and what the kernel keeps.",
);

/// `response_buffering`
pub(super) const TABLE: Table = Table {
    title: "response_buffering",
    doc: "What is kept of a response for a client that takes it more slowly than the pool answers. Memory counts in \
          `unsent_memory_bytes_max`, and space on the disk in `bodies_disk_bytes_max`: when those are used up, nothing more is kept.",
    example: "[pool.app]\nconnect = \"http://127.0.0.1:3000\"\n\n[[site]]\n\n[[site.route]]\npath = \"/*\"\npool = \"app\"\n\
              response_buffering = { memory = \"1MiB\", disk = \"100MiB\" }\n",
    keys: &[
        Key {
            reason: "Most pages fit, besides what the kernel keeps.",
            ..Key::new(
                "memory",
                Kind::Size { min: 4096, max: 64 << 20 },
                Default::Size(MEMORY),
                "Bytes of one response that are kept in memory.",
            )
        },
        Key {
            reason: "As much as nginx keeps.",
            ..Key::new(
                "disk",
                Kind::Size { min: 0, max: 1 << 40 },
                Default::Size(DISK),
                "Further bytes of it that are kept in a file without a name in the directory `spool`. 0: none.",
            )
        },
    ],
};
