//! `maitred-load specweb`.

mod search;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, value_parser};
use maitred_sys::signals::Signals;

use super::{Common, DURATION_DEFAULT, Failed, nanos, show, values};
use crate::client::{Rules, Tls};
use crate::progress::Progress;
use crate::report::{Conforming, Context, Report, bytes_text, count_text};
use crate::run::{self, Outcome};
use crate::specweb::{BYTES_PER_DIRECTORY, Files, Rates, Users, directories_for};
use crate::target::Target;

/// What every result says.
const NOTE: &str = "in the manner of SPECweb99; not SPECweb99, and no SPEC metric";

/// A workload in the manner of SPECweb99 (it is not SPECweb99 and gives no SPEC metric)
///
/// With --make, makes the data set below DIR. With --to, puts load on a server that serves DIR at / and the application of
/// examples/specweb at /app/.
#[derive(Debug, Args)]
pub(super) struct Specweb {
    /// Where the data set is made
    #[arg(value_name = "DIR", requires = "make", required_unless_present = "to")]
    directory: Option<PathBuf>,
    /// Make the data set for --connections
    #[arg(long, requires = "directory", conflicts_with = "to")]
    make: bool,
    #[command(flatten)]
    common: OptionalCommon,
    /// Simultaneous connections (with --search, at most); the data set grows with them
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u32).range(1..=100_000), default_value_t = 100)]
    connections: u32,
    /// Directories of the data set [default: as many as published for the number of connections]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=100_000))]
    directories: Option<u64>,
    /// The same seed gives the same requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Search for the largest number of connections that each get at least 320 kbit/s; a trial takes --duration
    /// [default: 20s], of which the first fifth counts as --ramp if none is given
    #[arg(long, requires = "to", conflicts_with = "make")]
    search: bool,
    /// Connections of the search's first trial
    #[arg(long, value_name = "N", requires = "search", value_parser = value_parser!(u32).range(1..=100_000), default_value_t = 10)]
    first: u32,
    /// Trials that the answer has to pass
    #[arg(long, value_name = "N", requires = "search", value_parser = value_parser!(u32).range(1..=20), default_value_t = 3)]
    repeats: u32,
    /// No trial of the search begins that would end after this time
    #[arg(long, value_name = "TIME", requires = "search", value_parser = values::duration, default_value = "30m")]
    search_time: Duration,
}

/// [`Common`], which only a run needs.
#[derive(Debug, Args)]
struct OptionalCommon {
    #[command(flatten)]
    common: Option<Common>,
}

/// What the runs of one command have in common.
struct Runs<'a> {
    common: &'a Common,
    target: Target,
    tls: Option<Tls>,
    signals: Signals,
    directories: Option<u64>,
    seed: u64,
    duration: Duration,
    ramp: Duration,
}

/// A run with a number of connections.
struct Trial {
    outcome: Outcome<Users>,
    rates: Conforming,
    directories: u64,
    /// Share of the sending threads' time in which they had work. Near 1 the generator may be what was measured.
    busy: f64,
}

impl Specweb {
    pub(super) fn run(self) -> Result<u8, Failed> {
        match (&self.directory, &self.common.common) {
            (Some(directory), _) => {
                make(directory, self.directories.unwrap_or_else(|| directories_for(self.connections.into())))
            }
            (None, Some(common)) if self.search => self.search(common),
            (None, Some(common)) => self.load(common),
            (None, None) => Err(Failed::Usage("say where to: --to URL, or DIR --make".to_owned())),
        }
    }

    fn runs<'a>(&self, common: &'a Common, duration: Duration, ramp: Duration) -> Result<Runs<'a>, Failed> {
        let (target, tls) = common.target()?;
        run::allow_connections(self.connections as usize).map_err(Failed::Usage)?;
        if ramp >= duration {
            return Err(Failed::Usage(format!("--ramp {ramp:?} leaves nothing of {duration:?}")));
        }
        let signals = Signals::block().map_err(|error| Failed::Measuring(format!("signals: {error}")))?;
        run::probe(&target, tls.as_ref()).map_err(Failed::Measuring)?;
        common.check_report()?;
        let (directories, seed) = (self.directories, self.seed);
        Ok(Runs { common, target, tls, signals, directories, seed, duration, ramp })
    }

    fn load(&self, common: &Common) -> Result<u8, Failed> {
        let ramp = common.ramp.unwrap_or_default();
        let runs = self.runs(common, common.duration.unwrap_or(DURATION_DEFAULT), ramp)?;
        let trial = runs.trial(self.connections)?;
        show(&runs.report(&trial, Vec::new()), common)
    }
}

