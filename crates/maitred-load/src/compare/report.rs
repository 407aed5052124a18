//! What a comparison found: differences by kind, each with the smallest request that shows it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::allow::Allowance;
use super::difference::Difference;
use super::request::printable;

/// Kinds that are told apart. Statuses and names of fields make them, and a server could make up names without end.
const KINDS_MAX: usize = 1000;
/// The kind of all further ones.
const FURTHER: &str = "further kinds";
/// Paths of a kind that are shown.
const PATHS_MAX: usize = 5;

/// Everything that a comparison found.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The left server.
    pub left: String,
    /// The right server.
    pub right: String,
    /// Requests whose responses were compared.
    pub compared: u64,
    /// Of these, requests without any difference.
    pub same: u64,
    /// Requests that neither side answered, and in the same way.
    pub failed: BTreeMap<String, u64>,
    /// Bodies that were longer than is read; they were compared so far.
    pub truncated_bodies: u64,
    /// Requests that reached an application on either side; absent without echo servers.
    pub reached_applications: Option<u64>,
    /// Whether all requests were sent.
    pub is_complete: bool,
    /// Seconds that it took.
    pub seconds: f64,
    /// Differences that nothing accepts, the most frequent first.
    pub differences: Vec<Group>,
    /// Differences that are accepted.
    pub accepted: Vec<Group>,
    /// What else there is to say.
    pub notes: Vec<String>,
}

/// The differences of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The kind.
    pub kind: String,
    /// In how many requests.
    pub count: u64,
    /// Why it is accepted, if it is.
    pub accepted: Option<String>,
    /// The first paths, in order.
    pub paths: Vec<String>,
    /// The smallest request.
    pub example: Example,
}

/// A request that shows a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The token of the request.
    pub number: u64,
    /// The request, in one line.
    pub request: String,
    /// Where the request comes from.
    pub about: String,
    /// What the left side has.
    pub left: String,
    /// What the right side has.
    pub right: String,
    /// A command that sends it to the left.
    pub curl_left: String,
    /// A command that sends it to the right.
    pub curl_right: String,
    /// The size of the request; smaller is better.
    #[serde(skip)]
    pub size: usize,
}

impl Report {
    /// 0: both answer alike; 1: that could not be found out; 3: there are differences. 2 is for wrong arguments.
    pub fn exit_code(&self) -> u8 {
        match (self.differences.is_empty(), self.is_complete && self.compared > 0) {
            (false, _) => 3,
            (true, false) => 1,
            (true, true) => 0,
        }
    }

    /// Requests that show a difference which nothing accepts, counted by kind.
    pub fn kinds(&self) -> BTreeMap<&str, u64> {
        self.differences.iter().map(|group| (group.kind.as_str(), group.count)).collect()
    }
}

/// Collects differences by kind.
#[derive(Debug, Default)]
pub(super) struct Groups {
    allowances: Vec<Allowance>,
    /// By kind, and by the number of the allowance that accepts it.
    groups: BTreeMap<(String, Option<usize>), (Group, BTreeSet<String>)>,
    matched: BTreeSet<usize>,
}

impl Groups {
    pub(super) fn new(allowances: &[Allowance]) -> Groups {
        Groups { allowances: allowances.to_vec(), ..Groups::default() }
    }

    /// Adds the differences that a request shows. Each kind counts once for a request.
    pub(super) fn add(
        &mut self,
        path: &[u8],
        differences: Vec<Difference>,
        example: impl Fn(Difference) -> Example,
    ) {
        let mut seen = BTreeSet::new();
        for difference in differences {
            if seen.insert(difference.kind.clone()) {
                self.add_one(path, difference, &example);
            }
        }
    }

    fn add_one(&mut self, path: &[u8], difference: Difference, example: &impl Fn(Difference) -> Example) {
        let by = self.allowances.iter().position(|allowance| allowance.accepts(&difference.kind, path));
        self.matched.extend(by);
        let mut key = (difference.kind.clone(), by);
        if self.groups.len() >= KINDS_MAX && !self.groups.contains_key(&key) {
            key.0 = FURTHER.to_owned();
        }
        let found = example(difference);
        let (group, paths) = self.groups.entry(key.clone()).or_insert_with(|| {
            let reason = by.and_then(|by| self.allowances.get(by)).map(|allowance| allowance.reason.clone());
            let group =
                Group { kind: key.0, count: 0, accepted: reason, paths: Vec::new(), example: found.clone() };
            (group, BTreeSet::new())
        });
        group.count += 1;
        if (found.size, found.number) < (group.example.size, group.example.number) {
            group.example = found;
        }
        paths.insert(printable(path, 100));
        if paths.len() > PATHS_MAX {
            paths.pop_last();
        }
    }

