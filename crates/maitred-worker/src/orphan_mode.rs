//! A worker process between two images of its master ([`maitred_base::upgrade`]): the control socket has ended, and the process
//! goes on.
//!
//! The process serves until the new image sends a word over a socket of its own, the *end*, and then drains over it as after
//! [`maitred_control::ToWorker::Drain`]. The word is all that the new image sends; if the end closes without it, the master has
//! died. In the other direction there is one word as well: that there was a command to stop the server.
//!
//! What the master did for requests at application processes it does by itself meanwhile: it ends those that break the protocol,
//! as far as it may, and watches for their exit. No processes are started in their place.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{Signal, pidfd_send_signal};

use super::control::{About, Control};
use super::inbox::Message;
use maitred_base::upgrade::{GO, GO_FOR_GOOD, SERVE_ON, STOP, WORD_BYTES_MAX};
use maitred_control::{DrainTime, FromWorker, SlotId};

/// The answer to commands for the master meanwhile.
pub(super) const BETWEEN_IMAGES: &str = "the executable is being replaced; try again";
/// The answer to clients that wait for a new image which has died.
const NEW_IMAGE_ENDED: &str = "the new executable has ended";
/// The interim message to them, its interval, and for how long: a new image that cannot start tries again without end.
const WAITS: &str = "waits for the worker process and the pools of the new executable, 10m at most";
const TELL_EVERY: Duration = Duration::from_secs(5);
const WAIT_MAX: Duration = Duration::from_secs(10 * 60);

/// The state for that; see the top of the file.
#[derive(Debug, Default)]
pub(super) struct OrphanMode {
    /// The end of the control socket is no reason to stop.
    promised: bool,
    /// The control socket has ended.
    pub(super) alone: bool,
    /// When the next interim message is sent to clients that wait for the new image, and until when.
    tell: Option<(Instant, Instant)>,
    /// The socket for the word to drain, and the time to drain then; `None` if it drains already.
    end: Option<(OwnedFd, DrainTime)>,
    /// Application processes (pidfd_open(2)).
    watched: Vec<(SlotId, OwnedFd)>,
    /// Application processes that the master was asked to end, until it reports their exit: it may be replaced before it reads
    /// the request.
    given_up: Vec<(SlotId, Signal)>,
}

impl OrphanMode {
    pub(super) fn promise(&mut self, end: Option<OwnedFd>, time: DrainTime) {
        self.promised = true;
        self.end = end.map(|end| (end, time));
    }

    pub(super) fn watch(&mut self, id: SlotId, process: OwnedFd) {
        self.watched.retain(|(other, _)| *other != id);
        self.watched.push((id, process));
    }

    /// Stores a request to the master to end a process.
    pub(super) fn note(&mut self, message: &FromWorker) {
        self.given_up.extend(given_up(message));
    }

    /// The master reports that this process has exited.
    pub(super) fn forget(&mut self, id: SlotId) {
        self.given_up.retain(|(other, _)| *other != id);
        self.watched.retain(|(other, _)| *other != id);
    }

    /// The descriptors to wait for.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let watched = self.watched.iter().filter(|_| self.alone).map(|(_, process)| process.as_fd());
        self.end.iter().map(|(end, _)| end.as_fd()).chain(watched)
    }
}

