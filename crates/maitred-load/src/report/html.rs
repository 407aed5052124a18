//! The report as one page: no script, no other file, readable in light and dark.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::plot::{Line, Plot, escaped};
use super::{Report, bytes_text, count_text, duration_text, text};

pub(crate) const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6875; --paper: #fff; --rule: #d5dbe1;
  --one: #0b6bb8; --two: #b3261e; --three: #8a6100; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ee; --soft: #9aa7b3; --paper: #14191f; --rule: #36404a;
  --one: #6cb6ff; --two: #ff8a80; --three: #e0b040; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; } th, td { padding: .2rem 1.2rem .2rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--rule); } .n { text-align: right; font-variant-numeric: tabular-nums; }
.answer { font-size: 1.1rem; border-left: .3rem solid var(--one); padding-left: .8rem; }
.wide, figure { overflow-x: auto; } figure { margin: 1rem 0; } td.n { white-space: nowrap; }
figcaption, .soft { color: var(--soft); font-size: .9rem; }
svg { width: 100%; min-width: 34rem; height: auto; } svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
svg .grid { stroke: var(--rule); } svg .line { fill: none; stroke-width: 1.5; }
.c1 { stroke: var(--one); color: var(--one); } .c2 { stroke: var(--two); color: var(--two); }
.c3 { stroke: var(--three); color: var(--three); } path.c3 { stroke-dasharray: 6 2; }
code { overflow-wrap: anywhere; }
";

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut out = String::with_capacity(64 * 1024);
    let title = format!("{}: {}", report.program, report.workload);
    push(
        &mut out,
        format_args!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{}</title><style>{STYLE}</style>\
         </head><body>\n<h1>{}</h1>\n",
            escaped(&title),
            escaped(&title)
        ),
    );
    if let Some(search) = &report.search {
        push(&mut out, format_args!("<p class=\"answer\">{}.</p>\n", escaped(&text::found_text(search))));
    }
    for note in &report.notes {
        push(&mut out, format_args!("<p>{}</p>\n", escaped(note)));
    }
    summary(report, &mut out);
    search(report, &mut out);
    latency(report, &mut out);
    over_time(report, &mut out);
    differences(report, &mut out);
    table(
        &mut out,
        "Settings",
        &["Setting", "Value"],
        &report.settings.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect::<Vec<_>>(),
    );
    out.push_str("</body></html>\n");
    out
}

