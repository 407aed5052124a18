//! Runs steps side by side, each as a process of its own, so that whatever it prints goes to one place. One lane has the steps
//! that keep the processors busy, another those that wait.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::test::table::{BUILD, Lane, Step};
use crate::test::times;
use crate::{Result, skips, test, test_python};

/// How often is said which steps run.
const PROGRESS: Duration = Duration::from_secs(30);
/// Columns of a step's last line that are shown meanwhile.
const LAST_COLUMNS: usize = 100;

/// What has become of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Running,
    Passed,
    Failed,
    /// The step could not be built.
    NotRun,
}

/// A step of this run.
pub(crate) struct Entry {
    pub(crate) step: &'static Step,
    pub(crate) state: State,
    pub(crate) seconds: f64,
    /// Tests in it that have passed and failed; itself, if it does not count any.
    pub(crate) counts: (u64, u64),
}

/// Which steps can begin now. The plan does nothing by itself.
pub(crate) struct Plan {
    pub(crate) entries: Vec<Entry>,
}

impl Plan {
    pub(crate) fn new(steps: &[&'static Step]) -> Plan {
        let entry =
            |step: &&'static Step| Entry { step, state: State::Waiting, seconds: 0.0, counts: (0, 0) };
        Plan { entries: steps.iter().map(entry).collect() }
    }

    fn has(&self, state: State, of: impl Fn(&Step) -> bool) -> bool {
        self.entries.iter().any(|entry| entry.state == state && of(entry.step))
    }

    fn state_of(&self, name: &str) -> Option<State> {
        self.entries.iter().find(|entry| entry.step.name == name).map(|entry| entry.state)
    }

    /// Gives up steps that could not be built, and returns the first one that can begin.
    fn next(&mut self) -> Option<usize> {
        for at in 0..self.entries.len() {
            let Some(Entry { step, state: State::Waiting, .. }) = self.entries.get(at) else { continue };
            let before: Vec<State> = step.after.iter().filter_map(|name| self.state_of(name)).collect();
            // Other steps that have failed only had to be out of the way.
            if step.after.contains(&BUILD) && self.state_of(BUILD) == Some(State::Failed) {
                self.set(at, State::NotRun);
                continue;
            }
            let free = match step.lane {
                Lane::Alone => {
                    !self.has(State::Running, |_| true)
                        && !self.has(State::Waiting, |other| other.lane != Lane::Alone)
                }
                lane => !self.has(State::Running, |other| other.lane == lane || other.lane == Lane::Alone),
            };
            if free && before.iter().all(|state| !matches!(state, State::Waiting | State::Running)) {
                self.set(at, State::Running);
                return Some(at);
            }
        }
        None
    }

    fn set(&mut self, at: usize, state: State) {
        if let Some(entry) = self.entries.get_mut(at) {
            entry.state = state;
        }
    }

    fn is_over(&self) -> bool {
        !self.has(State::Waiting, |_| true) && !self.has(State::Running, |_| true)
    }
}

/// The end of a step's process.
struct End {
    at: usize,
    passed: bool,
}

/// Runs all of them. A step that is the only one prints to the terminal; of others, files have the output.
///
/// # Errors
/// When a process cannot be started.
pub(crate) fn run(plan: &mut Plan) -> Result<()> {
    let single = plan.entries.len() == 1;
    let is_built = plan.entries.iter().any(|entry| entry.step.name == BUILD);
    let directory = times::directory().join("steps");
    std::fs::create_dir_all(&directory)?;
    let (sender, ends) = channel();
    let mut began: Vec<Option<Instant>> = vec![None; plan.entries.len()];
    let elapsed = |began: &[Option<Instant>], at: usize| {
        began.get(at).copied().flatten().map_or(0.0, |began| began.elapsed().as_secs_f64())
    };
    loop {
        while let Some(at) = plan.next() {
            let Some(entry) = plan.entries.get(at) else { continue };
            println!("== {}: begins", entry.step.name);
            let log = (!single).then(|| log_of(&directory, entry.step));
            start(at, entry.step, log.as_deref(), is_built, sender.clone())?;
            if let Some(began) = began.get_mut(at) {
                *began = Some(Instant::now());
            }
        }
        if plan.is_over() {
            return Ok(());
        }
        match ends.recv_timeout(PROGRESS) {
            Ok(End { at, passed }) => {
                end(plan, at, passed, elapsed(&began, at), (!single).then_some(&directory))
            }
            Err(RecvTimeoutError::Timeout) => {
                for (at, entry) in plan.entries.iter().enumerate() {
                    if entry.state == State::Running {
                        let last =
                            if single { String::new() } else { last_line(&log_of(&directory, entry.step)) };
                        println!("   {}: {:.0} s  {last}", entry.step.name, elapsed(&began, at));
                    }
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Err("a step has no process".into()),
        }
    }
}

fn log_of(directory: &Path, step: &Step) -> PathBuf {
    directory.join(format!("{}.txt", step.name))
}

fn counts_of(step: &Step) -> PathBuf {
    times::directory().join("steps").join(format!("{}.counts", step.name))
}

/// Starts a step's process, whose end is sent.
fn start(at: usize, step: &Step, log: Option<&Path>, is_built: bool, sender: Sender<End>) -> Result<()> {
    let counts = counts_of(step);
    let _ = std::fs::remove_file(&counts);
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["step", step.name]).stdin(Stdio::null());
    command.env(skips::VARIABLE, skips::file()).env(test::COUNTS, counts);
    if let Some(path) = test_python::path() {
        command.env("PATH", path);
    }
    if is_built {
        command.env(test::IS_BUILT, "1");
    }
    if let Some(log) = log {
        let file = std::fs::File::create(log)?;
        command.stdout(file.try_clone()?).stderr(file);
    }
    let mut child = command.spawn()?;
    std::thread::spawn(move || {
        let passed = child.wait().is_ok_and(|status| status.success());
        // The receiver is gone when another process could not be started.
        let _ = sender.send(End { at, passed });
    });
    Ok(())
}

/// Notes the end of a step, says so, and shows its output if it has failed.
fn end(plan: &mut Plan, at: usize, passed: bool, seconds: f64, directory: Option<&PathBuf>) {
    let Some(entry) = plan.entries.get_mut(at) else { return };
    entry.state = if passed { State::Passed } else { State::Failed };
    entry.seconds = seconds;
    let counted = std::fs::read_to_string(counts_of(entry.step)).ok();
    let counted = counted.and_then(|text| test::parse_counts(&text)).unwrap_or((u64::from(passed), 0));
    // A step may fail without any test that has: its program could not be compiled.
    entry.counts = (counted.0, if passed { counted.1 } else { counted.1.max(1) });
    if let (false, Some(directory)) = (passed, directory) {
        let log = log_of(directory, entry.step);
        println!("\n== {}: its output ({}):", entry.step.name, log.display());
        println!("{}", String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()));
    }
    println!("== {}: {} in {seconds:.0} s", entry.step.name, if passed { "passed" } else { "FAILED" });
}

fn last_line(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    last.chars().take(LAST_COLUMNS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::table::find;

    fn plan(names: &[&str]) -> Plan {
        Plan::new(&names.iter().map(|name| find(name).unwrap()).collect::<Vec<_>>())
    }

    /// Names of the steps that begin now.
    fn begin(plan: &mut Plan) -> Vec<&'static str> {
        std::iter::from_fn(|| plan.next())
            .collect::<Vec<_>>()
            .into_iter()
            .map(|at| plan.entries[at].step.name)
            .collect()
    }

    fn finish(plan: &mut Plan, name: &str, state: State) {
        let at = plan.entries.iter().position(|entry| entry.step.name == name).unwrap();
        assert_eq!(plan.entries[at].state, State::Running, "{name}");
        plan.set(at, state);
    }

    #[test]
    fn one_step_of_each_lane_runs_and_counts_are_taken_alone() {
        let mut plan = plan(&["format", "lints", "build", "tests", "doctests", "counts"]);
        assert_eq!(begin(&mut plan), ["format", "lints"]);
        finish(&mut plan, "format", State::Passed);
        assert_eq!(begin(&mut plan), [""; 0], "the tests have not been built");
        finish(&mut plan, "lints", State::Failed);
        assert_eq!(begin(&mut plan), ["build"]);
        finish(&mut plan, "build", State::Passed);
        assert_eq!(begin(&mut plan), ["tests", "doctests"]);
        finish(&mut plan, "doctests", State::Passed);
        assert_eq!(begin(&mut plan), [""; 0], "something still runs beside it");
        finish(&mut plan, "tests", State::Passed);
        assert_eq!(begin(&mut plan), ["counts"]);
        finish(&mut plan, "counts", State::Passed);
        assert!(plan.is_over());
    }

    #[test]
    fn nothing_is_tested_that_could_not_be_built() {
        let mut plan = plan(&["build", "tests", "counts"]);
        assert_eq!(begin(&mut plan), ["build"]);
        finish(&mut plan, "build", State::Failed);
        assert_eq!(begin(&mut plan), [""; 0]);
        assert!(
            plan.is_over()
                && plan.entries[1].state == State::NotRun
                && plan.entries[2].state == State::NotRun
        );
    }
}
