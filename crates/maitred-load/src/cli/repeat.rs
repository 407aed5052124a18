//! `maitred-load repeat`.

use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use maitred_sys::signals::Signals;

use super::values::{self, DURATION_MAX};
use super::{Common, DURATION_DEFAULT, Failed, nanos, shares, show};
use crate::client::{Next, Request, Rules, Tls, Workload};
use crate::http3::Dialer;
use crate::http3::repeat::{Load, Sample};
use crate::measure::{Measurements, Nanos};
use crate::progress::Progress;
use crate::report::{Context, Report, bytes_text};
use crate::run::{self, Outcome};
use crate::target::Target;

/// Bytes of a request's content.
const BODY_BYTES_MAX: u64 = 1 << 30;
/// How long an idle connection of HTTP/1.1 may be so.
const IDLE_MAX: Duration = Duration::from_secs(3600);

/// Send one request again and again, as fast as the connections allow
///
/// A closed loop: as soon as a response is complete, the next request goes out. With --http3 each connection has --streams
/// requests at a time. Several paths are asked for in turn.
#[derive(Debug, Args)]
pub(super) struct Repeat {
    /// Path and query; several are asked for in turn
    #[arg(value_name = "PATH", default_value = "/")]
    paths: Vec<String>,
    #[command(flatten)]
    common: Common,
    /// HTTP/3 instead of HTTP/1.1; --to is https://
    #[arg(long)]
    http3: bool,
    /// End after this many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Connections that are open at a time
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000), default_value_t = 15)]
    connections: u32,
    /// With --http3: requests at a time on each connection, if the server allows as many
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), default_value_t = 1)]
    streams: u32,
    /// With --http3: further connections that bring one request each, and then stay until the end of the run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1_000_000), default_value_t = 0)]
    idle: u32,
    /// The method [default: GET, or POST with --body-bytes]
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// Send content of this size, such as 1K or 10M
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, default_value = "0")]
    body_bytes: u64,
    /// A further field, such as 'accept-encoding: gzip'
    #[arg(short = 'H', long = "field", value_name = "FIELD", value_parser = values::field)]
    fields: Vec<(String, String)>,
    /// The Host field [default: that of --to]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
}

impl Repeat {
    pub(super) fn run(self) -> Result<u8, Failed> {
        let (target, tls) = self.common.target()?;
        self.check()?;
        let end = nanos(match (self.common.duration, self.requests) {
            (Some(duration), _) => duration,
            (None, Some(_)) if self.idle == 0 => DURATION_MAX,
            (None, _) => DURATION_DEFAULT,
        });
        run::allow_connections((self.connections + self.idle) as usize).map_err(Failed::Usage)?;
        // Before any thread, which inherits what is blocked.
        let signals = Signals::block().map_err(|error| Failed::Measuring(format!("signals: {error}")))?;
        self.common.check_report()?;
        let mut progress = Progress::new(self.requests, Duration::from_nanos(end), self.common.quiet);
        let report = match &tls {
            Some(tls) if self.http3 => {
                run::probe_http3(&target, tls).map_err(Failed::Measuring)?;
                let loads = self.loads(&target, tls, end)?;
                self.report(&target, run::repeat(loads, Some(&signals), &mut progress))?
            }
            _ if self.http3 => return Err(Failed::Usage("--http3 is for https:// only".to_owned())),
            _ => {
                run::probe(&target, tls.as_ref()).map_err(Failed::Measuring)?;
                let parts = self.parts(&target, tls.as_ref(), end);
                self.report(&target, run::run(parts, Some(&signals), &mut progress))?
            }
        };
        show(&report, &self.common)
    }

