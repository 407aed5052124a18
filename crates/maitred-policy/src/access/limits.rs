//! `limit`: which limits by client the requests of a route have to keep.

use std::hash::{DefaultHasher, Hash, Hasher};

use maitred_config::{Route, Site};

/// The limits of a route, or of a site.
#[derive(Debug)]
pub struct Limits {
    /// Indexes into the list of the configuration; never empty.
    pub indexes: Vec<usize>,
    /// What stands for the route where requests are counted by it. The number is the same after a reload that leaves the route
    /// alone.
    pub route: u64,
}

impl Limits {
    /// The limits of the route, or else of its site; `None` if there are none.
    pub(crate) fn new(site: Option<&Site>, route: Option<&Route>) -> Option<Limits> {
        let of_route = route.and_then(|route| route.access.limits.as_ref());
        let of_site = || site.and_then(|site| site.access.limits.as_ref());
        let indexes = of_route.or_else(of_site).filter(|indexes| !indexes.is_empty())?.clone();
        let mut hasher = DefaultHasher::new();
        site.map(|site| &site.hosts).hash(&mut hasher);
        let of_route =
            route.map(|route| (&route.patterns, &route.path_regex, &route.conditions, &route.methods));
        format!("{of_route:?}").hash(&mut hasher);
        Some(Limits { indexes, route: hasher.finish() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maitred_config::{PathPattern, Target};

    fn route(path: &str, limits: Option<Vec<usize>>) -> Route {
        let target = Target::Respond { status: 200, body: String::new(), content_type: String::new() };
        let mut route = Route::new(PathPattern::Exact(path.to_owned()), target);
        route.access.limits = limits;
        route
    }

    #[test]
    fn those_of_a_route_replace_those_of_its_site() {
        let mut site = Site::default();
        site.access.limits = Some(vec![3]);
        let indexes =
            |site: &Site, own| Limits::new(Some(site), Some(&route("/a", own))).map(|limits| limits.indexes);
        assert_eq!(indexes(&site, Some(vec![1, 2])), Some(vec![1, 2]));
        assert_eq!(indexes(&site, None), Some(vec![3]));
        assert_eq!(indexes(&site, Some(vec![])), None);
        assert_eq!(indexes(&Site::default(), None), None);
        assert_eq!(Limits::new(Some(&site), None).map(|limits| limits.indexes), Some(vec![3]));
    }

    #[test]
    fn routes_are_told_apart() {
        let site = Site::default();
        let number =
            |path| Limits::new(Some(&site), Some(&route(path, Some(vec![0])))).map(|limits| limits.route);
        assert_eq!(number("/a"), number("/a"));
        assert_ne!(number("/a"), number("/b"));
    }
}
