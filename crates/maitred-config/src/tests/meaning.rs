use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::super::finding::Context;
use super::super::keys::{Kind, Table};
use super::super::{build, fuzzing, open_all, tables::ROOT};
use super::*;
use maitred_base::pool::canary;
use maitred_base::pool::settings::Settings;

/// Sets every key to something other than its default.
pub(super) const EVERYTHING: &str = include_str!("everything.toml");

fn the_cache_has_its_meaning(config: &Config) {
    let store = config.cache.as_ref().unwrap();
    assert_eq!(store.directory, std::path::Path::new("/var/cache/test"));
    assert_eq!((store.bytes_max, store.entries_max, store.memory_bytes_max), (2 << 30, 5000, 3 << 20));
    let of_site = CacheRules { query_ignore: vec!["utm_*".to_owned()], ..CacheRules::default() };
    assert!(config.sites.iter().any(|site| site.cache == Some(Caching::On(Box::new(of_site.clone())))));
    let of_routes = config.sites.iter().flat_map(|site| &site.routes).find_map(|route| route.cache.as_ref());
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let expected = CacheRules {
        ttl: seconds(10),
        ttl_by_status: vec![(404, Duration::from_secs(60))],
        heuristic: true,
        stale_while_revalidate: seconds(20),
        stale_if_error: seconds(30),
        set_cookie: true,
        authorization: true,
        response_control: false,
        request_control: false,
        targeted: vec!["x-cdn".to_owned()],
        query: QueryKey::Sorted,
        query_only: vec!["page".to_owned(), "q*".to_owned()],
        query_ignore: Vec::new(),
        key_headers: vec!["x-version".to_owned()],
        key_cookies: vec!["lang".to_owned()],
        key_identity: true,
        cookies: false,
        object_bytes_max: 1 << 20,
        collapse_timeout: Duration::from_secs(3),
        cache_status: false,
    };
    assert_eq!(of_routes, Some(&Caching::On(Box::new(expected))));
}

