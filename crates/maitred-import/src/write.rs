//! From sites, routes and pools to tables. What all routes of a site have in common is written once, in the site.

use super::drafts::{Files, Header, How, Route, Site, Target};
use super::model::{Block, Value};
use super::report::Place;

/// The tables of a site and its routes.
pub(crate) fn site(mut site: Site) -> Vec<Block> {
    let mut block = Block::new("[[site]]").from(&site.origin.0, &site.origin.1);
    block.notes = std::mem::take(&mut site.notes);
    if !site.hosts.is_empty() {
        block.push("hosts", Value::texts(&site.hosts), None);
    }
    if !site.listen.is_empty() {
        block.push("listen", Value::one_or_more(&site.listen), None);
    }
    // The last route of a site that takes everything is the site's own directory, if it is one.
    let pages = !site.error_pages.is_empty() || site.routes.iter().any(|route| !route.error_pages.is_empty());
    let pages_root = site.error_root.take().filter(|_| pages);
    // Pages are looked for below the root of the site, so that a site with pages elsewhere has only those.
    let elsewhere = |route: &Route| match (&route.target, &pages_root) {
        (Target::Files(files), Some((root, _, false))) => files.root != *root || files.missing,
        _ => false,
    };
    let mut own = site.routes.pop_if(|route| is_own(route) && !elsewhere(route));
    let mut shared = Shared::of(&site.routes.iter().chain(&own).collect::<Vec<_>>());
    shared.log = site.log.take();
    // What the site says would hold for its other routes, too.
    site.routes.extend(own.take_if(|route| !shared.covers(route)));
    if let Some(route) = &own {
        if let Target::Files(files) = &route.target {
            files_keys(&mut block, files, None);
        }
        block.notes.extend(route.notes.iter().cloned());
    }
    common(&mut block, &shared);
    certificates(&mut block, &site);
    let root =
        own.as_ref().is_some_and(|route| matches!(&route.target, Target::Files(files) if !files.missing));
    let pages_there = pages_root.as_ref().is_some_and(|(_, _, missing)| !missing);
    if !root && !pages_there {
        // Pages are looked for below the root of the site.
        site.routes.iter_mut().for_each(|route| route.error_pages.clear());
    }
    push_pages(
        &mut block,
        &site.error_pages,
        pages_root.as_ref().filter(|_| own.is_none()),
        root || pages_there,
    );
    let inherited = own.as_ref().and_then(|route| match &route.target {
        Target::Files(files) if !files.missing => Some(files.clone()),
        _ => None,
    });
    let mut blocks = vec![block];
    blocks.extend(site.routes.iter().map(|draft| route(draft, &shared, inherited.as_ref())));
    let bare = own.is_none() && pages_there && !site.routes.iter().any(Route::takes_all);
    let needs_answer = blocks.len() == 1 && !root || bare;
    let missing = own.as_ref().filter(|_| !root);
    if needs_answer || missing.is_some() {
        blocks.push(nothing(missing.map_or(&site.origin.0, |route| &route.origin.0)));
    }
    if site.off.is_some() {
        blocks.iter_mut().for_each(|block| block.off.clone_from(&site.off));
    }
    blocks
}

/// Keys that sites can have from `[defaults]`.
const OF_DEFAULTS: &[&str] = &[
    "access_log",
    "compress",
    "error_pages",
    "expires",
    "limit",
    "limits",
    "request_buffering",
    "request_headers",
    "response_headers",
];

