//! `Redirect` and its like.

use super::globs;
use super::mounts::{Mount, What, Work};
use super::patterns;
use super::selectors::Selector;
use super::templates::{self, Groups};
use super::tree::Directive;

impl<'d> Work<'_, 'd> {
    /// What a directive redirects.
    pub(crate) fn redirect(&self, one: &'d Directive, location: Option<&str>) -> Option<Mount<'d>> {
        let found = redirected(one, location);
        match found {
            Ok((selector, what)) => {
                self.cx.translated(one);
                Some(Mount { selector, url: String::new(), what, directive: one })
            }
            Err(why) => {
                self.cx.not_possible(one, why);
                None
            }
        }
    }
}

/// `Redirect [status] path url`.
fn redirected(one: &Directive, location: Option<&str>) -> Result<(Selector, What), String> {
    let mut words: Vec<&str> = one.args.iter().map(String::as_str).collect();
    let first = words.first().copied().unwrap_or_default().to_ascii_lowercase();
    let given = match first.as_str() {
        "permanent" => Some(301),
        "temp" => Some(302),
        "seeother" => Some(303),
        "gone" => Some(410),
        number => number.parse::<u16>().ok(),
    };
    if given.is_some() {
        words.remove(0);
    }
    let status = match one.name.as_str() {
        "redirectpermanent" => 301,
        _ => given.unwrap_or(302),
    };
    if let Some(path) = location.filter(|_| words.len() < 2) {
        words.insert(0, path);
    }
    let expression = one.name == "redirectmatch";
    let path = words.first().copied().ok_or("it names no path")?;
    if !(300..400).contains(&status) {
        let selector =
            if expression { Selector::regex(path, false)? } else { Selector::paths(globs::below(path)) };
        return (400..600)
            .contains(&status)
            .then_some((selector, What::Status(status)))
            .ok_or_else(|| "there is no such status".into());
    }
    if ![301, 302, 303, 307, 308].contains(&status) {
        return Err("a redirect is 301, 302, 303, 307 or 308".into());
    }
    let to = words.get(1).copied().ok_or("it names no target")?;
    if expression {
        let captures = to.contains('$');
        let selector = Selector::regex(path, captures)?;
        let groups =
            Groups { regex: captures.then(|| path.to_owned()), base: "/".into(), ..Groups::default() };
        let to = templates::redirect(&to.replace('%', "%25").replace("%25{", "%{"), &groups)?;
        return Ok((selector, What::Redirect(with_query(to), status)));
    }
    let bare = location.is_some()
        && words.len() == 2
        && one.args.len() < 3
        && !one.args.iter().any(|word| word == path);
    Ok(by_beginning(path, to, status, bare))
}

/// What stands behind the path is put behind the target, unless the place names the path.
fn by_beginning(path: &str, to: &str, status: u16, bare: bool) -> (Selector, What) {
    let to = maitred_config::Template::escape(to);
    if path == "/" {
        return (Selector::default(), What::Redirect(format!("{}{{uri}}", to.trim_end_matches('/')), status));
    }
    if bare && !path.ends_with('/') {
        return (Selector::paths(globs::below(path)), What::Redirect(to, status));
    }
    let end = if path.ends_with('/') { "(.*)$" } else { "(/.*)?$" };
    let regex = Some(format!("^{}{end}", patterns::escaped(path)));
    let selector = Selector { regex, ..Selector::default() };
    (selector, What::Redirect(format!("{to}{{capture.1}}?{{query}}"), status))
}

/// The client's query stays, unless the target has one.
fn with_query(to: String) -> String {
    if to.contains(['?', '#']) { to } else { format!("{to}?{{query}}") }
}