    /// Differences, accepted ones, and a note for each allowance that nothing matched.
    pub(super) fn finish(self) -> (Vec<Group>, Vec<Group>, Vec<String>) {
        let (mut open, mut accepted) = (Vec::new(), Vec::new());
        for (mut group, paths) in self.groups.into_values() {
            group.paths = paths.into_iter().collect();
            if group.accepted.is_some() { accepted.push(group) } else { open.push(group) }
        }
        // What is first in the alphabet is first among equals.
        open.sort_by_key(|group| std::cmp::Reverse(group.count));
        accepted.sort_by_key(|group| std::cmp::Reverse(group.count));
        let unmatched =
            self.allowances.iter().enumerate().filter(|(number, _)| !self.matched.contains(number));
        let note = |(_, allowance): (usize, &Allowance)| {
            format!(
                "line {} of the accepted differences matched nothing: {}",
                allowance.line,
                allowance.shown()
            )
        };
        (open, accepted, unmatched.map(note).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::allow;

    fn difference(kind: &str) -> Difference {
        Difference { kind: kind.to_owned(), left: "a".into(), right: "b".into() }
    }

    fn example(number: u64, size: usize) -> impl Fn(Difference) -> Example {
        move |difference| Example {
            number,
            request: format!("GET /{number}"),
            about: String::new(),
            left: difference.left,
            right: difference.right,
            curl_left: String::new(),
            curl_right: String::new(),
            size,
        }
    }

    #[test]
    fn each_kind_has_its_count_and_its_smallest_request() {
        let mut groups = Groups::new(&[]);
        groups.add(b"/long", vec![difference("b"), difference("a")], example(1, 90));
        groups.add(b"/c", vec![difference("b"), difference("b")], example(2, 10));
        groups.add(b"/d", vec![difference("b")], example(3, 10));
        let (found, accepted, notes) = groups.finish();
        assert!(accepted.is_empty() && notes.is_empty());
        let seen: Vec<_> =
            found.iter().map(|group| (&*group.kind, group.count, group.example.number)).collect();
        assert_eq!(seen, [("b", 3, 2), ("a", 1, 1)]);
        assert_eq!(found[0].paths, ["/c", "/d", "/long"]);
    }

    #[test]
    fn what_is_accepted_stands_apart_and_what_matched_nothing_is_a_note() {
        let allowances = allow::parse("a at /x/* # known\nb # never").unwrap();
        let mut groups = Groups::new(&allowances);
        groups.add(b"/x/1", vec![difference("a")], example(1, 1));
        groups.add(b"/y", vec![difference("a")], example(2, 1));
        let (found, accepted, notes) = groups.finish();
        assert_eq!((found.len(), found[0].paths[0].as_str()), (1, "/y"));
        assert_eq!(accepted[0].accepted.as_deref(), Some("known"));
        assert_eq!(notes, ["line 2 of the accepted differences matched nothing: b"]);
    }

    #[test]
    fn kinds_and_paths_are_bounded() {
        let mut groups = Groups::new(&[]);
        for number in 0..3000 {
            let path = format!("/{number}");
            groups.add(
                path.as_bytes(),
                vec![difference(&format!("k{number}")), difference("k0")],
                example(1, 1),
            );
        }
        let (found, ..) = groups.finish();
        assert_eq!(found.len(), KINDS_MAX + 1);
        assert!(found.iter().all(|group| group.paths.len() <= PATHS_MAX));
        let further = found.iter().find(|group| group.kind == FURTHER).unwrap();
        assert_eq!(further.count, 2000);
    }

    #[test]
    fn the_exit_code_says_what_was_found() {
        let complete = Report { compared: 1, is_complete: true, ..Report::default() };
        assert_eq!(complete.exit_code(), 0);
        assert_eq!(Report { is_complete: false, compared: 1, ..Report::default() }.exit_code(), 1);
        assert_eq!(Report { is_complete: true, ..Report::default() }.exit_code(), 1);
        let mut groups = Groups::new(&[]);
        groups.add(b"/", vec![difference("a")], example(1, 1));
        let (differences, ..) = groups.finish();
        assert_eq!(Report { differences, ..complete }.exit_code(), 3);
    }
}
