//! The run as a picture: cost beside nginx, one group of bars for each scenario that both were measured in.

use std::fmt::Write as _;

use super::report::Outcome;

const LEFT: f64 = 150.0;
const SCALE: f64 = 420.0;
const BAR: f64 = 12.0;
const GROUP: f64 = 3.0 * BAR + 16.0;
const TOP: f64 = 58.0;

/// An SVG that reads well on light and on dark ground; `None` if there is nothing to compare.
pub(super) fn svg(outcomes: &[Outcome]) -> Option<String> {
    let groups: Vec<_> =
        outcomes.iter().filter(|outcome| outcome.beside("maitred", "nginx").is_some()).collect();
    if groups.is_empty() {
        return None;
    }
    let height = TOP + GROUP * groups.len() as f64 + 12.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <style>text{{fill:#222}}.floor{{fill:#9aa0a6}}.maitred{{fill:#1a73e8}}.nginx{{fill:#e8a33d}}line{{stroke:#888}}\n\
         @media(prefers-color-scheme:dark){{text{{fill:#ddd}}}}</style>\n\
         <text x=\"8\" y=\"20\" font-size=\"15\">CPU time per request, nginx = 1 (less is better)</text>\n"
    );
    for (number, server) in ["floor", "maitred", "nginx"].into_iter().enumerate() {
        let x = LEFT + 110.0 * number as f64;
        let _ = writeln!(
            svg,
            "<rect class=\"{server}\" x=\"{x}\" y=\"32\" width=\"12\" height=\"12\"/><text x=\"{}\" y=\"42\">{server}</text>",
            x + 18.0
        );
    }
    for (number, outcome) in groups.iter().enumerate() {
        let y = TOP + GROUP * number as f64;
        let _ = writeln!(svg, "<text x=\"8\" y=\"{}\">{}</text>", y + 1.8 * BAR, outcome.name());
        for (row, server) in ["floor", "maitred", "nginx"].into_iter().enumerate() {
            let Some(ratio) = outcome.beside(server, "nginx") else { continue };
            let y = y + BAR * row as f64;
            let width = (ratio * SCALE).clamp(1.0, SCALE * 1.2);
            let _ = writeln!(
                svg,
                "<rect class=\"{server}\" x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\">{ratio:.2}</text>",
                BAR - 1.0,
                LEFT + width + 4.0,
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
