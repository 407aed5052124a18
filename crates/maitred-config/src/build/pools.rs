//! `[pool.NAME]`

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use super::super::access::{Access, Authentication};
use super::super::balancing::ServerSettings;
use super::super::discovery::{Discovery, Name};
use super::super::finding::{At, Span};
use super::super::listen::{Address, Buckets, Listen};
use super::super::meaning::{
    EarlyHints, Files, Pool, RequestHeaders, Route, Sharing, Site, Source, Sticky, StopSignal, Target,
    Transport, TryItem, Upstream,
};
use super::super::mirror::MirrorChoice;
use super::super::overrides::Overrides;
use super::super::reader::{Section, WordOrNumber, shorten};
use super::super::upstream_tls::UpstreamTls;
use super::super::values;
use super::environment::env_inherit;
use super::{balancing, discovery, external, fastcgi, health, upstream_tls};
use maitred_base::bounds::{POOLS_MAX, SLOTS_MAX};
use maitred_base::pool::canary;
use maitred_base::pool::settings::Settings;

pub(super) fn pool(name: &At<String>, section: &Section<'_>) -> Pool {
    check_name(name, section);
    let queue = section.section("queue");
    let cwd =
        super::directory(section, "cwd").map_or_else(|| section.cx.base(&section.span), |cwd| cwd.value);
    let isolate = section.flag("isolate");
    let (source, discovery, connect, servers) = answers(section, &cwd);
    let workers = if source.servers().is_some() { no_workers(section) } else { workers(section) };
    if let Source::Listen { .. } = source {
        has_no_effect(section, &workers);
    }
    let tls = upstream_tls::of(section, is_secure(&connect));
    let (http2, fastcgi) = (speaks_http2(&connect, tls.as_ref()), source.fastcgi().is_some());
    let external = external::of(section, &source, http2);
    let mut balancing = balancing::of(section, &source, servers, discovery.file.is_some());
    let mut sticky = sticky(section, &name.value);
    if source.servers().is_some() {
        balancing.sticky = balancing::cookie(section, sticky.take());
    }
    let health = health::of(section, &source, http2);
    Pool {
        name: name.value.clone(),
        workers,
        source,
        cwd,
        env: env(section),
        env_inherit: env_inherit(section),
        user: super::user(section),
        queue_max: queue.number("max").value,
        queue_timeout: queue.time("timeout"),
        request_timeout: section.time("request_timeout"),
        request_total_timeout: super::given_time(section, "request_total_timeout"),
        connect_timeout: section.time("connect_timeout"),
        response_head_bytes_max: section.number("response_head_bytes_max").value,
        response_fields_max: section.number("response_fields_max").value,
        start_timeout: section.time("start_timeout"),
        exit_grace: section.time("exit_grace"),
        canary: canary(section),
        health_interval: section.time("health_interval"),
        open_files: open_files(section),
        transport: transport(section, isolate),
        isolate,
        mount: mount(section),
        upgrade: upgrade(section, !http2 && !fastcgi),
        request_headers: request_headers(section),
        as_sent: section.choice("target") == Some("as_sent"),
        encoded_slashes: super::server::encoded_slashes(section),
        early_hints: early_hints(section),
        tls,
        http2,
        external,
        discovery,
        sendfile_root: sendfile_root(section),
        named_files: named_files(section),
        sticky,
        health,
        balancing,
    }
}

fn canary(section: &Section<'_>) -> canary::Rules {
    let table = section.section("canary");
    let (time, timeout) = (table.time("time"), table.time("timeout"));
    if let Some(span) = table.given("timeout").or_else(|| table.given("time")).filter(|_| timeout < time) {
        section.cx.error(&span, "`timeout` of `canary` is shorter than its `time`");
    }
    canary::Rules {
        time,
        timeout,
        requests: table.number("requests").value,
        errors: table.number("errors").value,
        latency: table.number("latency").value,
    }
}

