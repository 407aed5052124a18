//! The one function that chooses what answers a request: [`Router::choose`].
//!
//! | file | what |
//! |---|---|
//! | [`condition`] | conditions besides path and method |
//! | [`modules`] | which modules have to do with a route |
//! | [`pattern`] | patterns of paths and values |

mod condition;
mod modules;
mod pattern;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use maitred_http::fields::FieldEdits;
use maitred_http::paths::Index;
use maitred_http::request::Method;

use self::condition::Conditions;
pub use self::modules::Sees;
use self::pattern::{any_matches, shape};
use crate::arrival::Arrival;
use crate::compress::{Constant, Rules};
use crate::filter::Scope;
use crate::filter::cache::{Caching, OfPool};
use crate::filter::expires::Expires;
use crate::plan::{NamedFiles, Plan};
use crate::rewrite::{Facts, Rewrite};
use maitred_base::bounds::CONFIG_TEXT_BYTES_MAX;
use maitred_config::{
    self as config, Config, Named, PathPattern, SiteFound, SiteNames, Target, Template, TryItem,
};

/// The configuration's sites, in the form that a lookup needs.
#[derive(Debug)]
pub struct Router {
    sites: Vec<Site>,
    /// For what is no request for any site.
    bare: Plan,
    /// For the admin address.
    admin: Plan,
    names: SiteNames,
}

#[derive(Debug)]
struct Site {
    routes: Vec<Route>,
    /// Where the routes are many: which of them may be for a path.
    index: Option<Index>,
    /// For what no route matches.
    plan: Plan,
    /// Routes that keep responses: one for each set of rules by which keys are made.
    kept_by: Vec<usize>,
}

/// A directory that files are served from, and what goes with it.
#[derive(Debug, Clone, PartialEq)]
pub struct SetPlan {
    /// The directory and its options.
    pub files: config::Files,
    /// Pages for error statuses, as paths in `error_set`.
    pub error_pages: Vec<(u16, String)>,
    /// Number of the set that holds the pages: the site's own files.
    pub error_set: usize,
    /// What the filters change in heads that are prepared.
    pub edits: FieldEdits,
    /// What they say about caches.
    pub expires: Option<Expires>,
    /// Which of them are compressed.
    pub compress: Option<Rules>,
    /// The site has a pool of FastCGI, or one has its scripts among these files: their sources are never served.
    pub withholds_sources: bool,
}

impl SetPlan {
    /// The set of files, served with the changes of the plan.
    fn new(files: &config::Files, plan: &Plan, error_set: usize) -> SetPlan {
        SetPlan {
            files: files.clone(),
            error_pages: plan.error_pages.clone(),
            error_set,
            edits: plan.prepared_edits().clone(),
            expires: plan.expires.clone(),
            compress: plan.compress.clone(),
            withholds_sources: false,
        }
    }

    /// Whether these files are served with these changes.
    fn is_for(&self, files: &config::Files, plan: &Plan) -> bool {
        self.files == *files
            && self.edits == *plan.prepared_edits()
            && self.expires == plan.expires
            && self.compress == plan.compress
            && self.error_pages == plan.error_pages
    }
}

#[derive(Debug)]
struct Route {
    patterns: Vec<PathPattern>,
    methods: Vec<String>,
    conditions: Option<Box<Conditions>>,
    to: To,
    plan: Plan,
}

#[derive(Debug)]
enum To {
    Files(usize),
    Redirect { to: Template, status: u16 },
    Respond { status: u16, body: String, content_type: String },
    Pool(usize),
    Reroute(Template),
    Modules,
}

impl To {
    /// `set`: the number of the set of these files.
    fn of(target: &Target, set: impl FnOnce(&config::Files) -> usize) -> To {
        match target {
            Target::Files(files) => To::Files(set(files)),
            Target::Redirect { to, status } => To::Redirect { to: to.clone(), status: *status },
            Target::Respond { status, body, content_type } => {
                To::Respond { status: *status, body: body.clone(), content_type: content_type.clone() }
            }
            Target::Pool(pool) => To::Pool(*pool),
            Target::Reroute(template) => To::Reroute(template.clone()),
            Target::Modules => To::Modules,
        }
    }
}

