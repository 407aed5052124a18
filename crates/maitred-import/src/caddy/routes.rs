//! Directives of a site, in Caddy's order, as routes. Each of them is for the requests that those before it have not answered; a
//! directive with a matcher that changes the request divides what is behind it.

use std::cell::Cell;
use std::rc::Rc;

use super::edits::{self, Edit, Placed, ROUTES_MAX};
use super::engine::{Engine, Item, State};
use super::matchers::{self, Both, Named, Selector};
use super::options::{ORDER, Options};
use super::tree::Directive;
use super::values::{self, Known, Space};
use super::{access, proxy};
use crate::drafts::{Route, Target};
use crate::report::{Kind, Place};
use crate::shared::Shared;

/// Directives that answer nothing and change no response.
const SILENT: &[(&str, Kind, &str)] = &[
    ("log_append", Kind::Choice, "[access_log] has fields of its own"),
    ("log_name", Kind::Choice, "`access_log` of a site or a route names a log"),
    ("log_level", Kind::Choice, "[access_log] has no levels"),
    ("push", Kind::Choice, "browsers have given pushes up, and ask for what they want"),
    ("tracing", Kind::Choice, "`traceparent` goes on to applications, and no spans are sent"),
    ("timeouts", Kind::Choice, "`limits` has times: how long a client may be silent"),
    ("map", Kind::NotPossible, "no value is looked up in a table: what asks for it is closed"),
];

/// Whether a word is the name of a directive, and not an address.
pub(crate) fn is_directive(name: &str) -> bool {
    let others = ["import", "log", "tls", "bind", "handle_errors", "rate_limit"];
    ORDER.contains(&name) || others.contains(&name) || name.starts_with('@')
}

/// Directives of a site that are no routes.
const OF_SITES: &[&str] = &["tls", "bind", "handle_errors", "log"];

impl Item<'_> {
    /// Of a set of directives of a block, one is used: that of the first whose matcher fits.
    fn set(&self) -> Option<(usize, &'static str)> {
        let class = match self.directive.name() {
            "handle" | "handle_path" => "handle",
            "rewrite" => "rewrite",
            "root" => "root",
            _ => return None,
        };
        Some((self.scope, class))
    }
}

/// Whether what follows a directive is for the same requests.
enum Flow {
    On,
    End,
}

/// Blocks within one another, at most.
const DEPTH_MAX: usize = 40;

/// The routes of a site. `secure`: all its clients come by TLS.
pub(crate) fn of(cx: &Shared, options: &Options, site: &Directive, secure: bool) -> Vec<Route> {
    let engine = Engine { cx, options, scopes: Cell::new(0) };
    let items = engine.items(site.inside(), &Named::new(), true);
    let mut routes = Vec::new();
    let state = State { secure, ..State::default() };
    engine.run(&items, state, &Selector::default(), &mut routes, &site.place);
    edits::without_case(edits::joined(routes))
}

