//! `cache`: responses of pools that are kept, and given to others.
//!
//! Nothing of it is a change of fields: where a request is to go to a pool, the store of responses is asked first. What is kept
//! is what the pool has sent; all other filters see it on its way to each client.
//!
//! | what | where |
//! |---|---|
//! | which routes keep responses | here |
//! | the rules of RFC 9111 | `maitred_http::cache` |
//! | the store, which knows nothing of HTTP | `maitred_cache` |
//! | how one names what the other has | `maitred_worker::kept` |
//! | a request asks the store, and is answered from it | `maitred_worker::requests::cache` |
//! | what is not there is fetched: a fill | `maitred_worker::fills`, `exchanges::fill` |
//! | requests that wait for a fill | `exchanges::follow` |

use std::time::Duration;

use aws_lc_rs::digest;
use maitred_http::cache::{KeyRules, QueryRule, Rules, SECONDS_MAX, StatusTtl};

use super::scope::{Compiled, Scope};
use maitred_config::{self as config, CacheRules, Part, QueryKey, Target, Template};

/// `cache` of a route, compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caching {
    /// What may be kept, and how long.
    pub rules: Rules,
    /// What belongs to the key.
    pub keys: KeyRules,
    /// Who the client is belongs to it, too.
    pub key_identity: bool,
    /// What the pool is asked for depends on more of a request than its URL, so that this belongs to the key, too.
    pub by_target: bool,
    /// The application sees how a client has spelled the path, and may tell apart what is one target to the key.
    pub by_spelling: bool,
    /// Requests with `Cookie` are answered from the cache, too.
    pub cookies: bool,
    /// Larger responses are not kept.
    pub object_bytes_max: u64,
    /// How long a request waits for the response to another one.
    pub collapse_timeout: Duration,
    /// Responses say what the cache did.
    pub says_status: bool,
}

/// The setting of the route takes the place of that of its site.
pub(crate) fn compile(scope: &Scope<'_>, compiled: &mut Compiled) {
    let of_route = scope.route.and_then(|route| route.cache.as_ref());
    let of_site = scope.site.and_then(|site| site.cache.as_ref());
    if let Some(config::Caching::On(rules)) = of_route.or(of_site) {
        compiled.cache = Some(Caching::new(rules));
    }
}

/// A digest of parts that cannot run into one another (SHA-256). Nothing of it is secret: it stands for the parts.
#[derive(Clone)]
pub struct Digest(digest::Context);

impl Default for Digest {
    fn default() -> Digest {
        Digest(digest::Context::new(&digest::SHA256))
    }
}

impl Digest {
    /// One more part.
    pub fn add(&mut self, part: &[u8]) {
        self.0.update(&(part.len() as u64).to_be_bytes());
        self.0.update(part);
    }

    /// So many of its bytes at most, in hexadecimal.
    pub fn hex(self, bytes: usize) -> String {
        let all = self.0.finish();
        all.as_ref().iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Digest")
    }
}

/// What of a pool tells responses apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfPool<'c> {
    name: &'c str,
    as_sent: bool,
    uri_as_sent: bool,
    encoded_slashes: Option<config::EncodedSlashes>,
}

impl<'c> From<&'c config::Pool> for OfPool<'c> {
    fn from(pool: &'c config::Pool) -> OfPool<'c> {
        let uri_as_sent = pool.source.fastcgi().is_some_and(|fastcgi| fastcgi.uri_as_sent);
        OfPool { name: &pool.name, as_sent: pool.as_sent, uri_as_sent, encoded_slashes: pool.encoded_slashes }
    }
}

