//! `error_page`: files below the site's `root`.

use super::context::Context;
use super::forward;
use crate::nginx::scope::Scope;
use crate::report::Kind;

/// `error_page` with files of the server's own directory.
pub(crate) fn of(cx: &Context<'_>, scope: &Scope<'_>) -> Vec<(u16, String)> {
    let mut pages = Vec::new();
    for directive in scope.all("error_page") {
        let Some((page, statuses)) = directive.args.split_last() else { continue };
        if forward::sign_in(scope, directive).is_some() {
            continue;
        }
        let statuses: Vec<u16> = statuses
            .iter()
            .filter_map(|status| status.parse().ok())
            .filter(|status| (400..=599).contains(status))
            .collect();
        let changed = directive.args.iter().any(|arg| arg.starts_with('='));
        let elsewhere = scope.everywhere("location").iter().any(|location| {
            let its = |name: &str| {
                location
                    .inside()
                    .iter()
                    .find(|inside| inside.name == name)
                    .map(|inside| inside.arg(0).to_owned())
            };
            location.args.last() == Some(page)
                && its("root")
                    .is_some_and(|root| Some(root.as_str()) != scope.last("root").map(|root| root.arg(0)))
        });
        if page.split(['?', '$']).next().is_some_and(|page| page.ends_with(".php")) {
            cx.say(
                directive,
                Kind::Choice,
                "what is not there goes to the front controller, and an error page is no script",
            );
            continue;
        }
        let plain = page.starts_with('/')
            && !page.contains(['$', '?'])
            && !page.ends_with('/')
            && !page.split('/').any(|part| part == "..");
        match (plain, changed, elsewhere || scope.last("root").is_none()) {
            (true, false, false) => {
                cx.translated(directive);
                for status in statuses {
                    if !pages.iter().any(|(known, _)| *known == status) {
                        pages.push((status, page.clone()));
                    }
                }
            }
            (true, false, true) => cx.say(directive, Kind::Worse, "error pages are files below the site's `root`, and this one is not: Maitred answers with short texts of its own"),
            _ => cx.not_possible(directive, "error pages are files below the site's `root`, sent with the status of the error"),
        }
    }
    pages
}
