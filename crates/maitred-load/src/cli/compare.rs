//! `maitred-load compare`.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use clap::{ArgGroup, Args};
use maitred_sys::signals::{Signal, Signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::values;
use crate::client::{AUTHORITIES, Identity, Trust};
use crate::compare::source::Known;
use crate::compare::{Allowance, Echo, Options, Report, Source, allow, page, run, text};
use crate::target::Target;

/// Where applications are started if no address is given: any port of this machine.
const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
/// Bytes of a body that may be kept: two of each thread, and their decoded forms.
const BODY_BYTES_MAX: u64 = 256 << 20;
/// Exit code for wrong arguments or inputs.
const USAGE: u8 = 2;
/// Exit code where nothing could be found out.
const IMPOSSIBLE: u8 = 1;
/// How often signals are looked at.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Send the same requests to two servers and report what differs
///
/// Requests are those of an access log, of a file, or made from a configuration of nginx. Statuses, fields, bodies and redirects
/// are compared by documented rules, and with --echo also what applications behind both servers receive. docs/compare.md has
/// the rules.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").args(["log", "from", "requests"]).required(true))]
pub(super) struct Compare {
    /// The left server, such as `http://127.0.0.1:8081`: that which is known to be right
    #[arg(long, value_name = "URL")]
    left: String,
    /// The right server
    #[arg(long, value_name = "URL")]
    right: String,
    /// Requests of an access log, each once; - is standard input
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Requests made from a configuration of nginx
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// With --from: look up its absolute paths below this directory
    #[arg(long, value_name = "DIRECTORY", requires = "from")]
    root: Option<PathBuf>,
    /// Requests of a file: `[METHOD] TARGET [HOST]`, or JSON, one to a line; - is standard input
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
    /// A configured port, and where the left and the right server listen instead, such as 443=8443,18443
    #[arg(long = "map-port", value_name = "PORT=LEFT,RIGHT", value_parser = ports)]
    ports: Vec<(u16, (u16, u16))>,
    /// The Host field of requests that have none
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    host: String,
    /// A further field of each request, such as 'authorization: Basic YTpi'
    #[arg(short = 'H', long = "field", value_name = "FIELD", value_parser = values::field)]
    fields: Vec<(String, String)>,
    /// With --from: ask each location also with this value of Authorization, such as 'Basic YTpi'
    #[arg(long, value_name = "VALUE", requires = "from")]
    authorization: Option<String>,
    /// Start an application for each server, and compare what they receive
    #[arg(long)]
    echo: bool,
    /// Address of the left server's application [default: a free port, which is printed]
    #[arg(long, value_name = "ADDRESS")]
    echo_left: Option<SocketAddr>,
    /// Address of the right server's application
    #[arg(long, value_name = "ADDRESS")]
    echo_right: Option<SocketAddr>,
    /// Differences that are accepted: a kind, `at` a path, and the reason behind #, one to a line
    #[arg(long, value_name = "FILE")]
    allow: Option<PathBuf>,
    /// Write all results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report: one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    manner: Manner,
}

/// How requests are sent.
#[derive(Debug, Args)]
struct Manner {
    /// Send methods other than GET, HEAD and OPTIONS too; they may change things
    #[arg(long)]
    unsafe_methods: bool,
    /// Requests per second, to each server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), default_value_t = 200)]
    rate: u32,
    /// Requests at most, to each server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), default_value_t = 10_000)]
    requests_max: u32,
    /// Bytes of a body that are read and compared
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, default_value = "8M")]
    body_bytes_max: u64,
    /// Abort a request after this time
    #[arg(long, value_name = "TIME", value_parser = values::some_time, default_value = "10s")]
    timeout: Duration,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = values::some_time, default_value = "10m")]
    duration: Duration,
    /// Pairs of requests at a time; with more than one, requests of one pair may come between those of another
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16), default_value_t = 1)]
    threads: u8,
    /// HTTP/2, without TLS by prior knowledge
    #[arg(long)]
    http2: bool,
    /// With https: trust these authorities (PEM) [default: the system's]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// With https: trust any certificate
    #[arg(long)]
    insecure: bool,
    /// With https: the client's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// With https: the key of the client's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Allow a public address or a name: only for hosts that are yours
    #[arg(long)]
    i_own_this_host: bool,
}

/// `80=8081,18081`.
fn ports(text: &str) -> Result<(u16, (u16, u16)), String> {
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port != 0);
    let read = || {
        let (configured, actual) = text.split_once('=')?;
        let (left, right) = actual.split_once(',')?;
        Some((port(configured)?, (port(left)?, port(right)?)))
    };
    read().ok_or_else(|| "wanted a port and two others, such as 443=8443,18443".to_owned())
}

/// Why there is no result: an exit code and a message.
type Failed = (u8, String);

fn usage(message: String) -> Failed {
    (USAGE, message)
}

fn impossible(message: String) -> Failed {
    (IMPOSSIBLE, message)
}

fn print(text: &str) -> Result<(), Failed> {
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map_err(|error| impossible(format!("writing the results: {error}")))
}

