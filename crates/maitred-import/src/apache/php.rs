//! Who runs the scripts of a place, and what its directories show.

use super::context::{Cx, Scope};
use super::mounts::{Mount, What, Work};
use super::proxy::{self, Server};
use super::sections::{Ground, Section};
use super::tree::Directive;
use crate::drafts::Target;
use crate::model::Value;
use crate::report::Kind;

/// What to do where nothing says who runs PHP, or Apache itself does.
pub(crate) const WHO: &str = "PHP runs in Apache, or nothing in these files says where: keep Apache behind \
                 Maitred with mod_maitred \
    (docs/applications.md), or name php-fpm by `SetHandler \"proxy:unix:…|fcgi://localhost\"`. Scripts answer 403 until then";

/// What answers.
pub(crate) enum Handler<'d> {
    /// Files.
    Files,
    /// Another server, by its URL.
    Proxy(&'d Directive, String),
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
        _ if lower.contains("php") => Handler::Closed(one, WHO.to_owned()),
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
    /// Nothing says who, and there may be scripts.
    pub(crate) unknown: bool,
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
                return Some(Php { pool: None, origin: one, unknown: false });
            }
            continue;
        };
        let pool = proxy::server(work.cx, url).ok().and_then(|server| {
            let at = ground.directory.as_deref().filter(|_| mount.url == "/")?;
            pool(work, &scope, one, &server, at).ok()
        });
        if pool.is_some() {
            work.cx.translated(one);
        }
        return Some(Php { pool, origin: one, unknown: false });
    }
    if let Some(found) = by_expression(work, ground) {
        return Some(found);
    }
    let scope = Scope {
        layers: std::iter::once(work.base).chain(sections.iter().map(|section| &section.layer)).collect(),
    };
    let handlers = scope.all(&["addhandler", "addtype", "sethandler", "action"]);
    let own = handlers.into_iter().rfind(|one| one.arg(0).to_ascii_lowercase().contains("php"));
    if let Some(one) = own {
        work.cx.not_possible(one, WHO);
        return Some(Php { pool: None, origin: one, unknown: true });
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
    match (leads, there) {
        (Some(one), _) => Some(Php { pool: None, origin: one, unknown: true }),
        (None, true) => {
            work.cx.not_possible(mount.directive, WHO);
            Some(Php { pool: None, origin: mount.directive, unknown: true })
        }
        (None, false) => None,
    }
}

/// `ProxyPassMatch "^/(.*\.php)$" "fcgi://127.0.0.1:9000/srv/www/$1"`
fn by_expression<'d>(work: &Work<'_, 'd>, ground: &Ground) -> Option<Php<'d>> {
    let scope = Scope { layers: vec![work.base] };
    let one = scope.all(&["proxypassmatch"]).into_iter().find(|one| one.arg(0).contains("\\.php"))?;
    let server = proxy::server(work.cx, one.arg(1)).ok().filter(|server| server.fastcgi)?;
    let root = root_of(work, &server)?;
    (Some(root.as_str()) == ground.directory.as_deref()).then_some(())?;
    let pool = pool(work, &scope, one, &server, &root).ok();
    Some(Php { pool, origin: one, unknown: false })
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
    let name = pool(work, scope, directive, server, &root)?;
    work.cx.translated(directive);
    Ok(Target::Pool { name, strip: None, rewrite: None })
}

/// The pool of php-fpm for a directory.
fn pool<'d>(
    work: &Work<'_, 'd>,
    scope: &Scope<'_, 'd>,
    directive: &'d Directive,
    server: &Server,
    root: &str,
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
