//! Who runs the scripts of a place, and what its directories show.

use super::context::{Cx, Scope};
use super::mounts::{Mount, What, Work};
use super::proxy::{self, Server};
use super::sections::{Ground, Section};
use super::tree::Directive;
use crate::drafts::Target;
use crate::model::Value;
use crate::report::Kind;

/// What to do where no pool can run the scripts that Apache itself runs.
pub(crate) const WHO: &str = "PHP runs in Apache here: keep Apache behind Maitred with mod_maitred \
    (docs/applications.md), or write a pool with `php = true` (docs/php.md). Scripts answer 403 until then";

/// Where php-fpm listens, as long as nothing says it.
pub(crate) const FPM: &str = "fastcgi+unix:/run/php/php-fpm.sock";

/// What answers.
pub(crate) enum Handler<'d> {
    /// Files.
    Files,
    /// Another server, by its URL.
    Proxy(&'d Directive, String),
    /// PHP in httpd itself.
    Php(&'d Directive),
    /// A page about httpd itself.
    Status(&'d Directive),
    /// What has no counterpart.
    Closed(&'d Directive, String),
}

/// `SetHandler` of a place.
pub(crate) fn handler<'d>(cx: &Cx<'_>, scope: &Scope<'_, 'd>) -> Handler<'d> {
    let Some(one) = scope.last("sethandler") else { return Handler::Files };
    let name = one.arg(0);
    let lower = name.to_ascii_lowercase();
    if let Some(url) = name.strip_prefix("proxy:") {
        return Handler::Proxy(one, url.to_owned());
    }
    match lower.as_str() {
        "none" | "default-handler" | "send-as-is" => {
            cx.translated(one);
            Handler::Files
        }
        "server-status" | "server-info" | "balancer-manager" | "ldap-status" => Handler::Status(one),
        _ if lower.contains("php") => Handler::Php(one),
        _ => Handler::Closed(
            one,
            "keep Apache behind Maitred with mod_maitred for this \
                 (docs/applications.md); there is no such handler"
                .into(),
        ),
    }
}

/// Who runs the scripts of a mount.
#[derive(Debug, Clone)]
pub(crate) struct Php<'d> {
    /// The pool; no pool, if it is not known.
    pub(crate) pool: Option<String>,
    /// Where that is said.
    pub(crate) origin: &'d Directive,
    /// No section is for the scripts: all whose names end so are some.
    pub(crate) unnamed: bool,
    /// Apache itself runs them there, and a php-fpm here.
    pub(crate) instead: bool,
}

impl Php<'_> {
    /// Whether the directive says who.
    pub(crate) fn is(&self, directive: &Directive) -> bool {
        std::ptr::eq(self.origin, directive)
    }

    /// Another script than `index.php` takes what is no file.
    pub(crate) fn front(&self, cx: &Cx<'_>, script: &str) {
        let mut pools = cx.shared.pools.borrow_mut();
        if let Some(named) = pools.iter_mut().find(|named| Some(&named.name) == self.pool.as_ref())
            && !named.block.has("index")
        {
            named.block.push("index", script, None);
        }
    }
}

/// Sections that are for scripts.
fn is_for_scripts(section: &Section<'_>) -> bool {
    let Some(origin) = section.layer.origin else { return false };
    let named = origin.is(&["files", "filesmatch", "locationmatch"])
        && origin.text().to_ascii_lowercase().contains("ph");
    named || (origin.name == "if" && section.selector.paths.iter().any(|glob| glob.show().contains(".ph")))
}

/// Who runs the scripts of a mount: a handler in a section for them, `ProxyPassMatch`, or an ending.
pub(crate) fn of<'d>(
    work: &Work<'_, 'd>,
    mount: &Mount<'d>,
    ground: &Ground,
    sections: &[Section<'d>],
) -> Option<Php<'d>> {
    let What::Files(_) = &mount.what else { return None };
    for section in sections.iter().filter(|section| is_for_scripts(section)) {
        let scope = Scope { layers: vec![work.base, &section.layer] };
        let Some(one) = section.layer.own.iter().copied().rfind(|one| one.name == "sethandler") else {
            continue;
        };
        let Some(url) = one.arg(0).strip_prefix("proxy:") else {
            if one.arg(0).to_ascii_lowercase().contains("php") {
                return Some(instead(work, mount, (ground, sections), (one, false)));
            }
            continue;
        };
        let pool = proxy::server(work.cx, url).ok().and_then(|server| {
            let at = ground.directory.as_deref().filter(|_| mount.url == "/")?;
            pool(work, &scope, one, &server, (at, None)).ok()
        });
        if pool.is_some() {
            work.cx.translated(one);
        }
        return Some(Php { pool, origin: one, unnamed: false, instead: false });
    }
    by_expression(work, ground).or_else(|| unnamed(work, mount, (ground, sections)))
}