fn early_hints(section: &Section<'_>) -> EarlyHints {
    match section.choice("early_hints") {
        Some("always") => EarlyHints::Always,
        Some("never") => EarlyHints::Never,
        _ => EarlyHints::Http2,
    }
}

/// What answers requests: what is found at once and later, the entries of `connect`, and what those with an address say of their
/// servers.
fn answers(section: &Section<'_>, cwd: &Path) -> (Source, Discovery, Vec<At<String>>, Vec<ServerSettings>) {
    let (connect, servers): (Vec<At<String>>, Vec<_>) = balancing::connect(section).into_iter().unzip();
    let (source, names) = source(section, cwd, &connect);
    // What a name leads to has the weights of its records.
    let is_name = |index: &usize| names.iter().any(|(at, _)| at == index);
    let without_effect =
        |(index, said): &(usize, &ServerSettings)| is_name(index) && **said != ServerSettings::default();
    for (index, _) in servers.iter().enumerate().filter(without_effect) {
        if let Some(text) = connect.get(index) {
            let message = format!("what is said of {} has no effect", shorten(&text.value));
            let hint = "`weight`, `backup` and `max_connections` are for addresses; records of services (SRV) have weights and priorities";
            section.cx.warn(&text.span, message, hint);
        }
    }
    let servers =
        servers.into_iter().enumerate().filter(|(index, _)| !is_name(index)).map(|(_, one)| one).collect();
    let names = names.into_iter().map(|(_, name)| name).collect();
    if source.servers().is_none()
        && let Some(span) = section.given("connect_timeout")
    {
        let why = "it is for a pool with `connect` to HTTP or FastCGI servers";
        section.cx.warn(&span, "`connect_timeout` has no effect".to_owned(), why);
    }
    let discovery = discovery::of(section, names, source.servers().is_some());
    (source, discovery, connect, servers)
}

/// `sendfile_root`. The path goes to processes as text, and starts at the root of the file system: each pool has a `cwd` of its
/// own.
fn sendfile_root(section: &Section<'_>) -> Option<String> {
    let text = section.text("sendfile_root")?;
    if !text.value.starts_with('/') {
        let message = format!("`sendfile_root`: \"{}\" is not an absolute path", shorten(&text.value));
        section.cx.error_with(&text.span, message, "it starts with `/`");
        return None;
    }
    let most = Pool::SENDFILE_ROOT_BYTES_MAX;
    if text.value.len() > most || text.value.contains(char::is_control) {
        let message = format!("`sendfile_root`: it takes up to {most} bytes, without control characters");
        section.cx.error(&text.span, message);
        return None;
    }
    super::directory(section, "sendfile_root").map(|_| text.value)
}

/// `named_files`
fn named_files(section: &Section<'_>) -> Vec<(String, PathBuf)> {
    let mut named: Vec<(String, PathBuf)> = Vec::new();
    for (prefix, root) in section.map("named_files") {
        let text = &prefix.value;
        if !text.starts_with('/') || !text.ends_with('/') || text.contains("//") || text.contains("/../") {
            let message = format!("`named_files`: \"{}\" is not the beginning of a path", shorten(text));
            section.cx.error_with(&prefix.span, message, "it begins and ends with `/`, as \"/protected/\"");
        }
        if let Some(root) = super::common::directory_at(section, "named_files", &root) {
            named.push((prefix.value, root));
        }
    }
    named
}

/// `sticky`. The pool's name makes a cookie's, so that two pools of a site do not share one.
fn sticky(section: &Section<'_>, pool: &str) -> Option<Sticky> {
    let span = section.given("sticky")?;
    if !section.is_table("sticky") {
        return Some(match section.choice("sticky")? {
            "address" => Sticky::Address,
            _ => Sticky::Cookie(format!("maitred-{pool}")),
        });
    }
    let name = section.section("sticky").text("cookie")?;
    if is_token(&name.value) {
        return Some(Sticky::Cookie(name.value));
    }
    let message = format!("`cookie`: \"{}\" cannot be the name of a cookie", shorten(&name.value));
    section.cx.error_with(&span, message, "it takes letters, digits, `-`, `_` and `.`");
    None
}

