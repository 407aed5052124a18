//! What a run gave, for people and programs.

mod html;
mod plot;
mod text;

pub(crate) use html::STYLE;
pub use html::page;
pub(crate) use plot::escaped;
pub use text::{bytes_text, count_text, duration_text, table};

use serde::Serialize;

use crate::measure::{Difference, Failure, Measurements, Nanos};
use crate::replay::Summary;

/// Quantiles that are shown.
const QUANTILES: [f64; 7] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// All that is reported; what `--json` prints. Times are in seconds unless the name says otherwise.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `maitred-load` and its version.
    pub program: String,
    /// `replay`, `repeat` or `specweb`.
    pub workload: &'static str,
    /// What was asked for: names and values.
    pub settings: Vec<(String, String)>,
    /// Length of the run.
    pub elapsed: f64,
    /// CPU time of this program.
    pub cpu: f64,
    /// The most memory that this program had at a time, in bytes; 0 if the kernel does not say.
    pub memory_bytes: u64,
    /// Whether a signal ended it.
    pub was_interrupted: bool,
    /// Complete responses.
    pub responses: u64,
    /// Requests without one.
    pub failures: u64,
    /// Complete responses per second.
    pub responses_per_second: f64,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Bytes received, heads included.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// Requests sent again after a kept connection had been closed.
    pub sent_again: u64,
    /// Requests that were due and not sent by the end.
    pub unsent: u64,
    /// Requests without a complete response at the end.
    pub unfinished: u64,
    /// What latency is counted from.
    pub latency_from: &'static str,
    /// Latency in microseconds.
    pub latency_us: Latency,
    /// From sending to the end of the response, in microseconds.
    pub service_us: Latency,
    /// Status codes and how often they came.
    pub statuses: Vec<(u16, u64)>,
    /// Why requests failed, and how often.
    pub failed: Vec<(&'static str, u64)>,
    /// The log, if there was one.
    pub log: Option<Summary>,
    /// The comparison with the log, if it was asked for.
    pub verified: Option<Verified>,
    /// Simultaneous connections of the SPECweb99-like workload.
    pub specweb: Option<Conforming>,
    /// The search for their largest number, if it was asked for.
    pub search: Option<Found>,
    /// Points over time.
    pub series: Series,
    /// Why the run ended where that may surprise, and other things to know.
    pub notes: Vec<String>,
}

/// A distribution, in microseconds.
#[derive(Debug, Serialize)]
pub struct Latency {
    /// The smallest.
    pub min: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The largest.
    pub max: f64,
    /// Quantile (0 to 1) and value.
    pub quantiles: Vec<(f64, f64)>,
}

/// The figure of merit of the SPECweb99-like workload; no SPEC metric.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Conforming {
    /// Simultaneous connections.
    pub connections: u64,
    /// Connections that got at least 320 kbit/s and had no failure worth speaking of.
    pub conforming: u64,
    /// Mean rate of all of them, in bits per second.
    pub mean_bits_per_second: f64,
    /// The slowest, in bits per second.
    pub min_bits_per_second: f64,
}

/// The answer of a search for the number of connections that conform; no SPEC metric.
#[derive(Debug, Serialize)]
pub struct Found {
    /// The largest number of which all conformed; 0 if none.
    pub connections: u32,
    /// Trials of this number in which all conformed.
    pub passed: u32,
    /// Trials of it in which not all did.
    pub failed: u32,
    /// With 95 % certainty a further trial passes with at least this probability.
    pub certainty: f64,
    /// The smallest number that failed.
    pub fails_at: Option<u32>,
    /// Whether more was not tried, because the bound was reached.
    pub is_bound: bool,
    /// Whether the search came to its end.
    pub is_complete: bool,
    /// All trials, in their order.
    pub trials: Vec<Tried>,
}

/// A trial of a search.
#[derive(Debug, Serialize)]
pub struct Tried {
    /// Simultaneous connections.
    pub connections: u32,
    /// Connections that conformed.
    pub conforming: u64,
    /// Whether these were all.
    pub passed: bool,
    /// Complete responses per second.
    pub responses_per_second: f64,
    /// Requests without one, or with another status than 200.
    pub failures: u64,
    /// 99 % of the latencies were no longer, in microseconds.
    pub p99_us: f64,
    /// The slowest connection's rate, in bits per second.
    pub min_bits_per_second: f64,
    /// Share of the generator's CPU time that was used.
    pub generator_busy: f64,
}

impl Found {
    /// What to know of it.
    pub fn notes(&self, repeats: u32, max: u32) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.is_complete {
            notes.push(format!("the search ended before it was sure: {repeats} passes were wanted"));
        }
        if self.is_bound {
            notes.push(format!("{max} is the bound of the search: the server may do more (--connections)"));
        }
        let busiest = self.trials.iter().map(|trial| trial.generator_busy).fold(0.0, f64::max);
        if busiest > BUSY_MAX {
            notes.push(busy_note(busiest));
        }
        notes
    }
}

/// Above this share of its threads' time the load generator may be what was measured.
const BUSY_MAX: f64 = 0.9;

fn busy_note(share: f64) -> String {
    format!(
        "the load generator itself was busy {:.0} % of the time, and may be what was measured: --threads",
        share * 100.0
    )
}

