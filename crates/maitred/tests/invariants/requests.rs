//! Requests by a seed, for a site.

use maitred_testing::random::Random;

use crate::ask::{Arrival, Ask, NUMBER};
use crate::generate::PATHS;
use crate::identity::{Credentials, Gate, Who};

/// What is done with a site, and judged. Each step stands for itself, so that a failing one can be tried alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The same over each version, and by each guise.
    Alike(Ask),
    /// The same in another spelling of its path.
    Spelled(Ask, usize),
    /// The same with a field that clients may not set.
    Forged(Ask, usize),
    /// The same for a client that takes codings.
    Coded(Ask),
    /// Several requests for one URL, one after the other.
    Shared(Vec<(Arrival, Ask)>),
    /// The same for parts of the content, and for a client that has it.
    Ranged(Ask, usize),
}

/// `later` draws what came later, so that earlier seeds keep their requests.
pub(crate) fn steps(
    (random, later): (&mut Random, &mut Random),
    gate: Gate,
    credentials: &Credentials,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..2 {
        steps.push(Step::Alike(any(random, gate, credentials)));
    }
    steps.push(Step::Spelled(any(random, gate, credentials), random.within(0..1000)));
    steps.push(Step::Forged(any(random, gate, credentials), random.within(0..1000)));
    steps.push(Step::Coded(any(random, gate, credentials)));
    steps.push(Step::Shared(shared(random, gate, credentials)));
    for step in &mut steps {
        match step {
            Step::Alike(ask) | Step::Spelled(ask, _) | Step::Forged(ask, _) | Step::Coded(ask) => {
                ask.certificate = later.weighted(CERTIFICATES);
            }
            Step::Shared(asks) => asks.iter_mut().for_each(|ask| over_tls(later, ask)),
            Step::Ranged(..) => {}
        }
    }
    let mut ask = any(later, gate, credentials);
    (ask.method, ask.body) = ("GET", Vec::new());
    ask.fields.retain(|(name, _)| *name != "content-type");
    ask.certificate = later.weighted(CERTIFICATES);
    if later.percent(60) {
        let own = ["part=1", "cc=max-age~60&etag=!v1!", "cc=public_max-age~60&etag=!v1!&part=1"];
        ask.query = format!("{NUMBER}&{}&bytes=3000", pick(later, &own));
    }
    steps.push(Step::Ranged(ask, later.within(0..1000)));
    steps
}

const CERTIFICATES: &[(usize, Who)] = &[(88, Who::None), (7, Who::Ann), (5, Who::Bob)];

/// Has some requests of a sequence come by TLS, some of these with a certificate.
fn over_tls(later: &mut Random, (by, ask): &mut (Arrival, Ask)) {
    if *by == Arrival::Http3 || later.percent(20) {
        *by = later.weighted(&[(2, Arrival::Http3), (2, Arrival::Secure1), (1, Arrival::Secure2)]);
        ask.certificate = later.weighted(&[(2, Who::None), (2, Who::Ann), (1, Who::Bob)]);
    } else if later.percent(10) {
        *by = Arrival::Inner;
    }
}

fn any(random: &mut Random, gate: Gate, credentials: &Credentials) -> Ask {
    let method = random.weighted(&[
        (65, "GET"),
        (15, "POST"),
        (10, "HEAD"),
        (4, "PUT"),
        (3, "DELETE"),
        (3, "OPTIONS"),
    ]);
    let (path, query) = (path(random), steering(random));
    let mut ask = Ask { method, path, query, fields: Vec::new(), body: Vec::new(), certificate: Who::None };
    if matches!(method, "POST" | "PUT") {
        let bytes = random.weighted(&[(50, 10), (25, 3000), (10, 70_000)]);
        ask.body = (0..bytes).map(|at| (at % 251) as u8).collect();
        ask.fields.push(("content-type", "application/octet-stream".to_owned()));
    }
    ask.fields.extend(client(random, gate, credentials, Who::None));
    ask
}

fn path(random: &mut Random) -> String {
    let (_, fitting) = PATHS[random.within(0..PATHS.len())];
    fitting[random.within(0..fitting.len())].to_owned()
}

