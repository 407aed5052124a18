//! `<Directory>`, `<Files>`, `<Location>`, `<If>` and `.htaccess`: for which requests of a place they are, in httpd's order.

use super::access;
use super::conditions;
use super::context::{Cx, Layer};
use super::globs::{self, Glob};
use super::mounts::Htaccess;
use super::patterns;
use super::selectors::Selector;
use super::tree::Directive;
use crate::report::Kind;

/// A section that holds in a place.
pub(crate) struct Section<'d> {
    /// For which requests.
    pub(crate) selector: Selector,
    /// For all others: `<LimitExcept>`.
    pub(crate) except: bool,
    /// What stands in it.
    pub(crate) layer: Layer<'d>,
    order: (u8, usize, usize),
}

/// A place: a beginning of URLs, and the directory that it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ground {
    /// With a slash at its end.
    pub(crate) url: String,
    /// Without one; `None` for what goes to other servers.
    pub(crate) directory: Option<String>,
}

/// Sections.
pub(crate) const SECTIONS: &[&str] = &[
    "directory",
    "directorymatch",
    "files",
    "filesmatch",
    "location",
    "locationmatch",
    "if",
    "elseif",
    "else",
    "limit",
    "limitexcept",
    "proxy",
    "proxymatch",
    "virtualhost",
    "requireall",
    "requireany",
    "requirenone",
    "ifmodule",
    "macro",
    "mdomainset",
    "authnprovideralias",
    "authzprovideralias",
];

/// The sections of a place, in their order; and why the place has to be closed, if one of them cannot be said.
pub(crate) fn of<'d>(
    cx: &Cx<'_>,
    all: &[&'d Directive],
    htaccess: &'d [Htaccess],
    ground: &Ground,
) -> (Vec<Section<'d>>, Option<String>) {
    let mut reading = Reading { cx, ground, found: Vec::new(), closed: None, count: 0 };
    for one in all {
        reading.section(one, &Selector::default(), None);
    }
    for file in htaccess {
        let depth = file.directory.split('/').filter(|part| !part.is_empty()).count();
        if let Some(selector) = reading.directory(&file.directory).ok().flatten() {
            let own: Vec<&'d Directive> = file.directives.iter().collect();
            let before = reading.count;
            // Behind the section for the same directory.
            reading.layer(
                &own,
                &selector,
                (Some(file.directory.clone()), None),
                (0, depth, usize::MAX / 2 + before),
            );
        }
    }
    reading.found.sort_by_key(|section| section.order);
    (reading.found, reading.closed)
}

struct Reading<'c, 'd> {
    cx: &'c Cx<'c>,
    ground: &'c Ground,
    found: Vec<Section<'d>>,
    closed: Option<String>,
    count: usize,
}

/// Whether something in a section says who gets an answer, or what answers.
pub(crate) fn decides(section: &Directive) -> bool {
    let names =
        ["sethandler", "addhandler", "setinputfilter", "perlhandler", "perlresponsehandler", "luamaphandler"];
    section
        .inside()
        .iter()
        .any(|one| access::NAMES.contains(&one.name.as_str()) || one.is(&names) || decides(one))
}