/// Scripts that no section is for: an ending, a rule that leads to one, or files that are there.
fn unnamed<'d>(
    work: &Work<'_, 'd>,
    mount: &Mount<'d>,
    (ground, sections): (&Ground, &[Section<'d>]),
) -> Option<Php<'d>> {
    let scope = Scope {
        layers: std::iter::once(work.base).chain(sections.iter().map(|section| &section.layer)).collect(),
    };
    let handlers = scope.all(&["addhandler", "addtype", "sethandler", "action"]);
    let own = handlers.into_iter().rfind(|one| one.arg(0).to_ascii_lowercase().contains("php"));
    if let Some(one) = own {
        return Some(instead(work, mount, (ground, sections), (one, true)));
    }
    let known = if mount.url == "/" {
        work.site.files.clone()
    } else {
        super::htaccess::listing(work.cx, ground.directory.as_deref().unwrap_or_default())
    };
    let there = known.is_some_and(|files| files.iter().any(|(path, _)| path.ends_with(".php")));
    let leads = scope.all(&["rewriterule", "fallbackresource", "directoryindex"]);
    let leads = leads.into_iter().find(|one| {
        one.args.iter().any(|word| word.contains(".php") && !word.contains("\\.php"))
            && !(one.name == "directoryindex" && work.cx.whole)
    });
    let origin = leads.or(there.then_some(mount.directive))?;
    Some(instead(work, mount, (ground, sections), (origin, true)))
}

/// A php-fpm in the place of the PHP in Apache.
fn instead<'d>(
    work: &Work<'_, 'd>,
    mount: &Mount<'d>,
    (ground, sections): (&Ground, &[Section<'d>]),
    (origin, unnamed): (&'d Directive, bool),
) -> Php<'d> {
    let cx = work.cx;
    let found = |pool| Php { pool, origin, unnamed, instead: true };
    let Some(root) = ground.directory.as_deref().filter(|_| mount.url == "/") else {
        return found(None);
    };
    let whole = sections.iter().filter(|section| section.selector.is_all() && !section.except);
    let scope =
        Scope { layers: std::iter::once(work.base).chain(whole.map(|section| &section.layer)).collect() };
    let params = settings(cx, &scope);
    match pool(work, &scope, origin, &fpm(cx), (root, params)) {
        Ok(name) => {
            cx.say(origin, Kind::Choice, choice(cx));
            found(Some(name))
        }
        Err(why) => {
            cx.not_possible(origin, why);
            found(None)
        }
    }
}

/// The php-fpm in the place of the PHP in Apache.
fn fpm(cx: &Cx<'_>) -> Server {
    let host = cx.fpm.strip_prefix("fastcgi://").and_then(|rest| rest.rsplit_once(':')).map(|(host, _)| host);
    Server {
        connect: cx.fpm.clone(),
        path: String::new(),
        fastcgi: true,
        balancer: None,
        unknown: host.filter(|host| !cx.shared.machine.has_address(host)).map(str::to_owned),
    }
}

fn choice(cx: &Cx<'_>) -> String {
    format!(
        "PHP runs in php-fpm at `{}` instead of in Apache: `--php-fpm` names another address; Apache behind \
         Maitred with mod_maitred keeps it (docs/applications.md)",
        cx.fpm
    )
}

/// The pool for one script that is not below `DocumentRoot`.
pub(crate) fn beside<'d>(work: &Work<'_, 'd>, directive: &'d Directive, root: &str) -> Option<String> {
    (work.cx.php_inside && work.cx.shared.machine.has_directory(root)).then_some(())?;
    let scope = Scope { layers: vec![work.base] };
    let name = pool(work, &scope, directive, &fpm(work.cx), (root, None)).ok()?;
    work.cx.say(directive, Kind::Choice, choice(work.cx));
    Some(name)
}

/// Settings of PHP.
const SETTINGS: &[&str] = &["php_value", "php_flag", "php_admin_value", "php_admin_flag"];

