//! The summary for a terminal.

use std::fmt::Write;

use super::{Found, Latency, Report};
use crate::measure::Failure;

/// `1,234,567`
pub fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1.2 kB`
pub fn bytes_text(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Microseconds as `12 µs`, `1.23 ms`, `4.56 s`.
pub fn duration_text(micros: f64) -> String {
    match micros {
        ..1000.0 => format!("{micros:.0} µs"),
        ..1_000_000.0 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

/// What was sent, and what became of it.
fn answered(report: &Report, row: &mut impl FnMut(&str, String)) {
    row(
        "responses",
        format!(
            "{} in {:.2} s, {:.0} per second",
            count_text(report.responses),
            report.elapsed,
            report.responses_per_second
        ),
    );
    row(
        "bodies",
        format!(
            "{}, {}/s",
            bytes_text(report.body_bytes),
            bytes_text((report.body_bytes as f64 / report.elapsed.max(1e-9)) as u64)
        ),
    );
    let statuses: Vec<_> =
        report.statuses.iter().map(|(code, count)| format!("{code}: {}", count_text(*count))).collect();
    row("status", if statuses.is_empty() { "none".to_owned() } else { statuses.join("  ") });
    row("connections", connections(report));
    row("failed", failures(report));
    if report.unsent + report.unfinished > 0 {
        row(
            "not counted",
            format!(
                "{} due but not sent, {} without a response at the end",
                count_text(report.unsent),
                count_text(report.unfinished)
            ),
        );
    }
}

/// The summary.
pub fn table(report: &Report) -> String {
    let mut out = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name:<16}{value}");
    };
    answered(report, &mut row);
    if report.responses > 0 {
        row("latency", distribution(&report.latency_us));
        row("", format!("counted from the {}", report.latency_from));
        row("service", distribution(&report.service_us));
    }
    let cpu = report.cpu * 1e6 / (report.responses.max(1) as f64);
    row("own CPU", format!("{:.2} s, {cpu:.1} µs per response", report.cpu));
    row("own memory", bytes_text(report.memory_bytes));
    if let Some(log) = &report.log {
        row("log", log_text(log));
        for example in &log.tally.examples {
            row("", format!("line {}: {}: {}", example.line, example.wrong, example.start));
        }
    }
    conforming(report, &mut row);
    if let Some(search) = &report.search {
        row("found", found_text(search));
    }
    verified(report, &mut row);
    for note in &report.notes {
        row("note", note.clone());
    }
    out
}

/// How many connections were as fast as SPECweb99 demands.
fn conforming(report: &Report, row: &mut impl FnMut(&str, String)) {
    let Some(specweb) = &report.specweb else { return };
    row(
        "conforming",
        format!(
            "{} of {} connections got at least 320 kbit/s; mean {:.0} kbit/s, slowest {:.0} kbit/s",
            count_text(specweb.conforming),
            count_text(specweb.connections),
            specweb.mean_bits_per_second / 1e3,
            specweb.min_bits_per_second / 1e3
        ),
    );
}

/// The answer of a search, and how sure it is.
pub(super) fn found_text(search: &Found) -> String {
    let fails = match search.fails_at {
        Some(count) => format!("; {} did not", count_text(count.into())),
        None => String::new(),
    };
    if search.connections == 0 {
        return format!("no number of connections of which each got 320 kbit/s{fails}");
    }
    format!(
        "{} connections each got at least 320 kbit/s, in {} of {} trials{fails}. With 95 % certainty a further trial passes \
         with a probability of at least {:.0} %",
        count_text(search.connections.into()),
        search.passed,
        search.passed + search.failed,
        search.certainty * 100.0
    )
}

fn connections(report: &Report) -> String {
    let each = report.responses as f64 / report.connections.max(1) as f64;
    let again = match report.sent_again {
        0 => String::new(),
        count => format!("; {} requests sent again, because the server had closed", count_text(count)),
    };
    format!("{}, {each:.1} responses each{again}", count_text(report.connections))
}

fn failures(report: &Report) -> String {
    if report.failures == 0 {
        return "0".to_owned();
    }
    let text = |name: &str| {
        Failure::ALL.iter().find(|failure| failure.name() == name).map_or("", |found| found.text())
    };
    let each: Vec<_> =
        report.failed.iter().map(|(name, count)| format!("{} {}", count_text(*count), text(name))).collect();
    format!("{}: {}", count_text(report.failures), each.join(", "))
}

fn distribution(latency: &Latency) -> String {
    let mut parts: Vec<_> = latency
        .quantiles
        .iter()
        .map(|(quantile, value)| format!("p{} {}", super::text::percent(*quantile), duration_text(*value)))
        .collect();
    parts.push(format!("max {}", duration_text(latency.max)));
    parts.join("  ")
}

/// `99.9`
pub(super) fn percent(quantile: f64) -> String {
    let text = format!("{:.2}", quantile * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn log_text(log: &crate::replay::Summary) -> String {
    let mut parts = vec![format!("{} lines", count_text(log.tally.lines))];
    for (count, what) in [
        (log.tally.malformed, "malformed"),
        (log.other_methods, "other methods (--all-methods sends them)"),
        (log.unsendable, "that cannot be sent"),
        (log.without_request, "without a request"),
        (log.reordered, "put in order"),
        (log.late, "too late for that and sent at once (--reorder)"),
        (log.clock_steps, "times the log's clock was set back"),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", count_text(count)));
        }
    }
    if log.passes > 1 {
        parts.push(format!("read {} times", count_text(log.passes)));
    }
    parts.join(", ")
}

fn verified(report: &Report, row: &mut impl FnMut(&str, String)) {
    let Some(verified) = &report.verified else { return };
    row(
        "verified",
        format!(
            "{} compared with the log, {} with another status, {} with another length",
            count_text(verified.compared),
            count_text(verified.status_differs),
            count_text(verified.length_differs)
        ),
    );
    for difference in &verified.examples {
        let logged = difference.logged_bytes.map_or("-".to_owned(), |bytes| bytes.to_string());
        row(
            "",
            format!(
                "{}: {} {} instead of {} {logged}",
                difference.request, difference.status, difference.bytes, difference.logged_status
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            (count_text(0), count_text(999), count_text(1_234_567)),
            ("0".into(), "999".into(), "1,234,567".into())
        );
        assert_eq!((bytes_text(999), bytes_text(1_250_000)), ("999 B".into(), "1.2 MB".into()));
        assert_eq!((duration_text(12.3), duration_text(1_500.0)), ("12 µs".into(), "1.50 ms".into()));
        assert_eq!((percent(0.5), percent(0.9), percent(0.9999)), ("50".into(), "90".into(), "99.99".into()));
    }
}
