//! What the parts of the translation of Unit have in common.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use serde_json::Value as Json;

use crate::drafts::{Named, free_name};
use crate::model::Block;
use crate::report::{Kind, Place, Report};
use crate::shared::Shared;

/// The translation of one configuration.
pub(crate) struct Context<'a> {
    shared: Shared,
    /// The pools, each with what of the configuration it is.
    names: RefCell<Vec<(String, String)>>,
    /// The whole configuration.
    pub(crate) root: &'a Json,
    text: &'a str,
    file: Rc<str>,
}

impl Deref for Context<'_> {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl<'a> Context<'a> {
    /// The report, at the end.
    pub(crate) fn into_report(self) -> Report {
        self.shared.report.into_inner()
    }

    /// At the start.
    pub(crate) fn new(root: &'a Json, text: &'a str, file: &str) -> Context<'a> {
        let mut report = Report::default();
        report.read(&file.into(), text);
        Context { shared: Shared::new(report), names: RefCell::default(), root, text, file: file.into() }
    }

    /// The place of a member, by its path: where its last name stands, behind those of the names before.
    pub(crate) fn place(&self, path: &str) -> Place {
        let mut from = 0;
        for name in path.split('/').filter(|name| name.parse::<usize>().is_err() && !name.is_empty()) {
            let quoted = format!("\"{}\"", name.replace("~1", "/"));
            from = self.text.get(from..).and_then(|rest| rest.find(&quoted)).map_or(from, |at| from + at);
        }
        let line = 1 + self.text.bytes().take(from).filter(|byte| *byte == b'\n').count();
        Place { file: self.file.clone(), line }
    }

    /// Says what became of a member.
    pub(crate) fn say(&self, path: &str, kind: Kind, why: impl Into<String>) {
        let place = self.place(path);
        self.report.borrow_mut().say(&place, path, kind, why);
    }

    /// Reports that what stands at `path` is in the output.
    pub(crate) fn translated(&self, path: &str) {
        self.say(path, Kind::Translated, "");
    }

    /// Reports that what stands at `path` is not possible.
    pub(crate) fn not_possible(&self, path: &str, why: impl Into<String>) {
        self.say(path, Kind::NotPossible, why);
    }

    /// The pool that was made of this part of the configuration.
    pub(crate) fn known(&self, part: &str) -> Option<String> {
        self.names.borrow().iter().find(|(known, _)| known == part).map(|(_, name)| name.clone())
    }

    /// A new pool.
    pub(crate) fn pool(&self, part: &str, wanted: &str, block: Block) -> String {
        let mut pools = self.pools.borrow_mut();
        let name = free_name(wanted, &pools);
        pools.push(Named { name: name.clone(), block });
        self.names.borrow_mut().push((part.to_owned(), name.clone()));
        name
    }
}