fn pick<'t>(random: &mut Random, texts: &[&'t str]) -> &'t str {
    texts[random.within(0..texts.len())]
}

/// A query, by which the application answers in one way or another.
fn steering(random: &mut Random) -> String {
    let mut query = vec![NUMBER];
    let mut maybe = |chance: usize, texts: &[&'static str]| {
        if random.percent(chance) {
            query.push(pick(random, texts));
        }
    };
    maybe(
        45,
        &[
            "cc=max-age~60",
            "cc=public_max-age~60",
            "cc=s-maxage~60",
            "cc=no-store",
            "cc=private_max-age~60",
            "cc=max-age~60_must-revalidate",
            "cc=max-age~0",
        ],
    );
    maybe(25, &["vary=accept-language", "vary=x-kind", "vary=accept-language_x-kind", "vary=cookie"]);
    maybe(15, &["etag=!v1!", "etag=W/!v2!"]);
    maybe(12, &["cookie=id~1"]);
    maybe(
        20,
        &[
            "status=404",
            "status=204",
            "status=403",
            "status=301&loc=/else",
            "status=201",
            "status=410",
            "status=503",
        ],
    );
    maybe(30, &["bytes=3000", "bytes=70000", "bytes=20000"]);
    maybe(30, &["type=text_html", "type=application_json", "type=image_png"]);
    maybe(12, &["x=cgi"]);
    maybe(20, &["k=1", "k=2"]);
    maybe(10, &["utm_source=s", "q=a+b%20c%2Bd", "q=%e2%82%ac&q=2", "empty="]);
    query.join("&")
}

/// What a client says of itself.
fn client(
    random: &mut Random,
    gate: Gate,
    credentials: &Credentials,
    default: Who,
) -> Vec<(&'static str, String)> {
    let who = random.weighted(&[(2, default), (4, Who::Ann), (2, Who::Bob)]);
    let mut fields = credentials.of(gate, who);
    if random.percent(15) {
        match fields.iter_mut().find(|(name, _)| *name == "cookie") {
            Some((_, value)) => value.push_str("; beta=1"),
            None => fields.push(("cookie", "beta=1".to_owned())),
        }
    }
    let mut maybe = |chance: usize, name: &'static str, values: &[&str]| {
        if random.percent(chance) {
            fields.push((name, pick(random, values).to_owned()));
        }
    };
    maybe(40, "x-kind", &["one", "two", "three"]);
    maybe(35, "accept-language", &["de", "fr"]);
    maybe(10, "origin", &["https://a.example", "https://evil.test"]);
    maybe(15, "x-other", &["1"]);
    maybe(8, "referer", &["https://a.example/x"]);
    fields
}

fn shared(random: &mut Random, gate: Gate, credentials: &Credentials) -> Vec<(Arrival, Ask)> {
    let (path, mut query) = (path(random), steering(random));
    if !query.contains("cc=") && random.percent(60) {
        query.push_str("&cc=max-age~60");
    }
    let one = |random: &mut Random| {
        let method = if random.percent(88) { "GET" } else { "HEAD" };
        let fields = client(random, gate, credentials, Who::None);
        // HTTP/3 has another scheme, and so other keys.
        let by = random.weighted(&[(45, Arrival::Http1), (45, Arrival::Http2), (10, Arrival::Http3)]);
        let (path, query) = (path.clone(), query.clone());
        (by, Ask { method, path, query, fields, body: Vec::new(), certificate: Who::None })
    };
    (0..6).map(|_| one(random)).collect()
}