#[test]
fn every_key_reaches_its_meaning() {
    let config = good(EVERYTHING);
    let server = &config.server;
    assert_eq!(server.threads, Some(3));
    assert_eq!(server.affinity, Affinity::Cpus(vec![2, 0, 1]));
    assert_eq!(server.user.as_ref().map(|user| user.uid), Some(33));
    assert_eq!(server.admin, Some(AdminAddress::Unix("/etc/maitred/run/admin.sock".into())));
    assert_eq!(server.pid_file, Some("/etc/maitred/run/pid".into()));
    assert_eq!(server.grace, Duration::from_secs(90));
    assert_eq!((server.grace_streams, server.old_workers_max), (Some(Duration::from_secs(600)), 3));
    assert_eq!(
        server.trusted_proxies.networks,
        [("10.0.0.0".parse().unwrap(), 8), ("::1".parse().unwrap(), 128)]
    );
    assert_eq!(server.trusted_proxies.field.as_deref(), Some("cf-connecting-ip"));
    assert!(
        config.pools.iter().all(|pool| pool.request_headers.client_address == server.trusted_proxies.field)
    );
    assert_eq!(server.spool, std::path::Path::new("/etc/maitred/spool"));
    assert!(!server.path_parameters && server.encoded_slashes == EncodedSlashes::Keep);
    assert!(!server.server_header && !server.seccomp);
    let listen = Listen {
        name: Some("inner".into()),
        address: "[::1]:8443".parse().unwrap(),
        unix_file: UnixFile::default(),
        buckets: Buckets::PerThread,
        backlog: 10,
        steer_by_cpu: true,
        defer_accept: true,
        proxy_protocol_from: Some(vec![("192.0.2.7".parse().unwrap(), 32)]),
        tls: None,
        http2: true,
        redirect_http: false,
        redirect_status: 308,
        http3: false,
        misdirected: Misdirected::Refused,
    };
    assert_eq!(config.listens[0], listen);
    let trusted = ["x-remote-user".to_owned(), "x-auth-request-*".to_owned()];
    assert!(config.pools.iter().any(|pool| pool.request_headers.trusted.as_deref() == Some(&trusted[..])));
    assert_eq!(config.listens[1].misdirected, Misdirected::DefaultSite);
    the_cache_has_its_meaning(&config);
    assert_eq!(config.limits.head_bytes_max, 32 * 1024);
    assert_eq!((config.limits.body_inline_bytes_max, config.limits.body_memory_bytes_max), (3, 4));
    assert_eq!((config.limits.bodies_memory_bytes_max, config.limits.bodies_disk_bytes_max), (20, 21 * 1024));
    assert_eq!(config.limits.unsent_files_bytes_max, 22 * 1024);
    let unsent = (config.limits.unsent_memory_bytes_max, config.limits.unsent_connection_bytes_max);
    assert_eq!(unsent, (22 << 20, 123 << 10));
    assert_eq!(config.limits.loop_delay_max, Duration::from_secs(24));
    let limits = &config.limits;
    assert_eq!(limits.linger_timeout, Duration::from_secs(11));
    assert_eq!((limits.head_timeout_max, limits.head_bytes_per_second_min), (Duration::from_secs(21), 22));
    assert_eq!((limits.body_bytes_per_second_min, limits.body_rate_grace), (23, Duration::from_secs(24)));
    assert_eq!(limits.request_total_timeout, Some(Duration::from_secs(25)));
    assert_eq!((limits.response_bytes_per_second_min, limits.response_rate_window.as_secs()), (26, 27));
    assert_eq!(limits.response_total_timeout, Some(Duration::from_secs(28)));
    assert_eq!(limits.relay_idle_timeout, Duration::from_secs(31));
    assert_eq!(limits.connections_per_address_max, 30);
    assert_eq!(limits.connections_per_address_exempt, [("192.0.2.0".parse().unwrap(), 24)]);
    assert_eq!(limits.tunnel_idle_timeout, Duration::from_secs(29));
    assert_eq!((config.limits.file_cache_files_max, config.limits.delayed_requests_max), (13, 34));
    let log = Log {
        access: AccessFormat::Json,
        access_file: Some("/etc/maitred/access.log".into()),
        error_file: Some("/var/log/error.log".into()),
        level: "warn,maitred=debug".into(),
    };
    assert_eq!(config.log, log);
}

#[test]
fn a_unix_socket_has_one_queue_and_a_file() {
    let config = good(EVERYTHING);
    let unix = config.listens.last().unwrap();
    assert_eq!(unix.address, Address::Unix("/etc/maitred/http.sock".into()));
    assert_eq!(unix.unix_file, UnixFile { mode: 0o606, owner: Some(1001), group: Some(33) });
    assert_eq!((unix.buckets, unix.steer_by_cpu), (Buckets::Number(1), false));
    assert!(config.server.trusted_proxies.unix && config.server.trusted_proxies.trusts(None));
}

