//! What goes into the machine and what comes out.

use std::path::PathBuf;
use std::time::Duration;

use maitred_sys::signals::Signal;
use serde::{Deserialize, Serialize};
use tracing::Level;

use maitred_base::pool::canary::{self, Work};
use maitred_base::pool::settings::Settings;
use maitred_config::{Failure, StopSignal};
use maitred_control::{DrainTime, FromWorker, Greeting, SlotId, ToWorker};

/// What the machine needs to know of a configuration that is ready to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The number of the configuration, in the shell's count.
    pub number: u64,
    /// How long a stopping worker process may take, and a connection without a request of one that was replaced.
    pub grace: Duration,
    /// How long requests may go on in one that was replaced; `None` is without a limit.
    pub grace_streams: Option<Duration>,
    /// How many worker processes that were replaced there may be.
    pub old_workers_max: usize,
    /// The pools, in the order of the configuration.
    pub pools: Vec<PoolPlan>,
}

impl Plan {
    /// The time for its worker process to drain: because it was replaced, or because the server `stops`.
    pub(crate) fn drain_time(&self, stops: bool) -> DrainTime {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let grace_ms = millis(self.grace);
        match stops {
            true => DrainTime::bounded(grace_ms),
            false => DrainTime { grace_ms, streams_ms: self.grace_streams.map(millis) },
        }
    }
}

/// The worker process by which a client asks, and the number of its command.
pub(crate) type Asker = (u64, u64);

/// A text that is to be in force, and to take the place of the configuration's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// The file.
    pub path: PathBuf,
    /// The text.
    pub text: String,
}

/// One pool of a [`Plan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolPlan {
    /// The pool's name, for messages.
    pub name: String,
    /// What its slots are filled with.
    pub kind: PoolKind,
    /// How many application processes.
    pub workers: Settings,
    /// How long one may take until it is ready.
    pub start_timeout: Duration,
    /// How long one that has closed its channel may take to exit.
    pub exit_grace: Duration,
    /// When processes with a new release that were tried beside the others are good enough.
    pub canary: canary::Rules,
    /// How long one may take for a request.
    pub request_timeout: Duration,
    /// How long one that is retired may stay because of what is under way there; `None` for as long as that takes.
    pub retired_time: Option<Duration>,
    /// Everything else that concerns its processes, in whatever form: they live on under another configuration if this is
    /// the same there.
    pub process: String,
    /// Set if its processes accept connections by themselves.
    pub listen: Option<ListenPlan>,
}

/// What is special about a listen pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenPlan {
    /// Into how many buckets its sockets are divided; at least 1.
    pub buckets: u16,
    /// What asks a process to end.
    pub stop_signal: StopSignal,
    /// How long a process is taken to be starting.
    pub start_grace: Duration,
}

/// What the kernel says of a process of a listen pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AcceptSeen {
    /// The process's epoch.
    pub epoch: u64,
    /// CPU time that it and its descendants use per time, since the look before.
    pub share: f64,
    /// The process's resident memory in bytes; 0 if that was not looked at.
    pub memory: u64,
}

/// What the slots of a pool are filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolKind {
    /// Processes that the master starts.
    Started,
    /// Channels to an external server. A process that closes its channel counts as gone; nothing more can be known here.
    Connected,
    /// Nothing: it has no slots.
    Absent,
}

/// What the scoreboard says of an application process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The process's epoch.
    pub epoch: u64,
    /// Requests that it has.
    pub busy: u32,
    /// What it has answered since its present worker process got its channel.
    pub work: Work,
    /// The process's resident memory in bytes; 0 if that was not looked at.
    pub memory: u64,
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Exit status, if this is the first configuration: 2 when the text of the configuration has an error, 1 otherwise.
    pub exit_code: u8,
    /// Everything that is wrong.
    pub text: String,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Refusal { exit_code: 2, text: failure.to_string().trim_end().to_owned() }
    }
}

