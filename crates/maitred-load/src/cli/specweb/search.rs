//! `maitred-load specweb --search`.

use std::io::Write;
use std::time::{Duration, Instant};

use super::{Common, Failed, Runs, Specweb, Trial, show};
use crate::report::{Found, Tried};
use crate::specweb::search::{Plan, Search};

/// Length of a trial.
const TRIAL_DEFAULT: Duration = Duration::from_secs(20);
/// Part of a trial that is its ramp.
const RAMP_PART: u32 = 5;
/// What would pass is at most so much more than the answer.
const RESOLUTION: f64 = 0.02;
/// After its end a trial waits for responses that are under way, for no longer than this.
const TRIAL_END: Duration = Duration::from_secs(5);

impl Specweb {
    /// Trials until the answer is sure, or the time is over.
    pub(super) fn search(&self, common: &Common) -> Result<u8, Failed> {
        if self.first > self.connections {
            return Err(Failed::Usage("--first is more than --connections".to_owned()));
        }
        let duration = common.duration.unwrap_or(TRIAL_DEFAULT);
        let runs = self.runs(common, duration, common.ramp.unwrap_or(duration / RAMP_PART))?;
        let plan =
            Plan { first: self.first, max: self.connections, repeats: self.repeats, resolution: RESOLUTION };
        let mut search = Search::new(plan);
        let mut kept: Option<Trial> = None;
        let (start, mut tried, mut is_interrupted) = (Instant::now(), Vec::new(), false);
        while let Some(connections) = search.next() {
            if start.elapsed() + duration + TRIAL_END > self.search_time && !tried.is_empty() {
                break;
            }
            let trial = runs.trial(connections)?;
            is_interrupted = trial.outcome.was_interrupted;
            if is_interrupted {
                // Half a trial says nothing, unless it is all there is.
                kept = kept.or(Some(trial));
                break;
            }
            let row = Tried::of(connections, &trial);
            if trial.outcome.seen.responses == 0 {
                return Err(Failed::Measuring(format!(
                    "nothing was measured: in the trial of {connections} connections no request got a response"
                )));
            }
            search.took(connections, row.passed);
            tell(&row, common.quiet);
            tried.push(row);
            // The report is that of the answer, or else of the last trial.
            let is_best = connections == search.best();
            if is_best || kept.as_ref().is_none_or(|kept| kept.rates.connections != u64::from(search.best()))
            {
                kept = Some(trial);
            }
        }
        let Some(kept) = kept else {
            return Err(Failed::Measuring("no trial was made".to_owned()));
        };
        let found = found(&search, tried, self.connections);
        self.finish(&runs, &kept, found, is_interrupted)
    }

    fn finish(
        &self,
        runs: &Runs<'_>,
        kept: &Trial,
        found: Found,
        is_interrupted: bool,
    ) -> Result<u8, Failed> {
        let rows = [
            ("search", format!("from {} to {} connections", self.first, self.connections)),
            ("passes wanted", self.repeats.to_string()),
            ("search time", format!("{:?}", self.search_time)),
        ];
        let rows = rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let mut report = runs.report(kept, rows);
        report.was_interrupted |= is_interrupted;
        report.notes.extend(found.notes(self.repeats, self.connections));
        report.notes.push(format!(
            "what is said of requests is that of one trial, of {} connections",
            kept.rates.connections
        ));
        report.search = Some(found);
        show(&report, runs.common)
    }
}

impl Tried {
    fn of(connections: u32, trial: &Trial) -> Tried {
        let (seen, rates) = (&trial.outcome.seen, &trial.rates);
        let wrong = seen.statuses().filter(|(status, _)| *status != 200).map(|(_, count)| count).sum::<u64>();
        Tried {
            connections,
            conforming: rates.conforming,
            passed: rates.conforming == u64::from(connections),
            responses_per_second: seen.responses as f64 / (trial.outcome.elapsed.max(1) as f64 / 1e9),
            failures: seen.failures() + wrong,
            p99_us: seen.latency.value_at_quantile(0.99) as f64 / 1e3,
            min_bits_per_second: rates.min_bits_per_second,
            generator_busy: trial.busy,
        }
    }
}

fn found(search: &Search, tried: Vec<Tried>, max: u32) -> Found {
    let best = search.best();
    let tally = search.tally(best);
    Found {
        connections: best,
        passed: tally.passed,
        failed: tally.failed,
        certainty: tally.certainty(),
        fails_at: search.failing(),
        is_bound: best == max,
        is_complete: search.is_complete(),
        trials: tried,
    }
}

/// A line of progress for the user.
fn tell(row: &Tried, is_quiet: bool) {
    if is_quiet {
        return;
    }
    let Tried { connections, conforming, min_bits_per_second, failures, .. } = row;
    // If standard error is closed, there is no reader.
    let _ = writeln!(
        std::io::stderr(),
        "{connections} connections: {conforming} conform, slowest {:.0} kbit/s, {failures} failed",
        min_bits_per_second / 1e3
    );
}