impl<'e> Engine<'e> {
    /// The directives of a block. `sorted`: in Caddy's order, and not in that of the file.
    fn items<'d>(&self, directives: &'d [Directive], outer: &Named, sorted: bool) -> Vec<Item<'d>> {
        let mut named = matchers::named(self.cx, directives, self.options.proxies);
        named.extend(outer.iter().cloned());
        let named = Rc::new(named);
        let scope = self.scopes.get();
        self.scopes.set(scope + 1);
        let is_route = |one: &&Directive| !one.name().starts_with('@') && !OF_SITES.contains(&one.name());
        let mut items: Vec<Item<'d>> = directives
            .iter()
            .filter(is_route)
            .map(|directive| {
                let (asked, words) = matchers::of(directive, &named);
                Item { directive, asked, words, named: Rc::clone(&named), scope }
            })
            .collect();
        if sorted {
            items.sort_by_key(|item| self.options.rank(item.directive.name()));
            by_paths(&mut items, |item| self.options.rank(item.directive.name()));
        }
        items
    }

    /// The routes of these directives, for requests that `base` is for.
    pub(crate) fn run<'d>(
        &self,
        items: &[Item<'d>],
        mut state: State,
        base: &Selector,
        out: &mut Vec<Route>,
        place: &Place,
    ) {
        let from = out.len();
        let mut edits: Vec<Placed<'d>> = Vec::new();
        let mut ended = false;
        for (at, item) in items.iter().enumerate() {
            if item.set().is_some_and(|set| state.done.contains(&set)) {
                self.unreached(item.directive);
                continue;
            }
            let rest = items.get(at + 1..).unwrap_or_default();
            if matches!(self.one(item, rest, (&mut state, base), (&mut edits, &mut *out)), Flow::End) {
                rest.iter().for_each(|item| self.unreached(item.directive));
                ended = true;
                break;
            }
        }
        if !ended {
            let nothing = Target::Respond { status: 200, body: None };
            let mut route = Route::new(place, "what nothing else answers: an empty response", nothing);
            route.paths.clone_from(&base.paths);
            route.regex.clone_from(&base.regex);
            route.condition = base.condition.clone();
            route.methods.clone_from(&base.methods);
            out.push(route);
        }
        edits::apply(self.cx, &edits, from, out);
    }

    /// Says of a directive, and of those in it, that no request reaches it.
    fn unreached(&self, directive: &Directive) {
        if !["tls", "log", "bind", "handle_errors"].contains(&directive.name()) {
            self.cx.not_needed(directive, "directives before it answer everything that it is for");
            directive.inside().iter().for_each(|inside| self.unreached(inside));
        }
    }

    fn one<'d>(
        &self,
        item: &Item<'d>,
        rest: &[Item<'d>],
        (state, base): (&mut State, &Selector),
        (edits, out): (&mut Vec<Placed<'d>>, &mut Vec<Route>),
    ) -> Flow {
        let directive = item.directive;
        let anything = Selector::default();
        let own = match (&item.asked.unknown, item.asked.selector.within(&state.space)) {
            (_, Both::Never) => {
                return self.unmet(directive, "a rewrite before it leaves no path that it is for");
            }
            (None, Both::Is(own)) => own,
            (Some(why), Both::Is(wide)) => return self.close(directive, why, &wide, (base, out)),
            (_, Both::Unknown(why)) => return self.close(directive, why, &anything, (base, out)),
        };
        if let Some(flow) = self.edit(item, &own, edits, out) {
            return flow;
        }
        let all = match base.and(&own) {
            Both::Is(both) => both,
            Both::Never => return self.unmet(directive, "no request is for it and for what is around it"),
            Both::Unknown(why) => return self.close(directive, why, &anything, (base, out)),
        };
        if out.len() > ROUTES_MAX {
            return self.close(directive, "it makes too many routes", &anything, (base, out));
        }
        // Whether it answers all of them.
        let done = match directive.name() {
            "handle" | "handle_path" | "route" | "invoke" => {
                self.block(item, rest, state, (&own, &all), out).map(|()| true)
            }
            "root" | "rewrite" | "uri" | "try_files" => {
                return self.changed(item, rest, (state, base), (&own, &all), out);
            }
            _ => self.answer(item, rest, &all, state, out),
        };
        match done {
            Ok(true) if own.is_all() => Flow::End,
            Ok(_) => Flow::On,
            Err(why) => self.close(directive, &why, &own, (base, out)),
        }
    }

    /// Says that no request is for a directive.
    fn unmet(&self, directive: &Directive, why: &str) -> Flow {
        self.cx.not_needed(directive, why);
        directive.inside().iter().for_each(|inside| self.unreached(inside));
        Flow::On
    }

    /// A directive that changes requests: what is behind it is divided, if it is for some of them.
    fn changed<'d>(
        &self,
        item: &Item<'d>,
        rest: &[Item<'d>],
        (state, base): (&mut State, &Selector),
        (own, all): (&Selector, &Selector),
        out: &mut Vec<Route>,
    ) -> Flow {
        let mut changed = state.clone();
        changed.done.extend(item.set());
        match self.change(item, own, all, &mut changed) {
            Ok(part) if part == *base => *state = changed,
            Ok(part) => self.run(rest, changed, &part, out, &item.directive.place),
            Err(why) => return self.close(item.directive, &why, own, (base, out)),
        }
        Flow::On
    }

    /// What has no counterpart answers 403, and so does all that is behind it: nothing else may answer in its place.
    fn close(
        &self,
        directive: &Directive,
        why: &str,
        wide: &Selector,
        (base, out): (&Selector, &mut Vec<Route>),
    ) -> Flow {
        let passing =
            ["header", "log_skip", "skip_log", "encode", "map", "log_append", "log_name", "log_level"];
        // An application may trust a field that clients could write.
        let sets =
            directive.name() == "request_header" && !directive.words.iter().any(|word| word.starts_with('-'));
        if sets || passing.contains(&directive.name()) {
            self.cx.not_possible(directive, why);
            return Flow::On;
        }
        self.cx.not_possible(directive, format!("{why}: it answers 403 instead"));
        let (selector, end) = match base.and(wide) {
            Both::Is(both) => (both, wide.is_all()),
            Both::Never => return Flow::On,
            Both::Unknown(_) => (base.clone(), true),
        };
        let mut route = selector.route(directive, Target::Respond { status: 403, body: None });
        route.notes.push("closed: there is no counterpart".to_owned());
        out.push(route);
        if end { Flow::End } else { Flow::On }
    }

    /// `handle`, `handle_path`, `route`, `invoke`: what is in them, and behind that what follows.
    fn block<'d>(
        &self,
        item: &Item<'d>,
        rest: &[Item<'d>],
        state: &State,
        (own, all): (&Selector, &Selector),
        out: &mut Vec<Route>,
    ) -> Result<(), String> {
        let directive = item.directive;
        let mut inner = state.clone();
        inner.depth += 1;
        if inner.depth > DEPTH_MAX {
            return Err("too many blocks stand in one another".into());
        }
        inner.done.extend(item.set());
        if directive.name() == "handle_path" {
            return self.handle_path(item, rest, inner, (own, all), out);
        }
        let invoked = || {
            let name = item.words.first().map(String::as_str).unwrap_or_default();
            let found = self.options.routes.iter().find(|(known, _)| known == name);
            found.map(|(_, route)| route.inside()).ok_or_else(|| format!("there is no route `{name}`"))
        };
        self.cx.translated(directive);
        match directive.name() {
            "invoke" => {
                let inside = invoked()?;
                let items = self.items(inside, &Named::new(), false);
                let items: Vec<Item<'_>> = items.into_iter().chain(rest.iter().cloned()).collect();
                self.run(&items, inner, all, out, &directive.place);
            }
            name => {
                let items = self.items(directive.inside(), &item.named, name != "route");
                let items: Vec<Item<'d>> = items.into_iter().chain(rest.iter().cloned()).collect();
                self.run(&items, inner, all, out, &directive.place);
            }
        }
        Ok(())
    }

    /// `handle_path`: what is in it sees the path without the beginning that its matcher names.
    fn handle_path<'d>(
        &self,
        item: &Item<'d>,
        rest: &[Item<'d>],
        mut inner: State,
        (own, all): (&Selector, &Selector),
        out: &mut Vec<Route>,
    ) -> Result<(), String> {
        let (cx, directive) = (self.cx, item.directive);
        let items = self.items(directive.inside(), &item.named, true);
        let items: Vec<Item<'d>> = items.into_iter().chain(rest.iter().cloned()).collect();
        let path = match item.asked.selector.paths.first() {
            Some(path) => path.as_str(),
            None if own.is_all() => "/*",
            None => return Err("it has one prefix".into()),
        };
        let name = path.strip_suffix('*').unwrap_or(path);
        match &inner.space {
            Space::Sent | Space::Without(_) if name.ends_with('/') => strip(&mut inner, name),
            Space::Sent | Space::Without(_) => {
                return self.shortened((directive, path), &items, inner, all, out);
            }
            // The beginning that a rewrite has put there is taken away again.
            Space::Behind(begin) if begin == name.trim_end_matches('/') => {
                (inner.space, inner.rewrite) = (Space::Sent, None);
            }
            _ if name == "/" => {}
            _ => return Err("the path was rewritten before".into()),
        }
        cx.translated(directive);
        self.run(&items, inner, all, out, &directive.place);
        Ok(())
    }

    /// `handle_path` of a path without a slash at its end, which is `/` inside, and of what is below it.
    fn shortened<'d>(
        &self,
        (directive, path): (&'d Directive, &str),
        items: &[Item<'d>],
        mut inner: State,
        all: &Selector,
        out: &mut Vec<Route>,
    ) -> Result<(), String> {
        let prefix = path.strip_suffix('*');
        let name = prefix.unwrap_or(path);
        if name.contains('*') {
            return Err("its prefix is a path".into());
        }
        let part = |path: String| {
            let selector = Selector { paths: vec![path], ..Selector::default() };
            match selector.within(&inner.space) {
                Both::Is(within) => match all.and(&within) {
                    Both::Is(part) => Ok(part),
                    _ => Err("it is behind another prefix".to_owned()),
                },
                _ => Err("the path was rewritten before".to_owned()),
            }
        };
        let exact = part(name.to_owned())?;
        let below = prefix.map(|name| part(format!("{name}/*"))).transpose()?;
        let mut at_root = inner.clone();
        (at_root.strip, at_root.rewrite) = (None, Some("/".to_owned()));
        at_root.space = Space::Fixed("/".to_owned());
        self.run(items, at_root, &exact, out, &directive.place);
        let Some(below) = below else {
            self.cx.translated(directive);
            return Ok(());
        };
        let why = "longer names that begin so are not for it, which it answers with an error";
        self.cx.say(directive, Kind::Better, why);
        strip(&mut inner, &format!("{name}/"));
        self.run(items, inner, &below, out, &directive.place);
        Ok(())
    }

    /// Directives that change the request for those behind them; the requests for which they do.
    fn change(
        &self,
        item: &Item<'_>,
        own: &Selector,
        all: &Selector,
        state: &mut State,
    ) -> Result<Selector, String> {
        let word = |at: usize| item.words.get(at).map(String::as_str).unwrap_or_default();
        match item.directive.name() {
            "root" => {
                state.root = Some(match values::fixed(word(0)) {
                    Some(path) => {
                        self.cx.translated(item.directive);
                        Ok((path, item.directive.place.clone()))
                    }
                    None => {
                        let why = "the directory is fixed here, without placeholders";
                        self.cx.not_possible(item.directive, format!("{why}: files below it answer 403"));
                        Err(why.to_owned())
                    }
                });
            }
            "uri" if word(0) == "strip_prefix" => return self.strip_prefix(item, own, all, state),
            "uri" if word(0) == "replace" => {
                self.replace(item, all, state)?;
                let why = "the beginning of a path is replaced, and not what is like it further behind";
                self.cx.say(item.directive, Kind::Choice, why);
            }
            "uri" => {
                return Err("of `uri`, `strip_prefix` and `replace` of a prefix have a counterpart".into());
            }
            "rewrite" => {
                self.rewrite(word(0), all, state)?;
                self.cx.translated(item.directive);
            }
            _ => self.try_files(item, state)?,
        }
        Ok(all.clone())
    }

    fn strip_prefix(
        &self,
        item: &Item<'_>,
        own: &Selector,
        all: &Selector,
        state: &mut State,
    ) -> Result<Selector, String> {
        let prefix =
            item.words.get(1).and_then(|prefix| values::fixed(prefix)).ok_or("its prefix is fixed here")?;
        let prefix = format!("/{}/", prefix.trim_matches('/'));
        if prefix == "//" {
            self.cx.translated(item.directive);
            return Ok(all.clone());
        }
        if !matches!(state.space, Space::Sent | Space::Without(_)) {
            return Err("the path was rewritten before".into());
        }
        let below = Selector { paths: vec![format!("{prefix}*")], ..Selector::default() };
        let below = match below.within(&state.space) {
            Both::Is(below) => below,
            _ => return Err("the path was rewritten before".into()),
        };
        let part = match all.and(&below) {
            Both::Is(part) => part,
            Both::Never => {
                self.cx.not_needed(item.directive, "no path that gets there begins so");
                return Ok(all.clone());
            }
            Both::Unknown(why) => return Err(why.into()),
        };
        strip(state, &prefix);
        let whole = part == *all;
        match whole || own.paths == [format!("{}*", prefix.trim_end_matches('/'))] {
            true => self.cx.translated(item.directive),
            false => self.cx.say(
                item.directive,
                Kind::Choice,
                "it is taken away where a slash follows, and not from longer names that begin so",
            ),
        }
        Ok(part)
    }

    /// `uri replace` of the beginning that all paths have which get there.
    fn replace(&self, item: &Item<'_>, all: &Selector, state: &mut State) -> Result<(), String> {
        let fixed = |at: usize| item.words.get(at).and_then(|word| values::fixed(word));
        let ([_, _, _], Some(from), Some(to)) = (item.words, fixed(1), fixed(2)) else {
            return Err("what is replaced is fixed here".into());
        };
        let (from, to) = (from.trim_end_matches('/'), to.trim_end_matches('/'));
        let begin = format!("{from}/");
        let begins = !all.paths.is_empty() && all.paths.iter().all(|path| path.starts_with(&begin));
        let is_path = |path: &str| path.is_empty() || path.starts_with('/');
        if state.space != Space::Sent
            || !begins
            || !is_path(to)
            || from.contains(['*', '?'])
            || to.contains(['?', '{'])
        {
            return Err(
                "of `uri replace`, a prefix that all paths have which get there has a counterpart".into()
            );
        }
        state.strip = Some((begin, format!("{to}/")));
        state.space = Space::Unknown;
        Ok(())
    }

    fn rewrite(&self, to: &str, all: &Selector, state: &mut State) -> Result<(), String> {
        let tail = ["{uri}", "{http.request.uri}"].iter().find_map(|whole| to.strip_suffix(whole));
        if let (Space::Without(_), Some(begin), Some((prefix, _))) = (&state.space, tail, &state.strip)
            && begin.starts_with('/')
            && !begin.contains(['{', '?'])
        {
            // What is behind the prefix, behind another one.
            state.strip = Some((prefix.clone(), format!("{}/", begin.trim_end_matches('/'))));
            state.space = Space::Unknown;
            return Ok(());
        }
        let regex = all.regex.as_ref().map(|_| all.regex_name.as_str());
        let known = Known { space: &state.space, regex, secure: state.secure };
        let template = values::template(to, known)?;
        if !template.starts_with(['/', '{']) {
            return Err("a path begins with `/`".into());
        }
        if state.tries.is_some() {
            return Err("the path was rewritten before".into());
        }
        let begin =
            template.strip_suffix("{uri}").filter(|begin| state.space == Space::Sent && is_fixed(begin));
        if let Some(begin) = begin.map(|begin| begin.trim_end_matches('/').to_owned()) {
            (state.strip, state.rewrite) = (None, Some(format!("{begin}{{uri}}")));
            state.space = Space::Behind(begin);
            return Ok(());
        }
        state.space = match template.contains('{')
            && template.split('?').next().is_some_and(|path| path.contains('{'))
        {
            true => Space::Unknown,
            false => Space::Fixed(template.clone()),
        };
        (state.strip, state.rewrite) = (None, Some(template));
        Ok(())
    }

    fn try_files(&self, item: &Item<'_>, state: &mut State) -> Result<(), String> {
        if let Some(policy) = item.directive.inside().iter().find(|line| line.name() == "policy") {
            match policy.word(1) {
                "first_exist" | "first_exist_fallback" => self.cx.translated(policy),
                _ => return Err("the first file that is there is the one".into()),
            }
        }
        if state.rewrite.is_some() {
            return Err("the path was rewritten before".into());
        }
        let mut items = Vec::new();
        for word in item.words {
            let tried = word.replace("{http.request.uri.path}", "{path}").replace("{uri}", "{path}");
            if tried.ends_with(".php") || tried.contains(".php?") {
                state.front = true;
                state.space = Space::Unknown;
                items.push(tried);
                continue;
            }
            let plain =
                !tried.replacen("{path}", "", 1).contains(['{', '?']) && tried.starts_with(['/', '{', '=']);
            if !plain {
                return Err(format!("`{word}` is no path with `{{path}}` in it"));
            }
            items.push(tried);
        }
        // What is behind `{path}` is the path itself.
        if items.iter().any(|tried| tried != "{path}" && !tried.starts_with('=') && tried != "{path}/") {
            state.space = Space::Unknown;
        }
        self.cx.say(
            item.directive,
            Kind::Choice,
            "a directory with an index redirects to its slash, where Caddy tries on",
        );
        state.tries = Some(items);
        Ok(())
    }

    /// Directives that answer nothing; `None` for others.
    fn edit<'d>(
        &self,
        item: &Item<'d>,
        own: &Selector,
        edits: &mut Vec<Placed<'d>>,
        out: &[Route],
    ) -> Option<Flow> {
        let (cx, directive) = (self.cx, item.directive);
        let found = match directive.name() {
            "header" => Some(Edit::Headers(self.header(item))),
            "request_header" => match proxy::rule(item.words) {
                Ok((rule, _)) => {
                    cx.translated(directive);
                    Some(Edit::Request(rule))
                }
                // An application may trust a field that clients could write.
                Err(_) if item.words.first().is_some_and(|name| name.starts_with('-')) => return None,
                Err(why) => {
                    cx.not_possible(directive, why);
                    None
                }
            },
            "request_body" => self.request_body(directive),
            "encode" => Some(Edit::Compress(access::encode(cx, directive))),
            "log_skip" | "skip_log" => {
                cx.translated(directive);
                Some(Edit::Quiet)
            }
            "basicauth" | "basic_auth" => {
                Some(Edit::Gate(access::basic_auth(cx, directive, item.words).ok()?))
            }
            "forward_auth" => Some(Edit::Gate(access::forward_auth(cx, directive, item.words).ok()?)),
            "rate_limit" => Some(Edit::Limits(access::rate_limit(cx, directive).ok()?)),
            "vars" if is_unread(item) => {
                let why = "what would ask for it has no counterpart, and is closed";
                cx.not_needed(directive, why);
                directive.inside().iter().for_each(|line| cx.not_needed(line, why));
                None
            }
            name => {
                let (_, kind, why) = SILENT.iter().find(|(known, ..)| *known == name)?;
                cx.say(directive, *kind, *why);
                let inside = if *kind == Kind::NotPossible { Kind::NotNeeded } else { *kind };
                directive.inside().iter().for_each(|line| cx.say(line, inside, *why));
                None
            }
        };
        edits.extend(found.map(|edit| (own.clone(), edit, out.len())));
        Some(Flow::On)
    }

    fn header<'d>(&self, item: &Item<'d>) -> Vec<edits::Rule<'d>> {
        let directive = item.directive;
        let mut rules = Vec::new();
        let lines: Vec<(&'d Directive, &'d [String])> = match &directive.block {
            Some(lines) => lines.iter().map(|line| (line, line.words.as_slice())).collect(),
            None => vec![(directive, item.words)],
        };
        let defer = directive.inside().iter().any(|line| line.name() == "defer");
        self.cx.translated(directive);
        for (line, words) in lines {
            match line.name() {
                "defer" => self.cx.translated(line),
                "match" => self.cx.not_possible(line, "fields do not depend on the response"),
                _ if words.first().is_some_and(|name| name.eq_ignore_ascii_case("-Server")) => {
                    self.cx.say(line, Kind::Choice, "`server_header = false` takes the field away");
                }
                _ => match proxy::rule(words) {
                    Ok((rule, deferred)) => {
                        self.cx.translated(line);
                        rules.push((rule, deferred || defer, line));
                    }
                    Err(why) => self.cx.not_possible(line, why),
                },
            }
        }
        if directive.inside().iter().any(|line| line.name() == "match") {
            return Vec::new();
        }
        rules
    }

    fn request_body<'d>(&self, directive: &'d Directive) -> Option<Edit<'d>> {
        self.cx.translated(directive);
        let mut found = None;
        for line in directive.inside() {
            match (line.name(), values::size(line.word(1))) {
                ("max_size", Some(bytes)) => {
                    self.cx.translated(line);
                    found = Some(Edit::Body(bytes));
                }
                ("read_timeout" | "write_timeout", _) => {
                    self.cx.say(line, Kind::Choice, "`limits` has times: how long a client may be silent");
                }
                _ => self.cx.not_possible(line, "there is no key for this"),
            }
        }
        found
    }
}