impl Caching {
    /// Notes what answers requests of a route, so that no other route, and no other pool, gets what is kept for it. The line is
    /// the same after a reload or a restart that changes nothing of it: numbers of pools and routes are not in it, and what a
    /// route does not say is not, either.
    pub(crate) fn note_route(
        &mut self,
        site: &config::Site,
        route: &config::Route,
        pool: OfPool<'_>,
        gates: &[&str],
    ) {
        let mut digest = Digest::default();
        let mut add = |name: &str, said: bool, what: &dyn std::fmt::Debug| {
            if said {
                digest.add(name.as_bytes());
                digest.add(format!("{what:?}").as_bytes());
            }
        };
        add("match", !route.conditions.is_empty(), &route.conditions);
        add("rewrite", !route.rewrite.is_empty(), &route.rewrite);
        for headers in [&site.request_headers, &route.request_headers] {
            let says = *headers != config::RequestHeaderRules::default();
            add("request_headers", says, headers);
        }
        add("gates", !gates.is_empty(), &gates);
        let modules: Vec<&config::ModuleSpec> =
            site.modules.iter().chain(&route.modules).map(|of| &of.module).collect();
        add("modules", !modules.is_empty(), &modules);
        add("key_identity", self.key_identity, &self.key_identity);
        add("set_cookie", self.rules.store_set_cookie, &self.rules.store_set_cookie);
        add("authorization", self.rules.store_authorization, &self.rules.store_authorization);
        add("as_sent", pool.as_sent || pool.uri_as_sent, &(pool.as_sent, pool.uri_as_sent));
        let slashes = pool.encoded_slashes.or(site.encoded_slashes);
        add("encoded_slashes", slashes.is_some(), &slashes);
        add("front_controller", route.front_controller.is_some(), &route.front_controller);
        self.keys.answered_by = format!("pool {} {}", pool.name, digest.hex(8)).into();
        let as_sent = pool.as_sent || pool.uri_as_sent || route.front_controller.is_some();
        self.by_spelling = as_sent;
        self.by_target = self.depends_on_more(site, route);
    }

    /// Whether the target that a pool gets depends on more of a request than its URL: by the route itself, or by one of its site
    /// that has requests routed again.
    fn depends_on_more(&self, site: &config::Site, route: &config::Route) -> bool {
        let whole_query = self.keys.query == QueryRule::All;
        let depends = |template: &Template| {
            template.0.iter().any(|part| match part {
                Part::Text(_) | Part::Path | Part::Host | Part::Scheme | Part::Capture(_) => false,
                Part::Query | Part::Uri | Part::Parameter(_) => !whole_query,
                _ => true,
            })
        };
        let own = route.rewrite.to.iter().chain(route.rewrite.set_query.iter().map(|(_, value)| value));
        own.into_iter().any(depends)
            || site.routes.iter().any(|route| match &route.target {
                Target::Reroute(to) => !route.conditions.is_empty() || depends(to),
                _ => false,
            })
    }

    fn new(settings: &CacheRules) -> Caching {
        let by_status = settings.ttl_by_status.iter();
        let rules = Rules {
            heuristic: settings.heuristic,
            default_ttl: settings.ttl.map(seconds),
            ttl_by_status: by_status
                .map(|(status, ttl)| StatusTtl { from: *status, to: *status, ttl: seconds(*ttl) })
                .collect(),
            override_ttl: None,
            stale_while_revalidate: settings.stale_while_revalidate.map(seconds),
            stale_if_error: settings.stale_if_error.map(seconds),
            store_set_cookie: settings.set_cookie,
            store_authorization: settings.authorization,
            ignore_response_directives: !settings.response_control,
            ignore_request_directives: !settings.request_control,
            normalise_language: true,
            targets: boxed(&settings.targeted),
        };
        let query = match () {
            () if settings.query == QueryKey::Without => QueryRule::Ignore,
            () if !settings.query_only.is_empty() => QueryRule::Only(boxed(&settings.query_only)),
            () if !settings.query_ignore.is_empty() => QueryRule::Without(boxed(&settings.query_ignore)),
            () => QueryRule::All,
        };
        let keys = KeyRules {
            answered_by: Box::default(),
            query,
            sort: settings.query == QueryKey::Sorted,
            fields: boxed(&settings.key_headers),
            cookies: boxed(&settings.key_cookies),
        };
        Caching {
            rules,
            keys,
            key_identity: settings.key_identity,
            by_target: false,
            by_spelling: false,
            cookies: settings.cookies,
            object_bytes_max: settings.object_bytes_max,
            collapse_timeout: settings.collapse_timeout,
            says_status: settings.cache_status,
        }
    }
}

/// Whole seconds, rounded up: less than one is one, as `ttl = "500ms"` means something.
fn seconds(time: Duration) -> u32 {
    let whole = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    u32::try_from(whole).unwrap_or(SECONDS_MAX).min(SECONDS_MAX)
}