#[test]
fn keys_about_tls_reach_their_meaning() {
    let config = good(EVERYTHING);
    let listens: Vec<_> = config.sites.iter().map(|site| site.listens.as_deref()).collect();
    assert_eq!(listens, [None, Some(&[1, 2][..])]);
    let [_, secure, cleartext, _] = &config.listens[..] else { panic!("{:?}", config.listens) };
    assert_eq!((secure.http2, secure.http3, secure.redirect_http), (false, true, false));
    assert_eq!((&cleartext.tls, cleartext.http2, cleartext.redirect_http), (&None, true, true));
    assert_eq!(cleartext.redirect_status, 301);
    let tls = Tls {
        versions: vec![TlsVersion::V13],
        ciphers: vec!["TLS13_CHACHA20_POLY1305_SHA256".to_owned()],
        curves: vec!["X25519".to_owned(), "secp384r1".to_owned()],
        client_auth: ClientAuth::Required("/etc/maitred/ca.pem".into()),
        client_crl: Some("/etc/maitred/crl.pem".into()),
        early_data: true,
        tickets: true,
        keylog: Some("/etc/maitred/keys.log".into()),
        ktls: true,
    };
    assert_eq!(secure.tls.as_ref(), Some(&tls));
    let site = &config.sites[0];
    assert_eq!(site.hsts.as_deref(), Some("max-age=31536000; includeSubDomains"));
    let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let rules = ResponseHeaders {
        set: pair("X-Frame-Options", "DENY"),
        add: pair("Link", "</a>"),
        remove: vec!["x-powered-by".into()],
        if_absent: pair("X-C", "d"),
        ..ResponseHeaders::default()
    };
    assert_eq!(site.response_headers, rules);
    let requests = RequestHeaderRules {
        set: pair("Host", "inner"),
        remove: vec!["cookie".into()],
        ..RequestHeaderRules::default()
    };
    assert_eq!(site.request_headers, requests);
    let files = Certificate::Files {
        certificate: "/etc/maitred/cert.pem".into(),
        key: "/etc/maitred/key.pem".into(),
        ocsp: Some("/srv/resp.der".into()),
    };
    assert_eq!(site.certificates, [files]);
    let defaults = good(
        "listen = [{ address = \":1\", tls = {} }]\nsite = [{ root = \"www\", \
        certificates = [{ certificate = \"cert.pem\", key = \"key.pem\" }] }]\n",
    );
    assert_eq!(defaults.listens[0].tls, Some(Tls::default()), "what `maitred serve --tls` has");
}

fn conditions_and_rewrites(pool: &Route, moved: &Route, images: &Route) {
    let regex = crate::regex(r"^/app/(\d+)").ok();
    let template = |text: &str| Template::parse(text, regex.as_ref()).unwrap();
    let glob = |text: &str| ValuePattern::Glob(text.split('*').map(str::to_owned).collect());
    let one = |name: &str, value: ValuePattern| vec![(name.to_owned(), value)];
    assert_eq!(pool.patterns, [PathPattern::Prefix("/app/".into()), PathPattern::Exact("/app/x".into())]);
    assert_eq!(pool.path_regex.as_deref(), Some(r"^/app/(\d+)"));
    let all = ConditionSet {
        headers: one("x-a", glob("v*1")),
        query: one("q", ValuePattern::Regex("^a".into())),
        cookies: one("c", glob("1")),
        https: Some(true),
        clients: vec![("10.0.0.0".parse().unwrap(), 8)],
        share: Some(Share { parts: 1250, by: ShareKey::Cookie("id".into()), name: "x".into() }),
        arrival: ArrivalCondition {
            listeners: Some(vec![0]),
            port: Some(8443),
            tls: Some(false),
            certificate: Some(false),
        },
        ..ConditionSet::default()
    };
    let any = ConditionSet {
        paths: vec![PathPattern::Exact("/app/x".into())],
        headers: one("b", glob("*")),
        ..ConditionSet::default()
    };
    let not = ConditionSet { query: one("no", glob("*")), ..ConditionSet::default() };
    let secure = ArrivalCondition {
        listeners: Some(vec![1]),
        port: Some(443),
        tls: Some(true),
        certificate: Some(true),
    };
    let not = vec![not, ConditionSet { arrival: secure, ..ConditionSet::default() }];
    let users = vec!["ann".to_owned(), "bob".to_owned()];
    assert_eq!(pool.conditions, Conditions { all, any: vec![any], not, users });
    let rewrite = Rewrite {
        strip_prefix: Some("/app/".into()),
        replace_prefix: "/v2/".into(),
        to: None,
        set_query: vec![("id".into(), template("{capture.1}"))],
        remove_query: vec!["utm_*".into()],
    };
    assert_eq!(pool.rewrite, rewrite);
    assert_eq!(moved.target, Target::Reroute(template("/new?from={path}")));
    assert_eq!(images.rewrite.to, Some(template("/img{path}")));
}

