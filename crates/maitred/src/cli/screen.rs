//! What `maitred top` shows: lines of text with colours, made from `/status.json`. The server can be of another version
//! than the command, so whatever is missing is shown as `-`.

use crossterm::style::Color;
use serde_json::Value;

use maitred_status::text::{self, duration, list, show, size};

use super::terminal::{Line, Span, Style};

/// Seconds that the charts keep; a terminal is seldom wider.
pub const HISTORY_MAX: usize = 300;
/// Rows that a block character can show one of.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of a chart's title and number.
const CHART_TITLE: usize = 26;
/// Narrower than this, nothing is shown as it should be, but nothing breaks.
const WIDTH_MIN: u16 = 20;

/// Everything that a frame is made of.
#[derive(Debug, Default)]
pub struct Screen {
    /// The last document.
    pub status: Value,
    /// One `last_second` of each document, the oldest first.
    pub history: Vec<Value>,
    /// Why there is nothing newer.
    pub trouble: Option<String>,
    /// Whether what comes is not shown for now.
    pub paused: bool,
    /// Lines that are above the terminal's first row.
    pub scroll: u16,
}

impl Screen {
    /// A new document has come.
    pub fn take(&mut self, status: Value) {
        if self.history.len() >= HISTORY_MAX {
            self.history.remove(0);
        }
        self.history.push(status["rates"]["last_second"].clone());
        self.trouble = None;
        if !self.paused {
            self.status = status;
        }
    }

    /// Moves the view by so many lines, as far as there are any.
    pub fn move_by(&mut self, lines: i32) {
        let moved = i32::from(self.scroll).saturating_add(lines).max(0);
        self.scroll = u16::try_from(moved).unwrap_or(u16::MAX);
    }

    /// The rows of one frame: the document, and a last line that says what keys do.
    pub(super) fn frame(&mut self, width: u16, height: u16) -> Vec<Line> {
        let page = height.saturating_sub(1);
        let mut lines = self.lines(width);
        let below = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_sub(page);
        self.scroll = self.scroll.min(below);
        lines.drain(..usize::from(self.scroll).min(lines.len()));
        lines.resize(usize::from(page), Line::default());
        if height > 0 {
            lines.push(self.foot(below));
        }
        lines
    }

    /// The whole document at this width, without the last line.
    pub(super) fn lines(&self, width: u16) -> Vec<Line> {
        let width = width.max(WIDTH_MIN);
        let mut lines = self.head();
        lines.push(Line::default());
        lines.extend(self.charts(width));
        for pool in list(&self.status["pools"]) {
            lines.push(Line::default());
            lines.extend(self::pool(pool, width));
        }
        if let Some(text) = text::cache(&self.status) {
            let style = if self.status["cache"]["off"] == true { bad() } else { Style::default() };
            lines.push(Line::default());
            lines.push(Line::from(vec![
                Span::styled("cache  ", Style::BOLD),
                Span::styled(clean(&text), style),
            ]));
        }
        lines.push(Line::default());
        lines.extend(threads(&self.status));
        lines.push(Line::default());
        lines.extend(listens(&self.status));
        lines
    }

    fn head(&self) -> Vec<Line> {
        let (status, rates, totals) = (&self.status, &self.status["rates"], &self.status["totals"]);
        let state = match (&self.trouble, self.paused) {
            (Some(trouble), _) => Span::styled(format!("  {}", clean(trouble)), bad()),
            (None, true) => Span::styled("  paused", Style::of(Color::DarkYellow)),
            (None, false) => Span::default(),
        };
        let sum = |key: &str| {
            list(&status["threads"]).iter().filter_map(|thread| thread[key].as_f64()).sum::<f64>()
        };
        let master = &status["master"];
        let mut lines = vec![
            Line::from(vec![
                Span::styled(format!("maitred {}", show(&status["version"])), Style::BOLD),
                Span::raw(format!(
                    "  up {}  generation {}  process {}  master {}",
                    duration(status["uptime_secs"].as_u64()),
                    show(&status["generation"]),
                    show(&status["pid"]),
                    show(&status["master_pid"])
                )),
                state,
            ]),
            Line::from(format!(
                "{} requests/s  {}/s sent  {} connections, {} new/s  CPU {:.1} %  reloads {}, {} refused, {} crashes",
                show(&rates["requests_per_second"]),
                size(rates["bytes_per_second"].as_f64()),
                show(&totals["connections"]),
                show(&rates["connections_per_second"]),
                sum("cpu_percent"),
                show(&master["reloads"]),
                show(&master["reloads_refused"]),
                show(&master["worker_crashes"]),
            )),
        ];
        lines.extend(health(status));
        let troubles = text::troubles(totals);
        if !troubles.is_empty() {
            lines.push(Line::styled(
                format!("trouble: {}", troubles.join(", ")),
                Style::of(Color::DarkYellow),
            ));
        }
        lines
    }