/// What all of several sites say is said once, before them.
pub(crate) fn defaults(blocks: &mut [Block]) -> Option<Block> {
    let is_site = |block: &&Block| block.header == "[[site]]" && block.off.is_none();
    let sites: Vec<&Block> = blocks.iter().filter(is_site).collect();
    let (first, rest) = sites.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let in_all = |entry: &&super::model::Entry| {
        let same = |other: &super::model::Entry| (&other.key, &other.value) == (&entry.key, &entry.value);
        entry.off.is_none()
            && OF_DEFAULTS.contains(&entry.key.as_str())
            && rest.iter().all(|site| site.entries.iter().any(same))
    };
    let shared: Vec<super::model::Entry> = first.entries.iter().filter(in_all).cloned().collect();
    if shared.is_empty() {
        return None;
    }
    for block in blocks.iter_mut().filter(|block| block.header == "[[site]]" && block.off.is_none()) {
        block.entries.retain(|entry| !shared.iter().any(|known| known.key == entry.key));
    }
    let mut block = Block::new("[defaults]");
    block.entries = shared;
    Some(block)
}

/// The pages for errors, and the directory that they are below, if it is not that of the site's files. `there`: it is there.
fn push_pages(
    block: &mut Block,
    pages: &[(u16, String)],
    pages_root: Option<&(String, Place, bool)>,
    there: bool,
) {
    match pages_root {
        Some((root, place, false)) => block.push("root", root.as_str(), Some(place)),
        Some((root, place, true)) => {
            let when = format!("{root} is there on this machine, and another route takes everything");
            block.push_off("root", root.as_str(), Some(place), &when);
        }
        None => {}
    }
    match (pages.is_empty(), there) {
        (true, _) => {}
        (false, true) => block.push("error_pages", error_pages(pages), None),
        (false, false) => {
            block.push_off("error_pages", error_pages(pages), None, "the site has a `root`");
        }
    }
}

fn error_pages(pages: &[(u16, String)]) -> Value {
    Value::Table(pages.iter().map(|(status, path)| (status.to_string(), path.as_str().into())).collect())
}

/// Stands for a directory that is not there: nginx answers 404 as well.
fn nothing(place: &Place) -> Block {
    let mut block = Block::new("[[site.route]]").from(place, "nothing else is there");
    block.push("path", "/*", None);
    block.push("respond", Value::Table(vec![("status".into(), 404.into())]), None);
    block
}

fn is_own(route: &mut Route) -> bool {
    let plain =
        matches!(&route.target, Target::Files(files) if files.strip.is_none() && files.rewrite.is_none());
    let plain =
        plain && route.later.is_none() && route.error_pages.is_empty() && route.front_controller.is_none();
    let plain = plain && route.keys.is_empty();
    plain && route.takes_all() && !(route.target_is_missing() && route.falls_back().is_some())
}

fn certificates(block: &mut Block, site: &Site) {
    for usable in [true, false] {
        let of = site.certificates.iter().filter(|(_, _, found, _)| *found == usable);
        let pairs: Vec<Value> = of
            .clone()
            .map(|(certificate, key, _, _)| {
                Value::Table(vec![
                    ("certificate".into(), certificate.as_str().into()),
                    ("key".into(), key.as_str().into()),
                ])
            })
            .collect();
        let place = of.map(|(_, _, _, place)| place).next();
        match (pairs.is_empty(), usable) {
            (true, _) => {}
            (false, true) => block.push("certificates", Value::List(pairs), place),
            (false, false) => {
                block.push_off(
                    "certificates",
                    Value::List(pairs),
                    place,
                    "these files are there, in PEM, and can be read",
                );
            }
        }
    }
}