fn values_with_placeholders(wiki: &Route) {
    let filled = |name: &str, value: &str| vec![(name.to_owned(), Template::parse_value(value).unwrap())];
    assert_eq!(wiki.front_controller.as_deref(), Some("/w/index.php"));
    let requests = RequestHeaderRules {
        set: vec![("X-Json".into(), "{}".into())],
        set_filled: filled("X-Peer", "{client}"),
        ..RequestHeaderRules::default()
    };
    assert_eq!(wiki.request_headers, requests);
    let responses = ResponseHeaders {
        set_filled: filled("X-Id", "{request_id}"),
        add_filled: filled("Link", "<{scheme}://{host}/>"),
        ..ResponseHeaders::default()
    };
    assert_eq!(wiki.response_headers, responses);
}

#[test]
fn sites_and_routes_reach_their_meaning() {
    let config = good(EVERYTHING);
    let site = &config.sites[0];
    let hosts = [HostPattern::Exact("example.com".into()), HostPattern::Suffix(".example.com".into())];
    assert_eq!(site.hosts, hosts);
    assert_eq!(site.error_pages, [(404, "/404.html".into()), (500, "/500.html".into())]);
    let files = site.files.as_ref().unwrap();
    assert_eq!(files.root, Path::new("/etc/maitred/www"));
    assert_eq!(files.precompressed, [Coding::Zstd, Coding::Brotli, Coding::Gzip]);
    let tries = [
        TryItem::Around("".into(), "".into()),
        TryItem::Around("".into(), ".html".into()),
        TryItem::Around("/x".into(), "".into()),
        TryItem::Fixed("/index.html".into()),
        TryItem::Status(410),
    ];
    assert_eq!(files.try_files, tries);
    let headers = HeaderRules { set: vec![("X-A".into(), "1".into())], remove: vec!["etag".into()] };
    assert_eq!(files.headers, headers);

    let [first, redirect, respond, pool, moved, images, wiki, last] = site.routes.as_slice() else {
        panic!("{:?}", site.routes)
    };
    conditions_and_rewrites(pool, moved, images);
    values_with_placeholders(wiki);
    let Target::Files(inherited) = &first.target else { panic!("{first:?}") };
    assert_eq!(
        (inherited.strip_prefix.as_str(), inherited.listing, inherited.hidden),
        ("/static/", false, true)
    );
    assert_eq!(inherited.index, ["a.html", "b.html"]);
    assert_eq!(inherited.root, Path::new("/srv/static"));
    assert_eq!(first.methods, ["GET"]);
    let to = Template::parse("https://example.com{uri}", None).unwrap();
    assert_eq!(redirect.target, Target::Redirect { to, status: 301 });
    let Target::Respond { status: 410, body, content_type } = &respond.target else { panic!("{respond:?}") };
    assert_eq!((body.as_str(), content_type.as_str()), ("gone", "text/html"));
    assert_eq!(pool.target, Target::Pool(0));
    assert_eq!(
        (last.patterns.as_slice(), &last.target),
        ([PathPattern::All].as_slice(), &Target::Files(files.clone()))
    );

    let pool = &config.pools[0];
    assert_eq!((pool.name.as_str(), pool.workers, pool.queue_max), ("web", Settings::fixed(5), 7));
    assert_eq!(pool.env, [("A".into(), "1".into()), ("B".into(), "2".into())]);
    assert_eq!(pool.env_inherit, ["DATABASE_URL", "AWS_*"]);
    assert_eq!(pool.cwd, Path::new("/etc/maitred/app"));
    assert_eq!(pool.user.as_ref().map(|user| user.uid), Some(1001));
    assert_eq!(
        (pool.queue_timeout, pool.start_timeout, pool.exit_grace),
        (Duration::from_millis(250), Duration::from_secs(3600), Duration::from_secs(7))
    );
    let canary = canary::Rules {
        time: Duration::from_secs(120),
        timeout: Duration::from_secs(1200),
        requests: 500,
        errors: 1,
        latency: 150,
    };
    assert_eq!(pool.canary, canary);
    assert_eq!((pool.transport, pool.mount.as_str()), (Transport::Direct, "/app"));
    assert!(!pool.isolate);
    let timeouts = (pool.request_timeout, pool.request_total_timeout);
    assert_eq!(timeouts, (Duration::from_secs(120), Some(Duration::from_secs(180))));
    assert_eq!(pool.upgrade, ["websocket", "irc/6.9"]);
    let headers = &pool.request_headers;
    assert_eq!((headers.keep.as_slice(), headers.underscores), (["api_key".to_owned()].as_slice(), true));
    assert_eq!(pool.named_files, [("/protected/".into(), "/srv/static".into())]);
    assert_eq!((pool.early_hints, pool.sendfile_root.as_deref()), (EarlyHints::Always, Some("/srv/static")));
    assert_eq!((pool.as_sent, pool.encoded_slashes), (true, Some(EncodedSlashes::Keep)));
    let apart = &config.pools[1];
    assert_eq!((apart.request_timeout, apart.request_total_timeout), (Duration::from_secs(60), None));
    assert_eq!((apart.early_hints, &apart.sendfile_root), (EarlyHints::Http2, &None));
    assert_eq!((&pool.sticky, &apart.sticky), (&Some(Sticky::Cookie("at".into())), &None));
    assert_eq!((apart.isolate, apart.transport), (true, Transport::Relay));
    assert_eq!((pool.response_head_bytes_max, pool.response_fields_max), (128 << 10, 200));
    assert_eq!((pool.health_interval, pool.open_files), (Duration::from_secs(3), Some(2000)));
    let workers = Settings {
        start: 1,
        min_spare: 2,
        max_spare: 3,
        max: 9,
        spawn_max: 4,
        retire_after: Duration::from_secs(5),
        max_requests: Some(6),
        max_age: Some(Duration::from_secs(420)),
        max_memory: Some(80 << 20),
        retired_max: Some(2),
    };
    assert_eq!(apart.workers, workers);
    let address: SocketAddr = "127.0.0.1:9000".parse().unwrap();
    let sources: Vec<Source> = config.pools[1..].iter().map(|pool| pool.source.clone()).collect();
    let upstreams = vec![
        Upstream::Tcp { name: "127.0.0.1:9000".into(), address },
        Upstream::Unix("/run/old.sock".into()),
    ];
    let tls = UpstreamTls {
        ca: Some("/etc/maitred/ca.pem".into()),
        server_name: Some("inner.example".into()),
        verify: false,
        pins: vec![std::array::from_fn(|at| at as u8)],
        identity: Some(("/etc/maitred/cert.pem".into(), "/etc/maitred/key.pem".into())),
        http2: true,
    };
    assert_eq!(config.pools.iter().filter_map(|pool| pool.tls.as_ref()).collect::<Vec<_>>(), [&tls]);
    let external = External {
        host: HostRule::Named("app.internal:8080".into()),
        map_redirects: MapRedirects::Paths,
        redirects: vec![("http://inner:8080/".into(), "/".into())],
        cookie_domains: vec![("app.internal".into(), String::new())],
        cookie_paths: vec![("/".into(), "/app/".into())],
        retry: Retry {
            unreachable: false,
            broken: false,
            timeout: true,
            statuses: vec![429, 503],
            methods: vec!["GET".into(), "PUT".into()],
            attempts: 3,
            budget_percent: 30,
            per_try_timeout: Some(Duration::from_secs(4)),
        },
        proxy_protocol: Some(ProxyProtocol::V1),
    };
    let given: Vec<_> = config
        .pools
        .iter()
        .map(|pool| &pool.external)
        .filter(|given| **given != External::default())
        .collect();
    assert_eq!(given, [&external]);
    let auth =
        vec![Upstream::Tcp { name: "127.0.0.1:9443".into(), address: "127.0.0.1:9443".parse().unwrap() }];
    assert_eq!(config.pools.last().map(|pool| pool.name.as_str()), Some("auth-127-0-0-1-9443"));
    let secure = vec![
        Upstream::Tcp { name: "127.0.0.1".into(), address: "127.0.0.1:443".parse().unwrap() },
        Upstream::Tcp { name: "[::1]:8443".into(), address: "[::1]:8443".parse().unwrap() },
    ];
    assert_eq!(secure.iter().map(Upstream::host).collect::<Vec<_>>(), ["127.0.0.1", "::1"]);
    assert_eq!(
        sources,
        [
            Source::Command(vec!["app".into()]),
            Source::Http(upstreams),
            Source::Channel("/run/apache.sock".into()),
            Source::FastCgi(FastCgi {
                servers: vec![Upstream::Unix("/run/php.sock".into())],
                root: Some("/srv/www".into()),
                script_root: Some("/app".into()),
                index: "app.php".into(),
                php: true,
                script_filename: None,
                params: vec![
                    ("APP_MODE".into(), Template::parse_value("a {user}").unwrap()),
                    ("SECRET".into(), Template::plain("{x}")),
                ],
                uri_as_sent: true,
            }),
            Source::FastCgi(FastCgi {
                servers: vec![Upstream::Unix("/run/fcgiwrap.sock".into())],
                root: None,
                script_root: None,
                index: "index.php".into(),
                php: false,
                script_filename: Some("/usr/lib/git-core/git-http-backend".into()),
                params: Vec::new(),
                uri_as_sent: false,
            }),
            Source::Http(secure),
            Source::Listen {
                sharing: Sharing {
                    buckets: Buckets::Number(2),
                    affinity: true,
                    stop_signal: StopSignal::Quit,
                    start_grace: Duration::from_secs(3),
                },
                command: vec!["gunicorn".into()],
                addresses: vec!["0.0.0.0:8000".parse().unwrap()],
            },
            Source::Http(auth),
        ]
    );
}