/// What answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice<'r> {
    /// Files of this set.
    Files(usize),
    /// A redirect.
    Redirect {
        /// Template of `Location`.
        to: &'r Template,
        /// The status.
        status: u16,
    },
    /// A fixed reply.
    Respond {
        /// The status.
        status: u16,
        /// The body.
        body: &'r str,
        /// The media type of the body.
        content_type: &'r str,
    },
    /// The application pool of this index.
    Pool(usize),
    /// A file of this set, which the response of a pool has named.
    NamedFile(usize),
    /// The modules of the plan.
    Modules,
    /// The routes are to be tried again, with this target.
    Reroute(&'r Template),
    /// No route: 404.
    Nothing,
    /// The route exists, but not for this method: 405 with these in `Allow`.
    NotThisMethod(&'r [String]),
}

impl Router {
    /// Compiles the sites. The second value lists the file sets that [`Choice::Files`] numbers.
    pub fn new(config: &Config) -> (Self, Vec<SetPlan>) {
        let mut sets = Vec::new();
        let server_header = config.server.server_header;
        let bare = Plan::new(0, &Scope { server_header, site: None, route: None });
        let mut admin = Plan::new(0, &Scope { server_header: true, site: None, route: None });
        admin.overrides.limits.body_bytes_max = Some(CONFIG_TEXT_BYTES_MAX);
        let names = SiteNames::new(&config.sites, config.listens.len());
        let mut router = Router { sites: Vec::new(), bare, admin, names };
        for (number, site) in config.sites.iter().enumerate() {
            router.sites.push(Site::new(number, site, (server_header, &config.pools), &mut sets));
        }
        let of_server = config.server.encoded_slashes;
        for (site, of) in router.sites.iter_mut().zip(&config.sites) {
            let slashes = of.encoded_slashes.unwrap_or(of_server).into();
            site.plans().for_each(|plan| plan.slashes = slashes);
        }
        router.number_plans();
        (router, sets)
    }

    /// Responses over TLS name HTTP/3 as an alternative: the value of `Alt-Svc` for a site, which is reached there; `None`: for
    /// what is of no site.
    pub fn offer_alternative(&mut self, value: impl Fn(Option<usize>) -> Option<String>) {
        for (number, site) in self.sites.iter_mut().enumerate() {
            let Some(value) = value(Some(number)) else { continue };
            site.plans().for_each(|plan| plan.offer_alternative(&value));
        }
        if let Some(value) = value(None) {
            self.bare.offer_alternative(&value);
        }
    }

    /// Plans get the modules that the configuration names for them. `sees`: what each of these looks at.
    pub fn attach_modules(&mut self, config: &Config, sees: impl Fn(u16) -> Sees) {
        let all = config.modules();
        if all.is_empty() {
            return;
        }
        for (site, of) in self.sites.iter_mut().zip(&config.sites) {
            site.plan.attach(modules::of(&all, &sees, (&of.modules, &[]), false));
            for (route, of_route) in site.routes.iter_mut().zip(&of.routes) {
                let uses = (&of.modules[..], &of_route.modules[..]);
                route.plan.attach(modules::of(&all, &sees, uses, matches!(route.to, To::Modules)));
            }
        }
    }

    /// In the order in which `maitred_status::routes` names them; 0 is of no site.
    fn number_plans(&mut self) {
        let plans = self.sites.iter_mut().flat_map(Site::plans);
        plans.zip(1..).for_each(|(plan, number)| plan.number = number);
    }

    /// Which site a request is for: by the authority that it names, with or without port, and the listener that it has come in
    /// by.
    pub fn site(&self, arrival: &Arrival<'_>, authority: &str) -> SiteFound {
        if self.names.are_single() {
            return SiteFound { site: 0, named: Named::Nowhere };
        }
        self.names.find(arrival.listener(), authority)
    }

    /// All sites that an authority may belong to, by one listener or another.
    pub fn sites_of(&self, authority: &str) -> Vec<usize> {
        self.names.all(authority)
    }

    /// What answers a request to `site`, and the plan that goes with it: the first route decides that matches path, conditions
    /// and method. Where routes match everything but the method, the first of them says what it allows.
    pub fn choose(&self, site: usize, facts: &Facts<'_>) -> (Choice<'_>, &Plan) {
        let Some(site) = self.sites.get(site) else { return (Choice::Nothing, &self.bare) };
        match &site.index {
            None => site.choose(site.routes.iter(), facts),
            Some(index) => {
                let candidates = index.candidates(facts.path);
                site.choose(candidates.filter_map(|number| site.routes.get(number)), facts)
            }
        }
    }

    /// The plan for what no route of a site matches, or what is about no path.
    pub fn plan(&self, site: usize) -> &Plan {
        self.sites.get(site).map_or(&self.bare, |site| &site.plan)
    }

    /// What the routes of a site keep of responses, and under which keys: those that differ in this.
    pub fn cachings(&self, site: usize) -> impl Iterator<Item = &Caching> {
        let site = self.sites.get(site);
        site.into_iter().flat_map(|site| site.kept_by.iter().filter_map(|route| site.caching(*route)))
    }

    /// The plan of the admin address.
    pub fn admin_plan(&self) -> &Plan {
        &self.admin
    }

    /// The plan for what is no request for any site.
    pub fn bare_plan(&self) -> &Plan {
        &self.bare
    }
}

impl Site {
    /// The plan of the site, and those of its routes in their order.
    fn plans(&mut self) -> impl Iterator<Item = &mut Plan> {
        std::iter::once(&mut self.plan).chain(self.routes.iter_mut().map(|route| &mut route.plan))
    }

    fn choose<'r>(
        &'r self,
        routes: impl Iterator<Item = &'r Route>,
        facts: &Facts<'_>,
    ) -> (Choice<'r>, &'r Plan) {
        let (method, method_text) = (facts.request.method, facts.request.method_text);
        let mut refusal = (Choice::Nothing, &self.plan);
        for route in routes {
            if !route.is_for(facts) {
                continue;
            }
            if route.takes(method, method_text) {
                return (route.choice(), &route.plan);
            }
            if refusal.0 == Choice::Nothing {
                refusal = (Choice::NotThisMethod(&route.methods), &route.plan);
            }
        }
        refusal
    }
}

