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

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use maitred_http::fields::FieldEdits;
use maitred_http::paths::Index;
use maitred_http::request::Method;

use self::condition::Conditions;
pub use self::modules::Sees;
use self::pattern::{any_matches, shape};
use crate::compress::{Constant, Rules};
use crate::filter::Scope;
use crate::filter::cache::Caching;
use crate::filter::expires::Expires;
use crate::plan::{NamedFiles, Plan};
use crate::rewrite::{Facts, Rewrite};
use maitred_base::bounds::CONFIG_TEXT_BYTES_MAX;
use maitred_config::{self as config, Config, HostPattern, PathPattern, Target, Template, TryItem};

/// Longest host name in octets (RFC 1035 section 2.3.4); a longer one can only be the default site's.
const HOST_BYTES_MAX: usize = 255;

/// The configuration's sites, in the form that a lookup needs.
#[derive(Debug)]
pub struct Router {
    sites: Vec<Site>,
    /// For what is no request for any site.
    bare: Plan,
    /// For the admin address.
    admin: Plan,
    exact: HashMap<Box<[u8]>, usize>,
    /// `.example.com` → site, longest first, so that the most specific wins.
    suffixes: Vec<(Box<[u8]>, usize)>,
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
    /// These files, served with these changes.
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
        /// Its media type.
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
        let (sites, exact, suffixes) = (Vec::new(), HashMap::new(), Vec::new());
        let mut router = Router { sites, bare, admin, exact, suffixes };
        for (number, site) in config.sites.iter().enumerate() {
            for host in &site.hosts {
                match host {
                    HostPattern::Exact(name) => {
                        router.exact.insert(name.as_bytes().into(), number);
                    }
                    HostPattern::Suffix(suffix) => router.suffixes.push((suffix.as_bytes().into(), number)),
                }
            }
            router.sites.push(Site::new(number, site, (server_header, &config.pools), &mut sets));
        }
        router.suffixes.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
        router.number_plans();
        (router, sets)
    }

    /// Responses over TLS name HTTP/3 as an alternative: the value of `Alt-Svc`.
    pub fn offer_alternative(&mut self, value: &str) {
        let plans = self.sites.iter_mut().flat_map(|site| {
            let routes = site.routes.iter_mut().map(|route| &mut route.plan);
            std::iter::once(&mut site.plan).chain(routes)
        });
        plans.chain([&mut self.bare]).for_each(|plan| plan.offer_alternative(value));
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
        let plans = self.sites.iter_mut().flat_map(|site| {
            let routes = site.routes.iter_mut().map(|route| &mut route.plan);
            std::iter::once(&mut site.plan).chain(routes)
        });
        plans.zip(1..).for_each(|(plan, number)| plan.number = number);
    }

    /// Which site an authority (with or without port) belongs to. Unknown names get the first site.
    pub fn site(&self, authority: &str) -> usize {
        if self.sites.len() == 1 {
            return 0;
        }
        let mut room = [0u8; HOST_BYTES_MAX];
        let Some(host) = lower_case_host(authority, &mut room) else { return 0 };
        if let Some(site) = self.exact.get(host) {
            return *site;
        }
        let suffix =
            self.suffixes.iter().find(|(suffix, _)| host.len() > suffix.len() && host.ends_with(suffix));
        suffix.map_or(0, |(_, site)| *site)
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
            plan.path_regex = route.path_regex.as_ref().and_then(|text| config::regex(text).ok());
            plan.rewrite = Rewrite::new(&route.rewrite);
            plan.fallback = fallback(&route.target);
            let named = named_files(&route.target, plan.fallback, pools, |files| set(files, &plan));
            plan.name_files(named);
            plan.note_route(site, route, pool_of(route, plan.fallback, pools));
            plan.constant = constant(&route.target, &plan);
            let to = match &route.target {
                Target::Files(files) => To::Files(set(files, &plan)),
                Target::Redirect { to, status } => To::Redirect { to: to.clone(), status: *status },
                Target::Respond { status, body, content_type } => {
                    To::Respond { status: *status, body: body.clone(), content_type: content_type.clone() }
                }
                Target::Pool(pool) => To::Pool(*pool),
                Target::Reroute(template) => To::Reroute(template.clone()),
                Target::Modules => To::Modules,
            };
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
fn pool_of<'p>(route: &config::Route, fallback: Option<usize>, pools: &'p [config::Pool]) -> Option<&'p str> {
    let pool = match &route.target {
        Target::Pool(pool) => Some(*pool),
        _ => fallback,
    };
    Some(&*pools.get(pool?)?.name)
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

