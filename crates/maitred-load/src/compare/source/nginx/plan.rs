//! The requests for each server: first what each location is asked for plainly, then its variants, so that a bound on the
//! number of requests leaves out what matters least.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::example::examples;
use super::spell::{encoded, spellings};
use super::tree::{Location, Pattern, Scope, Server};
use crate::compare::request::{Case, FollowUp, Port, Request};
use crate::compare::source::gathered::{Collector, Gathered, Known};

/// Files of one directory tree that are asked for, and directories within one another that are looked into.
const FILES_MAX: usize = 6;
const DEPTH_MAX: usize = 2;
/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 1000;
/// Examples of a regular expression.
const EXAMPLES_MAX: usize = 3;
/// A name that no configuration has (RFC 6761 section 6.4).
const UNKNOWN: &str = "unknown.invalid";
/// A file that is nowhere.
const MISSING: &str = "no-such-file-here.html";

/// Ranges that are asked for.
const RANGES: &[&str] = &[
    "bytes=0-0",
    "bytes=1-3",
    "bytes=-2",
    "bytes=2-",
    "bytes=0-0,2-2",
    "bytes=9223372036854775806-",
    "bytes=3-1",
    "lines=1-2",
];
/// Codings that are accepted.
const CODINGS: &[&str] =
    &["gzip", "br", "zstd", "deflate", "gzip;q=0", "identity;q=0", "*", "br, gzip;q=0.5"];
/// Methods; those that may change something are sent with `--unsafe-methods` only.
const METHODS: &[&str] = &["HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH"];

/// How far down the list a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Plain,
    Host,
    Variant,
    Port,
}

/// Requests for all servers.
pub(super) fn gather(servers: &[Server], root: Option<&Path>, known: &Known) -> Gathered {
    let main = main_port(servers, known);
    let mut planner = Planner { root, known, all: Vec::new() };
    let mut unmapped = BTreeSet::new();
    for server in servers {
        let is_reachable = |port: &&Port| Some(**port) == main || known.ports.contains_key(&port.number);
        unmapped.extend(server.ports.iter().filter(|port| !is_reachable(port)).map(|port| port.number));
        let ports: Vec<Port> = server.ports.iter().filter(is_reachable).copied().collect();
        if let Some((first, others)) = ports.split_first() {
            planner.server(server, *first, others);
        }
    }
    let mut all = planner.all;
    all.sort_by_key(|(rank, _)| *rank);
    let mut collector = Collector::new(known);
    all.into_iter().for_each(|(_, case)| collector.push(case));
    let notes = unmapped
        .iter()
        .map(|port| format!("port {port} of the configuration is not mapped, and was left out (--map-port {port}=LEFT,RIGHT)"))
        .collect();
    Gathered { port: main, ..collector.finish(notes) }
}

/// The port that the named servers stand for: the first with TLS or without, as they are, that is not mapped.
fn main_port(servers: &[Server], known: &Known) -> Option<Port> {
    let mut ports = servers.iter().flat_map(|server| &server.ports);
    ports.find(|port| port.is_tls == known.is_tls && !known.ports.contains_key(&port.number)).copied()
}

struct Planner<'k> {
    root: Option<&'k Path>,
    known: &'k Known,
    all: Vec<(Rank, Case)>,
}

/// Where requests of a server go.
#[derive(Debug, Clone)]
struct At {
    port: Port,
    host: String,
}

impl At {
    fn get(&self, target: &str) -> Request {
        Request { host: Some(self.host.clone()), port: Some(self.port), ..Request::get(target) }
    }
}

/// A host with its port, as clients say it.
fn host(name: &str, port: Port) -> String {
    let default = if port.is_tls { 443 } else { 80 };
    if port.number == default { name.to_owned() } else { format!("{name}:{}", port.number) }
}

/// What a location is asked for.
struct Targets {
    /// The targets, each with what it is.
    plain: Vec<(String, String)>,
    /// The one that variants are made of.
    first: Option<String>,
    /// Files that are there.
    files: Vec<String>,
}

