//! A line plot as inline SVG; its colours come from the page.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;
/// Lines of the grid, and labels, of an axis.
const STEPS: usize = 5;
/// Points of a line; more than there are pixels only make the page longer.
const POINTS_MAX: usize = 1500;

pub(super) struct Plot<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    /// Labels of the x axis, if they are not its numbers.
    pub(super) ticks: Option<Vec<(f64, &'a str)>>,
    pub(super) lines: Vec<Line<'a>>,
}

pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    /// Class of the page's style.
    pub(super) class: &'a str,
    pub(super) points: Vec<(f64, f64)>,
}

impl Plot<'_> {
    /// A figure with its caption, which also says in words what is plotted.
    pub(super) fn figure(&self) -> String {
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let x_min = all().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let x_max = all().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
        let y_max = round_up(all().map(|point| point.1).fold(0.0, f64::max));
        if !x_min.is_finite() {
            return String::new();
        }
        let x_min = if self.ticks.is_some() { x_min } else { 0.0 };
        let width = (x_max - x_min).max(1e-9);
        let x = |value: f64| LEFT + (value - x_min) / width * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - value / y_max * (HEIGHT - TOP - BOTTOM);
        let mut out = format!(
            "<figure>{}<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}, {} over {}\">\n",
            self.caption(),
            escaped(self.title),
            escaped(self.y),
            escaped(self.x)
        );
        let mut push = |text: String| out.push_str(&text);
        for step in 0..=STEPS {
            let value = y_max * step as f64 / STEPS as f64;
            let (height, right, label) = (y(value), WIDTH - RIGHT, number(value));
            push(format!("<path class=\"grid\" d=\"M{LEFT} {height:.1}H{right}\"/>"));
            let (at, below) = (LEFT - 6.0, height + 4.0);
            push(format!("<text x=\"{at}\" y=\"{below:.1}\" text-anchor=\"end\">{label}</text>\n"));
        }
        let ticks = match &self.ticks {
            Some(ticks) => ticks.iter().map(|(at, label)| (*at, (*label).to_owned())).collect(),
            None => {
                let step = round_up(width / STEPS as f64);
                (0..=STEPS).map(|count| count as f64 * step).map(|at| (at, number(at))).collect::<Vec<_>>()
            }
        };
        for (at, label) in ticks.iter().filter(|(at, _)| *at <= x_max + 1e-9) {
            push(format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                x(*at),
                HEIGHT - BOTTOM + 16.0,
                escaped(label)
            ));
        }
        push(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 6.0,
            escaped(self.x)
        ));
        for line in &self.lines {
            push(format!("<path class=\"line {}\" d=\"{}\"/>\n", line.class, path(&line.points, &x, &y)));
        }
        out.push_str("</svg></figure>\n");
        out
    }

    /// What is plotted, in words, and which line is which.
    fn caption(&self) -> String {
        let mut out = format!("<figcaption><b>{}</b>, {}:", escaped(self.title), escaped(self.y));
        for line in &self.lines {
            // Writing to a string cannot fail.
            let _ = write!(out, " <span class=\"{}\">━ {}</span>", line.class, escaped(line.name));
        }
        out.push_str("</figcaption>");
        out
    }
}

/// A line through the points; where there are too many, through the highest of each stretch, so that no peak is lost.
fn path(points: &[(f64, f64)], x: &impl Fn(f64) -> f64, y: &impl Fn(f64) -> f64) -> String {
    let mut out = String::new();
    let stretch = points.len().div_ceil(POINTS_MAX).max(1);
    for (index, points) in points.chunks(stretch).enumerate() {
        let highest = points.iter().max_by(|one, two| one.1.total_cmp(&two.1));
        if let Some((at, value)) = highest {
            let _ = write!(out, "{}{:.1} {:.1}", if index == 0 { "M" } else { "L" }, x(*at), y(*value));
        }
    }
    out
}

/// The next number of the form 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|step| step * power).find(|round| *round >= value).unwrap_or(10.0 * power)
}

fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        1e6.. => format!("{:.1} M", value / 1e6),
        1e4.. => format!("{:.0} k", value / 1e3),
        10.0.. => format!("{value:.0}"),
        _ => format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

/// Text as HTML: what a log or a server said must not become markup.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char if char.is_control() => out.push('\u{fffd}'),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_round() {
        assert_eq!((round_up(0.0), round_up(0.3), round_up(7.0), round_up(20.0)), (1.0, 0.5, 10.0, 20.0));
        assert_eq!(
            (number(0.25), number(400.0), number(50_000.0)),
            ("0.25".into(), "400".into(), "50 k".into())
        );
    }

    #[test]
    fn a_plot_stays_in_its_frame_and_is_short() {
        let points: Vec<_> = (0..100_000).map(|at| (f64::from(at), f64::from(at % 7))).collect();
        let lines = vec![Line { name: "<one>", class: "c1", points }];
        let text = Plot { title: "t", x: "x", y: "y", ticks: None, lines }.figure();
        assert!(text.len() < 40_000, "{}", text.len());
        assert!(text.contains("&lt;one&gt;") && !text.contains("NaN") && !text.contains("inf"));
        let empty = Plot { title: "t", x: "x", y: "y", ticks: None, lines: Vec::new() }.figure();
        assert_eq!(empty, "");
    }
}
