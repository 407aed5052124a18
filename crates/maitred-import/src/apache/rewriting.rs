//! `RewriteRule` and `RewriteCond`: routes in front of what a place answers with, and what answers for what is no file.

use super::behind::{EXCEPT_MAX, Excepted, MISSING, below, directories, is_all, only_behind_slash};
use super::conditions::{self, FileTest, Part, WITHOUT_WWW};
use super::context::Cx;
use super::flags::{Flags, HARMLESS, status_of, with_query};
use super::globs::Glob;
use super::patterns;
use super::proxy;
use super::selectors::Selector;
use super::templates::{self, Groups};
use super::tree::Directive;
use crate::drafts::Match;
use crate::report::Kind;

/// What answers a request that a rule is for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// A redirect.
    Redirect { to: String, status: u16 },
    /// A fixed status.
    Status(u16),
    /// The same place, as if there were no rules.
    Pass,
    /// Another path, with its query.
    Path(String),
    /// Another server: its URL, with placeholders behind its name.
    Proxy(String),
}

/// A rule.
#[derive(Debug, Clone)]
pub(crate) struct Draft<'d> {
    pub(crate) selector: Selector,
    pub(crate) directive: &'d Directive,
    pub(crate) action: Action,
}

/// What answers for what is no file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fallback {
    /// A script of the root, and its query.
    Script(Script),
    /// Further paths that are looked for.
    Tries(Vec<String>),
    /// Another server.
    Proxy(String),
}

/// A script for what is no file.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Script {
    /// The path.
    pub(crate) path: String,
    /// Parameters that it gets.
    pub(crate) set: Vec<(String, String)>,
    /// The expression whose groups are in them.
    pub(crate) regex: Option<String>,
    /// Whether the client's parameters are dropped.
    pub(crate) drop: bool,
}

/// What the rules of a place come to.
#[derive(Debug, Default)]
pub(crate) struct Rules<'d> {
    pub(crate) drafts: Vec<Draft<'d>>,
    pub(crate) fallback: Option<(&'d Directive, Fallback)>,
    /// Paths that are looked for behind the request's own.
    pub(crate) tries: Vec<String>,
    /// The methods that get an answer.
    pub(crate) methods: Vec<String>,
    /// No client gets an answer, for this reason.
    pub(crate) closed: Option<String>,
}

/// Where rules stand.
pub(crate) struct Place<'p> {
    /// The path of the directory, with a slash at its end; `None` for rules of a server.
    pub(crate) prefix: Option<&'p str>,
    /// The names of the site.
    pub(crate) names: &'p [String],
    /// What is below the directory, if that is known: paths as they are asked for, and whether they are directories.
    pub(crate) files: Option<&'p [(String, bool)]>,
}

/// Directives about this.
pub(crate) const NAMES: &[&str] =
    &["rewriteengine", "rewritebase", "rewritecond", "rewriterule", "rewriteoptions", "rewritemap"];

/// The rules of a place.
pub(crate) fn of<'d>(cx: &Cx<'_>, directives: &[&'d Directive], place: &Place<'_>) -> Rules<'d> {
    let mut reading = Reading {
        cx,
        place,
        base: None,
        conds: Vec::new(),
        rest: Vec::new(),
        all: directives.to_vec(),
        passed: (false, false),
        constants: Vec::new(),
        rules: Rules::default(),
    };
    // The last one says it.
    let engine = directives.iter().rev().find(|one| one.name == "rewriteengine");
    for one in directives.iter().filter(|one| one.name == "rewriteengine") {
        cx.translated(*one);
    }
    if !engine.is_some_and(|one| one.is_on()) {
        for one in directives.iter().filter(|one| one.name != "rewriteengine") {
            cx.say(*one, Kind::NotNeeded, "`RewriteEngine` is off there");
        }
        return Rules::default();
    }
    let base = directives.iter().rev().find(|one| one.name == "rewritebase");
    reading.base = base.map(|one| {
        cx.translated(*one);
        proxy::with_slash(one.arg(0))
    });
    let rules: Vec<&'d Directive> =
        directives.iter().copied().filter(|one| one.name == "rewriterule").collect();
    for one in directives {
        match one.name.as_str() {
            "rewritecond" => reading.conds.push(one),
            "rewriterule" => {
                let at = rules.iter().position(|rule| std::ptr::eq(*rule, *one)).unwrap_or_default();
                reading.rest = rules[at + 1..].to_vec();
                reading.rule(one);
                reading.conds.clear();
            }
            "rewriteoptions" if one.text().to_ascii_lowercase().contains("inherit") => {
                cx.not_possible(*one, "rules of an outer place are not inherited");
            }
            "rewriteoptions" => cx.translated(*one),
            "rewritemap" => cx.not_possible(*one, "there are no maps: what uses it is not in the output"),
            _ => {}
        }
    }
    reading.rules
}