/// What every route of a site says.
#[derive(Default)]
struct Shared {
    response: Vec<Header>,
    request: Vec<Header>,
    body_max: Option<u64>,
    times: Vec<(&'static str, u64)>,
    rates: Vec<(&'static str, u64)>,
    compress: Option<Vec<(String, Value)>>,
    quiet: bool,
    streamed: bool,
    log: Option<String>,
    expires: Vec<(String, String)>,
    limits: Vec<String>,
    gates: Vec<(&'static str, Value)>,
}

impl Shared {
    fn of(all: &[&Route]) -> Shared {
        // An error of a route that is closed may have the fields of all others as well.
        let plain_error = |route: &Route| {
            let error = matches!(&route.target, Target::Respond { status: 400.., body: None });
            error && route.response.is_empty()
        };
        let routes: Vec<&Route> = all.iter().copied().filter(|route| !plain_error(route)).collect();
        let Some((first, rest)) = routes.split_first() else { return Shared::default() };
        let in_all = |header: &&Header| rest.iter().all(|route| route.response.contains(header));
        let to_pool = |route: &&&Route| route.goes_to_pool();
        let pools: Vec<&&Route> = routes.iter().filter(to_pool).collect();
        // A redirect and a short text are as they are, compressed or not.
        let has_content = |route: &&Route| matches!(route.target, Target::Files(_) | Target::Pool { .. });
        let contents: Vec<&Route> = routes.iter().copied().filter(has_content).collect();
        let request = match pools.split_first() {
            Some((first, rest)) => {
                let in_all = |header: &&Header| rest.iter().all(|route| route.request.contains(header));
                first.request.iter().filter(in_all).cloned().collect()
            }
            None => Vec::new(),
        };
        Shared {
            response: first.response.iter().filter(in_all).cloned().collect(),
            request,
            body_max: usual_body(&routes),
            times: common_to(&routes, |route| &route.times),
            rates: common_to(&routes, |route| &route.rates),
            compress: common_to(&contents, |route| &route.compress),
            quiet: all.iter().all(|route| route.quiet),
            streamed: !pools.is_empty() && pools.iter().all(|route| route.streamed),
            log: None,
            expires: common_to(all, |route| &route.expires),
            limits: common_to(all, |route| &route.limits),
            gates: match routes.iter().any(|route| route.later.is_some()) {
                true => Vec::new(),
                false => common_to(&routes, |route| &route.gates),
            },
        }
    }

    /// Whether a route says nothing else.
    fn covers(&self, route: &Route) -> bool {
        let logged = (self.quiet, &self.log) == (route.quiet, &route.log)
            || (self.quiet == route.quiet && route.log.is_none());
        let same = self.expires == route.expires && self.compress == route.compress && logged;
        let bounds = (self.body_max, &self.times, &self.rates, &self.limits, &self.gates)
            == (route.body_max, &route.times, &route.rates, &route.limits, &route.gates);
        same && bounds && route.response.iter().all(|header| self.response.contains(header))
    }
}

/// The largest body that most routes to pools have, if each of them says one: the others say theirs.
fn usual_body(routes: &[&Route]) -> Option<u64> {
    let of_pools: Vec<Option<u64>> =
        routes.iter().filter(|route| route.goes_to_pool()).map(|route| route.body_max).collect();
    let all =
        if of_pools.is_empty() { routes.iter().map(|route| route.body_max).collect() } else { of_pools };
    let count = |max: u64| all.iter().filter(|one| **one == Some(max)).count();
    let given: Vec<u64> = all.iter().copied().collect::<Option<_>>()?;
    given.into_iter().max_by_key(|max| (count(*max), *max))
}

/// What all of them say; nothing, if they differ.
fn common_to<'r, T: Default + Clone + PartialEq + 'r>(routes: &[&'r Route], of: fn(&'r Route) -> &'r T) -> T {
    let Some((first, rest)) = routes.split_first() else { return T::default() };
    match rest.iter().all(|route| of(route) == of(first)) {
        true => of(first).clone(),
        false => T::default(),
    }
}

/// The largest `body_bytes_max` that there can be.
const BODY_MOST: u64 = 64 << 30;

/// `bodies_disk_bytes_max` of `[limits]`, where some body may be larger than all have room for unless told otherwise.
pub(crate) fn room_for_bodies(block: &mut Block, largest: Option<u64>) {
    if let Some(largest) = largest.filter(|largest| *largest > 4 << 30) {
        block.push("bodies_disk_bytes_max", size(largest.min(BODY_MOST)), None);
    }
}

/// The keys that sites and routes have in common.
fn common(block: &mut Block, keys: &Shared) {
    if let Some(rules) = rules(&keys.response) {
        block.push("response_headers", rules, None);
    }
    if let Some(rules) = rules(&keys.request) {
        block.push("request_headers", rules, None);
    }
    if !keys.expires.is_empty() {
        let pairs = keys.expires.iter().map(|(kind, value)| (kind.clone(), value.as_str().into()));
        block.push("expires", Value::Table(pairs.collect()), None);
    }
    let body = keys.body_max.map(|max| ("body_bytes_max".to_owned(), size(max.min(BODY_MOST)).into()));
    let times = keys.times.iter().map(|(key, millis)| ((*key).to_owned(), time(*millis).into()));
    let rates = keys.rates.iter().map(|(key, bytes)| ((*key).to_owned(), size(*bytes).into()));
    let limits: Vec<(String, Value)> = body.into_iter().chain(times).chain(rates).collect();
    if !limits.is_empty() {
        block.push("limits", Value::Table(limits), None);
    }
    match keys.compress.as_deref() {
        None => {}
        Some([]) => block.push("compress", true, None),
        Some(entries) => block.push("compress", Value::Table(entries.to_vec()), None),
    }
    if keys.streamed {
        block.push("request_buffering", "off", None);
    }
    match (keys.quiet, &keys.log) {
        (true, _) => block.push("access_log", false, None),
        (false, Some(name)) => block.push("access_log", name.as_str(), None),
        (false, None) => {}
    }
    if !keys.limits.is_empty() {
        block.push("limit", Value::texts(&keys.limits), None);
    }
    for (key, value) in &keys.gates {
        block.push(key, value.clone(), None);
    }
}

/// What stands for the braces of a placeholder in the value of a [`Header`], whose own braces are no such.
pub(crate) const OPEN: char = super::drafts::BRACES[0];
/// The brace at its end.
pub(crate) const CLOSE: char = super::drafts::BRACES[1];

fn rules(headers: &[Header]) -> Option<Value> {
    let of = |how| {
        let mut pairs: Vec<(String, Value)> = Vec::new();
        for header in headers.iter().filter(|header| header.how == how) {
            // The last one counts: a table has each name once.
            pairs.retain(|(name, _)| !name.eq_ignore_ascii_case(&header.name));
            pairs.push((header.name.clone(), written(&header.value).into()));
        }
        pairs
    };
    let mut entries = Vec::new();
    for (key, how) in [("set", How::Set), ("add", How::Add), ("if_absent", How::IfAbsent)] {
        let pairs = of(how);
        if !pairs.is_empty() {
            entries.push((key.to_owned(), Value::Table(pairs)));
        }
    }
    let removed: Vec<String> = of(How::Remove).into_iter().map(|(name, _)| name).collect();
    if !removed.is_empty() {
        entries.push(("remove".to_owned(), Value::texts(&removed)));
    }
    (!entries.is_empty()).then_some(Value::Table(entries))
}

/// A value with its placeholders. A brace that begins none is written twice.
pub(crate) fn written(value: &str) -> String {
    let [open, close] = super::drafts::BRACES;
    maitred_config::Template::escape(value).replace(open, "{").replace(close, "}")
}

impl Route {
    pub(crate) fn goes_to_pool(&self) -> bool {
        matches!(&self.target, Target::Pool { .. }) || self.falls_back().is_some()
    }

    fn target_is_missing(&self) -> bool {
        matches!(&self.target, Target::Files(files) if files.missing)
    }

    /// The pool that gets requests of the route.
    pub(super) fn pool(&self) -> Option<&str> {
        match &self.target {
            Target::Pool { name, .. } => Some(name),
            _ => self.falls_back(),
        }
    }

    /// The pool that takes what is no file.
    fn falls_back(&self) -> Option<&str> {
        let Target::Files(files) = &self.target else { return None };
        files.tries.last()?.strip_prefix("pool:")
    }
}

fn route(draft: &Route, shared: &Shared, site: Option<&Files>) -> Block {
    let mut block = Block::new("[[site.route]]").from(&draft.origin.0, &draft.origin.1);
    block.notes.clone_from(&draft.notes);
    if !draft.paths.is_empty() {
        block.push("path", Value::one_or_more(&draft.paths), None);
    }
    if let Some(regex) = &draft.regex {
        block.push("path_regex", regex.as_str(), None);
    }
    if !draft.condition.is_empty() {
        block.push("match", draft.condition.value(), None);
    }
    if draft.paths.is_empty() && draft.regex.is_none() && draft.condition.is_empty() {
        block.push("path", "/*", None);
    }
    if !draft.methods.is_empty() {
        block.push("methods", Value::texts(&draft.methods), None);
    }
    target(&mut block, draft, site);
    let own = |all: &[Header], shared: &[Header]| -> Vec<Header> {
        all.iter().filter(|header| !shared.contains(header)).cloned().collect()
    };
    let keys = Shared {
        response: own(&draft.response, &shared.response),
        request: if draft.goes_to_pool() { own(&draft.request, &shared.request) } else { Vec::new() },
        body_max: draft.body_max.filter(|_| draft.body_max != shared.body_max),
        times: if draft.times == shared.times { Vec::new() } else { draft.times.clone() },
        rates: if draft.rates == shared.rates { Vec::new() } else { draft.rates.clone() },
        compress: draft.compress.clone().filter(|_| draft.compress != shared.compress),
        quiet: draft.quiet && !shared.quiet,
        streamed: draft.streamed && draft.goes_to_pool() && !shared.streamed,
        log: draft.log.clone().filter(|name| shared.log.as_ref() != Some(name)),
        expires: if draft.expires == shared.expires { Vec::new() } else { draft.expires.clone() },
        limits: if draft.limits == shared.limits { Vec::new() } else { draft.limits.clone() },
        gates: if draft.gates == shared.gates { Vec::new() } else { draft.gates.clone() },
    };
    common(&mut block, &keys);
    match draft.cache.as_deref().filter(|_| draft.goes_to_pool()) {
        None => {}
        Some([]) => block.push("cache", true, None),
        Some(entries) => block.push("cache", Value::Table(entries.to_vec()), None),
    }
    if let Some(mirror) = draft.mirror.clone().filter(|_| draft.goes_to_pool()) {
        block.push("mirror", mirror, None);
    }
    if !draft.error_pages.is_empty() {
        block.push("error_pages", error_pages(&draft.error_pages), None);
    }
    draft.keys.iter().for_each(|(key, value)| block.push(key, value.clone(), None));
    gates(&mut block, draft);
    block
}

/// Who gets an answer; no client, as long as that cannot be said on this machine.
fn gates(block: &mut Block, draft: &Route) {
    if let Some((key, value, when)) = &draft.later {
        let closed = draft.gates.is_empty();
        let instead = if closed { ", instead of `deny`" } else { ", with `satisfy = \"any\"`" };
        block.push_off(key, value.clone(), None, &format!("{when}{instead}"));
        if closed {
            block.push("deny", Value::texts(&["@all"]), None);
        }
    }
}

fn target(block: &mut Block, draft: &Route, site: Option<&Files>) {
    let respond = |status: u64| Value::Table(vec![("status".into(), status.into())]);
    match &draft.target {
        Target::Files(files) => {
            files_keys(block, files, site);
            match (&draft.front_controller, files.missing) {
                (None, _) => {}
                (Some(script), false) => block.push("front_controller", script.as_str(), None),
                (Some(script), true) => {
                    let when = "the directory is there".to_owned();
                    block.push_off("front_controller", script.as_str(), None, &when);
                }
            }
            match draft.falls_back() {
                _ if !files.missing => {}
                Some(pool) => block.push("pool", pool, None),
                None => block.push("respond", respond(404), None),
            }
        }
        Target::Pool { name, strip, rewrite } => {
            block.push("pool", name.as_str(), None);
            if let Some((strip, replace)) = strip {
                block.push("strip_prefix", strip.as_str(), None);
                if replace != "/" {
                    block.push("replace_prefix", replace.as_str(), None);
                }
            }
            if let Some(rewrite) = rewrite {
                block.push("rewrite", rewrite.as_str(), None);
            }
            if let Some(script) = &draft.front_controller {
                block.push("front_controller", script.as_str(), None);
            }
            if !draft.query.is_empty() {
                let set = draft.query.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
                block.push("query", Value::Table(vec![("set".into(), Value::Table(set.collect()))]), None);
            }
        }
        Target::Redirect { to, status } => {
            block.push("redirect", to.as_str(), None);
            if *status != 302 {
                block.push("status", u64::from(*status), None);
            }
        }
        Target::Respond { status, body } => {
            let mut entries = Vec::new();
            if *status != 200 || body.is_none() {
                entries.push(("status".into(), u64::from(*status).into()));
            }
            if let Some((body, media)) = body {
                entries.push(("body".into(), body.as_str().into()));
                if media != "text/plain; charset=utf-8" {
                    entries.push(("content_type".into(), media.as_str().into()));
                }
            }
            block.push("respond", Value::Table(entries), None);
        }
        Target::Reroute(to) => block.push("reroute", to.as_str(), None),
    }
}

/// The keys about files; of a route without those that its site says as well.
fn files_keys(block: &mut Block, files: &Files, site: Option<&Files>) {
    let missing = "the directory is there".to_owned();
    let mut push = |key: &str, value: Value, place: Option<&Place>| match files.missing {
        true => block.push_off(key, value, place, &missing),
        false => block.push(key, value, place),
    };
    push("root", files.root.as_str().into(), files.place.as_ref());
    if let Some(strip) = &files.strip {
        push("strip_prefix", strip.as_str().into(), None);
    }
    if let Some(rewrite) = &files.rewrite {
        push("rewrite", rewrite.as_str().into(), None);
    }
    let default = Files::default();
    let above = site.unwrap_or(&default);
    if (&files.index, files.no_index) != (&above.index, above.no_index) {
        let index = match (files.no_index, files.index.is_empty()) {
            (true, _) => Vec::new(),
            (false, true) => vec!["index.html".to_owned()],
            (false, false) => files.index.clone(),
        };
        push("index", Value::texts(&index), None);
    }
    if files.tries != above.tries {
        push("try", Value::texts(&files.tries), None);
    }
    if files.listing != above.listing {
        push("listing", files.listing.into(), None);
    }
    if files.hidden != above.hidden {
        push("hidden", files.hidden.into(), None);
    }
    if files.precompressed != above.precompressed {
        push("precompressed", Value::texts(&files.precompressed), None);
    }
    if files.types != above.types {
        let types = files.types.iter().map(|(ending, kind)| (ending.clone(), kind.as_str().into())).collect();
        push("types", Value::Table(types), None);
    }
    if files.charset != above.charset {
        push("charset", files.charset.as_deref().unwrap_or("utf-8").into(), None);
    }
    if files.headers != above.headers {
        let set = files.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        push("headers", Value::Table(vec![("set".into(), Value::Table(set))]), None);
    }
}

/// A size in the largest unit that leaves a whole number.
pub(crate) fn size(bytes: u64) -> String {
    for (unit, factor) in [("g", 1_u64 << 30), ("m", 1 << 20), ("k", 1 << 10)] {
        if bytes > 0 && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    bytes.to_string()
}

/// A time in the largest unit that leaves a whole number.
pub(crate) fn time(millis: u64) -> String {
    match millis {
        _ if !millis.is_multiple_of(1000) => format!("{millis}ms"),
        _ if millis > 0 && millis.is_multiple_of(3_600_000) => format!("{}h", millis / 3_600_000),
        _ if millis > 60_000 && millis.is_multiple_of(60_000) => format!("{}m", millis / 60_000),
        _ => format!("{}s", millis / 1000),
    }
}
