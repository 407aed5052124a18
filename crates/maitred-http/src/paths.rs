//! Which of many routes may be for a path, found without asking each of them.
//!
//! Prefixes and whole paths are in a radix tree, ends of paths in one of reversed bytes; what is in neither is asked in any case.
//! The order of the routes decides, so that what is found is put in order.

/// The form of a pattern of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape<'p> {
    /// Any path.
    Any,
    /// The path itself.
    Whole(&'p str),
    /// Paths that begin with the text.
    Start(&'p str),
    /// Paths that end with the text.
    End(&'p str),
    /// Paths that begin and end with the two texts, and perhaps have more in between.
    Both(&'p str, &'p str),
}

/// Up to this number, routes are asked one after the other: that costs less than the tree.
const FEW: usize = 4;

/// Routes that are found for one path; where there are more, all routes are asked.
const FOUND_MAX: usize = 24;

/// The routes of a site by their paths.
#[derive(Debug, Default)]
pub struct Index {
    /// Whole paths and beginnings of paths.
    starts: Tree,
    /// Ends of paths, backwards.
    ends: Tree,
    /// Routes that may be for any path, in their order.
    others: Vec<u32>,
    /// How many routes there are.
    routes: u32,
}

/// The numbers of routes in their order.
#[derive(Debug)]
pub struct Candidates<'i> {
    found: [u32; FOUND_MAX],
    len: usize,
    at: usize,
    others: &'i [u32],
    /// All from here on, if there are too many.
    all: std::ops::Range<u32>,
}

impl Index {
    /// Puts the patterns of routes in order; `None` if they are few.
    pub fn new<'p>(routes: impl ExactSizeIterator<Item = impl Iterator<Item = Shape<'p>>>) -> Option<Index> {
        if routes.len() <= FEW {
            return None;
        }
        let mut index = Index { routes: routes.len() as u32, ..Index::default() };
        for (number, shapes) in (0..).zip(routes) {
            let shapes: Vec<Shape<'p>> = shapes.collect();
            if shapes.iter().any(Shape::is_any) {
                index.others.push(number);
                continue;
            }
            for shape in shapes {
                match shape {
                    Shape::Whole(path) => index.starts.insert(path.bytes(), End::Whole(number)),
                    Shape::End(end) | Shape::Both("", end) => {
                        index.ends.insert(end.bytes().rev(), End::Open(number));
                    }
                    Shape::Start(start) | Shape::Both(start, _) => {
                        index.starts.insert(start.bytes(), End::Open(number));
                    }
                    Shape::Any => {}
                }
            }
        }
        Some(index)
    }

    /// Routes that may be for the path: all that are for it, and perhaps others, in their order.
    pub fn candidates(&self, path: &[u8]) -> Candidates<'_> {
        let mut candidates =
            Candidates { found: [0; FOUND_MAX], len: 0, at: 0, others: &self.others, all: 0..0 };
        let mut fits = true;
        let mut note = |number| match candidates.found.get_mut(candidates.len) {
            Some(place) => {
                *place = number;
                candidates.len += 1;
            }
            None => fits = false,
        };
        self.starts.find(path.iter().copied(), &mut note);
        if !self.ends.is_empty() {
            self.ends.find(path.iter().rev().copied(), &mut note);
        }
        if !fits {
            return Candidates { len: 0, others: &[], all: 0..self.routes, ..candidates };
        }
        if let Some(found) = candidates.found.get_mut(..candidates.len) {
            found.sort_unstable();
        }
        candidates
    }
}

impl Shape<'_> {
    fn is_any(&self) -> bool {
        match self {
            Shape::Any => true,
            Shape::Whole(text) | Shape::Start(text) | Shape::End(text) => text.is_empty(),
            Shape::Both(start, end) => start.is_empty() && end.is_empty(),
        }
    }

    /// Whether a path has this form, as far as its ends say.
    pub fn covers(&self, path: &[u8]) -> bool {
        match self {
            Shape::Any => true,
            Shape::Whole(whole) => path == whole.as_bytes(),
            Shape::Start(start) => path.starts_with(start.as_bytes()),
            Shape::End(end) => path.ends_with(end.as_bytes()),
            Shape::Both(start, end) => path.starts_with(start.as_bytes()) && path.ends_with(end.as_bytes()),
        }
    }
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if let Some(number) = self.all.next() {
            return Some(number as usize);
        }
        let found = self.found.get(..self.len)?.get(self.at).copied();
        let other = self.others.first().copied();
        if found.is_some_and(|found| other.is_none_or(|other| found < other)) {
            self.at += 1;
            return found.map(|number| number as usize);
        }
        self.others = self.others.get(1..).unwrap_or_default();
        other.map(|number| number as usize)
    }
}

/// What a place in a tree stands for.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Paths that go on as they like.
    Open(u32),
    /// The path that ends here.
    Whole(u32),
}

/// A radix tree of bytes.
#[derive(Debug)]
struct Tree {
    nodes: Vec<Node>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { nodes: vec![Node::default()] }
    }
}