/// What is said to PHP with every request: `params` of a pool.
fn settings(cx: &Cx<'_>, scope: &Scope<'_, '_>) -> Option<Value> {
    let mut tables: [(&str, Vec<(String, String)>); 2] =
        [("PHP_VALUE", Vec::new()), ("PHP_ADMIN_VALUE", Vec::new())];
    for one in scope.all(SETTINGS) {
        let (name, value) = (one.arg(0), one.arg(1));
        if is_engine(one) {
            continue;
        }
        let value = match one.name.ends_with("flag") {
            true => u8::from(one.args.get(1).is_some_and(|word| is_on(word))).to_string(),
            false if value.eq_ignore_ascii_case("none") => String::new(),
            false => value.to_owned(),
        };
        let plain = |text: &str, also: &[u8]| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || also.contains(&byte))
        };
        if name.is_empty() || !plain(name, b"._-") || !plain(&value, b"._-/,:;=+&~|@ ()%#!?*<>^[]'") {
            cx.not_possible(one, "such a value cannot be said to php-fpm: write it into its pool");
            continue;
        }
        cx.translated(one);
        let value = match value.bytes().all(|byte| byte.is_ascii_digit()) && !value.is_empty() {
            true => value,
            // Words such as `on`, and signs, would mean something without.
            false => format!("\"{value}\""),
        };
        let Some((_, table)) = tables.get_mut(usize::from(one.name.contains("admin"))) else { continue };
        table.retain(|(known, _)| known != name);
        table.push((name.to_owned(), value));
    }
    let text = |pairs: &[(String, String)]| {
        pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("\n")
    };
    let of = |(key, pairs): &(&str, Vec<(String, String)>)| {
        (!pairs.is_empty())
            .then(|| ((*key).to_owned(), maitred_config::Template::escape(&text(pairs)).as_str().into()))
    };
    let params: Vec<(String, Value)> = tables.iter().filter_map(of).collect();
    (!params.is_empty()).then_some(Value::Table(params))
}

fn is_on(word: &str) -> bool {
    word.eq_ignore_ascii_case("on")
}

/// `php_flag engine`
fn is_engine(one: &Directive) -> bool {
    one.is(SETTINGS) && one.arg(0).eq_ignore_ascii_case("engine")
}

/// What keeps the scripts of a place from being run by the PHP in Apache: all directives about that, if one of them does.
pub(crate) fn off<'d>(scope: &Scope<'_, 'd>) -> Vec<&'d Directive> {
    let names = ["php_flag", "php_admin_flag", "php_value", "php_admin_value", "sethandler"];
    let more = ["removehandler", "removetype", "addhandler", "addtype"];
    let (mut all, mut engine, mut handler, mut ending) = (Vec::new(), false, false, false);
    for one in scope.all(&[&names[..], &more[..]].concat()) {
        let for_php = one.arg(0).to_ascii_lowercase().contains("php") && !one.name.starts_with("remove");
        let endings = one.args.iter().any(|word| word.trim_start_matches('.').eq_ignore_ascii_case("php"));
        match one.name.as_str() {
            _ if is_engine(one) => engine = !is_on(one.arg(1)) && one.arg(1) != "1",
            "sethandler" => handler = !for_php,
            "addhandler" | "addtype" | "removehandler" | "removetype" if endings => ending = !for_php,
            _ => continue,
        }
        if !for_php || is_engine(one) {
            all.push(one);
        }
    }
    if engine || handler || ending { all } else { Vec::new() }
}

/// `ProxyPassMatch "^/(.*\.php)$" "fcgi://127.0.0.1:9000/srv/www/$1"`
fn by_expression<'d>(work: &Work<'_, 'd>, ground: &Ground) -> Option<Php<'d>> {
    let scope = Scope { layers: vec![work.base] };
    let one = scope.all(&["proxypassmatch"]).into_iter().find(|one| one.arg(0).contains("\\.php"))?;
    let server = proxy::server(work.cx, one.arg(1)).ok().filter(|server| server.fastcgi)?;
    let root = root_of(work, &server)?;
    (Some(root.as_str()) == ground.directory.as_deref()).then_some(())?;
    let pool = pool(work, &scope, one, &server, (&root, None)).ok();
    Some(Php { pool, origin: one, unnamed: false, instead: false })
}

/// The directory in a URL of FastCGI: what stands before the path.
fn root_of(work: &Work<'_, '_>, server: &Server) -> Option<String> {
    let path = ["/$1", "/{capture.1}", "{capture.1}", "$1", "{path}"]
        .iter()
        .find_map(|end| server.path.strip_suffix(end))
        .unwrap_or(&server.path);
    match path.trim_end_matches('/') {
        "" => work.site.root.as_ref().map(|(root, _)| root.trim_end_matches('/').to_owned()),
        path => Some(path.to_owned()),
    }
}

/// What goes to a server of FastCGI by its URL.
pub(crate) fn target<'d>(
    work: &Work<'_, 'd>,
    scope: &Scope<'_, 'd>,
    directive: &'d Directive,
    server: &Server,
) -> Result<Target, String> {
    let root = root_of(work, server).ok_or("the directory of the scripts is not known")?;
    let name = pool(work, scope, directive, server, (&root, None))?;
    work.cx.translated(directive);
    Ok(Target::Pool { name, strip: None, rewrite: None })
}