/// Whether this is a path that all requests have at their beginning.
fn is_fixed(begin: &str) -> bool {
    begin.starts_with('/') && begin.len() > 1 && !begin.contains(['{', '?', '*'])
}

/// Whether `vars` sets nothing that Caddy itself reads.
fn is_unread(item: &Item<'_>) -> bool {
    let inside = item.directive.inside().iter().filter_map(|line| line.words.first());
    !item.words.iter().chain(inside).any(|word| word == "root" || word.starts_with("http"))
}

/// The directory that a site names for all its files.
pub(crate) fn root(site: &Directive) -> Option<(String, Place)> {
    let mut lines = site.inside().iter().filter(|line| line.name() == "root");
    let (only, None) = (lines.next()?, lines.next()) else { return None };
    let path = match only.args() {
        [all, path] if all == "*" => path,
        [path] => path,
        _ => return None,
    };
    values::fixed(path).map(|path| (path, only.place.clone()))
}

/// Takes a prefix of the path that is seen away.
fn strip(state: &mut State, prefix: &str) {
    if prefix == "/" {
        return;
    }
    let whole = match &state.space {
        Space::Without(outer) => format!("{}{prefix}", outer.trim_end_matches('/')),
        _ => prefix.to_owned(),
    };
    state.strip = Some((whole.clone(), "/".to_owned()));
    state.space = Space::Without(whole);
}

