//! The report for a terminal.

use std::fmt::Write;

use super::report::{Group, Report};
use crate::report::count_text;

/// The whole report. What servers sent in it is safe to print.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    push(&mut out, format_args!("left   {}\nright  {}\n\n", report.left, report.right));
    for (count, what) in [(report.compared, "requests compared"), (report.same, "answered alike")] {
        push(&mut out, format_args!("{:>9}  {what}\n", count_text(count)));
    }
    for (failure, count) in &report.failed {
        push(
            &mut out,
            format_args!("{:>9}  without a response on both sides: {failure}\n", count_text(*count)),
        );
    }
    if let Some(reached) = report.reached_applications {
        push(&mut out, format_args!("{:>9}  reached an application\n", count_text(reached)));
    }
    groups(&mut out, "Differences", &report.differences, true);
    groups(&mut out, "Accepted differences", &report.accepted, false);
    if !report.notes.is_empty() {
        out.push('\n');
    }
    for note in &report.notes {
        push(&mut out, format_args!("note: {note}\n"));
    }
    push(&mut out, format_args!("\n{}\n", verdict(report)));
    out
}

/// The outcome in one sentence.
pub(super) fn verdict(report: &Report) -> String {
    let kinds = report.differences.len();
    match report.exit_code() {
        0 if report.accepted.is_empty() => "The servers answer alike.".to_owned(),
        0 => "The servers answer alike, but for accepted differences.".to_owned(),
        3 if kinds == 1 => "The servers differ, in one way.".to_owned(),
        3 => format!("The servers differ, in {kinds} ways."),
        _ if report.compared == 0 => "No request was compared.".to_owned(),
        _ => "No difference was found, but not all requests were compared.".to_owned(),
    }
}

fn groups(out: &mut String, title: &str, groups: &[Group], with_command: bool) {
    if groups.is_empty() {
        return;
    }
    push(out, format_args!("\n{title}\n"));
    for group in groups {
        push(out, format_args!("\n{:>9}  {}\n", count_text(group.count), group.kind));
        let example = &group.example;
        let mut row = |name: &str, value: &str| push(out, format_args!("           {name:<8} {value}\n"));
        if let Some(reason) = &group.accepted {
            row("why", reason);
        }
        row("request", &example.request);
        row("from", &example.about);
        row("left", &example.left);
        row("right", &example.right);
        if with_command {
            row("try", &example.curl_left);
            row("", &example.curl_right);
        }
        if group.paths.len() > 1 {
            row("paths", &group.paths.join(" "));
        }
    }
}

/// Writing to a string cannot fail.
fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}