impl Compare {
    pub(super) fn run(self) -> Result<u8, Failed> {
        let options = self.options()?;
        let source = self.source();
        let known = Known {
            cases_max: options.requests_max,
            is_tls: options.left.is_tls,
            ports: options.ports.clone(),
            has_identity: options.identity.is_some(),
            authorization: self.authorization.clone(),
        };
        let gathered = source.gather(&known).map_err(usage)?;
        for path in [&self.json, &self.html].into_iter().flatten() {
            let opened = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
            opened.map_err(|error| usage(format!("{}: {error}", path.display())))?;
        }
        // Before any thread, which inherits what is blocked.
        let signals = Signals::block().map_err(|error| impossible(format!("signals: {error}")))?;
        let stop = options.stop.clone();
        let options = self.with_echo(options)?;
        let runner = std::thread::Builder::new()
            .name("comparison".to_owned())
            .spawn(move || run(&options, gathered))
            .map_err(|error| impossible(format!("starting a thread: {error}")))?;
        while !runner.is_finished() {
            look(&signals, &stop);
        }
        let report = runner.join().map_err(|_| impossible("the comparison panicked".to_owned()))?;
        self.show(&report.map_err(impossible)?)
    }

    fn options(&self) -> Result<Options, Failed> {
        let manner = &self.manner;
        let refused = |message: &str| Err(usage(message.to_owned()));
        let target = |url: &str| Target::parse(url, manner.i_own_this_host).map_err(usage);
        let (left, right) = (target(&self.left)?, target(&self.right)?);
        if left.is_tls != right.is_tls {
            return refused("--left and --right are both http:// or both https://");
        }
        if !left.is_tls
            && self.ports.is_empty()
            && (manner.ca.is_some() || manner.insecure || manner.cert.is_some())
        {
            return refused("--ca, --insecure, --cert and --key are for https:// only");
        }
        if !(1..=BODY_BYTES_MAX).contains(&manner.body_bytes_max) {
            return refused("--body-bytes-max is at least 1 and at most 256M");
        }
        let identity = manner.cert.clone().zip(manner.key.clone());
        let fields = self.fields.iter().map(|(name, value)| (name.clone(), value.as_bytes().to_vec()));
        Ok(Options {
            ports: self.ports.iter().copied().collect::<BTreeMap<_, _>>(),
            host: self.host.clone(),
            fields: fields.collect(),
            trust: match (manner.insecure, &manner.ca) {
                (true, _) => Trust::Anyone,
                (false, Some(path)) => Trust::Authorities(path.clone()),
                (false, None) => Trust::Authorities(PathBuf::from(AUTHORITIES)),
            },
            identity: identity.map(|(certificate, key)| Identity { certificate, key }),
            is_http2: manner.http2,
            unsafe_methods: manner.unsafe_methods,
            rate: manner.rate,
            requests_max: manner.requests_max as usize,
            body_bytes_max: usize::try_from(manner.body_bytes_max).unwrap_or(usize::MAX),
            timeout: manner.timeout,
            duration_max: manner.duration,
            threads: manner.threads.into(),
            allowances: self.allowances()?,
            ..Options::new(left, right)
        })
    }

    fn source(&self) -> Source {
        match (&self.log, &self.from, &self.requests) {
            (Some(log), ..) => Source::Log(log.clone()),
            (None, Some(from), _) => Source::Nginx(from.clone(), self.root.clone()),
            // One of them is there: the group is required.
            (None, None, requests) => Source::Requests(requests.clone().unwrap_or_default()),
        }
    }

    fn allowances(&self) -> Result<Vec<Allowance>, Failed> {
        let Some(path) = &self.allow else { return Ok(Vec::new()) };
        let told = |what: &dyn std::fmt::Display| usage(format!("{}: {what}", path.display()));
        let length = std::fs::metadata(path).map_err(|error| told(&error))?.len();
        if length > allow::FILE_BYTES_MAX {
            return Err(told(&"it is larger than 1 MiB"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| told(&error))?;
        allow::parse(&text).map_err(|why| told(&why))
    }

    fn with_echo(&self, options: Options) -> Result<Options, Failed> {
        if !self.echo && self.echo_left.is_none() && self.echo_right.is_none() {
            return Ok(options);
        }
        let start = |side: &str, address: Option<SocketAddr>| {
            let address = address.unwrap_or(ANY_PORT);
            let echo = Echo::start(address)
                .map_err(|error| impossible(format!("the application at {address}: {error}")))?;
            print(&format!("application of the {side} server: {}\n", echo.address()))?;
            Ok(echo)
        };
        let echo = Some((start("left", self.echo_left)?, start("right", self.echo_right)?));
        Ok(Options { echo, ..options })
    }

    fn show(&self, report: &Report) -> Result<u8, Failed> {
        print(&text(report))?;
        let json = serde_json::to_string_pretty(report).map_err(|error| impossible(error.to_string()))?;
        for (path, text) in [(&self.json, json + "\n"), (&self.html, page(report))] {
            let Some(path) = path else { continue };
            std::fs::write(path, text).map_err(|error| impossible(format!("{}: {error}", path.display())))?;
        }
        Ok(report.exit_code())
    }
}

/// Waits for a signal, not for long.
fn look(signals: &Signals, stop: &Arc<AtomicBool>) {
    let mut fds = [PollFd::from_borrowed_fd(std::os::fd::AsFd::as_fd(signals), PollFlags::IN)];
    let _ = poll(&mut fds, Some(&LOOK_EVERY));
    while let Ok(Some(signal)) = signals.next() {
        if matches!(signal, Signal::Interrupt | Signal::Terminate | Signal::Quit | Signal::Hangup) {
            stop.store(true, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_three() {
        assert_eq!(ports("80=8081,18081"), Ok((80, (8081, 18081))));
        for wrong in ["", "80", "80=1", "80=0,1", "80=1,99999", "x=1,2"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
    }
}