impl Control<'_> {
    /// Whether nothing comes from the master any more.
    pub(super) fn is_alone(&self) -> bool {
        self.orphaned || self.orphan_mode.alone
    }

    /// The control socket has ended.
    pub(super) fn on_end(&mut self) {
        if !self.orphan_mode.promised {
            return self.on_orphaned();
        }
        tracing::info!("the master's executable is replaced; serving on");
        self.orphan_mode.alone = true;
        let now = Instant::now();
        self.orphan_mode.tell = Some((now + TELL_EVERY, now + WAIT_MAX));
        self.shared.alone.store(true, Relaxed);
        for (id, signal) in std::mem::take(&mut self.orphan_mode.given_up) {
            self.end_process(id, signal);
        }
        // Without the end, no result of the upgrade will come.
        let hears = self.orphan_mode.end.is_some();
        let waits_on = |about| if about == About::Upgrade { hears } else { self.passes_on(about) };
        let unanswerable = self.asking.iter().filter(|(_, one)| !waits_on(one.about));
        let others: Vec<u64> = unanswerable.map(|(number, _)| *number).collect();
        for asking in others.iter().filter_map(|number| self.asking.remove(number)).collect::<Vec<_>>() {
            self.reply(asking, false, BETWEEN_IMAGES);
        }
    }

    /// Passes a command on to the new image, if it is one that cannot wait: a stop. Gives back whether an answer will come.
    pub(super) fn passes_on(&self, about: About) -> bool {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let end = self.orphan_mode.end.as_ref().filter(|_| about == About::Stop);
        end.is_some_and(|(end, _)| send(end, STOP, flags).is_ok())
    }

    /// Takes the word of the new image, and the ends of application processes.
    pub(super) fn take_orders(&mut self) {
        self.take_word();
        if !self.orphan_mode.alone {
            return;
        }
        let watched = std::mem::take(&mut self.orphan_mode.watched);
        let (ended, living) = watched.into_iter().partition(|(_, process)| is_readable(process));
        self.orphan_mode.watched = living;
        for (id, _) in ended {
            self.slot_exited(id, "has ended");
        }
    }

    fn take_word(&mut self) {
        let Some((end, time)) = &self.orphan_mode.end else { return };
        let (mut word, time) = ([0; WORD_BYTES_MAX], *time);
        match recv(end, &mut word, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok((length, _)) if word.get(..length).is_some_and(|word| word.starts_with(GO)) => {
                // Messages of the previous image are read first, and its end.
                self.take_messages();
                let for_good = word.starts_with(GO_FOR_GOOD);
                let successor = self.orphan_mode.end.take().filter(|_| !for_good);
                let time = if for_good { DrainTime::bounded(time.grace_ms) } else { time };
                self.drain(time, successor.map(|(end, _)| Arc::new(end)));
                self.answer_some(|about| match (for_good, about) {
                    (true, About::Stop) => Some((true, "stopping")),
                    (true, _) => Some((false, "the server is stopping")),
                    // The new image had started before it read the word.
                    (false, About::Stop) => Some((false, BETWEEN_IMAGES)),
                    (false, _) => Some((true, "upgraded")),
                });
            }
            Ok((length @ 1.., _)) => {
                if let Some(why) = word.get(..length).and_then(|word| word.strip_prefix(SERVE_ON)) {
                    let why = String::from_utf8_lossy(why).into_owned();
                    self.answer_some(|about| (about == About::Upgrade).then_some((false, &*why)));
                }
            }
            Ok((0, _)) | Err(_) => self.on_end_closed(),
        }
    }

    fn on_end_closed(&mut self) {
        self.orphan_mode.end = None;
        if self.orphan_mode.alone {
            self.answer_some(|_| Some((false, NEW_IMAGE_ENDED)));
            self.on_orphaned();
        } else {
            // The master stays as it is after all.
            self.orphan_mode.promised = false;
        }
    }

    /// Sends interim messages to the clients whose upgrade is under way.
    pub(super) fn tell_waiting(&mut self, now: Instant) {
        let Some((at, until)) =
            self.orphan_mode.tell.filter(|(at, until)| self.orphan_mode.alone && at <= &now && &now < until)
        else {
            return;
        };
        self.orphan_mode.tell = Some((at + TELL_EVERY, until));
        let waiting = self.asking.values().filter(|one| one.about == About::Upgrade);
        waiting.for_each(|asking| self.progress(asking, WAITS.to_owned()));
    }

    /// Answers the clients for which there is an answer; the others wait on.
    fn answer_some<'a>(&mut self, answer: impl Fn(About) -> Option<(bool, &'a str)>) {
        for (number, asking) in std::mem::take(&mut self.asking) {
            match answer(asking.about) {
                Some((well, text)) => self.reply(asking, well, text),
                None => drop(self.asking.insert(number, asking)),
            }
        }
    }

    /// A message to the master while there is none: if a process has to be ended, that is done here; other messages are dropped.
    pub(super) fn act_without_master(&self, message: &FromWorker) {
        if let Some((id, signal)) = given_up(message) {
            self.end_process(id, signal);
        }
    }

    fn end_process(&self, id: SlotId, signal: Signal) {
        match self.orphan_mode.watched.iter().find(|(other, _)| *other == id) {
            Some((_, process)) => match pidfd_send_signal(process, signal) {
                Ok(()) | Err(Errno::SRCH) => {}
                // The process has another account: the new master ends it with this process.
                Err(error) => tracing::warn!(%error, "an application process cannot be ended"),
            },
            // The process was not started by the master, and counts as exited with its channel.
            None => self.slot_exited(id, "has no channel any more"),
        }
    }

    fn slot_exited(&self, id: SlotId, how: &str) {
        let inbox = &self.shared.inboxes[self.shared.home_of(id)];
        inbox.send(Message::SlotExited { id, how: how.to_owned() });
    }
}

/// The process that the master is to end by this message, and the signal for that.
fn given_up(message: &FromWorker) -> Option<(SlotId, Signal)> {
    match message {
        FromWorker::SlotLost(id, _) => Some((*id, Signal::KILL)),
        FromWorker::SlotClosed(id) => Some((*id, Signal::TERM)),
        _ => None,
    }
}

fn is_readable(descriptor: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&at_once)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests;