    fn charts(&self, width: u16) -> Vec<Line> {
        let charts = [
            ("requests/s", "requests_per_second", ""),
            ("connections", "connections", ""),
            ("CPU", "cpu_percent", " %"),
            ("in queues", "queued", ""),
        ];
        let room = usize::from(width).saturating_sub(CHART_TITLE);
        let chart = |(title, key, unit): (&str, &str, &str)| {
            let skipped = self.history.len().saturating_sub(room);
            let values: Vec<f64> =
                self.history.iter().skip(skipped).map(|second| second[key].as_f64().unwrap_or(0.0)).collect();
            let now = values.last().map_or_else(|| "-".to_owned(), |value| format!("{value:.1}{unit}"));
            Line::from(vec![
                Span::styled(format!("{title:<12}{now:>12}  "), quiet()),
                Span::styled(bars(&values), Style::of(Color::DarkBlue)),
            ])
        };
        charts.into_iter().map(chart).collect()
    }

    fn foot(&self, below: u16) -> Line {
        let more = match (self.scroll, below) {
            (0, 0) => "",
            (at, below) if at < below => ", more below",
            _ => ", more above",
        };
        let pause = if self.paused { "go on" } else { "pause" };
        Line::styled(format!("q quit   space {pause}   ↑ ↓ scroll{more}"), quiet())
    }
}

/// One line if all is well, otherwise one for each verdict that asks for something.
fn health(status: &Value) -> Vec<Line> {
    match text::health(status) {
        None => Vec::new(),
        Some(lines) if lines.is_empty() => vec![Line::styled("all is well", Style::of(Color::DarkGreen))],
        Some(lines) => {
            let style = |state| if state == "bad" { bad() } else { Style::of(Color::DarkYellow) };
            lines.into_iter().map(|(state, line)| Line::styled(line, style(state))).collect()
        }
    }
}

/// Values as block characters, the largest as a full one. What is not zero is at least the smallest.
fn bars(values: &[f64]) -> String {
    let top = values.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| match (value / top * BARS.len() as f64).ceil() {
        step if step >= 1.0 => BARS.get(step as usize - 1).copied().unwrap_or('█'),
        _ => ' ',
    };
    values.iter().map(bar).collect()
}

fn pool(pool: &Value, width: u16) -> Vec<Line> {
    let wait =
        pool["queue_wait_us"].as_f64().map_or_else(|| "-".to_owned(), |us| format!("{:.1} ms", us / 1e3));
    let mut lines = vec![Line::from(vec![
        Span::styled(format!("pool {}", show(&pool["name"])), Style::BOLD),
        Span::raw(format!(
            "  {} requests/s  queue {} of {}, wait {wait}  transport {}",
            show(&pool["requests_per_second"]),
            show(&pool["queued"]),
            show(&pool["queue_max"]),
            show(&pool["transport"])
        )),
    ])];
    lines.extend(text::accept_queues(pool).map(|text| Line::from(format!("  {text}"))));
    lines.extend(text::latency(&pool["recent"]).map(|text| Line::from(format!("  {text}"))));
    let letters: Vec<char> = pool["letters"].as_str().unwrap_or_default().chars().collect();
    for line in letters.chunks(usize::from(width.saturating_sub(2)).max(1)) {
        let letters = line.iter().map(|letter| Span::styled(clean(&letter.to_string()), of_letter(*letter)));
        lines.push(Line(std::iter::once(Span::raw("  ")).chain(letters).collect()));
    }
    for text in text::failing(pool) {
        lines.push(Line::styled(format!("  {text}"), bad()));
    }
    lines
}

fn of_letter(letter: char) -> Style {
    match letter {
        'W' => Style::on(Color::Black, Color::DarkBlue),
        '_' => Style::of(Color::DarkGreen),
        'S' => Style::of(Color::DarkYellow),
        'D' => Style::of(Color::DarkMagenta),
        _ => quiet(),
    }
}

/// Titles and keys of the table of threads; where the second is empty, the value is not a plain number.
const COLUMNS: [(&str, &str); 13] = [
    ("thread", "thread"),
    ("pinned", ""),
    ("cpu %", "cpu_percent"),
    ("wait %", "run_delay_percent"),
    ("req/s", "requests_per_second"),
    ("conns", "connections"),
    ("idle", "idle"),
    ("read", "reading"),
    ("queue", "queued"),
    ("app", "handed_off"),
    ("write", "writing"),
    ("disk", "waiting"),
    ("close", "lingering"),
];