/// The pools that routes can lead to.
pub(super) struct Known<'a> {
    pub(super) pools: &'a [Pool],
    /// Where each has its `listen`, or is named if it has none.
    pub(super) listens: Vec<Span>,
}

impl<'a> Known<'a> {
    pub(super) fn new(named: &[(At<String>, Section<'_>)], pools: &'a [Pool]) -> Known<'a> {
        let place = |(name, section): &(At<String>, Section<'_>)| {
            section.given("listen").unwrap_or_else(|| name.span.clone())
        };
        Known { pools, listens: named.iter().map(place).collect() }
    }
}

fn check_name(name: &At<String>, section: &Section<'_>) {
    if !Pool::is_name(&name.value) {
        let message = format!("\"{}\" cannot be the name of a pool", shorten(&name.value));
        section.cx.error_with(&name.span, message, "it takes 1 to 64 letters, digits, `-` and `_`");
    }
}

/// What answers requests: exactly one of `command`, `command` with `listen`, and `connect`.
fn source(section: &Section<'_>, cwd: &Path, connect: &[At<String>]) -> (Source, Vec<(usize, Name)>) {
    let (command, listen) = (command(section, cwd), section.texts("listen"));
    for key in ["connect", "listen"] {
        if let Some(span) = section.empty_array(key) {
            section.cx.error_with(&span, format!("`{key}` is empty"), "leave it out, or name an address");
        }
    }
    if let (Some(command), Some(connect)) = (section.given("command"), section.given("connect")) {
        let message = "`connect` is for an external server";
        section.cx.conflict(&connect, message, "`command` is set here", &command);
    }
    if let (Some(listen), None) = (section.given("listen"), section.given("command")) {
        section.cx.error_with(&listen, "`listen` needs a `command`", "its processes accept on these sockets");
    }
    if section.given("command").is_none() && section.given("connect").is_none() {
        if section.given("endpoints").is_some() {
            return (Source::Http(Vec::new()), Vec::new());
        }
        section.cx.missing(
            &section.span,
            format!("{} has no `command`", section.label),
            "`command` takes an array: program and arguments; or set `connect`",
        );
    }
    if !connect.is_empty() {
        return connected(section, connect);
    }
    fastcgi::only_here(section);
    let address = |text: &At<String>| {
        let what = format!("`listen`: \"{}\" is not an address to listen on", shorten(&text.value));
        let address = match text.value.starts_with(Address::UNIX) {
            // How many connections wait is known of TCP only, and the number of processes follows that.
            true => Err("a pool takes an IP address and a port, such as \"127.0.0.1:8000\"".to_owned()),
            false => values::listen_address(&text.value),
        };
        section.cx.accept(&text.span, &what, address)
    };
    let addresses: Vec<SocketAddr> = listen.iter().filter_map(address).collect();
    let sharing = sharing(section);
    if listen.is_empty() {
        only_with_listen(section);
        return (Source::Command(command), Vec::new());
    }
    (Source::Listen { command, addresses, sharing }, Vec::new())
}

fn sharing(section: &Section<'_>) -> Sharing {
    Sharing {
        buckets: buckets(section),
        affinity: section.flag("affinity"),
        stop_signal: match section.choice("stop_signal") {
            Some("QUIT") => StopSignal::Quit,
            Some("INT") => StopSignal::Int,
            Some("HUP") => StopSignal::Hup,
            Some("USR1") => StopSignal::Usr1,
            Some("USR2") => StopSignal::Usr2,
            Some("WINCH") => StopSignal::Winch,
            _ => StopSignal::Term,
        },
        start_grace: section.time("start_grace"),
    }
}

/// `buckets`, of a pool and of `[[listen]]`.
pub(super) fn buckets(section: &Section<'_>) -> Buckets {
    match section.word_or_number("buckets") {
        Some(WordOrNumber::Number(number)) => Buckets::Number(u16::try_from(number).unwrap_or(Buckets::MAX)),
        Some(WordOrNumber::Word("per-thread")) => Buckets::PerThread,
        _ => Buckets::Auto,
    }
}

fn only_with_listen(section: &Section<'_>) {
    for key in ["buckets", "affinity", "stop_signal", "start_grace"] {
        if let Some(span) = section.given(key) {
            let message = format!("`{key}` has no effect");
            section.cx.warn(&span, message, "it is for a pool with `listen`");
        }
    }
}

/// What Maitred cannot do for processes that get no request from it.
fn has_no_effect(section: &Section<'_>, workers: &Settings) {
    let keys = [
        "queue",
        "transport",
        "isolate",
        "mount",
        "health_interval",
        "start_timeout",
        "exit_grace",
        "canary",
        "upgrade",
        "request_headers",
        "trusted_fields",
        "request_total_timeout",
        "target",
        "encoded_slashes",
        "early_hints",
        "sendfile_root",
        "sticky",
    ];
    let given = keys.iter().filter_map(|key| Some((*key, section.given(key)?)));
    let requests = section.given("workers").filter(|_| workers.max_requests.is_some());
    for (key, span) in given.chain(requests.map(|span| ("max_requests", span))) {
        let why = "the processes of a pool with `listen` get no requests from Maitred";
        section.cx.warn(&span, format!("`{key}` has no effect"), why);
    }
}

/// Whether the servers of `connect` are spoken to over TLS.
fn is_secure(connect: &[At<String>]) -> bool {
    connect.iter().any(|text| text.value.starts_with("https://") || text.value.starts_with("https+srv://"))
}

/// Whether the servers of `connect` are spoken to by HTTP/2, in clear text or by ALPN.
fn speaks_http2(connect: &[At<String>], tls: Option<&UpstreamTls>) -> bool {
    let clear = connect.iter().any(|text| text.value.starts_with("h2:") || text.value.starts_with("h2+"));
    clear || tls.is_some_and(|tls| tls.http2)
}

/// What an address of `connect` speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Http,
    Https,
    Http2,
    FastCgi,
}