struct Reading<'c, 'p, 'd> {
    cx: &'c Cx<'c>,
    place: &'c Place<'p>,
    base: Option<String>,
    conds: Vec<&'d Directive>,
    /// The rules behind the one that is read.
    rest: Vec<&'d Directive>,
    /// All directives of the place.
    all: Vec<&'d Directive>,
    /// Files, and directories, are answered before.
    passed: (bool, bool),
    /// Variables that have one value for all requests.
    constants: Vec<(String, String)>,
    rules: Rules<'d>,
}

/// What the conditions of a rule come to.
struct Conds {
    /// One of these: alternatives are routes one after the other.
    selectors: Vec<Selector>,
    files: Vec<FileTest>,
    /// The tests of files are alternatives.
    either: bool,
    group: Option<String>,
    methods: Vec<String>,
}

impl Conds {
    /// All of what was there, and one of these.
    fn and(&mut self, others: &[Selector]) -> Result<(), String> {
        let mut all = Vec::new();
        for own in &self.selectors {
            for other in others {
                all.extend(own.and(other)?);
            }
        }
        self.selectors = all;
        match self.selectors.len() <= ALTERNATIVES_MAX {
            true => Ok(()),
            false => Err("the conditions have too many alternatives".into()),
        }
    }

    fn is_all(&self) -> bool {
        matches!(self.selectors.as_slice(), [one] if one.is_all())
    }
}

/// Alternatives of the conditions of a rule, at most.
const ALTERNATIVES_MAX: usize = 12;

impl<'d> Reading<'_, '_, 'd> {
    fn say(&self, rule: &Directive, kind: Kind, why: &str) {
        self.conds.iter().for_each(|cond| self.cx.say(*cond, kind, why));
        self.cx.say(rule, kind, why);
    }

    fn rule(&mut self, rule: &'d Directive) {
        if self.rules.closed.is_some() {
            return self.say(rule, Kind::NotPossible, "it is behind a rule that is not possible");
        }
        let flags = Flags::of(rule.arg(2));
        let forbids = flags.has(&["f", "forbidden"]);
        if forbids && DOTS.contains(&rule.arg(0)) {
            return self.dots(rule);
        }
        if forbids && self.conds.is_empty() && rule.arg(0).contains(r"\.(?!well-known") {
            return self.say(rule, Kind::Choice, "names that begin with a dot are withheld: 404");
        }
        if rule.arg(1) == "-" && flags.has(&["e", "env"]) && !forbids {
            return match constant(rule, &flags).filter(|_| self.conds.is_empty()) {
                Some(set) => {
                    self.constants.retain(|(name, _)| *name != set.0);
                    self.constants.push(set);
                    self.say(rule, Kind::Translated, "its value stands where it is asked for");
                }
                None => self.variable(rule, &flags),
            };
        }
        match self.read(rule, &flags) {
            Ok(note) => self.say(rule, Kind::Translated, &note),
            Err(why) => {
                let jumps = flags.has(&["c", "chain", "s", "skip", "n", "next", "h", "handler"]);
                if jumps || forbids || flags.has(&["p", "proxy"]) {
                    self.say(
                        rule,
                        Kind::NotPossible,
                        &format!("{why}: the paths of the rule answer 403 instead"),
                    );
                    return self.close(rule, jumps);
                }
                self.say(rule, Kind::NotPossible, &why);
            }
        }
    }

