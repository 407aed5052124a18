//! How long steps and test executables took the last time, in `target/xtask/times`: so that the longest begin first, and `--list`
//! can say what a run will take. Of what has never run here, `xtask/times` has the times of another machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::Result;

/// Times of another machine: seconds, a tab, the name.
const RECORDED: &str = include_str!("../../times");

/// Seconds by name.
#[derive(Debug, Default)]
pub(crate) struct Times(BTreeMap<String, f64>);

/// A directory for what runs leave: times, and the output of steps.
pub(crate) fn directory() -> PathBuf {
    let target = std::path::absolute(crate::target()).unwrap_or_else(|_| crate::target());
    target.join("xtask")
}

impl Times {
    /// The recorded ones: they do not change from run to run.
    pub(crate) fn recorded() -> Times {
        let mut times = Times::default();
        times.take(RECORDED);
        times
    }

    /// The recorded ones, and those of the last runs here.
    pub(crate) fn read() -> Times {
        let here = std::fs::read_to_string(directory().join("times")).unwrap_or_default();
        let mut times = Times::recorded();
        times.take(&here);
        times
    }

    /// Lines of another form are left out: a file of an older version is not an error.
    fn take(&mut self, text: &str) {
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        self.0.extend(lines.filter_map(|(seconds, name)| Some((name.to_owned(), seconds.parse().ok()?))));
    }

    pub(crate) fn of(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Keeps these, beside what is kept of others.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn keep(new: &[(String, f64)]) -> Result<()> {
        let mut times = Times::default();
        times.take(&std::fs::read_to_string(directory().join("times")).unwrap_or_default());
        times.0.extend(new.iter().cloned());
        std::fs::create_dir_all(directory())?;
        let text: String = times.0.iter().map(|(name, seconds)| format!("{seconds:.1}\t{name}\n")).collect();
        Ok(std::fs::write(directory().join("times"), text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_time_counts_and_other_lines_do_not() {
        let mut times = Times::default();
        times.take("3.0\ta step\nsoon\tanother\nno tab\n");
        times.take("4.5\ta step\n");
        assert_eq!(times.of("a step"), Some(4.5));
        assert_eq!(times.of("another"), None);
        let recorded = RECORDED.lines().filter(|line| !line.starts_with('#'));
        assert!(recorded.clone().all(|line| line.split_once('\t').is_some()), "xtask/times has another form");
    }
}