/// Writing to a string cannot fail.
fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn table(out: &mut String, title: &str, head: &[&str], rows: &[Vec<String>]) {
    push(out, format_args!("<h2>{}</h2>\n<div class=\"wide\"><table><thead><tr>", escaped(title)));
    let is_number = |cell: &str| cell.starts_with(|char: char| char.is_ascii_digit());
    let class = |is_number| if is_number { " class=\"n\"" } else { "" };
    for (column, cell) in head.iter().enumerate() {
        let of_numbers = rows.iter().filter_map(|row| row.get(column)).all(|cell| is_number(cell));
        let of_numbers = of_numbers && !rows.is_empty();
        push(out, format_args!("<th scope=\"col\"{}>{}</th>", class(of_numbers), escaped(cell)));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            push(out, format_args!("<td{}>{}</td>", class(is_number(cell)), escaped(cell)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn summary(report: &Report, out: &mut String) {
    let mut rows: Vec<(String, String)> = vec![
        ("Responses".into(), count_text(report.responses)),
        ("Length of the run".into(), format!("{:.2} s", report.elapsed)),
        ("Responses per second".into(), format!("{:.0}", report.responses_per_second)),
        ("Bytes of bodies".into(), bytes_text(report.body_bytes)),
        ("Connections opened".into(), count_text(report.connections)),
        ("Sent again".into(), count_text(report.sent_again)),
        ("Due but not sent".into(), count_text(report.unsent)),
        ("Without a response at the end".into(), count_text(report.unfinished)),
        ("Own CPU time".into(), format!("{:.2} s", report.cpu)),
        ("Own memory".into(), bytes_text(report.memory_bytes)),
    ];
    rows.extend(report.statuses.iter().map(|(code, count)| (format!("Status {code}"), count_text(*count))));
    rows.extend(report.failed.iter().map(|(name, count)| (format!("Failed: {name}"), count_text(*count))));
    if let Some(specweb) = &report.specweb {
        rows.push(("Simultaneous connections".into(), count_text(specweb.connections)));
        rows.push(("Conforming connections".into(), count_text(specweb.conforming)));
    }
    if let Some(log) = &report.log {
        rows.push(("Lines of the log".into(), count_text(log.tally.lines)));
        rows.push(("Malformed lines".into(), count_text(log.tally.malformed)));
    }
    let rows: Vec<_> = rows.into_iter().map(|(name, value)| vec![name, value]).collect();
    table(out, "Summary", &["What", "Value"], &rows);
}

/// The trials of a search, in their order, and how many conformed of how many.
fn search(report: &Report, out: &mut String) {
    let Some(found) = &report.search else { return };
    let rows: Vec<_> = found
        .trials
        .iter()
        .map(|trial| {
            vec![
                count_text(trial.connections.into()),
                count_text(trial.conforming),
                format!("{:.0}", trial.min_bits_per_second / 1e3),
                format!("{:.0}", trial.responses_per_second),
                duration_text(trial.p99_us),
                count_text(trial.failures),
                format!("{:.0} %", trial.generator_busy * 100.0),
            ]
        })
        .collect();
    let head = [
        "Connections",
        "Conforming",
        "Slowest, kbit/s",
        "Responses per second",
        "Latency, 99 % below",
        "Failed",
        "Generator busy",
    ];
    table(out, "Trials of the search", &head, &rows);
    // Of several trials of a number, the one with the fewest.
    let mut least: BTreeMap<u32, f64> = BTreeMap::new();
    for trial in &found.trials {
        let share = trial.conforming as f64 / f64::from(trial.connections) * 100.0;
        least.entry(trial.connections).and_modify(|least| *least = least.min(share)).or_insert(share);
    }
    let points = least.into_iter().map(|(count, share)| (count.into(), share)).collect();
    let lines = vec![Line { name: "conforming", class: "c1", points }];
    let (title, x, y) = ("Connections that conform", "simultaneous connections", "%");
    out.push_str(&Plot { title, x, y, ticks: None, lines }.figure());
}

fn latency(report: &Report, out: &mut String) {
    let (latency, service) = (&report.latency_us, &report.service_us);
    let rows: Vec<_> = latency
        .quantiles
        .iter()
        .zip(&service.quantiles)
        .map(|((quantile, latency), (_, service))| {
            vec![format!("{} %", text::percent(*quantile)), duration_text(*latency), duration_text(*service)]
        })
        .chain([vec!["100 %".to_owned(), duration_text(latency.max), duration_text(service.max)]])
        .collect();
    table(out, "Latency", &["Share of the responses", "Latency at most", "Service at most"], &rows);
    push(
        out,
        format_args!(
            "<p class=\"soft\">Latency counts from the {}, service from sending the request.</p>\n",
            escaped(report.latency_from)
        ),
    );
    let nines = |quantiles: &[(f64, f64)]| -> Vec<(f64, f64)> {
        // One more nine, one step to the right.
        quantiles.iter().map(|(quantile, value)| (-(1.0 - quantile).log10(), value / 1000.0)).collect()
    };
    let plot = Plot {
        title: "Latency by percentile",
        x: "percentile (each nine is a step)",
        y: "ms",
        ticks: Some(vec![
            (std::f64::consts::LOG10_2, "50"),
            (1.0, "90"),
            (2.0, "99"),
            (3.0, "99.9"),
            (4.0, "99.99"),
        ]),
        lines: vec![
            Line { name: "latency", class: "c1", points: nines(&latency.quantiles) },
            Line { name: "service", class: "c3", points: nines(&service.quantiles) },
        ],
    };
    out.push_str(&plot.figure());
}

fn over_time(report: &Report, out: &mut String) {
    let series = &report.series;
    // The last point is cut by the end of the run, and would show a fall that was none.
    let whole = ((report.elapsed / series.width).floor() as usize).max(1);
    let points = |values: Vec<f64>| -> Vec<(f64, f64)> {
        let at = |index: usize| (index as f64 + 0.5) * series.width;
        values.into_iter().take(whole).enumerate().map(|(index, value)| (at(index), value)).collect()
    };
    let rate = |counts: &[u64]| counts.iter().map(|count| *count as f64 / series.width).collect();
    let millis = |micros: &[f64]| micros.iter().map(|value| value / 1000.0).collect();
    out.push_str("<h2>Over time</h2>\n");
    for (title, y, lines) in [
        ("Throughput", "responses per second", vec![("responses", "c1", rate(&series.responses))]),
        ("Errors", "failed requests per second", vec![("failed", "c2", rate(&series.failures))]),
        (
            "Latency",
            "ms",
            vec![
                ("mean", "c1", millis(&series.latency_mean_us)),
                ("longest", "c3", millis(&series.latency_max_us)),
            ],
        ),
    ] {
        let lines = lines
            .into_iter()
            .map(|(name, class, values)| Line { name, class, points: points(values) })
            .collect();
        out.push_str(&Plot { title, x: "seconds", y, ticks: None, lines }.figure());
    }
}

fn differences(report: &Report, out: &mut String) {
    let Some(verified) = &report.verified else { return };
    let rows: Vec<_> = verified
        .examples
        .iter()
        .map(|found| {
            let logged = found.logged_bytes.map_or("-".to_owned(), |bytes| bytes.to_string());
            let (now, then) =
                (format!("{} {}", found.status, found.bytes), format!("{} {logged}", found.logged_status));
            vec![found.request.clone(), now, then]
        })
        .collect();
    if rows.is_empty() {
        out.push_str("<h2>Differences from the log</h2>\n<p>None.</p>\n");
    } else {
        table(out, "Differences from the log", &["Request", "Status and length", "Logged"], &rows);
    }
    push(
        out,
        format_args!(
            "<p class=\"soft\">{} compared, {} with another status, {} with another length; the first are shown.</p>\n",
            count_text(verified.compared),
            count_text(verified.status_differs),
            count_text(verified.length_differs)
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of `#rgb` or `#rrggbb` (WCAG 2.2, "relative luminance").
    fn luminance(colour: &str) -> f64 {
        let digits: Vec<u32> = colour.chars().skip(1).map(|digit| digit.to_digit(16).unwrap()).collect();
        let channels: Vec<u32> = match digits.len() {
            3 => digits.iter().map(|digit| digit * 17).collect(),
            _ => digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect(),
        };
        let linear = |channel: u32| {
            let share = f64::from(channel) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(channels[0]) + 0.7152 * linear(channels[1]) + 0.0722 * linear(channels[2])
    }

    /// Text and lines stand out from the paper, in light and dark: 4.5 to 1 is what WCAG asks of text.
    #[test]
    fn everything_can_be_read_in_light_and_dark() {
        let (light, dark) = STYLE.split_once("prefers-color-scheme: dark").unwrap();
        for (mode, style) in [("light", light), ("dark", dark)] {
            let colour = |name: &str| {
                let rest = style.split_once(&format!("--{name}: ")).unwrap().1;
                luminance(rest.split(';').next().unwrap().trim())
            };
            let paper = colour("paper");
            for name in ["ink", "soft", "one", "two", "three"] {
                let (bright, dim) = (paper.max(colour(name)), paper.min(colour(name)));
                let contrast = (bright + 0.05) / (dim + 0.05);
                assert!(contrast >= 4.5, "{mode}: {name} has {contrast:.1} to 1");
            }
        }
    }
}
