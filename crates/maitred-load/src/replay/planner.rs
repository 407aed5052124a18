//! The thread that reads the log.

use std::io::{self, BufRead};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use super::curve::Times;
use super::reorder::{Reorder, WAITING_MAX};
use super::request::{self, Kind, Skip};
use super::schedule::{LogClock, spread};
use super::source::{BATCH_REQUESTS, Batch, Planned};
use super::{Pace, Sessions, Settings};
use crate::log::Entry;
use crate::log::reader::{Reader, Tally};
use crate::measure::Nanos;

/// Requests of one second of the log that are spread over it; what is beyond that is sent at the second's end. Bounds
/// memory, as [`WAITING_MAX`] does for those that wait for earlier ones.
const SECOND_REQUESTS_MAX: usize = WAITING_MAX;

/// What became of the log's lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Lines, and those that could not be read.
    #[serde(flatten)]
    pub tally: Tally,
    /// Requests that were planned.
    pub planned: u64,
    /// Lines with a method other than GET and HEAD that were left out.
    pub other_methods: u64,
    /// Lines whose target cannot be sent.
    pub unsendable: u64,
    /// Lines without a request.
    pub without_request: u64,
    /// With the log's own timing: lines older than one before them, which were put in their place.
    pub reordered: u64,
    /// Lines too old for that, which were sent at once.
    pub late: u64,
    /// How often the log's clock was set back.
    pub clock_steps: u64,
    /// Passes through the log that were begun.
    pub passes: u64,
    /// Whether the log's end was reached, rather than a limit.
    pub is_whole: bool,
    /// Why reading the log ended early.
    pub error: Option<String>,
}

/// Reads logs that `open` gives, one after another if they are repeated, and sends what they stand for to the threads.
/// Keeps `summary` up to date, and ends when the log, a limit, or all threads end.
pub fn plan<R: BufRead>(
    mut open: impl FnMut() -> io::Result<R>,
    settings: Settings,
    threads: Vec<SyncSender<Batch>>,
    summary: Arc<Mutex<Summary>>,
) {
    let mut planner = Planner::new(settings, threads, summary);
    loop {
        planner.counts.passes += 1;
        let before = planner.counts.planned;
        let ended = open().and_then(|input| planner.pass(input));
        planner.end_order();
        let is_empty = planner.counts.planned == before;
        match ended {
            Ok(Pass::LogEnded) if planner.settings.is_repeated && !is_empty => {
                planner.clock.restart();
                planner.order.restart();
            }
            Ok(Pass::LogEnded) => {
                planner.counts.is_whole = true;
                break;
            }
            Ok(Pass::LimitReached) => break,
            Err(error) => {
                planner.counts.error = Some(error.to_string());
                break;
            }
        }
    }
    planner.end_second();
    planner.flush_all();
    planner.tell();
}

/// How a pass through the log ended.
enum Pass {
    LogEnded,
    LimitReached,
}

struct Planner {
    settings: Settings,
    threads: Vec<Outgoing>,
    clock: LogClock,
    curve: Option<Times>,
    /// Requests that wait for earlier ones, if the log's times matter.
    order: Reorder<Held>,
    /// Requests of the present second of the log, which wait to be spread over it.
    second: Vec<Waiting>,
    second_bytes: Vec<u8>,
    /// Log time of that second.
    second_at: Nanos,
    scratch: Vec<u8>,
    counts: Summary,
    /// Lines of earlier passes.
    earlier: Tally,
    summary: Arc<Mutex<Summary>>,
    turn: usize,
    is_over: bool,
}

struct Waiting {
    end: usize,
    kind: Kind,
}

/// A request with its bytes.
struct Held {
    bytes: Box<[u8]>,
    kind: Kind,
    is_precise: bool,
}

struct Outgoing {
    sender: Option<SyncSender<Batch>>,
    batch: Batch,
}

impl Planner {
    fn new(settings: Settings, threads: Vec<SyncSender<Batch>>, summary: Arc<Mutex<Summary>>) -> Self {
        let outgoing = |sender| Outgoing { sender: Some(sender), batch: Batch::default() };
        let (speed, curve) = match &settings.pace {
            Pace::Logged { speed } => (*speed, None),
            Pace::Curve(curve) => (1.0, Some(curve.times())),
            Pace::Fast => (1.0, None),
        };
        Planner {
            clock: LogClock::new(speed, settings.ramp),
            curve,
            order: Reorder::new(settings.reorder),
            threads: threads.into_iter().map(outgoing).collect(),
            settings,
            second: Vec::new(),
            second_bytes: Vec::new(),
            second_at: 0,
            scratch: Vec::new(),
            counts: Summary::default(),
            earlier: Tally::default(),
            summary,
            turn: 0,
            is_over: false,
        }
    }

