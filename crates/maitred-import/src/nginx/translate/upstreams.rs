//! `proxy_pass`, `fastcgi_pass`, `grpc_pass` and `upstream`: pools.

use super::context::Context;
use super::fields::Host;
use super::settings::Settings;
use crate::model::{Block, Value};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values::{self, Part};
use crate::report::Kind;
use crate::write;

/// The servers of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Servers {
    /// A name for the pool.
    pub(crate) name: String,
    /// The values of `connect`.
    pub(crate) connect: Vec<String>,
    /// What is said of each of them.
    pub(crate) said: Vec<Said>,
    /// `balance`, and `hash_key`.
    pub(crate) balance: Option<(&'static str, Option<String>)>,
    /// The cookie of `sticky`.
    pub(crate) cookie: Option<String>,
    /// The first name that has no address here.
    pub(crate) unknown: Option<String>,
    /// Names are resolved again and again.
    pub(crate) resolve: bool,
    /// What `$proxy_host` stands for: the host in `proxy_pass`, or the name of the `upstream`.
    pub(crate) proxy_host: String,
}

/// What is said of a server besides its address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Said {
    weight: Option<u64>,
    backup: bool,
    max_connections: Option<u64>,
    /// What is said of a server, but is a key of the pool here.
    of_pool: OfPool,
}

/// What is said of a server, and holds for its pool here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OfPool {
    slow_start_ms: Option<u64>,
    /// `max_fails` and `fail_timeout`, where one of them is given.
    fails: Option<u64>,
    out_ms: Option<u64>,
    /// `resolve` or `service`.
    resolve: bool,
    service: Option<String>,
}

impl Said {
    /// The server, in `connect`.
    fn value(&self, address: &str) -> Value {
        if (Said { of_pool: OfPool::default(), ..self.clone() }) == Said::default() {
            return address.into();
        }
        let mut table: Vec<(String, Value)> = vec![("url".into(), address.into())];
        table.extend(self.weight.map(|weight| ("weight".into(), weight.into())));
        table.extend(self.backup.then(|| ("backup".into(), true.into())));
        table.extend(self.max_connections.map(|most| ("max_connections".into(), most.into())));
        Value::Table(table)
    }
}

/// An address of `proxy_pass` in its pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Destination {
    /// The servers of the destination.
    pub(crate) servers: Servers,
    /// The path behind the address, if there is one: it takes the place of the location's prefix.
    pub(crate) path: Option<String>,
    /// The whole target, if it has variables.
    pub(crate) rewrite: Option<String>,
    /// The target goes on as the client has sent it.
    pub(crate) as_sent: bool,
}

/// What `proxy_pass` names.
///
/// # Errors
/// Why it is not possible.
pub(crate) fn proxy(
    cx: &Context<'_>,
    scope: &Scope<'_>,
    directive: &Directive,
) -> Result<Destination, String> {
    let parts = values::parts(directive.arg(0), scope);
    let [Part::Text(text), behind @ ..] = parts.as_slice() else {
        return Err("the server is fixed here, and this one is known only when a request is there".into());
    };
    let (address, scheme) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(address), _) if !address.is_empty() => (address, "http"),
        (_, Some(address)) if !address.is_empty() => (address, "https"),
        _ => return Err("the server is fixed here, and this is no address of an HTTP server".into()),
    };
    let (host, path) = split(address);
    let mut servers = servers(cx, host, scheme)?;
    // A name behind a variable is looked up again and again if there is a resolver.
    servers.resolve |=
        directive.arg(0).contains('$') && servers.is_named() && scope.last("resolver").is_some();
    if scheme == "https" && servers.connect.iter().any(|connect| connect.starts_with("https+unix:")) {
        return Err("servers on Unix sockets are spoken to in cleartext".into());
    }
    if !directive.arg(0).contains('$') {
        let path = path.map(str::to_owned);
        return Ok(Destination { servers, as_sent: path.is_none(), path, rewrite: None });
    }
    // With variables, what follows the host is the whole target.
    let written = path.unwrap_or_default().to_owned() + &text_of(behind);
    let target = values::template(&written, scope)?;
    let host_goes_on = path.is_none() && behind.first().is_some_and(|part| !names_target(part));
    match target.as_str() {
        _ if host_goes_on => {
            Err("the server is fixed here, and this one is known only when a request is there".into())
        }
        "" => Ok(Destination { servers, path: None, rewrite: None, as_sent: true }),
        "{uri}" => {
            let as_sent = written == "${request_uri}";
            Ok(Destination { servers, path: None, rewrite: None, as_sent })
        }
        "{path}" | "{path}?{query}" => Ok(Destination { servers, path: None, rewrite: None, as_sent: false }),
        _ => Ok(Destination { servers, path: None, rewrite: Some(target), as_sent: false }),
    }
}

