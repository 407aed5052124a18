//! Sites by a seed.

use maitred_testing::random::Random;

use crate::identity::Gate;
use crate::site::{Key, Site, get};

/// Patterns of routes, with paths that fit them.
pub(crate) const PATHS: [(&str, &[&str]); 8] = [
    ("/", &["/"]),
    (
        "/app/*",
        &[
            "/app/x",
            "/app/a/b",
            "/app/app/x",
            "/app/a%2Fb",
            "/app/caf%C3%A9",
            "/app/sp%20ace.html",
            "/app/a+b;c=d",
        ],
    ),
    ("/api/v1/*", &["/api/v1/users", "/api/v1/users/17"]),
    ("/api/*", &["/api/v1/users", "/api/none", "/api/a%7Cb"]),
    ("*.txt", &["/a.txt", "/app/notes.txt", "/files/none.txt"]),
    ("/files/*", &["/files/b.txt", "/files/dir/c.html", "/files/app.3f2a9c1b.js"]),
    ("/a/*/b", &["/a/1/b", "/a/1/2/b"]),
    ("/*", &["/any/thing", "/a.txt", "/x"]),
];

/// Conditions about where a request has come in, each of which holds for some arrivals.
const ARRIVAL_CONDITIONS: &[&str] = &[
    "{ listener = \"inner\" }",
    "{ listener = [\"secure\", \"inner\"] }",
    "{ tls = true }",
    "{ scheme = \"http\" }",
    "{ client_certificate = true }",
    "{ not = [{ client_certificate = true }] }",
];

/// Where a site may answer.
const LISTENS: &[&str] =
    &["\"plain\"", "\"secure\"", "\"inner\"", "[\"plain\", \"secure\"]", "[\"inner\", \"secure\"]"];

/// Conditions, all of which hold for some of the requests that [`crate::requests`] makes.
const CONDITIONS: [&str; 12] = [
    "{ header = { X-Kind = \"one\" } }",
    "{ header = { X-Kind = \"~^(one|two)$\" } }",
    "{ header = { X-Kind = \"*\" } }",
    "{ query = { k = \"1\" } }",
    "{ cookie = { beta = \"1\" } }",
    "{ client = [\"127.0.0.0/8\"] }",
    "{ client = [\"10.9.9.9\"] }",
    "{ not = [{ header = { X-Kind = \"two\" } }] }",
    "{ not = [{ client = [\"10.9.9.9\"] }] }",
    "{ any = [{ cookie = { beta = \"1\" } }, { header = { X-Kind = \"two\" } }] }",
    "{ share = \"50%\", share_by = \"header:X-Kind\" }",
    "{ query = { k = \"*\" }, header = { X-Kind = \"on*\" } }",
];

pub(crate) struct Generator<'r> {
    random: &'r mut Random,
    /// What keys that came later are drawn from, so that earlier seeds keep their sites.
    later: &'r mut Random,
    gate: Gate,
}

/// A site, and the one kind of gate that it may have.
pub(crate) fn site(random: &mut Random, later: &mut Random) -> (Site, Gate) {
    let mut gate = random.weighted(&[
        (4, Gate::None),
        (2, Gate::Basic),
        (2, Gate::Jwt),
        (2, Gate::JwtInCookie),
        (3, Gate::Forward),
    ]);
    if gate == Gate::None && later.percent(20) {
        gate = Gate::Module;
    }
    let mut generator = Generator { random, later, gate };
    let site = generator.site();
    (site, gate)
}

