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
        heads || methods || apart(&self.regex, &other.paths) || apart(&other.regex, &self.paths)
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

/// A part of a place, and the numbers of the sections that hold there.
pub(crate) type Region = (Selector, Vec<usize>);

/// Divides a place by sections in their order: each part has the sections that hold there, and an earlier part comes before what
/// it is cut out of. `failed` gets a section that cannot be divided by.
pub(crate) fn divided(
    place: &Selector,
    sections: &[(Selector, bool)],
    mut failed: impl FnMut(usize, &str),
) -> Vec<Region> {
    let mut regions: Vec<Region> = vec![(place.clone(), Vec::new())];
    for (number, (selector, except)) in sections.iter().enumerate() {
        let mut next = Vec::with_capacity(regions.len() + 1);
        let mut wrong = None;
        for (region, within) in &regions {
            let mut also = within.clone();
            also.push(number);
            if selector.covers(region) && !*except {
                next.push((region.clone(), also));
                continue;
            }
            match region.and(selector) {
                Ok(None) if *except => next.push((region.clone(), also)),
                Ok(None) => next.push((region.clone(), within.clone())),
                // What a section is not for has less, and comes first.
                Ok(Some(both)) if *except => {
                    next.push((both, within.clone()));
                    next.push((region.clone(), also));
                }
                Ok(Some(both)) => {
                    next.push((both, also));
                    next.push((region.clone(), within.clone()));
                }
                Err(why) => wrong = Some(why),
            }
        }
        match wrong {
            None if next.len() <= REGIONS_MAX => regions = next,
            None => failed(number, "the sections overlap in too many ways"),
            Some(why) => failed(number, &why),
        }
    }
    regions
}
