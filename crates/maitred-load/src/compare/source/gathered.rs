//! What a source gives, collected within bounds.

use std::collections::{BTreeMap, HashSet};

use crate::compare::request::{Case, Port, Request};

/// Bytes of all requests together.
const CASES_BYTES_MAX: usize = 64 << 20;

/// What a source may know of the comparison.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Cases that are needed at most.
    pub cases_max: usize,
    /// The servers that were named speak TLS.
    pub is_tls: bool,
    /// Ports that are mapped.
    pub ports: BTreeMap<u16, (u16, u16)>,
    /// The client has a certificate.
    pub has_identity: bool,
    /// The value of `Authorization` by which a user says who it is, where a configuration asks for one.
    pub authorization: Option<String>,
}

/// Requests, and what is to be said about them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gathered {
    /// The cases, the most important ones first.
    pub cases: Vec<Case>,
    /// What the report has to say.
    pub notes: Vec<String>,
    /// The configured port that the named servers stand for.
    pub port: Option<Port>,
}

/// Collects cases, each request once, within bounds.
#[derive(Debug, Default)]
pub(super) struct Collector {
    pub(super) cases: Vec<Case>,
    seen: HashSet<Request>,
    bytes: usize,
    /// Requests that have come before.
    pub(super) repeated: u64,
    beyond: u64,
    cases_max: usize,
}

impl Collector {
    /// With the bounds of a comparison.
    pub(super) fn new(known: &Known) -> Collector {
        Collector { cases_max: known.cases_max, ..Collector::default() }
    }

    /// Takes a case, unless its request is there already.
    pub(super) fn push(&mut self, case: Case) {
        if self.seen.contains(&case.request) {
            self.repeated += 1;
        } else if self.cases.len() >= self.cases_max || self.bytes > CASES_BYTES_MAX {
            self.beyond += 1;
        } else {
            // Fixed parts of a request, and the copy in `seen`.
            self.bytes += 2 * (case.request.size() + 256);
            self.seen.insert(case.request.clone());
            self.cases.push(case);
        }
    }

    /// What was collected.
    pub(super) fn finish(self, mut notes: Vec<String>) -> Gathered {
        if self.beyond > 0 {
            notes.push(format!("{} further requests were left out (--requests-max)", self.beyond));
        }
        Gathered { cases: self.cases, notes, port: None }
    }
}