fn names_target(part: &Part) -> bool {
    matches!(part, Part::Variable(name) if ["request_uri", "uri", "document_uri"].contains(&name.as_str()))
}

fn text_of(parts: &[Part]) -> String {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Variable(name) => format!("${{{name}}}"),
        })
        .collect()
}

/// Host and path; a socket's path ends at a colon.
fn split(address: &str) -> (&str, Option<&str>) {
    if let Some(socket) = address.strip_prefix("unix:") {
        return match socket.split_once(':') {
            Some((_, path)) if !path.is_empty() => (&address[..address.len() - path.len() - 1], Some(path)),
            Some(_) => (address.trim_end_matches(':'), None),
            None => (address, None),
        };
    }
    match address.find(['/', '?']) {
        Some(at) => (&address[..at], Some(&address[at..])),
        None => (address, None),
    }
}

/// What `fastcgi_pass` names.
///
/// # Errors
/// Why it is not possible.
pub(crate) fn fastcgi(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive) -> Result<Servers, String> {
    match values::fixed(directive.arg(0), scope) {
        Some(address) => servers(cx, &address, "fastcgi"),
        None => Err("the server is fixed here, without variables".into()),
    }
}

/// The servers of a `grpc_pass`.
pub(crate) fn grpc(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive) -> Result<Servers, String> {
    let Some(given) = values::fixed(directive.arg(0), scope) else {
        return Err("the server is fixed here, without variables".into());
    };
    match given.strip_prefix("grpcs://") {
        Some(address) if address.starts_with("unix:") => {
            Err("servers on Unix sockets are spoken to in cleartext".into())
        }
        Some(address) => servers(cx, address, "https"),
        None => servers(cx, given.strip_prefix("grpc://").unwrap_or(&given), "h2"),
    }
}

/// The servers of an `upstream`, or the one with this address.
fn servers(cx: &Context<'_>, host: &str, scheme: &str) -> Result<Servers, String> {
    if host.is_empty() {
        return Err("there is no host in the address".into());
    }
    let Some(upstream) = cx.upstreams.get(host) else {
        let (connect, unknown) = connect(cx, host, scheme);
        let proxy_host = if host.starts_with("unix:") { "localhost" } else { host }.to_owned();
        let (name, said) = (name_of(&connect), vec![Said::default()]);
        let connect = vec![connect];
        let (balance, cookie, resolve) = (None, None, false);
        return Ok(Servers { name, connect, said, balance, cookie, unknown, resolve, proxy_host });
    };
    cx.translated(upstream);
    let (mut all, mut unknown, mut said_of, mut balance) = (Vec::new(), None, Vec::new(), None);
    let mut cookie = None;
    for directive in upstream.inside() {
        match directive.name.as_str() {
            "server" => {
                let Some((address, said)) = server(cx, directive) else { continue };
                let (address, missing) = match &said.of_pool.service {
                    Some(service) => (format!("{scheme}+srv://{}", service_of(service, address)), None),
                    None => connect(cx, address, scheme),
                };
                unknown = unknown.or(missing);
                if !all.contains(&address) {
                    all.push(address);
                    said_of.push(said);
                }
            }
            "sticky" | "sticky_cookie_insert" => cookie = sticky(cx, directive).or(cookie),
            _ => balance = policy(cx, directive).or(balance),
        }
    }
    match all.is_empty() {
        true => Err(format!("upstream `{host}` has no server")),
        false => Ok(Servers {
            name: host.to_owned(),
            connect: all,
            said: said_of,
            balance,
            cookie,
            unknown,
            resolve: false,
            proxy_host: host.to_owned(),
        }),
    }
}

