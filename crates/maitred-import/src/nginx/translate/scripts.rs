//! Scripts of FastCGI behind files: the index of a directory, and what stands behind a script's name.

use super::answering;
use super::context::Context;
use super::files;
use super::selectors::{Location, Selector, is_php};
use super::spot::Spot;
use crate::drafts::{Route, Target};
use crate::nginx::tree::Directive;

/// What `index` says: names of files, and a script.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Index {
    /// Names of files, without scripts.
    pub(super) files: Vec<String>,
    /// A script among them.
    pub(super) script: Option<String>,
    /// The script comes before the files.
    pub(super) first: bool,
    /// Whether something is no name in the same directory.
    pub(super) elsewhere: bool,
}

/// The index that holds in a scope. `runs`: the server has a location for scripts.
pub(super) fn index(directive: &Directive, runs: bool) -> Index {
    let mut index = Index::default();
    for name in &directive.args {
        match name {
            name if name.contains(['$', '/']) => index.elsewhere = true,
            name if runs && name.ends_with(".php") => {
                index.first |= index.files.is_empty() && index.script.is_none();
                index.script.get_or_insert_with(|| name.clone());
            }
            name => index.files.push(name.clone()),
        }
    }
    index
}

/// The location of a server that runs scripts, and its handler.
pub(super) fn runner<'s, 'a>(locations: &'s [Location<'a>]) -> Option<(&'s Location<'a>, &'a Directive)> {
    locations.iter().filter(|location| is_php(location)).find_map(|location| {
        let handler = location.scope.own().iter().find(|directive| directive.name == "fastcgi_pass")?;
        Some((location, handler))
    })
}

/// Whether the location that answers for a path runs scripts.
pub(super) fn runs(spot: &Spot<'_, '_>, path: &str) -> bool {
    let found = answering::location(spot.server, path).ok().flatten();
    found.is_some_and(|found| found.scope.own().iter().any(|one| one.name == "fastcgi_pass"))
}

/// Whether scripts below a prefix run, whatever their names are.
pub(super) fn run_below(spot: &Spot<'_, '_>, prefix: &str, index: &str) -> bool {
    let base = prefix.strip_suffix('/').unwrap_or(prefix);
    ["some.php", "some/other.php"].into_iter().all(|name| runs(spot, &format!("{base}/{name}")))
        && ["", "some/other/"].into_iter().all(|directory| runs(spot, &format!("{base}/{directory}{index}")))
}

/// Whether an index is run somewhere below a prefix.
pub(super) fn run_some(spot: &Spot<'_, '_>, prefix: &str, index: &str) -> bool {
    let base = prefix.strip_suffix('/').unwrap_or(prefix);
    ["", "some/other/"].into_iter().any(|directory| runs(spot, &format!("{base}/{directory}{index}")))
}

/// `/info.php/extra`, where the location of scripts does not take it: no script runs, but for the front controller.
pub(super) fn behind(
    cx: &Context<'_>,
    spot: &Spot<'_, '_>,
    selector: &Selector,
    route: &Route,
) -> Option<Route> {
    let (all, pool) = (route.scripts?, route.pool()?);
    let plain = selector.regex.is_none() && route.front_controller.is_none();
    let prefix = selector.prefix.as_deref().filter(|_| plain)?;
    let base = prefix.strip_suffix('/').unwrap_or(prefix);
    let (runner, _) = runner(&spot.server.locations)?;
    let there = files::root(cx, &runner.scope).is_some_and(|files| !files.missing);
    // A name that no expression is about. Without the directory on this machine, no script is looked for either.
    if !there || runs(spot, &format!("{base}/some.php/other")) {
        return None;
    }
    let front_controller = spot.server.front.clone().filter(|_| all);
    let target = match &front_controller {
        Some(_) => Target::Pool { name: pool.to_owned(), strip: None, rewrite: None },
        None => Target::Respond { status: 404, body: None },
    };
    let mut behind = Route { target, front_controller, ..route.clone() };
    behind.paths = vec![format!("{base}*.php/*")];
    behind.origin.1 = format!("{}, behind the name of a script", behind.origin.1);
    Some(behind)
}
