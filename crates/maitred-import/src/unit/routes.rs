//! Listeners and routes of Unit.

use serde_json::Value as Json;

use super::applications;
use super::context::Context;
use super::patterns::{self, Taken};
use crate::drafts::{Files, Header, How, Route, Site, Target};
use crate::report::Kind;
use crate::write;

/// Routes that lead to routes, at most.
const PASSES_MAX: usize = 8;
/// Members of an action.
const ACTION: &[&str] = &[
    "pass",
    "proxy",
    "return",
    "location",
    "share",
    "fallback",
    "index",
    "types",
    "chroot",
    "follow_symlinks",
    "traverse_mounts",
    "rewrite",
    "response_headers",
];
/// Steps of all listeners, at most: routes that lead to one another twice double with each level.
const STEPS_MAX: usize = 2000;

/// The site of a listener.
pub(crate) fn listener(cx: &Context<'_>, path: &str, listener: &Json) -> Site {
    let mut routes = Vec::new();
    match listener.get("pass").and_then(Json::as_str) {
        Some(pass) => passed(cx, &format!("{path}/pass"), pass, &Taken::default(), 0, &mut routes),
        None => closed(cx, path, "a listener passes requests on", &Taken::default(), &mut routes),
    }
    Site {
        origin: (cx.place(path), path.to_owned()),
        notes: Vec::new(),
        hosts: Vec::new(),
        listen: Vec::new(),
        off: None,
        certificates: Vec::new(),
        error_pages: Vec::new(),
        error_root: None,
        log: None,
        routes,
    }
}

/// What has no counterpart answers 403, so that nothing else answers in its place.
fn closed(cx: &Context<'_>, path: &str, why: impl Into<String>, taken: &Taken, out: &mut Vec<Route>) {
    let why: String = why.into();
    cx.not_possible(path, format!("{why}: it answers 403 instead"));
    let mut route = route(cx, path, taken, Target::Respond { status: 403, body: None });
    route.notes.push("closed: there is no counterpart".to_owned());
    out.push(route);
}

/// Where `pass` leads.
fn passed(cx: &Context<'_>, path: &str, pass: &str, taken: &Taken, depth: usize, out: &mut Vec<Route>) {
    if depth > PASSES_MAX || out.len() > STEPS_MAX {
        return closed(cx, path, "too many routes lead to one another", taken, out);
    }
    let mut names = pass.split('/');
    let pool = match (names.next(), names.next(), names.next()) {
        (Some("routes"), name, _) => {
            let routes = cx.root.get("routes");
            let steps = match name {
                Some(name) => routes.and_then(|routes| routes.get(decoded(name))),
                None => routes,
            };
            let Some(steps) = steps.and_then(Json::as_array) else {
                return closed(cx, path, "there is no such route", taken, out);
            };
            cx.translated(path);
            let at = name.map_or("/routes".to_owned(), |name| format!("/routes/{name}"));
            for (number, one) in steps.iter().enumerate() {
                step(cx, &format!("{at}/{number}"), one, taken, depth, out);
            }
            return;
        }
        (Some("applications"), Some(name), target) => applications::pool(cx, &decoded(name), target),
        (Some("upstreams"), Some(name), _) => applications::upstream(cx, &decoded(name)),
        _ => Err("it leads nowhere that is known beforehand".into()),
    };
    match pool {
        Ok(name) => {
            cx.translated(path);
            out.push(route(cx, path, taken, Target::Pool { name, strip: None, rewrite: None }));
        }
        Err(why) => closed(cx, path, why, taken, out),
    }
}

fn decoded(name: &str) -> String {
    name.replace("%2F", "/").replace("%2f", "/").replace("%25", "%")
}

fn route(cx: &Context<'_>, path: &str, taken: &Taken, target: Target) -> Route {
    let mut route = Route::new(&cx.place(path), path, target);
    route.paths.clone_from(&taken.paths);
    route.regex.clone_from(&taken.regex);
    route.methods.clone_from(&taken.methods);
    route.condition = taken.condition.clone();
    route
}

