//! Which requests something is for: paths, an expression, conditions and methods, and how they are combined.

use super::globs::Glob;
use super::patterns;
use super::tree::Directive;
use crate::drafts::{Match, Route, Target};

/// Which requests.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Selector {
    /// One of these; none is any path.
    pub(crate) paths: Vec<Glob>,
    /// And one of these.
    pub(crate) more: Vec<Glob>,
    /// And this expression.
    pub(crate) regex: Option<String>,
    /// And these conditions.
    pub(crate) condition: Match,
    /// And one of these methods.
    pub(crate) methods: Vec<String>,
}

/// Patterns of a route, at most.
const GLOBS_MAX: usize = 64;

impl Selector {
    /// These paths.
    pub(crate) fn paths(paths: Vec<Glob>) -> Selector {
        let all = paths.iter().any(Glob::is_all);
        Selector { paths: if all { Vec::new() } else { paths }, ..Selector::default() }
    }

    /// Paths in which an expression is found.
    ///
    /// # Errors
    /// It is none here.
    pub(crate) fn regex(regex: &str, captures: bool) -> Result<Selector, String> {
        if let Some(paths) = patterns::of_path(regex).filter(|_| !captures) {
            return Ok(Selector::paths(paths));
        }
        patterns::compiled(regex)?;
        Ok(Selector { regex: Some(regex.to_owned()), ..Selector::default() })
    }

    /// These conditions.
    pub(crate) fn condition(condition: Match) -> Selector {
        Selector { condition, ..Selector::default() }
    }

    /// Whether every request fits.
    pub(crate) fn is_all(&self) -> bool {
        *self == Selector::default()
    }

    /// Whether no request fits both, for all that can be seen.
    fn is_apart(&self, other: &Selector) -> bool {
        let apart = |regex: &Option<String>, paths: &[Glob]| {
            let head = regex.as_deref().map(patterns::literal_head).unwrap_or_default();
            let apart = |glob: &Glob| !glob.head().starts_with(&head) && !head.starts_with(glob.head());
            !head.is_empty() && !paths.is_empty() && paths.iter().all(apart)
        };
        let heads = match (&self.regex, &other.regex) {
            (Some(ours), Some(theirs)) => {
                let (ours, theirs) = (patterns::literal_head(ours), patterns::literal_head(theirs));
                !ours.starts_with(&theirs) && !theirs.starts_with(&ours)
            }
            _ => false,
        };
        let methods = !self.methods.is_empty()
            && !other.methods.is_empty()
            && !self.methods.iter().any(|method| other.methods.contains(method));
        heads
            || methods
            || self.ends_apart(other)
            || apart(&self.regex, &other.paths)
            || apart(&other.regex, &self.paths)
    }

    /// Whether an expression of one ends otherwise than all of the other one.
    fn ends_apart(&self, other: &Selector) -> bool {
        let ends = |selector: &Selector| selector.regex.as_deref().and_then(patterns::ends);
        let tails = |selector: &Selector| -> Option<Vec<String>> {
            let all = selector.paths.iter().map(|glob| glob.tail().to_ascii_lowercase());
            all.map(|tail| (!tail.is_empty()).then_some(tail)).collect()
        };
        let (ours, theirs) = (ends(self), ends(other));
        let apart = |ends: &Option<Vec<String>>, selector: &Selector| {
            let tails = tails(selector).filter(|tails| !tails.is_empty());
            ends.as_ref().zip(tails).is_some_and(|(ends, tails)| patterns::ends_apart(ends, &tails))
        };
        ours.as_ref().zip(theirs.as_ref()).is_some_and(|(ours, theirs)| patterns::ends_apart(ours, theirs))
            || apart(&ours, other)
            || apart(&theirs, self)
    }

    /// What fits both; `None` if nothing does.
    ///
    /// # Errors
    /// A route cannot say that.
    pub(crate) fn and(&self, other: &Selector) -> Result<Option<Selector>, String> {
        if self.is_apart(other) {
            return Ok(None);
        }
        let (paths, mut more) = match (self.paths.is_empty(), other.paths.is_empty()) {
            (true, _) => (other.paths.clone(), Vec::new()),
            (_, true) => (self.paths.clone(), Vec::new()),
            _ => match intersection(&self.paths, &other.paths) {
                Some(paths) if paths.is_empty() => return Ok(None),
                Some(paths) => (paths, Vec::new()),
                None => (self.paths.clone(), other.paths.clone()),
            },
        };
        for also in [&self.more, &other.more].into_iter().filter(|also| !also.is_empty()) {
            match more.is_empty() || more == *also {
                true => more.clone_from(also),
                false => return Err("a route has at most two lists of paths".into()),
            }
        }
        let regex = match (&self.regex, &other.regex) {
            (Some(ours), Some(theirs)) if ours != theirs => {
                return Err("a route has one regular expression, and two are asked for".into());
            }
            (ours, theirs) => ours.clone().or_else(|| theirs.clone()),
        };
        let condition = self.condition.and(&other.condition);
        let condition = condition.ok_or("the conditions cannot be combined in one route")?;
        let methods = match (self.methods.is_empty(), other.methods.is_empty()) {
            (true, _) => other.methods.clone(),
            (_, true) => self.methods.clone(),
            _ => self.methods.iter().filter(|method| other.methods.contains(method)).cloned().collect(),
        };
        if paths.len() > GLOBS_MAX
            || more.len() > GLOBS_MAX
            || (!more.is_empty() && !condition.any.is_empty())
        {
            return Err("there are too many paths for one route".into());
        }
        Ok(Some(Selector { paths, more, regex, condition, methods }))
    }