fn boxed(texts: &[String]) -> Box<[Box<str>]> {
    texts.iter().map(|text| text.as_str().into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use maitred_config::{PathPattern, Route, Site, Target};

    #[test]
    fn a_route_decides_for_itself() {
        let on = |seconds| {
            let ttl = Some(Duration::from_secs(seconds));
            config::Caching::On(Box::new(CacheRules { ttl, ..CacheRules::default() }))
        };
        for (site, route, expected) in [
            (None, None, None),
            (Some(on(1)), None, Some(1)),
            (Some(on(1)), Some(on(2)), Some(2)),
            (Some(on(1)), Some(config::Caching::Off), None),
            (Some(config::Caching::Off), Some(on(2)), Some(2)),
        ] {
            let site = Site { cache: site, ..Site::default() };
            let route = Route { cache: route, ..Route::new(PathPattern::All, Target::Pool(0)) };
            let mut compiled = Compiled::default();
            compile(&Scope { server_header: true, site: Some(&site), route: Some(&route) }, &mut compiled);
            assert_eq!(compiled.cache.and_then(|caching| caching.rules.default_ttl), expected);
            assert!(!compiled.needs_response, "what is not kept may be answered on the client's socket");
        }
    }

    /// What a route has in its keys, and whether its target depends on more than the URL.
    fn answered_by(pool: &str, change: impl Fn(&mut Route)) -> (String, bool) {
        let mut route = Route::new(PathPattern::All, Target::Pool(0));
        change(&mut route);
        let rules = match &route.cache {
            Some(config::Caching::On(rules)) => CacheRules::clone(rules),
            _ => CacheRules::default(),
        };
        let pool = OfPool { name: pool, as_sent: false, uri_as_sent: false, encoded_slashes: None };
        let mut caching = Caching::new(&rules);
        caching.note_route(&Site::default(), &route, pool, &[]);
        (caching.keys.answered_by.to_string(), caching.by_target)
    }

    fn conditions(change: impl Fn(&mut config::ConditionSet)) -> config::Conditions {
        let mut all = config::ConditionSet::default();
        change(&mut all);
        config::Conditions { all, ..config::Conditions::default() }
    }

    #[test]
    fn keys_say_what_answers_and_nothing_that_changes_by_itself() {
        let plain = answered_by("a", |_| ());
        assert!(plain.0.starts_with("pool a ") && !plain.1, "{plain:?}");
        assert_eq!(plain, answered_by("a", |route| route.target = Target::Pool(7)), "a number may change");
        assert_eq!(plain, answered_by("a", |route| route.methods = vec!["GET".into()]));
        let glob = || config::ValuePattern::Glob(vec!["1".into()]);
        let by_field = Template(vec![Part::Text("/".into()), Part::Header("x".into())]);
        let others = [
            answered_by("b", |_| ()),
            answered_by("a", |route| route.conditions = conditions(|set| set.https = Some(true))),
            answered_by("a", |route| route.conditions = conditions(|set| set.https = Some(false))),
            answered_by("a", |route| {
                route.conditions = conditions(|set| set.headers = vec![("x".into(), glob())]);
            }),
            answered_by("a", |route| {
                route.conditions = conditions(|set| set.cookies = vec![("x".into(), glob())]);
            }),
            answered_by("a", |route| route.rewrite.to = Some(Template(vec![Part::Text("/x".into())]))),
            answered_by("a", |route| route.request_headers.remove = vec!["x".into()]),
            answered_by("a", |route| {
                let rules = CacheRules { key_identity: true, ..CacheRules::default() };
                route.cache = Some(config::Caching::On(Box::new(rules)));
            }),
        ];
        for (at, one) in others.iter().enumerate() {
            assert_ne!(one.0, plain.0, "{at}");
            assert!(!one.1 && others[..at].iter().all(|other| other.0 != one.0), "{at}");
        }
        assert!(answered_by("a", |route| route.rewrite.to = Some(by_field.clone())).1);
    }

    #[test]
    fn parts_of_a_second_are_a_second() {
        let times = [0, 1, 999, 1000, 1001].map(|ms| seconds(Duration::from_millis(ms)));
        assert_eq!(times, [0, 1, 1, 1, 2]);
    }
}
