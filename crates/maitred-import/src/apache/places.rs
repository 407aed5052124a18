//! What answers for a path: redirects, other servers, directories, in httpd's order; and the sections that hold there.

// What is wrong comes with the paths that are closed for it; once for a directive.
#![allow(clippy::result_large_err)]

use super::access;
use super::conditions;
use super::context::{Cx, Layer, Scope, Variable};
use super::globs::{self, Glob};
use super::handlers::Content;
use super::known;
use super::mounts::{Mount, Site, What, Work};
use super::proxy;
use super::rewriting::{self, Action, Draft};
use super::sections::{self, Ground, Section};
use super::selectors::{self, Event, Region, Selector};
use super::templates::{self, Groups};
use super::tree::Directive;
use crate::drafts::{Match, Route, Target};

impl<'d> Site<'d> {
    /// What stands outside of sections.
    pub(crate) fn base(&self) -> Layer<'d> {
        let own =
            self.all().into_iter().filter(|one| !one.is(sections::SECTIONS) || one.is(&["proxy"])).collect();
        Layer { directory: None, own, origin: None }
    }
}

/// The routes of a site.
pub(crate) fn routes(cx: &Cx<'_>, site: &Site<'_>) -> Vec<Route> {
    let base = site.base();
    let variables = variables(cx, &base);
    let work = Work { cx, site, base: &base, variables };
    let mut routes = Vec::new();
    let rewriting: Vec<&Directive> =
        site.own.iter().copied().filter(|one| one.is(rewriting::NAMES)).collect();
    let place = rewriting::Place { prefix: None, names: &site.names, files: site.files.as_deref() };
    let rules = rewriting::of(cx, &rewriting, &place);
    if let Some(why) = &rules.closed {
        let mut route = Selector::default().route(site.origin, Target::Respond { status: 403, body: None });
        route.notes.push(format!("closed, because there is no counterpart of `{why}`"));
        return vec![route];
    }
    let mut passed: Vec<Match> = Vec::new();
    for draft in &rules.drafts {
        let mut draft = draft.clone();
        draft.selector.condition.not.extend(passed.iter().cloned());
        match draft.action {
            Action::Pass => work.pass(&draft, &mut passed),
            _ => routes.extend(work.of_rule(&draft)),
        }
    }
    for mount in work.mounts() {
        let fallback = rules.fallback.clone().filter(|_| mount.url == "/");
        routes.extend(work.of_mount(&mount, fallback.as_ref()));
    }
    simplified(routes)
}

/// `SetEnvIf` and its like.
fn variables<'d>(cx: &Cx<'_>, base: &Layer<'d>) -> Vec<Variable<'d>> {
    let mut all = Vec::new();
    let names = ["setenvif", "setenvifnocase", "browsermatch", "browsermatchnocase"];
    for directive in base.own.iter().copied().filter(|one| one.is(&names)) {
        match conditions::set_env_if(directive) {
            Ok((names, selector)) => all.extend(names.into_iter().map(|name| Variable {
                name,
                selector: Some(selector.clone()),
                directive,
            })),
            Err(_) => {
                let words = directive.args.iter().skip(1);
                all.extend(words.map(|word| Variable {
                    name: word.split('=').next().unwrap_or_default().to_owned(),
                    selector: None,
                    directive,
                }));
            }
        }
    }
    let _ = cx;
    all
}