/// Another spelling of the same path, by a number. `slashes`: an encoded slash is one like any other.
pub(crate) fn spell(path: &str, number: usize, slashes: bool) -> String {
    let (at, first) =
        path.char_indices().nth(1).filter(|(_, found)| found.is_ascii_alphanumeric()).unwrap_or((0, '/'));
    // Beside one that is kept, dots are refused.
    if !slashes && path.contains("%2F") {
        return format!("/{path}");
    }
    match number % 8 {
        7 if slashes && path[1..].contains('/') => format!("/{}", path[1..].replacen('/', "%2F", 1)),
        0 if at == 1 => format!("/%{:02x}{}", first as u32, &path[2..]),
        0 | 1 => format!("/.{path}"),
        2 => format!("/away/..{path}"),
        3 => format!("/away/%2e%2E{path}"),
        4 => format!("/{path}"),
        5 => lower_hex(path),
        _ => format!("/./%2e/x/../{}", &path[1..]),
    }
}

/// `%C3` is `%c3`.
fn lower_hex(path: &str) -> String {
    let mut after = 3;
    let lower = |found: char| {
        after = if found == '%' { 0 } else { after + 1 };
        if after <= 2 { found.to_ascii_lowercase() } else { found }
    };
    path.chars().map(lower).collect()
}

/// Fields that gates give, where a site has one that gives them.
pub(crate) const OF_GATES: &[(&str, &str)] = &[
    ("X-Guard-User", "x-guard-user"),
    ("X-Guard-Client", "x-guard-client"),
    ("X-Roles", "x-roles"),
    ("X-User", "x-user"),
];

/// Fields of the documented families: a client that sends them is treated as one that does not.
pub(crate) const FORGED: &[(&str, &str)] = &[
    ("x-forwarded-for", "10.9.9.9"),
    ("forwarded", "for=10.9.9.9;proto=https;host=evil.test"),
    ("x-real-ip", "10.9.9.9"),
    ("x-forwarded-host", "evil.test"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-uri", "/forged"),
    ("x-forwarded-method", "DELETE"),
    ("x-forwarded-prefix", "/forged"),
    ("x-forwarded-user", "forged"),
    ("x-remote-user", "forged"),
    ("remote-user", "forged"),
    ("remote-groups", "forged"),
    ("x-webauth-user", "forged"),
    ("x-auth-request-user", "forged"),
    ("x-authentik-username", "forged"),
    ("x-authenticated-userid", "forged"),
    ("x-auth-user", "forged"),
    ("x-goog-authenticated-user-email", "forged"),
    ("x-ms-client-principal-name", "forged"),
    ("x-amzn-oidc-identity", "forged"),
    ("cf-access-authenticated-user-email", "forged"),
    ("tailscale-user-login", "forged"),
    ("shib-session-id", "forged"),
    ("true-client-ip", "10.9.9.9"),
    ("x-client-ip", "10.9.9.9"),
    ("client-ip", "10.9.9.9"),
    ("x-cluster-client-ip", "10.9.9.9"),
    ("cf-connecting-ip", "10.9.9.9"),
    ("fastly-client-ip", "10.9.9.9"),
    ("x-original-url", "/forged"),
    ("x-rewrite-url", "/forged"),
    ("x-original-method", "DELETE"),
    ("x-script-name", "/forged"),
    ("x-host", "evil.test"),
    ("x-http-host-override", "evil.test"),
    ("front-end-https", "on"),
    ("x-scheme", "https"),
    ("x-https", "on"),
    ("ssl-client-cert", "forged"),
    ("ssl-client-verify", "SUCCESS"),
    ("client-cert", ":Zm9yZ2Vk:"),
    ("x-client-cert", "forged"),
    ("x-client-dn", "CN=forged"),
    ("x-ssl-client-verify", "SUCCESS"),
    ("x-ssl-client-s-dn", "CN=forged"),
    ("x-arr-clientcert", "forged"),
    ("x-accel-redirect", "/forged"),
    ("x-middleware-subrequest", "forged"),
    ("x-queue-start", "t=1"),
    ("x-request-start", "t=1"),
    ("x-request-id", "forged"),
    ("proxy", "http://evil.test/"),
    ("x_forwarded_for", "10.9.9.9"),
    ("x_remote_user", "forged"),
    ("x.remote.user", "forged"),
    ("remote_user", "forged"),
    ("content_length", "17"),
    ("some_name", "forged"),
    ("x_guard_user", "forged"),
    ("early-data", "1"),
];
