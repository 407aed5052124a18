//! `maitred import --report FILE.html`: the whole table beside the imported files and the configuration.

use std::fmt::Write as _;

use super::report::{Kind, Report, Row};

const STYLE: &str = "body{font:14px/1.45 system-ui,sans-serif;margin:1.5rem;color:#1b1f24;background:#fff}\
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:1.5rem}table{border-collapse:collapse;width:100%}\
td,th{text-align:left;vertical-align:top;padding:.15rem .6rem;border-bottom:1px solid #e4e7eb}\
code,pre{font:12px/1.5 ui-monospace,monospace}pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}\
.beside{display:grid;grid-template-columns:1fr 1fr;gap:1.5rem}.beside>div{min-width:0}\
.l{display:block;padding-left:.4rem;border-left:4px solid transparent}.n{color:#8a929b;user-select:none}\
.k0{border-color:#b3261e}.k1{border-color:#d9730d}.k2{border-color:#c9a400}.k3{border-color:#2f6fd0}\
.k4{border-color:#2e9e5b}.k5{border-color:#c3c8ce}td.k0,td.k1{font-weight:600}\
td.w{border-left-width:4px;border-left-style:solid;white-space:nowrap}:target{background:#fff6cf}";

/// The page about this configuration; `compared`: what a comparison of both servers has found.
pub(crate) fn of(output: &str, report: &Report, compared: Option<&str>) -> String {
    let rows = report.rows();
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>maitred import</title><style>{STYLE}</style>\n\
         <h1>What became of each directive</h1>\n<p>"
    );
    for (number, kind) in Kind::BY_WEIGHT.iter().enumerate() {
        let count = rows.iter().filter(|row| row.kind == *kind).count();
        let _ = write!(page, "<span class=\"l k{number}\">{count} {}</span>", kind.words());
    }
    page.push_str("</p>\n<table><tr><th>where<th>directive<th>what<th>why\n");
    let files: Vec<&str> = report.sources().iter().map(|(name, _)| &**name).collect();
    for (number, kind) in Kind::BY_WEIGHT.iter().enumerate() {
        rows.iter().filter(|row| row.kind == *kind).for_each(|found| row(&mut page, number, found, &files));
    }
    page.push_str("</table>\n");
    if let Some(compared) = compared {
        let _ = writeln!(page, "<h2>What both answer</h2>\n<pre>{}</pre>", escaped_lines(compared));
    }
    page.push_str("<h2>Both, side by side</h2>\n<div class=\"beside\"><div>\n");
    for (number, (name, text)) in report.sources().iter().enumerate() {
        let _ = writeln!(page, "<h2><code>{}</code></h2>", escaped(name));
        let kind_of = |line: usize| {
            let here = rows.iter().filter(|row| *row.place.file == **name && row.place.line == line);
            here.map(|row| row.kind).max()
        };
        lines(&mut page, text, &format!("f{number}"), kind_of);
    }
    page.push_str("</div><div>\n<h2><code>maitred.toml</code></h2>\n");
    lines(&mut page, output, "out", |_| None);
    page.push_str("</div></div></html>\n");
    page
}

fn row(page: &mut String, number: usize, row: &Row, files: &[&str]) {
    let place = escaped(&row.place.to_string());
    let file = files.iter().position(|name| *name == &*row.place.file);
    let place = match file {
        Some(file) => format!("<a href=\"#f{file}-{}\">{place}</a>", row.place.line),
        None => place,
    };
    let (directive, why) = (escaped(&row.directive), escaped(&row.why));
    let words = row.kind.words();
    let _ = writeln!(
        page,
        "<tr><td>{place}<td><code>{directive}</code><td class=\"w k{number}\">{words}<td>{why}"
    );
}

fn lines(page: &mut String, text: &str, anchor: &str, kind_of: impl Fn(usize) -> Option<Kind>) {
    page.push_str("<pre>");
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let kind = kind_of(number).and_then(|kind| Kind::BY_WEIGHT.iter().position(|known| *known == kind));
        let class = kind.map(|kind| format!(" k{kind}")).unwrap_or_default();
        let _ = write!(
            page,
            "<span class=\"l{class}\" id=\"{anchor}-{number}\"><span class=\"n\">{number:>4} </span>{}</span>",
            escaped(line)
        );
    }
    page.push_str("</pre>\n");
}

fn escaped_lines(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

/// A text that is no markup, whatever stands in the files.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::report::{Kind, Place, Report};

    #[test]
    fn nothing_in_a_file_becomes_markup() {
        let mut report = Report::default();
        let name = "<b>.conf";
        report.read(&name.into(), "a '<script>';\nb;\n");
        let place = Place { file: name.into(), line: 1 };
        report.say(&place, "a '<script>'", Kind::NotPossible, "\"why\" & <i>");
        let page = super::of("# <u>\n", &report, Some("1  <em>\nfield"));
        for markup in ["<script>", "<b>", "<i>", "<u>", "<em>"] {
            assert!(!page.contains(markup), "{markup}: {page}");
        }
        assert!(page.contains("href=\"#f0-1\"") && page.contains("id=\"f0-1\""), "{page}");
        assert!(page.contains("<pre>1  &lt;em&gt;\nfield</pre>"), "{page}");
        assert!(page.contains("class=\"l k0\" id=\"f0-1\"") && page.contains("class=\"l\" id=\"f0-2\""));
    }
}
