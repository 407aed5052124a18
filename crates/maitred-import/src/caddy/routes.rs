//! Directives of a site, in Caddy's order, as routes.

use super::access::{self, Gate};
use super::matchers::{self, Found, Named, Selector};
use super::tree::Directive;
use super::{proxy, values};
use crate::drafts::{Files, Header, How, Route, Target};
use crate::report::{Kind, Place};
use crate::shared::Shared;

/// What directives without an answer say for those that have one.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    root: Option<(String, Place)>,
    strip: Option<String>,
    rewrite: Option<String>,
    tries: Option<Vec<String>>,
    /// The script that `try_files` ends with.
    front: bool,
    request: Vec<Header>,
    body_max: Option<u64>,
    compress: bool,
    /// What protects the site, and is not possible.
    closed: Option<String>,
    /// What protects it.
    gates: Vec<Gate>,
    /// Limits by client.
    limits: Vec<String>,
}

/// Caddy's order of directives (`httpcaddyfile.defaultDirectiveOrder`), those of this importer.
const ORDER: &[&str] = &[
    "root",
    "header",
    "request_body",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basicauth",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "respond",
    "reverse_proxy",
    "php_fastcgi",
    "file_server",
];

/// Directives that say nothing for clients.
const SILENT: &[(&str, Kind, &str)] = &[
    ("log_append", Kind::NotNeeded, "[access_log] has fields of its own"),
    ("log_name", Kind::NotNeeded, "[access_log] has names of its own"),
    (
        "bind",
        Kind::NotPossible,
        "a site answers on every address of [[listen]]: narrow `address` there by hand",
    ),
    ("push", Kind::NotNeeded, "clients have given pushes up"),
    ("tracing", Kind::NotNeeded, "it is for observers, not for clients"),
    ("metrics", Kind::NotNeeded, "the address `admin` has metrics"),
    ("fs", Kind::NotNeeded, "files are those of the machine"),
];

/// Whether a word is the name of a directive, and not an address.
pub(crate) fn is_directive(name: &str) -> bool {
    let others = [
        "import",
        "log",
        "log_skip",
        "skip_log",
        "tls",
        "templates",
        "handle_errors",
        "vars",
        "map",
        "rate_limit",
        "acme_server",
        "invoke",
    ];
    let silent = SILENT.iter().any(|(known, _, _)| *known == name);
    ORDER.contains(&name) || others.contains(&name) || silent || name.starts_with('@')
}

/// Routes that one header with a matcher may double, at most.
const ROUTES_MAX: usize = 400;

/// The routes of these directives. `sorted`: in Caddy's order, and not in that of the file.
pub(crate) fn of(
    cx: &Shared,
    directives: &[Directive],
    (base, outer, outer_named): (&Selector, &State, &Named),
    sorted: bool,
) -> Vec<Route> {
    let mut named = matchers::named(cx, directives);
    named.extend(outer_named.iter().cloned());
    let mut all: Vec<(&Directive, Found<'_>)> = directives
        .iter()
        .filter(|directive| !directive.name().starts_with('@') && directive.name() != "tls")
        .map(|directive| (directive, matchers::of(directive, &named)))
        .collect();
    if sorted {
        let rank = |name: &str| {
            // The longest path of both comes first.
            let name = if name == "handle_path" { "handle" } else { name };
            ORDER.iter().position(|known| *known == name).unwrap_or(0)
        };
        let wide = |found: &Found<'_>| match found {
            Ok((selector, _)) if selector.is_all() => (true, 0),
            Ok((selector, _)) => (false, usize::MAX - selector.length()),
            Err(_) => (false, 0),
        };
        all.sort_by_key(|(directive, found)| (rank(directive.name()), wide(found)));
    }
    let mut scope =
        Scope { cx, base, named: &named, state: outer.clone(), routes: Vec::new(), edits: Vec::new() };
    for (directive, found) in all {
        match found {
            Ok((own, words)) => scope.one(directive, &own, words),
            Err(why) => cx.not_possible(directive, why),
        }
    }
    scope.finished()
}

struct Scope<'s> {
    cx: &'s Shared,
    base: &'s Selector,
    named: &'s Named,
    state: State,
    routes: Vec<Route>,
    edits: Vec<(Selector, Edit)>,
}

