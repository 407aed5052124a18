//! Directives that answer: `respond`, `redir`, `reverse_proxy`, `file_server` and their like.

use super::engine::{Engine, Item, State};
use super::matchers::{Both, Selector};
use super::tree::Directive;
use super::values::{self, Known, Space};
use super::{access, proxy};
use crate::drafts::{Files, Route, Target};
use crate::model::Value;
use crate::report::Kind;

/// What an error without a text of its own says.
const LINE: &str = "errors have a line of text";
const REWRITTEN: &str = "the path was rewritten before";

impl Engine<'_> {
    /// The routes of a directive for requests of `all`, and whether it answers all of these.
    ///
    /// # Errors
    /// Why it has no counterpart.
    pub(crate) fn answer(
        &self,
        item: &Item<'_>,
        rest: &[Item<'_>],
        all: &Selector,
        state: &State,
        out: &mut Vec<Route>,
    ) -> Result<bool, String> {
        let (cx, directive) = (self.cx, item.directive);
        match directive.name() {
            "redir" => {
                let (selector, target) = redirect(item, all, state)?;
                cx.translated(directive);
                out.push(selector.route(directive, target));
            }
            "respond" => out.push(all.route(directive, self.respond(item)?)),
            "abort" => {
                cx.translated(directive);
                out.push(all.route(directive, Target::Respond { status: 444, body: None }));
            }
            "error" => {
                let status = item.words.iter().rev().find_map(|word| word.parse().ok()).unwrap_or(500);
                if !(200..600).contains(&status) {
                    return Err("an error has a status from 200 to 599".into());
                }
                directive
                    .inside()
                    .iter()
                    .for_each(|line| cx.not_needed(line, "clients do not get this text"));
                match status >= 400 {
                    true => cx.say(directive, Kind::Better, LINE),
                    false => cx.translated(directive),
                }
                out.push(all.route(directive, Target::Respond { status, body: None }));
            }
            "reverse_proxy" => out.push(self.reverse_proxy(item, all, state)?),
            "php_fastcgi" => return self.php(item, rest, all, state, out),
            "file_server" => self.files(item, all, state, out)?,
            "basicauth" | "basic_auth" => return access::basic_auth(cx, directive, item.words).map(|_| true),
            "forward_auth" => return access::forward_auth(cx, directive, item.words).map(|_| true),
            "rate_limit" => return access::rate_limit(cx, directive).map(|_| true),
            "metrics" => return Err("the address `admin` has metrics".into()),
            "request_header" => return proxy::rule(item.words).map(|_| true),
            "php_server" | "php" => return Err(super::options::PHP.into()),
            _ => return Err("there is no counterpart of this directive".into()),
        }
        Ok(true)
    }

    fn respond(&self, item: &Item<'_>) -> Result<Target, String> {
        let (directive, words) = (item.directive, item.words);
        let inside = |name: &str| directive.inside().iter().find(|line| line.name() == name);
        let is_code = |word: &str| word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
        let (body, code) = match words {
            [] => (None, None),
            [one] if is_code(one) => (None, Some(one)),
            [one] => (Some(one), None),
            [body, code] => (Some(body), Some(code)),
            _ => return Err("it has a text and a status".into()),
        };
        let status = match code.map(|code| code.parse::<u16>()) {
            None => 200,
            Some(Ok(status @ 200..=599)) => status,
            Some(_) => return Err("a status is a number from 200 to 599".into()),
        };
        let body = body.or_else(|| inside("body").and_then(|line| line.words.get(1)));
        let body = values::fixed(body.map_or("", String::as_str));
        let body = body.ok_or("the text is fixed here, without placeholders")?;
        for line in directive.inside() {
            match line.name() {
                "body" => self.cx.translated(line),
                "close" => self.cx.say(line, Kind::Choice, "the connection stays open for the next request"),
                _ => return Err(format!("there is no counterpart of `{}`", line.name())),
            }
        }
        match status >= 400 && body.is_empty() {
            true => self.cx.say(directive, Kind::Better, LINE),
            false => self.cx.translated(directive),
        }
        let json = serde_json::from_str::<serde_json::Value>(&body)
            .is_ok_and(|json| json.is_object() || json.is_array());
        let media = if json { "application/json" } else { "text/plain; charset=utf-8" };
        let body = (!body.is_empty()).then(|| (body, media.to_owned()));
        Ok(Target::Respond { status, body })
    }

    fn reverse_proxy(&self, item: &Item<'_>, all: &Selector, state: &State) -> Result<Route, String> {
        if state.tries.is_some() && state.space != Space::Sent {
            return Err(
                "`try_files` comes before it in Caddy, and leaves other paths: put each in a `handle`".into(),
            );
        }
        let regex = all.regex.as_ref().map(|_| all.regex_name.as_str());
        let known = Known { space: &state.space, regex, secure: state.secure };
        let found = proxy::reverse(self.cx, item.directive, item.words, known)?;
        let rewritten = found.rewrite.is_some();
        if rewritten && state.strip.is_some() && !matches!(&found.rewrite, Some(to) if !to.contains('{')) {
            return Err(REWRITTEN.into());
        }
        let strip = state.strip.clone().filter(|_| !rewritten);
        let rewrite = found.rewrite.or_else(|| state.rewrite.clone());
        let mut route = all.route(item.directive, Target::Pool { name: found.pool, strip, rewrite });
        route.request = found.request;
        route.response = found.response;
        Ok(route)
    }

    /// The directory of files, and whether it is there.
    fn directory(&self, given: Option<&str>, state: &State) -> Result<Files, String> {
        let (root, place) = match (given.map(values::fixed), &state.root) {
            (Some(None), _) => return Err("the directory is fixed here, without placeholders".into()),
            (None, Some(Err(why))) => return Err(why.clone()),
            (Some(Some(given)), _) => (given, None),
            (None, Some(Ok((root, place)))) => (root.clone(), Some(place.clone())),
            (None, None) => (".".to_owned(), None),
        };
        let missing = !root.starts_with('/') || !self.cx.machine.has_directory(&root);
        Ok(Files { root, missing, place, ..Files::default() })
    }

    fn files(
        &self,
        item: &Item<'_>,
        all: &Selector,
        state: &State,
        out: &mut Vec<Route>,
    ) -> Result<(), String> {
        let (cx, directive) = (self.cx, item.directive);
        let line = |name: &str| directive.inside().iter().find(|line| line.name() == name);
        let mut files = self.directory(line("root").map(|line| line.word(1)), state)?;
        files.listing = item.words.iter().any(|word| word == "browse") || line("browse").is_some();
        for line in directive.inside() {
            self.of_files(line, &mut files)?;
        }
        let hidden =
            line("hide").map(|line| hidden(line.args(), &files.root)).transpose()?.unwrap_or_default();
        files.tries = tries(state)?;
        match (&state.rewrite, &state.strip) {
            (Some(rewrite), _) => files.rewrite = Some(rewrite.clone()),
            (None, Some((strip, replaced))) if replaced == "/" => files.strip = Some(strip.clone()),
            (None, Some(_)) => return Err(REWRITTEN.into()),
            (None, None) => {}
        }
        if files.strip.is_some() && !files.tries.is_empty() {
            return Err("the paths that are tried are whole ones: `try` knows no `strip_prefix`".into());
        }
        if !hidden.is_empty() {
            let names = Selector { paths: hidden, ..Selector::default() };
            match names.within(&state.space) {
                Both::Is(names) => match all.and(&names) {
                    Both::Is(names) => {
                        out.push(names.route(directive, Target::Respond { status: 404, body: None }))
                    }
                    Both::Never => {}
                    Both::Unknown(why) => return Err(why.into()),
                },
                Both::Never => {}
                Both::Unknown(_) => return Err(REWRITTEN.into()),
            }
        }
        match files.missing.then(|| files.root.clone()) {
            Some(root) => {
                let why = format!("as a comment: there is no directory {root} on this machine");
                cx.say(directive, Kind::Translated, why);
            }
            None => cx.say(directive, Kind::Better, "names that begin with a dot are withheld (`hidden`)"),
        }
        out.push(all.route(directive, Target::Files(files)));
        Ok(())
    }

    /// A line of `file_server`.
    fn of_files(&self, line: &Directive, files: &mut Files) -> Result<(), String> {
        let cx = self.cx;
        match line.name() {
            "root" | "hide" => cx.translated(line),
            "browse" if line.words.len() == 1 && line.block.is_none() => cx.translated(line),
            "browse" => cx.say(line, Kind::Choice, "listings have a page of their own, without templates"),
            "index" => {
                cx.translated(line);
                files.index = line.args().to_vec();
            }
            "precompressed" => {
                cx.translated(line);
                let all = ["br", "zstd", "gzip"].map(str::to_owned).to_vec();
                let given: Vec<String> =
                    line.args().iter().filter(|arg| all.contains(arg)).cloned().collect();
                files.precompressed = if given.is_empty() { all } else { given };
            }
            "disable_canonical_uris" => {
                cx.say(
                    line,
                    Kind::Choice,
                    "a directory is redirected to its slash, so that links in it work",
                );
            }
            "etag_file_extensions" => cx.say(line, Kind::Choice, "each file has a tag of its own"),
            name => return Err(format!("there is no counterpart of `{name}`")),
        }
        Ok(())
    }

    /// Scripts of PHP; whether other paths are served, too.
    fn php(
        &self,
        item: &Item<'_>,
        rest: &[Item<'_>],
        all: &Selector,
        state: &State,
        out: &mut Vec<Route>,
    ) -> Result<bool, String> {
        let (cx, directive) = (self.cx, item.directive);
        let line = |name: &str| directive.inside().iter().find(|line| line.name() == name);
        let files = self.directory(None, state)?;
        if state.strip.is_some() {
            return Err(REWRITTEN.into());
        }
        let off = line("index").is_some_and(|line| line.word(1) == "off");
        let index = line("index").map_or("index.php", |line| line.word(1)).trim_start_matches('/');
        tried(directive, state, index, off)?;
        let serves = rest.iter().any(|item| item.directive.name() == "file_server");
        if !serves && !off {
            return Err("`php = true` of a pool serves files as well, and there is no `file_server`".into());
        }
        let keys = self.php_keys(directive, &files, off)?;
        let found = proxy::of_pool(cx, directive, (item.words, state.secure), "fastcgi")?;
        let mut block = found.block;
        let when = format!("{} is there on this machine", files.root);
        for (key, value) in keys {
            match files.missing || state.root.is_none() {
                true => block.push_off(key, value, files.place.as_ref(), &when),
                false => block.push(key, value, None),
            }
        }
        let target =
            Target::Pool { name: cx.pool("php", block), strip: None, rewrite: state.rewrite.clone() };
        cx.translated(directive);
        let selector = match (off, &state.space) {
            (false, _) => all.clone(),
            (true, Space::Sent) => {
                let scripts = Selector { paths: vec!["*.php".into()], ..Selector::default() };
                match all.and(&scripts) {
                    Both::Is(scripts) => scripts,
                    _ => return Err("it stands where no path of a script fits".into()),
                }
            }
            (true, _) => return Err(REWRITTEN.into()),
        };
        let mut route = selector.route(directive, target);
        route.request = found.request;
        route.response = found.response;
        out.push(route);
        // Other paths go on.
        Ok(!off)
    }

    /// The keys of a pool of PHP.
    fn php_keys(
        &self,
        directive: &Directive,
        files: &Files,
        off: bool,
    ) -> Result<Vec<(&'static str, Value)>, String> {
        let cx = self.cx;
        let mut keys: Vec<(&str, Value)> = vec![("root", files.root.as_str().into())];
        let mut params = Vec::new();
        for line in directive.inside() {
            match line.name() {
                "root" => {
                    let root = values::fixed(line.word(1)).ok_or("its `root` is fixed here")?;
                    cx.translated(line);
                    keys.push(("script_root", root.into()));
                }
                "index" => {
                    cx.translated(line);
                    if !off {
                        keys.push(("index", line.word(1).into()));
                    }
                }
                "split" if line.args() == [".php"] => cx.translated(line),
                "split" => return Err("scripts end in `.php`".into()),
                "env" => {
                    let value = values::fixed(line.word(2)).ok_or("its variables are fixed here")?;
                    cx.translated(line);
                    params.push((line.word(1).to_owned(), value.into()));
                }
                "try_files" => cx.translated(line),
                "resolve_root_symlink" => {
                    cx.say(
                        line,
                        Kind::Choice,
                        "scripts are named by `root`, or by `script_root`, as they stand there",
                    );
                }
                "capture_stderr" => cx.say(line, Kind::Choice, "what scripts write is in the error log"),
                _ => {}
            }
        }
        if !off {
            keys.push(("php", true.into()));
        }
        if !params.is_empty() {
            keys.push(("params", Value::Table(params)));
        }
        Ok(keys)
    }
}

/// What is tried for files.
fn tries(state: &State) -> Result<Vec<String>, String> {
    let mut tries = state.tries.clone().unwrap_or_default();
    if state.front {
        return Err("`try_files` ends in a script".into());
    }
    tries.retain(|item| item != "{path}/");
    if tries == ["{path}"] {
        tries.clear();
    }
    Ok(tries)
}

/// The patterns of names that `hide` names; those that begin with a dot are withheld anyway.
fn hidden(names: &[String], root: &str) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    for name in names {
        let name = values::fixed(name).ok_or("names that are hidden are fixed here")?;
        let below = name.strip_prefix(root).or_else(|| name.strip_prefix("./")).unwrap_or(&name);
        let below = below.trim_end_matches('/');
        if below.contains(['?', '[', '\\']) || below.trim_matches('*').contains('*') {
            return Err(format!("`{name}` is no pattern of `path`"));
        }
        match (below.starts_with('.') && !below.contains('/'), below.contains('/')) {
            (true, _) => {}
            (false, true) => {
                let path = format!("/{}", below.trim_start_matches('/'));
                paths.extend([path.clone(), format!("{path}/*")]);
            }
            (false, false) => {
                let begin = if below.starts_with('*') { "" } else { "*/" };
                let end = if below.ends_with('*') { "" } else { "/*" };
                paths.extend([format!("{begin}{below}"), format!("{begin}{below}{end}")]);
            }
        }
    }
    paths.dedup();
    Ok(paths)
}