    /// Names that begin with a dot are refused.
    fn dots(&mut self, rule: &'d Directive) {
        let prefix = self.place.prefix.unwrap_or("/");
        let mut selector =
            Selector::paths(vec![Glob::parse(&format!("{}*/.*", prefix.trim_end_matches('/')))]);
        let known = |one: &&Directive| one.args.iter().any(|word| word.contains("well-known"));
        let exempt = self.conds.iter().copied().chain([rule]).any(|one| known(&one));
        if exempt {
            let paths = vec![format!("{prefix}.well-known/*")];
            selector.condition.not.push(Match { paths, ..Match::default() });
        }
        match self.conds.is_empty() {
            true => self.say(rule, Kind::Translated, ""),
            false => self.say(
                rule,
                Kind::Choice,
                "names that begin with a dot are refused, whether there are files or not",
            ),
        }
        self.rules.drafts.push(Draft { selector, directive: rule, action: Action::Status(403) });
    }

    /// `[E=…]` alone.
    fn variable(&self, rule: &Directive, flags: &Flags) {
        let value = flags.value(&["e", "env"]).unwrap_or_default();
        let name = value.split(':').next().unwrap_or_default().trim_start_matches('!');
        match name.to_ascii_uppercase().as_str() {
            "HTTP_AUTHORIZATION" | "REMOTE_USER" | "HTTP_X_XSRF_TOKEN" | "HTTP_X_CSRF_TOKEN" => {
                self.say(
                    rule,
                    Kind::NotNeeded,
                    "applications get `Authorization` and all other fields of the client",
                );
            }
            "BASE" => self.say(
                rule,
                Kind::NotNeeded,
                "the directory of the rules is known, and so is what the variable would be",
            ),
            _ => {
                let asked = format!("ENV:{name}");
                let asks = |one: &&Directive| one.args.iter().any(|word| word.contains(&asked));
                match self.all.iter().any(asks) {
                    true => self.say(rule, Kind::NotPossible, "rules set no variables here"),
                    false => self.say(
                        rule,
                        Kind::Choice,
                        "no rule asks for the variable, and scripts do \
                 not get it",
                    ),
                }
            }
        }
    }

    /// What cannot be said admits no client.
    fn close(&mut self, rule: &'d Directive, all: bool) {
        match self.pattern(rule, &Flags::of(rule.arg(2)), false) {
            Ok(found) if !all => {
                self.rules.drafts.push(Draft {
                    selector: found.0,
                    directive: rule,
                    action: Action::Status(403),
                });
            }
            _ => self.rules.closed = Some(rule.shown.clone()),
        }
    }

    fn read(&mut self, rule: &'d Directive, flags: &Flags) -> Result<String, String> {
        let to = rule.arg(1);
        if let Some((flag, _)) = flags
            .0
            .iter()
            .find(|(name, _)| !HARMLESS.contains(&name.as_str()) && !["e", "env"].contains(&name.as_str()))
        {
            return Err(format!("rules have nothing for the flag `{flag}`"));
        }
        if flags.has(&["e", "env"])
            && !flags.value(&["e", "env"]).is_some_and(|value| value.starts_with("HTTP_AUTHORIZATION"))
        {
            return Err("rules set no variables here".into());
        }
        let mut conds = self.conditions(to)?;
        if !conds.methods.is_empty() {
            // Other methods than these are refused: the place has no others.
            let all = self.pattern(rule, flags, false)?.2 && conds.is_all() && conds.files.is_empty();
            if !all || !flags.has(&["f", "forbidden"]) {
                return Err("a route has the methods that it is for, and not those that it is not for".into());
            }
            self.rules.methods = conds.methods;
            return Ok("with 405 instead of 403".into());
        }
        let path = to.split('?').next().unwrap_or_default();
        let in_path = (0..10).any(|group| path.contains(&format!("${group}")));
        let whole = self.place.prefix == Some("/")
            && !to.contains('?')
            && only_behind_slash(path)
            && is_all(rule.arg(0));
        let (pattern, groups, all) =
            self.pattern(rule, flags, to.contains('$') && (in_path || to.contains('?')) && !whole)?;
        if self.rules.fallback.is_some() {
            return Ok("a rule before it takes all".into());
        }
        let every = all && conds.is_all();
        conds.and(&[pattern])?;
        if conds.selectors.is_empty() {
            return Ok("no request fits its conditions".into());
        }
        let groups = Groups {
            regex: groups,
            whole: whole && all,
            cond: conds.group.take(),
            base: self.base_path(),
            constants: self.constants.clone(),
        };
        if to == "-"
            && !flags.has(&["f", "forbidden", "g", "gone"])
            && status_of(flags).is_none_or(|status| status < 400)
        {
            return self.pass(rule, flags, &conds, all);
        }
        if groups.cond.as_deref() == Some(WITHOUT_WWW) {
            return self.without_www(rule, flags, &conds, groups);
        }
        let action = self.action(rule, flags, &groups)?;
        self.finish(rule, flags, conds, (action, all, every.then_some(groups.regex)))
    }