/// `connect`: one socket of the handoff protocol, or servers of one kind.
fn connected(section: &Section<'_>, texts: &[At<String>]) -> (Source, Vec<(usize, Name)>) {
    let (mut servers, mut names) = (Vec::new(), Vec::new());
    let mut dialect = None;
    for (index, text) in texts.iter().enumerate() {
        if let Some(path) = text.value.strip_prefix("unix:") {
            if texts.len() > 1 {
                section.cx.error(&text.span, "`connect`: a socket of the handoff protocol stands alone");
            }
            fastcgi::only_here(section);
            return (Source::Channel(section.cx.base(&section.span).join(path)), names);
        }
        match upstream(section, &text.value) {
            Ok((spoken, _)) if dialect.is_some_and(|dialect| dialect != spoken) => {
                let message = "`connect` names servers of different kinds in one list";
                section.cx.error_with(&text.span, message, "give each kind a pool of its own");
            }
            Ok((spoken, target)) => {
                dialect = Some(spoken);
                match target {
                    Named::Server(server) => servers.push(server),
                    Named::Name(name) => names.push((index, name)),
                }
            }
            Err(why) => section.cx.error_with(
                &text.span,
                format!("`connect`: \"{}\": {why}", shorten(&text.value)),
                "it takes \"unix:/path\", \"http://host:port\", \"https://host:port\", \"h2://host:port\", \"http+unix:/path\", \
                 \"fastcgi://host:port\" or \"fastcgi+unix:/path\"",
            ),
        }
    }
    let source = match dialect {
        Some(Dialect::FastCgi) => fastcgi::source(section, servers),
        Some(Dialect::Http | Dialect::Https | Dialect::Http2) => {
            fastcgi::only_here(section);
            Source::Http(servers)
        }
        // A list of which nothing could be read is an error already; nothing is said of keys that may be right.
        None => Source::Http(servers),
    };
    (source, names)
}