impl Planner<'_> {
    fn push(&mut self, rank: Rank, request: Request, about: String) {
        self.push_with(rank, request, Vec::new(), about);
    }

    fn push_with(&mut self, rank: Rank, request: Request, follow_ups: Vec<FollowUp>, about: String) {
        self.all.push((rank, Case { request, follow_ups, about }));
    }

    fn server(&mut self, server: &Server, first: Port, others: &[Port]) {
        let names: Vec<String> = server.names.iter().flat_map(|name| hosts(name)).collect();
        let main = names.first().map_or(UNKNOWN, String::as_str);
        let at = At { port: first, host: host(main, first) };
        let mut firsts = vec!["/".to_owned()];
        for location in &server.locations {
            let targets = self.targets(location);
            firsts.extend(targets.first.clone());
            self.location(&at, server, &format!("location {}", location.pattern.shown()), &targets);
        }
        if !server.locations.iter().any(|location| location.pattern == Pattern::Prefix("/".to_owned())) {
            let targets = self.below("/", &server.scope, None);
            self.location(&at, server, "the server itself", &targets);
        }
        self.named_paths(&at, server);
        for name in names.iter().skip(1).map(String::as_str).chain([UNKNOWN]) {
            let at = At { port: first, host: host(name, first) };
            for target in &firsts {
                self.push(Rank::Host, at.get(target), format!("host {name}"));
            }
        }
        self.spelled_hosts(&at, main);
        for port in others {
            let at = At { port: *port, host: host(main, *port) };
            for target in &firsts {
                self.push(Rank::Port, at.get(target), format!("port {}", port.number));
            }
        }
    }

    /// Paths that directives name.
    fn named_paths(&mut self, at: &At, server: &Server) {
        let scopes = server.locations.iter().map(|location| &location.scope).chain([&server.scope]);
        for scope in scopes {
            for path in &scope.paths {
                self.push(Rank::Plain, at.get(&encoded(path)), "a path that is named".to_owned());
            }
            for expression in &scope.rewrites {
                for example in examples(expression, EXAMPLES_MAX) {
                    let target = encoded(&from_root(&example));
                    self.push(Rank::Plain, at.get(&target), format!("rewrite {expression}"));
                }
            }
        }
    }

    /// Spellings of the host, and targets that have one.
    fn spelled_hosts(&mut self, at: &At, name: &str) {
        for (what, other) in [
            ("upper case", name.to_ascii_uppercase()),
            ("a dot at the end", format!("{name}.")),
            ("a port", format!("{name}:{}", at.port.number)),
            ("another port", format!("{name}:1")),
        ] {
            let at = At { host: other, ..at.clone() };
            self.push(Rank::Host, at.get("/"), format!("host with {what}"));
        }
        let scheme = if at.port.is_tls { "https" } else { "http" };
        let absolute = at.get(&format!("{scheme}://{}/", at.host));
        self.push(Rank::Variant, absolute, "the absolute form".to_owned());
        let options = Request { method: "OPTIONS".to_owned(), ..at.get("*") };
        self.push(Rank::Variant, options, "OPTIONS of the server".to_owned());
    }

    fn targets(&self, location: &Location) -> Targets {
        match &location.pattern {
            Pattern::Exact(path) => {
                let path = encoded(path);
                let slash = if path.ends_with('/') {
                    path.trim_end_matches('/').to_owned()
                } else {
                    format!("{path}/")
                };
                let mut plain =
                    vec![("itself".to_owned(), path.clone()), ("below it".to_owned(), format!("{path}x"))];
                plain.extend(
                    Some(("with or without /".to_owned(), slash)).filter(|(_, target)| !target.is_empty()),
                );
                Targets { plain, first: Some(path), files: Vec::new() }
            }
            Pattern::Prefix(path) => self.below(path, &location.scope, location.alias.as_deref()),
            Pattern::Regex { expression, any_case } => {
                let mut plain = Vec::new();
                for example in examples(expression, EXAMPLES_MAX) {
                    let path = from_root(&example);
                    plain.push(("an example".to_owned(), encoded(&path)));
                    if *any_case {
                        plain.push(("in upper case".to_owned(), encoded(&path.to_ascii_uppercase())));
                    }
                }
                let first = plain.first().map(|(_, target)| target.clone());
                Targets { plain, first, files: Vec::new() }
            }
        }
    }

    /// The targets of a prefix, with files that are there.
    fn below(&self, path: &str, scope: &Scope, alias: Option<&str>) -> Targets {
        let target = encoded(path);
        let slash = if path.ends_with('/') { "" } else { "/" };
        let mut plain = vec![
            ("itself".to_owned(), target.clone()),
            ("a missing file".to_owned(), format!("{target}{slash}{MISSING}")),
            ("a missing directory".to_owned(), format!("{target}{slash}no-such-directory/")),
        ];
        match target.strip_suffix('/') {
            Some("") => {}
            Some(bare) => plain.push(("without /".to_owned(), bare.to_owned())),
            None => {
                plain.push(("with /".to_owned(), format!("{target}/")));
                plain.push(("a longer name".to_owned(), format!("{target}x")));
            }
        }
        plain.extend(
            scope
                .index
                .iter()
                .map(|name| ("an index".to_owned(), format!("{target}{slash}{}", encoded(name)))),
        );
        let directory = match (alias, &scope.root) {
            (Some(alias), _) => Some(self.on_disk(alias)),
            (None, Some(root)) => Some(self.on_disk(&format!("{root}/{path}"))),
            (None, None) => None,
        };
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        if let Some(directory) = directory {
            list(&directory, &format!("{target}{slash}"), 0, &mut files, &mut directories);
        }
        plain.extend(files.iter().map(|file| ("a file".to_owned(), file.clone())));
        plain.extend(directories.into_iter().map(|directory| ("a directory".to_owned(), directory)));
        Targets { plain, first: Some(files.first().cloned().unwrap_or(target)), files }
    }

    fn on_disk(&self, path: &str) -> PathBuf {
        match self.root {
            Some(root) => {
                // `..` does not lead out of it.
                let parts = Path::new(path).components().filter_map(|part| match part {
                    std::path::Component::Normal(part) => Some(part),
                    _ => None,
                });
                parts.fold(root.to_owned(), |path, part| path.join(part))
            }
            None => PathBuf::from(path),
        }
    }

    fn location(&mut self, at: &At, server: &Server, name: &str, targets: &Targets) {
        for (what, target) in &targets.plain {
            let is_file = targets.files.contains(target) || targets.first.as_ref() == Some(target);
            let follow_ups = [FollowUp::Tag, FollowUp::Date, FollowUp::Range].into_iter().filter(|_| is_file);
            self.push_with(Rank::Plain, at.get(target), follow_ups.collect(), format!("{name}: {what}"));
            if let Some(value) = &self.known.authorization {
                let request = at.get(target).with("Authorization", value.as_str());
                self.push(Rank::Plain, request, format!("{name}: {what}, as a user"));
            }
        }
        let Some(first) = &targets.first else { return };
        for (what, target) in spellings(first) {
            self.push(Rank::Variant, at.get(&target), format!("{name}: {what}"));
        }
        for method in METHODS {
            let request = Request { method: (*method).to_owned(), ..at.get(first) };
            self.push(Rank::Variant, request, format!("{name}: {method}"));
        }
        let several = targets.files.iter().take(2);
        let asked: BTreeSet<&String> = several.chain([first]).collect();
        for target in asked {
            for coding in CODINGS {
                let request = at.get(target).with("Accept-Encoding", *coding);
                self.push(Rank::Variant, request, format!("{name}: Accept-Encoding {coding}"));
            }
            for range in RANGES {
                let request = at.get(target).with("Range", *range);
                self.push(Rank::Variant, request, format!("{name}: Range {range}"));
            }
        }
        for (field, value) in [
            ("If-Modified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("If-None-Match", "*"),
            ("If-Match", "\"no-such-tag\""),
        ] {
            self.push(Rank::Variant, at.get(first).with(field, value), format!("{name}: {field}"));
        }
        if server.verifies_clients && self.known.has_identity {
            let request = Request { is_anonymous: true, ..at.get(first) };
            self.push(Rank::Plain, request, format!("{name}: without the certificate"));
        }
    }
}