    /// Whether all requests that fit the other one fit this one; `false` if that is not plain.
    pub(crate) fn covers(&self, other: &Selector) -> bool {
        let lists = |ours: &[Glob], theirs: &[Glob]| {
            ours.is_empty()
                || (!theirs.is_empty() && theirs.iter().all(|their| ours.iter().any(|our| our.covers(their))))
        };
        lists(&self.paths, &other.paths)
            && (self.more.is_empty() || self.more == other.more)
            && (self.regex.is_none() || self.regex == other.regex)
            && (self.condition.is_empty() || self.condition == other.condition)
            && (self.methods.is_empty() || self.methods == other.methods)
    }

    /// Whether the paths of both, without their expressions, are answered by some earlier part.
    fn is_answered_before(&self, other: &Selector, earlier: &[Region]) -> bool {
        let bare = |selector: &Selector| Selector { regex: None, ..selector.clone() };
        let both = bare(self).and(&bare(other)).ok();
        both.is_some_and(|both| {
            both.is_none_or(|both| earlier.iter().any(|known| known.selector.covers(&both)))
        })
    }

    /// A route for these requests.
    pub(crate) fn route(&self, directive: &Directive, target: Target) -> Route {
        let mut route = Route::new(&directive.place, &directive.shown, target);
        route.paths = self.paths.iter().map(Glob::show).collect();
        route.regex.clone_from(&self.regex);
        route.condition = self.condition.clone();
        route.methods.clone_from(&self.methods);
        if !self.more.is_empty() {
            let paths = self.more.iter().map(Glob::show).collect();
            route.condition.any = vec![Match { paths, ..Match::default() }];
        }
        route
    }
}

fn intersection(ours: &[Glob], theirs: &[Glob]) -> Option<Vec<Glob>> {
    let mut found: Vec<Glob> = Vec::new();
    for our in ours {
        for their in theirs {
            for both in our.and(their)? {
                if !found.iter().any(|known| known.covers(&both)) {
                    found.retain(|known| !both.covers(known));
                    found.push(both);
                }
            }
        }
    }
    Some(found)
}

/// Regions that sections may divide a place into, at most.
pub(crate) const REGIONS_MAX: usize = 160;

/// A part of a place.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    /// Its requests.
    pub(crate) selector: Selector,
    /// The numbers of the sections that hold there.
    pub(crate) within: Vec<usize>,
    /// Why no client gets an answer: a section that may hold there, and cannot be told from the rest.
    pub(crate) closed: Option<String>,
}

/// What happens to a section while a place is divided.
pub(crate) enum Event<'w> {
    /// It says nothing for some part.
    Idle,
    /// It cannot be told from a part, for this reason.
    Unknown(&'w str),
    /// The parts are too many.
    TooMany,
}

/// Divides a place by sections in their order: each part has the sections that hold there, and an earlier part comes before what
/// it is cut out of. A part that `shut` says of that no client gets an answer, by the sections within it, is not divided by one
/// that leaves it so. `on` says of an [`Event::Unknown`] why the part is closed, if it is.
pub(crate) fn divided(
    place: &Selector,
    sections: &[(Selector, bool)],
    shut: impl Fn(&[usize]) -> bool,
    mut on: impl FnMut(usize, Event<'_>) -> Option<String>,
) -> Vec<Region> {
    let mut regions = vec![Region { selector: place.clone(), within: Vec::new(), closed: None }];
    for (number, (selector, except)) in sections.iter().enumerate() {
        let mut next: Vec<Region> = Vec::with_capacity(regions.len() + 1);
        for region in &regions {
            let mut also = region.clone();
            also.within.push(number);
            if region.closed.is_some() || (shut(&region.within) && shut(&also.within)) {
                on(number, Event::Idle);
                next.push(region.clone());
                continue;
            }
            if selector.covers(&region.selector) && !*except {
                next.push(also);
                continue;
            }
            match region.selector.and(selector) {
                Ok(None) if *except => next.push(also),
                Ok(None) => next.push(region.clone()),
                // An earlier part answers all of it.
                Ok(Some(both)) if next.iter().any(|known| known.selector.covers(&both)) => {
                    on(number, Event::Idle);
                    next.push(if *except { also } else { region.clone() });
                }
                // What a section is not for has less, and comes first.
                Ok(Some(both)) if *except => {
                    next.push(Region { selector: both, ..region.clone() });
                    next.push(also);
                }
                Ok(Some(both)) => {
                    next.push(Region { selector: both, ..also });
                    next.push(region.clone());
                }
                Err(_) if region.selector.is_answered_before(selector, &next) => {
                    on(number, Event::Idle);
                    next.push(if *except { also } else { region.clone() });
                }
                Err(why) => {
                    let closed = on(number, Event::Unknown(&why));
                    next.push(Region { closed, ..region.clone() });
                }
            }
        }
        match next.len() <= REGIONS_MAX {
            true => regions = next,
            false => drop(on(number, Event::TooMany)),
        }
    }
    regions
}
