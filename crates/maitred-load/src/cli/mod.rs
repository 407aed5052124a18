//! The command line.
//!
//! Exit codes: 0 when something was measured, 1 when nothing was, 2 for wrong arguments or inputs, 3 when `--verify` or `compare`
//! found differences.

mod compare;
mod make_tree;
mod repeat;
mod replay;
mod specweb;
mod values;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::client::{AUTHORITIES, Tls, Trust};
use crate::measure::Nanos;
use crate::report::{Report, page, table};
use crate::target::Target;

/// Replays access logs against a web server and measures what it does, or compares two servers.
#[derive(Debug, Parser)]
#[command(name = "maitred-load", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Replay(replay::Replay),
    Repeat(repeat::Repeat),
    MakeTree(make_tree::MakeTree),
    Specweb(specweb::Specweb),
    Compare(Box<compare::Compare>),
}

/// What every run has.
#[derive(Debug, Args)]
struct Common {
    /// The server, such as `http://127.0.0.1:8080` or `https://localhost:8443`: a loopback or private address
    #[arg(long, value_name = "URL")]
    to: String,
    /// Allow a public address or a name: only for a host that is yours
    #[arg(long)]
    i_own_this_host: bool,
    /// With https: trust these authorities (PEM) [default: the system's]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// With https: trust any certificate
    #[arg(long)]
    insecure: bool,
    /// With https: resume no session, so that each connection costs a whole handshake
    #[arg(long)]
    full_handshakes: bool,
    /// End after this time, such as 30s, 5m or 1h [default: 60s]
    #[arg(short, long, value_name = "TIME", value_parser = values::some_time)]
    duration: Option<Duration>,
    /// Start-up: reach the full load within this time [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    ramp: Option<Duration>,
    /// Threads that send; one is enough to keep a server's core busy
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), default_value_t = 1)]
    threads: u16,
    /// Abort a connection or response after this time
    #[arg(long, value_name = "TIME", value_parser = values::some_time, default_value = "30s")]
    timeout: Duration,
    /// Print all results as JSON instead of the summary
    #[arg(long)]
    json: bool,
    /// Write a report with plots: one HTML page
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// No progress bar
    #[arg(short, long)]
    quiet: bool,
}

impl Common {
    /// The server, and how connections to it are encrypted, if they are.
    fn target(&self) -> Result<(Target, Option<Tls>), Failed> {
        let target = Target::parse(&self.to, self.i_own_this_host).map_err(Failed::Usage)?;
        if !target.is_tls {
            if self.ca.is_some() || self.insecure || self.full_handshakes {
                let message = "--ca, --insecure and --full-handshakes are for https:// only";
                return Err(Failed::Usage(message.to_owned()));
            }
            return Ok((target, None));
        }
        let trust = match (self.insecure, &self.ca) {
            (true, _) => Trust::Anyone,
            (false, Some(path)) => Trust::Authorities(path.clone()),
            (false, None) => Trust::Authorities(PathBuf::from(AUTHORITIES)),
        };
        let tls = Tls::new(&target.host, &trust, !self.full_handshakes).map_err(Failed::Usage)?;
        Ok((target, Some(tls)))
    }

    /// Makes sure that the report can be written, before a run of an hour has been for nothing. What is there stays until then.
    fn check_report(&self) -> Result<(), Failed> {
        let Some(path) = &self.report else { return Ok(()) };
        let opened = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
        opened.map(drop).map_err(|error| Failed::Usage(format!("{}: {error}", path.display())))
    }

    /// TLS, for the settings.
    fn tls_described(&self, target: &Target) -> String {
        match (target.is_tls, self.full_handshakes) {
            (false, _) => "no".to_owned(),
            (true, false) => "yes, sessions are resumed".to_owned(),
            (true, true) => "yes, each connection with a whole handshake".to_owned(),
        }
    }
}

/// What each of some threads has of so many connections.
fn shares(connections: usize, threads: usize) -> impl Iterator<Item = usize> {
    (0..threads).map(move |number| connections / threads + usize::from(number < connections % threads))
}

/// Length of a run that has no other end.
const DURATION_DEFAULT: Duration = Duration::from_secs(60);

/// Why there is no result.
#[derive(Debug)]
enum Failed {
    /// Wrong arguments or inputs.
    Usage(String),
    /// The server or the system.
    Measuring(String),
}

/// Reads the arguments of this process and does what they say.
pub fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Replay(replay) => replay.run(),
        Command::Repeat(repeat) => repeat.run(),
        Command::MakeTree(make_tree) => make_tree.run(),
        Command::Specweb(specweb) => specweb.run(),
        Command::Compare(compare) => compare.run().map_err(|(code, message)| match code {
            2 => Failed::Usage(message),
            _ => Failed::Measuring(message),
        }),
    };
    let (code, message) = match result {
        Ok(code) => return ExitCode::from(code),
        Err(Failed::Usage(message)) => (2, message),
        Err(Failed::Measuring(message)) => (1, message),
    };
    // There is no place to report it if this fails.
    let _ = writeln!(std::io::stderr(), "maitred-load: {message}");
    ExitCode::from(code)
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

/// Shows a report as was asked for, and returns the exit code. What cannot be written does not keep the rest from being so.
fn show(report: &Report, common: &Common) -> Result<u8, Failed> {
    let text = if common.json {
        let text = serde_json::to_string_pretty(report);
        text.map_err(|error| Failed::Measuring(format!("writing JSON: {error}")))? + "\n"
    } else {
        table(report)
    };
    let printed = print(&text);
    if let Some(path) = &common.report {
        std::fs::write(path, page(report))
            .map_err(|error| Failed::Measuring(format!("{}: {error}", path.display())))?;
    }
    printed?;
    let code = report.exit_code();
    if code == 1 {
        return Err(Failed::Measuring("nothing was measured: no request got a response".to_owned()));
    }
    Ok(code)
}

fn print(text: &str) -> Result<(), Failed> {
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map_err(|error| Failed::Measuring(format!("writing the results: {error}")))
}
