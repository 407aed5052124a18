//! `[[site.route]]`

use super::super::finding::{At, Span};
use super::super::foreign::path_hint;
use super::super::meaning::{Files, PathPattern, Route, Source, Target};
use super::super::reader::{Section, shorten};
use super::super::suggest::nearest;
use super::super::values::{is_field_value, is_token};
use super::pools::Known;
use super::{files, headers};

/// The keys that say what answers.
const TARGETS: [&str; 4] = ["root", "redirect", "respond", "pool"];

pub(super) fn routes(sections: &[Section<'_>], site: &Files, pools: &Known<'_>) -> Vec<Route> {
    let mut routes: Vec<(Route, Span)> = Vec::new();
    for section in sections {
        let pattern = path(section);
        let methods = methods(section);
        let target = target(section, site, pools, pattern.as_ref());
        let (Some(pattern), Some(target)) = (pattern, target) else { continue };
        let route = Route {
            pattern: pattern.value,
            methods,
            scripts: scripts(&target, site, pools),
            target,
            response_headers: headers::of_responses(&section.section("response_headers")),
            request_headers: headers::of_requests(&section.section("request_headers")),
        };
        if let Some((_, earlier)) = routes.iter().find(|(earlier, _)| takes_all_of(earlier, &route)) {
            section.cx.conflict(
                &pattern.span,
                "no request reaches this route: an earlier one takes all its paths and methods",
                "the first route that matches path and method decides",
                earlier,
            );
        }
        routes.push((route, pattern.span));
    }
    routes.into_iter().map(|(route, _)| route).collect()
}

fn path(section: &Section<'_>) -> Option<At<PathPattern>> {
    let text = section.text("path")?;
    let what = format!("`path`: \"{}\" is not a pattern", shorten(&text.value));
    let value = section.cx.accept(&text.span, &what, pattern(&text.value))?;
    Some(At { value, span: text.span })
}

/// A pattern of paths; what is wrong with it otherwise.
fn pattern(text: &str) -> Result<PathPattern, String> {
    if !text.starts_with(['/', '*']) {
        return Err(path_hint(&shorten(text)));
    }
    if text.contains(['?', '#']) {
        return Err("only the path is matched, without query and fragment".into());
    }
    if text.contains('\0') || text.split('/').any(|part| part == "." || part == "..") {
        return Err("paths have no `.` and `..` in them when they are matched".into());
    }
    // Two stars in a row are one: an empty piece between stars says nothing.
    let count = text.split('*').count();
    let says_something = |i: usize, piece: &str| i == 0 || i + 1 == count || !piece.is_empty();
    let pieces = text.split('*').enumerate().filter(|(i, piece)| says_something(*i, piece));
    let mut pieces: Vec<String> = pieces.map(|(_, piece)| piece.to_owned()).collect();
    Ok(match pieces.as_mut_slice() {
        [only] => PathPattern::Exact(std::mem::take(only)),
        [before, after] if after.is_empty() && (before.is_empty() || before == "/") => PathPattern::All,
        [before, after] if after.is_empty() => PathPattern::Prefix(std::mem::take(before)),
        [before, after] if before.is_empty() => PathPattern::Suffix(std::mem::take(after)),
        _ => PathPattern::Glob(pieces),
    })
}

fn methods(section: &Section<'_>) -> Vec<String> {
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
    site: &Files,
    pools: &Known<'_>,
    pattern: Option<&At<PathPattern>>,
) -> Option<Target> {
    let given: Vec<(&str, Span)> =
        TARGETS.iter().filter_map(|name| Some((*name, section.key_span(name)?))).collect();
    let chosen = given.first().map(|(name, _)| *name);
    match given.as_slice() {
        [] => section.cx.missing(
            &section.span,
            "this route does not say what answers",
            "add one of `root`, `redirect`, `respond` and `pool`",
        ),
        [(first, place), rest @ ..] => {
            for (other, span) in rest {
                let message = format!("a route has one target, and this one has `{first}` and `{other}`");
                section.cx.conflict(span, message, "the other one", place);
            }
        }
    }
    only_with(section, chosen, "redirect", &["status"]);
    only_with(section, chosen, "root", &["strip_prefix"]);
    only_with(section, chosen, "root", &files::KEYS);
    // All of them are read, so that all errors are found.
    let root = files_target(section, site, pattern);
    let redirect = redirect_target(section);
    let respond = respond_target(&section.section("respond"));
    let pool = pool_target(section, pools, pattern);
    match chosen? {
        "root" => root,
        "redirect" => redirect,
        "respond" => Some(respond),
        _ => pool,
    }
}

/// Reports keys that belong to another target than the one that is given.
fn only_with(section: &Section<'_>, chosen: Option<&str>, target: &str, keys: &[&str]) {
    if chosen.is_none_or(|chosen| chosen == target) {
        return;
    }
    for key in keys {
        if let Some(span) = section.key_span(key) {
            section.cx.error(&span, format!("`{key}` goes with `{target}`, which this route does not have"));
        }
    }
}

fn files_target(section: &Section<'_>, site: &Files, pattern: Option<&At<PathPattern>>) -> Option<Target> {
    let options = files::inherited(section, site);
    let strip = section.text("strip_prefix")?;
    let root = super::directory(section, "root");
    let text = strip.value.as_str();
    if !text.starts_with('/') || !text.ends_with('/') {
        section.cx.error_with(
            &strip.span,
            format!("`strip_prefix`: \"{}\" is not the start of a path", shorten(text)),
            "it starts and ends with `/`: \"/static/\"",
        );
    } else if let (true, Some(pattern)) =
        (root.is_some(), pattern.filter(|pattern| !below(&pattern.value, text)))
    {
        section.cx.conflict(
            &strip.span,
            format!("`path` also takes paths that do not start with \"{}\"", shorten(text)),
            "this is the route's path",
            &pattern.span,
        );
    }
    Some(Target::Files(Files { root: root?.value, strip_prefix: strip.value, ..options }))
}

fn redirect_target(section: &Section<'_>) -> Option<Target> {
    let status = section.number::<u16>("status");
    if ![301, 302, 303, 307, 308].contains(&status.value) {
        section.cx.error_with(
            &status.span,
            format!("`status`: {} is not the status of a redirect", status.value),
            "it takes 301, 302, 303, 307 or 308",
        );
    }
    let to = section.text("redirect")?;
    if let Err(why) = check_template(&to.value) {
        let message = format!("`redirect`: \"{}\" is not a place to redirect to", shorten(&to.value));
        section.cx.error_with(&to.span, message, why);
    }
    Some(Target::Redirect { to: to.value, status: status.value })
}

fn check_template(to: &str) -> Result<(), String> {
    let plain = to.replace("{path}", "").replace("{uri}", "");
    if plain.contains(['{', '}']) {
        return Err("the placeholders are `{path}` and `{uri}`".into());
    }
    if to.is_empty() || !to.is_ascii() || !is_field_value(to) || to.contains(' ') {
        return Err("a URI has only printable ASCII characters and no spaces; encode others as `%XX`".into());
    }
    // `//host` after a placeholder was filled in would lead to any host that the client names.
    if to.starts_with('{') || to.starts_with("/{") || to.starts_with("//") {
        return Err(
            "a client could make it lead to any host: start it with \"https://example.com\", or with a path \
                    of its own before the placeholder"
                .into(),
        );
    }
    let scheme = to.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && !rest.is_empty()
            && !rest.starts_with(['/', '{'])
    });
    match scheme || to.starts_with('/') {
        true => Ok(()),
        false => Err("it starts with \"https://\" and a host, or with `/`".into()),
    }
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