impl Generator<'_> {
    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.random.within(0..texts.len())]
    }

    /// With this chance in a hundred, a key with one of these values.
    fn maybe(&mut self, keys: &mut Vec<Key>, chance: usize, name: &'static str, values: &[&str]) {
        if self.random.percent(chance) {
            let value = self.pick(values).to_owned();
            keys.push(Key { name, value });
        }
    }

    /// The same from the draws that came later.
    fn maybe_later(&mut self, keys: &mut Vec<Key>, chance: usize, name: &'static str, values: &[&str]) {
        if self.later.percent(chance) {
            let value = values[self.later.within(0..values.len())].to_owned();
            keys.retain(|key| key.name != name);
            keys.push(Key { name, value });
        }
    }

    fn site(&mut self) -> Site {
        let mut keys = Vec::new();
        self.maybe_later(&mut keys, 12, "listen", LISTENS);
        self.maybe(&mut keys, 50, "root", &["\"root\""]);
        let is_gated = self.gate != Gate::None && self.random.percent(50);
        if is_gated {
            keys.push(self.gate());
        }
        self.maybe(&mut keys, 40, "cache", CACHES);
        self.shared(&mut keys, 100);
        self.maybe(&mut keys, 20, "request_headers", REQUEST_HEADERS);
        self.maybe(&mut keys, 10, "server_header", &["false"]);
        self.maybe(&mut keys, 10, "encoded_slashes", &["\"keep\"", "\"decode\"", "\"reject\""]);
        let mut routes: Vec<Vec<Key>> = Vec::new();
        for _ in 0..self.random.within(1..6) {
            let route = self.route(is_gated, has(&keys, "listen"));
            if !routes.iter().any(|before| takes_all(before, &route)) {
                routes.push(route);
            }
        }
        if self.random.percent(70)
            && !routes.iter().any(|route| is_open(route) && get(route, "path") == Some("\"/*\""))
        {
            let pool = self.pick(&["\"@a\"", "\"@b\""]).to_owned();
            let path = Key { name: "path", value: "\"/*\"".to_owned() };
            routes.push(vec![path, Key { name: "pool", value: pool }]);
        }
        Site { keys, routes }
    }

    /// Keys of sites and routes, with this part of their chances.
    fn shared(&mut self, keys: &mut Vec<Key>, part: usize) {
        let of = |chance: usize| chance * part / 100;
        self.maybe(keys, of(30), "compress", &["true", "{ bytes_min = 1, codings = [\"gzip\", \"zstd\"] }"]);
        self.maybe(keys, of(25), "response_headers", RESPONSE_HEADERS);
        self.maybe(keys, of(15), "expires", EXPIRES);
        self.maybe(keys, of(12), "cors", CORS);
        self.maybe(keys, of(10), "security_headers", &["true", "\"strict\""]);
        self.maybe(
            keys,
            of(12),
            "limits",
            &["{ body_bytes_max = \"1m\" }", "{ body_bytes_max = \"2k\" }", "{ request_timeout = \"50s\" }"],
        );
        self.maybe(keys, of(8), "limit", &["[\"wide\"]"]);
        self.maybe(
            keys,
            of(8),
            "allow",
            &["[\"127.0.0.0/8\"]", "[\"10.9.9.9\"]", "[\"@loopback\", \"10.9.9.9\"]"],
        );
        self.maybe(keys, of(8), "deny", &["[\"10.9.9.9\"]", "[\"10.0.0.0/8\", \"192.0.2.7\"]"]);
        self.maybe(keys, of(6), "methods", &["[\"GET\", \"POST\"]", "[\"GET\"]"]);
        self.maybe(keys, of(8), "request_buffering", &["\"on\"", "\"off\""]);
        self.maybe(keys, of(6), "response_buffering", &["{ memory = \"64KiB\" }"]);
    }

    fn gate(&mut self) -> Key {
        let value = match self.gate {
            Gate::None => unreachable!("asked for none"),
            Gate::Basic => self.pick(&[
                "{ users_file = \"users\" }",
                "{ users_file = \"users\", remove_authorization = true, realm = \"Inner\" }",
            ]),
            Gate::Jwt => self.pick(&[
                "{ jwks_file = \"keys.json\", issuer = \"*\", audience = \"*\" }",
                "{ jwks_file = \"keys.json\", issuer = \"*\", audience = \"*\", remove_authorization = true, \
                 claim_headers = { X-Roles = \"roles\" } }",
            ]),
            Gate::JwtInCookie => {
                "{ jwks_file = \"keys.json\", issuer = \"*\", audience = \"*\", from = [\"cookie:token\"] }"
            }
            Gate::Module => self.pick(&[TOKEN, TOKEN_AND_STAMP]),
            Gate::Forward => self.pick(&[FORWARD, FORWARD_KEPT]),
        };
        Key { name: self.gate.key(), value: value.to_owned() }
    }

    fn route(&mut self, site_is_gated: bool, listens: bool) -> Vec<Key> {
        let (pattern, _) = PATHS[self.random.within(0..PATHS.len())];
        let mut keys = vec![Key { name: "path", value: format!("\"{pattern}\"") }];
        self.maybe(&mut keys, 8, "path_regex", &["'^/(\\w+)'", "'/([^/]*)$'"]);
        self.maybe(&mut keys, 45, "match", &CONDITIONS);
        // Where a site answers at some listeners, no request reaches a route for others, which is an error.
        self.maybe_later(&mut keys, if listens { 0 } else { 10 }, "match", ARRIVAL_CONDITIONS);
        let mut target = self.random.weighted(&[
            (70, "pool"),
            (9, "root"),
            (7, "respond"),
            (7, "redirect"),
            (4, "reroute"),
            (5, "try"),
        ]);
        if target == "respond" && self.later.percent(40) {
            target = "module";
        }
        match self.gate {
            _ if target == "reroute" => {}
            Gate::None => self.maybe_later(&mut keys, 6, "module", &[STAMP]),
            Gate::Module if site_is_gated => {}
            gate if site_is_gated => self.maybe(&mut keys, 20, gate.key(), &["\"off\""]),
            _ if self.random.percent(40) => {
                let key = self.gate();
                keys.push(key);
            }
            _ => {}
        }
        if target != "reroute" {
            self.shared(&mut keys, 40);
        }
        match target {
            "pool" => self.pool(&mut keys, pattern),
            "root" => {
                keys.push(Key { name: "root", value: "\"root\"".to_owned() });
                self.maybe(&mut keys, 30, "headers", &["{ set = { X-File = \"1\" } }"]);
                self.maybe(&mut keys, 30, "listing", &["true"]);
            }
            "respond" => self.maybe(&mut keys, 100, "respond", RESPONDS),
            "module" => answered_by_module(&mut keys),
            "redirect" => {
                let prefix = if has(&keys, "path_regex") { REDIRECTS } else { &REDIRECTS[1..] };
                self.maybe(&mut keys, 100, "redirect", prefix);
                self.maybe(&mut keys, 50, "status", &["301", "307", "308"]);
            }
            "reroute" => self.maybe(&mut keys, 100, "reroute", &["\"/app/rerouted\"", "\"/api/v1{path}\""]),
            _ => {
                keys.push(Key { name: "root", value: "\"root\"".to_owned() });
                self.maybe(
                    &mut keys,
                    100,
                    "try",
                    &[
                        "[\"{path}\", \"pool:@a\"]",
                        "[\"{path}\", \"{path}/\", \"pool:@b\"]",
                        "[\"{path}\", \"/a.txt\"]",
                    ],
                );
            }
        }
        keys
    }

    fn pool(&mut self, keys: &mut Vec<Key>, pattern: &str) {
        self.maybe(keys, 100, "pool", &["\"@a\"", "\"@b\""]);
        self.maybe(keys, 25, "cache", CACHES);
        self.maybe(keys, 10, "request_headers", REQUEST_HEADERS);
        self.maybe(keys, 12, "query", &["{ remove = [\"utm_*\"] }", "{ set = { added = \"{path}\" } }"]);
        let prefix = pattern.strip_suffix('*').filter(|prefix| prefix.len() > 1 && prefix.starts_with('/'));
        if let Some(prefix) = prefix
            && self.random.percent(20)
        {
            keys.push(Key { name: "strip_prefix", value: format!("\"{prefix}\"") });
            self.maybe(keys, 50, "replace_prefix", &["\"/other/\""]);
        } else if self.random.percent(15) {
            let rewrites = if has(keys, "path_regex") { REWRITES } else { &REWRITES[2..] };
            self.maybe(keys, 100, "rewrite", rewrites);
        }
    }
}

