//! What happens to a request of one route, compiled when the configuration is loaded.

use std::path::PathBuf;
use std::time::Duration;

use maitred_http::fields::FieldEdits;
use maitred_http::uri::Slashes;
use regex::bytes::Regex;

use crate::access::{Gates, identity_fields};
use crate::compress;
use crate::filter::cache::{Caching, OfPool};
use crate::filter::cors::Cors;
use crate::filter::expires::Expires;
use crate::filter::{self, Scope};
use crate::rewrite::{Filled, Rewrite};
use maitred_config::{Overrides, RequestHeaderRules, Route, Site};

/// How long a connection may be idle after a request, in two bytes, because each connection has one: 12 bits, and by how many
/// places they are shifted. Exact up to four seconds; beyond, up to 1/2048 too long, never too short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IdleTime(u16);

impl IdleTime {
    /// Bits of the value that is shifted.
    const BITS: u32 = 12;

    /// The time, rounded up; at most 37 hours. `None` is the time of the server.
    pub(crate) fn new(time: Option<Duration>) -> IdleTime {
        let Some(time) = time else { return IdleTime(0) };
        let most = u64::from(u16::MAX >> (16 - Self::BITS));
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let fits = |shift: &u32| millis.div_ceil(1 << shift) <= most;
        let (value, shift) = match (0..1 << (16 - Self::BITS)).find(fits) {
            Some(shift) => (millis.div_ceil(1 << shift), shift),
            None => (most, (1 << (16 - Self::BITS)) - 1),
        };
        IdleTime((value as u16) | (shift as u16) << Self::BITS)
    }

    /// The time; `None` for that of the server.
    pub fn get(self) -> Option<Duration> {
        let (value, shift) = (u64::from(self.0 & (u16::MAX >> (16 - Self::BITS))), self.0 >> Self::BITS);
        (value > 0).then(|| Duration::from_millis(value << shift))
    }

    /// What [`IdleTime::from_bits`] makes the same of.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// What another worker process has said of a connection. Any value is one.
    pub fn from_bits(bits: u16) -> IdleTime {
        IdleTime(bits)
    }
}

/// The plan of a route; or of a site, for what none of its routes matches; or of the server, for what is no request for any site.
#[derive(Debug, Default)]
pub struct Plan {
    /// Index of the site.
    pub site: usize,
    /// What an encoded slash in a path is (`encoded_slashes`). Where no site has judged it, it stays what it is.
    pub slashes: Slashes,
    /// The number of the plan among all plans, by which its responses are counted (`maitred_status::routes`).
    pub number: usize,
    /// The file set that has the pages for errors.
    pub error_set: Option<usize>,
    /// Which of its files is shown for a status.
    pub error_pages: Vec<(u16, String)>,
    /// The file set of the scripts of the route's pool.
    pub script_set: Option<usize>,
    /// The one of them that answers all requests of the route.
    pub front_controller: Option<Box<[u8]>>,
    /// `path_regex`, whose groups placeholders refer to.
    pub path_regex: Option<Regex>,
    /// What is asked whether a request may be answered at all.
    pub gates: Option<Box<Gates>>,
    /// What is changed in the request's target.
    pub rewrite: Option<Rewrite>,
    /// The files that responses of the route's pool can name instead of having content.
    pub named_files: Vec<NamedFiles>,
    /// The pool that gets requests for what is not among the route's files.
    pub fallback: Option<usize>,
    /// What is said about caches.
    pub expires: Option<Expires>,
    /// Which pages of other origins may use responses.
    pub cors: Option<Cors>,
    /// Limits and the access log, where the route or its site differ from the server.
    pub overrides: Overrides,
    /// `keep_alive_timeout` of these.
    pub idle: IdleTime,
    /// Which responses are compressed.
    pub compress: Option<compress::Rules>,
    /// Which responses of its pool are kept, and given to others.
    pub cache: Option<Box<Caching>>,
    /// Some route of the site keeps responses, which what is done by this one may make invalid.
    pub site_keeps: bool,
    /// The body that the route answers with, compressed.
    pub constant: Option<compress::Constant>,
    /// Responses have to pass here, so that an application cannot write to the client's socket itself.
    pub needs_response: bool,
    /// Responses that name no server stay so: an application process, which writes its own, adds no `Server`.
    pub anonymous: bool,
    /// What modules have to do with requests and responses.
    pub modules: Modules,
    /// Responses have cookies of another server (`forward_auth`).
    sets_cookies: bool,
    /// A response may leave only so fast: by `limits`, or because the application says so.
    pub may_throttle: bool,
    /// Changes of requests that go to a pool.
    pub requests: RequestEdits,
    /// Fields of responses whose values depend on the request.
    pub filled: Vec<Filled>,
    /// Changes of responses in cleartext.
    clear: FieldEdits,
    /// Changes of responses over TLS.
    tls: FieldEdits,
    /// The changes of `tls` that are not among those of `clear`.
    only_tls: FieldEdits,
}

