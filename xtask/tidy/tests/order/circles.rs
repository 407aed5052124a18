//! Circles among the files of a crate: by imports, and by imports and calls. `circles.txt` has how large they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use maitred_tidy::report;

use crate::calls::Calls;
use crate::source::{self, Crate, Edge};
use crate::{packages, read};

/// With this in the environment, a baseline that is too high is lowered.
const WRITE: &str = "MAITRED_WRITE_BASELINE";
/// The begin of the baseline.
const HEAD: &str = "\
# Circles of more than two files in a crate: by imports, or by imports and calls of methods; how many files are in each.
# They may only fall: `MAITRED_WRITE_BASELINE=1 cargo test -p maitred-tidy --test order` writes lower ones.
";

/// Sizes of circles, the largest first, by kind and crate.
type Sizes = BTreeMap<(String, String), Vec<usize>>;

/// Files of a circle, sorted.
type Circle = Vec<String>;

/// Circles of more than two files, the largest first.
pub(crate) fn large(edges: &[Edge]) -> Vec<Circle> {
    let mut circles = source::cycles(edges);
    circles.retain(|circle| circle.len() > 2);
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// The kinds of circles, with the edges that they are made of.
fn kinds(of: &Crate) -> [(&'static str, Vec<Edge>); 2] {
    let imports = of.edges();
    let mut all = Calls::read(of).edges();
    all.extend(imports.iter().cloned());
    all.sort();
    [("imports", imports), ("calls", all)]
}

/// A circle with one import or call of each pair of files.
pub(crate) fn shown(circle: &Circle, edges: &[Edge]) -> String {
    let mut within: Vec<&Edge> =
        edges.iter().filter(|edge| circle.contains(&edge.from) && circle.contains(&edge.to)).collect();
    within.sort_by_key(|edge| (&edge.from, &edge.to, edge.line));
    within.dedup_by(|later, first| later.from == first.from && later.to == first.to);
    let edges: String = within.iter().map(|edge| format!("\n    {edge}")).collect();
    format!("{} files need one another:{edges}", circle.len())
}

/// Circles of these sizes are no more than those: of the largest ones, any number together has no more files.
fn is_no_more(now: &[usize], before: &[usize]) -> bool {
    let (mut files, mut allowed) = (0, 0);
    (0..now.len().max(before.len())).all(|at| {
        files += now.get(at).unwrap_or(&0);
        allowed += before.get(at).unwrap_or(&0);
        files <= allowed
    })
}

fn parse(text: &str) -> Sizes {
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let key = (words.next()?.to_owned(), words.next()?.to_owned());
        Some((key, words.map(|word| word.parse().expect("a size is a number")).collect()))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
}

fn write(sizes: &Sizes) -> String {
    let row = |((kind, package), sizes): (&(String, String), &Vec<usize>)| {
        let sizes: String = sizes.iter().map(|size| format!(" {size}")).collect();
        format!("{kind} {package}{sizes}\n")
    };
    HEAD.to_owned() + &sizes.iter().map(row).collect::<String>()
}

fn baseline() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/order/circles.txt")
}

#[test]
fn circles_among_files_only_become_fewer_and_smaller() {
    let before = std::fs::read_to_string(baseline()).expect("there is a baseline");
    let (allowed, mut sizes, mut found) = (parse(&before), Sizes::new(), Vec::new());
    let mut seen = 0;
    for package in packages() {
        for (kind, edges) in kinds(&read(&package)) {
            seen += edges.len();
            let circles = large(&edges);
            let key = (kind.to_owned(), package.clone());
            let now: Vec<usize> = circles.iter().map(Vec::len).collect();
            let most = allowed.get(&key).cloned().unwrap_or_default();
            if !is_no_more(&now, &most) {
                let others = circles.iter().filter(|circle| !most.contains(&circle.len()));
                let others: String = others.map(|circle| format!("\n  {}", shown(circle, &edges))).collect();
                found.push(format!("{package}, {kind}: {now:?}, allowed: {most:?}{others}"));
            }
            if !now.is_empty() {
                sizes.insert(key, now);
            }
        }
    }
    assert!(seen > 5000, "{seen} imports and calls: are they all read?");
    report("circles have grown", &found);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(baseline(), write(&sizes)).expect("the baseline can be written");
        return;
    }
    let of = |sizes: &Sizes, key: &(String, String)| sizes.get(key).cloned().unwrap_or_default();
    let differ = allowed.keys().filter(|key| of(&allowed, key) != of(&sizes, key));
    let show = |key: &(String, String)| {
        format!("{}, {}: {:?}, baseline: {:?}", key.1, key.0, of(&sizes, key), of(&allowed, key))
    };
    let fallen: Vec<String> = differ.map(show).collect();
    report(&format!("circles are fewer or smaller: run with {WRITE}=1, and commit circles.txt"), &fallen);
}

#[test]
fn a_baseline_only_falls() {
    assert!(is_no_more(&[], &[]) && is_no_more(&[], &[3]) && is_no_more(&[4, 3], &[4, 3]));
    assert!(is_no_more(&[12, 8], &[20]), "a circle that has come apart");
    assert!(!is_no_more(&[3], &[]) && !is_no_more(&[5], &[4]) && !is_no_more(&[4, 3], &[4]));
    assert!(!is_no_more(&[7], &[4, 3]), "circles that have grown together");
    let sizes = parse("# x\ncalls b 5 3\nimports a 3\n");
    assert_eq!(write(&sizes), format!("{HEAD}calls b 5 3\nimports a 3\n"));
}
