//! `handle_errors`: pages of a site.

use std::path::Path;

use super::tree::Directive;
use super::values;
use crate::report::{Kind, Place};
use crate::shared::Shared;

/// `error_pages`, and the directory that they are in.
pub(crate) type Pages = (Vec<(u16, String)>, Option<(String, Place)>);

/// Placeholders of the status.
const STATUS: &[&str] = &["{err.status_code}", "{http.error.status_code}"];
const WHY: &str = "pages for errors are files: `rewrite` to a file, and `file_server`";
/// Statuses that a server answers with by itself.
const STATUSES: std::ops::Range<u16> = 400..600;

/// What `handle_errors` of a site says that `error_pages` says as well. `root`: the directory of the site.
pub(crate) fn pages(cx: &Shared, site: &Directive, root: Option<&(String, Place)>) -> Pages {
    let mut pages: Vec<(u16, String)> = Vec::new();
    let mut directory: Option<(String, Place)> = None;
    for block in site.inside().iter().filter(|inside| inside.name() == "handle_errors") {
        match of_block(cx, block, root) {
            Ok((found, below)) => {
                cx.translated(block);
                let new =
                    found.into_iter().filter(|(status, _)| !pages.iter().any(|(known, _)| known == status));
                let new: Vec<(u16, String)> = new.collect();
                pages.extend(new);
                directory = directory.or(below);
            }
            Err(why) => cx.not_possible(block, why),
        }
    }
    (pages, directory)
}

/// # Errors
/// Why `error_pages` cannot say it.
fn of_block(cx: &Shared, block: &Directive, root: Option<&(String, Place)>) -> Result<Pages, String> {
    let mut statuses: Vec<u16> = Vec::new();
    for word in block.args() {
        match word.strip_suffix("xx").map(str::parse::<u16>) {
            Some(Ok(hundreds)) => statuses.extend(STATUSES.filter(|status| status / 100 == hundreds)),
            _ => statuses.push(word.parse().map_err(|_| "a status is a number, or `4xx`")?),
        }
    }
    let all = statuses.is_empty();
    let mut conditions: Vec<(String, u16)> = Vec::new();
    let (mut rewrites, mut files) = (Vec::new(), false);
    let mut root = root.cloned();
    for line in block.inside() {
        match line.name() {
            name if name.starts_with('@') => conditions.push((name.to_owned(), condition(line).ok_or(WHY)?)),
            "root" => {
                let word = line.args().last().and_then(|path| values::fixed(path)).ok_or(WHY)?;
                if root.as_ref().is_some_and(|(known, _)| *known != word) {
                    return Err("pages for errors are below the directory of their site".into());
                }
                root = Some((word, line.place.clone()));
            }
            "rewrite" => rewrites.push(line),
            "file_server" if line.block.is_none() => files = true,
            "respond" => {
                cx.say(line, Kind::Choice, "an error without a page has a line of text with its status");
                cx.say(block, Kind::Choice, "an error without a page has a line of text with its status");
                if block.inside().len() == 1 {
                    return Ok((Vec::new(), None));
                }
                return Err(WHY.into());
            }
            _ => return Err(WHY.into()),
        }
    }
    let below = root.ok_or("pages for errors are below the directory of their site, and it has none")?;
    if !files || rewrites.is_empty() {
        return Err(WHY.into());
    }
    let mut pages = Vec::new();
    for line in rewrites {
        of_rewrite(line, &conditions, if all { None } else { Some(&statuses) }, &below.0, &mut pages)?;
        cx.translated(line);
    }
    let all_of = block.inside().iter().filter(|line| line.name() != "rewrite");
    all_of.for_each(|line| {
        cx.translated(line);
        line.inside().iter().for_each(|inside| cx.translated(inside));
    });
    if pages.is_empty() {
        return Err(format!("no such page is there below {} on this machine", below.0));
    }
    Ok((pages, Some(below)))
}

/// The pages of a `rewrite`. `statuses`: those that the block is for, unless it is for all.
///
/// # Errors
/// Why `error_pages` cannot say it.
fn of_rewrite(
    line: &Directive,
    conditions: &[(String, u16)],
    statuses: Option<&Vec<u16>>,
    below: &str,
    pages: &mut Vec<(u16, String)>,
) -> Result<(), String> {
    let (only, to) = match line.args() {
        [matcher, to] if matcher.starts_with('@') => {
            (Some(conditions.iter().find(|(name, _)| name == matcher).ok_or(WHY)?.1), to)
        }
        [any, to] if any == "*" => (None, to),
        [to] => (None, to),
        _ => return Err(WHY.into()),
    };
    let template = STATUS.iter().find(|status| to.contains(**status));
    let wanted: Vec<u16> = match (only, statuses) {
        (Some(status), _) => vec![status],
        (None, Some(statuses)) => statuses.clone(),
        (None, None) => STATUSES.collect(),
    };
    let named = template.is_none() && (only.is_some() || statuses.is_some());
    for status in wanted.into_iter().filter(|status| STATUSES.contains(status)) {
        let path = template.map_or(to.clone(), |template| to.replace(template, &status.to_string()));
        if path.contains('{') || !path.starts_with('/') {
            return Err(WHY.into());
        }
        // Of all that there could be, those that are there.
        let there = Path::new(below).join(path.trim_start_matches('/')).is_file();
        if (there || named) && !pages.iter().any(|(known, _)| *known == status) {
            pages.push((status, path));
        }
    }
    Ok(())
}

/// `{err.status_code} == 404`
fn condition(line: &Directive) -> Option<u16> {
    let inside = line.inside().iter().flat_map(|inside| inside.words.iter());
    let words: Vec<String> = line.args().iter().chain(inside).cloned().collect();
    let text = words.join(" ");
    let text = text.trim_start_matches("expression").trim().trim_matches('`');
    let (left, right) = text.split_once("==")?;
    STATUS.contains(&left.trim()).then(|| right.trim().trim_matches(['"', '\'']).parse().ok())?
}