fn threads(status: &Value) -> Vec<Line> {
    let row = |thread: &Value| -> Vec<String> {
        let cell = |(_, key): &(&str, &str)| match *key {
            "" => text::cpu(thread),
            key => show(&thread[key]),
        };
        COLUMNS.iter().map(cell).collect()
    };
    let table: Vec<Vec<String>> = list(&status["threads"]).iter().map(row).collect();
    let width = |column: usize, title: &str| {
        table.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0).max(title.len())
    };
    let widths: Vec<usize> =
        COLUMNS.iter().enumerate().map(|(column, (title, _))| width(column, title)).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        cells.join("  ")
    };
    let mut lines = vec![Line::styled(line(&mut COLUMNS.iter().map(|(title, _)| *title)), quiet())];
    lines.extend(table.iter().map(|row| Line::from(line(&mut row.iter().map(String::as_str)))));
    lines
}

fn listens(status: &Value) -> Vec<Line> {
    let one = |listen: &Value| {
        let buckets = list(&listen["buckets"]);
        let queues: Vec<String> = buckets.iter().map(|bucket| show(&bucket["queue"])).collect();
        let max = buckets.iter().map(|bucket| &bucket["queue_max"]).find(|max| !max.is_null());
        let max = max.map_or_else(|| "-".to_owned(), show);
        let busy = buckets.iter().any(|bucket| bucket["queue"].as_u64() > Some(0));
        let style = if busy { Style::of(Color::DarkYellow) } else { Style::default() };
        let address = show(&listen["address"]);
        Line::styled(format!("listening {address}  accept queues {} (of {max})", queues.join(" ")), style)
    };
    list(&status["listens"]).iter().map(one).collect()
}

fn clean(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).collect()
}

fn quiet() -> Style {
    Style::of(Color::DarkGrey)
}

fn bad() -> Style {
    Style::of(Color::DarkRed)
}

