//! Routes that no request reaches, because an earlier one takes all that they would take.
//!
//! Each route is looked up among those before it, and compared with those alone that can cover one of its paths: a site may have
//! tens of thousands of routes.

use std::collections::{BTreeSet, HashMap};

use super::super::meaning::Route;
use super::super::paths::PathPattern;

/// Earlier routes that are looked at for one pattern and one way of covering it. Only where many routes have the same pattern, or
/// the same beginning and a star in the middle, there are more; a route that only one of those would cover is not found.
const CANDIDATES_MAX: usize = 64;

/// The routes of a site so far that take all requests for their paths, but for the method, and for what their conditions ask.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// The methods of each; none is any.
    methods: HashMap<usize, Vec<String>>,
    all: Vec<usize>,
    exact: Index<String>,
    prefix: Index<String>,
    suffix: Index<String>,
    /// By all their pieces.
    glob: Index<Vec<String>>,
    /// By the first piece.
    glob_first: Index<String>,
    globs: HashMap<usize, Vec<Vec<String>>>,
    /// The lengths of what stands in `prefix` and `glob_first`, and in `suffix`.
    prefix_lengths: BTreeSet<usize>,
    suffix_lengths: BTreeSet<usize>,
    /// How many earlier routes were looked at, in all.
    pub looked_at: u64,
}

type Index<K> = HashMap<K, Vec<usize>>;

fn add<K: std::hash::Hash + Eq>(index: &mut Index<K>, key: K, route: usize) {
    let routes = index.entry(key).or_default();
    if routes.len() < CANDIDATES_MAX && routes.last() != Some(&route) {
        routes.push(route);
    }
}

impl Earlier {
    /// Adds the route of this number.
    pub(super) fn add(&mut self, number: usize, route: &Route) {
        if route.path_regex.is_some() {
            return;
        }
        self.add_patterns(number, &route.methods, &route.patterns);
    }

    fn add_patterns(&mut self, number: usize, methods: &[String], patterns: &[PathPattern]) {
        self.methods.insert(number, methods.to_vec());
        for pattern in patterns {
            match pattern {
                PathPattern::All if self.all.len() < CANDIDATES_MAX => self.all.push(number),
                PathPattern::All => {}
                PathPattern::Exact(path) => add(&mut self.exact, path.clone(), number),
                PathPattern::Prefix(prefix) => {
                    self.prefix_lengths.insert(prefix.len());
                    add(&mut self.prefix, prefix.clone(), number);
                }
                PathPattern::Suffix(suffix) => {
                    self.suffix_lengths.insert(suffix.len());
                    add(&mut self.suffix, suffix.clone(), number);
                }
                PathPattern::Glob(pieces) => {
                    let first = pieces.first().cloned().unwrap_or_default();
                    self.prefix_lengths.insert(first.len());
                    add(&mut self.glob_first, first, number);
                    add(&mut self.glob, pieces.clone(), number);
                    self.globs.entry(number).or_default().push(pieces.clone());
                }
            }
        }
    }

    /// The number of the first one that takes every request which this route would take. May miss some; is never wrong when it
    /// says yes. `includes`: whether the conditions of the route of this number hold for all that meets those of the later one.
    pub(super) fn takes_all_of(&mut self, later: &Route, includes: impl Fn(usize) -> bool) -> Option<usize> {
        let mut covering: Option<BTreeSet<usize>> = None;
        for pattern in &later.patterns {
            let found = self.covering(pattern);
            let both = match covering {
                Some(before) => before.intersection(&found).copied().collect(),
                None => found,
            };
            if both.is_empty() {
                return None;
            }
            covering = Some(both);
        }
        covering?.into_iter().find(|number| {
            self.methods.get(number).is_some_and(|methods| {
                let named = |method: &String| methods.contains(method);
                methods.is_empty() || (!later.methods.is_empty() && later.methods.iter().all(named))
            }) && includes(*number)
        })
    }

    /// The routes that take every path which this pattern takes.
    fn covering(&mut self, later: &PathPattern) -> BTreeSet<usize> {
        let mut found: BTreeSet<usize> = self.all.iter().copied().collect();
        let mut take = |routes: Option<&Vec<usize>>| {
            self.looked_at += 1 + routes.map_or(0, |routes| routes.len() as u64);
            found.extend(routes.into_iter().flatten());
        };
        let (begin, end) = anchors(later);
        for begin in begin.into_iter().flat_map(|text| beginnings(&self.prefix_lengths, text)) {
            take(self.prefix.get(begin));
        }
        for end in end.into_iter().flat_map(|text| ends(&self.suffix_lengths, text)) {
            take(self.suffix.get(end));
        }
        match later {
            PathPattern::Glob(pieces) => take(self.glob.get(pieces)),
            PathPattern::Exact(path) => {
                take(self.exact.get(path));
                for begin in beginnings(&self.prefix_lengths, path) {
                    let numbers = self.glob_first.get(begin).into_iter().flatten();
                    let matching = numbers.filter(|number| self.has_glob_for(**number, path));
                    found.extend(matching);
                    self.looked_at +=
                        1 + self.glob_first.get(begin).map_or(0, |numbers| numbers.len() as u64);
                }
            }
            PathPattern::All | PathPattern::Prefix(_) | PathPattern::Suffix(_) => {}
        }
        found
    }