#[test]
fn defaults_are_those_that_are_declared() {
    let config = good(&format!("{COMPLETE}[pool.web]\ncommand = [\"x\"]\n"));
    assert_eq!(config.server.threads, None);
    assert_eq!(config.server.affinity, Affinity::Auto);
    assert_eq!(config.server.grace, Duration::from_secs(30));
    assert_eq!((config.server.grace_streams, config.server.old_workers_max), (None, 8));
    assert!(config.server.path_parameters);
    assert_eq!(config.server.encoded_slashes, EncodedSlashes::Decode);
    assert!(config.server.server_header && config.server.seccomp);
    assert_eq!(config.listens[0].backlog, 4096);
    assert_eq!(config.limits.connections_per_thread_max, 8192);
    let loopback = [("127.0.0.0".parse().unwrap(), 8), ("::1".parse().unwrap(), 128)];
    assert_eq!(config.limits.connections_per_address_exempt, loopback);
    let trusted = good(&format!("{COMPLETE}[server]\ntrusted_proxies = [\"10.0.0.0/8\"]\n"));
    assert_eq!(trusted.limits.connections_per_address_exempt.len(), 3);
    let nobody = good(&format!("{COMPLETE}[limits]\nconnections_per_address_exempt = []\n"));
    assert_eq!(nobody.limits.connections_per_address_exempt, []);
    assert_eq!(config.limits.keep_alive_timeout, Duration::from_secs(75));
    assert_eq!(config.limits.file_cache_bytes_max, 32 << 20);
    let files = config.sites[0].files.as_ref().unwrap();
    assert_eq!(files.index, ["index.html"]);
    assert!(!files.listing && !files.hidden && !files.symlinks_may_leave && files.precompressed.is_empty());
    assert_eq!((config.pools[0].workers, config.pools[0].queue_max), (Settings::default(), 1024));
    assert_eq!(config.pools[0].cwd, Path::new("/etc/maitred"));
    assert_eq!((config.pools[0].transport, config.pools[0].isolate), (Transport::Auto, false));
    assert_eq!(config.pools[0].upgrade, ["websocket"]);
    assert!(config.pools[0].request_headers.keep.is_empty() && !config.pools[0].request_headers.underscores);
    assert_eq!(config.server.spool, Path::new("/var/tmp"));
    assert_eq!(config.listens[0].proxy_protocol_from, None);
    assert_eq!(config.log.access, AccessFormat::Combined);
}

