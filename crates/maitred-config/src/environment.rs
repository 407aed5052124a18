//! `env_inherit`: what a program gets of the master's environment.

use super::keys::{Default, Key, Kind};

/// `env_inherit` of a pool, and of a hook.
pub(super) const KEY: Key = Key::new(
    "env_inherit",
    Kind::Texts("names of variables, or the beginning of names and `*`"),
    Default::Texts(&[]),
    "Variables of the server's own environment that are passed on, besides those that every program gets: `PATH`, \
     `PYTHONPATH`, `VIRTUAL_ENV`, `NODE_PATH`, `GEM_HOME`, `GEM_PATH`, `PERL5LIB`, `LANG`, `LANGUAGE`, `LC_*`, `TZ` and `TZDIR`. `\"*\"` passes all on. `HOME`, `USER`, `LOGNAME` and `SHELL` are those of the account \
     ([Environment](pools.md#environment)).",
);