/// What a directive with a matcher says for the routes of others.
enum Edit {
    Headers(Vec<Header>),
    Gate(Gate),
    Limits(Vec<String>),
    Quiet,
}

impl Edit {
    fn apply(&self, route: &mut Route) {
        match self {
            Edit::Headers(rules) => add(route, rules),
            Edit::Gate(gate) => protect(route, gate),
            Edit::Limits(names) => limit(route, names),
            Edit::Quiet => route.quiet = true,
        }
    }

    /// Whether a route that it may be for has to have it, even if that is more than the matcher takes.
    fn is_protection(&self) -> bool {
        matches!(self, Edit::Gate(_))
    }
}

impl Scope<'_> {
    fn one(&mut self, directive: &Directive, own: &Selector, words: &[String]) {
        let cx = self.cx;
        let first = words.first().map(String::as_str).unwrap_or_default();
        match directive.name() {
            "root" => self.root(directive, own, first),
            "header" => self.header(directive, own, words),
            "request_header" => match proxy::rule(words) {
                Ok(rule) if own.is_all() => {
                    cx.translated(directive);
                    self.state.request.push(rule);
                }
                Ok(_) => cx.not_possible(directive, "fields of requests are those of a whole route"),
                Err(why) => cx.not_possible(directive, why),
            },
            "request_body" => self.request_body(directive),
            "encode" => {
                self.state.compress = true;
                cx.translated(directive);
            }
            "uri" => self.uri(directive, own, words),
            "rewrite" => self.rewrite(directive, own, first),
            "try_files" => self.try_files(directive, words),
            "basicauth" | "basic_auth" | "forward_auth" => self.protect(directive, own, words),
            "rate_limit" => match access::rate_limit(cx, directive) {
                Ok(names) if own.is_all() => self.state.limits.extend(names),
                Ok(names) => self.edits.push((own.clone(), Edit::Limits(names))),
                Err(why) => cx.not_possible(directive, why),
            },
            "log_skip" | "skip_log" => {
                cx.translated(directive);
                self.edits.push((own.clone(), Edit::Quiet));
            }
            // The site has it.
            "log" => {}
            "redir" => self.redirect(directive, own, words),
            "respond" => self.respond(directive, own, words),
            "abort" => {
                cx.translated(directive);
                self.answer(directive, own, Target::Respond { status: 444, body: None });
            }
            "error" => {
                let status = words.iter().rev().find_map(|word| word.parse().ok()).unwrap_or(500);
                cx.translated(directive);
                self.answer(directive, own, Target::Respond { status, body: None });
            }
            "handle" | "route" | "handle_path" => self.handle(directive, own),
            "reverse_proxy" => self.reverse_proxy(directive, own, words),
            "php_fastcgi" => self.php(directive, own, words),
            "file_server" => self.files(directive, own, words),
            name => match SILENT.iter().find(|(known, _, _)| *known == name) {
                Some((_, kind, why)) => cx.say(directive, *kind, *why),
                None => cx.not_possible(directive, "there is no key for this"),
            },
        }
    }

    /// A route with what was said before it.
    fn answer(&mut self, directive: &Directive, own: &Selector, target: Target) {
        match self.base.and(own) {
            Ok(selector) => {
                let mut route = selector.route(directive, target);
                if let Some(what) = &self.state.closed {
                    route.target = Target::Respond { status: 403, body: None };
                    route.notes.push(format!("closed, because there is no counterpart of `{what}`"));
                }
                self.state.gates.iter().for_each(|gate| protect(&mut route, gate));
                limit(&mut route, &self.state.limits);
                self.routes.push(route);
            }
            Err(why) => self.cx.not_possible(directive, why),
        }
    }

    /// What is behind it is for some clients only; for none, if it cannot be said which.
    fn protect(&mut self, directive: &Directive, own: &Selector, words: &[String]) {
        let found = match directive.name() {
            "forward_auth" => access::forward_auth(self.cx, directive, words),
            _ => access::basic_auth(self.cx, directive, words),
        };
        match (found, own.is_all()) {
            (Ok(gate), true) => self.state.gates.push(gate),
            (Ok(gate), false) => self.edits.push((own.clone(), Edit::Gate(gate))),
            (Err(why), all) => {
                self.cx.not_possible(directive, format!("{why}: what it protects answers 403 instead"));
                match all {
                    true => self.state.closed = Some(directive.shown()),
                    false => self.answer(directive, own, Target::Respond { status: 403, body: None }),
                }
            }
        }
    }

    fn root(&mut self, directive: &Directive, own: &Selector, path: &str) {
        let Some(path) = values::fixed(path).filter(|_| own.is_all()) else {
            return self
                .cx
                .not_possible(directive, "the directory is fixed here, without placeholders and matchers");
        };
        self.cx.translated(directive);
        self.state.root = Some((path, directive.place.clone()));
    }

    fn header(&mut self, directive: &Directive, own: &Selector, words: &[String]) {
        let mut rules = Vec::new();
        let lines: Vec<(&Directive, &[String])> = match directive.block.is_some() {
            true => directive.inside().iter().map(|line| (line, line.words.as_slice())).collect(),
            false => vec![(directive, words)],
        };
        for (line, words) in lines.into_iter().filter(|(line, _)| line.name() != "defer") {
            let server = words.first().is_some_and(|name| name.eq_ignore_ascii_case("-Server"));
            match proxy::rule(words) {
                _ if server => {
                    self.cx.say(line, Kind::Choice, "`server_header = false` takes the field away")
                }
                Ok(rule) => {
                    self.cx.translated(line);
                    rules.push(rule);
                }
                Err(why) => self.cx.not_possible(line, why),
            }
        }
        self.cx.translated(directive);
        self.edits.push((own.clone(), Edit::Headers(rules)));
    }

    fn request_body(&mut self, directive: &Directive) {
        self.cx.translated(directive);
        for line in directive.inside() {
            match (line.name(), values::size(line.word(1))) {
                ("max_size", Some(bytes)) => {
                    self.cx.translated(line);
                    self.state.body_max = Some(bytes);
                }
                _ => self.cx.not_possible(line, "there is no key for this"),
            }
        }
    }

    fn uri(&mut self, directive: &Directive, own: &Selector, words: &[String]) {
        match words {
            [what, prefix]
                if what == "strip_prefix" && self.inner(own).is_some_and(|found| found.is_all()) =>
            {
                self.cx.translated(directive);
                self.state.strip = Some(with_slash(prefix));
            }
            [what, prefix] if what == "strip_prefix" => {
                // Below its matcher only: that is a block of its own, which the rest of the site is in as well.
                let same =
                    own.paths.iter().all(|path| path.starts_with(prefix.as_str())) && !own.paths.is_empty();
                match same {
                    true => {
                        self.cx.translated(directive);
                        self.state.strip = Some(with_slash(prefix));
                    }
                    false => self.cx.not_possible(directive, "a prefix is taken away from a whole route"),
                }
            }
            _ => self.cx.not_possible(directive, "of `uri`, `strip_prefix` alone has a key"),
        }
    }

    fn inner(&self, own: &Selector) -> Option<Selector> {
        (own.is_all() || own == self.base).then(Selector::default)
    }

    fn rewrite(&mut self, directive: &Directive, own: &Selector, to: &str) {
        let template = match values::template(to) {
            Ok(template) if template.starts_with(['/', '{']) => template,
            Ok(_) => return self.cx.not_possible(directive, "a path begins with `/`"),
            Err(why) => return self.cx.not_possible(directive, why),
        };
        if own.is_all() {
            self.cx.translated(directive);
            self.state.rewrite = Some(template);
            return;
        }
        // Routes are looked up again, from the first: so the new path may not fit the matcher.
        let path = template.split('?').next().unwrap_or_default();
        let fixed = !path.contains('{');
        let begins = |pattern: &String| path.starts_with(pattern.trim_end_matches('*'));
        match fixed && !own.paths.is_empty() && !own.paths.iter().any(begins) || own.regex.is_some() {
            true => {
                self.cx.translated(directive);
                self.answer(directive, own, Target::Reroute(template));
            }
            false => self.cx.not_possible(directive, "it would be applied to its own result again and again"),
        }
    }

    fn try_files(&mut self, directive: &Directive, words: &[String]) {
        let mut items = Vec::new();
        for word in words {
            let item = word.replace("{http.request.uri.path}", "{path}").replace("{uri}", "{path}");
            if item.ends_with(".php") || item.contains(".php?") {
                self.state.front = true;
                continue;
            }
            let plain =
                !item.replacen("{path}", "", 1).contains(['{', '?']) && item.starts_with(['/', '{', '=']);
            if !plain {
                return self.cx.not_possible(directive, format!("`{word}` is no path with `{{path}}` in it"));
            }
            items.push(item);
        }
        self.cx.translated(directive);
        self.state.tries = Some(items);
    }

    fn redirect(&mut self, directive: &Directive, own: &Selector, words: &[String]) {
        let (to, code) =
            (words.first().map(String::as_str).unwrap_or_default(), words.get(1).map(String::as_str));
        let status = match code {
            None | Some("temporary") => 302,
            Some("permanent") => 301,
            Some(code) => match code.parse() {
                Ok(code @ (301 | 302 | 303 | 307 | 308)) => code,
                _ => return self.cx.not_possible(directive, "a redirect is 301, 302, 303, 307 or 308"),
            },
        };
        match values::template(to) {
            Ok(mut to) => {
                if to.starts_with("{uri}") || to.starts_with("{path}") {
                    to.insert_str(0, "{scheme}://{host}");
                }
                self.cx.translated(directive);
                self.answer(directive, own, Target::Redirect { to, status });
            }
            Err(why) => self.cx.not_possible(directive, why),
        }
    }

    fn respond(&mut self, directive: &Directive, own: &Selector, words: &[String]) {
        let inside =
            |name: &str| directive.inside().iter().find(|line| line.name() == name).map(|line| line.word(1));
        let is_code = |word: &&String| {
            word.len() == 3 && word.parse::<u16>().is_ok_and(|code| (200..600).contains(&code))
        };
        let code = words.last().filter(is_code).map(String::as_str);
        let body = words.first().filter(|_| words.len() > usize::from(code.is_some())).map(String::as_str);
        let status = code.and_then(|code| code.parse().ok()).unwrap_or(200);
        let Some(body) = values::fixed(body.or_else(|| inside("body")).unwrap_or_default()) else {
            return self.cx.not_possible(directive, "the text is fixed here, without placeholders");
        };
        self.cx.translated(directive);
        let close = inside("close").is_some() && body.is_empty();
        let body = (!body.is_empty()).then(|| (body, "text/plain; charset=utf-8".to_owned()));
        self.answer(directive, own, Target::Respond { status: if close { 444 } else { status }, body });
    }

    fn handle(&mut self, directive: &Directive, own: &Selector) {
        let selector = match self.base.and(own) {
            Ok(selector) => selector,
            Err(why) => return self.cx.not_possible(directive, why),
        };
        self.cx.translated(directive);
        let mut state = self.state.clone();
        let mut selector = selector;
        if directive.name() == "handle_path" {
            let prefix = own.paths.first().map(|path| path.trim_end_matches('*')).unwrap_or_default();
            state.strip = Some(with_slash(prefix));
            if !prefix.ends_with('/') {
                selector.paths = vec![format!("{prefix}/*")];
            }
        }
        let sorted = directive.name() != "route";
        self.routes.extend(of(self.cx, directive.inside(), (&selector, &state, self.named), sorted));
    }

    fn reverse_proxy(&mut self, directive: &Directive, own: &Selector, words: &[String]) {
        let found = match proxy::reverse(self.cx, directive, words) {
            Ok(found) => found,
            Err(why) => {
                self.cx.not_possible(directive, why);
                return self.answer(directive, own, Target::Respond { status: 502, body: None });
            }
        };
        self.cx.translated(directive);
        let strip = self.state.strip.clone().map(|strip| (strip, "/".to_owned()));
        let rewrite = found.rewrite.or_else(|| self.state.rewrite.clone());
        let strip = if rewrite.is_some() { None } else { strip };
        self.answer(directive, own, Target::Pool { name: found.pool, strip, rewrite });
        if let Some(route) = self.routes.last_mut() {
            route.request.extend(found.request);
            route.response.extend(found.response);
        }
    }

    /// The directory of files, and whether it is there.
    fn directory(&self, given: Option<&str>) -> Files {
        let (root, place) = match (given, &self.state.root) {
            (Some(given), _) => (given.to_owned(), None),
            (None, Some((root, place))) => (root.clone(), Some(place.clone())),
            (None, None) => (".".to_owned(), None),
        };
        let missing = !root.starts_with('/') || !self.cx.machine.has_directory(&root);
        Files { root, missing, place, strip: self.state.strip.clone(), ..Files::default() }
    }

    fn php(&mut self, directive: &Directive, own: &Selector, words: &[String]) {
        let mut files = self.directory(None);
        let mut keys: Vec<(&str, crate::model::Value)> = Vec::new();
        for line in directive.inside() {
            match line.name() {
                "root" => {
                    self.cx.translated(line);
                    keys.push(("script_root", line.word(1).into()));
                }
                "index" if line.word(1) != "off" => {
                    self.cx.translated(line);
                    keys.push(("index", line.word(1).into()));
                }
                "split" | "try_files" | "capture_stderr" | "dial_timeout" | "resolve_root_symlink" => {
                    self.cx.not_needed(line, "scripts are found, and what they say is logged");
                }
                "read_timeout" => match values::millis(line.word(1)) {
                    Some(millis) => {
                        self.cx.translated(line);
                        keys.push((
                            "request_timeout",
                            crate::write::time(millis.clamp(1, 86_400_000)).into(),
                        ));
                    }
                    None => self.cx.not_possible(line, "this is no time"),
                },
                _ => self.cx.not_possible(line, "the variables of scripts are fixed (docs/php.md)"),
            }
        }
        let mut block = match proxy::block(self.cx, directive, words, "fastcgi", Vec::new()) {
            Ok(block) => block,
            Err(why) => return self.cx.not_possible(directive, why),
        };
        self.cx.translated(directive);
        if self.state.root.is_none() {
            files.missing = true;
        }
        let when = format!("{} is there on this machine", files.root);
        keys.insert(0, ("root", files.root.as_str().into()));
        keys.push(("php", true.into()));
        for (key, value) in keys {
            match files.missing {
                true => block.push_off(key, value, files.place.as_ref(), &when),
                false => block.push(key, value, None),
            }
        }
        let name = self.cx.pool("php", block);
        self.answer(directive, own, Target::Pool { name, strip: None, rewrite: None });
    }

    fn files(&mut self, directive: &Directive, own: &Selector, words: &[String]) {
        let line = |name: &str| directive.inside().iter().find(|line| line.name() == name);
        let mut files = self.directory(line("root").map(|line| line.word(1)));
        files.listing = words.iter().any(|word| word == "browse") || line("browse").is_some();
        for line in directive.inside() {
            match line.name() {
                "root" | "browse" => self.cx.translated(line),
                "index" => {
                    self.cx.translated(line);
                    files.index = line.args().to_vec();
                }
                "precompressed" => {
                    self.cx.translated(line);
                    let all = ["br", "zstd", "gzip"].map(str::to_owned).to_vec();
                    let given: Vec<String> =
                        line.args().iter().filter(|arg| all.contains(arg)).cloned().collect();
                    files.precompressed = if given.is_empty() { all } else { given };
                }
                "hide" if line.args().iter().all(|name| name.starts_with('.') && !name.contains('/')) => {
                    self.cx.not_needed(line, "names that begin with a dot are withheld");
                }
                "hide" => self.cx.not_possible(line, "other names are withheld by a route with `respond`"),
                "disable_canonical_uris" | "pass_thru" | "status" => {
                    self.cx.not_possible(line, "there is no key for this");
                }
                _ => self.cx.not_needed(line, "files have validators, and directories their slash"),
            }
        }
        let scripts = |route: &Route| {
            route.takes_all() && matches!(&route.target, Target::Pool { name, .. } if name.starts_with("php"))
        };
        if own.is_all() && self.routes.iter().any(scripts) {
            return self.cx.not_needed(directive, "`php = true` of the pool serves files as well");
        }
        self.cx.translated(directive);
        if let Some(root) = files.missing.then(|| files.root.clone()) {
            let why = format!("as a comment: there is no directory {root} on this machine");
            self.cx.say(directive, Kind::Translated, why);
        }
        files.tries = self.state.tries.clone().unwrap_or_default();
        files.tries.retain(|item| item != "{path}/");
        if files.tries == ["{path}"] {
            files.tries.clear();
        }
        if let Some(rewrite) = &self.state.rewrite {
            (files.strip, files.rewrite) = (None, Some(rewrite.clone()));
        }
        self.answer(directive, own, Target::Files(files));
    }

    /// The routes with their fields and limits.
    fn finished(mut self) -> Vec<Route> {
        for route in &mut self.routes {
            let mut request = self.state.request.clone();
            request.append(&mut route.request);
            route.request = request;
            route.body_max = route.body_max.or(self.state.body_max);
            if self.state.compress && route.compress.is_none() {
                route.compress = Some(Vec::new());
            }
        }
        for (own, edit) in std::mem::take(&mut self.edits) {
            self.edit(&own, &edit);
        }
        self.routes
    }

    /// Changes the routes that a matcher is for; a route of which it takes a part is divided.
    fn edit(&mut self, own: &Selector, edit: &Edit) {
        let mut all: Vec<Route> = Vec::new();
        for mut route in std::mem::take(&mut self.routes) {
            let now = Selector {
                paths: route.paths.clone(),
                regex: route.regex.clone(),
                condition: route.condition.clone(),
                methods: route.methods.clone(),
            };
            let both = now.and(own);
            let same = both.as_ref() == Ok(&now);
            let unknown =
                edit.is_protection() && meets(&now, own) && (both.is_err() || all.len() >= ROUTES_MAX);
            let narrower = both.ok().filter(|both| *both != now);
            match narrower {
                _ if own.is_all() || unknown => edit.apply(&mut route),
                Some(both) if meets(&now, own) && all.len() < ROUTES_MAX => {
                    let mut narrow = route.clone();
                    narrow.paths = both.paths;
                    narrow.regex = both.regex;
                    narrow.condition = both.condition;
                    narrow.methods = both.methods;
                    edit.apply(&mut narrow);
                    all.push(narrow);
                }
                Some(_) => {}
                None if same => edit.apply(&mut route),
                None => {}
            }
            all.push(route);
        }
        self.routes = all;
    }
}

