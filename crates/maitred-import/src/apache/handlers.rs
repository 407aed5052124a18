//! What answers in a part of a place: rules, files, PHP, other servers.

use super::context::{Layer, Scope};
use super::fields;
use super::globs::{self, Glob};
use super::mounts::{Mount, What, Work};
use super::php::{self, Handler, Php};
use super::proxy;
use super::rewriting::{self, Action, Fallback, Rules};
use super::sections::{Ground, Section};
use super::selectors::Selector;
use super::tree::Directive;
use crate::drafts::{Files, Route, Target};
use crate::model::Value;
use crate::report::Kind;

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
        let place =
            rewriting::Place { prefix: Some(&prefix), names: &self.work.site.names, files: files.as_deref() };
        let mut rules = rewriting::of(self.work.cx, &all, &place);
        rules.fallback = rules.fallback.or_else(|| self.fallback.cloned());
        rules
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
                Some(php) if php.is(directive) => vec![self.script(selector, &php, directive)],
                _ => vec![self.proxied(selector, scope, directive, &url)],
            },
            Handler::Status(directive) => {
                cx.say(directive, Kind::Choice, "`maitred status` and the address `admin` show this");
                vec![selector.route(directive, Target::Respond { status: 404, body: None })]
            }
            Handler::Closed(directive, why) => {
                cx.not_possible(directive, format!("{why}: what it answers is 403 instead"));
                let mut route = selector.route(directive, Target::Respond { status: 403, body: None });
                route.notes.push(format!(
                    "closed, because there is no counterpart of `{}`",
                    crate::report::shorten(&directive.shown)
                ));
                vec![route]
            }
        }
    }

    /// Who runs the scripts of this mount.
    fn php(&self) -> Option<Php<'d>> {
        php::of(self.work, self.mount, self.ground, self.sections)
    }

    fn script(&self, selector: &Selector, php: &Php<'d>, origin: &'d Directive) -> Route {
        match &php.pool {
            Some(name) => {
                selector.route(origin, Target::Pool { name: name.clone(), strip: None, rewrite: None })
            }
            None => {
                let mut route = selector.route(origin, Target::Respond { status: 403, body: None });
                route.notes.push(
                    "closed until a pool says who runs PHP: a pool with `php = true` (docs/php.md)".into(),
                );
                route
            }
        }
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
        let mut routes = Vec::new();
        routes.extend(
            php.as_ref().filter(|php| php.unknown).and_then(|php| self.closed_scripts(selector, php)),
        );
        let index = php::index(self.work.cx, scope);
        files.index.clone_from(&index.pages);
        files.no_index = index.pages.is_empty();
        let fallback = rules.fallback.clone().or_else(|| self.resource(scope));
        let mut tries: Vec<String> = rules.tries.clone();
        match (fallback, php.filter(|php| !php.unknown || index.has_script)) {
            (Some((directive, Fallback::Script { path, set, drop })), Some(php)) => {
                return self.front(
                    (selector, scope),
                    (directive, &path, &set, drop),
                    (php, files, &index, tries),
                    routes,
                );
            }
            (Some((directive, Fallback::Script { .. })), None) => {
                self.work.cx.not_possible(directive, php::WHO);
            }
            (Some((_, Fallback::Tries(paths))), _) => tries.extend(paths),
            (Some((directive, Fallback::Proxy(url))), _) => {
                tries.extend(self.to_other(scope, directive, &url))
            }
            (None, Some(php)) if index.has_script => {
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

    /// Scripts that no pool is known to run are not sent.
    fn closed_scripts(&self, selector: &Selector, php: &Php<'d>) -> Option<Route> {
        let ends = [".php", ".phtml", ".phar", ".inc"].iter().map(|end| Glob::between("", end));
        let scripts = Selector::paths(ends.chain([Glob::containing(".php/")]).collect());
        let both = selector.and(&scripts).ok().flatten()?;
        Some(self.script(&both, php, php.origin))
    }

    /// All that is no file goes to one script.
    #[allow(clippy::type_complexity)]
    fn front(
        &self,
        (selector, scope): (&Selector, &Scope<'_, 'd>),
        (directive, path, set, drop): (&'d Directive, &str, &[(String, String)], bool),
        (php, mut files, index, tries): (Php<'d>, Files, &php::Index, Vec<String>),
        mut routes: Vec<Route>,
    ) -> Vec<Route> {
        let cx = self.work.cx;
        let _ = scope;
        let name = path.trim_start_matches('/');
        let Some(pool) = php.pool.clone() else {
            cx.not_possible(directive, php::WHO);
            files.tries = vec!["{path}".to_owned(), "=403".to_owned()];
            routes.push(selector.route(directive, Target::Files(files)));
            return routes;
        };
        if name.contains('/') || !tries.is_empty() {
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
        let root = selector.and(&Selector::paths(vec![Glob::exact("/")]));
        if !set.is_empty() || drop {
            // The root is a directory, and gets no parameters.
            routes.extend(root.ok().flatten().map(|root| to_pool(&root)));
            let mut route = to_pool(selector);
            let whole = route.regex.is_none() && set.iter().any(|(_, value)| value.contains("{capture"));
            if whole {
                route.regex = Some("^/(.*)$".into());
            }
            let table = set.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
            let mut query = vec![("set".to_owned(), Value::Table(table))];
            if drop {
                query.push(("remove".to_owned(), Value::texts(&["*"])));
            }
            route.keys.push(("query", Value::Table(query)));
            cx.say(directive, Kind::Choice, "scripts in directories get the parameters, too");
            routes.push(route);
            return routes;
        }
        if !pages {
            routes.push(to_pool(selector));
            return routes;
        }
        if index.script_first {
            routes.extend(root.ok().flatten().map(|root| to_pool(&root)));
        }
        files.tries = vec!["{path}".to_owned(), format!("pool:{pool}")];
        routes.push(selector.route(directive, Target::Files(files)));
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
            true => (one, Fallback::Script { path, set: Vec::new(), drop: false }),
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
        if let Some(php) = self.php().filter(|_| self.may_have_scripts(path)) {
            let scripts = Selector::paths(vec![Glob::between("", ".php"), Glob::containing(".php/")]);
            if let Ok(Some(both)) = selector.and(&scripts) {
                routes.push(self.script(&both, &Php { pool: None, ..php }, origin));
            }
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
