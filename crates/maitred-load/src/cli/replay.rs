//! `maitred-load replay`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use maitred_sys::signals::Signals;

use super::values::{self, DURATION_MAX, Speed};
use super::{Common, DURATION_DEFAULT, Failed, nanos, shares, show};
use crate::client::Rules;
use crate::measure::Nanos;
use crate::progress::Progress;
use crate::replay::{self, Curve, Pace, REORDER_DEFAULT, REORDER_MAX, Sessions, Settings, Source, Summary};
use crate::report::{Context, Report};
use crate::run;
use crate::target::Target;

/// Connections of a closed loop.
const CONNECTIONS_CLOSED: usize = 15;
/// Connections of an open loop at most: clients of the log come and go as they did.
const CONNECTIONS_OPEN: usize = 4096;
/// Connections of one client in an open loop: as many as browsers open to one host.
const PER_CLIENT_OPEN: usize = 6;
/// Requests that wait for a connection of their client, for each connection there may be. A closed loop looks so far
/// ahead in the log for a client that is free.
const WAITING_PER_CONNECTION: usize = 16;
/// How long the log's reader is waited for at the end.
const PLANNER_WAIT_MAX: Duration = Duration::from_secs(1);
/// Bytes of a rate curve's file.
const CURVE_BYTES_MAX: u64 = 16 << 20;

/// Send the requests of an access log again
///
/// Reads Common and Combined Log Format, and Maitred's JSON lines, told apart line by line. Without --speed and --rate
/// requests are sent as fast as --connections allow.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("pace").args(["speed", "rate"]))]
pub(super) struct Replay {
    /// The log; - is standard input
    #[arg(value_name = "ACCESS_LOG")]
    log: PathBuf,
    #[command(flatten)]
    common: Common,
    /// End after this many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Connections that are open at a time, at most [default: 15, or 4096 with --speed or --rate]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: Option<u32>,
    /// The log's own timing, so many times as fast: 1x, 10x; or max
    #[arg(long, value_name = "SPEED", value_parser = values::speed, default_value = "max")]
    speed: Speed,
    /// Send at the rate of a curve: a file with lines of seconds and requests per second
    #[arg(long, value_name = "FILE")]
    rate: Option<PathBuf>,
    /// With --speed: how far out of order the log's lines may be; 0s leaves them as they are [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    reorder: Option<Duration>,
    /// Which requests share connections
    #[arg(long, value_enum, default_value_t = SessionsArgument::Address)]
    sessions: SessionsArgument,
    /// Connections of one client at a time [default: 1, or 6 with --speed or --rate]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    per_client: Option<u32>,
    /// Close a connection that has had no request for this time
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "15s")]
    idle: Duration,
    /// A new connection for each request
    #[arg(long)]
    no_keep_alive: bool,
    /// Start the log again at its end, until --requests or --duration is reached
    #[arg(long = "loop")]
    is_repeated: bool,
    /// Send methods other than GET and HEAD too, without a body; they may change things
    #[arg(long)]
    all_methods: bool,
    /// Compare status and length of responses with the log
    #[arg(long)]
    verify: bool,
    /// Ask for what was logged as 304, 206 or 416 without conditions and ranges
    #[arg(long)]
    unconditional: bool,
    /// The Host field [default: the log's, where it has one, or that of --to]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SessionsArgument {
    /// Those of one client address
    Address,
    /// All
    None,
}

/// The thread that reads the log.
struct Planner {
    summary: Arc<Mutex<Summary>>,
    ended: mpsc::Receiver<()>,
}

