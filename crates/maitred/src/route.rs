//! The one function that chooses what answers a request: [`Router::choose`].

use std::collections::HashMap;
use std::path::Path;

use maitred_http::fields::FieldEdits;
use maitred_http::request::Method;

use crate::config::{self, Config, HostPattern, PathPattern, Target};
use crate::filter::Scope;
use crate::plan::Plan;

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
    /// For what no route matches.
    plan: Plan,
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
    /// The site has a pool of FastCGI, or one has its scripts among these files: their sources are never served.
    pub withholds_sources: bool,
}

#[derive(Debug)]
struct Route {
    pattern: PathPattern,
    methods: Vec<String>,
    to: To,
    plan: Plan,
}

#[derive(Debug)]
enum To {
    Files(usize),
    Redirect { to: String, status: u16 },
    Respond { status: u16, body: String, content_type: String },
    Pool(usize),
}

/// What answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice<'r> {
    /// Files of this set.
    Files(usize),
    /// A redirect.
    Redirect {
        /// Template of `Location`.
        to: &'r str,
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
        let admin = Plan::new(0, &Scope { server_header: true, site: None, route: None });
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
        (router, sets)
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

    /// What answers a request to `site` for the normalised `path`, and the plan that goes with it: the first route that matches
    /// path and method decides. Where routes match the path but none the method, the first of them says what it allows.
    pub fn choose(&self, site: usize, method: Method, method_text: &str, path: &[u8]) -> (Choice<'_>, &Plan) {
        let Some(site) = self.sites.get(site) else { return (Choice::Nothing, &self.bare) };
        let mut refusal = (Choice::Nothing, &site.plan);
        for route in &site.routes {
            if !matches(&route.pattern, path) {
                continue;
            }
            if !route.takes(method, method_text) {
                if refusal.0 == Choice::Nothing {
                    refusal = (Choice::NotThisMethod(&route.methods), &route.plan);
                }
                continue;
            }
            let choice = match &route.to {
                To::Files(set) => Choice::Files(*set),
                To::Redirect { to, status } => Choice::Redirect { to, status: *status },
                To::Respond { status, body, content_type } => {
                    Choice::Respond { status: *status, body, content_type }
                }
                To::Pool(pool) => Choice::Pool(*pool),
            };
            return (choice, &route.plan);
        }
        refusal
    }

    /// The plan for what no route of a site matches, or what is about no path.
    pub fn plan(&self, site: usize) -> &Plan {
        self.sites.get(site).map_or(&self.bare, |site| &site.plan)
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

impl Route {
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
        let runs_scripts = |route: &config::Route| match route.target {
            Target::Pool(pool) => pools.get(pool).is_some_and(|pool| pool.source.fastcgi().is_some()),
            _ => false,
        };
        let runs = site.routes.iter().any(runs_scripts);
        // Another site with the same files must not show what this server runs elsewhere.
        let scripts = || pools.iter().filter_map(|pool| pool.source.fastcgi()?.root.as_deref());
        let overlaps = |root: &Path| scripts().any(|of| of.starts_with(root) || root.starts_with(of));
        let of_site = Scope { server_header, site: Some(site), route: None };
        // The site's own files come first, so that all its sets can name them as the place of its error pages.
        let error_set = sets.len();
        let files = site.files.as_ref();
        let mut plan = Plan::new(number, &of_site);
        let mut set = |files: &config::Files, plan: &Plan| {
            let edits = plan.prepared_edits();
            let mut known = sets.iter().skip(error_set);
            known.position(|known| known.files == *files && known.edits == *edits).map_or_else(
                || {
                    let error_pages = plan.error_pages.clone();
                    let (files, edits) = (files.clone(), edits.clone());
                    let withholds_sources = runs || overlaps(&files.root);
                    sets.push(SetPlan { files, error_pages, error_set, edits, withholds_sources });
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
            plan.script_set = route.scripts.as_ref().map(|files| set(files, &plan));
            let to = match &route.target {
                Target::Files(files) => To::Files(set(files, &plan)),
                Target::Redirect { to, status } => To::Redirect { to: to.clone(), status: *status },
                Target::Respond { status, body, content_type } => {
                    To::Respond { status: *status, body: body.clone(), content_type: content_type.clone() }
                }
                Target::Pool(pool) => To::Pool(*pool),
            };
            Route { pattern: route.pattern.clone(), methods: route.methods.clone(), to, plan }
        });
        Site { routes: routes.collect(), plan }
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

/// Whether a pattern covers a normalised path.
pub fn matches(pattern: &PathPattern, path: &[u8]) -> bool {
    match pattern {
        PathPattern::All => true,
        PathPattern::Exact(exact) => path == exact.as_bytes(),
        PathPattern::Prefix(prefix) => path.starts_with(prefix.as_bytes()),
        PathPattern::Suffix(suffix) => path.ends_with(suffix.as_bytes()),
        PathPattern::Glob(pieces) => glob(pieces, path),
    }
}

/// Pieces with "anything" between them: the first and the last are anchored; taking each of the others at its first
/// place is enough, because nothing but the order of the pieces is asked for.
fn glob(pieces: &[String], path: &[u8]) -> bool {
    let [first, middle @ .., last] = pieces else { return false };
    let Some(mut rest) = path.strip_prefix(first.as_bytes()) else { return false };
    for piece in middle {
        let Some(at) = memchr::memmem::find(rest, piece.as_bytes()) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respond(text: &str) -> Target {
        Target::Respond { status: 200, body: text.into(), content_type: "text/plain".into() }
    }

    fn site(hosts: &[HostPattern], routes: &[(PathPattern, Target)]) -> Site {
        let routes = routes
            .iter()
            .map(|(pattern, target)| config::Route {
                pattern: pattern.clone(),
                methods: Vec::new(),
                target: target.clone(),
                scripts: None,
                response_headers: config::ResponseHeaders::default(),
                request_headers: config::RequestHeaderRules::default(),
            })
            .collect();
        let site = config::Site {
            hosts: hosts.to_vec(),
            routes,
            error_pages: vec![],
            files: None,
            certificates: vec![],
            acme: false,
            hsts: None,
            response_headers: config::ResponseHeaders::default(),
            request_headers: config::RequestHeaderRules::default(),
        };
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
            let (choice, _) = router.choose(0, Method::Get, "GET", path.as_bytes());
            assert!(matches!(choice, Choice::Respond { body, .. } if body == expected), "{path}: {choice:?}");
        }
        for path in ["/app", "/a/b/2.c", "/"] {
            assert_eq!(router.choose(0, Method::Get, "GET", path.as_bytes()).0, Choice::Nothing, "{path}");
        }
    }

    #[test]
    fn a_route_that_names_its_methods_refuses_others() {
        let mut router = router(&[&[]]);
        router.sites[0] = site(&[], &[(PathPattern::All, respond(""))]);
        router.sites[0].routes[0].methods = vec!["GET".into()];
        let choose = |method, text| router.choose(0, method, text, b"/").0;
        assert!(matches!(choose(Method::Get, "GET"), Choice::Respond { .. }));
        assert!(matches!(choose(Method::Head, "HEAD"), Choice::Respond { .. }));
        assert!(matches!(choose(Method::Post, "POST"), Choice::NotThisMethod(_)));
        let later = site(&[], &[(PathPattern::All, respond("later"))]);
        router.sites[0].routes.extend(later.routes);
        let (choice, _) = router.choose(0, Method::Post, "POST", b"/");
        assert!(
            matches!(choice, Choice::Respond { body: "later", .. }),
            "the next route takes it: {choice:?}"
        );
    }
}