/// What `--verify` found.
#[derive(Debug, Serialize)]
pub struct Verified {
    /// Responses compared.
    pub compared: u64,
    /// Responses with another status.
    pub status_differs: u64,
    /// Responses with the same status and another length.
    pub length_differs: u64,
    /// The first that differ.
    pub examples: Vec<Difference>,
}

/// What happened when.
#[derive(Debug, Serialize)]
pub struct Series {
    /// Width of a point, in seconds.
    pub width: f64,
    /// Complete responses.
    pub responses: Vec<u64>,
    /// Failed requests.
    pub failures: Vec<u64>,
    /// Bytes of bodies.
    pub body_bytes: Vec<u64>,
    /// Mean latency in microseconds; 0 without responses.
    pub latency_mean_us: Vec<f64>,
    /// Longest latency in microseconds.
    pub latency_max_us: Vec<f64>,
}

/// What the measurements do not know of themselves.
#[derive(Debug)]
pub struct Context {
    /// `replay`, `repeat` or `specweb`.
    pub workload: &'static str,
    /// What was asked for.
    pub settings: Vec<(String, String)>,
    /// Whether requests had intended times.
    pub is_open: bool,
    /// Whether responses were compared with the log.
    pub is_verified: bool,
    /// The log, if there was one.
    pub log: Option<Summary>,
    /// Simultaneous connections, for the SPECweb99-like workload.
    pub specweb: Option<Conforming>,
    /// Threads that sent.
    pub threads: u16,
    /// Things to know.
    pub notes: Vec<String>,
}

/// `VmHWM` of proc_pid_status(5).
fn memory_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or(0).saturating_mul(1024)
}

fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

fn micros(nanos: Nanos) -> f64 {
    nanos as f64 / 1e3
}

impl Report {
    /// What is known after a run.
    pub fn new(
        context: Context,
        seen: &Measurements,
        elapsed: Nanos,
        cpu: Nanos,
        was_interrupted: bool,
    ) -> Self {
        let mut notes = context.notes;
        let busy = cpu as f64 / (elapsed.max(1) as f64 * f64::from(context.threads.max(1)));
        if context.is_open && busy > BUSY_MAX {
            notes.push(busy_note(busy));
        }
        notes.extend(seen.tls_error.iter().map(|error| format!("TLS: {error}")));
        Report {
            program: format!("maitred-load {}", env!("CARGO_PKG_VERSION")),
            workload: context.workload,
            settings: context.settings,
            elapsed: seconds(elapsed),
            cpu: seconds(cpu),
            was_interrupted,
            responses: seen.responses,
            failures: seen.failures(),
            responses_per_second: seen.responses as f64 / seconds(elapsed).max(1e-9),
            body_bytes: seen.body_bytes,
            received_bytes: seen.received_bytes,
            sent_bytes: seen.sent_bytes,
            connections: seen.connections,
            sent_again: seen.sent_again,
            unsent: seen.unsent,
            unfinished: seen.unfinished,
            latency_from: if context.is_open { "intended time" } else { "choice of a connection" },
            latency_us: Latency::of(&seen.latency),
            service_us: Latency::of(&seen.service),
            statuses: seen.statuses().collect(),
            failed: Failure::ALL
                .iter()
                .map(|failure| (failure.name(), seen.failed(*failure)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            log: context.log,
            verified: context.is_verified.then(|| Verified {
                compared: seen.compared,
                status_differs: seen.status_differs,
                length_differs: seen.length_differs,
                examples: seen.differences.clone(),
            }),
            specweb: context.specweb,
            search: None,
            series: Series::of(&seen.series),
            memory_bytes: memory_max(),
            notes,
        }
    }

    /// The exit code of the program: 1 if nothing was measured, 3 if `--verify` found differences.
    pub fn exit_code(&self) -> u8 {
        match &self.verified {
            _ if self.responses == 0 => 1,
            Some(verified) if verified.status_differs + verified.length_differs > 0 => 3,
            _ => 0,
        }
    }
}

impl Latency {
    fn of(histogram: &hdrhistogram::Histogram<u64>) -> Self {
        let is_empty = histogram.is_empty();
        let at = |quantile: &f64| (*quantile, micros(histogram.value_at_quantile(*quantile)));
        Latency {
            min: if is_empty { 0.0 } else { micros(histogram.min()) },
            mean: histogram.mean() / 1e3,
            max: micros(histogram.max()),
            quantiles: if is_empty { Vec::new() } else { QUANTILES.iter().map(at).collect() },
        }
    }
}

impl Series {
    fn of(series: &crate::measure::Series) -> Self {
        let points = series.points();
        let mean = |point: &crate::measure::Point| {
            if point.responses == 0 { 0.0 } else { micros(point.latency_sum) / point.responses as f64 }
        };
        Series {
            width: seconds(series.width()),
            responses: points.iter().map(|point| point.responses).collect(),
            failures: points.iter().map(|point| point.failures).collect(),
            body_bytes: points.iter().map(|point| point.body_bytes).collect(),
            latency_mean_us: points.iter().map(mean).collect(),
            latency_max_us: points.iter().map(|point| micros(point.latency_max)).collect(),
        }
    }
}
