//! `<VirtualHost>` and the main server: sites and the addresses that they answer at.

use super::context::{Cx, Scope};
use super::htaccess;
use super::logs;
use super::mounts::{Htaccess, Site};
use super::php;
use super::places;
use super::sections;
use super::tls;
use super::tree::Directive;
use crate::drafts::{self, Route, Target};
use crate::model::{Block, Value};
use crate::report::Kind;
use crate::write;

/// An address that httpd listens at.
#[derive(Debug, Clone, PartialEq)]
struct Listen<'d> {
    /// As `address` of `[[listen]]` has it.
    address: String,
    port: u16,
    directive: &'d Directive,
    /// Whether `Listen` says so itself.
    https: bool,
}

/// A server of httpd, before its routes.
struct Host<'d> {
    origin: &'d Directive,
    main: Vec<&'d Directive>,
    own: Vec<&'d Directive>,
    /// The addresses, by their numbers.
    at: Vec<usize>,
    names: Vec<String>,
    tls: bool,
}

impl<'d> Host<'d> {
    fn scope_layer(&self) -> Vec<&'d Directive> {
        if self.origin.name == "virtualhost" {
            self.main.iter().chain(&self.own).copied().collect()
        } else {
            self.own.clone()
        }
    }

    fn last(&self, name: &str) -> Option<&'d Directive> {
        self.scope_layer().into_iter().rfind(|one| one.name == name)
    }
}

/// The port and the address of `Listen` and `<VirtualHost>`.
fn address(text: &str) -> Option<(Option<String>, u16)> {
    if let Ok(port) = text.parse::<u16>() {
        return Some((None, port));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            (host, if port == "*" { 0 } else { port.parse::<u16>().ok()? })
        }
        _ => (text, 0),
    };
    let any = ["*", "_default_", "0.0.0.0", ""].contains(&host);
    (any || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok())
        .then(|| ((!any).then(|| host.to_owned()), port))
}

fn listens<'d>(cx: &Cx<'_>, main: &[&'d Directive], hosts: &[&'d Directive]) -> Vec<Listen<'d>> {
    let mut all: Vec<Listen<'d>> = Vec::new();
    let mut add = |host: Option<String>, port: u16, directive: &'d Directive, https: bool| {
        let address = format!("{}:{port}", host.unwrap_or_default());
        if port != 0 && !all.iter().any(|known| known.address == address) {
            all.push(Listen { address, port, directive, https });
        }
    };
    for one in main.iter().filter(|one| one.name == "listen") {
        match address(one.arg(0)) {
            Some((host, port)) => {
                cx.translated(*one);
                add(host, port, one, one.arg(1).eq_ignore_ascii_case("https"));
            }
            None => cx.not_possible(*one, "an address is an IP address and a port"),
        }
    }
    for host in hosts {
        for (name, port) in host.args.iter().filter_map(|text| address(text)) {
            let port = if port == 0 { 80 } else { port };
            let covered = main
                .iter()
                .filter(|one| one.name == "listen")
                .filter_map(|one| address(one.arg(0)))
                .any(|(_, known)| known == port);
            if name.is_some() || (!cx.whole && !covered) {
                add(name, port, host, false);
            }
        }
    }
    all
}

/// Why an address is not used.
const NO_CERTIFICATE: &str = "no site there has a certificate on this machine: see the comments there";

/// The tables of a whole configuration.
pub(crate) fn blocks(cx: &Cx<'_>, tree: &[Directive], htaccess: &[Htaccess]) -> Vec<Block> {
    let main: Vec<&Directive> = tree.iter().filter(|one| one.name != "virtualhost").collect();
    let virtual_hosts: Vec<&Directive> = tree.iter().filter(|one| one.name == "virtualhost").collect();
    let listens = listens(cx, &main, &virtual_hosts);
    let hosts = hosts(cx, &main, &virtual_hosts, &listens);
    let mut sites = Vec::new();
    let mut largest = None;
    for host in &hosts {
        let dark = |number: &usize| {
            let here: Vec<&Host<'_>> = hosts.iter().filter(|host| host.at.contains(number)).collect();
            here.iter().any(|host| host.tls) && !here.iter().any(|host| is_certified(cx, host))
        };
        let lit: Vec<usize> = host.at.iter().copied().filter(|number| !dark(number)).collect();
        let (blocks, most) = site(cx, host, (&listens, &lit), htaccess);
        largest = largest.max(most);
        sites.push(blocks);
    }
    let mut blocks = Vec::new();
    blocks.extend(tls::server(cx, &main));
    for (number, listen) in listens.iter().enumerate() {
        let here: Vec<&Host<'_>> = hosts.iter().filter(|host| host.at.contains(&number)).collect();
        if here.is_empty() {
            cx.say(
                listen.directive,
                Kind::Choice,
                "no virtual host answers there, and the main server has nothing to answer with",
            );
            continue;
        }
        blocks.push(listen_block(cx, listen, &here));
    }
    blocks.extend(tls::acme(cx, &main));
    let mut limits = Block::new("[limits]");
    write::room_for_bodies(&mut limits, largest);
    if !limits.entries.is_empty() {
        blocks.push(limits);
    }
    blocks.extend(sites.into_iter().flatten());
    blocks.extend(cx.shared.blocks());
    blocks
}