/// What an entry of `connect` names.
enum Named {
    Server(Upstream),
    Name(Name),
}

fn upstream(section: &Section<'_>, text: &str) -> Result<(Dialect, Named), String> {
    const SOCKETS: [(&str, Dialect); 3] =
        [("http+unix:", Dialect::Http), ("h2+unix:", Dialect::Http2), ("fastcgi+unix:", Dialect::FastCgi)];
    for (prefix, dialect) in SOCKETS {
        if let Some(path) = text.strip_prefix(prefix) {
            let path = Path::new(path);
            if path.as_os_str().is_empty() {
                return Err("there is no path in it".into());
            }
            return Ok((dialect, Named::Server(Upstream::Unix(section.cx.base(&section.span).join(path)))));
        }
    }
    const SERVICES: [(&str, Dialect); 4] = [
        ("http+srv://", Dialect::Http),
        ("h2+srv://", Dialect::Http2),
        ("https+srv://", Dialect::Https),
        ("fastcgi+srv://", Dialect::FastCgi),
    ];
    for (prefix, dialect) in SERVICES {
        if let Some(service) = text.strip_prefix(prefix) {
            return Ok((dialect, Named::Name(discovery::service(service)?)));
        }
    }
    const SCHEMES: [(&str, Dialect); 4] = [
        ("http://", Dialect::Http),
        ("https://", Dialect::Https),
        ("h2://", Dialect::Http2),
        ("fastcgi://", Dialect::FastCgi),
    ];
    let found = SCHEMES.iter().find_map(|(prefix, dialect)| Some((*dialect, text.strip_prefix(prefix)?)));
    let (dialect, name) = found.ok_or("this is no address of a server")?;
    let name = name.strip_suffix('/').unwrap_or(name);
    if name.is_empty() || name.contains(['/', '?', '#', '@']) {
        return Err("there is more in it than host and port".into());
    }
    let with_port = match name.rsplit(']').next().is_some_and(|end| end.contains(':')) {
        true => name.to_owned(),
        false if dialect == Dialect::FastCgi => return Err("it has no port (php-fpm has 9000)".into()),
        false if dialect == Dialect::Https => format!("{name}:443"),
        false => format!("{name}:80"),
    };
    if let Some(name) = discovery::name(section, name, &with_port) {
        return Ok((dialect, Named::Name(name)));
    }
    let found =
        with_port.to_socket_addrs().map_err(|error| format!("its address cannot be found: {error}"))?;
    let address = found.into_iter().next().ok_or("it has no address")?;
    Ok((dialect, Named::Server(Upstream::Tcp { name: name.to_owned(), address })))
}

/// No error: it may be installed by the time it is started, and a pool that cannot start harms nothing else.
fn warn_of_missing_program(section: &Section<'_>, program: &At<String>, cwd: &Path) {
    if !program.value.is_empty() && !section.cx.lookup.program(&program.value, cwd) {
        let hint = match program.value.contains('/') {
            true => format!("a relative path starts at {}", cwd.display()),
            false => "it is looked for in the directories of PATH, as Maitred has it".to_owned(),
        };
        section.cx.warn(
            &program.span,
            format!("`command`: there is no program {}", shorten(&program.value)),
            hint,
        );
    }
}

fn command(section: &Section<'_>, cwd: &Path) -> Vec<String> {
    let words = section.texts("command");
    if let Some(program) = words.first() {
        warn_of_missing_program(section, program, cwd);
    }
    if let Some(span) = section.empty_array("command") {
        section.cx.error_with(&span, "`command` is empty", "its first item is the program to start");
    }
    if let Some(program) = words.first().filter(|program| program.value.is_empty()) {
        section.cx.error(&program.span, "`command`: the name of the program is empty");
    }
    for word in words.iter().filter(|word| word.value.contains('\0')) {
        section.cx.error(&word.span, "`command`: an argument cannot hold a NUL character");
    }
    words.into_iter().map(|word| word.value).collect()
}

