//! What the parts of the translation have in common: the report, the pools, what was asked of the machine.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::import::drafts::{Pool, pool_name};
use crate::import::machine::Machine;
use crate::import::model::Block;
use crate::import::nginx::tree::Directive;
use crate::import::report::{Kind, Report};

/// The translation of one import.
pub(crate) struct Context<'a> {
    /// The table.
    pub(crate) report: RefCell<Report>,
    /// The pools so far.
    pub(crate) pools: RefCell<Vec<Pool>>,
    /// `upstream` by name.
    pub(crate) upstreams: HashMap<&'a str, &'a Directive>,
    /// `map`, by the variable that it sets.
    maps: HashMap<&'a str, &'a Directive>,
    /// Whether responses of pools are cached anywhere.
    pub(crate) caches: bool,
    /// What is there.
    pub(crate) machine: Machine,
}

/// Where nginx looks for relative paths.
const PREFIX: &str = "/usr/share/nginx";

impl<'a> Context<'a> {
    /// At the start. `http` is what stands in `http { … }`.
    pub(crate) fn new(report: Report, http: &'a [Directive]) -> Context<'a> {
        let named = http.iter().filter(|directive| directive.name == "upstream");
        let maps = http.iter().filter(|directive| directive.name == "map");
        Context {
            report: RefCell::new(report),
            pools: RefCell::default(),
            upstreams: named.map(|directive| (directive.arg(0), directive)).collect(),
            maps: maps.map(|directive| (directive.arg(1), directive)).collect(),
            caches: http.iter().any(caches),
            machine: Machine::default(),
        }
    }

    /// The `map` that sets a variable, which is all of a value: `$name` or `${name}`.
    pub(crate) fn map(&self, value: &str) -> Option<&'a Directive> {
        let name = value.strip_prefix('$')?.trim_start_matches('{').trim_end_matches('}');
        self.maps.iter().find(|(variable, _)| variable.strip_prefix('$') == Some(name)).map(|(_, map)| *map)
    }

    /// Says what became of a directive.
    pub(crate) fn say(&self, directive: &Directive, kind: Kind, why: impl Into<String>) {
        self.report.borrow_mut().say(&directive.place, &directive.shown(), kind, why);
    }

    /// It is in the output.
    pub(crate) fn translated(&self, directive: &Directive) {
        self.say(directive, Kind::Translated, "");
    }

    /// It is there without being asked for.
    pub(crate) fn automatic(&self, directive: &Directive, why: &str) {
        self.say(directive, Kind::Automatic, why);
    }

    /// It is not possible.
    pub(crate) fn not_possible(&self, directive: &Directive, why: impl Into<String>) {
        self.say(directive, Kind::NotPossible, why);
    }

    /// The name of the pool with these keys; a new one, if there is none yet.
    pub(crate) fn pool(&self, wanted: &str, block: Block) -> String {
        let mut pools = self.pools.borrow_mut();
        let keys = |block: &Block| -> Vec<_> {
            block.entries.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
        };
        if let Some(pool) = pools.iter().find(|pool| keys(&pool.block) == keys(&block)) {
            return pool.name.clone();
        }
        let name = pool_name(wanted, &pools);
        pools.push(Pool { name: name.clone(), block });
        name
    }
}

/// Whether a directive, or one within it, has responses of pools cached.
fn caches(directive: &Directive) -> bool {
    let names = ["proxy_cache", "fastcgi_cache", "uwsgi_cache", "scgi_cache"];
    let here = names.contains(&directive.name.as_str()) && directive.arg(0) != "off";
    here || directive.inside().iter().any(caches)
}

/// An absolute path.
pub(crate) fn absolute(path: &str) -> String {
    match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("{PREFIX}/{path}"),
    }
}

/// Certificates and files of users are looked for beside `nginx.conf`.
pub(crate) fn in_conf(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/etc/nginx/{path}") }
}