/// The host of an authority in lower case, without port and without the root's final dot.
fn lower_case_host<'a>(authority: &str, room: &'a mut [u8; HOST_BYTES_MAX]) -> Option<&'a [u8]> {
    let bytes = authority.as_bytes();
    let end = match bytes.first()? {
        b'[' => memchr::memchr(b']', bytes)? + 1,
        _ => memchr::memchr(b':', bytes).unwrap_or(bytes.len()),
    };
    let host = bytes.get(..end)?;
    let host = host.strip_suffix(b".").unwrap_or(host);
    let room = room.get_mut(..host.len())?;
    room.copy_from_slice(host);
    room.make_ascii_lowercase();
    Some(room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::testing::with_facts;

    fn respond(text: &str) -> Target {
        Target::Respond { status: 200, body: text.into(), content_type: "text/plain".into() }
    }

    fn site(hosts: &[HostPattern], routes: &[(PathPattern, Target)]) -> Site {
        let routes =
            routes.iter().map(|(path, target)| config::Route::new(path.clone(), target.clone())).collect();
        let site = config::Site { hosts: hosts.to_vec(), routes, ..config::Site::default() };
        Site::new(0, &site, (true, &[]), &mut Vec::new())
    }

    fn router(hosts: &[&[HostPattern]]) -> Router {
        let (bare, admin) = (Plan::default(), Plan::default());
        let (sites, exact, suffixes) = (Vec::new(), HashMap::new(), Vec::new());
        let mut router = Router { sites, bare, admin, exact, suffixes };
        for (number, hosts) in hosts.iter().enumerate() {
            for host in *hosts {
                match host {
                    HostPattern::Exact(name) => drop(router.exact.insert(name.as_bytes().into(), number)),
                    HostPattern::Suffix(suffix) => router.suffixes.push((suffix.as_bytes().into(), number)),
                }
            }
            router.sites.push(site(hosts, &[]));
        }
        router.suffixes.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
        router
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
    fn a_site_is_found_by_exact_name_then_longest_suffix_then_default() {
        let exact = |name: &str| HostPattern::Exact(name.into());
        let suffix = |name: &str| HostPattern::Suffix(name.into());
        let router = router(&[
            &[exact("default.test")],
            &[suffix(".example.com")],
            &[suffix(".deep.example.com")],
            &[exact("www.example.com"), exact("[::1]")],
        ]);
        for (authority, expected) in [
            ("www.example.com", 3),
            ("WWW.Example.COM:8080", 3),
            ("www.example.com.", 3),
            ("a.example.com", 1),
            ("a.deep.example.com:1", 2),
            ("example.com", 0),
            ("badexample.com", 0),
            ("[::1]:80", 3),
            ("", 0),
        ] {
            assert_eq!(router.site(authority), expected, "{authority}");
        }
        assert_eq!(router.site(&"a.".repeat(400)), 0);
    }

    #[test]
    fn the_first_matching_route_decides() {
        let mut router = router(&[&[]]);
        router.sites[0] = site(
            &[],
            &[
                (PathPattern::Exact("/app/health".into()), respond("health")),
                (PathPattern::Prefix("/app/".into()), respond("app")),
                (PathPattern::Suffix(".php".into()), respond("php")),
                (PathPattern::Glob(vec!["/a/".into(), "/b/".into(), ".c".into()]), respond("glob")),
            ],
        );
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
        let mut router = router(&[&[]]);
        router.sites[0] = site(&[], &[(PathPattern::All, respond("only GET"))]);
        router.sites[0].routes[0].methods = vec!["GET".into()];
        assert_eq!(chosen(&router, "GET", "/"), "only GET");
        assert_eq!(chosen(&router, "HEAD", "/"), "only GET");
        assert_eq!(chosen(&router, "POST", "/"), "NotThisMethod([\"GET\"])");
        let later = site(&[], &[(PathPattern::All, respond("later"))]);
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
        let mut router = router(&[&[]]);
        router.sites[0] = site(&[], &routes);
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
