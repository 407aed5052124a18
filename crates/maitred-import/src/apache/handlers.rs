//! What answers in a part of a place: rules, files, PHP, other servers.

use super::access;
use super::context::{Layer, Scope};
use super::fields;
use super::globs::{self, Glob};
use super::mounts::{Mount, What, Work};
use super::php::{self, Handler, Php};
use super::proxy;
use super::rewriting::{self, Action, Fallback, Rules, Script};
use super::sections::{Ground, Section};
use super::selectors::Selector;
use super::tree::Directive;
use crate::drafts::{Files, Route, Target};
use crate::model::Value;
use crate::report::Kind;

/// Directories whose index is a script that are named, at most.
const DIRECTORIES_MAX: usize = 24;

/// A mount while its parts are written.
pub(crate) struct Content<'c, 'w, 'd> {
    pub(crate) work: &'c Work<'w, 'd>,
    pub(crate) mount: &'c Mount<'d>,
    pub(crate) ground: &'c Ground,
    pub(crate) sections: &'c [Section<'d>],
    /// What a rule of the server says of what is no file.
    pub(crate) fallback: Option<&'c (&'d Directive, Fallback)>,
}

impl<'d> Content<'_, '_, 'd> {
    /// The routes of a part.
    pub(crate) fn routes(&self, selector: &Selector, scope: &Scope<'_, 'd>) -> Vec<Route> {
        let cx = self.work.cx;
        let mut rules = self.rules(scope);
        let origin = scope.layers.iter().rev().find_map(|layer| layer.origin).unwrap_or(self.mount.directive);
        let mut routes = Vec::new();
        if let Some(why) = &rules.closed {
            let mut route = selector.route(origin, Target::Respond { status: 403, body: None });
            route.notes.push(format!(
                "closed, because there is no counterpart of `{}`",
                crate::report::shorten(why)
            ));
            return vec![route];
        }
        for draft in std::mem::take(&mut rules.drafts) {
            let both = match selector.and(&draft.selector) {
                Ok(Some(both)) => both,
                Ok(None) => continue,
                Err(why) => {
                    cx.not_possible(draft.directive, why);
                    continue;
                }
            };
            match draft.action {
                Action::Redirect { to, status } => {
                    routes.push(both.route(draft.directive, Target::Redirect { to, status }))
                }
                Action::Status(status) => {
                    routes.push(both.route(draft.directive, Target::Respond { status, body: None }))
                }
                Action::Path(path) => routes.push(both.route(draft.directive, Target::Reroute(path))),
                Action::Pass => routes.extend(self.answer(&both, scope, &Rules::default(), draft.directive)),
                Action::Proxy(url) => routes.push(self.proxied(&both, scope, draft.directive, &url)),
            }
        }
        routes.extend(self.redirects(selector, scope));
        routes.extend(self.answer(selector, scope, &rules, origin));
        for route in routes.iter_mut().filter(|route| !matches!(route.target, Target::Reroute(_))) {
            if !rules.methods.is_empty() && route.methods.is_empty() {
                route.methods.clone_from(&rules.methods);
            }
            self.work.decorate(route, scope);
            self.of_other_files(route);
        }
        routes
    }

