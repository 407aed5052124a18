//! Pictures, as SVG that reads well on light and on dark ground.

use std::fmt::Write as _;

use crate::outcome::{Outcome, Sample};
use crate::scenario::Scenario;
use crate::seconds;

const WIDTH: f64 = 720.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 12.0;
/// The most points of a line: more than there are pixels show nothing.
const POINTS_MAX: usize = 240;

const STYLE: &str = "<style>text{fill:#222}.busy{fill:#1a73e8}.idle{fill:#9cc3f5}.starting{fill:#e8a33d}\
.queued{fill:none;stroke:#d93025;stroke-width:1.2}.axis{stroke:#888;stroke-width:.6}.line{fill:none;stroke-width:1.8}\
.c0{stroke:#d93025}.c1{stroke:#e8a33d}.c2{stroke:#188038}.c3{stroke:#1a73e8}.c4{stroke:#a142f4}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.idle{fill:#44648c}}</style>\n";

fn begin(title: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\" role=\"img\">\n<title>{title}</title>\n{STYLE}<text x=\"8\" y=\"18\" font-size=\"14\">{title}</text>\n"
    )
}

/// The processes of each policy over time: busy, idle and starting places, one on top of the other, and the queue.
pub fn timeline(scenario: &Scenario, outcomes: &[Outcome]) -> String {
    const PANEL: f64 = 104.0;
    let mut svg = begin(scenario.what, 48.0 + PANEL * outcomes.len() as f64);
    for (number, (class, name)) in
        [("busy", "busy"), ("idle", "idle"), ("starting", "starting"), ("queued", "queued (line)")]
            .iter()
            .enumerate()
    {
        let x = LEFT + 110.0 * number as f64;
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{x}\" y=\"26\" width=\"11\" height=\"9\"/><text x=\"{}\" y=\"35\">{name}</text>",
            x + 16.0
        );
    }
    let height = |sample: &Sample| sample.busy + sample.idle + sample.starting;
    let samples = outcomes.iter().flat_map(|outcome| &outcome.samples);
    let most = f64::from(samples.map(height).max().unwrap_or(1).max(1));
    for (number, outcome) in outcomes.iter().enumerate() {
        panel(&mut svg, outcome, most, 44.0 + PANEL * number as f64, PANEL - 24.0);
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, outcome: &Outcome, most: f64, top: f64, height: f64) {
    let samples: Vec<&Sample> =
        outcome.samples.iter().step_by(outcome.samples.len().div_ceil(POINTS_MAX).max(1)).collect();
    let last = samples.last().map_or(1.0, |sample| seconds(sample.at));
    let x = |sample: &Sample| LEFT + (WIDTH - LEFT - RIGHT) * seconds(sample.at) / last;
    let y = |value: u32| top + height - height * (f64::from(value) / most).min(1.0);
    let _ = writeln!(svg, "<text x=\"8\" y=\"{:.0}\">{}</text>", top + 10.0, outcome.policy);
    let _ = writeln!(svg, "<text x=\"8\" y=\"{:.0}\" font-size=\"9\">0 … {most:.0}</text>", top + 24.0);
    // The highest first, so that the lower ones are painted over it.
    type Level = fn(&Sample) -> u32;
    let levels: [(&str, Level); 3] = [
        ("starting", |sample| sample.busy + sample.idle + sample.starting),
        ("idle", |sample| sample.busy + sample.idle),
        ("busy", |sample| sample.busy),
    ];
    for (class, level) in levels {
        let mut path = format!("M{LEFT:.0} {:.0}", y(0));
        for sample in &samples {
            let _ = write!(path, "L{:.0} {:.0}", x(sample), y(level(sample)));
        }
        let _ = writeln!(svg, "<path class=\"{class}\" d=\"{path}V{:.0}Z\"/>", y(0));
    }
    let queued: Vec<String> =
        samples.iter().map(|sample| format!("{:.0},{:.0}", x(sample), y(sample.queued))).collect();
    let _ = writeln!(svg, "<polyline class=\"queued\" points=\"{}\"/>", queued.join(" "));
    let base = y(0);
    let _ = writeln!(svg, "<path class=\"axis\" d=\"M{LEFT} {base:.0}H{:.0}\"/>", WIDTH - RIGHT);
    for part in 0..=4 {
        let time = last * f64::from(part) / 4.0;
        let x = LEFT + (WIDTH - LEFT - RIGHT) * f64::from(part) / 4.0;
        let label = format!("{:.0}:{:02.0}", (time / 60.0).floor(), time % 60.0);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.0}\" y=\"{:.0}\" font-size=\"9\" text-anchor=\"middle\">{label}</text>",
            base + 10.0
        );
    }
}

/// Values for each number of threads, both axes logarithmic.
pub fn by_threads(title: &str, unit: &str, threads: &[usize], lines: &[(&str, Vec<f64>)]) -> String {
    const HEIGHT: f64 = 320.0;
    const TOP: f64 = 34.0;
    const PLOT_RIGHT: f64 = 210.0;
    let mut svg = begin(title, HEIGHT);
    let values = || lines.iter().flat_map(|(_, values)| values.iter().copied()).filter(|value| *value > 0.0);
    let low = libm::floor(libm::log10(values().fold(f64::INFINITY, f64::min)));
    let high = libm::ceil(libm::log10(values().fold(0.0, f64::max))).max(low + 1.0);
    let y = |value: f64| {
        let share = (libm::log10(value.max(1e-12)) - low) / (high - low);
        HEIGHT - 34.0 - (HEIGHT - 34.0 - TOP) * share.clamp(0.0, 1.0)
    };
    let steps = threads.len().saturating_sub(1).max(1) as f64;
    let x = |index: usize| LEFT + (WIDTH - LEFT - PLOT_RIGHT) * index as f64 / steps;
    for decade in low as i32..=high as i32 {
        let value = libm::pow(10.0, f64::from(decade));
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{LEFT} {at:.0}H{end:.0}\"/><text x=\"{}\" y=\"{:.0}\" text-anchor=\"end\">{value} {unit}</text>",
            LEFT - 4.0,
            y(value) + 4.0,
            at = y(value),
            end = WIDTH - PLOT_RIGHT,
        );
    }
    for (index, threads) in threads.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{}\" text-anchor=\"middle\">{threads}</text>",
            x(index),
            HEIGHT - 18.0
        );
    }
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\">threads</text>", HEIGHT - 4.0);
    for (number, (name, values)) in lines.iter().enumerate() {
        let points: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(index, value)| format!("{:.0},{:.0}", x(index), y(*value)))
            .collect();
        let legend = TOP + 14.0 + 18.0 * number as f64;
        let from = WIDTH - PLOT_RIGHT + 10.0;
        let _ = writeln!(
            svg,
            "<polyline class=\"line c{number}\" points=\"{}\"/><path class=\"line c{number}\" d=\"M{from} {legend}h18\"/>\
             <text x=\"{}\" y=\"{}\">{name}</text>",
            points.join(" "),
            from + 24.0,
            legend + 4.0
        );
    }
    svg.push_str("</svg>\n");
    svg
}