    fn check(&self) -> Result<(), Failed> {
        let usage = |message: &str| Err(Failed::Usage(message.to_owned()));
        let is_visible =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| (0x21..0x7f).contains(&byte));
        if self.paths.iter().any(|path| !path.starts_with('/') || !is_visible(path)) {
            return usage("the path begins with /, and has no spaces");
        }
        if [&self.method, &self.host].into_iter().flatten().any(|text| !is_visible(text)) {
            return usage("--method and --host have no spaces");
        }
        if self.body_bytes > BODY_BYTES_MAX {
            return usage("--body-bytes is at most 1G");
        }
        if !self.http3 && (self.streams > 1 || self.idle > 0) {
            return usage("--streams and --idle are for --http3");
        }
        if self.common.ramp.is_some() {
            return usage("--ramp is not for repeat");
        }
        if self.connections == 0 && self.idle == 0 {
            return usage("no connections: --connections or --idle");
        }
        Ok(())
    }

    fn method(&self) -> &str {
        self.method.as_deref().unwrap_or(if self.body_bytes > 0 { "POST" } else { "GET" })
    }

    fn body(&self) -> Vec<u8> {
        // Not all the same, so that nothing that compresses has it easy.
        (0..self.body_bytes).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 16) as u8).collect()
    }

    fn threads(&self) -> usize {
        usize::from(self.common.threads).min(self.connections.max(self.idle) as usize).max(1)
    }

    /// What each thread has of all.
    fn loads(&self, target: &Target, tls: &Tls, end: Nanos) -> Result<Vec<Load>, Failed> {
        let dialer = Dialer::new(target.address, tls, &[b"h3"], false).map_err(Failed::Usage)?;
        let authority = self.host.as_ref().unwrap_or(&target.authority);
        let body = Bytes::from(self.body());
        let sample = |path| Sample::new(self.method(), authority, path, &self.fields, body.clone());
        let samples: Vec<Sample> = self.paths.iter().map(|path| sample(path)).collect();
        let threads = self.threads();
        let connections = shares(self.connections as usize, threads).zip(shares(self.idle as usize, threads));
        let requests = |number| {
            self.requests
                .and_then(|requests| shares(requests as usize, threads).nth(number))
                .map(|part| part as u64)
        };
        let load = |(number, (connections, idle))| Load {
            dialer: dialer.clone(),
            samples: samples.clone(),
            connections,
            streams: self.streams as usize,
            idle,
            requests: if connections == 0 { Some(0) } else { requests(number) },
            end,
            timeout: self.common.timeout,
        };
        Ok(connections.enumerate().map(load).collect())
    }

    /// One request as HTTP/1.1 has it.
    fn bytes(&self, authority: &str, path: &str) -> Vec<u8> {
        let mut bytes = format!("{} {path} HTTP/1.1\r\nHost: {authority}\r\n", self.method()).into_bytes();
        for (name, value) in &self.fields {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        if self.body_bytes > 0 {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", self.body_bytes).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body());
        bytes
    }

    /// The same over HTTP/1.1.
    fn parts(&self, target: &Target, tls: Option<&Tls>, end: Nanos) -> Vec<(Rules, Again)> {
        let authority = self.host.as_ref().unwrap_or(&target.authority);
        let requests: Vec<Vec<u8>> = self.paths.iter().map(|path| self.bytes(authority, path)).collect();
        let threads = self.threads();
        let part = |(number, share)| {
            let rules = Rules {
                address: target.address,
                tls: tls.cloned(),
                connections_max: share,
                per_client_max: share,
                waiting_max: share,
                is_open: false,
                ramp: 0,
                end,
                timeout: nanos(self.common.timeout),
                idle_max: nanos(IDLE_MAX),
            };
            let most = self.requests.map_or(usize::MAX, |requests| requests as usize);
            let left = shares(most, threads).nth(number).unwrap_or(0);
            (rules, Again { requests: requests.clone(), turn: 0, left, method: self.method().to_owned() })
        };
        shares(self.connections as usize, threads).enumerate().map(part).collect()
    }

    fn report<W>(&self, target: &Target, outcome: std::io::Result<Outcome<W>>) -> Result<Report, Failed> {
        let outcome = outcome.map_err(|error| Failed::Measuring(error.to_string()))?;
        let rows = [
            ("to", target.address.to_string()),
            ("request", format!("{} {}", self.method(), self.paths.join(" "))),
            ("protocol", if self.http3 { "HTTP/3" } else { "HTTP/1.1" }.to_owned()),
            ("TLS", self.common.tls_described(target)),
            ("connections", self.connections.to_string()),
            ("streams of each", self.streams.to_string()),
            ("idle connections", self.idle.to_string()),
            ("content", bytes_text(self.body_bytes)),
            ("requests", self.requests.map_or("no limit".to_owned(), |count| count.to_string())),
            ("duration", self.common.duration.map_or("not given".to_owned(), |time| format!("{time:?}"))),
            ("threads", self.threads().to_string()),
            ("timeout", format!("{:?}", self.common.timeout)),
        ];
        let seen: &Measurements = &outcome.seen;
        let context = Context {
            workload: "repeat",
            settings: rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            is_open: false,
            is_verified: false,
            log: None,
            specweb: None,
            threads: self.threads() as u16,
            notes: Vec::new(),
        };
        Ok(Report::new(context, seen, outcome.elapsed, outcome.cpu, outcome.was_interrupted))
    }
}

/// Requests in turn, so many times, over HTTP/1.1.
struct Again {
    requests: Vec<Vec<u8>>,
    turn: usize,
    left: usize,
    method: String,
}

impl Workload for Again {
    fn next(&mut self, _now: Nanos, request: &mut Request) -> Next {
        let Some(left) = self.left.checked_sub(1) else { return Next::Finished };
        let Some(bytes) = self.requests.get(self.turn) else { return Next::Finished };
        self.left = left;
        self.turn = (self.turn + 1) % self.requests.len();
        request.bytes.extend_from_slice(bytes);
        request.is_head = self.method == "HEAD";
        request.is_idempotent = matches!(self.method.as_str(), "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS");
        (request.client, request.due, request.closes, request.logged) = (0, None, false, None);
        Next::Request
    }
}