/// A module, as a route uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleCall {
    /// The module's number among those of the process.
    pub number: u16,
    /// How long an answer that it gives later may take.
    pub timeout: Duration,
    /// Fields that it may give to what the request goes on to, in lower case.
    pub request_fields: Vec<String>,
}

/// The modules of a route, and of its site, which come first.
#[derive(Debug, Default)]
pub struct Modules {
    /// Modules that see requests.
    pub of_requests: Box<[ModuleCall]>,
    /// Modules that see the heads of responses.
    pub of_responses: Box<[u16]>,
    /// The longest body that they take, if one of them wants bodies.
    pub body_bytes_max: Option<u64>,
    /// Whether one of the modules may answer later.
    pub may_wait: bool,
    /// Whether the modules are what the route answers with.
    pub answer: bool,
}

/// What an application says to the server, and to no client: as nginx knows it, and `X-Sendfile`.
pub(crate) const FOR_THE_SERVER: [&str; 6] = [
    "X-Accel-Redirect",
    "X-Accel-Buffering",
    "X-Accel-Charset",
    "X-Accel-Expires",
    "X-Accel-Limit-Rate",
    "X-Sendfile",
];

/// The field that names alternative services (RFC 7838 section 3).
const ALT_SVC: &str = "Alt-Svc";

/// A directory of files that responses of a pool can name.
#[derive(Debug)]
pub struct NamedFiles {
    /// What `X-Accel-Redirect` begins with; begins and ends with `/`.
    pub prefix: String,
    /// What `X-Sendfile` begins with.
    pub root: PathBuf,
    /// The file set.
    pub set: usize,
}

/// What is changed in the fields that a pool gets.
#[derive(Debug, Default)]
pub struct RequestEdits {
    /// What `Host` says instead of what the client has sent.
    pub host: Option<Box<[u8]>>,
    /// All other fields.
    pub fields: FieldEdits,
    /// Fields whose values depend on the request; [`RequestEdits::fields`] removes what the client sends of their names.
    pub filled: Vec<Filled>,
}

impl RequestEdits {
    /// What `Host` says instead of what the client has sent, as text.
    pub fn host_text(&self) -> Option<&str> {
        self.host.as_deref().and_then(|host| std::str::from_utf8(host).ok())
    }

    fn new(scope: &Scope<'_>) -> RequestEdits {
        let of_site = scope.site.map(|site| &site.request_headers);
        let of_route = scope.route.map(|route| &route.request_headers);
        let mut edits = RequestEdits::default();
        [of_site, of_route].into_iter().flatten().for_each(|rules| edits.apply(rules));
        if let Some(site) = scope.site {
            let routes = site.routes.iter().map(|route| &route.access);
            let names = identity_fields(routes.chain([&site.access]));
            let modules = site.modules.iter().chain(site.routes.iter().flat_map(|route| &route.modules));
            let given = modules.flat_map(|module| &module.request_fields);
            names.iter().chain(given).for_each(|name| edits.remove(name));
        }
        edits
    }

    fn apply(&mut self, rules: &RequestHeaderRules) {
        rules.remove.iter().for_each(|name| self.remove(name));
        for (name, value) in &rules.set {
            match name.eq_ignore_ascii_case("host") {
                true => self.host = Some(value.as_bytes().into()),
                false => {
                    self.remove(name);
                    self.fields.set(name, value.as_bytes());
                }
            }
        }
        for (name, value) in &rules.set_filled {
            self.remove(name);
            self.filled.push(Filled::new(name, value));
        }
    }

    /// No field of this name goes on, not even one that the pool has set.
    fn remove(&mut self, name: &str) {
        self.fields.remove(name);
        self.filled.retain(|filled| !filled.name.eq_ignore_ascii_case(name));
    }
}