    /// A rule whose action is known: in front of the place, or behind its files.
    fn finish(
        &mut self,
        rule: &'d Directive,
        flags: &Flags,
        conds: Conds,
        (action, all, every): (Action, bool, Option<Option<String>>),
    ) -> Result<String, String> {
        let tests = |what: char| conds.files.iter().any(|test| test.what == what);
        let tested = (tests('f') || self.passed.0, tests('d') || self.passed.1);
        if let Some(positive) = conds.files.iter().find(|test| !test.negated) {
            return self.positive(positive, &conds, &action, all);
        }
        if conds.files.iter().any(|test| !test.around.0.is_empty() || !test.around.1.is_empty()) {
            return Err("the file that is looked for is not that of the request".into());
        }
        let mut note = "";
        // What a group of the expression is in the path itself is no expression for all paths.
        if let Some(fallback) = every.and_then(|regex| self.fallback(&action, tested, regex)) {
            self.rules.fallback = Some((rule, fallback));
            return Ok(if tested.1 { String::new() } else { "directories with an index are served".into() });
        }
        let mut drafts = Vec::new();
        for mut selector in conds.selectors {
            if tested.0 || tested.1 {
                note = match self.except(&mut selector, tested)? {
                    Excepted::Nothing => "no file has such a path",
                    Excepted::Files => "without the files that are there now",
                    Excepted::Directories(emptier) => {
                        self.say(rule, if emptier { Kind::Worse } else { Kind::Choice }, MISSING);
                        ""
                    }
                };
            }
            self.not_again(&action, &mut selector, flags)?;
            drafts.push(Draft { selector, directive: rule, action: action.clone() });
        }
        self.rules.drafts.extend(drafts);
        Ok(note.to_owned())
    }

    fn conditions(&self, to: &str) -> Result<Conds, String> {
        let mut found = Conds {
            selectors: vec![Selector::default()],
            files: Vec::new(),
            either: false,
            group: None,
            methods: Vec::new(),
        };
        let mut alternatives: Vec<Part> = Vec::new();
        for (at, cond) in self.conds.iter().enumerate() {
            let or = conditions::has_flag(cond.arg(2), &["OR", "ornext"]);
            let part = self.condition(cond, to, &mut found)?;
            if or || !alternatives.is_empty() {
                alternatives.push(part);
                if or && at + 1 < self.conds.len() {
                    continue;
                }
                joined(&mut found, std::mem::take(&mut alternatives))?;
                continue;
            }
            match part {
                Part::Always => {}
                Part::File(test) => found.files.push(test),
                Part::Select(selector) => found.and(&[selector])?,
                Part::Captured(selector, group) => {
                    found.and(&[selector])?;
                    found.group = Some(group);
                }
            }
        }
        Ok(found)
    }

    fn condition(&self, cond: &Directive, to: &str, found: &mut Conds) -> Result<Part, String> {
        let (subject, pattern) = (cond.arg(0), cond.arg(1));
        if subject == "%{REQUEST_METHOD}" && pattern.starts_with('!') {
            let texts = patterns::texts(&pattern[1..]).filter(|texts| {
                texts.texts.iter().all(|text| text.bytes().all(|byte| byte.is_ascii_uppercase()))
            });
            found.methods = texts.ok_or("methods are a list of names")?.texts;
            return Ok(Part::Always);
        }
        if subject == "%{THE_REQUEST}" && pattern.contains("index") && !pattern.starts_with('!') {
            // The rule is about what the client has asked for: paths that rules have made are not looked at again here.
            return Ok(Part::Always);
        }
        let wants = (1..10).any(|group| to.contains(&format!("%{group}")));
        if wants && subject == "%{THE_REQUEST}" && WHOLE_TARGET.contains(&pattern) {
            return Ok(Part::Captured(Selector::default(), "{uri}".to_owned()));
        }
        if wants && subject == "%{REQUEST_URI}" && !pattern.starts_with('!') {
            // The slash that a path begins with stands in front of the group in the target.
            let pattern = match pattern.trim_start_matches('^') {
                "(.+)/$" => "^/(.+)/$",
                "(.*)/$" => "^/(.*)/$",
                _ => pattern,
            };
            patterns::compiled(pattern)?;
            let selector = Selector { regex: Some(pattern.to_owned()), ..Selector::default() };
            return Ok(Part::Captured(selector, "{capture.1}".to_owned()));
        }
        conditions::rewrite_cond(cond)
    }