/// Most directives of one name that are sorted.
const SORTED_MAX: usize = 2_000;

/// Sorts directives that are sorted by their names by their paths, too. The order of paths is none of all pairs, so that they
/// are put in their places one by one.
fn by_paths(items: &mut [Item<'_>], rank: impl Fn(&Item<'_>) -> usize) {
    for at in 1..items.len().min(SORTED_MAX) {
        let mut place = at;
        while place > 0
            && rank(&items[place - 1]) == rank(&items[place])
            && by_path(&items[place], &items[place - 1]).is_lt()
        {
            items.swap(place, place - 1);
            place -= 1;
        }
    }
}

/// Caddy's order of directives of one name: longer paths first, and those without a matcher last.
fn by_path(one: &Item<'_>, other: &Item<'_>) -> std::cmp::Ordering {
    let single = |item: &Item<'_>| match item.asked.selector.paths.as_slice() {
        [path] => Some((path.trim_end_matches('*').to_owned(), path.len())),
        _ => None,
    };
    let has = |item: &Item<'_>| item.asked.unknown.is_some() || !item.asked.selector.is_all();
    match (single(one), single(other)) {
        (Some((ours, length)), Some((theirs, other_length))) if ours == theirs => length.cmp(&other_length),
        (Some((ours, _)), Some((theirs, _))) => theirs.len().cmp(&ours.len()).then_with(|| ours.cmp(&theirs)),
        _ => has(other).cmp(&has(one)),
    }
}
