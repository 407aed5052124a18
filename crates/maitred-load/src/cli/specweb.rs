//! `maitred-load specweb`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use maitred_sys::signals::Signals;

use super::{Common, DURATION_DEFAULT, Failed, nanos, show};
use crate::client::Rules;
use crate::progress::Progress;
use crate::report::{Context, Report, bytes_text, count_text};
use crate::run;
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
    /// Simultaneous connections; the data set grows with them
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u32).range(1..=100_000), default_value_t = 100)]
    connections: u32,
    /// Directories of the data set [default: as many as published for --connections]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=100_000))]
    directories: Option<u64>,
    /// The same seed gives the same requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// [`Common`], which only a run needs.
#[derive(Debug, Args)]
struct OptionalCommon {
    #[command(flatten)]
    common: Option<Common>,
}

impl Specweb {
    pub(super) fn run(self) -> Result<u8, Failed> {
        let directories = self.directories.unwrap_or_else(|| directories_for(self.connections.into()));
        match (&self.directory, &self.common.common) {
            (Some(directory), _) => make(directory, directories),
            (None, Some(common)) => self.load(common, directories),
            (None, None) => Err(Failed::Usage("say where to: --to URL, or DIR --make".to_owned())),
        }
    }

    fn load(&self, common: &Common, directories: u64) -> Result<u8, Failed> {
        let target = Target::parse(&common.to, common.i_own_this_host).map_err(Failed::Usage)?;
        run::allow_connections(self.connections as usize).map_err(Failed::Usage)?;
        let signals = Signals::block().map_err(|error| Failed::Measuring(format!("signals: {error}")))?;
        run::probe(&target).map_err(Failed::Measuring)?;
        let duration = common.duration.unwrap_or(DURATION_DEFAULT);
        let threads = u32::from(common.threads).min(self.connections);
        let parts = (0..threads).map(|thread| {
            let count = self.connections / threads + u32::from(thread < self.connections % threads);
            let seed = self.seed.wrapping_add(u64::from(thread) << 32);
            let users = Users::new(seed, directories, target.authority.clone(), count, nanos(common.ramp));
            let rules = Rules {
                address: target.address,
                connections_max: count as usize,
                per_client_max: 1,
                waiting_max: count as usize,
                is_open: false,
                ramp: 0,
                end: nanos(duration),
                timeout: nanos(common.timeout),
                idle_max: nanos(Duration::from_secs(3600)),
            };
            (rules, users)
        });
        let mut progress = Progress::new(None, duration, common.quiet);
        let outcome = run::run(parts.collect(), Some(&signals), &mut progress)
            .map_err(|error| Failed::Measuring(error.to_string()))?;
        let mut rates = Rates::default();
        outcome.workloads.iter().for_each(|users| rates.extend(users.rates()));
        let rows = [
            ("to", target.address.to_string()),
            ("simultaneous connections", self.connections.to_string()),
            ("directories", directories.to_string()),
            ("duration", format!("{duration:?}")),
            ("ramp", format!("{:?}", common.ramp)),
            ("threads", threads.to_string()),
            ("seed", self.seed.to_string()),
        ];
        let context = Context {
            workload: "specweb",
            settings: rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            is_open: false,
            is_verified: false,
            log: None,
            specweb: Some(rates.conforming()),
            notes: vec![NOTE.to_owned()],
        };
        let report =
            Report::new(context, &outcome.seen, outcome.elapsed, outcome.cpu, outcome.was_interrupted);
        show(&report, common)
    }
}

fn make(directory: &std::path::Path, directories: u64) -> Result<u8, Failed> {
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