    fn base_path(&self) -> String {
        self.base.clone().unwrap_or_else(|| self.place.prefix.unwrap_or("/").to_owned())
    }

    /// The paths of a rule; the expression whose groups it may use; whether the rule is for all paths of the place.
    fn pattern(
        &self,
        rule: &Directive,
        flags: &Flags,
        captures: bool,
    ) -> Result<(Selector, Option<String>, bool), String> {
        let given = rule.arg(0);
        let (negated, pattern) = match given.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, given),
        };
        let all = is_all(pattern) && !negated;
        if all && !captures {
            return Ok((Selector::default(), None, true));
        }
        let whole = match self.place.prefix {
            None => pattern.to_owned(),
            Some(prefix) => below(prefix, pattern)?,
        };
        let whole = if flags.has(&["nc", "nocase"]) { format!("(?i){whole}") } else { whole };
        let letters = |globs: &[Glob]| {
            globs.iter().any(|glob| glob.show().contains(|letter: char| letter.is_ascii_alphabetic()))
        };
        let globs = patterns::of_path(whole.trim_start_matches("(?i)"))
            .filter(|globs| !whole.starts_with("(?i)") || !letters(globs));
        if negated {
            let paths = globs.ok_or("paths that a route is not for are patterns without expressions")?;
            let paths = paths.iter().map(Glob::show).collect();
            let not = vec![Match { paths, ..Match::default() }];
            return Ok((Selector::condition(Match { not, ..Match::default() }), None, false));
        }
        patterns::compiled(&whole)?;
        match globs.filter(|_| !captures) {
            Some(globs) => Ok((Selector::paths(globs), None, all)),
            None => Ok((Selector { regex: Some(whole.clone()), ..Selector::default() }, Some(whole), all)),
        }
    }

    /// `-`: the path stays.
    fn pass(
        &mut self,
        rule: &'d Directive,
        flags: &Flags,
        conds: &Conds,
        all: bool,
    ) -> Result<String, String> {
        if !flags.ends() {
            return Ok("it changes nothing".into());
        }
        if !conds.files.is_empty() {
            let plain =
                conds.files.iter().all(|test| !test.negated && test.around == (String::new(), String::new()));
            let (file, directory) = (
                conds.files.iter().any(|test| "fs".contains(test.what)),
                conds.files.iter().any(|test| test.what == 'd'),
            );
            if !plain || !all || !conds.is_all() || (!conds.either && conds.files.len() > 1) {
                return Err("a test of files is for all paths of a place".into());
            }
            self.passed = (self.passed.0 || file, self.passed.1 || directory);
            return Ok("files are looked for first".into());
        }
        let draft =
            |selector: &Selector| Draft { selector: selector.clone(), directive: rule, action: Action::Pass };
        self.rules.drafts.extend(conds.selectors.iter().map(draft));
        Ok(String::new())
    }

    /// `^www\.(.+)$` of the host, for each name that begins so.
    fn without_www(
        &mut self,
        rule: &'d Directive,
        flags: &Flags,
        conds: &Conds,
        groups: Groups,
    ) -> Result<String, String> {
        let names: Vec<&String> = self.place.names.iter().filter(|name| name.starts_with("www.")).collect();
        if names.is_empty() {
            return Err(
                "no name of the site begins with `www.`: write the redirect for the name that does".into()
            );
        }
        for name in names {
            let groups = Groups { cond: Some(name.trim_start_matches("www.").to_owned()), ..groups.clone() };
            let action = self.action(rule, flags, &groups)?;
            for selector in &conds.selectors {
                let (mut selector, action) = (selector.clone(), action.clone());
                selector.condition.header = vec![("Host".into(), name.clone())];
                self.rules.drafts.push(Draft { selector, directive: rule, action });
            }
        }
        Ok(String::new())
    }

    fn action(&self, rule: &Directive, flags: &Flags, groups: &Groups) -> Result<Action, String> {
        if flags.has(&["f", "forbidden"]) {
            return Ok(Action::Status(403));
        }
        if flags.has(&["g", "gone"]) {
            return Ok(Action::Status(410));
        }
        let to = rule.arg(1);
        let external = to.contains("://") || to.starts_with("%{REQUEST_SCHEME}");
        let status = status_of(flags).or((external && !flags.has(&["p", "proxy"])).then_some(302));
        if let Some(status) = status {
            if !(300..400).contains(&status) {
                return Ok(Action::Status(status));
            }
            if ![301, 302, 303, 307, 308].contains(&status) {
                return Err("a redirect is 301, 302, 303, 307 or 308".into());
            }
            let to = templates::redirect(to, groups)?;
            return Ok(Action::Redirect { to: with_query(to, rule.arg(1), flags), status });
        }
        if flags.has(&["p", "proxy"]) {
            return Ok(Action::Proxy(templates::url(to, groups)?));
        }
        let path = templates::path(to, groups)?;
        Ok(Action::Path(match path.contains('?') || to.ends_with('?') || flags.has(&["qsd", "qsdiscard"]) {
            true => with_query(path, to, flags),
            false => path,
        }))
    }

    /// What answers for all that is no file.
    fn fallback(&self, action: &Action, tested: (bool, bool), regex: Option<String>) -> Option<Fallback> {
        if !tested.0 {
            return None;
        }
        match action {
            Action::Path(path) => {
                let (script, query) = path.split_once('?').unwrap_or((path, ""));
                if script.contains('{') {
                    return None;
                }
                if !script.ends_with(".php") {
                    return query.is_empty().then(|| Fallback::Tries(vec![script.to_owned()]));
                }
                let drop = path.contains('?') && !query.contains("{query}");
                let pairs = query.split('&').filter(|item| !item.is_empty() && *item != "{query}");
                let set = pairs
                    .map(|pair| pair.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
                    .collect::<Option<Vec<_>>>()?;
                // With parameters, only what is the index of the root answers behind the files.
                let root = !script.trim_start_matches('/').contains('/') && self.rules.tries.is_empty();
                if !root && (drop || !set.is_empty()) {
                    return None;
                }
                let regex = regex.filter(|_| set.iter().any(|(_, value)| value.contains("{capture")));
                Some(Fallback::Script(Script { path: script.to_owned(), set, regex, drop }))
            }
            Action::Proxy(url) => regex.is_none().then(|| Fallback::Proxy(url.clone())),
            _ => None,
        }
    }

    /// `%{REQUEST_FILENAME}.html -f` and `$1.html`.
    fn positive(
        &mut self,
        test: &FileTest,
        conds: &Conds,
        action: &Action,
        all: bool,
    ) -> Result<String, String> {
        let one = "a file that a rule looks for is the one that it leads to";
        let Action::Path(path) = action else { return Err(one.into()) };
        let (before, after) = &test.around;
        let wanted = [format!("{before}{{path}}{after}"), format!("{before}/{{capture.1}}{after}")];
        let others = conds
            .files
            .iter()
            .all(|other| other == test || (other.negated && other.around == (String::new(), String::new())));
        let plain = test.what == 'f' && others && all && conds.is_all();
        if !plain
            || !wanted.contains(path)
            || (before.is_empty() && after.is_empty())
            || after.ends_with(".php")
        {
            return Err(one.into());
        }
        self.rules.tries.push(format!("{before}{{path}}{after}"));
        Ok(String::new())
    }

    /// Leaves out the files that are there, where a test says so.
    fn except(&self, selector: &mut Selector, tested: (bool, bool)) -> Result<Excepted, String> {
        let Some(files) = self.place.files else {
            return Err(
                "whether there is a file is not asked in a route, and the directory is not there on \
                 this machine"
                    .into(),
            );
        };
        let regex = selector.regex.as_deref().map(patterns::compiled).transpose()?;
        let fits = |path: &str| {
            regex.as_ref().is_none_or(|regex| regex.is_match(path))
                && (selector.paths.is_empty() || selector.paths.iter().any(|glob| glob.fits(path)))
        };
        let there = |(path, directory): &&(String, bool)| {
            (if *directory { tested.1 && path != "/" } else { tested.0 }) && fits(path)
        };
        let mut paths: Vec<String> = files.iter().filter(there).map(|(path, _)| path.clone()).collect();
        let own = self.place.prefix.unwrap_or("/");
        if paths.is_empty() && !(tested.1 && fits(own)) {
            return Ok(Excepted::Nothing);
        }
        let mut how = Excepted::Files;
        if paths.len() > EXCEPT_MAX {
            let (found, emptier) = directories(&paths, own);
            (paths, how) = (found, Excepted::Directories(emptier));
        }
        if paths.len() > EXCEPT_MAX {
            return Err("too many files are excepted".into());
        }
        // A directory that is asked for is there.
        if tested.1 && fits(own) {
            paths.insert(0, own.to_owned());
        }
        selector.condition.not.push(Match { paths, ..Match::default() });
        Ok(how)
    }

    /// A rule is not applied to its own result, and what no `[L]` ends is changed by no later rule.
    fn not_again(&self, action: &Action, selector: &mut Selector, flags: &Flags) -> Result<(), String> {
        let Action::Path(to) = action else { return Ok(()) };
        let path = to.split('?').next().unwrap_or_default();
        let filled = templates::filled(path);
        if !flags.ends() {
            let prefix = self.place.prefix.unwrap_or_default();
            let own = filled.strip_prefix(prefix).unwrap_or(&filled);
            if self.rest.len() > BEHIND_MAX {
                return Err("without `[L]` too many rules are behind it".into());
            }
            for rule in self.rest.iter().filter(|rule| rule.arg(1) != "-") {
                let pattern = patterns::compiled(rule.arg(0).trim_start_matches('!'))?;
                let known =
                    self.place.files.is_some_and(|files| files.iter().any(|(known, _)| *known == filled));
                if pattern.is_match(own) && !known {
                    return Err("without `[L]` a later rule is applied to its result".into());
                }
            }
        }
        let again = match &selector.regex {
            Some(regex) => patterns::compiled(regex)?.is_match(&filled),
            None => selector.paths.is_empty() || selector.paths.iter().any(|glob| glob.fits(&filled)),
        };
        if again && !path.contains('{') {
            selector.condition.not.push(Match { paths: vec![path.to_owned()], ..Match::default() });
        } else if again {
            let head = path.split('{').next().unwrap_or_default();
            if self.place.prefix.is_none_or(|prefix| head.len() <= prefix.len()) {
                return Err("it would be applied to its own result again and again".into());
            }
            selector.condition.not.push(Match { paths: vec![format!("{head}*")], ..Match::default() });
        }
        Ok(())
    }
}