fn step(cx: &Context<'_>, path: &str, step: &Json, outer: &Taken, depth: usize, out: &mut Vec<Route>) {
    let taken = match patterns::of(step.get("match")).and_then(|inner| outer.with(&inner)) {
        Ok(taken) => taken,
        Err(why) => {
            // More than it asks for, but no less.
            let wide = patterns::wide(step.get("match"));
            let wide = outer.with(&wide).unwrap_or_else(|_| outer.clone());
            return closed(cx, &format!("{path}/match"), why, &wide, out);
        }
    };
    cx.translated(path);
    if step.get("match").is_some() {
        cx.translated(&format!("{path}/match"));
    }
    let Some(action) = step.get("action") else {
        return closed(cx, path, "it has no action", &taken, out);
    };
    for key in step.as_object().into_iter().flatten().map(|(key, _)| key) {
        if !["match", "action"].contains(&key.as_str()) {
            cx.not_possible(&format!("{path}/{key}"), "this member is not known");
        }
    }
    let from = out.len();
    act(cx, &format!("{path}/action"), action, &taken, depth, out);
    let rules = headers(cx, &format!("{path}/action"), action);
    for route in out.get_mut(from..).unwrap_or_default() {
        route.response.extend(rules.iter().cloned());
    }
}

fn act(cx: &Context<'_>, path: &str, action: &Json, taken: &Taken, depth: usize, out: &mut Vec<Route>) {
    let text = |key: &str| action.get(key).and_then(Json::as_str);
    for key in action.as_object().into_iter().flatten().map(|(key, _)| key) {
        if !ACTION.contains(&key.as_str()) {
            cx.not_possible(&format!("{path}/{key}"), "this member is not known");
        }
    }
    let from = out.len();
    if let Some(pass) = text("pass") {
        passed(cx, &format!("{path}/pass"), pass, taken, depth + 1, out);
    } else if let Some(proxy) = text("proxy") {
        match applications::proxy(cx, path, proxy) {
            Ok(name) => {
                cx.translated(&format!("{path}/proxy"));
                out.push(route(cx, path, taken, Target::Pool { name, strip: None, rewrite: None }));
            }
            Err(why) => closed(cx, &format!("{path}/proxy"), why, taken, out),
        }
    } else if let Some(status) = action.get("return").and_then(Json::as_u64) {
        out.push(route(cx, path, taken, returned(cx, path, status, text("location"))));
    } else if let Some(share) = action.get("share") {
        let shared = match shared(cx, path, action, share) {
            Ok(files) => files,
            Err((place, why)) => return closed(cx, &place, why, taken, out),
        };
        let fallback = action.get("fallback");
        match fallback {
            Some(fallback) => {
                with_fallback(cx, &format!("{path}/fallback"), fallback, (shared, taken), depth, out)
            }
            None => out.push(route(cx, path, taken, Target::Files(shared))),
        }
    } else {
        closed(cx, path, "this action is not known", taken, out);
    }
    let Some(rewrite) = text("rewrite") else { return };
    if text("pass").is_some_and(|pass| pass.starts_with("routes")) {
        out.truncate(from);
        return closed(cx, &format!("{path}/rewrite"), "routes see the path that was sent", taken, out);
    }
    match template(rewrite) {
        Ok(to) => {
            cx.translated(&format!("{path}/rewrite"));
            for route in out.get_mut(from..).unwrap_or_default() {
                match &mut route.target {
                    Target::Pool { rewrite, .. } => *rewrite = Some(to.clone()),
                    Target::Files(files) => files.rewrite = Some(to.clone()),
                    _ => {}
                }
            }
        }
        Err(why) => {
            out.truncate(from);
            closed(cx, &format!("{path}/rewrite"), why, taken, out);
        }
    }
}

fn returned(cx: &Context<'_>, path: &str, status: u64, location: Option<&str>) -> Target {
    let status = u16::try_from(status).ok().filter(|status| (200..=599).contains(status));
    let place = format!("{path}/return");
    let Some(status) = status else {
        cx.not_possible(&place, "this status cannot be sent: it answers 403 instead");
        return Target::Respond { status: 403, body: None };
    };
    if let (301 | 302 | 303 | 307 | 308, Some(location)) = (status, location) {
        return match template(location) {
            Ok(to) => {
                cx.translated(&place);
                cx.translated(&format!("{path}/location"));
                // A placeholder behind the first slash could make a host of a path.
                let to = match to.starts_with("/{") || to.starts_with("{path}") || to.starts_with("{uri}") {
                    true => format!(
                        "{{scheme}}://{{host}}{}",
                        to.strip_prefix("/{path}").map_or(to.clone(), |rest| format!("{{path}}{rest}"))
                    ),
                    false => to,
                };
                Target::Redirect { to, status }
            }
            Err(why) => {
                cx.not_possible(&format!("{path}/location"), format!("{why}: it answers 403 instead"));
                Target::Respond { status: 403, body: None }
            }
        };
    }
    if location.is_some() {
        cx.say(&format!("{path}/location"), Kind::Worse, "a response without a redirect has no `Location`");
    }
    match status >= 400 {
        true => cx.say(&place, Kind::Better, "errors have a line of text"),
        false => cx.translated(&place),
    }
    Target::Respond { status, body: None }
}