#[test]
fn pools_keep_the_order_of_the_file() {
    let config = good(&format!("{COMPLETE}[pool.z]\ncommand = [\"x\"]\n[pool.a]\ncommand = [\"x\"]\n"));
    assert_eq!(config.pools.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>(), ["z", "a"]);
}

/// (title, key) of every key of a table and of those in it.
fn declared(table: &'static Table, all: &mut BTreeSet<(&'static str, &'static str)>) {
    for key in table.keys {
        all.insert((table.title, key.name));
        if let Some(inner) = key.kind.table() {
            declared(inner, all);
        }
    }
}

#[test]
fn every_declared_key_is_read_and_set_in_the_test_above() {
    let machine = Machine { root: true, packaged: true };
    let cx = Context::new(&machine);
    drop(open_all(&cx, EVERYTHING, &origin(), build::config));
    let mut all = BTreeSet::new();
    declared(&ROOT, &mut all);
    assert_eq!(cx.asked.take(), all);
    for (title, key) in all {
        let set = |line: &str| line.contains(&format!("{key} = ")) || line.contains(&format!("{key}]"));
        assert!(
            EVERYTHING.lines().any(|line| set(line) || line.contains(&format!("[{key}."))),
            "{title} {key}"
        );
    }
}

#[test]
fn every_example_of_the_reference_is_a_good_part_of_a_file() {
    let mut tables = vec![&ROOT];
    while let Some(table) = tables.pop() {
        for key in table.keys {
            if let Kind::Section(inner)
            | Kind::Sections(inner)
            | Kind::Named(inner)
            | Kind::FlagOrSection(inner)
            | Kind::FlagOrWordOrSection { table: inner, .. }
            | Kind::TextsOrSections(_, inner)
            | Kind::WholeOrSection { table: inner, .. } = key.kind
            {
                tables.push(inner);
            }
        }
        let mut text = table.example.to_owned();
        if !text.contains("[[site]]") && text.contains("[[site.route]]") {
            text = format!("[[site]]\nroot = \"a\"\n{text}");
        }
        for (part, line) in
            [("[[site", "site = [{ root = \"a\" }]\n"), ("[[listen", "listen = [{ address = \":1\" }]\n")]
        {
            if !text.contains(part) {
                text = format!("{line}{text}");
            }
        }
        if text.contains("pool = \"web\"") {
            text.push_str("[pool.web]\ncommand = [\"x\"]\n");
        }
        good(&text);
    }
}