fn pool_target(
    section: &Section<'_>,
    pools: &Known<'_>,
    pattern: Option<&At<PathPattern>>,
) -> Option<Target> {
    let name = section.text("pool")?;
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
        leads_to_listen_pool(section, &name, pools.listens.get(index));
        return None;
    }
    if let Some(pattern) = pattern.filter(|pattern| !mounted_at(&pattern.value, &pool.mount)) {
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

/// The files beside the scripts of a pool. Neither `listing` nor `try` has a meaning there: what is not found is the script's.
fn scripts(target: &Target, site: &Files, pools: &Known<'_>) -> Option<Files> {
    let Target::Pool(index) = target else { return None };
    let pool = pools.pools.get(*index)?;
    let root = pool.source.fastcgi()?.root.clone()?;
    let strip_prefix = format!("{}/", pool.mount);
    Some(Files { root, strip_prefix, listing: false, try_files: Vec::new(), ..site.clone() })
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

/// Whether all paths that the pattern takes start with this.
fn below(pattern: &PathPattern, prefix: &str) -> bool {
    match pattern {
        PathPattern::All | PathPattern::Suffix(_) => prefix == "/",
        PathPattern::Exact(path) | PathPattern::Prefix(path) => path.starts_with(prefix),
        PathPattern::Glob(pieces) => {
            prefix == "/" || pieces.first().is_some_and(|first| first.starts_with(prefix))
        }
    }
}

/// Whether the earlier route takes every request that the later one would. May miss some; is never wrong when it
/// says yes.
fn takes_all_of(earlier: &Route, later: &Route) -> bool {
    let all_methods = earlier.methods.is_empty()
        || (!later.methods.is_empty() && later.methods.iter().all(|method| earlier.methods.contains(method)));
    all_methods && covers(&earlier.pattern, &later.pattern)
}

/// Whether every path that the later pattern takes is taken by the earlier one. May miss some; is never wrong when it
/// says yes.
fn covers(earlier: &PathPattern, later: &PathPattern) -> bool {
    match (earlier, later) {
        (PathPattern::All, _) => true,
        (PathPattern::Prefix(prefix), later) => below(later, prefix),
        (PathPattern::Suffix(suffix), PathPattern::Exact(end) | PathPattern::Suffix(end)) => {
            end.ends_with(suffix)
        }
        (PathPattern::Suffix(suffix), PathPattern::Glob(pieces)) => {
            pieces.last().is_some_and(|end| end.ends_with(suffix))
        }
        (PathPattern::Glob(pieces), PathPattern::Exact(path)) => glob_matches(pieces, path),
        (earlier, later) => earlier == later,
    }
}

fn glob_matches(pieces: &[String], path: &str) -> bool {
    let [first, middle @ .., last] = pieces else { return false };
    let Some(mut rest) = path.strip_prefix(first.as_str()) else { return false };
    for piece in middle {
        let Some((_, after)) = rest.split_once(piece.as_str()) else { return false };
        rest = after;
    }
    rest.ends_with(last.as_str())
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_pattern_covers_what_it_always_takes() {
        for (earlier, later) in [
            ("*", "*.php"),
            ("/a/*", "/a/b/*"),
            ("/a/*", "/a/b"),
            ("/a/*", "/a/*/b"),
            ("*.php", "/x.php"),
            ("*.php", "*.x.php"),
            ("*.php", "/a/*.php"),
            ("/a/*/b", "/a/x/b"),
            ("/a", "/a"),
        ] {
            assert!(covers(&parsed(earlier), &parsed(later)), "{earlier} {later}");
        }
        for (earlier, later) in [
            ("/a/*", "/a"),
            ("/a/*", "*"),
            ("*.php", "/a/*"),
            ("/a/b", "/a/*"),
            ("/a/*/b", "/a/b"),
            ("/a/*", "/ab/*"),
        ] {
            assert!(!covers(&parsed(earlier), &parsed(later)), "{earlier} {later}");
        }
    }

    #[test]
    fn a_redirect_never_leads_where_the_client_says() {
        for to in ["https://example.com{uri}", "/new/{path}", "/", "https://example.com/?from={uri}"] {
            assert_eq!(check_template(to), Ok(()), "{to}");
        }
        for to in [
            "",
            "{uri}",
            "/{uri}",
            "//x{uri}",
            "https://{path}",
            "https:///x",
            "x",
            "/a b",
            "/{host}",
            "/\r\nA: b",
        ] {
            assert!(check_template(to).is_err(), "{to}");
        }
    }
}