/// Expressions for names that begin with a dot.
const DOTS: &[&str] = &[
    r"(^|/)\.",
    r"(^\.|/\.)",
    r"(?:^|/)\.",
    r"/\.|^\.",
    r"^\.|/\.",
    r"(^|/)\.(?!well-known/)",
    r"(^|/)\.(?!well-known)",
];

/// `[E=NAME:value]` for all requests.
fn constant(rule: &Directive, flags: &Flags) -> Option<(String, String)> {
    let (name, value) = flags.value(&["e", "env"])?.split_once(':')?;
    let plain = is_all(rule.arg(0)) && flags.0.len() == 1 && !value.contains(['%', '$', '\\']);
    let known = ["http_authorization", "base"].contains(&name.to_ascii_lowercase().as_str());
    (plain && !known).then(|| (name.to_owned(), value.to_owned()))
}

/// Rules behind one that does not end them, at most.
const BEHIND_MAX: usize = 200;

/// Expressions whose group is the target of every request.
const WHOLE_TARGET: &[&str] =
    &[r"\s(/[^\s]*)\s", r"\s(/\S*)\s", r"^[A-Z]+\s(/[^\s]*)\s", r"^[A-Z]+\s(/\S*)\s"];

/// Conditions of which one has to hold.
fn joined(found: &mut Conds, parts: Vec<Part>) -> Result<(), String> {
    if parts.contains(&Part::Always) {
        return Ok(());
    }
    if parts.iter().all(|part| matches!(part, Part::File(_))) {
        found.either = true;
        found.files.extend(parts.into_iter().filter_map(|part| match part {
            Part::File(test) => Some(test),
            _ => None,
        }));
        return Ok(());
    }
    let mut all = Vec::new();
    for part in parts {
        match part {
            Part::Select(selector) | Part::Captured(selector, _) => all.push(selector),
            _ => return Err("files and requests are no alternatives of one another here".into()),
        }
    }
    found.and(&all)
}
