//! What a configuration of nginx means here.

mod access;
mod balancing;
mod caching;
mod compression;
mod conditions;
mod context;
mod errors;
mod files;
mod forward;
mod global;
mod headers;
mod known;
mod limits;
mod listens;
mod logs;
mod proofs;
mod redirects;
mod rewriting;
mod routes;
mod selectors;
mod servers;
mod settings;
mod targets;
mod tokens;
mod upstreams;

use super::scope::Scope;
use super::tree::Directive;
use crate::model::Document;
use crate::report::{Kind, Report};
use crate::write;

use context::Context;
pub(crate) use context::absolute;

/// Names that stand in `http { … }` or outside of it.
const OF_HTTP: &[&str] = &[
    "server",
    "upstream",
    "map",
    "geo",
    "http",
    "events",
    "stream",
    "mail",
    "split_clients",
    "limit_req_zone",
    "limit_conn_zone",
    "proxy_cache_path",
    "log_format",
    "user",
    "pid",
    "worker_processes",
];
/// Names that stand in `server { … }`.
const OF_SERVER: &[&str] = &["listen", "server_name", "location", "ssl_certificate", "ssl_certificate_key"];

/// The document of these directives.
pub(crate) fn document(directives: Vec<Directive>, report: Report) -> (Document, Report) {
    let http = in_context(directives);
    let cx = Context::new(report, &http);
    let scope = Scope::default().within(&http);
    let servers: Vec<_> = http
        .iter()
        .filter(|directive| directive.name == "server")
        .map(|directive| servers::read(&cx, &scope, directive))
        .collect();
    let sites = servers::sites(&cx, &servers);
    let mut blocks = global::blocks(&cx, &scope, &servers, &sites);
    blocks.extend(sites.into_iter().flat_map(write::site));
    blocks.extend(cx.blocks());
    leftovers(&cx, &http, &mut Vec::new());
    (Document { blocks, ..Document::default() }, cx.into_report())
}

/// What stands in `http { … }`, whatever the file begins with: a whole configuration, servers, or what stands in one.
pub(crate) fn in_context(directives: Vec<Directive>) -> Vec<Directive> {
    let has = |names: &[&str]| directives.iter().any(|directive| names.contains(&directive.name.as_str()));
    let place = directives.first().map(|first| first.place.clone());
    let (http, server) = (has(OF_HTTP), has(OF_SERVER));
    let Some(place) = place else { return Vec::new() };
    let wrap = |name: &str, args: &[&str], inside: Vec<Directive>| Directive {
        name: name.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        block: Some(inside),
        place: place.clone(),
    };
    if !http && !server {
        let location = wrap("location", &["/"], directives);
        return vec![wrap("server", &[], vec![location])];
    }
    if !http {
        return vec![wrap("server", &[], directives)];
    }
    let mut all = Vec::new();
    let mut loose = Vec::new();
    for directive in directives {
        if directive.name == "http" {
            all.extend(directive.block.unwrap_or_default());
        } else if OF_SERVER.contains(&directive.name.as_str()) {
            loose.push(directive);
        } else {
            all.push(directive);
        }
    }
    if !loose.is_empty() {
        all.push(wrap("server", &[], loose));
    }
    all
}

/// Whether a directive is about a cache of responses.
fn of_cache(name: &str) -> bool {
    let dialect = ["proxy_", "fastcgi_", "uwsgi_", "scgi_"].iter().any(|dialect| name.starts_with(dialect));
    dialect && name.contains("_cache")
}

/// Says something of each directive of which nothing was said.
fn leftovers<'a>(cx: &Context<'_>, directives: &'a [Directive], around: &mut Vec<&'a [Directive]>) {
    around.push(directives);
    for directive in directives {
        let said = cx.report.borrow().has(&directive.place, &directive.shown());
        let foreign = ["stream", "mail", "types", "map", "geo", "split_clients", "events"]
            .contains(&directive.name.as_str());
        let unused = of_cache(&directive.name) && (directive.arg(0) == "off" || !cx.caches);
        if !said && unused {
            cx.not_needed(directive, "nothing is cached there");
        } else if !said {
            leftover(cx, directive, around);
        }
        if !foreign && directive.name != "if" && directive.name != "upstream" {
            leftovers(cx, directive.inside(), around);
        }
        if ["if", "upstream", "events"].contains(&directive.name.as_str()) {
            quietly(cx, directive.inside(), around);
        }
    }
    around.pop();
}

/// What is not known to have no effect is not possible.
fn leftover(cx: &Context<'_>, directive: &Directive, around: &proofs::Around<'_>) {
    match (known::directive(&directive.name), proofs::reason(directive, around)) {
        (Some((Kind::NotPossible, _)), Some(why)) => cx.not_needed(directive, why),
        (Some((kind, why)), _) => cx.say(directive, kind, why),
        (None, _) => cx.say(directive, Kind::NotPossible, "this directive is not known"),
    }
}

/// The same, where nothing uses what stands there.
fn quietly<'a>(cx: &Context<'_>, directives: &'a [Directive], around: &mut Vec<&'a [Directive]>) {
    around.push(directives);
    for directive in directives {
        if !cx.report.borrow().has(&directive.place, &directive.shown()) {
            leftover(cx, directive, around);
        }
    }
    around.pop();
}
