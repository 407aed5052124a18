//! `[[site]]`

use super::super::acme::Acme;
use super::super::finding::{At, Span};
use super::super::meaning::{Certificate, Files, HostPattern, PathPattern, Route, Site, Target};
use super::super::reader::{Section, shorten};
use super::pools::Known;
use super::{
    access, acme, arrivals, cache, compress, cors, expires, files, headers, hosts, modules, overrides,
    routes, security, tls,
};

/// Gives back, for each, what its certificates are, and where it stands. `acme` is `[acme]`, if there is one.
pub(super) fn sites(
    root: &Section<'_>,
    pools: &Known<'_>,
    acme: Option<&Acme>,
) -> (Vec<Site>, Vec<tls::Certified>) {
    let sections = root.sections("site");
    if sections.is_empty() && root.given("site").is_none() {
        root.cx.missing(
            &root.span,
            "there is no [[site]], so that nothing would be served",
            "add [[site]] with root = \"public\"",
        );
    }
    let mut seen: Vec<Seen> = Vec::new();
    let (mut sites, mut all_certified) = (Vec::<Site>::new(), Vec::new());
    for (index, section) in sections.iter().enumerate() {
        let listens = arrivals::of_site(section);
        let hosts = site_hosts(section, listens.as_deref(), &mut seen);
        let nameless = section.given("hosts").is_none() || section.empty_array("hosts").is_some();
        if nameless && index > 0 && !arrivals::is_first(section.cx, listens.as_deref(), &sites) {
            let hint = match listens {
                None => "only the first site can do without: it takes what no other site names",
                Some(_) => {
                    "only the first site of a listener can do without: it takes what no other one there names"
                }
            };
            root.cx.error_with(
                &section.span,
                "this site has no `hosts`, so that no request reaches it",
                hint,
            );
        }
        let (certificates, certified) = tls::certificates(section, &hosts);
        let automatic = acme::of_site(section, &hosts, acme);
        let on_demand = acme::is_on_demand(section, acme);
        let site = site(section, (hosts, listens), certificates, pools);
        sites.push(Site { acme: automatic, on_demand, ..site });
        all_certified.push(certified);
    }
    (sites, all_certified)
}

/// A name that a site has: where it stands, and the listeners of the site.
struct Seen {
    host: HostPattern,
    span: Span,
    listens: Option<Vec<u16>>,
}

/// `hosts`. Sites that answer at the same listener have different ones.
fn site_hosts(section: &Section<'_>, listens: Option<&[u16]>, seen: &mut Vec<Seen>) -> Vec<HostPattern> {
    let mut hosts = Vec::new();
    for text in section.texts("hosts") {
        let what = format!("`hosts`: \"{}\" is not a host name", shorten(&text.value));
        let Some(host) = section.cx.accept(&text.span, &what, hosts::host(&text.value)) else { continue };
        let same = |other: &&Seen| other.host == host && arrivals::meet(other.listens.as_deref(), listens);
        if let Some(first) = seen.iter().find(same) {
            let message = format!("the host \"{}\" is named twice", shorten(&text.value));
            section.cx.conflict(&text.span, message, "it is first named here", &first.span);
        }
        seen.push(Seen { host: host.clone(), span: text.span, listens: listens.map(<[u16]>::to_vec) });
        hosts.push(host);
    }
    hosts
}

fn site(
    section: &Section<'_>,
    (hosts, listens): (Vec<HostPattern>, Option<Vec<u16>>),
    certificates: Vec<Certificate>,
    pools: &Known<'_>,
) -> Site {
    let options = files::options(section, pools);
    let routes = section.sections("route");
    let root = super::directory(section, "root");
    let files = root.map(|root| Files { root: root.value, ..options.clone() });
    let sections = routes;
    let mut routes = routes::routes(section, &sections, (&options, listens.as_deref()), pools);
    let scripts = routes.iter().any(|route| route.scripts.is_some());
    if files.is_none() && section.given("root").is_none() && !scripts {
        without_root(section, &sections);
    }
    if let Some(files) = &files {
        let target = Target::Files(files.clone());
        let scripts = routes::scripts(&target, &options, pools);
        routes.push(Route { scripts, ..Route::new(PathPattern::All, target) });
    }
    let methods = routes::methods(section);
    for route in routes.iter_mut().filter(|route| route.methods.is_empty()) {
        route.methods.clone_from(&methods);
    }
    let error_pages = error_pages(section, section);
    let compress = compress::of(section);
    let siblings = files.as_ref().is_some_and(|files| !files.precompressed.is_empty());
    compress::check_fields(section, section, compress::is_on(None, compress.as_ref()), siblings);
    Site {
        hosts,
        listens,
        routes,
        error_pages,
        files,
        certificates,
        acme: false,
        on_demand: false,
        encoded_slashes: super::server::encoded_slashes(section),
        hsts: tls::hsts(section),
        response_headers: headers::of_responses(&section.section("response_headers")),
        expires: expires::of(section),
        cors: cors::of(section),
        security_headers: security::of(section),
        compress,
        cache: cache::of(section),
        request_headers: headers::of_requests(&section.section("request_headers")),
        access: access::of(section, pools),
        modules: modules::of(section),
        overrides: overrides::of(section, pools),
    }
}

/// What makes no sense in a site without files of its own.
fn without_root(section: &Section<'_>, routes: &[Section<'_>]) {
    if routes.is_empty() {
        section.cx.missing(
            &section.span,
            "this site has neither `root` nor a route, so that it answers nothing",
            "add root = \"public\", or a [[site.route]]",
        );
        return;
    }
    if routes.iter().any(|route| route.given("root").is_some()) {
        return;
    }
    for key in files::KEYS {
        if let Some(span) = section.own_key_span(key) {
            let message = format!("`{key}` is about files, and this site has none");
            section.cx.error_with(&span, message, "add `root`, or take it out");
        }
    }
}

/// `error_pages` of a site, or of one of its routes.
pub(super) fn error_pages(section: &Section<'_>, site: &Section<'_>) -> Vec<(u16, String)> {
    let entries = section.map("error_pages");
    if let (true, Some(span)) = (site.given("root").is_none(), section.own_key_span("error_pages")) {
        section.cx.error_with(
            &span,
            "`error_pages` are files of the site, and this site has no `root`",
            "add `root`: the pages are looked up below it",
        );
    }
    let mut pages: Vec<_> =
        entries.iter().filter_map(|(status, path)| error_page(section, status, path)).collect();
    pages.sort();
    pages
}

fn error_page(section: &Section<'_>, status: &At<String>, path: &At<String>) -> Option<(u16, String)> {
    let number = status.value.parse().ok().filter(|number| (400..=599).contains(number));
    if number.is_none() {
        let message = format!("`error_pages`: \"{}\" is not a status of an error", shorten(&status.value));
        section.cx.error_with(&status.span, message, "it takes 400 to 599");
    }
    let parts = || path.value.split('/');
    if !path.value.starts_with('/')
        || path.value.ends_with('/')
        || path.value.contains('\0')
        || parts().any(|part| part == "..")
    {
        section.cx.error_with(
            &path.span,
            format!("`error_pages`: \"{}\" is not the path of a page", shorten(&path.value)),
            "it starts with `/`, as in \"/404.html\", and is looked up below the site's `root`",
        );
    }
    Some((number?, path.value.clone()))
}