    fn has_glob_for(&self, number: usize, path: &str) -> bool {
        let globs = self.globs.get(&number).into_iter().flatten();
        globs.take(CANDIDATES_MAX).any(|pieces| glob_matches(pieces, path))
    }
}

/// What all paths that a pattern takes begin with, and what they end with.
fn anchors(pattern: &PathPattern) -> (Option<&str>, Option<&str>) {
    match pattern {
        PathPattern::All => (None, None),
        PathPattern::Exact(path) => (Some(path), Some(path)),
        PathPattern::Prefix(prefix) => (Some(prefix), None),
        PathPattern::Suffix(suffix) => (None, Some(suffix)),
        PathPattern::Glob(pieces) => (pieces.first().map(String::as_str), pieces.last().map(String::as_str)),
    }
}

/// The beginnings of a text that have one of these lengths.
fn beginnings<'a>(lengths: &BTreeSet<usize>, text: &'a str) -> Vec<&'a str> {
    lengths.range(..=text.len()).filter_map(|length| text.get(..*length)).collect()
}

/// The ends of a text, likewise.
fn ends<'a>(lengths: &BTreeSet<usize>, text: &'a str) -> Vec<&'a str> {
    lengths.range(..=text.len()).filter_map(|length| text.get(text.len() - length..)).collect()
}

fn glob_matches(pieces: &[String], path: &str) -> bool {
    let [first, middle @ .., last] = pieces else { return false };
    let Some(mut rest) = path.strip_prefix(first.as_str()) else { return false };
    for piece in middle {
        let Some((_, after)) = rest.split_once(piece.as_str()) else { return false };
        rest = after;
    }
    rest.ends_with(last.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::paths::pattern;
    use super::*;

    /// Whether the first of these takes all paths of the second.
    fn covers(earlier: &str, later: &str) -> bool {
        routes(&[&[earlier], &[later]]).1
    }

    /// How many earlier routes are looked at for routes with these patterns, and whether the last one is never reached.
    fn routes(all: &[&[&str]]) -> (u64, bool) {
        let (mut before, mut shadowed) = (Earlier::default(), false);
        for (number, patterns) in all.iter().enumerate() {
            let patterns: Vec<PathPattern> = patterns.iter().map(|text| pattern(text).unwrap()).collect();
            let set: Option<BTreeSet<usize>> =
                patterns.iter().map(|pattern| before.covering(pattern)).reduce(|one, other| &one & &other);
            shadowed = set.is_some_and(|set| !set.is_empty());
            before.add_patterns(number, &[], &patterns);
        }
        (before.looked_at, shadowed)
    }

    #[test]
    fn a_pattern_covers_what_it_always_takes() {
        for (earlier, later) in [
            ("*", "*.php"),
            ("/a/*", "/a/b/*"),
            ("/a/*", "/a/b"),
            ("/a/*", "/a/*/b"),
            ("*.php", "/x.php"),
            ("*.php", "*.x.php"),
            ("*.php", "/a/*.php"),
            ("/a/*/b", "/a/x/b"),
            ("/a/*/b", "/a/*/b"),
            ("/a", "/a"),
        ] {
            assert!(covers(earlier, later), "{earlier} {later}");
        }
        for (earlier, later) in [
            ("/a/*", "/a"),
            ("/a/*", "*"),
            ("*.php", "/a/*"),
            ("/a/b", "/a/*"),
            ("/a/*/b", "/a/b"),
            ("/a/*", "/ab/*"),
        ] {
            assert!(!covers(earlier, later), "{earlier} {later}");
        }
    }

    #[test]
    fn all_patterns_of_a_route_have_to_be_covered_by_one_other_route() {
        assert!(routes(&[&["/a/*", "*.php"], &["/a/x", "/b.php"]]).1);
        assert!(!routes(&[&["/a/*"], &["*.php"], &["/a/x", "/b.php"]]).1);
    }

    #[test]
    fn what_is_looked_at_grows_as_the_number_of_routes_does() {
        let kinds: [fn(usize) -> String; 5] = [
            |number| format!("/exact/{number}"),
            |number| format!("/prefix/{number}/*"),
            |number| format!("*.end{number}"),
            |number| format!("/glob/*/{number}"),
            |number| format!("/glob/*/x/{number}/*"),
        ];
        let looked_at = |count: usize| {
            let texts: Vec<String> = (0..count).map(|number| kinds[number % kinds.len()](number)).collect();
            let all: Vec<Vec<&str>> = texts.iter().map(|text| vec![text.as_str()]).collect();
            routes(&all.iter().map(Vec::as_slice).collect::<Vec<_>>()).0
        };
        let (few, many) = (looked_at(2_000), looked_at(20_000));
        // Numbers have more digits, so that there are a few more lengths of what routes begin and end with.
        assert!(many < 15 * few, "{few} for 2,000 routes, {many} for 20,000");
        // One pattern again and again, with a method of its own each time, is bounded as well.
        let same: Vec<&[&str]> = vec![&["/same"]; 20_000];
        assert!(routes(&same).0 < 20_000 * 2 * CANDIDATES_MAX as u64);
    }
}
