//! What the importers have in common while they translate: the report, the tables with names, what was asked of the machine.

use std::cell::RefCell;

use super::drafts::{Named, free_name};
use super::machine::Machine;
use super::model::Block;
use super::report::{Kind, Place, Report};

/// Something of the imported file of which the report says what became of it.
pub(crate) trait Said {
    /// Where it stands, and as what it is shown.
    fn said(&self) -> (&Place, String);
}

impl<T: Said> Said for &T {
    fn said(&self) -> (&Place, String) {
        (*self).said()
    }
}

/// The translation of one import.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The table.
    pub(crate) report: RefCell<Report>,
    /// The pools so far.
    pub(crate) pools: RefCell<Vec<Named>>,
    /// `[limit.NAME]`
    pub(crate) limits: RefCell<Vec<Named>>,
    /// `[access_log.NAME]`
    pub(crate) logs: RefCell<Vec<Named>>,
    /// What is there.
    pub(crate) machine: Machine,
}

impl Shared {
    /// At the start.
    pub(crate) fn new(report: Report) -> Shared {
        Shared { report: RefCell::new(report), ..Shared::default() }
    }

    /// Says what became of a directive.
    pub(crate) fn say(&self, what: &impl Said, kind: Kind, why: impl Into<String>) {
        let (place, shown) = what.said();
        self.report.borrow_mut().say(place, &shown, kind, why);
    }

    /// Reports that `what` is in the output.
    pub(crate) fn translated(&self, what: &impl Said) {
        self.say(what, Kind::Translated, "");
    }

    /// Reports that `what` has no effect here, with the proof.
    pub(crate) fn not_needed(&self, what: &impl Said, why: &str) {
        self.say(what, Kind::NotNeeded, why);
    }

    /// Reports that `what` is not possible.
    pub(crate) fn not_possible(&self, what: &impl Said, why: impl Into<String>) {
        self.say(what, Kind::NotPossible, why);
    }

    /// The name of the pool with these keys; a new one, if there is none yet.
    pub(crate) fn pool(&self, wanted: &str, block: Block) -> String {
        named(&self.pools, wanted, block)
    }

    /// The same of a limit by client.
    pub(crate) fn limit(&self, wanted: &str, block: Block) -> String {
        named(&self.limits, wanted, block)
    }

    /// The same of an access log.
    pub(crate) fn log(&self, wanted: &str, block: Block) -> String {
        named(&self.logs, wanted, block)
    }

    /// The tables that sites and routes name.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let all = [("limit", &self.limits), ("access_log", &self.logs), ("pool", &self.pools)];
        let of = |(kind, named): (&str, &RefCell<Vec<Named>>)| {
            named
                .take()
                .into_iter()
                .map(|named| Block { header: format!("[{kind}.{}]", named.name), ..named.block })
                .collect::<Vec<_>>()
        };
        all.into_iter().flat_map(of).collect()
    }
}

fn named(all: &RefCell<Vec<Named>>, wanted: &str, block: Block) -> String {
    let mut all = all.borrow_mut();
    let keys = |block: &Block| -> Vec<_> {
        block.entries.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
    };
    if let Some(known) = all.iter().find(|known| keys(&known.block) == keys(&block)) {
        return known.name.clone();
    }
    let name = free_name(wanted, &all);
    all.push(Named { name: name.clone(), block });
    name
}