impl Route {
    /// Whether path and conditions are met.
    #[inline]
    fn is_for(&self, facts: &Facts<'_>) -> bool {
        any_matches(&self.patterns, facts.path)
            && self.plan.path_regex.as_ref().is_none_or(|regex| regex.is_match(facts.path))
            && self.conditions.as_ref().is_none_or(|conditions| conditions.hold(facts))
    }

    fn choice(&self) -> Choice<'_> {
        match &self.to {
            To::Files(set) => Choice::Files(*set),
            To::Redirect { to, status } => Choice::Redirect { to, status: *status },
            To::Respond { status, body, content_type } => {
                Choice::Respond { status: *status, body, content_type }
            }
            To::Pool(pool) => Choice::Pool(*pool),
            To::Reroute(template) => Choice::Reroute(template),
            To::Modules => Choice::Modules,
        }
    }

    /// Whether the route is for this method; one that names GET takes HEAD as well (9110-9.3.2).
    fn takes(&self, method: Method, method_text: &str) -> bool {
        let named = |wanted: &str| self.methods.iter().any(|known| known == wanted);
        self.methods.is_empty() || named(method_text) || (method == Method::Head && named("GET"))
    }
}

impl Site {
    fn new(
        number: usize,
        site: &config::Site,
        (server_header, pools): (bool, &[config::Pool]),
        sets: &mut Vec<SetPlan>,
    ) -> Self {
        let runs = site.routes.iter().any(|route| runs_scripts(route, pools));
        let scripts = script_roots(pools);
        let of_site = Scope { server_header, site: Some(site), route: None };
        // The site's own files come first, so that all its sets can name them as the place of its error pages.
        let error_set = sets.len();
        let files = site.files.as_ref();
        let mut plan = Plan::new(number, &of_site);
        let mut set = |files: &config::Files, plan: &Plan| {
            let mut known = sets.iter().skip(error_set);
            known.position(|known| known.is_for(files, plan)).map_or_else(
                || {
                    let withholds_sources = runs || may_show(files, &scripts);
                    sets.push(SetPlan { withholds_sources, ..SetPlan::new(files, plan, error_set) });
                    sets.len() - 1
                },
                |at| error_set + at,
            )
        };
        plan.error_set = files.map(|files| set(files, &plan));
        let of_route = |route: &config::Route| {
            let mut of_route = Plan::new(number, &Scope { route: Some(route), ..of_site });
            of_route.error_set = plan.error_set;
            of_route
        };
        let routes = site.routes.iter().map(|route| {
            let mut plan = of_route(route);
            // The site's own files once more, with these pages.
            let pages = files.filter(|_| !route.error_pages.is_empty());
            plan.error_set = pages.map(|files| set(files, &plan)).or(plan.error_set);
            plan.script_set = route.scripts.as_ref().map(|files| set(files, &plan));
            plan.front_controller = route.front_controller.as_ref().map(|path| path.as_bytes().into());
            plan.path_regex = route.path_regex.as_ref().and_then(|text| config::regex(text).ok());
            plan.rewrite = Rewrite::new(&route.rewrite);
            plan.fallback = fallback(&route.target);
            let named = named_files(&route.target, plan.fallback, pools, |files| set(files, &plan));
            plan.name_files(named);
            plan.note_route(site, route, pool_of(route, plan.fallback, pools));
            plan.constant = constant(&route.target, &plan);
            let to = To::of(&route.target, |files| set(files, &plan));
            let conditions = Conditions::new(&route.conditions);
            Route { patterns: route.patterns.clone(), methods: route.methods.clone(), conditions, to, plan }
        });
        let routes: Vec<Route> = routes.collect();
        let index = Index::new(routes.iter().map(|route| route.patterns.iter().map(shape)));
        let mut site = Site { routes, index, plan, kept_by: Vec::new() };
        site.note_what_is_kept();
        site
    }