/// A text with Unit's variables as a template.
fn template(text: &str) -> Result<String, String> {
    if text.replace("${", "").contains('{') {
        return Err("`{` and `}` begin and end placeholders".into());
    }
    replaced(text, |name| {
        let plain = match name {
            "uri" => "path",
            "request_uri" => "uri",
            "host" => "host",
            "remote_addr" => "client",
            _ => "",
        };
        match (plain, name.strip_prefix("arg_"), name.strip_prefix("header_")) {
            ("", Some(parameter), _) => Some(format!("{{query.{parameter}}}")),
            ("", _, Some(field)) => Some(format!("{{header.{}}}", field.replace('_', "-"))),
            ("", ..) => None,
            (plain, ..) => Some(format!("{{{plain}}}")),
        }
    })
}

/// The same as the value of a field.
fn field(text: &str) -> Result<String, String> {
    replaced(text, |name| {
        let plain = match name {
            "host" => "host",
            "remote_addr" => "client",
            "request_id" => "request_id",
            _ => return None,
        };
        Some(format!("{}{plain}{}", write::OPEN, write::CLOSE))
    })
}

fn replaced(text: &str, of: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (name, behind) = match after.strip_prefix('{').and_then(|after| after.split_once('}')) {
            Some(braced) => braced,
            None => after.split_at(
                after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len()),
            ),
        };
        rest = behind;
        match name {
            "dollar" => out.push('$'),
            name => match of(name) {
                Some(found) => out.push_str(&found),
                None => return Err(format!("there is no counterpart of the variable `${name}`")),
            },
        }
    }
    Ok(out + rest)
}

