//! What the parts of the translation have in common: the report, the pools, what was asked of the machine.

use std::cell::RefCell;

use super::tree::Directive;
use crate::import::drafts::{Pool, pool_name};
use crate::import::machine::Machine;
use crate::import::model::Block;
use crate::import::report::{Kind, Report};

/// The translation of one import.
pub(crate) struct Context {
    /// The table.
    pub(crate) report: RefCell<Report>,
    /// The pools so far.
    pub(crate) pools: RefCell<Vec<Pool>>,
    /// What is there.
    pub(crate) machine: Machine,
}

impl Context {
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