#[derive(Debug, Default)]
struct Node {
    /// The bytes that lead here from the node above, less the first, which stands there.
    label: Vec<u8>,
    open: Vec<u32>,
    whole: Vec<u32>,
    /// The first bytes of the labels below, ascending, and where these are.
    below: Vec<(u8, u32)>,
}

impl Tree {
    fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    fn insert(&mut self, key: impl Iterator<Item = u8>, end: End) {
        let (key, mut at, mut rest) = (key.collect::<Vec<u8>>(), 0, 0..);
        let mut from = rest.next().unwrap_or_default();
        while let Some(first) = key.get(from).copied() {
            let place = self.nodes[at].below.binary_search_by_key(&first, |(byte, _)| *byte);
            let next = match place {
                Ok(place) => self.nodes[at].below[place].1 as usize,
                Err(place) => {
                    let label = key.get(from + 1..).unwrap_or_default().to_vec();
                    let new = self.add(Node { label, ..Node::default() });
                    self.nodes[at].below.insert(place, (first, new as u32));
                    new
                }
            };
            let wanted = key.get(from + 1..).unwrap_or_default();
            let common =
                self.nodes[next].label.iter().zip(wanted).take_while(|(one, other)| one == other).count();
            if common < self.nodes[next].label.len() {
                self.split(next, common);
            }
            from += 1 + common;
            at = next;
        }
        match end {
            End::Open(number) => push(&mut self.nodes[at].open, number),
            End::Whole(number) => push(&mut self.nodes[at].whole, number),
        }
    }

    fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Cuts the label of a node after so many bytes; what was there goes below.
    fn split(&mut self, at: usize, common: usize) {
        let mut lower = std::mem::take(&mut self.nodes[at]);
        let first = lower.label[common];
        let label = lower.label[..common].to_vec();
        lower.label.drain(..=common);
        let lower = self.add(lower);
        self.nodes[at] = Node { label, below: vec![(first, lower as u32)], ..Node::default() };
    }

    /// Notes what stands on the way of these bytes.
    fn find(&self, mut path: impl Iterator<Item = u8>, note: &mut impl FnMut(u32)) {
        let mut node = &self.nodes[0];
        loop {
            node.open.iter().for_each(|number| note(*number));
            let Some(first) = path.next() else {
                return node.whole.iter().for_each(|number| note(*number));
            };
            let Ok(place) = node.below.binary_search_by_key(&first, |(byte, _)| *byte) else { return };
            node = &self.nodes[node.below[place].1 as usize];
            if !node.label.iter().all(|byte| path.next() == Some(*byte)) {
                return;
            }
        }
    }
}

fn push(numbers: &mut Vec<u32>, number: u32) {
    if numbers.last() != Some(&number) {
        numbers.push(number);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Owned {
        Any,
        Whole(String),
        Start(String),
        End(String),
        Both(String, String),
    }

    impl Owned {
        fn shape(&self) -> Shape<'_> {
            match self {
                Owned::Any => Shape::Any,
                Owned::Whole(text) => Shape::Whole(text),
                Owned::Start(text) => Shape::Start(text),
                Owned::End(text) => Shape::End(text),
                Owned::Both(start, end) => Shape::Both(start, end),
            }
        }
    }

    fn shapes() -> impl Strategy<Value = Owned> {
        prop_oneof![
            1 => Just(Owned::Any),
            3 => "/[ab/]{0,4}".prop_map(Owned::Whole),
            5 => "/[ab/]{0,3}".prop_map(Owned::Start),
            3 => "[ab/]{0,3}".prop_map(Owned::End),
            2 => ("[ab/]{0,3}", "[ab/]{0,3}").prop_map(|(start, end)| Owned::Both(start, end)),
        ]
    }

    proptest! {
        #[test]
        fn whichever_routes_there_are_the_ones_for_a_path_are_among_the_candidates_in_order(
            routes in prop::collection::vec(prop::collection::vec(shapes(), 1..3), 0..60),
            path in "/[ab/]{0,6}",
        ) {
            let is_for = |route: &Vec<Owned>| route.iter().any(|shape| shape.shape().covers(path.as_bytes()));
            let expected: Vec<usize> =
                routes.iter().enumerate().filter(|(_, route)| is_for(route)).map(|(number, _)| number).collect();
            let Some(index) = Index::new(routes.iter().map(|route| route.iter().map(Owned::shape))) else {
                return Ok(());
            };
            let candidates: Vec<usize> = index.candidates(path.as_bytes()).collect();
            let mut in_order = candidates.clone();
            in_order.sort_unstable();
            prop_assert_eq!(&in_order, &candidates);
            let mut found: Vec<usize> =
                candidates.into_iter().filter(|number| is_for(&routes[*number])).collect();
            found.dedup();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn of_many_prefixes_only_those_of_the_path_are_candidates() {
        let names: Vec<String> = (0..1000).map(|number| format!("/r{number}/")).collect();
        let shapes = |count: usize| names[..count].iter().map(|name| std::iter::once(Shape::Start(name)));
        let index = Index::new(shapes(1000)).unwrap();
        assert_eq!(index.candidates(b"/r17/x").collect::<Vec<_>>(), [17]);
        assert_eq!(index.candidates(b"/r1000/x").count(), 0);
        assert!(Index::new(shapes(FEW)).is_none());
    }
}