/// `share`: paths with `$uri` in them, below one directory.
///
/// # Errors
/// What has no counterpart, and why.
fn shared(cx: &Context<'_>, path: &str, action: &Json, share: &Json) -> Result<Files, (String, String)> {
    const WHY: &str = "the directory is fixed here, and one for all paths";
    let place = format!("{path}/share");
    let texts: Vec<&str> = match share {
        Json::String(text) => vec![text],
        Json::Array(all) => all.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    let wrong = || (place.clone(), WHY.to_owned());
    let first = texts.first().ok_or_else(wrong)?;
    let (root, behind) = match first.split_once("$uri") {
        Some((root, behind)) => (root.trim_end_matches('/'), Some(behind)),
        None => (first.trim_end_matches('/'), None),
    };
    let mut files = Files { place: Some(cx.place(&place)), ..Files::default() };
    let (root, fixed) = match behind {
        Some("") => (root, None),
        Some(_) | None if behind.is_none() && (first.ends_with('/') || texts.len() > 1) => (root, None),
        // A file whose name has the path in its middle is none of one directory.
        Some(_) => return Err(wrong()),
        None => {
            root.rsplit_once('/').map(|(root, file)| (root, Some(format!("/{file}")))).ok_or_else(wrong)?
        }
    };
    if root.contains('$') || texts.iter().any(|text| !text.starts_with(root)) {
        return Err(wrong());
    }
    root.clone_into(&mut files.root);
    if files.root.is_empty() {
        files.root.push('/');
    }
    files.missing = !cx.machine.has_directory(&files.root);
    files.rewrite = fixed;
    if texts.len() > 1 {
        let item = |text: &&str| text.strip_prefix(root).map(|rest| rest.replacen("$uri", "{path}", 1));
        files.tries = texts.iter().filter_map(item).collect();
    }
    if let Some(index) = action.get("index").and_then(Json::as_str).filter(|index| *index != "index.html") {
        files.index = vec![index.to_owned()];
    }
    links(cx, path, action, &files.root);
    if action.get("types").is_some() {
        let why = "routes do not ask for media types; `path = [\"*.css\", …]` asks for endings";
        return Err((format!("{path}/types"), why.to_owned()));
    }
    match files.missing {
        true => cx.say(
            &place,
            Kind::Translated,
            format!("as a comment: there is no directory {} on this machine", files.root),
        ),
        false => cx.translated(&place),
    }
    Ok(files)
}

/// What an action says of its files that needs no keys.
fn links(cx: &Context<'_>, path: &str, action: &Json, root: &str) {
    if action.get("index").is_some() {
        cx.translated(&format!("{path}/index"));
    }
    let chroot = action.get("chroot").and_then(Json::as_str).map(|chroot| chroot.trim_end_matches('/'));
    if let Some(chroot) = chroot {
        let below = root.strip_prefix(chroot).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let kind = if below { Kind::NotNeeded } else { Kind::Choice };
        cx.say(&format!("{path}/chroot"), kind, "no link leads out of `root`");
    }
    for key in ["follow_symlinks", "traverse_mounts"] {
        let place = format!("{path}/{key}");
        match action.get(key).map(Json::as_bool) {
            None => {}
            Some(Some(false)) => {
                cx.say(&place, Kind::Worse, "links and mounts that stay below `root` are followed");
            }
            Some(Some(true)) if key == "follow_symlinks" => {
                cx.say(&place, Kind::Choice, "links stay below `root`, unless `symlinks` says otherwise");
            }
            Some(Some(true)) => cx.say(&place, Kind::NotNeeded, "mounts below `root` are served"),
            Some(None) => cx.not_possible(&place, "this is no boolean"),
        }
    }
}

/// Files, and what answers if there is none.
fn with_fallback(
    cx: &Context<'_>,
    path: &str,
    fallback: &Json,
    (mut files, taken): (Files, &Taken),
    depth: usize,
    out: &mut Vec<Route>,
) {
    let mut behind = Vec::new();
    act(cx, path, fallback, taken, depth + 1, &mut behind);
    let only = route(cx, path, taken, Target::Respond { status: 403, body: None });
    let same = |one: &Route| {
        (&one.paths, &one.regex, &one.methods, &one.condition)
            == (&only.paths, &only.regex, &only.methods, &only.condition)
    };
    const SEVERAL: &str = "what is no file goes to one pool here, and not to several routes";
    let [one] = behind.as_slice() else { return closed(cx, path, SEVERAL, taken, out) };
    if !same(one) || !one.response.is_empty() {
        return closed(cx, path, SEVERAL, taken, out);
    }
    if files.tries.is_empty() {
        files.tries.push("{path}".to_owned());
    }
    match &one.target {
        Target::Pool { name, strip: None, rewrite: None } => files.tries.push(format!("pool:{name}")),
        Target::Respond { status: status @ 400.., body: None } => files.tries.push(format!("={status}")),
        Target::Files(other) if other.root == files.root && other.rewrite.is_some() => {
            files.tries.extend(other.rewrite.clone());
        }
        _ => {
            let why = "what is no file goes to a pool, to a file of the same directory, or gets a status";
            return closed(cx, path, why, taken, out);
        }
    }
    out.push(route(cx, path.trim_end_matches("/fallback"), taken, Target::Files(files)));
}

fn headers(cx: &Context<'_>, path: &str, action: &Json) -> Vec<Header> {
    let mut rules = Vec::new();
    for (name, value) in action.get("response_headers").and_then(Json::as_object).into_iter().flatten() {
        let place = format!("{path}/response_headers/{name}");
        match value {
            Json::Null => {
                cx.translated(&place);
                rules.push(Header { how: How::Remove, name: name.clone(), value: String::new() });
            }
            Json::String(text) if !text.contains('`') => match field(text) {
                Ok(value) => {
                    cx.translated(&place);
                    rules.push(Header { how: How::Set, name: name.clone(), value });
                }
                Err(why) => cx.not_possible(&place, why),
            },
            _ => cx.not_possible(&place, "values of fields are made without scripts"),
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drafts::Match;

    #[test]
    fn variables_become_placeholders() {
        assert_eq!(template("/a$uri?x=${arg_y}").as_deref(), Ok("/a{path}?x={query.y}"));
        assert!(template("$method").is_err());
    }

    #[test]
    fn conditions_of_two_routes_are_joined() {
        let of = |text: &str| patterns::of(serde_json::from_str::<Json>(text).ok().as_ref()).unwrap();
        let outer = of(r#"{"host": ["a.org", "b.org"], "uri": "/x/*"}"#);
        assert_eq!(outer.condition.any.len(), 2);
        assert!(outer.with(&of(r#"{"uri": "!*.php"}"#)).is_ok());
        assert_eq!(
            outer.with(&of(r#"{"uri": "/x/y"}"#)),
            Err("one route cannot say all of these conditions".into())
        );
        assert_eq!(of(r#"{"method": "!POST"}"#).methods.len(), 6);
        assert_eq!(Match::default(), of("{}").condition);
    }
}