/// Whether a route and a matcher may have a request in common, by their paths.
fn meets(route: &Selector, own: &Selector) -> bool {
    let begin = |path: &String| path.split('*').next().unwrap_or_default().to_owned();
    let pair = |ours: &String, theirs: &String| {
        let (ours, theirs) = (begin(ours), begin(theirs));
        ours.starts_with(&theirs) || theirs.starts_with(&ours)
    };
    route.paths.is_empty()
        || own.paths.is_empty()
        || route.paths.iter().any(|ours| own.paths.iter().any(|theirs| pair(ours, theirs)))
}

fn add(route: &mut Route, rules: &[Header]) {
    for rule in rules {
        // What caches are told is for what is found.
        let cache =
            rule.name.eq_ignore_ascii_case("cache-control") && matches!(rule.how, How::Set | How::IfAbsent);
        match cache && matches!(route.target, Target::Files(_)) {
            true => {
                route.expires.retain(|(kind, _)| kind != "default");
                route.expires.push(("default".to_owned(), rule.value.clone()));
            }
            false => route.response.push(rule.clone()),
        }
    }
}

/// A route has each key once; clients of which another one is asked as well get nothing.
fn protect(route: &mut Route, gate: &Gate) {
    match route.gates.iter().find(|(key, _)| *key == gate.0) {
        None => route.gates.push(gate.clone()),
        Some(known) if known == gate => {}
        Some(_) => {
            route.target = Target::Respond { status: 403, body: None };
            route.notes.push(format!("closed, because a route has one `{}`, and this one has two", gate.0));
        }
    }
}

fn limit(route: &mut Route, names: &[String]) {
    for name in names {
        if !route.limits.contains(name) {
            route.limits.push(name.clone());
        }
    }
}

fn with_slash(prefix: &str) -> String {
    let prefix = prefix.trim_end_matches('*');
    let begin = if prefix.starts_with('/') { "" } else { "/" };
    let end = if prefix.ends_with('/') { "" } else { "/" };
    format!("{begin}{prefix}{end}")
}