impl Runs<'_> {
    /// One run.
    fn trial(&self, connections: u32) -> Result<Trial, Failed> {
        let directories = self.directories.unwrap_or_else(|| directories_for(connections.into()));
        let threads = u32::from(self.common.threads).min(connections);
        let parts = (0..threads).map(|thread| {
            let count = connections / threads + u32::from(thread < connections % threads);
            let seed = self.seed.wrapping_add(u64::from(thread) << 32);
            let host = self.target.authority.clone();
            let users = Users::new(seed, directories, host, count, nanos(self.ramp));
            let rules = Rules {
                address: self.target.address,
                tls: self.tls.clone(),
                connections_max: count as usize,
                per_client_max: 1,
                waiting_max: count as usize,
                is_open: false,
                ramp: 0,
                end: nanos(self.duration),
                timeout: nanos(self.common.timeout),
                idle_max: nanos(Duration::from_secs(3600)),
            };
            (rules, users)
        });
        let mut progress = Progress::new(None, self.duration, self.common.quiet);
        let outcome = run::run(parts.collect(), Some(&self.signals), &mut progress)
            .map_err(|error| Failed::Measuring(error.to_string()))?;
        let mut rates = Rates::default();
        outcome.workloads.iter().for_each(|users| rates.extend(users.rates(outcome.elapsed)));
        let busy = outcome.cpu as f64 / (outcome.elapsed.max(1) as f64 * f64::from(threads));
        Ok(Trial { rates: rates.conforming(), outcome, directories, busy })
    }

    /// A trial's report; `more` rows go before those of every run.
    fn report(&self, trial: &Trial, more: Vec<(String, String)>) -> Report {
        let rows = [
            ("to", self.target.address.to_string()),
            ("TLS", self.common.tls_described(&self.target)),
            ("simultaneous connections", trial.rates.connections.to_string()),
            ("directories", trial.directories.to_string()),
            ("duration", format!("{:?}", self.duration)),
            ("ramp", format!("{:?}", self.ramp)),
            ("threads", self.common.threads.to_string()),
            ("timeout", format!("{:?}", self.common.timeout)),
            ("seed", self.seed.to_string()),
        ];
        let rows = rows.into_iter().map(|(name, value)| (name.to_owned(), value));
        let outcome = &trial.outcome;
        let mut notes = vec![NOTE.to_owned()];
        if outcome.seen.statuses().any(|(status, _)| status == 404) {
            notes.push(format!(
                "some paths were not found: is the data set made for {} directories, and the application at /app/?",
                trial.directories
            ));
        }
        let context = Context {
            workload: "specweb",
            settings: more.into_iter().chain(rows).collect(),
            is_open: false,
            is_verified: false,
            log: None,
            specweb: Some(trial.rates),
            threads: self.common.threads,
            notes,
        };
        Report::new(context, &outcome.seen, outcome.elapsed, outcome.cpu, outcome.was_interrupted)
    }
}

fn make(directory: &Path, directories: u64) -> Result<u8, Failed> {
    let made = Files { directories }.make(directory);
    let made = made.map_err(|error| Failed::Usage(format!("{}: {error}", directory.display())))?;
    if made.foreign > 0 {
        let examples = made.examples.join(", ");
        return Err(Failed::Usage(format!("{} paths are something else already: {examples}", made.foreign)));
    }
    super::print(&format!(
        "{} files made, {} were there: {directories} directories, {}\n",
        count_text(made.made),
        count_text(made.kept),
        bytes_text(directories * BYTES_PER_DIRECTORY)
    ))?;
    Ok(0)
}