impl Planner {
    fn start(plan: impl FnOnce(Arc<Mutex<Summary>>) + Send + 'static) -> Result<Planner, Failed> {
        let summary = Arc::new(Mutex::new(Summary::default()));
        let (for_planner, (lives, ended)) = (summary.clone(), mpsc::channel());
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || {
                plan(for_planner);
                drop(lives);
            })
            .map_err(|error| Failed::Measuring(format!("starting a thread: {error}")))?;
        Ok(Planner { summary, ended })
    }

    /// What the planner has read.
    fn finish(self) -> Summary {
        // The planner ends when its requests are not taken any more, unless it hangs in reading a pipe without a writer.
        let _ = self.ended.recv_timeout(PLANNER_WAIT_MAX);
        self.summary.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Replay {
    pub(super) fn run(self) -> Result<u8, Failed> {
        let (target, tls) = self.common.target()?;
        let pace = self.pace()?;
        let is_open = pace != Pace::Fast;
        let (connections, per_client) = self.connections(is_open);
        let (end, mut notes) = self.end(&pace);
        let settings = self.settings(&target, pace, end)?;
        run::allow_connections(connections).map_err(Failed::Usage)?;
        let open = self.opener()?;
        // Before any thread, which inherits what is blocked.
        let signals = Signals::block().map_err(|error| Failed::Measuring(format!("signals: {error}")))?;
        run::probe(&target, tls.as_ref()).map_err(Failed::Measuring)?;
        self.common.check_report()?;

        let threads = settings.threads.min(connections);
        let ramp = if is_open { 0 } else { settings.ramp };
        let rules = |share: usize| Rules {
            address: target.address,
            tls: tls.clone(),
            connections_max: share,
            per_client_max: per_client,
            waiting_max: share.saturating_mul(WAITING_PER_CONNECTION),
            is_open,
            ramp,
            end,
            timeout: nanos(self.common.timeout),
            idle_max: nanos(self.idle),
        };
        let (senders, sources): (Vec<_>, Vec<Source>) =
            (0..threads).map(|_| replay::channel(settings.keep_alive)).unzip();
        let requests_max = settings.requests_max;
        let planner = Planner::start(move |summary| replay::plan(open, settings, senders, summary))?;
        let shares = shares(connections, threads).map(rules);
        let parts = shares.zip(sources).collect();
        let mut progress = Progress::new(requests_max, Duration::from_nanos(end), self.common.quiet);
        let outcome = run::run(parts, Some(&signals), &mut progress)
            .map_err(|error| Failed::Measuring(error.to_string()))?;
        let summary = planner.finish();
        check_log(&summary, &self.log)?;
        if summary.is_whole || requests_max.is_some_and(|max| summary.planned >= max) {
            notes.clear();
        }
        let context = Context {
            workload: "replay",
            settings: self.described(&target, connections, per_client),
            is_open,
            is_verified: self.verify,
            log: Some(summary),
            specweb: None,
            threads: threads as u16,
            notes,
        };
        let report =
            Report::new(context, &outcome.seen, outcome.elapsed, outcome.cpu, outcome.was_interrupted);
        show(&report, &self.common)
    }

    fn pace(&self) -> Result<Pace, Failed> {
        let is_curve = self.rate.is_some();
        if is_curve && self.common.ramp.is_some() {
            return Err(Failed::Usage("--ramp is not for --rate: a curve has its own beginning".to_owned()));
        }
        if self.reorder.is_some() && (is_curve || self.speed == Speed::Max) {
            return Err(Failed::Usage("--reorder is for --speed, which has the log's own times".to_owned()));
        }
        let Some(path) = &self.rate else {
            return Ok(match self.speed {
                Speed::Max => Pace::Fast,
                Speed::Times(speed) => Pace::Logged { speed },
            });
        };
        let told = |error: String| Failed::Usage(format!("{}: {error}", path.display()));
        let length = path.metadata().map_err(|error| told(error.to_string()))?.len();
        if length > CURVE_BYTES_MAX {
            return Err(told(format!("{length} bytes are too many for a rate curve")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| told(error.to_string()))?;
        Curve::parse(&text).map(Pace::Curve).map_err(told)
    }

    fn connections(&self, is_open: bool) -> (usize, usize) {
        let total = self.connections.map(|count| count as usize);
        let total = total.unwrap_or(if is_open { CONNECTIONS_OPEN } else { CONNECTIONS_CLOSED });
        let per_client = match (self.per_client, self.sessions) {
            (Some(count), _) => count as usize,
            (None, SessionsArgument::None) => total,
            (None, SessionsArgument::Address) if is_open => PER_CLIENT_OPEN,
            (None, SessionsArgument::Address) => 1,
        };
        (total, per_client.min(total))
    }

    /// When the run ends at the latest, and what to say if it does so unasked.
    fn end(&self, pace: &Pace) -> (Nanos, Vec<String>) {
        match (self.common.duration, pace, self.requests) {
            (Some(duration), _, _) => (nanos(duration), Vec::new()),
            (None, Pace::Curve(curve), _) => (curve.end(), Vec::new()),
            (None, _, Some(_)) => (nanos(DURATION_MAX), Vec::new()),
            (None, _, None) => {
                let note = "the log has more: the run ended at the default --duration of 60s";
                (nanos(DURATION_DEFAULT), vec![note.to_owned()])
            }
        }
    }

    fn settings(&self, target: &Target, pace: Pace, end: Nanos) -> Result<Settings, Failed> {
        if let Some(host) = &self.host {
            let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
            if host.is_empty() || !host.bytes().all(is_sound) {
                return Err(Failed::Usage(format!("--host {host:?} is no host name")));
            }
        }
        Ok(Settings {
            pace,
            ramp: nanos(self.common.ramp.unwrap_or_default()),
            sessions: match self.sessions {
                SessionsArgument::Address => Sessions::Address,
                SessionsArgument::None => Sessions::None,
            },
            threads: usize::from(self.common.threads),
            requests_max: self.requests,
            reorder: self.reorder()?,
            is_repeated: self.is_repeated,
            all_methods: self.all_methods,
            keep_alive: !self.no_keep_alive,
            conditions: !self.unconditional,
            verify: self.verify,
            host: self.host.clone().map(String::into_bytes),
            default_host: target.authority.clone().into_bytes(),
            end,
        })
    }

    fn reorder(&self) -> Result<Duration, Failed> {
        let window = self.reorder.unwrap_or(REORDER_DEFAULT);
        if window > REORDER_MAX {
            return Err(Failed::Usage(format!("--reorder is at most {REORDER_MAX:?}")));
        }
        Ok(window)
    }

    /// What opens the log, once for each pass. The first time is now, so that a log that is not there is a mistake of the
    /// arguments.
    fn opener(&self) -> Result<impl FnMut() -> io::Result<Box<dyn BufRead + Send>> + Send + use<>, Failed> {
        let is_stdin = self.log == Path::new("-");
        if is_stdin && self.is_repeated {
            return Err(Failed::Usage("standard input cannot be read a second time: no --loop".to_owned()));
        }
        let told = |error: io::Error| Failed::Usage(format!("{}: {error}", self.log.display()));
        let mut first = None;
        if !is_stdin {
            let file = File::open(&self.log).map_err(told)?;
            if file.metadata().map_err(told)?.is_dir() {
                return Err(Failed::Usage(format!("{} is a directory", self.log.display())));
            }
            first = Some(file);
        }
        let path = self.log.clone();
        Ok(move || -> io::Result<Box<dyn BufRead + Send>> {
            if is_stdin {
                return Ok(Box::new(BufReader::new(io::stdin())));
            }
            let file = match first.take() {
                Some(file) => file,
                None => File::open(&path)?,
            };
            Ok(Box::new(BufReader::with_capacity(256 * 1024, file)))
        })
    }

    fn described(&self, target: &Target, connections: usize, per_client: usize) -> Vec<(String, String)> {
        let pace = match (&self.rate, self.speed) {
            (Some(path), _) => format!("rate curve {}", path.display()),
            (None, Speed::Max) => "as fast as the connections allow".to_owned(),
            (None, Speed::Times(speed)) => format!("{speed} × the log's"),
        };
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let sessions = match self.sessions {
            SessionsArgument::Address => format!("by client address, at most {per_client} connections each"),
            SessionsArgument::None => "all share the connections".to_owned(),
        };
        let rows = [
            ("log", self.log.display().to_string()),
            ("to", target.address.to_string()),
            ("TLS", self.common.tls_described(target)),
            ("pace", pace),
            ("connections", connections.to_string()),
            ("sessions", sessions),
            ("keep-alive", yes(!self.no_keep_alive)),
            ("requests", self.requests.map_or("no limit".to_owned(), |count| count.to_string())),
            ("duration", self.common.duration.map_or("not given".to_owned(), |time| format!("{time:?}"))),
            ("ramp", format!("{:?}", self.common.ramp.unwrap_or_default())),
            ("threads", self.common.threads.to_string()),
            ("timeout", format!("{:?}", self.common.timeout)),
            ("log repeated", yes(self.is_repeated)),
            ("all methods", yes(self.all_methods)),
            ("conditions and ranges", yes(!self.unconditional)),
        ];
        rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// A log that gave nothing to send is a mistake of the input.
fn check_log(summary: &Summary, path: &Path) -> Result<(), Failed> {
    if let Some(error) = &summary.error {
        return Err(Failed::Usage(format!("reading {}: {error}", path.display())));
    }
    if summary.planned > 0 {
        return Ok(());
    }
    let lines = summary.tally.lines;
    let what = if lines == 0 {
        "is empty".to_owned()
    } else if summary.tally.malformed == lines {
        let first = summary.tally.examples.first();
        let first = first.map_or(String::new(), |first| format!(" (line {}: {})", first.line, first.wrong));
        format!("has {lines} lines, and none is a line of an access log{first}")
    } else {
        format!(
            "has no request to send: of {lines} lines {} are malformed, {} have other methods than GET and HEAD, \
             {} have no request, {} cannot be sent",
            summary.tally.malformed, summary.other_methods, summary.without_request, summary.unsendable
        )
    };
    Err(Failed::Usage(format!("{} {what}", path.display())))
}