/// `balance` and `hash_key`, if this directive of an `upstream` says something of them.
fn policy(cx: &Context<'_>, directive: &Directive) -> Option<(&'static str, Option<String>)> {
    let key = hash_key(directive.arg(0));
    let found = match directive.name.as_str() {
        "ip_hash" => ("hash", None),
        "least_time" => ("least_time", None),
        "hash" if key.is_some() => ("hash", key.filter(|key| key != "client")),
        "hash" => {
            let why = "a request is hashed by one thing: address, target, field, cookie, parameter";
            cx.not_possible(directive, why);
            return None;
        }
        _ => return None,
    };
    cx.translated(directive);
    Some(found)
}

/// The name of the cookie that leads to one server.
fn sticky(cx: &Context<'_>, directive: &Directive) -> Option<String> {
    let name = match (directive.name.as_str(), directive.arg(0)) {
        ("sticky_cookie_insert", name) => name,
        (_, "cookie") => directive.arg(1),
        _ => {
            cx.not_possible(
                directive,
                "a client is led to its server by a cookie of Maitred's, or by `balance = \"hash\"`",
            );
            return None;
        }
    };
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || byte == b'.';
    if name.is_empty() || !name.bytes().all(known) {
        cx.not_possible(directive, "this is not the name of a cookie");
        return None;
    }
    cx.say(directive, Kind::Translated, "`sticky`: the cookie ends with the browser, and is for all paths");
    Some(name.to_owned())
}

/// A `server` of an `upstream`, if it gets requests: its address, and what is said of it.
fn server<'d>(cx: &Context<'_>, directive: &'d Directive) -> Option<(&'d str, Said)> {
    let mut said = Said::default();
    for arg in directive.args.iter().skip(1) {
        let (name, value) = arg.split_once('=').unwrap_or((arg, ""));
        let number = value.parse::<u64>().ok().filter(|number| *number > 0);
        match name {
            "down" => {
                cx.say(directive, Kind::NotNeeded, "it gets no requests");
                return None;
            }
            "backup" => said.backup = true,
            "weight" => said.weight = number.map(|weight| weight.min(1000)).filter(|weight| *weight > 1),
            "resolve" => said.of_pool.resolve = true,
            "service" if !value.is_empty() => said.of_pool.service = Some(value.to_owned()),
            "max_fails" => said.of_pool.fails = value.parse().ok(),
            "fail_timeout" => said.of_pool.out_ms = values::millis(value),
            "slow_start" => {
                said.of_pool.slow_start_ms =
                    values::millis(value).map(|millis| millis.min(3_600_000)).filter(|millis| *millis > 0);
            }
            "max_conns" => said.max_connections = number.map(|most| most.min(1_000_000)),
            _ => {}
        }
    }
    match said.of_pool.fails.is_some() || said.of_pool.out_ms.is_some() {
        true => cx.say(
            directive,
            Kind::Translated,
            "a server that cannot be reached is out for a while, whatever `max_fails` and `fail_timeout` say; for statuses in \
             `proxy_next_upstream` they are `outliers`",
        ),
        false => cx.translated(directive),
    }
    Some((directive.arg(0), said))
}

/// The name of the records for `service` of a `server`.
fn service_of(service: &str, address: &str) -> String {
    let host = without_port(address);
    match service.contains('.') || service.starts_with('_') {
        true => format!("{service}.{host}"),
        false => format!("_{service}._tcp.{host}"),
    }
}