impl<'d> Reading<'_, 'd> {
    fn section(&mut self, one: &'d Directive, around: &Selector, directory: Option<&str>) {
        if !one.is(&[
            "directory",
            "directorymatch",
            "files",
            "filesmatch",
            "location",
            "locationmatch",
            "if",
            "limit",
            "limitexcept",
            "proxy",
            "proxymatch",
        ]) {
            return;
        }
        self.count += 1;
        match self.selector(one) {
            Ok(Some((selector, rank, own))) => match selector.and(around) {
                Ok(Some(both)) => {
                    self.cx.translated(one);
                    let depth = own
                        .as_deref()
                        .map_or(0, |path| path.split('/').filter(|part| !part.is_empty()).count());
                    let directory = own.or_else(|| directory.map(str::to_owned));
                    let inside: Vec<&'d Directive> = one.inside().iter().collect();
                    self.layer(&inside, &both, (directory, Some(one)), (rank, depth, self.count));
                }
                Ok(None) => self.cx.say(one, Kind::NotNeeded, "nothing is served from there"),
                Err(why) => self.failed(one, &why),
            },
            Ok(None) => {}
            Err(why) => self.failed(one, &why),
        }
    }

    fn failed(&mut self, one: &Directive, why: &str) {
        match decides(one) {
            true => {
                self.cx.not_possible(one, format!("{why}: what is around it answers 403 instead"));
                self.closed.get_or_insert_with(|| one.shown.clone());
            }
            false => self.cx.not_possible(one, why),
        }
    }

    fn layer(
        &mut self,
        inside: &[&'d Directive],
        selector: &Selector,
        (directory, origin): (Option<String>, Option<&'d Directive>),
        order: (u8, usize, usize),
    ) {
        let own: Vec<&'d Directive> = inside
            .iter()
            .copied()
            .filter(|one| !one.is(SECTIONS) || one.name.starts_with("require"))
            .collect();
        let except = origin.is_some_and(|one| one.name == "limitexcept");
        let layer = Layer { directory: directory.clone(), own, origin };
        self.found.push(Section { selector: selector.clone(), except, layer, order });
        for one in inside {
            let after = self.found.len();
            self.section(one, selector, directory.as_deref());
            // What limits methods belongs to its section.
            for section in self.found.iter_mut().skip(after).filter(|_| one.is(&["limit", "limitexcept"])) {
                section.order = order;
            }
        }
        if let Some(otherwise) = inside.iter().find(|one| one.is(&["elseif", "else"])) {
            self.failed(otherwise, "alternatives of an expression are not translated");
        }
    }

    /// For which requests a section is, its rank, and the directory that it names.
    #[allow(clippy::type_complexity)]
    fn selector(&self, one: &Directive) -> Result<Option<(Selector, u8, Option<String>)>, String> {
        let regex = one.arg(0) == "~";
        let name = if regex { one.arg(1) } else { one.arg(0) };
        let with = |rank: u8, own: Option<String>| move |selector: Selector| (selector, rank, own);
        Ok(match one.name.as_str() {
            "directory" if !regex => {
                let path = without_dots(&self.cx.loader.absolute(name));
                self.directory(&path)?.map(with(0, Some(path.trim_end_matches('/').to_owned())))
            }
            "directory" | "directorymatch" => self.directory_match(name)?.map(with(1, None)),
            "files" if !regex => self.in_files(files(name)?).map(with(2, None)),
            "files" | "filesmatch" => self.in_files(files_match(name, decides(one))?).map(with(2, None)),
            "location" if !regex => Some(with(3, None)(location(name)?)),
            "location" | "locationmatch" => Some(with(3, None)(Selector::regex(name, false)?)),
            "if" => Some(with(4, None)(conditions::expression(name)?)),
            "limit" | "limitexcept" => {
                let methods = one.args.iter().map(|method| method.to_ascii_uppercase());
                let mut methods: Vec<String> = methods.collect();
                // `GET` includes `HEAD`, as here.
                methods.retain(|method| {
                    method != "HEAD" || !one.args.iter().any(|other| other.eq_ignore_ascii_case("GET"))
                });
                Some(with(3, None)(Selector { methods, ..Selector::default() }))
            }
            // A `<Proxy>` is for what goes to the servers that it names; without rules it is a list of them.
            _ if self.ground.directory.is_some() || !decides(one) || name.starts_with("balancer:") => None,
            "proxy" if name == "*" => Some(with(0, None)(Selector::default())),
            _ => return Err("rules for some servers are those of the routes to them".into()),
        })
    }

    fn in_files(&self, selector: Selector) -> Option<Selector> {
        self.ground.directory.is_some().then_some(selector)
    }

    /// The part of the ground that is below a directory.
    fn directory(&self, path: &str) -> Result<Option<Selector>, String> {
        let Some(own) = &self.ground.directory else { return Ok(None) };
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let ours: Vec<&str> = own.split('/').filter(|part| !part.is_empty()).collect();
        let same = |(part, our): (&&str, &&str)| fits(part, our);
        if !parts.iter().zip(&ours).all(same) {
            return Ok(None);
        }
        let Some(rest) = parts.get(ours.len()..).filter(|rest| !rest.is_empty()) else {
            return Ok(Some(Selector::default()));
        };
        let url = format!("{}{}", self.ground.url, rest.join("/"));
        match url.contains(['*', '?', '[']) {
            true => wildcards(&url).map(Some),
            false => Ok(Some(Selector::paths(globs::below(&url)))),
        }
    }

    fn directory_match(&self, regex: &str) -> Result<Option<Selector>, String> {
        let Some(own) = &self.ground.directory else { return Ok(None) };
        let Some(body) = regex.strip_prefix('^') else {
            if patterns::compiled(regex)?.is_match(&format!("{own}/")) {
                return Ok(Some(Selector::default()));
            }
            let body = regex.trim_end_matches('$').trim_end_matches("/?");
            return Selector::regex(body, false).map(Some);
        };
        if ["(.*)/", "(.*/)?", ".*/", "(.+)/"].iter().any(|begin| body.starts_with(begin)) {
            return Selector::regex(regex.trim_end_matches('$'), false).map(Some);
        }
        let begin = patterns::escaped(own);
        if let Some(rest) = body.strip_prefix(&begin).or_else(|| body.strip_prefix(own.as_str())) {
            let rest = rest.strip_prefix('/').unwrap_or(rest);
            let regex = format!("^{}{}", patterns::escaped(&self.ground.url), rest.trim_end_matches('$'));
            return Selector::regex(&regex, false).map(Some);
        }
        let head = patterns::literal_head(regex);
        match head.starts_with(own.as_str()) || own.starts_with(&head) {
            true => Err("the expression is about directories above the root".into()),
            false => Ok(None),
        }
    }
}

/// A path without `..` and `.`.
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Whether the name of a directory fits a part of a pattern.
fn fits(pattern: &str, name: &str) -> bool {
    if !pattern.contains(['*', '?', '[']) {
        return pattern == name;
    }
    patterns::compiled(&format!("^{}$", wild(pattern))).is_ok_and(|regex| regex.is_match(name))
}

fn wild(pattern: &str) -> String {
    let mut out = String::new();
    for letter in pattern.chars() {
        match letter {
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            '[' | ']' => out.push(letter),
            other => out.push_str(&patterns::escaped(&other.to_string())),
        }
    }
    out
}

/// A path with `*` that is no slash.
fn wildcards(path: &str) -> Result<Selector, String> {
    let regex = format!("^{}(/|$)", wild(path.trim_end_matches('/')));
    patterns::compiled(&regex)?;
    Ok(Selector { regex: Some(regex), ..Selector::default() })
}

fn location(path: &str) -> Result<Selector, String> {
    match path {
        "/" | "" => Ok(Selector::default()),
        path if path.contains("://") => Err("a place is named by its path".into()),
        path if path.contains(['*', '?', '[']) => wildcards(path),
        path => Ok(Selector::paths(globs::below(path))),
    }
}

/// Files of a name, with what stands behind it in a path: scripts get that as `PATH_INFO`.
fn named(name: &str) -> Vec<Glob> {
    vec![Glob::between("", &format!("/{name}")), Glob::containing(&format!("/{name}/"))]
}

fn files(name: &str) -> Result<Selector, String> {
    match name.split_once('*') {
        None if !name.contains(['?', '[']) => Ok(Selector::paths(named(name))),
        Some(("", "")) => Ok(Selector::default()),
        Some(("", end)) if !end.contains(['*', '?', '[']) => {
            Ok(Selector::paths(vec![Glob::between("", end), Glob::containing(&format!("{end}/"))]))
        }
        _ => {
            let regex = format!("/{}$", wild(name));
            patterns::compiled(&regex)?;
            Ok(Selector { regex: Some(regex), ..Selector::default() })
        }
    }
}

/// Files whose name fits an expression. What protects files may take in more than them.
fn files_match(regex: &str, decides: bool) -> Result<Selector, String> {
    if ["", "^", ".", ".*", "^.*$", ".+", "^.+$", "(.*)", "^(.*)$"].contains(&regex) {
        return Ok(Selector::default());
    }
    let Some(found) = patterns::texts(regex) else {
        return match php(regex) {
            Some(ends) => Ok(Selector::paths(ends.iter().flat_map(|end| ended(end)).collect())),
            None => Ok(Selector { regex: Some(patterns::of_name(regex, decides)?), ..Selector::default() }),
        };
    };
    let of = |text: &String| match (found.start, found.end) {
        (true, true) => Some(named(text)),
        (false, true) if decides => Some(ended(text)),
        (false, true) => Some(vec![Glob::between("", text)]),
        (true, false) if decides => Some(vec![Glob::containing(&format!("/{text}"))]),
        (false, false) if decides => Some(vec![Glob::containing(text)]),
        _ => None,
    };
    match found.texts.iter().map(of).collect::<Option<Vec<_>>>() {
        Some(paths) => Ok(Selector::paths(paths.concat())),
        None => Ok(Selector { regex: Some(patterns::of_name(regex, decides)?), ..Selector::default() }),
    }
}

fn ended(end: &str) -> Vec<Glob> {
    vec![Glob::between("", end), Glob::containing(&format!("{end}/"))]
}

/// What Debian writes for PHP: `.+\.ph(ar|p|tml)$`.
fn php(regex: &str) -> Option<Vec<String>> {
    let rest = regex
        .strip_prefix(".+")
        .or_else(|| regex.strip_prefix("^.+"))
        .or_else(|| regex.strip_prefix(".*"))?;
    let found = patterns::texts(rest).filter(|found| found.end && !found.start)?;
    found.texts.iter().all(|text| text.starts_with('.')).then_some(found.texts)
}