fn workers(section: &Section<'_>) -> Settings {
    if section.given("workers").is_some() && !section.is_table("workers") {
        let fixed: At<u16> = section.number("workers");
        return Settings::fixed(fixed.value.max(1));
    }
    let table = section.section("workers");
    let max: At<u16> = table.number("max");
    // A default gives way to a smaller `max`; what was written has to fit.
    let up_to_max = |name: &str| {
        let number: At<u16> = table.number(name);
        match table.given(name) {
            None => number.value.min(max.value),
            Some(span) => {
                if number.value > max.value {
                    exceeds(&table, name, number.value, &span, "max", &max);
                }
                number.value
            }
        }
    };
    let given = |name: &str| {
        let number: At<u64> = table.number(name);
        table.given(name).map(|_| number.value)
    };
    let age = table.time("max_age");
    let (start, min_spare, max_spare) =
        (up_to_max("start"), up_to_max("min_spare"), table.number("max_spare"));
    if let Some(span) = table.given("min_spare").filter(|_| min_spare > max_spare.value) {
        exceeds(&table, "min_spare", min_spare, &span, "max_spare", &max_spare);
    }
    Settings {
        start,
        min_spare,
        max_spare: max_spare.value,
        max: max.value,
        spawn_max: table.number("spawn_max").value,
        retire_after: table.time("retire_after"),
        max_requests: given("max_requests"),
        max_age: table.given("max_age").map(|_| age),
        max_memory: given("max_memory"),
        retired_max: given("retired_max").and_then(|most| u16::try_from(most).ok()),
    }
}

/// External servers have no processes of ours.
fn no_workers(section: &Section<'_>) -> Settings {
    if let (Some(span), Some(connect)) = (section.given("workers"), section.given("connect")) {
        let message = "`workers` is for application processes";
        section.cx.conflict(&span, message, "external servers are named here", &connect);
    }
    for key in [
        "transport",
        "isolate",
        "health_interval",
        "start_timeout",
        "exit_grace",
        "canary",
        "cwd",
        "env",
        "env_inherit",
        "open_files",
        "sendfile_root",
    ] {
        if let Some(span) = section.given(key) {
            let why = match key {
                "sendfile_root" => "such a server sends its files by itself",
                _ => "it is for application processes: a pool with `command`, or `connect = \"unix:…\"`",
            };
            section.cx.warn(&span, format!("`{key}` has no effect"), why);
        }
    }
    Settings::fixed(0)
}

fn open_files(section: &Section<'_>) -> Option<u64> {
    let number: At<u64> = section.number("open_files");
    section.given("open_files").map(|_| number.value)
}

/// An error for a number of `workers` that is above another that bounds it.
fn exceeds(table: &Section<'_>, name: &str, value: u16, span: &Span, bound: &str, at: &At<u16>) {
    let message = format!("`{name}` = {value} is more than `{bound}` = {}", at.value);
    match table.given(bound) {
        Some(other) => table.cx.conflict(span, message, &format!("`{bound}` is set here"), &other),
        None => table.cx.error_with(span, message, format!("`{bound}` is {} when it is not given", at.value)),
    }
}

fn env(section: &Section<'_>) -> Vec<(String, String)> {
    let mut env = Vec::new();
    for (name, value) in section.map("env") {
        if name.value.is_empty() || name.value.contains(['=', '\0']) {
            section.cx.error(&name.span, format!("`env`: \"{}\" cannot be a name", shorten(&name.value)));
        }
        if value.value.contains('\0') {
            section.cx.error(&value.span, "`env`: a value cannot hold a NUL character");
        }
        env.push((name.value, value.value));
    }
    env.sort();
    env
}

