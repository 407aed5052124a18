//! A line at the bottom of the terminal while a run goes on. Nothing, if standard error is no terminal.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::client::Shared;
use crate::report::{bytes_text, count_text};

/// Steps of the bar.
const STEPS: u64 = 1000;

/// The line.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    requests_max: Option<u64>,
    end: Duration,
    /// Time, responses and bytes when it was last drawn, and the rates since.
    last: (Duration, u64, u64),
}

impl Progress {
    /// A line for a run that ends after `requests_max` requests or at `end`, whichever is first.
    pub fn new(requests_max: Option<u64>, end: Duration, is_quiet: bool) -> Self {
        // indicatif draws nothing where standard error is no terminal.
        let target =
            if is_quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
        let bar = ProgressBar::with_draw_target(Some(STEPS), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}") {
            bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        }
        Progress { bar, requests_max, end, last: (Duration::ZERO, 0, 0) }
    }

    /// Draws it anew.
    pub fn show(&mut self, elapsed: Duration, shared: &Shared) {
        if self.bar.is_hidden() {
            return;
        }
        let (responses, failures) = (shared.responses.load(Relaxed), shared.failures.load(Relaxed));
        let bytes = shared.body_bytes.load(Relaxed);
        let (last, last_responses, last_bytes) =
            std::mem::replace(&mut self.last, (elapsed, responses, bytes));
        let seconds = elapsed.saturating_sub(last).as_secs_f64().max(1e-3);
        let rate = (responses - last_responses) as f64 / seconds;
        let speed = (bytes - last_bytes) as f64 / seconds;
        let by_time = elapsed.as_secs_f64() / self.end.as_secs_f64().max(1e-9);
        let by_count = self.requests_max.map_or(0.0, |max| (responses + failures) as f64 / max.max(1) as f64);
        self.bar.set_position((by_time.max(by_count).min(1.0) * STEPS as f64) as u64);
        let failed =
            if failures > 0 { format!(" · {} failed", count_text(failures)) } else { String::new() };
        self.bar.set_message(format!(
            "{:.0} s · {} responses · {}/s · {}/s{failed}",
            elapsed.as_secs_f64(),
            count_text(responses),
            count_text(rate as u64),
            bytes_text(speed as u64),
        ));
    }

    /// Takes it away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