/// Something happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// The master has been started. The first event, once.
    Start,
    /// [`Action::Prepare`] was carried out.
    Prepared(Result<Plan, Refusal>),
    /// A signal came.
    Signal(Signal),
    /// The worker process of the image before was asked to have the server stopped.
    StopWanted,
    /// The worker process is to be replaced, with the same configuration.
    Replace,
    /// A file of the application has changed: its processes are to be replaced.
    SourceChanged(String),
    /// A client has sent another configuration.
    Proposed(Asker, Box<Proposal>),
    /// The worker process of this generation sent a message.
    Worker(u64, FromWorker),
    /// The worker process of this generation has exited, or could not be started.
    WorkerExited {
        /// The generation of the process.
        generation: u64,
        /// What wait(2) said in words, or why it could not be started.
        how: String,
    },
    /// The last lines of an application process that has exited; before [`Event::AppExited`].
    AppSaid(SlotId, Vec<String>),
    /// An application process has exited, or could not be started.
    AppExited {
        /// The slot of the process.
        slot: SlotId,
        /// Whether it ended by itself with status 0.
        clean: bool,
        /// What wait(2) said in words, or why it could not be started.
        how: String,
    },
    /// What the scoreboard of a generation says of its pools; before each [`Event::Tick`], and when requests wait.
    Observed {
        /// The number of the generation.
        generation: u64,
        /// Requests that wait, by pool.
        queued: Vec<u32>,
        /// The generation's application processes.
        seen: Vec<Seen>,
    },
    /// What the kernel says of the listen pools of the configuration in force; at the same times.
    Accepting {
        /// Lengths of accept queues, by pool and bucket; none for a pool that does not listen.
        queues: Vec<Vec<u32>>,
        /// The processes of those pools.
        seen: Vec<AcceptSeen>,
    },
    /// [`Action::Check`] was carried out: whether the new executable can take over, or why not.
    Checked(Result<(), String>),
    /// [`Action::Replace`] could not be carried out, and why.
    NotReplaced(String),
    /// The time that [`super::Master::next_deadline`] named has come.
    Tick,
}

/// Something to do, in the order given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Read the configuration, open what it names (log files, sockets on new addresses), and answer with
    /// [`Event::Prepared`]. All or nothing: a refusal leaves no trace.
    Prepare,
    /// The same with the configuration in force.
    PrepareAgain,
    /// The same with a configuration that a client has sent.
    PrepareProposed(Asker, Box<Proposal>),
    /// The configuration of this number is in force from now on: close what only earlier ones needed.
    Commit(u64),
    /// The configuration of this number will not be used: close what only it needed.
    Abandon(u64),
    /// Start a worker process. Failure is an [`Event::WorkerExited`].
    SpawnWorker {
        /// The worker process's number.
        generation: u64,
        /// The number of the configuration.
        plan: u64,
        /// Whether a predecessor may send its idle connections.
        adopts: bool,
    },
    /// Start an application process, and tell the worker process with [`ToWorker::SlotStarted`]. Failure is an
    /// [`Event::AppExited`].
    SpawnApp {
        /// Whose it is.
        generation: u64,
        /// The number of the configuration that says how.
        plan: u64,
        /// The process's name for good.
        slot: SlotId,
    },
    /// Start a process that accepts on the sockets of this bucket of its pool. Failure is an [`Event::AppExited`].
    SpawnAccepting {
        /// The number of the configuration that says how.
        plan: u64,
        /// The process's name for good.
        slot: SlotId,
        /// The bucket whose sockets the process gets.
        bucket: u16,
    },
    /// Send this signal to the application process of this epoch.
    StopApp(u64, StopSignal),
    /// Give the channel of an application process to this generation's worker process, which has to know it by this name.
    MoveApp {
        /// Whose it is from now on.
        generation: u64,
        /// The process's name there.
        slot: SlotId,
        /// What it said in HELLO, if it has.
        greeting: Option<Greeting>,
        /// Whether the process is to be given back.
        borrowed: bool,
        /// The worker process that had it goes on using it, over a link.
        linked: bool,
    },
    /// Make a link, so that another worker process may use an application process whose channel this generation's has.
    Share {
        /// Whose it is.
        generation: u64,
        /// The process's name there.
        slot: SlotId,
        /// The worker process that is to use it as well.
        guest: u64,
        /// The process's name there.
        name: SlotId,
        /// What it said in HELLO.
        greeting: Option<Greeting>,
    },
    /// Ask a generation's worker process for the channel of an application process ([`ToWorker::Release`]), with the end of a
    /// link over which it goes on using it; the other end goes with [`Action::MoveApp`].
    HandOn {
        /// Whose it is.
        generation: u64,
        /// The process's name there.
        slot: SlotId,
    },
    /// The channel of the application process of this epoch is of no use any more: close it, so that the process sees its
    /// end.
    CloseChannel(u64),
    /// Make a new channel for an application process whose worker process has died: one end to the process, over its recovery
    /// socket, the other to this generation's worker process, which is to know it by this name.
    RecoverApp {
        /// Whose it is from now on.
        generation: u64,
        /// The process's name there.
        slot: SlotId,
    },
    /// Send a message to a worker process.
    Send(u64, ToWorker),
    /// Connect two worker processes by a socket pair: [`ToWorker::Adopt`] to the new, [`ToWorker::Drain`] to the old.
    Handover {
        /// The old one.
        from: u64,
        /// The new one.
        to: u64,
        /// What the old one may take.
        time: DrainTime,
    },
    /// Connect a worker process that drains to the one that has taken over after its successor: [`ToWorker::Adopt`] to
    /// the new, [`ToWorker::Successor`] to the old.
    Succeed {
        /// The old one.
        from: u64,
        /// The new one.
        to: u64,
    },
    /// Have the new executable check itself and the configuration, and answer with [`Event::Checked`].
    Check,
    /// The check is of no interest any more.
    AbandonCheck,
    /// Tell a worker process that the master will be another one soon ([`ToWorker::OrphanMode`]).
    OrphanMode {
        /// The generation of the worker process.
        generation: u64,
        /// How long it may take once it is asked to drain; `None` for one that drains already.
        time: Option<DrainTime>,
    },
    /// The master stays after all: what [`Action::OrphanMode`] has opened is closed.
    CancelOrphanMode,
    /// Replace the executable. If that succeeds, nothing follows; otherwise [`Event::NotReplaced`].
    Replace(Box<InheritedState>),
    /// Tell a worker process that another image of the master has started to go ([`maitred_base::upgrade::GO`]), and connect
    /// it to the one that has taken over, if there is one.
    Go {
        /// The old one.
        from: u64,
        /// The new one.
        to: Option<u64>,
    },
    /// Tell the worker process of the image before why it serves on ([`maitred_base::upgrade::SERVE_ON`]).
    TellOld(String),
    /// `SIGKILL` to the worker process of this generation.
    KillWorker(u64),
    /// `SIGTERM` to the application process of this epoch.
    TerminateApp(u64),
    /// `SIGKILL` to the application process of this epoch.
    KillApp(u64),
    /// Close all listening sockets.
    CloseSockets,
    /// Tell the service manager, and at the first [`Notice::Ready`] also the user who started the server.
    Notify(Notice),
    /// Write to the error log.
    Log(Level, String),
    /// End with this status. The last action.
    Exit(u8),
}