/// The module `hello` behind those that a route has.
fn answered_by_module(keys: &mut Vec<Key>) {
    match keys.iter_mut().find(|key| key.name == "module") {
        Some(Key { value, .. }) => {
            let before = value.trim_matches(['[', ']']);
            *value = format!("[{before}, {HELLO}]");
        }
        None => keys.push(Key { name: "module", value: HELLO.to_owned() }),
    }
}

fn has(keys: &[Key], name: &str) -> bool {
    get(keys, name).is_some()
}

/// Whether a route takes every request for its path.
fn is_open(route: &[Key]) -> bool {
    !["match", "path_regex", "methods"].iter().any(|name| has(route, name))
}

/// Whether nothing is left for a route behind another one, which is an error of a configuration.
fn takes_all(before: &[Key], route: &[Key]) -> bool {
    let same = |name: &str| get(before, name) == get(route, name);
    let asks_less = |name: &str| !has(before, name) || same(name);
    // The shorter list of methods is the beginning of the longer one, and no list is all of them.
    let methods = |keys| get(keys, "methods").map_or(usize::MAX, str::len);
    let is_stricter = asks_less("match") && asks_less("path_regex") && methods(before) >= methods(route);
    let pattern = |keys| get(keys, "path").unwrap_or_default().trim_matches('"').to_owned();
    let (first, second) = (pattern(before), pattern(route));
    let covers = first == second
        || first == "/*"
        || first.strip_suffix('*').is_some_and(|begin: &str| !begin.is_empty() && second.starts_with(begin));
    is_stricter && covers
}