/// Whether a server has a certificate that can be used, or gets one.
fn is_certified(cx: &Cx<'_>, host: &Host<'_>) -> bool {
    let all = host.scope_layer();
    let found = if host.tls { tls::certificates(cx, &all) } else { Vec::new() };
    found.iter().any(|(_, _, there, _)| *there)
        || (found.is_empty() && host.tls && tls::is_managed(cx, &all, &host.names))
}

fn listen_block(cx: &Cx<'_>, listen: &Listen<'_>, here: &[&Host<'_>]) -> Block {
    let mut block = Block::new("[[listen]]").from(&listen.directive.place, &listen.directive.shown);
    block.push("address", listen.address.as_str(), None);
    if here.iter().any(|host| host.tls) || listen.https {
        let scopes: Vec<Vec<&Directive>> = here.iter().map(|host| host.scope_layer()).collect();
        block.push("tls", tls::of_listener(cx, &scopes), None);
        if !here.iter().any(|host| is_certified(cx, host)) {
            block.off = Some(NO_CERTIFICATE.into());
        }
    }
    block
}

/// The servers, each with the addresses that it answers at.
fn hosts<'d>(
    cx: &Cx<'_>,
    main: &[&'d Directive],
    virtual_hosts: &[&'d Directive],
    listens: &[Listen<'d>],
) -> Vec<Host<'d>> {
    let mut hosts: Vec<Host<'d>> = Vec::new();
    for origin in virtual_hosts {
        let mut at = Vec::new();
        for (name, port) in origin.args.iter().filter_map(|text| address(text)) {
            let fits = |listen: &Listen<'_>| {
                let exact =
                    name.as_ref().is_none_or(|name| listen.address == format!("{name}:{}", listen.port));
                exact && (port == 0 || port == listen.port)
            };
            at.extend(
                listens
                    .iter()
                    .enumerate()
                    .filter(|(number, listen)| fits(listen) && !at.contains(number))
                    .map(|(number, _)| number)
                    .collect::<Vec<_>>(),
            );
        }
        if at.is_empty() {
            match origin.args.iter().all(|text| address(text).is_some()) && !origin.args.is_empty() {
                true => cx.say(*origin, Kind::Choice, "httpd does not listen at its address"),
                false => cx.not_possible(*origin, "a virtual host is at an IP address and a port"),
            }
            cx.silence(origin, "httpd does not listen at the address of its virtual host");
            continue;
        }
        cx.translated(*origin);
        let own: Vec<&'d Directive> = origin.inside().iter().collect();
        let tls = own.iter().rfind(|one| one.name == "sslengine").is_some_and(|one| one.is_on());
        hosts.push(Host { origin, main: main.to_vec(), names: names(cx, &own), own, at, tls });
    }
    // The main server answers where no virtual host does.
    let free: Vec<usize> =
        (0..listens.len()).filter(|number| !hosts.iter().any(|host| host.at.contains(number))).collect();
    let answers =
        ["documentroot", "proxypass", "proxypassmatch", "redirect", "redirectmatch", "alias", "location"];
    let own_answers = main.iter().any(|one| one.is(&answers) || one.name.starts_with("rewriterule"));
    if let Some(origin) = main.iter().find(|one| one.is(&answers)).or(main.first())
        && (hosts.is_empty() || (!free.is_empty() && own_answers && cx.whole))
        && virtual_hosts.len() == virtual_hosts.iter().filter(|_| true).count()
    {
        let tls = main.iter().rfind(|one| one.name == "sslengine").is_some_and(|one| one.is_on());
        let at = if hosts.is_empty() { (0..listens.len()).collect() } else { free };
        hosts.push(Host { origin, main: Vec::new(), own: main.to_vec(), at, names: names(cx, main), tls });
    }
    hosts
}

/// `ServerName` and `ServerAlias`.
fn names(cx: &Cx<'_>, own: &[&Directive]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for one in own.iter().filter(|one| one.is(&["servername", "serveralias"])) {
        cx.translated(*one);
        for name in &one.args {
            let name = name.rsplit("://").next().unwrap_or(name).to_ascii_lowercase();
            let name = name.split(':').next().unwrap_or_default().trim_end_matches('.').to_owned();
            let inner = name.strip_prefix("*.").unwrap_or(&name);
            if inner.contains(['*', '?', '/']) || inner.is_empty() {
                cx.not_possible(*one, "a name has `*` in the place of its first parts alone");
            } else if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    all
}

/// What no route takes is not found.
fn with_end(host: &Host<'_>, routes: &mut Vec<Route>) {
    if !routes.iter().any(Route::takes_all) {
        let nothing = Target::Respond { status: 404, body: None };
        routes.push(Route::new(&host.origin.place, "what nothing else answers", nothing));
    }
}

/// The tables of a site, and the largest body that it takes.
fn site(
    cx: &Cx<'_>,
    host: &Host<'_>,
    (listens, lit): (&[Listen<'_>], &[usize]),
    htaccess: &[Htaccess],
) -> (Vec<Block>, Option<u64>) {
    let root = root_of(cx, host);
    let files = root.as_ref().and_then(|(path, _)| htaccess::listing(cx, path));
    let place = Site {
        origin: host.origin,
        main: host.main.clone(),
        own: host.own.clone(),
        names: host.names.clone(),
        tls: host.tls,
        root: root.clone(),
        htaccess,
        files,
    };
    let mut routes = places::routes(cx, &place);
    tls::once(cx, &host.scope_layer());
    let largest = routes.iter().filter_map(|route| route.body_max).max();
    with_end(host, &mut routes);
    let pages: Vec<(u16, String)> = common_pages(&mut routes);
    let all = host.scope_layer();
    let draft = drafts::Site {
        listen: Vec::new(),
        off: None,
        origin: (host.origin.place.clone(), host.origin.shown.clone()),
        notes: Vec::new(),
        hosts: host.names.clone(),
        certificates: if host.tls { tls::certificates(cx, &all) } else { Vec::new() },
        error_pages: pages,
        error_root: root
            .clone()
            .filter(|(path, _)| cx.shared.machine.has_directory(path))
            .map(|(path, one)| (path, one.place.clone(), false)),
        log: logs::of(cx, &all),
        routes,
    };
    let acme = host.tls && draft.certificates.is_empty() && tls::is_managed(cx, &all, &host.names);
    let links = links(cx, host, root.as_ref().map(|(path, _)| path.as_str()), htaccess);
    let has_files =
        draft.routes.iter().any(|route| matches!(&route.target, Target::Files(files) if !files.missing));
    let mut blocks = write::site(draft);
    if let Some(first) = blocks.first_mut() {
        if acme {
            first.push("acme", true, None);
        }
        if links && has_files {
            first.push("symlinks", "anywhere", None);
        }
        own_keys(cx, host, (listens, lit), first);
    }
    if lit.is_empty() && !host.at.is_empty() {
        // Without its address the site would answer at others.
        blocks.iter_mut().for_each(|block| block.off = Some(NO_CERTIFICATE.into()));
    }
    (blocks, largest)
}

/// `DocumentRoot`, without a slash at its end.
fn root_of<'d>(cx: &Cx<'_>, host: &Host<'d>) -> Option<(String, &'d Directive)> {
    let one = host.last("documentroot")?;
    let path = cx.loader.absolute(one.arg(0)).trim_end_matches('/').to_owned();
    Some((if path.is_empty() { "/".to_owned() } else { path }, one))
}

/// `encoded_slashes` and `listen`.
fn own_keys(cx: &Cx<'_>, host: &Host<'_>, (listens, lit): (&[Listen<'_>], &[usize]), block: &mut Block) {
    if let Some(one) = host.last("allowencodedslashes") {
        cx.translated(one);
        let how = match one.arg(0).to_ascii_lowercase().as_str() {
            "nodecode" => "keep",
            "on" => "decode",
            _ => "reject",
        };
        block.push("encoded_slashes", how, None);
    }
    let everywhere = (0..listens.len()).all(|number| host.at.contains(&number));
    let numbers = if lit.is_empty() { &host.at } else { lit };
    if !everywhere && !host.at.is_empty() {
        let found = numbers.iter().filter_map(|number| listens.get(*number));
        let addresses: Vec<&str> = found.map(|listen| listen.address.as_str()).collect();
        block.push("listen", Value::one_or_more(&addresses), None);
    }
}

/// Pages for errors that all routes have are those of the site.
fn common_pages(routes: &mut [Route]) -> Vec<(u16, String)> {
    let Some(first) =
        routes.iter().find(|route| !route.error_pages.is_empty()).map(|route| route.error_pages.clone())
    else {
        return Vec::new();
    };
    let common: Vec<(u16, String)> = first
        .into_iter()
        .filter(|page| {
            routes.iter().all(|route| route.error_pages.is_empty() || route.error_pages.contains(page))
        })
        .collect();
    routes.iter_mut().for_each(|route| route.error_pages.retain(|page| !common.contains(page)));
    common
}

/// Whether links in `DocumentRoot` may lead out of it.
fn links(cx: &Cx<'_>, host: &Host<'_>, root: Option<&str>, htaccess: &[Htaccess]) -> bool {
    let Some(root) = root else { return false };
    let ground = sections::Ground { url: "/".into(), directory: Some(root.to_owned()) };
    let all = host.scope_layer();
    let (found, _) = sections::of(cx, &all, htaccess, &ground);
    let base = super::context::Layer {
        directory: None,
        own: all.into_iter().filter(|one| one.block.is_none()).collect(),
        origin: None,
    };
    let whole = found.iter().filter(|section| section.selector.is_all()).map(|section| &section.layer);
    php::options(cx, &Scope { layers: std::iter::once(&base).chain(whole).collect() }).links
}
