//! `[[site.route]]`

use regex::bytes::Regex;

use super::super::access::KEYS;
use super::super::cache::Caching;
use super::super::finding::{At, Span};
use super::super::headers::RequestHeaderRules;
use super::super::meaning::{Files, PathPattern, Route, Source, Target, TryItem};
use super::super::reader::{Section, shorten};
use super::super::suggest::nearest;
use super::super::template::{self, Part};
use super::super::values::{is_field_value, is_token};
use super::paths::{below, patterns, strip_prefix};
use super::pools::Known;
use super::shadowed::Earlier;
use super::{
    access, cache, compress, conditions, cors, expires, fastcgi, files, headers, modules, overrides, reach,
    rewrites, security, sites,
};

/// The keys that say what answers.
const TARGETS: [&str; 5] = ["root", "redirect", "respond", "pool", "reroute"];

pub(super) fn routes(
    of_site: &Section<'_>,
    sections: &[Section<'_>],
    (site, listens): (&Files, Option<&[u16]>),
    pools: &Known<'_>,
) -> Vec<Route> {
    let (mut routes, mut before): (Vec<(Route, Span)>, Earlier) = (Vec::new(), Earlier::default());
    for section in sections {
        let regex = path_regex(section);
        let conditions = conditions::of_route(section);
        reach::check(section, listens, &conditions);
        let patterns = route_paths(section);
        let methods = methods(section);
        let compiled = regex.as_ref().map(|(_, compiled)| compiled);
        let rewrite = rewrites::of_route(section, &patterns, compiled);
        let target = target(section, (site, pools), &patterns, compiled);
        let (false, Some(target)) = (patterns.is_empty(), target) else { continue };
        let span = patterns.first().map_or(section.span.clone(), |first| first.span.clone());
        let cache = cache::of_route(section, &target);
        let scripts = scripts(&target, site, pools);
        let route = Route {
            patterns: patterns.into_iter().map(|pattern| pattern.value).collect(),
            path_regex: regex.map(|(text, _)| text),
            conditions,
            methods,
            rewrite,
            front_controller: fastcgi::front_controller(section, scripts.as_ref()),
            scripts,
            target,
            response_headers: headers::of_responses(&section.section("response_headers")),
            expires: expires::of(section),
            cors: cors::of(section),
            security_headers: security::of(section),
            compress: compress::of(section),
            cache,
            request_headers: headers::of_requests(&section.section("request_headers")),
            access: access::of(section, pools),
            modules: modules::of(section),
            error_pages: sites::error_pages(section, of_site),
            overrides: overrides::of(section, pools),
        };
        warn_of_told(section, &route);
        let on = compress::is_on(route.compress.as_ref(), compress::of(of_site).as_ref());
        let siblings = matches!(&route.target, Target::Files(files) if !files.precompressed.is_empty());
        compress::check_fields(section, of_site, on, siblings);
        cache::check(section, of_site, &route);
        check_users(section, of_site, &route);
        check_reach(section, (&route, &span), (&routes, &mut before), listens);
        before.add(routes.len(), &route);
        routes.push((route, span));
    }
    routes.into_iter().map(|(route, _)| route).collect()
}

/// Whether an earlier route takes all that this one would take.
fn check_reach(
    section: &Section<'_>,
    (route, span): (&Route, &Span),
    (routes, before): (&[(Route, Span)], &mut Earlier),
    listens: Option<&[u16]>,
) {
    let includes = |number: usize| {
        routes.get(number).is_some_and(|(earlier, _)| {
            reach::includes(section.cx, listens, (&earlier.conditions, &route.conditions))
        })
    };
    let taken = before.takes_all_of(route, includes).and_then(|number| routes.get(number));
    if let Some((_, earlier)) = taken {
        section.cx.conflict(
            span,
            "no request reaches this route: an earlier one takes all its paths and methods",
            "the first route that matches path and method decides",
            earlier,
        );
    }
}

/// Fields that tell an application who asks are no part of the key of a cache.
fn warn_of_told(section: &Section<'_>, route: &Route) {
    let tells = |rules: &RequestHeaderRules| {
        let mut parts = rules.set_filled.iter().flat_map(|(_, value)| &value.0);
        parts.any(|part| matches!(part, Part::Client | Part::User | Part::RequestId | Part::Header(_)))
    };
    let Some(span) = section.given("cache").filter(|_| matches!(route.cache, Some(Caching::On(_)))) else {
        return;
    };
    if tells(&route.request_headers) {
        section.cx.warn(
            &span,
            "the pool gets who asks (`request_headers`), and its responses are kept for all",
            "take `{client}`, `{user}`, `{request_id}` and `{header.NAME}` out of `set`, unless no response depends on them",
        );
    }
}

/// `path`; all paths, if the route has other conditions. Nothing, if it is missing or has no pattern.
fn route_paths(section: &Section<'_>) -> Vec<At<PathPattern>> {
    if section.given("path").is_some() {
        if let Some(span) = section.empty_array("path") {
            section.cx.error(&span, "`path` has no pattern");
        }
        return patterns(section, "path");
    }
    if section.given("path_regex").is_none() && section.given("match").is_none() {
        section.cx.missing(
            &section.span,
            "[[site.route]] has no `path`",
            "`path` takes \"/exact\", \"/prefix/*\", \"*.php\"; for any path, write path = \"*\"",
        );
        return Vec::new();
    }
    vec![At { value: PathPattern::All, span: section.span.clone() }]
}

/// `path_regex`, as it is and compiled.
fn path_regex(section: &Section<'_>) -> Option<(String, Regex)> {
    let text = section.text("path_regex")?;
    let what = format!("`path_regex`: \"{}\" is not a regular expression", shorten(&text.value));
    let compiled = section.cx.accept(&text.span, &what, template::regex(&text.value))?;
    Some((text.value, compiled))
}

/// `methods` of a route, or of a site.
pub(super) fn methods(section: &Section<'_>) -> Vec<String> {
    let mut methods: Vec<String> = Vec::new();
    for method in section.texts("methods") {
        let text = method.value;
        let upper = text.to_ascii_uppercase();
        let shown = shorten(&text);
        if !is_token(&text) {
            section.cx.error(&method.span, format!("`methods`: \"{shown}\" is not a method"));
        } else if upper != text {
            let message = format!("`methods`: methods are in capital letters, and \"{shown}\" is not");
            section.cx.error_with(&method.span, message, format!("write \"{}\"", shorten(&upper)));
        } else if methods.contains(&text) {
            section.cx.error(&method.span, format!("`methods` names \"{shown}\" twice"));
        }
        methods.push(text);
    }
    methods
}

fn target(
    section: &Section<'_>,
    (site, pools): (&Files, &Known<'_>),
    patterns: &[At<PathPattern>],
    regex: Option<&Regex>,
) -> Option<Target> {
    let given: Vec<(&str, Span)> =
        TARGETS.iter().filter_map(|name| Some((*name, section.key_span(name)?))).collect();
    let chosen = given.first().map(|(name, _)| *name);
    only_with(section, chosen, &["root", "redirect", "respond", "pool"], &["module"]);
    match given.as_slice() {
        [] if section.given("module").is_some() => {}
        [] => section.cx.missing(
            &section.span,
            "this route does not say what answers",
            "add one of `root`, `redirect`, `respond`, `pool`, `reroute` and `module`",
        ),
        [(first, place), rest @ ..] => {
            for (other, span) in rest {
                let message = format!("a route has one target, and this one has `{first}` and `{other}`");
                section.cx.conflict(span, message, "the other one", place);
            }
        }
    }
    only_with(section, chosen, &["redirect"], &["status"]);
    only_with(section, chosen, &["root", "pool"], &["strip_prefix", "rewrite"]);
    only_with(section, chosen, &["pool"], &["replace_prefix", "query"]);
    only_with(section, chosen, &["pool", "root"], &["front_controller"]);
    only_with(section, chosen, &["root"], &files::KEYS);
    only_with(section, chosen, &["pool"], &["request_headers"]);
    // Of a request that is routed again, the last route decides.
    only_with(section, chosen, &["root", "redirect", "respond", "pool"], &KEYS);
    only_with(section, chosen, &["root", "redirect", "respond", "pool"], &["delay"]);
    // All of them are read, so that all errors are found.
    let root = files_target(section, (site, pools), patterns);
    let redirect = redirect_target(section, regex);
    let respond = respond_target(&section.section("respond"));
    let pool = pool_target(section, pools, patterns);
    let reroute = rewrites::path_template(section, "reroute", regex).map(Target::Reroute);
    let Some(chosen) = chosen else {
        return section.given("module").map(|_| Target::Modules);
    };
    match chosen {
        "root" => root,
        "redirect" => redirect,
        "respond" => Some(respond),
        "reroute" => reroute,
        _ => pool,
    }
}

/// Reports keys that belong to another target than the one that is given.
fn only_with(section: &Section<'_>, chosen: Option<&str>, targets: &[&str], keys: &[&str]) {
    if chosen.is_none_or(|chosen| targets.contains(&chosen)) {
        return;
    }
    let targets = targets.join("` or `");
    for key in keys {
        if let Some(span) = section.key_span(key) {
            section.cx.error(&span, format!("`{key}` goes with `{targets}`, which this route does not have"));
        }
    }
}

fn files_target(
    section: &Section<'_>,
    (site, pools): (&Files, &Known<'_>),
    patterns: &[At<PathPattern>],
) -> Option<Target> {
    let options = files::inherited(section, site, pools);
    let root = super::directory(section, "root");
    // What is rewritten may begin otherwise.
    let judged = root.is_some() && section.given("rewrite").is_none();
    let strip_prefix = strip_prefix(section, if judged { patterns } else { &[] })?;
    Some(Target::Files(Files { root: root?.value, strip_prefix, ..options }))
}

fn redirect_target(section: &Section<'_>, regex: Option<&Regex>) -> Option<Target> {
    let status = section.number::<u16>("status");
    if ![301, 302, 303, 307, 308].contains(&status.value) {
        section.cx.error_with(
            &status.span,
            format!("`status`: {} is not the status of a redirect", status.value),
            "it takes 301, 302, 303, 307 or 308",
        );
    }
    let to = section.text("redirect")?;
    let what = format!("`redirect`: \"{}\" is not a place to redirect to", shorten(&to.value));
    let to = section.cx.accept(&to.span, &what, rewrites::location(&to.value, regex))?;
    Some(Target::Redirect { to, status: status.value })
}

fn respond_target(section: &Section<'_>) -> Target {
    let status = section.number::<u16>("status");
    let body = section.text("body");
    let content_type = section.text("content_type");
    if let (Some(body), 204 | 205 | 304) = (body.as_ref().filter(|body| !body.value.is_empty()), status.value)
    {
        section.cx.error(&body.span, format!("a response with status {} has no body", status.value));
    }
    if let Some(media) = content_type.as_ref().filter(|media| {
        !is_field_value(&media.value) || !media.value.split(';').next().is_some_and(|name| name.contains('/'))
    }) {
        section.cx.error_with(
            &media.span,
            format!("`content_type`: \"{}\" is not a media type", shorten(&media.value)),
            "it looks like \"text/html; charset=utf-8\"",
        );
    }
    let text = |at: Option<At<String>>| at.map(|at| at.value).unwrap_or_default();
    Target::Respond { status: status.value, body: text(body), content_type: text(content_type) }
}

fn pool_target(section: &Section<'_>, pools: &Known<'_>, patterns: &[At<PathPattern>]) -> Option<Target> {
    let name = section.text("pool")?;
    let index = pools.takes_requests(section, &name)?;
    let pool = pools.pools.get(index)?;
    let changed =
        ["strip_prefix", "rewrite", "front_controller"].iter().any(|key| section.given(key).is_some());
    let elsewhere = patterns.iter().find(|pattern| !mounted_at(&pattern.value, &pool.mount));
    if let Some(pattern) = elsewhere.filter(|_| !changed) {
        let message = format!(
            "this path is not below \"{}\", where pool \"{}\" is mounted",
            shorten(&pool.mount),
            shorten(&pool.name)
        );
        section.cx.error_with(
            &pattern.span,
            message,
            format!("write \"{}/*\", or change `mount`", shorten(&pool.mount)),
        );
    }
    Some(Target::Pool(index))
}

impl Known<'_> {
    /// The pool of this name, to which requests can be sent.
    pub(super) fn takes_requests(&self, section: &Section<'_>, name: &At<String>) -> Option<usize> {
        let pools = self;
        let found = pools.pools.iter().enumerate().find(|(_, pool)| pool.name == name.value);
        let Some((index, pool)) = found else {
            let hint = match nearest(&name.value, pools.pools.iter().map(|pool| pool.name.as_str())) {
                Some(meant) => format!("did you mean \"{}\"?", shorten(meant)),
                None => format!("add [pool.{}] with the command to start", shorten(&name.value)),
            };
            let message = format!("there is no pool \"{}\"", shorten(&name.value));
            section.cx.error_with(&name.span, message, hint);
            return None;
        };
        if let Source::Listen { .. } = pool.source {
            leads_to_listen_pool(section, name, pools.listens.get(index));
            return None;
        }
        Some(index)
    }
}

/// The files beside the scripts of a pool. Neither `listing` nor `try` has a meaning there: what is not found is the script's.
pub(super) fn scripts(target: &Target, site: &Files, pools: &Known<'_>) -> Option<Files> {
    let (index, options) = match target {
        Target::Pool(index) => (index, site),
        // What is not among the files.
        Target::Files(files) => match files.try_files.last() {
            Some(TryItem::Pool(index)) => (index, files),
            _ => return None,
        },
        _ => return None,
    };
    let pool = pools.pools.get(*index)?;
    let root = pool.source.fastcgi()?.root.clone()?;
    let strip_prefix = format!("{}/", pool.mount);
    Some(Files { root, strip_prefix, listing: false, try_files: Vec::new(), ..options.clone() })
}

/// A pool that accepts connections by itself takes no requests.
fn leads_to_listen_pool(section: &Section<'_>, name: &At<String>, listen: Option<&Span>) {
    let pool = shorten(&name.value);
    let message = format!("a route cannot lead to pool \"{pool}\", which accepts connections by itself");
    if let Some(listen) = listen {
        section.cx.conflict(&name.span, message, "`listen` is set here", listen);
    }
}

/// Whether all paths of the pattern are `mount` itself or below it.
fn mounted_at(pattern: &PathPattern, mount: &str) -> bool {
    match pattern {
        PathPattern::Exact(path) if path == mount => true,
        _ => below(pattern, &format!("{mount}/")),
    }
}

/// `user` of `match`: only a gate that asks who the client is can know one.
fn check_users(section: &Section<'_>, site: &Section<'_>, route: &Route) {
    if route.conditions.users.is_empty() {
        return;
    }
    let span = section.section("match").given("user").unwrap_or_else(|| section.span.clone());
    if matches!(route.target, Target::Reroute(_)) {
        let message = "`user` has no effect on a route with `reroute`: of a request that is routed again, the last route decides";
        section.cx.error_with(&span, message, "put it at the route that answers");
    }
    let access = &route.access;
    let asks = [
        (access.basic.is_given(), "basic_auth"),
        (access.jwt.is_given(), "jwt"),
        (access.forward.is_given(), "forward_auth"),
    ];
    let of_site = |key: &str| site.given(key).is_some() && site.is_table(key);
    if !asks.iter().any(|(own, key)| own.unwrap_or_else(|| of_site(key))) {
        section.cx.error_with(
            &span,
            "`user`: nothing asks who the client is, so that every request would get 403",
            "add `basic_auth`, `jwt` or `forward_auth` to the route or its site",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::paths::pattern;
    use super::*;

    fn parsed(text: &str) -> PathPattern {
        pattern(text).unwrap()
    }

    #[test]
    fn patterns_become_the_cheapest_form() {
        assert_eq!(parsed("*"), PathPattern::All);
        assert_eq!(parsed("/*"), PathPattern::All);
        assert_eq!(parsed("/**"), PathPattern::All);
        assert_eq!(parsed("/"), PathPattern::Exact("/".into()));
        assert_eq!(parsed("/app/*"), PathPattern::Prefix("/app/".into()));
        assert_eq!(parsed("*.php"), PathPattern::Suffix(".php".into()));
        assert_eq!(parsed("/a/*/b"), PathPattern::Glob(vec!["/a/".into(), "/b".into()]));
        assert_eq!(parsed("/a/**/b"), PathPattern::Glob(vec!["/a/".into(), "/b".into()]));
        assert_eq!(parsed("*/x/*"), PathPattern::Glob(vec!["".into(), "/x/".into(), "".into()]));
        for text in ["", "app", "/a?b", "/a#b", "/a/../b", "/./"] {
            assert!(pattern(text).is_err(), "{text}");
        }
    }
}