    fn pass(&mut self, input: impl BufRead) -> io::Result<Pass> {
        let mut reader = Reader::new(input);
        let ended = loop {
            if self.is_over || self.settings.requests_max.is_some_and(|max| self.counts.planned >= max) {
                break Ok(Pass::LimitReached);
            }
            match reader.next(|entry| self.take(&entry)) {
                Ok(Some(())) => {}
                Ok(None) => break Ok(Pass::LogEnded),
                Err(error) => break Err(error),
            }
            if reader.tally().lines.is_multiple_of(BATCH_REQUESTS as u64) {
                self.count_lines(reader.tally());
                self.tell();
            }
        };
        self.count_lines(reader.tally());
        self.earlier = self.counts.tally.clone();
        self.tell();
        ended
    }

    fn count_lines(&mut self, pass: &Tally) {
        let earlier = &self.earlier;
        self.counts.tally = Tally {
            lines: earlier.lines + pass.lines,
            malformed: earlier.malformed + pass.malformed,
            examples: if earlier.examples.is_empty() {
                pass.examples.clone()
            } else {
                earlier.examples.clone()
            },
        };
    }

    fn take(&mut self, entry: &Entry<'_>) {
        self.scratch.clear();
        let kind = match request::write(entry, &self.settings, &mut self.scratch) {
            Ok(kind) => kind,
            Err(Skip::NoRequest) => return self.counts.without_request += 1,
            Err(Skip::Method) => return self.counts.other_methods += 1,
            Err(Skip::Unsendable) => return self.counts.unsendable += 1,
        };
        self.counts.planned += 1;
        match &self.settings.pace {
            Pace::Fast => self.send(kind, None, None),
            Pace::Curve(_) => match self.curve.as_mut().and_then(Iterator::next) {
                Some(due) => self.send(kind, Some(due), None),
                None => {
                    self.counts.planned -= 1;
                    self.is_over = true;
                }
            },
            Pace::Logged { .. } => {
                let held = Held { bytes: self.scratch.as_slice().into(), kind, is_precise: entry.is_precise };
                self.order.push(entry.time_us, held);
                while let Some((time_us, held)) = self.order.next() {
                    self.schedule(time_us, &held);
                }
            }
        }
    }

    /// The pass through the log has ended: nothing has to wait any more.
    fn end_order(&mut self) {
        while let Some((time_us, held)) = self.order.rest() {
            self.schedule(time_us, &held);
        }
        let counts = self.order.counts();
        self.counts.reordered = counts.reordered;
        self.counts.late = counts.late;
        self.counts.clock_steps = counts.clock_steps;
    }

    /// The next request in the order of the log's times.
    fn schedule(&mut self, time_us: u64, held: &Held) {
        let log = self.clock.read(time_us);
        if log != self.second_at || held.is_precise || self.second.len() >= SECOND_REQUESTS_MAX {
            self.end_second();
            self.second_at = log;
        }
        if held.is_precise {
            self.send(held.kind, Some(self.clock.intended(log)), Some(&held.bytes));
        } else {
            self.second_bytes.extend_from_slice(&held.bytes);
            self.second.push(Waiting { end: self.second_bytes.len(), kind: held.kind });
        }
    }

    /// The present second of the log is complete: its requests are spread over it.
    fn end_second(&mut self) {
        let second = std::mem::take(&mut self.second);
        let bytes = std::mem::take(&mut self.second_bytes);
        let mut start = 0;
        for (waiting, log) in second.iter().zip(spread(self.second_at, second.len())) {
            let due = self.clock.intended(log);
            self.send(waiting.kind, Some(due), bytes.get(start..waiting.end));
            start = waiting.end;
        }
        (self.second, self.second_bytes) = (second, bytes);
        self.second.clear();
        self.second_bytes.clear();
    }

    /// Gives a request to its thread: `bytes`, or else those in `scratch`.
    fn send(&mut self, kind: Kind, due: Option<Nanos>, bytes: Option<&[u8]>) {
        if due.is_some_and(|due| due > self.settings.end) {
            self.is_over = true;
        }
        self.turn = self.turn.wrapping_add(1);
        let count = self.threads.len().max(1);
        let at = match self.settings.sessions {
            Sessions::Address => (kind.client % count as u64) as usize,
            Sessions::None => self.turn % count,
        };
        let Some(thread) = self.threads.get_mut(at) else { return };
        thread.batch.bytes.extend_from_slice(bytes.unwrap_or(&self.scratch));
        thread.batch.requests.push(Planned { end: thread.batch.bytes.len(), due, kind });
        if thread.batch.requests.len() >= BATCH_REQUESTS {
            // All of them: what another thread has to send by now must not wait until this one takes its batch.
            self.flush_all();
            self.is_over |= self.threads.iter().all(|thread| thread.sender.is_none());
        }
    }

    fn flush_all(&mut self) {
        self.threads.iter_mut().for_each(Outgoing::flush);
    }

    fn tell(&self) {
        let mut summary = self.summary.lock().unwrap_or_else(PoisonError::into_inner);
        summary.clone_from(&self.counts);
    }
}

impl Outgoing {
    fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if batch.requests.is_empty() {
            return;
        }
        // A thread that has ended takes nothing any more.
        if self.sender.as_ref().is_some_and(|sender| sender.send(batch).is_err()) {
            self.sender = None;
        }
    }
}
