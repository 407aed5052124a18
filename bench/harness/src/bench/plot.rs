//! The run as a picture: cost beside nginx, one group of bars for each scenario that both were measured in.

use std::fmt::Write as _;

use super::grid::Grid;
use super::report::Outcome;

const LEFT: f64 = 150.0;
const SCALE: f64 = 420.0;
const BAR: f64 = 12.0;
const SERVERS: [&str; 7] = ["floor", "maitred", "nginx", "h2o", "lighttpd", "apache", "caddy"];
const TOP: f64 = 58.0;
/// Bars end here, in units of nginx; what is longer is marked.
const RATIO_MAX: f64 = 1.25;

/// An SVG that reads well on light and on dark ground; `None` if there is nothing to compare.
pub(super) fn svg(outcomes: &[Outcome]) -> Option<String> {
    let groups: Vec<_> =
        outcomes.iter().filter(|outcome| outcome.beside("maitred", "nginx").is_some()).collect();
    if groups.is_empty() {
        return None;
    }
    let measured = |server: &&str| groups.iter().any(|outcome| outcome.beside(server, "nginx").is_some());
    let servers: Vec<&str> = SERVERS.into_iter().filter(measured).collect();
    let group = servers.len() as f64 * BAR + 16.0;
    let height = TOP + group * groups.len() as f64 + 12.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <style>text{{fill:#222}}.floor{{fill:#9aa0a6}}.maitred{{fill:#1a73e8}}.nginx{{fill:#e8a33d}}.h2o{{fill:#12a4af}}\
         .lighttpd{{fill:#9334e6}}.apache{{fill:#d93025}}.caddy{{fill:#34a853}}line{{stroke:#888}}\n\
         @media(prefers-color-scheme:dark){{text{{fill:#ddd}}}}</style>\n\
         <text x=\"8\" y=\"20\" font-size=\"15\">CPU time per request, nginx = 1 (less is better)</text>\n"
    );
    for (number, server) in servers.iter().enumerate() {
        let x = 8.0 + 100.0 * number as f64;
        let _ = writeln!(
            svg,
            "<rect class=\"{server}\" x=\"{x}\" y=\"32\" width=\"12\" height=\"12\"/><text x=\"{}\" y=\"42\">{server}</text>",
            x + 18.0
        );
    }
    for (number, outcome) in groups.iter().enumerate() {
        let y = TOP + group * number as f64;
        let _ = writeln!(svg, "<text x=\"8\" y=\"{}\">{}</text>", y + 1.8 * BAR, outcome.name());
        for (row, server) in servers.iter().enumerate() {
            let Some(ratio) = outcome.beside(server, "nginx") else { continue };
            let y = y + BAR * row as f64;
            let width = (ratio.min(RATIO_MAX) * SCALE).max(1.0);
            let mark = if ratio > RATIO_MAX { "▸ " } else { "" };
            let _ = writeln!(
                svg,
                "<rect class=\"{server}\" x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\">{mark}{ratio:.2}</text>",
                BAR - 1.0,
                LEFT + width + 2.0,
                y + BAR - 2.5
            );
        }
    }
    let x = LEFT + SCALE;
    let _ = writeln!(
        svg,
        "<line x1=\"{x}\" x2=\"{x}\" y1=\"{}\" y2=\"{}\" stroke-dasharray=\"3\"/>\n</svg>",
        TOP - 4.0,
        height - 8.0
    );
    Some(svg)
}

/// Colours of columns, told apart on light and on dark ground.
const COLOURS: [&str; 10] = [
    "#9aa0a6", "#1a73e8", "#12a4af", "#9334e6", "#e52592", "#e8a33d", "#d93025", "#34a853", "#7c5c3e",
    "#5f6368",
];
const STYLE: &str = "<style>text{fill:#222}line,path{stroke:#888}\n@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>\n";

/// A table of ratios as a picture: lines over sizes, or bars; `None` if there are no ratios.
pub(super) fn grid(grid: &Grid) -> Option<String> {
    let rows: Vec<Ratios<'_>> =
        grid.rows.iter().map(|line| (line.label.as_str(), line.size, grid.ratios(line))).collect();
    rows.iter().flat_map(|(_, _, ratios)| ratios).flatten().next()?;
    let title = format!("{}: CPU time per request, {} = 1 (less is better)", grid.name, grid.base);
    let sizes: Option<Vec<f64>> = rows.iter().map(|(_, size, _)| *size).collect();
    Some(match sizes {
        Some(sizes) if sizes.len() > 3 => lines(&title, &grid.columns, &rows, &sizes),
        _ => bars(&title, &grid.columns, &rows),
    })
}

/// Label, size and cells of a row.
type Ratios<'a> = (&'a str, Option<f64>, Vec<Option<f64>>);

/// Title and legend, for a picture whose plot is so high; what follows begins at the second value.
fn head(plot: f64, title: &str, columns: &[String]) -> (String, f64) {
    let (mut x, mut y) = (8.0, 33.0);
    let mut legend = String::new();
    for (column, colour) in columns.iter().zip(COLOURS.iter().cycle()) {
        // Letters of this size are some 5.5 wide.
        let width = 24.0 + 5.5 * column.chars().count() as f64;
        if x + width > 712.0 {
            (x, y) = (8.0, y + 15.0);
        }
        let _ = writeln!(
            legend,
            "<rect fill=\"{colour}\" x=\"{x:.0}\" y=\"{y}\" width=\"10\" height=\"10\"/>\
             <text x=\"{:.0}\" y=\"{}\" font-size=\"10\">{column}</text>",
            x + 14.0,
            y + 9.0
        );
        x += width;
    }
    let top = y + TOP - 33.0;
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 {}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n{STYLE}<text x=\"8\" y=\"20\" font-size=\"15\">{title}</text>\n{legend}",
        top + plot
    );
    (svg, top)
}

fn most(rows: &[Ratios<'_>]) -> f64 {
    rows.iter().flat_map(|(_, _, ratios)| ratios).flatten().fold(1.0, |most, &ratio| f64::max(most, ratio))
}

fn bars(title: &str, columns: &[String], rows: &[Ratios<'_>]) -> String {
    let group = BAR * columns.len() as f64 + 12.0;
    let (mut svg, top) = head(group * rows.len() as f64 + 8.0, title, columns);
    let scale = 470.0 / most(rows);
    for (number, (label, _, ratios)) in rows.iter().enumerate() {
        let y = top + group * number as f64;
        let _ = writeln!(svg, "<text x=\"8\" y=\"{:.1}\">{label}</text>", y + group / 2.0);
        for (column, (ratio, colour)) in ratios.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let (y, width) = (y + BAR * column as f64, ratio.unwrap_or_default() * scale);
            let shown = ratio.map_or("absent".to_owned(), |ratio| format!("{ratio:.2}"));
            let _ = writeln!(
                svg,
                "<rect fill=\"{colour}\" x=\"190\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"9\">{shown}</text>",
                BAR - 1.0,
                194.0 + width,
                y + BAR - 3.0
            );
        }
    }
    svg + "</svg>\n"
}

/// Sizes on a logarithmic axis, ratios on a linear one.
fn lines(title: &str, columns: &[String], rows: &[Ratios<'_>], sizes: &[f64]) -> String {
    const PLOT: f64 = 282.0;
    let (least, greatest) =
        sizes.iter().fold((f64::MAX, 1.0), |(a, b), &size| (f64::min(a, size), f64::max(b, size)));
    let across = |size: f64| 40.0 + 640.0 * (size / least).ln() / (greatest / least).ln().max(f64::EPSILON);
    let scale = PLOT / most(rows);
    let (mut svg, top) = head(PLOT + 30.0, title, columns);
    let bottom = top + PLOT;
    for mark in 0..=most(rows).floor() as u32 {
        let y = bottom - scale * f64::from(mark);
        let _ = writeln!(
            svg,
            "<line x1=\"36\" x2=\"684\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke-opacity=\"0.3\"/>\
             <text x=\"14\" y=\"{:.1}\" font-size=\"10\">{mark}</text>",
            y + 4.0
        );
    }
    for ((label, _, _), &size) in rows.iter().zip(sizes) {
        let x = across(size);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.0}\" y=\"{}\" font-size=\"10\" text-anchor=\"middle\">{label}</text>",
            bottom + 18.0
        );
    }
    for (column, colour) in (0..columns.len()).zip(COLOURS.iter().cycle()) {
        let points = rows.iter().zip(sizes).filter_map(|((_, _, ratios), &size)| {
            let ratio = ratios.get(column).copied().flatten()?;
            Some(format!("{:.1},{:.1}", across(size), bottom - scale * ratio))
        });
        let points = points.collect::<Vec<_>>().join(" ");
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{points}\"/>"
        );
    }
    svg + "</svg>\n"
}