/// A message to the service manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Serving; also the end of a reload.
    Ready,
    /// The end of a reload that was refused, and why: serving as before.
    Refused(String),
    /// A reload has begun.
    Reloading,
    /// What it waits for; told now and then.
    Waiting(String),
    /// Going down.
    Stopping,
}

/// Numbers for the scoreboard's master row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Worker processes started.
    pub generation: u64,
    /// Worker processes that died without being asked to.
    pub worker_crashes: u64,
    /// Reloads carried out.
    pub reloads: u64,
    /// Reloads refused.
    pub reloads_refused: u64,
    /// Whether the last one was refused; 1 or 0.
    #[serde(default)]
    pub reload_refused: u64,
    /// Times that the executable was replaced.
    pub upgrades: u64,
    /// Application processes started.
    pub slots_started: u64,
    /// Application processes that died without being asked to.
    pub slot_crashes: u64,
    /// Application processes that are missing because the last ones died.
    pub slots_delayed: u64,
}

/// What one image of the master leaves to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InheritedState {
    /// The image's counters; generations are counted on.
    pub counts: Counts,
    /// The last epoch that was given out.
    pub epoch_last: u64,
    /// The worker processes that live.
    pub workers: Vec<OldWorker>,
    /// The application processes that live.
    pub apps: Vec<OldApp>,
    /// The names of pools that had no process which was ready: their failure is no fault of the next image.
    #[serde(default)]
    pub down: Vec<String>,
}

/// A worker process of an earlier image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OldWorker {
    /// The generation's number.
    pub generation: u64,
    /// What it does.
    pub duty: Duty,
}

/// What an old worker process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Duty {
    /// The process serves until it is asked to drain. At most one does.
    Serving {
        /// How long it may then take, in milliseconds.
        grace_ms: u64,
    },
    /// The process finishes what it has.
    Draining {
        /// How long it still may take, in milliseconds.
        left_ms: u64,
    },
}

/// An application process of an earlier image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OldApp {
    /// The process's name for good.
    pub epoch: u64,
    /// The process's owner.
    pub owner: Owner,
}

/// The owner of an application process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Owner {
    /// The worker process of this generation, which has its channel.
    Worker(u64),
    /// No worker process: it accepts connections by itself.
    Itself {
        /// The name of its pool.
        pool: String,
        /// What asks it to end.
        signal: StopSignal,
        /// How long it may then take, in milliseconds. The field passes between versions under its first name.
        #[serde(rename = "patience_ms")]
        timeout_ms: u64,
    },
}