impl<'d> Work<'_, 'd> {
    /// Requests for which the rules of a server end.
    fn pass(&self, draft: &Draft<'d>, passed: &mut Vec<Match>) {
        let selector = &draft.selector;
        let plain = selector.regex.is_none() && selector.methods.is_empty() && selector.more.is_empty();
        let condition = &selector.condition;
        if !plain || !condition.any.is_empty() || !condition.not.is_empty() {
            return self.cx.not_possible(draft.directive, "what no rule is for is paths or one condition");
        }
        let mut condition = condition.clone();
        condition.paths = selector.paths.iter().map(Glob::show).collect();
        passed.push(condition);
    }

    /// A rule of a server: what it answers is not asked for by its directory.
    fn of_rule(&self, draft: &Draft<'d>) -> Vec<Route> {
        let scope = Scope { layers: vec![self.base] };
        let target = match &draft.action {
            Action::Redirect { to, status } => Target::Redirect { to: to.clone(), status: *status },
            Action::Status(status) => Target::Respond { status: *status, body: None },
            Action::Path(path) => Target::Reroute(path.clone()),
            Action::Pass => return Vec::new(),
            Action::Proxy(url) => {
                let what = What::Proxy(url.clone());
                let mount = Mount {
                    selector: draft.selector.clone(),
                    url: String::new(),
                    what,
                    directive: draft.directive,
                };
                return self.of_mount(&mount, None);
            }
        };
        let mut route = draft.selector.route(draft.directive, target);
        if !matches!(route.target, Target::Reroute(_)) {
            self.decorate(&mut route, &scope);
        }
        vec![route]
    }

    /// What answers, in the order in which it is looked at.
    fn mounts(&self) -> Vec<Mount<'d>> {
        let ordered: Vec<&'d Directive> = match self.site.is_main() {
            true => self.site.own.clone(),
            false => self.site.own.iter().chain(&self.site.main).copied().collect(),
        };
        let mut mounts = Vec::new();
        let inside = |one: &'d Directive| one.inside().iter().map(move |inner| (inner, Some(one.arg(0))));
        let in_places: Vec<(&'d Directive, Option<&'d str>)> = ordered
            .iter()
            .flat_map(|one| {
                let own = (!one.is(&["location"]) || one.arg(0) == "~").then_some((*one, None));
                own.into_iter().chain(if one.is(&["location"]) && one.arg(0) != "~" {
                    inside(one).collect()
                } else {
                    Vec::new()
                })
            })
            .collect();
        for names in [
            &["proxypass", "proxypassmatch"][..],
            &["redirect", "redirectpermanent", "redirecttemp", "redirectmatch"],
            &[
                "alias",
                "aliasmatch",
                "scriptalias",
                "scriptaliasmatch",
                "wsgiscriptalias",
                "wsgiscriptaliasmatch",
                "jkmount",
                "passengerbaseuri",
            ],
        ] {
            for (one, location) in in_places.iter().filter(|(one, _)| one.is(names)) {
                match self.mount(one, *location) {
                    Ok(found) => mounts.extend(found),
                    Err((why, selector)) => {
                        self.cx.not_possible(*one, format!("{why}: its paths answer 403 instead"));
                        mounts.push(Mount {
                            selector,
                            url: String::new(),
                            what: What::Status(403),
                            directive: one,
                        });
                    }
                }
            }
        }
        if let Some((root, directive)) = &self.site.root {
            self.cx.translated(*directive);
            let what = What::Files(root.clone());
            mounts.push(Mount { selector: Selector::default(), url: "/".into(), what, directive });
        }
        with_others(mounts)
    }

    fn mount(
        &self,
        one: &'d Directive,
        location: Option<&'d str>,
    ) -> Result<Option<Mount<'d>>, (String, Selector)> {
        let is_target = |word: &str| word == "!" || word.contains("://") || word.starts_with("unix:");
        let in_location = location.filter(|_| one.args.len() < 2 || is_target(one.arg(0)));
        let (path, to) = match in_location {
            Some(path) => (path, one.arg(0)),
            None => (one.arg(0), one.arg(1)),
        };
        let expression = one.name.ends_with("match");
        let below = || match expression {
            true => Selector::regex(path, true).unwrap_or_default(),
            false => Selector::paths(globs::below(path)),
        };
        let plain =
            |what| Ok(Some(Mount { selector: below(), url: proxy::with_slash(path), what, directive: one }));
        match one.name.as_str() {
            "proxypass" if to == "!" => {
                self.cx.translated(one);
                Ok(Some(self.not_proxied(one, below())))
            }
            "proxypass" => {
                self.cx.translated(one);
                plain(What::Proxy(to.to_owned()))
            }
            "proxypassmatch" if to == "!" => {
                let selector = Selector::regex(path, false).map_err(|why| (why, Selector::default()))?;
                self.cx.translated(one);
                Ok(Some(self.not_proxied(one, selector)))
            }
            "proxypassmatch" => self.proxied_match(one, path, to),
            name if name.starts_with("redirect") => Ok(self.redirect(one, location)),
            "alias" => {
                self.cx.translated(one);
                plain(What::Files(self.cx.loader.absolute(to)))
            }
            "aliasmatch" => self.alias_match(one, path, to),
            name if name.starts_with("wsgi") => Err((
                "an application in Python is a pool with `command` (docs/applications.md), or Apache \
                 stays behind Maitred with mod_maitred"
                    .into(),
                below(),
            )),
            _ => Err((
                "programs are not started for requests: keep Apache behind Maitred with mod_maitred \
                 for them, or use fcgiwrap (docs/fastcgi.md)"
                    .into(),
                below(),
            )),
        }
    }

    /// `ProxyPass PATH !`: stands for what would answer otherwise.
    fn not_proxied(&self, one: &'d Directive, selector: Selector) -> Mount<'d> {
        Mount { selector, url: String::new(), what: What::Others, directive: one }
    }

    fn proxied_match(
        &self,
        one: &'d Directive,
        path: &str,
        to: &str,
    ) -> Result<Option<Mount<'d>>, (String, Selector)> {
        let failed = |why: String| (why, Selector::regex(path, false).unwrap_or_default());
        let selector = Selector::regex(path, to.contains('$')).map_err(failed)?;
        let groups = Groups { regex: Some(path.to_owned()), base: "/".into(), ..Groups::default() };
        let to = templates::url(to, &groups).map_err(failed)?;
        self.cx.translated(one);
        Ok(Some(Mount { selector, url: String::new(), what: What::Proxy(to), directive: one }))
    }

    fn alias_match(
        &self,
        one: &'d Directive,
        path: &str,
        to: &str,
    ) -> Result<Option<Mount<'d>>, (String, Selector)> {
        let failed = |why: &str| (why.to_owned(), Selector::regex(path, false).unwrap_or_default());
        let (before, after) = to.split_once('$').unwrap_or((to, ""));
        let mut selector =
            Selector::regex(path, !after.is_empty()).map_err(|why| (why, Selector::default()))?;
        let root = before.trim_end_matches('/');
        if after.len() > 1
            || root.is_empty()
            || (!after.is_empty() && !before.ends_with('/') && !path.contains("(/"))
        {
            return Err(failed("the directory is fixed here, and a path stands behind it"));
        }
        let name = if after.is_empty() { root.rsplit_once('/') } else { None };
        self.cx.translated(one);
        match name {
            // One file.
            Some(_) => {
                selector.regex = selector.regex.filter(|_| selector.paths.is_empty());
                Ok(Some(Mount {
                    selector,
                    url: String::new(),
                    what: What::Files(root.to_owned()),
                    directive: one,
                }))
            }
            None => Ok(Some(Mount {
                selector,
                url: format!("${after}"),
                what: What::Files(root.to_owned()),
                directive: one,
            })),
        }
    }

    /// The routes of a mount.
    fn of_mount(
        &self,
        mount: &Mount<'d>,
        fallback: Option<&(&'d Directive, rewriting::Fallback)>,
    ) -> Vec<Route> {
        let here = || "/".to_owned();
        let (ground, fixed) = match &mount.what {
            What::Files(path) => {
                let url = if mount.url.starts_with('/') { mount.url.clone() } else { here() };
                (Ground { url, directory: Some(path.trim_end_matches('/').to_owned()) }, None)
            }
            What::Proxy(_) => (Ground { url: here(), directory: None }, None),
            What::Redirect(to, status) => (
                Ground { url: here(), directory: None },
                Some(Target::Redirect { to: to.clone(), status: *status }),
            ),
            What::Others => return Vec::new(),
            What::Status(status) => (
                Ground { url: here(), directory: None },
                Some(Target::Respond { status: *status, body: None }),
            ),
        };
        if let Some(target) = fixed {
            let mut route = mount.selector.route(mount.directive, target);
            self.decorate(&mut route, &Scope { layers: vec![self.base] });
            return vec![route];
        }
        let all = self.site.all();
        let (sections, closed) = sections::of(self.cx, &all, self.site.htaccess, &ground);
        if let Some(why) = closed {
            return vec![shut(&mount.selector, mount.directive, &why)];
        }
        let regions = match self.regions(mount, &sections) {
            Ok(regions) => regions,
            Err(why) => return vec![shut(&mount.selector, mount.directive, &why)],
        };
        let content = Content { work: self, mount, ground: &ground, sections: &sections, fallback };
        regions
            .iter()
            .flat_map(|region| match &region.closed {
                Some(why) => vec![shut(&region.selector, mount.directive, why)],
                None => self.of_region(&content, &sections, &region.selector, &region.within),
            })
            .collect()
    }

    /// The parts of a mount.
    ///
    /// # Errors
    /// Why the whole of it has to be closed.
    fn regions(&self, mount: &Mount<'d>, sections: &[Section<'d>]) -> Result<Vec<Region>, String> {
        let dividing: Vec<(Selector, bool)> =
            sections.iter().map(|section| (section.selector.clone(), section.except)).collect();
        let mut shut_by: Option<String> = None;
        let is_shut = |within: &[usize]| {
            let layers = within.iter().filter_map(|number| sections.get(*number));
            access::is_shut(&layers.map(|section| &section.layer).collect::<Vec<_>>())
        };
        let regions = selectors::divided(&mount.selector, &dividing, is_shut, |number, event| {
            let layer = sections.get(number).map(|section| &section.layer)?;
            let why = match event {
                Event::Idle => {
                    known::of_closed(self.cx, layer);
                    return None;
                }
                Event::Unknown(why) => why,
                Event::TooMany => "the sections overlap in too many ways",
            };
            let Some(origin) = layer.origin else {
                shut_by.get_or_insert_with(|| "a file with rules".to_owned());
                return None;
            };
            if !sections::decides(origin) {
                self.cx.not_possible(origin, why);
                return None;
            }
            self.cx.not_possible(origin, format!("{why}: what is around it answers 403 instead"));
            match event {
                Event::TooMany => {
                    shut_by.get_or_insert_with(|| origin.shown.clone());
                    None
                }
                _ => Some(origin.shown.clone()),
            }
        });
        shut_by.map_or(Ok(regions), Err)
    }

    fn of_region(
        &self,
        content: &Content<'_, '_, 'd>,
        sections: &[Section<'d>],
        selector: &Selector,
        within: &[usize],
    ) -> Vec<Route> {
        let mut layers = vec![self.base];
        layers.extend(within.iter().filter_map(|number| sections.get(*number)).map(|section| &section.layer));
        let scope = Scope { layers };
        let gate = access::of(self.cx, &scope, &self.variables);
        let origin =
            scope.layers.iter().rev().find_map(|layer| layer.origin).unwrap_or(content.mount.directive);
        let mut routes = Vec::new();
        let narrowed = |condition: &Match| selector.and(&Selector::condition(condition.clone()));
        for condition in &gate.refused {
            match narrowed(condition) {
                Ok(Some(both)) => routes.push(shut(&both, origin, "it is refused")),
                Ok(None) => {}
                Err(why) => return vec![shut(selector, origin, &why)],
            }
        }
        for condition in &gate.admitted {
            if let Ok(Some(both)) = narrowed(condition) {
                routes.extend(content.routes(&both, &scope));
            }
        }
        if let Some(why) = &gate.closed {
            for layer in scope.layers.iter().skip(1).filter(|_| access::is_shut(&scope.layers)) {
                known::of_closed(self.cx, layer);
            }
            routes.push(shut(selector, origin, why));
            return routes;
        }
        let Ok(Some(needed)) = narrowed(&gate.needed) else {
            routes.push(shut(selector, origin, "its conditions are more than a route has"));
            return routes;
        };
        let mut own = content.routes(&needed, &scope);
        for route in own.iter_mut().filter(|route| !matches!(route.target, Target::Reroute(_))) {
            route.gates.clone_from(&gate.keys);
            route.later.clone_from(&gate.later);
        }
        routes.extend(own);
        if gate.needed.keys.iter().any(|(key, _)| *key != "user") {
            routes.push(shut(selector, origin, "it is for connections with TLS, or with a certificate"));
        }
        routes
    }
}