/// A path of an example: an expression need not begin at the root.
fn from_root(example: &str) -> String {
    match example {
        example if example.starts_with('/') => example.to_owned(),
        example if example.starts_with('.') => format!("/x{example}"),
        example => format!("/{example}"),
    }
}

/// Hosts that a name stands for.
fn hosts(name: &str) -> Vec<String> {
    let is_host = |host: &String| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
    };
    let mut all: Vec<String> = match name {
        "" | "_" => Vec::new(),
        name if name.starts_with('~') => examples(name.get(1..).unwrap_or_default(), 1),
        name if name.starts_with('.') => {
            vec![name.get(1..).unwrap_or_default().to_owned(), format!("x{name}")]
        }
        name => vec![name.replace('*', "x")],
    };
    all.retain(is_host);
    all
}

/// Files and directories below a directory, as targets. Links are not followed, so that this ends.
fn list(
    directory: &Path,
    target: &str,
    depth: usize,
    files: &mut Vec<String>,
    directories: &mut Vec<String>,
) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let entries = entries.take(ENTRIES_MAX).filter_map(Result::ok);
    let mut entries: Vec<(String, bool)> = entries
        .filter_map(|entry| {
            let kind = entry.file_type().ok().filter(|kind| kind.is_file() || kind.is_dir())?;
            Some((entry.file_name().into_string().ok()?, kind.is_dir()))
        })
        .collect();
    // Hidden files last: the first one is what variants are made of.
    entries.sort_by_key(|(name, _)| (name.starts_with('.'), name.clone()));
    for (name, is_directory) in &entries {
        let path = format!("{target}{}", encoded(name));
        if !is_directory && files.len() < FILES_MAX {
            files.push(path);
        } else if *is_directory && directories.len() < FILES_MAX {
            directories.extend([path.clone(), format!("{path}/")]);
            if depth < DEPTH_MAX {
                list(&directory.join(name), &format!("{path}/"), depth + 1, files, directories);
            }
        }
    }
}

#[cfg(test)]
mod tests;
