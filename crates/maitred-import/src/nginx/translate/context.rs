//! What the parts of the translation have in common: what all importers have, and what stands in `http { … }`.

use std::collections::HashMap;
use std::ops::Deref;

use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::report::Report;
use crate::shared::Shared;

/// The translation of one import.
pub(crate) struct Context<'a> {
    shared: Shared,
    /// `upstream` by name.
    pub(crate) upstreams: HashMap<&'a str, &'a Directive>,
    /// `map`, by the variable that it sets.
    maps: HashMap<&'a str, &'a Directive>,
    /// `split_clients`, by the variable that it sets.
    splits: HashMap<&'a str, &'a Directive>,
    /// `geo`, by the variable that it sets.
    geos: HashMap<&'a str, &'a Directive>,
    /// `limit_req_zone`, by name.
    zones: HashMap<&'a str, &'a Directive>,
    /// Whether responses of pools are cached anywhere.
    pub(crate) caches: bool,
}

impl Deref for Context<'_> {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// Where nginx looks for relative paths.
const PREFIX: &str = "/usr/share/nginx";

impl<'a> Context<'a> {
    /// The report, at the end.
    pub(crate) fn into_report(self) -> Report {
        self.shared.report.into_inner()
    }

    /// At the start. `http` is what stands in `http { … }`.
    pub(crate) fn new(report: Report, http: &'a [Directive]) -> Context<'a> {
        let named = http.iter().filter(|directive| directive.name == "upstream");
        let maps = http.iter().filter(|directive| directive.name == "map");
        let splits = http.iter().filter(|directive| directive.name == "split_clients");
        let geos = http.iter().filter(|directive| directive.name == "geo");
        let is_zone = |name: &str| ["limit_req_zone", "limit_conn_zone"].contains(&name);
        let zones = http.iter().filter(|directive| is_zone(&directive.name));
        let zone = |directive: &'a Directive| {
            let zone = directive.args.iter().find_map(|arg| arg.strip_prefix("zone="))?;
            Some((zone.split(':').next().unwrap_or(zone), directive))
        };
        Context {
            shared: Shared::new(report),
            upstreams: named.map(|directive| (directive.arg(0), directive)).collect(),
            maps: maps.map(|directive| (directive.arg(1), directive)).collect(),
            splits: splits.map(|directive| (directive.arg(1), directive)).collect(),
            geos: geos.filter_map(|directive| Some((of_clients(directive)?, directive))).collect(),
            zones: zones.filter_map(zone).collect(),
            caches: http.iter().any(caches),
        }
    }

    /// The `geo` of clients that sets a variable, which is all of a value.
    pub(crate) fn geo(&self, value: &str) -> Option<&'a Directive> {
        let name = value.strip_prefix('$')?.trim_start_matches('{').trim_end_matches('}');
        self.geos.iter().find(|(variable, _)| variable.strip_prefix('$') == Some(name)).map(|(_, geo)| *geo)
    }

    /// The `map` or the `split_clients` that sets a variable, by its name.
    pub(crate) fn finite(&self, name: &str) -> Option<&'a Directive> {
        let split = self.splits.iter().find(|(variable, _)| variable.strip_prefix('$') == Some(name));
        split.map(|(_, split)| *split).or_else(|| self.map(&format!("${name}")))
    }

    /// The zone of `limit_req` or `limit_conn` with this name.
    pub(crate) fn zone(&self, name: &str) -> Option<&'a Directive> {
        self.zones.get(name).copied()
    }

    /// The `map` that sets a variable, which is all of a value: `$name` or `${name}`.
    pub(crate) fn map(&self, value: &str) -> Option<&'a Directive> {
        let name = value.strip_prefix('$')?.trim_start_matches('{').trim_end_matches('}');
        self.maps.iter().find(|(variable, _)| variable.strip_prefix('$') == Some(name)).map(|(_, map)| *map)
    }
}

/// The variable of a `geo` that looks at the client's address.
fn of_clients(geo: &Directive) -> Option<&str> {
    match geo.args.as_slice() {
        [variable] => Some(variable),
        [address, variable] if ["$remote_addr", "$realip_remote_addr"].contains(&address.as_str()) => {
            Some(variable)
        }
        _ => None,
    }
}

/// Whether a directive, or one within it, has responses of pools cached.
fn caches(directive: &Directive) -> bool {
    let names = ["proxy_cache", "fastcgi_cache", "uwsgi_cache", "scgi_cache"];
    let here = names.contains(&directive.name.as_str()) && directive.arg(0) != "off";
    here || directive.inside().iter().any(caches)
}

/// An absolute path.
pub(crate) fn absolute(path: &str) -> String {
    match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("{PREFIX}/{path}"),
    }
}

/// Certificates and files of users are looked for beside `nginx.conf`.
pub(crate) fn in_conf(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/etc/nginx/{path}") }
}

/// The location of a path: one with `=`, or the longest prefix.
pub(crate) fn location<'a>(scope: &Scope<'a>, path: &str) -> Option<&'a Directive> {
    let all = scope.everywhere("location");
    let exact =
        all.iter().find(|location| location.args == ["=", path] || location.args == [format!("={path}")]);
    let prefix = || {
        let prefixes = all.iter().filter(|location| match location.args.as_slice() {
            [prefix] | [_, prefix] if prefix.starts_with('/') => path.starts_with(prefix.as_str()),
            _ => false,
        });
        prefixes.max_by_key(|location| location.args.last().map_or(0, String::len))
    };
    exact.copied().or_else(|| prefix().copied())
}