impl Servers {
    /// Whether there is a name to resolve.
    fn is_named(&self) -> bool {
        self.connect.iter().any(|one| {
            let (scheme, address) = one.split_once("://").unwrap_or_default();
            let host = without_port(address.trim_end_matches('/'));
            let is_service = scheme.ends_with("+srv");
            !host.is_empty()
                && !is_service
                && !host.starts_with('[')
                && host.parse::<std::net::IpAddr>().is_err()
        })
    }

    /// Whether its names are resolved again and again.
    fn resolves(&self) -> bool {
        self.resolve || (self.is_named() && self.said.iter().any(|said| said.of_pool.resolve))
    }
}

/// `hash_key` for what `hash` of nginx names.
fn hash_key(text: &str) -> Option<String> {
    let name = text.strip_prefix('$')?;
    Some(match name {
        "remote_addr" | "binary_remote_addr" => "client".to_owned(),
        "request_uri" | "uri" => "uri".to_owned(),
        _ => {
            let (kind, name) = name.split_once('_')?;
            let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if name.is_empty() || !name.bytes().all(known) {
                return None;
            }
            match kind {
                "cookie" => format!("cookie:{name}"),
                "arg" => format!("query:{name}"),
                "http" => format!("header:{}", name.replace('_', "-")),
                _ => return None,
            }
        }
    })
}

/// A value of `connect`; and the name in it, if that has no address here.
fn connect(cx: &Context<'_>, address: &str, scheme: &str) -> (String, Option<String>) {
    if let Some(path) = address.strip_prefix("unix:") {
        return (format!("{scheme}+unix:{path}"), None);
    }
    let address = address.trim_end_matches('/');
    let host = without_port(address);
    let unknown = (!cx.machine.has_address(host)).then(|| host.to_owned());
    let port = if scheme == "fastcgi" && host == address { ":9000" } else { "" };
    (format!("{scheme}://{address}{port}"), unknown)
}

fn without_port(address: &str) -> &str {
    match address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => address,
    }
}

/// `http://127.0.0.1:3000` is `app-3000`, `http://api:8000` is `api`, `fastcgi+unix:/run/php/php8.2-fpm.sock` is `php`.
fn name_of(connect: &str) -> String {
    if connect.starts_with("fastcgi") {
        return "php".to_owned();
    }
    let address = connect.rsplit("://").next().unwrap_or(connect);
    if let Some(path) = connect.strip_prefix("http+unix:").or_else(|| connect.strip_prefix("h2+unix:")) {
        let file = path.rsplit('/').next().unwrap_or(path);
        return file.split('.').next().unwrap_or("app").to_owned();
    }
    let host = without_port(address);
    let local = host.parse::<std::net::IpAddr>().is_ok() || host == "localhost" || host.starts_with('[');
    match (local, address.strip_prefix(host).and_then(|rest| rest.strip_prefix(':'))) {
        (true, Some(port)) => format!("app-{port}"),
        (true, None) => "app".to_owned(),
        (false, _) => host.replace('.', "-"),
    }
}

