//! Load by nghttp2's h2load, which speaks HTTP/2 with many streams on each connection.

use std::process::Command;

use super::Bench;
use super::load::Report;
use crate::Result;

/// How much h2load is to do.
#[derive(Debug, Clone, Copy)]
pub(super) enum Length {
    Seconds(u32),
    Requests(u32),
}

/// Lets h2load load a server from the generator's CPUs.
pub(super) fn run(
    bench: &Bench,
    url: &str,
    connections: u32,
    streams: u32,
    length: Length,
) -> Result<Report> {
    run_with(bench, url, (connections, streams), length, &[])
}

/// The same with further arguments.
pub(super) fn run_with(
    bench: &Bench,
    url: &str,
    (connections, streams): (u32, u32),
    length: Length,
    further: &[String],
) -> Result<Report> {
    let mut command = Command::new("taskset");
    command.args(["-c", &bench.client_cpus, "h2load"]);
    command.arg(format!("-t{}", bench.client_threads.min(connections)));
    command.arg(format!("-c{connections}")).arg(format!("-m{streams}"));
    match length {
        Length::Seconds(seconds) => command.arg(format!("-D{seconds}")),
        Length::Requests(requests) => command.arg(format!("-n{requests}")),
    };
    let output = command.args(further).arg(url).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said =
        || format!("h2load (package nghttp2-client): {text}{}", String::from_utf8_lossy(&output.stderr));
    parse(&text).ok_or_else(|| said().into())
}

/// The figures of h2load's summary. The summary has no percentiles, only the mean and the greatest latency.
fn parse(text: &str) -> Option<Report> {
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).map(str::trim);
    let counts = line("requests: ")?;
    let count = |text: &str, name: &str| -> Option<u64> {
        let part = text.split(", ").find(|part| part.split(' ').nth(1) == Some(name))?;
        part.split(' ').next()?.parse().ok()
    };
    let statuses = line("status codes: ")?;
    // "finished in 3.00s, 324000.00 req/s, 350.23MB/s"
    let seconds = time_us(line("finished in ")?.split(',').next()?)?;
    let bytes = line("traffic: ")?.split_once('(')?.1.split_once(')')?.0.parse().ok()?;
    // "min max mean sd +/- sd"
    let mut latencies = line("time for request: ")?.split_ascii_whitespace().skip(1);
    let (max, mean) = (time_us(latencies.next()?)?, time_us(latencies.next()?)?);
    Some(Report {
        requests: count(counts, "done")?,
        microseconds: seconds as u64,
        bytes,
        mean: Some(mean as u64),
        max: max as u64,
        read_errors: count(counts, "failed")? + count(counts, "errored")?,
        timeouts: count(counts, "timeout")?,
        bad_statuses: ["3xx", "4xx", "5xx"].iter().filter_map(|class| count(statuses, class)).sum(),
        ..Report::default()
    })
}

/// A time such as `3.00s`, `1.05ms` or `920us`, in microseconds.
fn time_us(text: &str) -> Option<f64> {
    let at = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at_checked(at)?;
    let scale = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "starting benchmark...\nWarm-up started for thread #0.\n\n\
        finished in 2.50s, 40000.00 req/s, 42.07MB/s\n\
        requests: 100000 total, 100512 started, 100000 done, 99998 succeeded, 2 failed, 1 errored, 0 timeout\n\
        status codes: 99997 2xx, 0 3xx, 1 4xx, 2 5xx\n\
        traffic: 105.18MB (110289920) total, 1.05MB (1100000) headers (space savings 95.00%), 97.66MB (102400000) data\n\
        \x20                    min         max         mean         sd        +/- sd\n\
        time for request:      120us     15.40ms      1.05ms       800us    80.00%\n\
        time for connect:      300us       2.00ms       900us       400us    60.00%\n";

    #[test]
    fn a_summary_is_read() {
        let report = parse(SAID).unwrap();
        assert_eq!((report.requests, report.microseconds, report.bytes), (100_000, 2_500_000, 110_289_920));
        assert_eq!((report.mean, report.max), (Some(1050), 15_400));
        assert_eq!((report.bad_statuses, report.read_errors), (3, 3));
    }

    #[test]
    fn what_is_no_summary_is_refused() {
        assert!(parse("").is_none());
        assert!(parse(&SAID.replace("traffic: ", "trafic: ")).is_none());
        assert!(time_us("3 fortnights").is_none());
    }
}