#[test]
fn a_spoilt_file_still_tells_its_admin_address() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("maitred.toml");
    std::fs::write(&file, "[server]\nadmin = \"unix:a.sock\"\nthreads = oops\n[[site]\n").unwrap();
    assert!(load(&file).is_err());
    assert_eq!(admin_address(&file).unwrap().0, Some(AdminAddress::Unix(dir.path().join("a.sock"))));
    std::fs::write(&file, "").unwrap();
    assert_eq!(admin_address(&file).unwrap(), (None, None));
    assert!(matches!(admin_address(&dir.path().join("none.toml")), Err(Failure::Unreadable { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x6d61_6974_7265_6421),
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_bytes_are_read_without_a_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzzing::read(&data);
    }

    /// A good file with a piece cut out, or put in twice, or replaced by something else.
    #[test]
    fn any_damage_is_reported_at_a_place_in_the_file(
        at in 0..EVERYTHING.len(),
        length in 0usize..40,
        put in "[ -~\\n\\té]{0,12}",
    ) {
        let start = EVERYTHING.floor_char_boundary(at);
        let end = EVERYTHING.floor_char_boundary((at + length).min(EVERYTHING.len()));
        let text = format!("{}{put}{}", &EVERYTHING[..start], &EVERYTHING[end..]);
        fuzzing::read(text.as_bytes());
    }
}

#[test]
fn the_example_site_is_good() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/site/maitred.toml");
    let loaded = load(&file).unwrap();
    assert_eq!((loaded.config.sites.len(), loaded.config.pools.len()), (1, 1));
    // The example runs on any machine, and says so to root.
    let warned = usize::from(System.is_root());
    assert_eq!(loaded.warnings.len(), warned, "{:?}", loaded.warnings);
}