/// Lines without their colours, each with its end.
pub(super) fn plain(lines: &[Line]) -> String {
    let line = |line: &Line| -> String { format!("{}\n", line.to_string().trim_end()) };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status() -> Value {
        json!({
            "version": "1.2.3", "uptime_secs": 90, "generation": 2, "pid": 71, "master_pid": 70, "unix_time": 1000,
            "master": { "reloads": 1, "reloads_refused": 0, "worker_crashes": 0 },
            "rates": {
                "requests_per_second": 12.3, "connections_per_second": 1.0, "bytes_per_second": 1_500_000.0,
                "last_second": { "requests_per_second": 20.0, "connections": 7, "cpu_percent": 50.5, "queued": 0 },
            },
            "totals": { "connections": 7, "timeouts": 2 },
            "health": [
                { "subject": "cache", "name": "", "state": "ok", "reason": "3 responses kept", "advice": "" },
                { "subject": "reload", "name": "", "state": "warn", "reason": "it was refused", "advice": "mend it" },
                { "subject": "pool", "name": "web", "state": "bad", "reason": "slot 4 failing", "advice": "restart it" },
            ],
            "threads": [
                { "thread": 0, "home_cpu": 0, "cpu": 0, "cpu_percent": 50.5, "connections": 7, "idle": 3 },
                { "thread": 1, "home_cpu": 1, "cpu": null, "cpu_percent": 0.0 },
            ],
            "pools": [{
                "name": "web", "transport": "auto", "queued": 4, "queue_max": 8, "queue_wait_us": 1500.0,
                "requests_per_second": 3.0, "letters": "_WSD.",
                "failing": ["slot 4 failing: exited with status 1; 3 times in a row; next start in 7 s"],
                "slots": [
                    { "slot": 0, "state": "idle" },
                    { "slot": 4, "state": "dead", "last_end": "exited with status 1", "deaths": 3, "delayed_until": 1007 },
                ],
            }],
            "listens": [{ "address": "127.0.0.1:80", "buckets": [{ "queue": 3, "queue_max": 4096 }, { "queue": null }] }],
        })
    }

    /// What a terminal of this size shows.
    fn shown(screen: &mut Screen, width: u16, height: u16) -> String {
        let lines = screen.frame(width, height);
        assert_eq!(lines.len(), usize::from(height));
        plain(&lines.iter().map(|line| line.cut(width)).collect::<Vec<_>>())
    }

    #[test]
    fn a_frame_shows_everything() {
        let mut screen = Screen::default();
        screen.take(status());
        let expected = "\
maitred 1.2.3  up 1 min 30 s  generation 2  process 71  master 70
12.3 requests/s  1.5 MB/s sent  7 connections, 1.0 new/s  CPU 50.5 %  reloads 1, 0 refused, 0 crashes
bad: pool web: slot 4 failing; restart it
warn: reload: it was refused; mend it
trouble: 2 timeouts

requests/s          20.0  █
connections          7.0  █
CPU               50.5 %  █
in queues            0.0

pool web  3.0 requests/s  queue 4 of 8, wait 1.5 ms  transport auto
  _WSD.
  slot 4 failing: exited with status 1; 3 times in a row; next start in 7 s

thread  pinned  cpu %  wait %  req/s  conns  idle  read  queue  app  write  disk  close
     0       0   50.5       -      -      7     3     -      -    -      -     -      -
     1    any*    0.0       -      -      -     -     -      -    -      -     -      -

listening 127.0.0.1:80  accept queues 3 - (of 4096)
q quit   space pause   ↑ ↓ scroll
";
        assert_eq!(shown(&mut screen, 110, 21), expected);
        let text: String = expected.lines().take(20).map(|line| format!("{line}\n")).collect();
        assert_eq!(plain(&screen.lines(110)), text, "and so does --once");
    }

    #[test]
    fn a_small_terminal_is_scrolled() {
        let mut screen = Screen::default();
        screen.take(status());
        let first = shown(&mut screen, 50, 6);
        assert!(first.starts_with("maitred 1.2.3") && first.contains("more below"), "{first}");
        screen.move_by(i32::MAX);
        let last = shown(&mut screen, 50, 6);
        assert!(last.contains("listening 127.0.0.1:80") && last.contains("more above"), "{last}");
        assert_eq!(screen.scroll, 15, "no further than there are lines");
        // A terminal that has grown shows all of it again.
        assert!(shown(&mut screen, 40, 30).starts_with("maitred 1.2.3"));
        for (width, height) in [(1, 1), (0, 0), (3, 2), (300, 80)] {
            shown(&mut screen, width, height);
        }
    }

    #[test]
    fn letters_are_wrapped_and_coloured() {
        let mut document = status();
        document["pools"][0]["letters"] = "_".repeat(100).into();
        let screen = Screen { status: document, ..Screen::default() };
        let lines = screen.lines(42);
        let letters: Vec<_> = lines.iter().filter(|line| line.to_string().contains("__")).collect();
        assert_eq!(
            letters.iter().map(|line| line.to_string().chars().count()).collect::<Vec<_>>(),
            [42, 42, 22]
        );
        assert_eq!(letters[0].0[1].style, Style::of(Color::DarkGreen));
    }

    #[test]
    fn a_pause_keeps_the_picture_and_trouble_is_said() {
        let mut screen = Screen::default();
        screen.take(status());
        screen.paused = true;
        let mut next = status();
        next["generation"] = 3.into();
        screen.take(next.clone());
        let text = shown(&mut screen, 110, 20);
        assert!(
            text.contains("generation 2") && text.contains("paused") && text.contains("space go on"),
            "{text}"
        );
        assert_eq!(screen.history.len(), 2, "the charts go on");
        screen.paused = false;
        screen.trouble = Some("no server\u{1b}[2J there".to_owned());
        assert!(shown(&mut screen, 110, 20).contains("no server[2J there"));
        screen.take(next);
        assert!(shown(&mut screen, 110, 20).contains("generation 3"));
        for _ in 0..2 * HISTORY_MAX {
            screen.take(status());
        }
        assert_eq!(screen.history.len(), HISTORY_MAX);
    }

    #[test]
    fn the_cache_is_shown_if_there_is_one() {
        let mut document = status();
        document["cache"] = json!({
            "entries": 12, "bytes": 1_500_000, "bytes_max": 2_000_000, "memory_bytes": 0, "index_percent": 40, "off": true,
        });
        document["totals"]["response_cache_hits"] = 7.into();
        let screen = Screen { status: document, ..Screen::default() };
        let lines = screen.lines(110);
        let line = lines.iter().find(|line| line.to_string().starts_with("cache")).unwrap();
        let said = "cache  12 responses, 1.5 MB of 2.0 MB; 0 B in memory; since start: 7 hits, - stale, - misses; \
                    40 % of its directory is read; nothing is stored at the moment: see the error log";
        assert_eq!(line.to_string(), said);
        assert_eq!(line.0[1].style, Style::of(Color::DarkRed));
    }

    #[test]
    fn bars_are_scaled_to_the_largest() {
        assert_eq!(bars(&[0.0, 0.001, 4.0, 8.0]), " ▁▄█");
        assert_eq!(bars(&[0.0, 0.0]), "  ");
        assert_eq!(bars(&[f64::NAN, 1.0]), " █");
    }

    #[test]
    fn nonsense_is_no_panic_and_no_escape_sequence() {
        for status in [
            json!(null),
            json!({ "version": "\u{1b}[31m", "pools": [{ "letters": "\u{7}W" }, 3], "threads": [null] }),
        ] {
            let mut screen = Screen::default();
            screen.take(status);
            let text = plain(&screen.lines(80));
            assert!(text.chars().all(|char| char == '\n' || !char.is_control()), "{text:?}");
        }
    }
}