    /// Notes which routes keep responses, and that what others do may make these invalid.
    fn note_what_is_kept(&mut self) {
        let mut known = HashSet::new();
        let distinct = |route: &usize| {
            let caching = self.caching(*route);
            caching.is_some_and(|caching| known.insert(format!("{:?}", (&caching.keys, &caching.rules))))
        };
        self.kept_by = (0..self.routes.len()).filter(distinct).collect();
        let keeps = !self.kept_by.is_empty();
        self.routes.iter_mut().for_each(|route| route.plan.site_keeps = keeps);
    }

    /// What a route keeps.
    fn caching(&self, route: usize) -> Option<&Caching> {
        self.routes.get(route)?.plan.cache.as_deref()
    }
}

/// What a route answers with by itself, compressed.
fn constant(target: &Target, plan: &Plan) -> Option<Constant> {
    match target {
        // Of these, one has no content, and another is about parts (RFC 9110 section 15.3).
        Target::Respond { status: 204..=206 | 304, .. } => None,
        Target::Respond { body, content_type, .. } => {
            Constant::new(plan.compress.as_ref()?, content_type, body.as_bytes())
        }
        _ => None,
    }
}

/// The files that responses of the route's pool can name.
fn named_files(
    target: &Target,
    fallback: Option<usize>,
    pools: &[config::Pool],
    mut set: impl FnMut(&config::Files) -> usize,
) -> Vec<NamedFiles> {
    let pool = match target {
        Target::Pool(pool) => Some(*pool),
        _ => fallback,
    };
    let Some(pool) = pool.and_then(|pool| pools.get(pool)) else { return Vec::new() };
    let named = |(prefix, root): &(String, PathBuf)| NamedFiles {
        prefix: prefix.clone(),
        root: root.clone(),
        set: set(&config::Files::plain(root.clone(), prefix.clone())),
    };
    pool.named_files.iter().map(named).collect()
}

/// Whether a route leads to a FastCGI pool.
fn runs_scripts(route: &config::Route, pools: &[config::Pool]) -> bool {
    match route.target {
        Target::Pool(pool) => pools.get(pool).is_some_and(|pool| pool.source.fastcgi().is_some()),
        _ => false,
    }
}

/// Where FastCGI pools have their scripts, without symbolic links.
fn script_roots(pools: &[config::Pool]) -> Vec<PathBuf> {
    pools.iter().filter_map(|pool| pool.source.fastcgi()?.root.as_deref()).map(real).collect()
}

/// The directory that a path stands for, since two names can lead to one. What cannot be found stays as it is: nothing is served
/// from there.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Whether scripts of these directories can be among `files`, also those of another site, which must not show what this server
/// runs elsewhere. Where links may lead anywhere, they may lead there.
fn may_show(files: &config::Files, scripts: &[PathBuf]) -> bool {
    if scripts.is_empty() {
        return false;
    }
    let root = real(&files.root);
    files.symlinks_may_leave || scripts.iter().any(|of| of.starts_with(&root) || root.starts_with(of))
}

/// The name of the pool that a route leads to, if only for what is not among its files.
fn pool_of<'p>(
    route: &config::Route,
    fallback: Option<usize>,
    pools: &'p [config::Pool],
) -> Option<OfPool<'p>> {
    let pool = match &route.target {
        Target::Pool(pool) => Some(*pool),
        _ => fallback,
    };
    pools.get(pool?).map(OfPool::from)
}