/// Puts what is no other server in the place of what stands for it.
fn with_others(mounts: Vec<Mount<'_>>) -> Vec<Mount<'_>> {
    let is_other = |mount: &&Mount<'_>| !matches!(mount.what, What::Proxy(_) | What::Others);
    let others: Vec<Mount<'_>> = mounts.iter().filter(is_other).cloned().collect();
    let mut all = Vec::new();
    for mount in mounts {
        if !matches!(mount.what, What::Others) {
            all.push(mount);
            continue;
        }
        for other in &others {
            if let Ok(Some(selector)) = mount.selector.and(&other.selector) {
                all.push(Mount { selector, ..other.clone() });
            }
        }
        all.push(Mount { what: What::Status(404), ..mount });
    }
    all
}

fn shut(selector: &Selector, directive: &Directive, why: &str) -> Route {
    let mut route = selector.route(directive, Target::Respond { status: 403, body: None });
    if why != "no client may" {
        route.notes.push(format!("closed, because of `{}`", crate::report::shorten(why)));
    }
    route
}

/// Without routes that no request reaches, and without those that say what a later one says that takes their requests as well.
fn simplified(routes: Vec<Route>) -> Vec<Route> {
    let mut kept: Vec<Route> = Vec::new();
    for (at, route) in routes.iter().enumerate() {
        if kept.iter().any(|earlier| takes_all_of(earlier, route)) {
            continue;
        }
        // Between two of the same there may be none that takes a part of their requests.
        let next = routes.get(at + 1);
        let covered =
            next.is_some_and(|next| says_the_same(next, route) && covers(&next.paths, &route.paths));
        if covered {
            continue;
        }
        match kept.last_mut().filter(|last| is_refusal(last) && is_refusal(route)) {
            Some(last) if last.paths.len() + route.paths.len() <= PATHS_MAX => {
                let more: Vec<String> =
                    route.paths.iter().filter(|path| !last.paths.contains(path)).cloned().collect();
                last.paths.extend(more);
            }
            _ => kept.push(route.clone()),
        }
    }
    kept
}

/// Paths of a route that several refusals become, at most.
const PATHS_MAX: usize = 40;

/// Whether two routes differ in their paths alone.
fn says_the_same(one: &Route, other: &Route) -> bool {
    let bare = |route: &Route| {
        let mut route = route.clone();
        route.origin = (crate::report::Place { file: "".into(), line: 0 }, String::new());
        route.notes.clear();
        route.paths.clear();
        route
    };
    bare(one) == bare(other)
}

/// Whether a route answers some paths with 403, and no more.
fn is_refusal(route: &Route) -> bool {
    let refusal = Route::new(&route.origin.0, "", Target::Respond { status: 403, body: None });
    !route.paths.is_empty() && route.notes.is_empty() && says_the_same(route, &refusal)
}

/// Whether all requests of a route are taken by an earlier one.
fn takes_all_of(earlier: &Route, route: &Route) -> bool {
    let plain = earlier.regex.is_none() && earlier.condition.is_empty() && earlier.methods.is_empty();
    let all = |path: &String| {
        let path = Glob::parse(path);
        earlier.paths.iter().any(|wide| Glob::parse(wide).covers(&path))
    };
    plain && !earlier.paths.is_empty() && !route.paths.is_empty() && route.paths.iter().all(all)
}

fn covers(wide: &[String], narrow: &[String]) -> bool {
    wide.is_empty() || (!narrow.is_empty() && narrow.iter().all(|path| wide.contains(path)))
}
