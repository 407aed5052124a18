//! `cache`: responses of pools that are kept, and given to others.
//!
//! Nothing of it is a change of fields: where a request is to go to a pool, the store of responses is asked first. What is kept
//! is what the pool has sent; all other filters see it on its way to each client.

use std::time::Duration;

use maitred_http::cache::{KeyRules, QueryRule, Rules, SECONDS_MAX, StatusTtl};

use super::scope::{Compiled, Scope};
use maitred_config::{self as config, CacheRules, QueryKey};

/// `cache` of a route, compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caching {
    /// What may be kept, and how long.
    pub rules: Rules,
    /// What belongs to the key.
    pub keys: KeyRules,
    /// Requests with `Cookie` are answered from the cache, too.
    pub cookies: bool,
    /// Larger responses are not kept.
    pub object_bytes_max: u64,
    /// How long a request waits for the response to another one.
    pub collapse_timeout: Duration,
    /// Responses say what the cache did.
    pub says_status: bool,
}

/// That of the route takes the place of that of its site.
pub fn compile(scope: &Scope<'_>, compiled: &mut Compiled) {
    let of_route = scope.route.and_then(|route| route.cache.as_ref());
    let of_site = scope.site.and_then(|site| site.cache.as_ref());
    if let Some(config::Caching::On(rules)) = of_route.or(of_site) {
        compiled.cache = Some(Caching::new(rules));
    }
}

impl Caching {
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
            query,
            sort: settings.query == QueryKey::Sorted,
            fields: boxed(&settings.key_headers),
            cookies: boxed(&settings.key_cookies),
        };
        Caching {
            rules,
            keys,
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

    #[test]
    fn parts_of_a_second_are_a_second() {
        let times = [0, 1, 999, 1000, 1001].map(|ms| seconds(Duration::from_millis(ms)));
        assert_eq!(times, [0, 1, 1, 1, 2]);
    }
}