/// What `X-Accel-Redirect` may name: the locations of the server that are `internal`, and have files.
fn named_files(cx: &Context<'_>, scope: &Scope<'_>, block: &mut Block) {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for location in scope.of_server().everywhere("location") {
        let prefix =
            location.args.last().filter(|prefix| prefix.starts_with('/') && location.args.len() <= 2);
        let plain = location.args.len() == 1 || location.arg(0) == "^~";
        let (Some(prefix), true) = (prefix.filter(|_| plain), is_internal(location)) else { continue };
        let inner = scope.of_server().within(location.inside());
        let alias = location.inside().iter().find(|inside| inside.name == "alias");
        let root = alias.or_else(|| inner.last("root"));
        let Some(directory) = root.and_then(|root| values::fixed(root.arg(0), &inner)) else { continue };
        let directory = super::context::absolute(&directory);
        let directory = match alias {
            Some(_) => directory.trim_end_matches('/').to_owned(),
            None => format!("{}{}", directory.trim_end_matches('/'), prefix.trim_end_matches('/')),
        };
        cx.translated(location);
        for inside in
            location.inside().iter().filter(|inside| ["alias", "root"].contains(&inside.name.as_str()))
        {
            cx.translated(inside);
        }
        let slash = if prefix.ends_with('/') { prefix.clone() } else { format!("{prefix}/") };
        let found = if cx.machine.has_directory(&directory) { &mut there } else { &mut missing };
        found.push((slash, Value::from(directory)));
    }
    if !there.is_empty() {
        block.push("named_files", Value::Table(there), None);
    }
    if !missing.is_empty() {
        block.push_off(
            "named_files",
            Value::Table(missing),
            None,
            "these directories are there on this machine",
        );
    }
}

/// Whether only responses lead to a location, and to files in it.
pub(crate) fn is_internal(location: &Directive) -> bool {
    let has = |name: &str| location.inside().iter().any(|inside| inside.name == name);
    has("internal")
        && !location.inside().iter().any(|inside| inside.name.ends_with("_pass") || inside.name == "return")
}

/// The keys of a pool of these servers. `dialect` is how the names of its directives begin.
pub(crate) fn block(
    cx: &Context<'_>,
    scope: &Scope<'_>,
    servers: &Servers,
    directive: &Directive,
    dialect: &str,
) -> Block {
    let mut block = Block::new("").from(&directive.place, &directive.shown());
    let value = match (servers.connect.as_slice(), servers.said.as_slice()) {
        ([one], [said]) if *said == Said::default() => one.as_str().into(),
        (all, said) => Value::List(all.iter().zip(said).map(|(one, said)| said.value(one)).collect()),
    };
    push_servers(cx, servers, directive, value, &mut block);
    push_policy(servers, &mut block);
    super::balancing::push(cx, scope, dialect, &mut block);
    outliers(scope, servers, dialect, &mut block);
    let settings = Settings { cx, scope };
    for (name, key, most) in
        [("read", "request_timeout", 86_400_000), ("connect", "connect_timeout", 3_600_000)]
    {
        let Some((given, millis)) = settings.time(&format!("{dialect}_{name}_timeout")) else { continue };
        let default = if key == "request_timeout" { 60_000 } else { 5_000 };
        cx.translated(given);
        let millis = millis.clamp(1, most);
        if millis != default {
            block.push(key, write::time(millis), Some(&given.place));
        }
    }
    if servers.connect.iter().any(|connect| connect.starts_with("https:")) {
        secure(cx, scope, dialect, &mut block);
    }
    named_files(cx, scope, &mut block);
    if let Some(given) = scope.last("underscores_in_headers").filter(|given| given.arg(0) == "on") {
        cx.translated(given);
        block.push(
            "request_headers",
            Value::Table(vec![("underscores".into(), true.into())]),
            Some(&given.place),
        );
    }
    block
}

/// `host` of a pool: the client's is the default there, and the server's in nginx.
pub(crate) fn push_host(cx: &Context<'_>, servers: &Servers, host: Host, block: &mut Block) {
    let own = &servers.proxy_host;
    let value = match host {
        Host::Client => return,
        Host::Named(name) => name,
        Host::Server
            if cx.upstreams.contains_key(own.as_str()) || own.ends_with(":80") || own.ends_with(":443") =>
        {
            let https = servers.connect.iter().any(|one| one.starts_with("https"));
            own.strip_suffix(if https { ":443" } else { ":80" }).unwrap_or(own).to_owned()
        }
        Host::Server => "server".to_owned(),
    };
    block.push("host", value, None);
}