    /// `Redirect` in directories; those of a `<Location>` are looked at before.
    fn redirects(&self, selector: &Selector, scope: &Scope<'_, 'd>) -> Vec<Route> {
        let in_location = |layer: &&&Layer<'d>| layer.origin.is_some_and(|one| one.name == "location");
        let layers = scope.layers.iter().skip(1).rev().filter(|layer| !in_location(layer));
        let all =
            layers.flat_map(|layer| layer.own.iter().copied().filter(|one| one.name.starts_with("redirect")));
        let route = |one: &'d Directive| {
            let found = self.work.redirect(one, None)?;
            let both = selector.and(&found.selector).ok().flatten()?;
            let target = match found.what {
                What::Redirect(to, status) => Target::Redirect { to, status },
                What::Status(status) => Target::Respond { status, body: None },
                _ => return None,
            };
            Some(both.route(one, target))
        };
        all.filter_map(route).collect()
    }

    /// What caches are told of files that are sent for other paths: an index, or what answers for what is no file.
    fn of_other_files(&self, route: &mut Route) {
        let Target::Files(files) = &route.target else { return };
        let last = files
            .tries
            .iter()
            .filter_map(|item| item.strip_prefix('/'))
            .filter(|item| !item.contains(['{', '/']));
        let names: Vec<String> =
            files.index.iter().map(String::as_str).chain(last).map(str::to_owned).collect();
        for name in names {
            let path = format!("/{name}");
            let fits = |section: &&Section<'d>| {
                let selector = &section.selector;
                let by_path = selector.paths.iter().any(|glob| glob.fits(&path));
                by_path
                    && selector.regex.is_none()
                    && selector.condition.is_empty()
                    && selector.methods.is_empty()
            };
            let within = self.sections.iter().filter(fits).map(|section| &section.layer);
            let scope = Scope { layers: std::iter::once(self.work.base).chain(within).collect() };
            let rules = fields::of(self.work.cx, &scope, self.work.site.tls).response;
            let told = rules.iter().rfind(|rule| rule.name.eq_ignore_ascii_case("cache-control"));
            let known = route.expires.iter().any(|(known, _)| *known == name);
            let same = |files: &Files| {
                told.is_some_and(|told| files.headers.iter().any(|(_, value)| *value == told.value))
            };
            if let Some(told) =
                told.filter(|_| !known && !matches!(&route.target, Target::Files(files) if same(files)))
            {
                route.expires.push((name, told.value.clone()));
            }
        }
    }

    /// The rules of the innermost place that has some.
    fn rules(&self, scope: &Scope<'_, 'd>) -> Rules<'d> {
        let has = |layer: &&&Layer<'d>| layer.own.iter().any(|one| one.is(rewriting::NAMES));
        let Some(layer) = scope.layers.iter().skip(1).rev().find(has) else {
            return Rules { fallback: self.fallback.cloned(), ..Rules::default() };
        };
        let own: Vec<&'d Directive> =
            layer.own.iter().copied().filter(|one| one.is(rewriting::NAMES)).collect();
        let engine = scope.last("rewriteengine");
        let mut all: Vec<&'d Directive> =
            engine.filter(|one| !own.iter().any(|known| std::ptr::eq(*known, *one))).into_iter().collect();
        all.extend(own);
        let prefix = self.url_of(layer);
        let below = |files: &Vec<(String, bool)>| -> Vec<(String, bool)> {
            files.iter().filter(|(path, _)| path.starts_with(&prefix) && *path != prefix).cloned().collect()
        };
        let files = self.work.site.files.as_ref().filter(|_| self.mount.url == "/").map(below);
        let files = files.map(|files| files.into_iter().filter(|(path, _)| !self.is_shut(path)).collect());
        let files: Option<Vec<(String, bool)>> = files;
        let place =
            rewriting::Place { prefix: Some(&prefix), names: &self.work.site.names, files: files.as_deref() };
        let mut rules = rewriting::of(self.work.cx, &all, &place);
        rules.fallback = rules.fallback.or_else(|| self.fallback.cloned());
        rules
    }

    /// Whether no client gets what is at a path, whatever the rules say.
    fn is_shut(&self, path: &str) -> bool {
        let fits = |section: &&Section<'d>| {
            let selector = &section.selector;
            selector.paths.iter().any(|glob| glob.fits(path))
                && *selector == Selector::paths(selector.paths.clone())
                && !section.except
        };
        let layers: Vec<&Layer<'d>> = self.sections.iter().filter(fits).map(|found| &found.layer).collect();
        // What is for some of the requests to the path may open it.
        let opens = |section: &Section<'d>| {
            section.selector.paths.is_empty()
                && !section.selector.is_all()
                && section.layer.own.iter().any(|one| access::NAMES.contains(&one.name.as_str()))
        };
        !layers.is_empty() && access::is_shut(&layers) && !self.sections.iter().any(opens)
    }

    /// The URL of the directory of a layer.
    fn url_of(&self, layer: &Layer<'d>) -> String {
        let Some(own) = &self.ground.directory else { return "/".to_owned() };
        let below = layer.directory.as_deref().and_then(|path| path.strip_prefix(own.as_str()));
        match below.map(|rest| rest.trim_matches('/')).filter(|rest| !rest.is_empty()) {
            Some(rest) => format!("{}{rest}/", self.ground.url),
            None => self.ground.url.clone(),
        }
    }

    /// What answers where no rule does.
    fn answer(
        &self,
        selector: &Selector,
        scope: &Scope<'_, 'd>,
        rules: &Rules<'d>,
        origin: &'d Directive,
    ) -> Vec<Route> {
        let cx = self.work.cx;
        if let What::Proxy(url) = &self.mount.what {
            return vec![self.proxied(selector, scope, self.mount.directive, url)];
        }
        match php::handler(cx, scope) {
            Handler::Files => self.files(selector, scope, rules, origin),
            Handler::Proxy(directive, url) => match self.php() {
                Some(php) if php.is(directive) => self.script(selector, &php, directive),
                _ => vec![self.proxied(selector, scope, directive, &url)],
            },
            Handler::Php(directive) => match self.php().filter(|php| php.is(directive) && !php.unnamed) {
                Some(php) => match php::off(scope).as_slice() {
                    [] => self.script(selector, &php, directive),
                    off => vec![self.not_run(selector, off)],
                },
                None => {
                    cx.not_possible(directive, php::WHO);
                    vec![self.shut(selector, directive)]
                }
            },
            Handler::Status(directive) => {
                cx.say(directive, Kind::Choice, "`maitred status` and the address `admin` show this");
                vec![selector.route(directive, Target::Respond { status: 404, body: None })]
            }
            Handler::Closed(directive, why) => {
                cx.not_possible(directive, format!("{why}: what it answers is 403 instead"));
                vec![self.shut(selector, directive)]
            }
        }
    }

    fn shut(&self, selector: &Selector, directive: &'d Directive) -> Route {
        let mut route = selector.route(directive, Target::Respond { status: 403, body: None });
        let shown = crate::report::shorten(&directive.shown);
        route.notes.push(format!("closed, because there is no counterpart of `{shown}`"));
        route
    }

    /// Who runs the scripts of this mount.
    fn php(&self) -> Option<Php<'d>> {
        php::of(self.work, self.mount, self.ground, self.sections)
    }

    /// A route for scripts. Names that Maitred does not take for scripts are closed, where there may be such files.
    fn script(&self, selector: &Selector, php: &Php<'d>, origin: &'d Directive) -> Vec<Route> {
        let Some(name) = &php.pool else {
            let mut route = selector.route(origin, Target::Respond { status: 403, body: None });
            route
                .notes
                .push("closed until a pool says who runs PHP: a pool with `php = true` (docs/php.md)".into());
            return vec![route];
        };
        let to_pool = Target::Pool { name: name.clone(), strip: None, rewrite: None };
        // The list that is about scripts is one of both.
        let is_script = |glob: &Glob| glob.show().contains(".php");
        let second = !selector.paths.iter().any(is_script) && selector.more.iter().any(is_script);
        let list = if second { &selector.more } else { &selector.paths };
        let with = |list: Vec<Glob>| match second {
            true => Selector { more: list, ..selector.clone() },
            false => Selector { paths: list, ..selector.clone() },
        };
        let (run, others): (Vec<Glob>, Vec<Glob>) = list.iter().cloned().partition(is_script);
        if run.is_empty() {
            return vec![selector.route(origin, to_pool)];
        }
        let others: Vec<Glob> = others.into_iter().filter(|glob| self.may_fit(glob)).collect();
        let mut routes = Vec::new();
        if !others.is_empty() {
            self.work.cx.not_possible(
                origin,
                "scripts whose names do not end in `.php` are not run: they answer 403 instead",
            );
            routes.push(with(others).route(origin, Target::Respond { status: 403, body: None }));
        }
        routes.push(with(run).route(origin, to_pool));
        routes
    }

    /// Whether there may be a file of such a path.
    fn may_fit(&self, glob: &Glob) -> bool {
        let files = self.work.site.files.as_deref().filter(|_| self.mount.url == "/");
        let is_file = |(path, directory): &(String, bool)| !directory && glob.fits(path);
        !glob.show().ends_with("/*") && files.is_none_or(|files| files.iter().any(is_file))
    }

    /// Scripts of a place where none is run: httpd would send their source.
    fn not_run(&self, selector: &Selector, off: &[&'d Directive]) -> Route {
        let why = "scripts there are not run, and their source is not sent: 403";
        off.iter().for_each(|one| self.work.cx.say(*one, Kind::Better, why));
        let origin = off.last().copied().unwrap_or(self.mount.directive);
        selector.route(origin, Target::Respond { status: 403, body: None })
    }

    /// Paths of scripts, and what is behind them.
    fn scripts(&self, selector: &Selector, ends: &[&str]) -> Option<Selector> {
        let own = ends.iter().map(|end| Glob::between("", end));
        let scripts = Selector::paths(own.chain([Glob::containing(".php/")]).collect());
        selector.and(&scripts).ok().flatten()
    }

    fn proxied(
        &self,
        selector: &Selector,
        scope: &Scope<'_, 'd>,
        directive: &'d Directive,
        url: &str,
    ) -> Route {
        let cx = self.work.cx;
        match self.to_server(scope, directive, url) {
            Ok(target) => selector.route(directive, target),
            Err(why) => {
                cx.not_possible(directive, format!("{why}: its paths answer 403 instead"));
                selector.route(directive, Target::Respond { status: 403, body: None })
            }
        }
    }

    fn to_server(
        &self,
        scope: &Scope<'_, 'd>,
        directive: &'d Directive,
        url: &str,
    ) -> Result<Target, String> {
        let cx = self.work.cx;
        let server = proxy::server(cx, url)?;
        if server.fastcgi {
            return php::target(self.work, scope, directive, &server);
        }
        let name = proxy::pool(cx, scope, directive, &server, Vec::new())?;
        cx.translated(directive);
        let path = server.path.as_str();
        if directive.is(&["proxypass"]) && self.mount.url.starts_with('/') {
            return Ok(proxy::target(name, &self.mount.url, path));
        }
        let rewrite = match path {
            "" | "{path}" | "{uri}" | "/" if directive.name == "sethandler" => None,
            "{path}" | "{uri}" => None,
            "" => Some("/".to_owned()),
            path => Some(path.to_owned()),
        };
        // All that the expression takes goes on as it is.
        let whole = self
            .mount
            .selector
            .regex
            .as_deref()
            .or(directive.args.first().map(String::as_str))
            .unwrap_or_default();
        let same = [
            (r"^/(.*)$", "/{capture.1}"),
            (r"^(.*)$", "{capture.1}"),
            (r"^/(.*)", "/{capture.1}"),
            (r"^(/.*)$", "{capture.1}"),
            ("/(.*)", "/{capture.1}"),
            ("^/?(.*)", "/{capture.1}"),
            ("^/?(.*)$", "/{capture.1}"),
            ("(.*)", "/{capture.1}"),
            ("^(.*)$", "/{capture.1}"),
        ];
        let rewrite = rewrite.filter(|path| !same.contains(&(whole, path.as_str())));
        Ok(Target::Pool { name, strip: None, rewrite })
    }

    /// Files, and what answers for those that are not there.
    fn files(
        &self,
        selector: &Selector,
        scope: &Scope<'_, 'd>,
        rules: &Rules<'d>,
        origin: &'d Directive,
    ) -> Vec<Route> {
        let What::Files(path) = &self.mount.what else { return Vec::new() };
        if let Some(number) = self.mount.url.strip_prefix('$') {
            let mut files = self.plain(path, scope);
            files.rewrite =
                Some(if number.is_empty() { String::new() } else { format!("/{{capture.{number}}}") });
            return vec![selector.route(origin, Target::Files(files))];
        }
        // One file, or a directory that is named without a slash at its end.
        if self.mount.url != "/" {
            return self.of_alias(selector, scope, path, origin);
        }
        let mut files = self.plain(path, scope);
        let php = self.php();
        let off = if php.as_ref().is_none_or(|php| php.instead) { php::off(scope) } else { Vec::new() };
        let mut routes = self.of_scripts(selector, php.as_ref(), &off);
        let index = php::index(self.work.cx, scope);
        files.index.clone_from(&index.pages);
        files.no_index = index.pages.is_empty();
        let fallback = rules.fallback.clone().or_else(|| self.resource(scope));
        let mut tries: Vec<String> = rules.tries.clone();
        match (fallback, php) {
            (Some((directive, Fallback::Script(script))), Some(php)) => {
                return self.front(
                    (selector, !off.is_empty()),
                    (directive, &script),
                    (php, files, &index, tries),
                    routes,
                );
            }
            (Some((directive, Fallback::Script(_))), None) => {
                self.work.cx.not_possible(directive, php::WHO);
            }
            (Some((_, Fallback::Tries(paths))), _) => tries.extend(paths),
            (Some((directive, Fallback::Proxy(url))), _) => {
                tries.extend(self.to_other(scope, directive, &url))
            }
            (None, Some(php)) if index.has_script && off.is_empty() => {
                routes.extend(self.directories(selector, &php, &index, &files, origin))
            }
            (None, _) => {}
        }
        if !tries.is_empty() {
            files.tries = vec!["{path}".to_owned()];
            files.tries.extend(tries);
        }
        routes.push(selector.route(origin, Target::Files(files)));
        routes
    }

    /// The routes of scripts that no section is for, or that are not run.
    fn of_scripts(&self, selector: &Selector, php: Option<&Php<'d>>, off: &[&'d Directive]) -> Vec<Route> {
        match php {
            None => {
                let why = "nothing runs scripts there";
                off.iter().for_each(|one| self.work.cx.say(*one, Kind::NotNeeded, why));
                Vec::new()
            }
            Some(_) if !off.is_empty() => {
                let closed = self.scripts(selector, &[".php", ".phtml", ".phar"]);
                closed.map(|closed| self.not_run(&closed, off)).into_iter().collect()
            }
            Some(php) if php.unnamed => {
                let ends = self.endings(php);
                let run = self.scripts(selector, &ends.iter().map(String::as_str).collect::<Vec<_>>());
                run.map(|run| self.script(&run, php, php.origin)).unwrap_or_default()
            }
            Some(_) => Vec::new(),
        }
    }

    /// The end of `try` for another server.
    fn to_other(&self, scope: &Scope<'_, 'd>, directive: &'d Directive, url: &str) -> Option<String> {
        let why = match self.to_server(scope, directive, url) {
            Ok(Target::Pool { name, rewrite: None, .. }) => return Some(format!("pool:{name}")),
            Ok(_) => "what is no file goes to the other server with its path".to_owned(),
            Err(why) => why,
        };
        self.work.cx.not_possible(directive, why);
        None
    }

    /// The endings of scripts that no section is for: those that the directive names, and those of Debian.
    fn endings(&self, php: &Php<'d>) -> Vec<String> {
        let mut ends: Vec<String> = vec![".php".into(), ".phtml".into(), ".phar".into()];
        if php.origin.is(&["addhandler", "addtype"]) {
            let named = php.origin.args.iter().skip(1).map(|end| format!(".{}", end.trim_start_matches('.')));
            let more: Vec<String> = named.filter(|end| !ends.contains(end)).collect();
            ends.extend(more);
        }
        ends
    }

    /// All that is no file goes to one script.
    fn front(
        &self,
        (selector, off): (&Selector, bool),
        (directive, script): (&'d Directive, &Script),
        (php, files, index, tries): (Php<'d>, Files, &php::Index, Vec<String>),
        mut routes: Vec<Route>,
    ) -> Vec<Route> {
        let cx = self.work.cx;
        let name = script.path.trim_start_matches('/');
        let Some(pool) = php.pool.clone() else {
            cx.not_possible(directive, php::WHO);
            let tries = vec!["{path}".to_owned(), "=403".to_owned()];
            routes.push(selector.route(directive, Target::Files(Files { tries, ..files })));
            return routes;
        };
        let plain = script.set.is_empty() && !script.drop;
        if plain && (name.contains('/') || !tries.is_empty()) {
            routes.extend(self.behind(selector, off, (directive, name), (&php, &files, index, tries)));
            return routes;
        }
        if name.contains('/') || !tries.is_empty() || (off && !plain) {
            cx.not_possible(directive, "what is no file goes to a script of the root");
            routes.push(selector.route(directive, Target::Files(files)));
            return routes;
        }
        if name != "index.php" {
            php.front(cx, name);
        }
        let to_pool = |selector: &Selector| {
            selector.route(directive, Target::Pool { name: pool.clone(), strip: None, rewrite: None })
        };
        let pages = index.pages.iter().any(|page| self.is_there(page));
        let root = selector.and(&Selector::paths(vec![Glob::exact("/")])).ok().flatten();
        if !plain {
            // The root is a directory, and gets no parameters.
            routes.extend(root.map(|root| to_pool(&root)));
            routes.push(self.with_query(to_pool(selector), script));
            cx.say(directive, Kind::Choice, "scripts in directories get the parameters, too");
            return routes;
        }
        if !off {
            // The pool's own rules are those of the scripts.
            routes.retain(|route| !route.goes_to_pool());
        }
        if !pages && !off {
            routes.push(to_pool(selector));
            return routes;
        }
        if index.script_first && !off {
            routes.extend(root.map(|root| to_pool(&root)));
        }
        let tries = vec!["{path}".to_owned(), format!("pool:{pool}")];
        routes.push(selector.route(directive, Target::Files(Files { tries, ..files })));
        routes
    }

    /// A script that gets parameters of a rule.
    fn with_query(&self, mut route: Route, script: &Script) -> Route {
        if route.regex.is_none() {
            route.regex.clone_from(&script.regex);
        }
        let table = script.set.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let mut query = vec![("set".to_owned(), Value::Table(table))];
        if script.drop {
            query.push(("remove".to_owned(), Value::texts(&["*"])));
        }
        route.keys.push(("query", Value::Table(query)));
        route
    }

    /// A script that is not the index of the root answers behind the files and the indexes.
    fn behind(
        &self,
        selector: &Selector,
        off: bool,
        (directive, name): (&'d Directive, &str),
        (php, files, index, tries): (&Php<'d>, &Files, &php::Index, Vec<String>),
    ) -> Vec<Route> {
        let mut routes = Vec::new();
        let own = self.with_script(index).into_iter().flat_map(|path| {
            let bare = path.trim_end_matches('/').to_owned();
            [Some(bare).filter(|bare| !bare.is_empty()), Some(path)].into_iter().flatten()
        });
        let own: Vec<Glob> = own.map(|path| Glob::exact(&path)).collect();
        if let Some(name) = php.pool.clone().filter(|_| !own.is_empty() && !off)
            && let Ok(Some(both)) = selector.and(&Selector::paths(own))
        {
            routes.push(both.route(directive, Target::Pool { name, strip: None, rewrite: None }));
        }
        let mut all = vec!["{path}".to_owned()];
        all.extend(tries);
        all.extend(php.pool.iter().map(|pool| format!("pool:{pool}")));
        let mut route = selector.route(directive, Target::Files(Files { tries: all, ..files.clone() }));
        route.keys.push(("front_controller", name.into()));
        routes.push(route);
        routes
    }

    /// Directories whose index is a script.
    fn directories(
        &self,
        selector: &Selector,
        php: &Php<'d>,
        index: &php::Index,
        files: &Files,
        origin: &'d Directive,
    ) -> Vec<Route> {
        let Some(pool) = &php.pool else { return Vec::new() };
        let to_pool = |selector: &Selector| {
            selector.route(origin, Target::Pool { name: pool.clone(), strip: None, rewrite: None })
        };
        let mut routes = Vec::new();
        let part = |glob: Glob| selector.and(&Selector::paths(vec![glob])).ok().flatten();
        let known = self.work.site.files.as_deref();
        let front = known.is_none_or(|files| files.iter().any(|(path, _)| path == "/index.php"));
        if (index.script_first || !self.is_there_at("/", &index.pages)) && front {
            routes.extend(part(Glob::exact("/")).map(|root| to_pool(&root)));
        }
        if let Some(below) = part(Glob::between("", "/")) {
            if !index.pages.iter().any(|page| self.is_there(page)) {
                routes.push(to_pool(&below));
                return routes;
            }
            let mut files = files.clone();
            files.tries = vec!["{path}".to_owned(), format!("pool:{pool}")];
            routes.push(below.route(origin, Target::Files(files)));
        }
        routes
    }

    /// The directories whose index is a script, as far as that is known.
    fn with_script(&self, index: &php::Index) -> Vec<String> {
        let files = self.work.site.files.as_deref().unwrap_or_default();
        let has_page = |directory: &str| {
            !index.script_first
                && index.pages.iter().any(|page| {
                    let path = format!("{directory}{page}");
                    files.iter().any(|(known, _)| *known == path)
                })
        };
        let found = files.iter().filter(|_| index.has_script).filter_map(|(path, _)| {
            let directory = path.strip_suffix("index.php").filter(|directory| directory.ends_with('/'))?;
            (!has_page(directory)).then(|| directory.to_owned())
        });
        found.take(DIRECTORIES_MAX).collect()
    }

    /// Whether some directory has such a page; if that is not known, it may be.
    fn is_there(&self, page: &str) -> bool {
        let end = format!("/{page}");
        self.work.site.files.as_deref().is_none_or(|files| files.iter().any(|(path, _)| path.ends_with(&end)))
    }

    fn is_there_at(&self, directory: &str, pages: &[String]) -> bool {
        let files = self.work.site.files.as_deref();
        files.is_none_or(|files| {
            pages.iter().any(|page| files.iter().any(|(path, _)| *path == format!("{directory}{page}")))
        })
    }

    /// `FallbackResource`.
    fn resource(&self, scope: &Scope<'_, 'd>) -> Option<(&'d Directive, Fallback)> {
        let one =
            scope.last("fallbackresource").filter(|one| !one.arg(0).eq_ignore_ascii_case("disabled"))?;
        let path = if one.arg(0).starts_with('/') {
            one.arg(0).to_owned()
        } else {
            format!("{}{}", self.ground.url, one.arg(0))
        };
        self.work.cx.translated(one);
        Some(match path.ends_with(".php") {
            true => (one, Fallback::Script(Script { path, ..Script::default() })),
            false => (one, Fallback::Tries(vec![path])),
        })
    }

    /// A directory or a file beside `DocumentRoot`.
    fn of_alias(
        &self,
        selector: &Selector,
        scope: &Scope<'_, 'd>,
        path: &str,
        origin: &'d Directive,
    ) -> Vec<Route> {
        let is_file = path.rsplit('/').next().is_some_and(|name| name.contains('.'))
            && !path.ends_with('/')
            && !self.work.cx.shared.machine.has_directory(path);
        if path.ends_with(".php") {
            let root = self.work.site.root.as_ref().map(|(root, _)| root.trim_end_matches('/').to_owned());
            let script = root.and_then(|root| path.strip_prefix(&format!("{root}/")).map(str::to_owned));
            if let (Some(script), Some(name)) = (script, self.work.root_pool()) {
                let mut route = selector.route(origin, Target::Pool { name, strip: None, rewrite: None });
                route.keys.push(("front_controller", script.into()));
                return vec![route];
            }
            let own = path.rsplit_once('/').filter(|(directory, _)| !directory.is_empty());
            if let Some((directory, script)) = own
                && let Some(name) = php::beside(self.work, self.mount.directive, directory)
            {
                let mut route = selector.route(origin, Target::Pool { name, strip: None, rewrite: None });
                route.keys.push(("front_controller", script.into()));
                return vec![route];
            }
            self.work.cx.not_possible(self.mount.directive, php::WHO);
            return vec![selector.route(origin, Target::Respond { status: 403, body: None })];
        }
        if is_file || self.mount.url.is_empty() {
            let (root, name) = path.rsplit_once('/').unwrap_or(("/", path));
            let mut files = self.plain(if root.is_empty() { "/" } else { root }, scope);
            files.rewrite = Some(format!("/{name}"));
            return vec![selector.route(origin, Target::Files(files))];
        }
        let mut routes = Vec::new();
        if let Some(php) = self.php().filter(|_| self.may_have_scripts(path))
            && let Some(both) = self.scripts(selector, &[".php"])
        {
            routes.extend(self.script(&both, &Php { pool: None, ..php }, origin));
        }
        let bare = self.mount.url.trim_end_matches('/').to_owned();
        if let Ok(Some(exact)) = selector.and(&Selector::paths(vec![Glob::exact(&bare)])) {
            routes.push(exact.route(
                origin,
                Target::Redirect { to: format!("{}?{{query}}", self.mount.url), status: 301 },
            ));
        }
        let mut files = self.plain(path.trim_end_matches('/'), scope);
        let index = php::index(self.work.cx, scope);
        files.no_index = index.pages.is_empty();
        files.index = index.pages;
        files.strip = Some(self.mount.url.clone());
        if let Ok(Some(below)) = selector.and(&Selector::paths(globs::below(&self.mount.url))) {
            routes.push(below.route(origin, Target::Files(files)));
        }
        routes
    }

    fn may_have_scripts(&self, path: &str) -> bool {
        let known = super::htaccess::listing(self.work.cx, path);
        let found = known.as_deref().is_none_or(|files| files.iter().any(|(path, _)| path.ends_with(".php")));
        if found && known.is_some() {
            self.work.cx.not_possible(
                self.mount.directive,
                "scripts beside `DocumentRoot` have a pool of \
                 their own with `root` and `mount`: they answer 403 instead",
            );
        }
        found
    }

    /// A directory as the place says.
    fn plain(&self, path: &str, scope: &Scope<'_, 'd>) -> Files {
        let cx = self.work.cx;
        let fields = fields::of(cx, scope, self.work.site.tls);
        let mut files = Files {
            root: path.to_owned(),
            missing: !cx.shared.machine.has_directory(path),
            listing: php::options(cx, scope).listing,
            types: fields.types,
            charset: fields.charset,
            place: Some(self.mount.directive.place.clone()),
            ..Files::default()
        };
        if files.root.is_empty() {
            files.root = "/".into();
        }
        files
    }
}