impl Plan {
    /// Compiles the filters.
    pub fn new(site: usize, scope: &Scope<'_>) -> Plan {
        let of_site = scope.site.map(|site| site.overrides).unwrap_or_default();
        let overrides = scope.route.map(|route| route.overrides).unwrap_or_default().or(of_site);
        let compiled = filter::compile(scope);
        let mut tls = compiled.always.clone();
        tls.append(&compiled.over_tls);
        let mut only_tls = compiled.over_tls;
        only_tls.leave_out_dropped(&compiled.always);
        let mut requests = RequestEdits::new(scope);
        let gates = Gates::new(scope.site, scope.route);
        if gates.as_ref().is_some_and(|gates| gates.remove_authorization()) {
            requests.remove("authorization");
        }
        let sets_cookies = gates
            .as_deref()
            .and_then(|gates| gates.forward.as_ref())
            .is_some_and(|forward| forward.set_cookies);
        Plan {
            site,
            slashes: Slashes::Keep,
            number: 0,
            error_set: None,
            error_pages: compiled.error_pages,
            script_set: None,
            front_controller: None,
            path_regex: None,
            gates,
            rewrite: None,
            named_files: Vec::new(),
            fallback: None,
            expires: compiled.expires.map(Expires::new),
            cors: compiled.cors.as_ref().map(Cors::new),
            overrides,
            idle: IdleTime::new(overrides.limits.keep_alive_timeout),
            compress: compiled.compress.map(compress::Rules::new),
            cache: compiled.cache.map(Box::new),
            site_keeps: false,
            constant: None,
            modules: Modules::default(),
            anonymous: compiled.anonymous,
            needs_response: compiled.needs_response || overrides.limits.is_throttled() || sets_cookies,
            sets_cookies,
            may_throttle: overrides.limits.is_throttled(),
            requests,
            filled: compiled.filled,
            clear: compiled.always,
            tls,
            only_tls,
        }
    }

    /// Responses of the route's pool can name these files. What they say to the server does not go on to clients, unless the
    /// operator sets such a field.
    pub(crate) fn name_files(&mut self, files: Vec<NamedFiles>) {
        if !files.is_empty() {
            (self.needs_response, self.may_throttle) = (true, true);
            for edits in [&mut self.clear, &mut self.tls] {
                let mut all = FieldEdits::default();
                FOR_THE_SERVER.iter().for_each(|name| all.remove(name));
                all.append(edits);
                *edits = all;
            }
        }
        self.named_files = files;
    }

    /// Notes the route, and the pool that it leads to, which are known now: without a pool, nothing is kept.
    pub(crate) fn note_route(&mut self, site: &Site, route: &Route, pool: Option<OfPool<'_>>) {
        let gates = self.gates.as_deref().map(Gates::kinds).unwrap_or_default();
        match (pool, &mut self.cache) {
            (Some(pool), Some(cache)) => cache.note_route(site, route, pool, &gates),
            _ => self.cache = None,
        }
    }

    /// Notes the modules, which are known now.
    pub(crate) fn attach(&mut self, modules: Modules) {
        if !modules.answer && !modules.of_requests.is_empty() {
            self.gates.get_or_insert_default().asks_modules = true;
        }
        self.needs_response |= !modules.of_responses.is_empty();
        self.modules = modules;
    }

    /// Clients over TLS are told where else the server is (RFC 7838), unless the operator says something about that.
    pub(crate) fn offer_alternative(&mut self, value: &str) {
        if !self.tls.settles(ALT_SVC) {
            self.tls.add_if_absent(ALT_SVC, value.as_bytes());
            self.only_tls.add_if_absent(ALT_SVC, value.as_bytes());
        }
    }

    /// Whether anything in a response depends on its request, beyond its route.
    #[inline]
    pub fn depends_on_requests(&self) -> bool {
        self.expires.is_some() || self.cors.is_some() || self.sets_cookies || !self.filled.is_empty()
    }

    /// What is changed in the fields of a response.
    #[inline]
    pub fn edits(&self, secure: bool) -> &FieldEdits {
        if secure { &self.tls } else { &self.clear }
    }

    /// What of that is not in heads that were prepared with [`Plan::prepared_edits`].
    #[inline]
    pub fn late_edits(&self, secure: bool) -> &FieldEdits {
        if secure { &self.only_tls } else { FieldEdits::NONE }
    }

    /// What can be changed before the client of the response is known.
    pub fn prepared_edits(&self) -> &FieldEdits {
        &self.clear
    }
}

#[cfg(test)]
mod tests {
    use maitred_http::fields::FieldLines;

    use super::*;
    use maitred_config::{self as config, ResponseHeaders};