/// An isolated pool is relayed, whatever `transport` would choose; a `transport` that says otherwise is an error.
fn transport(section: &Section<'_>, isolate: bool) -> Transport {
    match section.choice("transport") {
        Some("direct") if isolate => {
            if let (Some(span), Some(other)) = (section.given("transport"), section.given("isolate")) {
                let message =
                    "`transport = \"direct\"` gives clients' sockets to the processes of an isolated pool";
                section.cx.conflict(&span, message, "`isolate` is set here", &other);
            }
            Transport::Relay
        }
        _ if isolate => Transport::Relay,
        Some("direct") => Transport::Direct,
        Some("relay") => Transport::Relay,
        _ => Transport::Auto,
    }
}

fn mount(section: &Section<'_>) -> String {
    let Some(text) = section.text("mount") else { return String::new() };
    let path = text.value.as_str();
    if path == "/" {
        section.cx.error_with(&text.span, "`mount` does not end with `/`", "leave it out for the root");
    } else if !path.is_empty()
        && (!path.starts_with('/') || path.ends_with('/') || path.contains(['*', '?', '#']))
    {
        section.cx.error_with(
            &text.span,
            format!("`mount`: \"{}\" is not a path to mount at", shorten(path)),
            "it starts with `/` and does not end with it: \"/app\"",
        );
    } else if path.len() > Pool::MOUNT_BYTES_MAX || path.contains(char::is_control) {
        let most = Pool::MOUNT_BYTES_MAX;
        section
            .cx
            .error(&text.span, format!("`mount`: it takes up to {most} bytes, without control characters"));
    }
    text.value
}

/// A token (9110-5.6.2) other than one with `*`, which would be taken for a pattern.
fn is_token(text: &str) -> bool {
    let others = b"!#$%&'+-.^_`|~";
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
}

/// `request_headers` and `trusted_fields`
fn request_headers(pool: &Section<'_>) -> RequestHeaders {
    let section = &pool.section("request_headers");
    let keep = section.texts("keep");
    for name in &keep {
        let shown = shorten(&name.value);
        if !is_token(&name.value) {
            section.cx.error(&name.span, format!("`keep`: \"{shown}\" is not the name of a field"));
        } else if !maitred_handoff::is_forwardable(&name.value) {
            let message = format!("`keep`: \"{shown}\" is never passed on as it was sent");
            section.cx.error_with(&name.span, message, "it is about the client's own connection");
        }
    }
    let keep = keep.into_iter().map(|name| name.value.to_ascii_lowercase()).collect();
    let trusted = pool.given("trusted_fields").map(|_| trusted_fields(pool));
    let underscores = section.flag("underscores");
    RequestHeaders { keep, underscores, trusted, client_address: None }
}

/// `trusted_fields`: names, and beginnings of names with `*` behind them.
fn trusted_fields(section: &Section<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for text in section.texts("trusted_fields") {
        let (name, shown) = (text.value.strip_suffix('*').unwrap_or(&text.value), shorten(&text.value));
        if !is_token(name) {
            section.cx.error_with(
                &text.span,
                format!("`trusted_fields`: \"{shown}\" is not the name of a field"),
                "it takes a name such as \"X-Remote-User\", or the beginning of several with `*` behind it",
            );
        } else if maitred_http::claims::is_told(name) {
            section.cx.error_with(
                &text.span,
                format!("`trusted_fields`: \"{shown}\" is written by Maitred"),
                "what proxies in `trusted_proxies` say there is passed on already",
            );
        } else if !maitred_handoff::is_forwardable(name) {
            section.cx.error_with(
                &text.span,
                format!("`trusted_fields`: \"{shown}\" is never passed on as it was sent"),
                "it is about the connection, or the message itself",
            );
        }
        names.push(text.value.to_ascii_lowercase());
    }
    names
}