/// `connect` and `resolve` of a pool.
fn push_servers(cx: &Context<'_>, servers: &Servers, directive: &Directive, value: Value, block: &mut Block) {
    match &servers.unknown {
        // What has no address here may have one later.
        _ if servers.resolves() => {
            block.push("connect", value, None);
            block.push("resolve", true, None);
        }
        None => block.push("connect", value, None),
        Some(name) => {
            block.push("connect", value, None);
            block.push("resolve", true, None);
            let why = format!("{name} has no address on this machine: it is looked up until it has one");
            cx.say(directive, Kind::Translated, why);
        }
    }
}

/// `outliers` for `max_fails` and `fail_timeout`, if statuses count for them.
fn outliers(scope: &Scope<'_>, servers: &Servers, dialect: &str, block: &mut Block) {
    let given =
        |of: fn(&OfPool) -> Option<u64>| servers.said.iter().filter_map(|said| of(&said.of_pool)).max();
    let next = scope.last(&format!("{dialect}_next_upstream"));
    let counts = next.is_some_and(|next| next.args.iter().any(|arg| arg.starts_with("http_5")));
    let (fails, out_ms) = (given(|said| said.fails), given(|said| said.out_ms));
    if !counts || fails == Some(0) || (fails, out_ms) == (None, None) {
        return;
    }
    let errors = fails.unwrap_or(1).min(10_000);
    let time = write::time(out_ms.unwrap_or(10_000).clamp(1_000, 300_000));
    block.push(
        "outliers",
        Value::Table(vec![("errors".into(), errors.into()), ("time".into(), time.into())]),
        None,
    );
}

/// `balance` and `hash_key` of a pool.
fn push_policy(servers: &Servers, block: &mut Block) {
    if let Some((balance, key)) = &servers.balance {
        block.push("balance", *balance, None);
        key.iter().for_each(|key| block.push("hash_key", key.as_str(), None));
    }
    if let Some(millis) = servers.said.iter().filter_map(|said| said.of_pool.slow_start_ms).max() {
        block.push("slow_start", write::time(millis), None);
    }
    if let Some(cookie) = &servers.cookie {
        block.push("sticky", Value::Table(vec![("cookie".into(), cookie.as_str().into())]), None);
    }
}

/// `tls` of a pool. Without `proxy_ssl_verify`, nginx takes any certificate.
fn secure(cx: &Context<'_>, scope: &Scope<'_>, dialect: &str, block: &mut Block) {
    let mut table: Vec<(String, Value)> = Vec::new();
    if dialect == "grpc" {
        table.push(("http2".into(), true.into()));
    }
    let fixed = |name: &str| {
        let given = scope.last(&format!("{dialect}_ssl_{name}"))?;
        let value = values::fixed(given.arg(0), scope)?;
        cx.translated(given);
        Some(value)
    };
    // `$proxy_host` and its like are the name anyway.
    if let Some(name) = fixed("name") {
        table.push(("server_name".into(), name.into()));
    }
    let verify = scope.last(&format!("{dialect}_ssl_verify")).inspect(|given| cx.translated(given));
    if verify.is_none_or(|given| given.arg(0) != "on") {
        table.push(("verify".into(), false.into()));
    }
    let mut files = Vec::new();
    for (name, key) in
        [("trusted_certificate", "ca"), ("certificate", "certificate"), ("certificate_key", "key")]
    {
        files.extend(fixed(name).map(|path| (key.to_owned(), super::context::absolute(&path))));
    }
    let missing = files.iter().find(|(_, path)| !cx.machine.has_file(path)).map(|(_, path)| path.clone());
    let whole = |files: &[(String, String)]| {
        let files = files.iter().map(|(key, path)| (key.clone(), path.as_str().into()));
        Value::Table(table.iter().cloned().chain(files).collect())
    };
    match missing {
        None => block.push("tls", whole(&files), None),
        Some(path) => {
            block.push_off("tls", whole(&files), None, &format!("{path} is there on this machine"));
            block.push("tls", whole(&[]), None);
        }
    }
}
