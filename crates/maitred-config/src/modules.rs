//! `module` of sites and routes: shared libraries that answer requests, or have a say in them, in the worker process itself.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};

/// The most modules with a configuration that a process has: what a cell of the scoreboard can name, with room to spare.
pub(super) const MODULES_MAX: usize = 256;

/// One table of `module`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleUse {
    /// What is loaded.
    pub module: ModuleSpec,
    /// `timeout`
    pub timeout: Duration,
    /// `body_bytes_max`
    pub body_bytes_max: u64,
    /// `request_fields`, in lower case.
    pub request_fields: Vec<String>,
}

/// A library with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModuleSpec {
    /// `path`: absolute after reading.
    pub path: PathBuf,
    /// `config`, as JSON.
    pub config: String,
}

impl ModuleSpec {
    /// How messages call it: the name of its file.
    pub fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// How long an answer that comes later may take: as long as users wait.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest `timeout`.
const TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);
/// What a small dynamic answer is made of, and no upload.
const BODY_BYTES: u64 = 64 << 10;
/// A body is in memory as a whole.
const BODY_BYTES_MAX: u64 = 16 << 20;

/// `module`
pub(super) const KEY: Key = Key::new(
    "module",
    Kind::SectionOrSections(&TABLE),
    Default::Absent("none"),
    "Shared libraries that the worker process calls. In a route that has nothing else to answer with, the first that answers is what \
     it answers with; with a target besides, they are asked before that. Those of a site are asked for all of its routes, before \
     those of the route. `docs/modules.md`.",
);

/// `module`
pub(super) const TABLE: Table = Table {
    title: "module",
    doc: "A shared library with the interface `maitred_module.h`, which answers requests in the worker process (`docs/modules.md`). \
          It may do all that this process may.",
    example: "[[site.route]]\npath = \"/hello\"\nmodule = { path = \"/usr/local/lib/maitred/libhello.so\", config = { greeting = \
              \"Hello\" } }\n",
    keys: &[
        Key::new(
            "path",
            Kind::Text("a file"),
            Default::Required,
            "The library. It is loaded once for each different `config`.",
        ),
        Key::new(
            "config",
            Kind::Free("what the module knows"),
            Default::Absent("nothing"),
            "What the module gets when it begins, as JSON.",
        ),
        Key {
            reason: "As long as users wait.",
            ..Key::new(
                "timeout",
                Kind::Time { min: Duration::from_millis(1), max: TIMEOUT_MAX },
                Default::Time(TIMEOUT),
                "How long an answer that the module gives later may take; then the client gets 504.",
            )
        },
        Key {
            reason: "What a small dynamic answer is made of. A body is in memory as a whole, in each thread that answers one.",
            ..Key::new(
                "body_bytes_max",
                Kind::Size { min: 0, max: BODY_BYTES_MAX },
                Default::Size(BODY_BYTES),
                "The longest request body, where the module answers and wants bodies; a longer one gets 413. `body_bytes_max` of \
                 `limits` holds as well.",
            )
        },
        Key::new(
            "request_fields",
            Kind::Texts("names of fields"),
            Default::Texts(&[]),
            "Fields that the module may give to a request that goes on to a pool. What clients send of these names is removed, on all \
             routes of the site.",
        ),
    ],
};