/// `redir`, and the requests that it is for.
fn redirect(item: &Item<'_>, all: &Selector, state: &State) -> Result<(Selector, Target), String> {
    let (to, code) =
        (item.words.first().map(String::as_str).unwrap_or_default(), item.words.get(1).map(String::as_str));
    let status = match code {
        None | Some("temporary") => 302,
        Some("permanent") => 301,
        Some("html") => return Err("there are no redirects by a page".into()),
        Some(code) => match code.parse() {
            Ok(code @ (301 | 302 | 303 | 307 | 308)) => code,
            _ => return Err("a redirect is 301, 302, 303, 307 or 308".into()),
        },
    };
    let regex = all.regex.as_ref().map(|_| all.regex_name.as_str());
    let mut to = values::template(to, Known { space: &state.space, regex, secure: state.secure })?;
    if to.starts_with("{uri}") || to.starts_with("{path}") {
        to.insert_str(0, "{scheme}://{host}");
    }
    Ok((all.clone(), Target::Redirect { to, status }))
}

/// Whether the files that `php_fastcgi` tries are those that a pool tries.
fn tried(directive: &Directive, state: &State, index: &str, off: bool) -> Result<(), String> {
    let line = directive.inside().iter().find(|line| line.name() == "try_files");
    let of_directory = format!("{{path}}/{index}");
    let usual = ["{path}", of_directory.as_str(), index];
    let tried = line.map(Directive::args).unwrap_or_default();
    let bare: Vec<&str> = tried.iter().map(|one| one.trim_start_matches('/')).collect();
    if !(off || bare.is_empty() || bare == usual || bare == ["{path}", index]) {
        return Err("`php = true` of a pool tries the path, a directory's index and the script".into());
    }
    let Some(last) = state.tries.as_ref().map(|tries| tries.last()) else { return Ok(()) };
    let last = last.map(|last| last.split('?').next().unwrap_or_default().trim_start_matches('/'));
    match last == Some(index) {
        true => Ok(()),
        false => Err("`try_files` before it has another end than its script".into()),
    }
}