/// The pool of php-fpm for a directory.
fn pool<'d>(
    work: &Work<'_, 'd>,
    scope: &Scope<'_, 'd>,
    directive: &'d Directive,
    server: &Server,
    (root, params): (&str, Option<Value>),
) -> Result<String, String> {
    if !server.fastcgi || server.balancer.is_some() {
        return Err("scripts are run by FastCGI".into());
    }
    work.cx.php_outside.set(true);
    let there = work.cx.shared.machine.has_directory(root);
    let mut settings: Vec<(&'static str, Value)> = vec![("request_uri", "sent".into())];
    match there {
        true => settings.extend([("php", Value::Flag(true)), ("root", root.into())]),
        false => settings.extend([("+php", Value::Flag(true)), ("+root", root.into())]),
    }
    settings.extend(params.map(|params| ("params", params)));
    let scope = Scope { layers: scope.layers.iter().take(1).copied().collect() };
    let bare = Server {
        connect: server.connect.clone(),
        path: String::new(),
        fastcgi: true,
        balancer: None,
        unknown: server.unknown.clone(),
    };
    let name = proxy::pool(work.cx, &scope, directive, &bare, settings)?;
    Ok(if name.starts_with("php") { name } else { renamed(work.cx, name) })
}

/// Pools of PHP are called so.
fn renamed(cx: &Cx<'_>, name: String) -> String {
    let mut pools = cx.shared.pools.borrow_mut();
    let free = !pools.iter().any(|named| named.name == "php");
    match pools.iter_mut().find(|named| named.name == name).filter(|_| free) {
        Some(named) => {
            named.name = "php".into();
            named.name.clone()
        }
        None => name,
    }
}

/// `DirectoryIndex`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    /// Pages.
    pub(crate) pages: Vec<String>,
    /// Whether a script may be one.
    pub(crate) has_script: bool,
    /// Whether that comes before all pages.
    pub(crate) script_first: bool,
}

/// The names that are looked for in a directory. Where the files of a server are not all there, those of Debian.
pub(crate) fn index(cx: &Cx<'_>, scope: &Scope<'_, '_>) -> Index {
    let given = scope.innermost(&["directoryindex"]);
    for one in scope.all(&["directoryindex"]) {
        cx.say(one, Kind::NotNeeded, "a section within says otherwise");
    }
    given.iter().for_each(|one| cx.translated(*one));
    let names: Vec<String> = match (given.is_empty(), cx.whole) {
        (false, _) => given.iter().flat_map(|one| one.args.clone()).collect(),
        (true, true) => vec!["index.html".into()],
        (true, false) => ["index.html", "index.php", "index.xhtml", "index.htm"].map(str::to_owned).to_vec(),
    };
    if names.iter().any(|name| name.eq_ignore_ascii_case("disabled")) {
        return Index::default();
    }
    let is_script = |name: &&String| name.ends_with(".php");
    let pages: Vec<String> = names
        .iter()
        .filter(|name| {
            !is_script(name) && !name.ends_with(".cgi") && !name.ends_with(".pl") && !name.contains('/')
        })
        .cloned()
        .collect();
    if let Some(one) = given.iter().find(|one| one.args.iter().any(|name| name.contains('/'))) {
        cx.say(*one, Kind::Worse, "an index is a name in its directory");
    }
    Index {
        pages,
        has_script: names.iter().any(|name| name.ends_with(".php")),
        script_first: names.first().is_some_and(|name| name.ends_with(".php")),
    }
}

/// `Options`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    /// `Indexes`
    pub(crate) listing: bool,
    /// `FollowSymLinks`, written there.
    pub(crate) links: bool,
}

/// The options of a place.
pub(crate) fn options(cx: &Cx<'_>, scope: &Scope<'_, '_>) -> Options {
    let mut found = Options::default();
    for one in scope.all(&["options"]) {
        let mut worse = None;
        if one.args.iter().any(|word| !word.starts_with(['+', '-'])) {
            found = Options::default();
        }
        for word in &one.args {
            let on = !word.starts_with('-');
            match word.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str() {
                "indexes" => found.listing = on,
                "followsymlinks" | "symlinksifownermatch" => found.links = on,
                "all" => found = Options { listing: on, links: on },
                "multiviews" if on => worse = Some("names without their endings are not tried"),
                "includes" | "includesnoexec" if on => {
                    worse = Some("pages with commands for the server are not executed")
                }
                "multiviews" | "includes" | "includesnoexec" | "execcgi" | "none" => {}
                _ => worse = Some("there is no such option"),
            }
        }
        match worse {
            Some(why) => cx.say(one, Kind::Worse, why),
            None => cx.translated(one),
        }
    }
    found
}