/// `upgrade`. Never HTTP itself, or what hides it: its requests would pass routes, limits and the log (h2c smuggling).
/// None where nothing can switch.
fn upgrade(section: &Section<'_>, switches: bool) -> Vec<String> {
    let texts = section.texts("upgrade");
    for text in &texts {
        let (name, version) = text.value.split_once('/').unwrap_or((&text.value, "0"));
        let shown = shorten(&text.value);
        if !is_token(name) || !is_token(version) {
            let message = format!("`upgrade`: \"{shown}\" is not the name of a protocol");
            section.cx.error_with(&text.span, message, "it takes names such as \"websocket\"");
        } else if ["h2c", "h2", "h3", "http", "tls"].iter().any(|never| name.eq_ignore_ascii_case(never)) {
            let message = format!("`upgrade`: \"{shown}\" is never passed on");
            let hint = "requests inside of it would pass the routes and limits of this server";
            section.cx.error_with(&text.span, message, hint);
        }
    }
    texts.into_iter().filter(|_| switches).map(|text| text.value).collect()
}

/// What concerns all pools, and the routes that lead to them.
pub(super) fn check_together(
    root: &Section<'_>,
    named: &[(At<String>, Section<'_>)],
    pools: &[Pool],
    sites: &[Site],
    listens: &[Listen],
) {
    let slots: usize = pools.iter().map(|pool| usize::from(pool.workers.slots())).sum();
    if let (true, Some((_, last))) = (slots > SLOTS_MAX, named.last()) {
        let most: usize = pools.iter().map(|pool| usize::from(pool.workers.max)).sum();
        let message = format!(
            "the pools have up to {most} processes together, and with a quarter more for those that are being replaced {slots}; \
             {SLOTS_MAX} is the most"
        );
        root.cx.error(&last.given("workers").unwrap_or(last.span.clone()), message);
    }
    if let Some((name, section)) = named.get(POOLS_MAX) {
        root.cx
            .error(&name.span, format!("{} is one too many: {POOLS_MAX} pools is the most", section.label));
    }
    check_addresses(named, pools, listens);
    for (index, (name, section)) in named.iter().enumerate() {
        if pools.get(index).is_some_and(|pool| matches!(pool.source, Source::Listen { .. })) {
            continue;
        }
        let led_to = |site: &Site| {
            let asks = |access: &Access| matches!(&access.forward, Authentication::On(forward) if forward.pool == index);
            let copies = |overrides: &Overrides| {
                overrides
                    .mirror
                    .as_ref()
                    .and_then(MirrorChoice::target)
                    .is_some_and(|mirror| mirror.pool == index)
            };
            let tries = |files: &Files| files.try_files.contains(&TryItem::Pool(index));
            let leads = |route: &Route| {
                let answers = match &route.target {
                    Target::Pool(pool) => *pool == index,
                    Target::Files(files) => tries(files),
                    _ => false,
                };
                answers || asks(&route.access) || copies(&route.overrides)
            };
            let of_site =
                asks(&site.access) || copies(&site.overrides) || site.files.as_ref().is_some_and(tries);
            of_site || site.routes.iter().any(leads)
        };
        if !sites.iter().any(led_to) {
            root.cx.warn(
                &name.span,
                format!("no route leads to {}", section.label),
                format!("add [[site.route]] with pool = \"{}\"", shorten(&name.value)),
            );
        }
    }
}

/// Two pools, or a pool and the server itself, cannot listen on the same address.
fn check_addresses(named: &[(At<String>, Section<'_>)], pools: &[Pool], listens: &[Listen]) {
    let mut taken: Vec<(SocketAddr, String)> =
        listens.iter().filter_map(|listen| Some((listen.address.inet()?, "[[listen]]".to_owned()))).collect();
    for ((_, section), pool) in named.iter().zip(pools) {
        let Source::Listen { addresses, .. } = &pool.source else { continue };
        let span = section.given("listen").unwrap_or_else(|| section.span.clone());
        for address in addresses {
            let other = taken.iter().find(|(one, _)| one == address && address.port() != 0);
            if let Some((_, other)) = other {
                section.cx.error(&span, format!("{} listens on {address}, as {other} does", section.label));
            }
            taken.push((*address, section.label.clone()));
        }
    }
}
