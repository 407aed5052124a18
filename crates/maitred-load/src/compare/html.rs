//! The report as one page: no script, no other file.

use std::fmt::Write;

use super::report::{Group, Report};
use super::text::verdict;
use crate::report::{STYLE, count_text, escaped};

/// What the style of all reports lacks.
const FURTHER_STYLE: &str = "
section { border-top: 1px solid var(--rule); } h3 { font-size: 1rem; margin: 1rem 0 .3rem; overflow-wrap: anywhere; }
td { overflow-wrap: anywhere; } pre { overflow-x: auto; margin: .2rem 0; }
";

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut out = String::with_capacity(16 * 1024);
    let title = format!("Comparison of {} and {}", report.left, report.right);
    push(
        &mut out,
        format_args!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{0}</title>\
             <style>{STYLE}{FURTHER_STYLE}</style></head><body>\n<h1>{0}</h1>\n<p class=\"answer\">{1}</p>\n",
            escaped(&title),
            escaped(&verdict(report))
        ),
    );
    let mut rows = vec![
        ("Requests compared".to_owned(), count_text(report.compared)),
        ("Answered alike".to_owned(), count_text(report.same)),
    ];
    let failed = report.failed.iter();
    rows.extend(
        failed.map(|(what, count)| (format!("Without a response on both sides: {what}"), count_text(*count))),
    );
    rows.extend(
        report.reached_applications.map(|count| ("Reached an application".to_owned(), count_text(count))),
    );
    rows.push(("Seconds".to_owned(), format!("{:.1}", report.seconds)));
    out.push_str("<table><tbody>\n");
    for (name, value) in rows {
        push(
            &mut out,
            format_args!("<tr><td>{}</td><td class=\"n\">{}</td></tr>\n", escaped(&name), escaped(&value)),
        );
    }
    out.push_str("</tbody></table>\n");
    groups(&mut out, "Differences", &report.differences);
    groups(&mut out, "Accepted differences", &report.accepted);
    if !report.notes.is_empty() {
        out.push_str("<h2>Notes</h2>\n");
    }
    for note in &report.notes {
        push(&mut out, format_args!("<p>{}</p>\n", escaped(note)));
    }
    out.push_str("</body></html>\n");
    out
}

fn groups(out: &mut String, title: &str, groups: &[Group]) {
    if groups.is_empty() {
        return;
    }
    push(out, format_args!("<h2>{}</h2>\n", escaped(title)));
    for group in groups {
        let example = &group.example;
        push(
            out,
            format_args!(
                "<section><h3>{} × {}</h3>\n<div class=\"wide\"><table><tbody>\n",
                escaped(&count_text(group.count)),
                escaped(&group.kind)
            ),
        );
        let paths = group.paths.join(" ");
        for (name, value) in [
            ("Why", group.accepted.as_deref().unwrap_or_default()),
            ("Request", &example.request),
            ("From", &example.about),
            ("Left", &example.left),
            ("Right", &example.right),
            ("Paths", &paths),
        ] {
            if !value.is_empty() {
                push(out, format_args!("<tr><td>{name}</td><td><code>{}</code></td></tr>\n", escaped(value)));
            }
        }
        push(
            out,
            format_args!(
                "</tbody></table></div>\n<pre>{}\n{}</pre></section>\n",
                escaped(&example.curl_left),
                escaped(&example.curl_right)
            ),
        );
    }
}

/// Writing to a string cannot fail.
fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::super::report::Example;
    use super::super::text::text;
    use super::*;

    #[test]
    fn what_servers_say_is_text_and_nothing_else() {
        let evil = "<script>alert('1')</script>\u{1b}[31m&\"";
        let example = Example {
            number: 1,
            request: evil.into(),
            about: evil.into(),
            left: evil.into(),
            right: evil.into(),
            curl_left: evil.into(),
            curl_right: evil.into(),
            size: 1,
        };
        let group = Group {
            kind: evil.into(),
            count: 1,
            accepted: Some(evil.into()),
            paths: vec![evil.into(); 2],
            example,
        };
        let report = Report {
            left: evil.into(),
            right: evil.into(),
            compared: 1,
            failed: [(evil.to_owned(), 1)].into(),
            differences: vec![group.clone()],
            accepted: vec![group],
            notes: vec![evil.into()],
            ..Report::default()
        };
        let page = page(&report);
        assert!(!page.contains("<script") && !page.contains("alert('") && !page.contains('\u{1b}'));
        assert_eq!(page.matches("&lt;script&gt;").count(), 26);
        assert_eq!(page.matches("<section>").count(), page.matches("</section>").count());
        assert!(text(&report).contains("The servers differ, in one way."));
    }
}
