//! `types`, `default_type` and `charset`: media types of files.

use super::context::Context;
use crate::drafts::Files;
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::report::Kind;

/// Names of one media type each: clients do the same with all of a line.
const SAME: &[&str] = &[
    "text/javascript application/javascript application/x-javascript text/x-javascript",
    "image/bmp image/x-ms-bmp image/x-bmp",
    "image/x-icon image/vnd.microsoft.icon",
    "audio/mid audio/midi audio/x-midi",
    "audio/m4a audio/x-m4a audio/mp4",
    "audio/x-realaudio audio/x-pn-realaudio",
    "font/woff application/font-woff application/x-font-woff",
    "font/woff2 application/font-woff2 application/x-font-woff2",
    "text/xml application/xml",
    "application/gzip application/x-gzip",
    "application/x-rpm application/x-redhat-package-manager",
    "application/octet-stream application/x-msdownload application/x-sea",
    "application/x-pilot application/x-mobipocket-ebook application/vnd.palm",
];
/// Endings of what browsers run as a page: without a row in `types`, nginx does not say so.
const PAGES: [&str; 7] = ["html", "htm", "shtml", "xhtml", "svg", "svgz", "xml"];

/// What a scope says of media types.
pub(super) fn of(cx: &Context<'_>, scope: &Scope<'_>, files: &mut Files) {
    let given = scope.all("types");
    let default = scope.last("default_type");
    if let Some(default) = default {
        match default.arg(0) {
            "application/octet-stream" => cx.not_needed(default, "names that say nothing have this type"),
            _ => cx.translated(default),
        }
    }
    let rows = rows(&given);
    let kind = default.map_or("text/plain", |default| default.arg(0));
    match (given.is_empty(), rows.is_empty()) {
        (true, _) => {}
        // Without any other type this one is that of all files.
        (false, true) => {
            given.iter().for_each(|given| cx.translated(given));
            files.headers.push(("Content-Type".into(), kind.to_owned()));
            return charset(cx, scope, files);
        }
        (false, false) => {
            let newer = differing(&rows, kind, files);
            for given in given {
                match newer {
                    true => {
                        cx.say(given, Kind::Better, "some types have their newer name (RFC 9239, RFC 8081)")
                    }
                    false => cx.translated(given),
                }
            }
        }
    }
    if kind != "application/octet-stream" && default.is_some() {
        files.types.push(("default".into(), kind.to_owned()));
    }
    charset(cx, scope, files);
}

/// Endings and their types; of an ending that is named twice, the last one counts.
fn rows<'a>(given: &[&'a Directive]) -> Vec<(String, &'a str)> {
    let mut rows: Vec<(String, &str)> = Vec::new();
    for row in given.iter().flat_map(|given| given.inside()) {
        for ending in &row.args {
            let ending = ending.trim_start_matches('.').to_ascii_lowercase();
            rows.retain(|(known, _)| *known != ending);
            rows.push((ending, &row.name));
        }
    }
    rows
}

/// Notes the types that are not what an ending means anyway; says whether some have another name.
fn differing(rows: &[(String, &str)], default: &str, files: &mut Files) -> bool {
    let mut newer = false;
    for (ending, media) in rows {
        match maitred_files::usual_media_type(ending) {
            Some(usual) if usual.eq_ignore_ascii_case(media) => {}
            Some(usual) if same(usual, media) => newer = true,
            None if media.eq_ignore_ascii_case("application/octet-stream") && default == *media => {}
            _ => files.types.push((ending.clone(), (*media).to_owned())),
        }
    }
    let left = PAGES.iter().filter(|page| !rows.iter().any(|(ending, _)| ending == *page));
    files.types.extend(left.map(|page| ((*page).to_owned(), default.to_owned())));
    newer
}

fn same(one: &str, other: &str) -> bool {
    let of = |line: &&&str| line.split(' ').any(|name| name.eq_ignore_ascii_case(one));
    SAME.iter().find(of).is_some_and(|line| line.split(' ').any(|name| name.eq_ignore_ascii_case(other)))
}

fn charset(cx: &Context<'_>, scope: &Scope<'_>, files: &mut Files) {
    let Some(charset) = scope.last("charset").filter(|charset| !charset.arg(0).eq_ignore_ascii_case("utf-8"))
    else {
        return;
    };
    match charset.arg(0).contains(['$', '/']) {
        true => cx.not_possible(charset, "the character encoding is fixed here, without variables"),
        false => {
            cx.translated(charset);
            files.charset = Some(charset.arg(0).to_ascii_lowercase());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::tree::parse;
    use crate::report::Report;

    fn files(text: &str) -> Files {
        let http = parse(&"x".into(), text).unwrap();
        let mut files = Files::default();
        of(&Context::new(Report::default(), &http), &Scope::default().within(&http), &mut files);
        files
    }

    fn types(text: &str) -> Vec<(String, String)> {
        files(text).types
    }

    #[test]
    fn what_nginx_ships_needs_no_lines() {
        let shipped = crate::nginx::shipped::text("mime.types").unwrap();
        let written = types(&format!("{shipped} default_type application/octet-stream;"));
        assert!(written.iter().all(|(ending, _)| !PAGES.contains(&ending.as_str())), "{written:?}");
        assert!(written.len() <= 8, "{written:?}");
    }

    #[test]
    fn what_differs_is_written() {
        let text = "types { text/html html htm shtml; application/xhtml+xml xhtml; image/svg+xml svg svgz; text/xml xml; \
                    text/x-own gmi; application/javascript js; text/x-one css; text/css css; }";
        assert_eq!(types(text), [("gmi".to_owned(), "text/x-own".to_owned())]);
    }

    #[test]
    fn pages_without_a_row_are_no_pages() {
        let written = types("types { text/css css; } default_type text/plain;");
        assert!(written.contains(&("html".to_owned(), "text/plain".to_owned())), "{written:?}");
        assert!(written.contains(&("default".to_owned(), "text/plain".to_owned())), "{written:?}");
        let all = files("types { } default_type text/plain;");
        assert_eq!(all.headers, [("Content-Type".to_owned(), "text/plain".to_owned())]);
    }
}