/// A request that waits longer goes past the cache, whole: `collapse_timeout` is what a machine under load needs.
const CACHES: &[&str] = &[
    "{ collapse_timeout = \"60s\" }",
    "{ collapse_timeout = \"60s\" }",
    "{ collapse_timeout = \"60s\" }",
    "false",
    "{ collapse_timeout = \"60s\", query_ignore = [\"utm_*\"] }",
    "{ collapse_timeout = \"60s\", query = \"sorted\" }",
    "{ collapse_timeout = \"60s\", key_identity = true }",
    "{ collapse_timeout = \"60s\", key_identity = true }",
];
const RESPONSE_HEADERS: &[&str] = &[
    "{ set = { X-Set = \"set\" } }",
    "{ remove = [\"X-Powered-By\"] }",
    "{ if_absent = { Cache-Control = \"no-cache\", X-Absent = \"1\" } }",
    "{ set = { X-Powered-By = \"me\" }, add = { Vary = \"X-Added\" } }",
];
const REQUEST_HEADERS: &[&str] = &[
    "{ set = { X-Tenant = \"blue\" } }",
    "{ remove = [\"Accept-Language\"] }",
    "{ set = { X-Kind = \"set\" }, remove = [\"X-Other\"] }",
];
const EXPIRES: &[&str] = &[
    "\"1h\"",
    "{ \"*.txt\" = \"1h\", \"text/html\" = \"no-cache\" }",
    "{ hashed = \"immutable\", \"image/*\" = \"30d\", default = \"no-store\" }",
];
const CORS: &[&str] = &[
    "{ origins = [\"https://a.example\"], credentials = true }",
    "{ origins = [\"*\"] }",
    "{ origins = [\"https://*.example\"], methods = [\"GET\", \"PUT\"], expose = [\"X-Number\"] }",
];
const FORWARD: &str = "{ pool = \"guard\", path = \"/guard\", timeout = \"60s\", \
     copy_headers = [\"X-Guard-User\", \"X-Guard-Uri\", \"X-Guard-Method\", \"X-Guard-Host\", \"X-Guard-Client\"] }";
const FORWARD_KEPT: &str = "{ pool = \"guard\", path = \"/guard\", timeout = \"60s\", \
     copy_headers = [\"X-Guard-User\"], cache = { time = \"30s\", key = [\"cookie:session\"] } }";
/// `@modules` is the directory of the libraries.
const TOKEN: &str =
    "{ path = \"@modules/libtoken.so\", config = { key = \"token.key\" }, request_fields = [\"X-User\"] }";
const TOKEN_AND_STAMP: &str = "[{ path = \"@modules/libtoken.so\", config = { key = \"token.key\" }, \
     request_fields = [\"X-User\"] }, { path = \"@modules/libstamp.so\", config = { set = { X-Stamp = \"1\" } } }]";
const STAMP: &str = "{ path = \"@modules/libstamp.so\", config = { set = { X-Stamp = \"2\" }, remove = [\"X-Powered-By\"] } }";
const HELLO: &str = "{ path = \"@modules/libhello.so\", config = { greeting = \"Hello\" } }";
const RESPONDS: &[&str] = &[
    "{ status = 200, body = \"said\\n\" }",
    "{ status = 410 }",
    "{ status = 204 }",
    "{ status = 403, body = \"<p>no</p>\", content_type = \"text/html\" }",
];
const REDIRECTS: &[&str] = &[
    "\"/to/{capture.1}\"",
    "\"https://example.com{uri}\"",
    "\"/new{path}\"",
    "\"https://{host}/to?from={path}\"",
];
const REWRITES: &[&str] = &[
    "\"/r/{capture.1}\"",
    "\"/r?c={capture.1}\"",
    "\"/r{path}\"",
    "\"/q?p={path}\"",
    "\"/h/{header.x-kind}\"",
];