/// The pool that gets requests for what is not among the files.
fn fallback(target: &Target) -> Option<usize> {
    match target {
        Target::Files(files) => files.try_files.last().and_then(|item| match item {
            TryItem::Pool(pool) => Some(*pool),
            TryItem::Around(..) | TryItem::Fixed(_) | TryItem::Status(_) => None,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::testing::with_facts;

    fn respond(text: &str) -> Target {
        Target::Respond { status: 200, body: text.into(), content_type: "text/plain".into() }
    }

    fn site(routes: &[(PathPattern, Target)]) -> Site {
        let routes =
            routes.iter().map(|(path, target)| config::Route::new(path.clone(), target.clone())).collect();
        let site = config::Site { routes, ..config::Site::default() };
        Site::new(0, &site, (true, &[]), &mut Vec::new())
    }

    fn router() -> Router {
        let (bare, admin) = (Plan::default(), Plan::default());
        Router { sites: vec![site(&[])], bare, admin, names: SiteNames::default() }
    }

    /// The body of the response that is chosen, or what is chosen instead.
    fn chosen(router: &Router, method: &str, path: &str) -> String {
        with_facts(&format!("{method} {path} HTTP/1.1\r\nHost: h\r\n\r\n"), |facts| {
            match router.choose(0, facts).0 {
                Choice::Respond { body, .. } => body.to_owned(),
                other => format!("{other:?}"),
            }
        })
    }

    #[test]
    fn plans_are_numbered_as_routes_are_named() {
        let routes = |paths: &[&str]| {
            let route = |path: &&str| config::Route::new(PathPattern::Exact((*path).into()), respond(path));
            config::Site { routes: paths.iter().map(route).collect(), ..config::Site::default() }
        };
        let sites = vec![routes(&["/a", "/b"]), routes(&["/c"])];
        let directory = std::env::temp_dir();
        let mut config = Config::for_directory(&directory, ([127, 0, 0, 1], 0).into(), false).unwrap();
        config.sites = sites;
        let names = maitred_status::routes::RouteTable::new(&config, 1).facts();
        let (router, _) = Router::new(&config);
        let numbered = |plan: &Plan| names[plan.number].name.route.clone();
        assert_eq!(numbered(router.bare_plan()), "no site");
        for site in &router.sites {
            assert_eq!(numbered(&site.plan), "no route");
            for route in &site.routes {
                let [PathPattern::Exact(path)] = route.patterns.as_slice() else { panic!("{route:?}") };
                assert_eq!(numbered(&route.plan), *path);
            }
        }
        assert_eq!(names.len(), 6);
    }

    #[test]
    fn the_first_matching_route_decides() {
        let mut router = router();
        router.sites[0] = site(&[
            (PathPattern::Exact("/app/health".into()), respond("health")),
            (PathPattern::Prefix("/app/".into()), respond("app")),
            (PathPattern::Suffix(".php".into()), respond("php")),
            (PathPattern::Glob(vec!["/a/".into(), "/b/".into(), ".c".into()]), respond("glob")),
        ]);
        for (path, expected) in [
            ("/app/health", "health"),
            ("/app/", "app"),
            ("/app/index.php", "app"),
            ("/x.php", "php"),
            ("/a/1/b/2.c", "glob"),
        ] {
            assert_eq!(chosen(&router, "GET", path), expected, "{path}");
        }
        for path in ["/app", "/a/b/2.c", "/"] {
            assert_eq!(chosen(&router, "GET", path), "Nothing", "{path}");
        }
    }

    #[test]
    fn a_route_that_names_its_methods_refuses_others() {
        let mut router = router();
        router.sites[0] = site(&[(PathPattern::All, respond("only GET"))]);
        router.sites[0].routes[0].methods = vec!["GET".into()];
        assert_eq!(chosen(&router, "GET", "/"), "only GET");
        assert_eq!(chosen(&router, "HEAD", "/"), "only GET");
        assert_eq!(chosen(&router, "POST", "/"), "NotThisMethod([\"GET\"])");
        let later = site(&[(PathPattern::All, respond("later"))]);
        router.sites[0].routes.extend(later.routes);
        assert_eq!(chosen(&router, "POST", "/"), "later", "the next route takes it");
    }

    #[test]
    fn many_routes_are_chosen_as_few_are() {
        let prefix = |number: u32| PathPattern::Prefix(format!("/r{number}/"));
        let mut routes: Vec<_> = (0..100).map(|n| (prefix(n), respond(&format!("prefix {n}")))).collect();
        routes.push((PathPattern::Suffix(".php".into()), respond("php")));
        routes.push((PathPattern::All, respond("rest")));
        routes.push((PathPattern::Exact("/x".into()), respond("never")));
        let mut router = router();
        router.sites[0] = site(&routes);
        for (path, expected) in [
            ("/r7/x", "prefix 7"),
            ("/r77/x.php", "prefix 77"),
            ("/r100/x.php", "php"),
            ("/r7", "rest"),
            ("/x", "rest"),
        ] {
            assert_eq!(chosen(&router, "GET", path), expected, "{path}");
        }
    }
}