    fn edited(edits: &FieldEdits, fields: &FieldLines) -> FieldLines {
        let mut out = FieldLines::default();
        edits.apply(fields.all(), &mut out);
        out
    }

    #[test]
    fn what_is_for_the_server_does_not_go_on_where_files_can_be_named() {
        let pair = |name: &str| vec![(name.to_owned(), "x".to_owned())];
        let rules = ResponseHeaders { set: pair("X-Accel-Expires"), ..ResponseHeaders::default() };
        let site = config::Site {
            hsts: Some("max-age=1".into()),
            response_headers: rules,
            ..config::Site::default()
        };
        let plan = || Plan::new(0, &Scope { server_header: false, site: Some(&site), route: None });
        let names = |plan: &Plan, secure: bool| -> Vec<String> {
            let mut fields = FieldLines::default();
            FOR_THE_SERVER.iter().for_each(|name| fields.push(name.as_bytes(), b"own"));
            let edited = edited(plan.edits(secure), &fields);
            edited
                .all()
                .iter()
                .map(|(name, value)| String::from_utf8([name, b"=", value].concat()).unwrap())
                .collect()
        };
        let none = {
            let mut plan = plan();
            plan.name_files(Vec::new());
            plan
        };
        assert_eq!(
            (names(&none, false).len(), none.may_throttle),
            (6, false),
            "they are fields as any other"
        );
        let mut some = plan();
        some.name_files(vec![NamedFiles { prefix: "/p/".into(), root: "/srv".into(), set: 0 }]);
        assert!(some.may_throttle && some.needs_response);
        assert_eq!(names(&some, false), ["X-Accel-Expires=x"], "what the operator sets stays");
        assert_eq!(names(&some, true), ["X-Accel-Expires=x", "Strict-Transport-Security=max-age=1"]);
    }

    #[test]
    fn idle_times_are_kept_in_two_bytes() {
        let of =
            |millis| IdleTime::new(Some(Duration::from_millis(millis))).get().unwrap().as_millis() as u64;
        for exact in [1, 2, 200, 4095, 5000, 60_000, 75_000] {
            assert!((exact..=exact + exact / 2048).contains(&of(exact)), "{exact}: {}", of(exact));
        }
        assert_eq!([1, 999, 4095, 5000, 10_000].map(of), [1, 999, 4095, 5000, 10_000]);
        for millis in (0..86_400_000).step_by(7919) {
            let kept = of(millis);
            assert!(kept >= millis && kept <= millis.max(1) + millis / 2048, "{millis}: {kept}");
        }
        assert_eq!(of(u64::MAX), 4095 << 15, "no more than there is room for");
        assert_eq!(IdleTime::new(None), IdleTime::default());
        assert_eq!(IdleTime::default().get(), None);
        let day = IdleTime::new(Some(Duration::from_secs(86_400)));
        assert_eq!(IdleTime::from_bits(day.bits()), day);
    }

    #[test]
    fn prepared_heads_end_up_like_all_others() {
        let pair = |name: &str| vec![(name.to_owned(), "x".to_owned())];
        let hsts = "Strict-Transport-Security";
        for rules in [
            ResponseHeaders::default(),
            ResponseHeaders { remove: vec![hsts.to_ascii_lowercase()], ..ResponseHeaders::default() },
            ResponseHeaders { set: pair(hsts), ..ResponseHeaders::default() },
            ResponseHeaders { add: pair(hsts), if_absent: pair("Server"), ..ResponseHeaders::default() },
            ResponseHeaders {
                if_absent: pair(hsts),
                remove: vec!["server".into()],
                ..ResponseHeaders::default()
            },
        ] {
            let site = config::Site {
                hsts: Some("max-age=1".into()),
                response_headers: rules.clone(),
                ..config::Site::default()
            };
            let plan = Plan::new(0, &Scope { server_header: true, site: Some(&site), route: None });
            for own in ["Content-Type", hsts, "Server"] {
                let mut fields = FieldLines::default();
                fields.push(own.as_bytes(), b"own");
                for secure in [false, true] {
                    let at_once = edited(plan.edits(secure), &fields);
                    let later = edited(plan.late_edits(secure), &edited(plan.prepared_edits(), &fields));
                    let sorted = |lines: &FieldLines| {
                        let mut fields: Vec<_> =
                            lines.all().iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                        fields.sort();
                        fields
                    };
                    assert_eq!(sorted(&later), sorted(&at_once), "{rules:?}, {own}, secure: {secure}");
                }
            }
        }
    }
}
