//! What master and worker process say to each other, and which descriptors a worker process inherits.
//!
//! The control socket is `SOCK_SEQPACKET`: one message, one packet, JSON, at most one descriptor with it. End of file
//! means that the other side died. The start document can be larger than a packet and comes as a sealed memory file.
//!
//! No secret is among what a process inherits: between execve(2) and its first instructions, other processes of its account may
//! look at its descriptors. Keys follow when it has said that this is over ([`FromWorker::Private`]).
//!
//! | module | what it holds |
//! |---|---|
//! | [`challenges`] | the answers to challenges of ACME, in a worker process |
//! | [`servers`] | the servers of a pool, as the master sends them |
//! | [`affinity`] | CPUs: what may be used, which thread is pinned where, and when it is unpinned |
//! | [`modules`] | in-process modules, as they are loaded |

pub mod affinity;
pub mod challenges;
pub mod modules;
pub mod servers;

use std::net::SocketAddr;

use maitred_sys::spawn::Account;
use serde::{Deserialize, Serialize};

use self::servers::{ServerList, UpstreamCommand};
use maitred_base::pki::{Bytes, Pair};
use maitred_config::{Address, Config, Identity};

/// Descriptor of the control socket in a worker process.
pub const CONTROL_FD: i32 = 3;
/// Descriptor of the memory file that holds [`Start`] as JSON.
pub const START_FD: i32 = 4;
/// Descriptor of the scoreboard's memory file (`maitred_status::scoreboard`).
pub const SCOREBOARD_FD: i32 = 5;
/// First of the descriptors that [`Start::descriptors`] describes, in its order.
pub const FIRST_LISTED_FD: i32 = 6;
/// Largest message on the control socket, in bytes; what is larger is a bug.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// The start document of a worker process: all of its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Number of this worker process, counted from 1 over the master's life; the scoreboard shows it.
    pub generation: u64,
    /// The account that it changes to; `None` if it stays what it is.
    pub account: Option<RunAs>,
    /// The account of the master, who may command by the admin socket.
    pub master_uid: u32,
    /// What commands by a TCP admin address have to say; `None` if there are none.
    pub admin_token: Option<Bytes>,
    /// What to do.
    pub config: Config,
    /// One entry per event-loop thread: the CPU that it is pinned to at first.
    pub threads: Vec<Option<u16>>,
    /// How these CPUs were chosen ([`crate::affinity::plan::Plan::why`]), for the status page.
    pub affinity_why: String,
    /// CPUs that the master may use (its inherited mask), ascending: what adaptive affinity may move to.
    pub usable_cpus: Vec<u16>,
    /// Whether `SO_REUSEPORT` was found to work.
    pub reuseport: bool,
    /// One per pool: where the sockets of a listen pool are bound, and how many buckets share them.
    pub pool_addresses: Vec<(Vec<SocketAddr>, u16)>,
    /// What the inherited descriptors are, from [`FIRST_LISTED_FD`] on.
    pub descriptors: Vec<Descriptor>,
    /// Whether an access log on standard output goes to a terminal.
    pub terminal: bool,
    /// Whether the kernel could encrypt TLS (`maitred_tls::ktls`), in words; empty without TLS.
    pub ktls: String,
    /// Whether a predecessor may send its idle connections ([`ToWorker::Adopt`] will come).
    pub adopts: bool,
    /// Challenges of automatic certificates that are under way.
    pub challenges: Vec<Challenge>,
    /// How automatic certificates stand.
    pub certificate_reports: Vec<Report>,
    /// The servers of pools, where they are others than the configuration's.
    #[serde(default)]
    pub servers: Vec<ServerList>,
    /// Modules that are turned off, by their numbers.
    #[serde(default)]
    pub modules_off: Vec<usize>,
}

/// An account, by numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in passwd(5) and group(5)")]
pub struct RunAs {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

impl From<&Account> for RunAs {
    fn from(account: &Account) -> RunAs {
        RunAs { uid: account.uid(), gid: account.gid(), groups: account.groups().to_vec() }
    }
}

/// The account of a process that is not to have the one of the process that starts it; `None` if it has to.
///
/// # Errors
/// What looking up its groups says.
pub fn account(user: Option<&Identity>) -> std::io::Result<Option<Account>> {
    let user = user.filter(|_| rustix::process::geteuid().is_root());
    user.map(|user| Account::new(&user.name, user.uid, user.gid)).transpose()
}

impl RunAs {
    /// Has this process run as it from now on. The process that started it did not, so that nothing of this account could reach
    /// it in between.
    ///
    /// # Errors
    /// What the system says; the process has to end then.
    pub fn assume(self) -> std::io::Result<()> {
        Account::of(self.uid, self.gid, self.groups).assume()?;
        // The change has set it to `fs.suid_dumpable` (proc_sys_fs(5)), which may allow others to look.
        maitred_base::sandbox::hide()
    }
}

/// What one inherited descriptor is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Descriptor {
    /// A listening socket: bucket `bucket` of `buckets` of entry `listen` of the configuration's `listens`.
    Bucket {
        /// Index into `Config::listens`.
        listen: usize,
        /// The number of the bucket.
        bucket: u16,
        /// How many there are.
        buckets: u16,
        /// Where it is really bound (the port, if 0 was asked for).
        local: Address,
    },
    /// A UDP socket for QUIC: number `socket` of `sockets` of entry `listen` of the configuration's `listens`.
    Datagrams {
        /// Index into `Config::listens`.
        listen: usize,
        /// The number of the socket in its group, by which the kernel gives it datagrams (`maitred_tls::quic::ids`).
        socket: u16,
        /// How many there are.
        sockets: u16,
        /// Where it is really bound.
        local: SocketAddr,
    },
    /// The admin listener.
    Admin,
    /// Where access-log lines go.
    AccessLog {
        /// Index into `Config::access_logs`; `None` is that of `[log]`.
        number: Option<usize>,
    },
    /// The table of a limit by client ([`maitred_base::rates::Table`]).
    Limit {
        /// Index into `Config::client_limits`.
        limit: usize,
    },
    /// The index of the cache (`maitred_cache::Table`).
    Cache,
    /// What is known of the last minutes (`maitred_status::history`).
    History,
    /// Where the session secrets of this listener are written.
    KeyLog {
        /// Index into `Config::listens`.
        listen: usize,
    },
}

/// One application process, named for good: `epoch` differs each time the slot is filled anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SlotId {
    /// Index into `Config::pools`.
    pub pool: u16,
    /// Slot of the pool.
    pub slot: u16,
    /// Which process in that slot.
    pub epoch: u64,
}

/// An application process as a worker process gets to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The process id, to show.
    pub pid: u32,
    /// What it said in HELLO, if another worker process has received that before.
    pub greeting: Option<Greeting>,
    /// Whether the process is to be given back as soon as no request waits for it ([`ToWorker::Release`]).
    #[serde(rename = "lent")]
    pub borrowed: bool,
    /// Another worker process has handed its channel over, and says over a link what is under way ([`ToWorker::Link`]).
    pub linked: bool,
    /// Another worker process has its channel: the descriptor is a link to that one, which says first how to use it
    /// ([`ToWorker::Guest`]).
    pub guest: bool,
}

/// From the worker process to the master. After an upgrade older worker processes speak with the new master, so that names on the
/// wire stay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// No other process of this account can reach this one's memory or descriptors any more: it may be given the keys of TLS
    /// ([`ToWorker::Certificates`]), for which it waits before it is ready.
    Private,
    /// All threads accept.
    Ready,
    /// The application process has said HELLO.
    SlotReady(SlotId, Greeting),
    /// The application process has said how many files it may have open.
    SlotLimits(SlotId, u32),
    /// The application process has said that it takes bodies while they come.
    SlotStreams(SlotId),
    /// The worker process has released the application process's channel, as [`ToWorker::Release`] asked. Nothing is under way
    /// on it; or, if `true`, that goes on over the link that came with the order.
    SlotReleased(SlotId, bool),
    /// Nothing is under way any more at an application process that was to be retired, and it was asked to end.
    SlotDismissed(SlotId),
    /// Requests of this pool wait because no application process has room. A hint to look at the pool at once.
    #[serde(rename = "Pressed")]
    QueuePressure(u16),
    /// The channel to the application process broke, or it broke the protocol; replace the process.
    SlotLost(SlotId, String),
    /// The application process has closed its channel, so it is about to exit; one that is not has to be made to.
    SlotClosed(SlotId),
    /// A client sent a command to the admin address; answered with [`ToWorker::CommandDone`] of the same number.
    Command(u64, Command),
    /// A piece of the text that the next [`ConfigCommand::Put`] is about; one message has not room for all of it.
    ConfigPiece(String),
    /// The challenge of this number is answered from now on.
    ChallengeInPlace(u64),
    /// A client has asked for this name, which has no certificate yet, but may have one on demand.
    NameWanted(String),
    /// A token has named a key that this set of the configuration has not: its source is to be fetched anew.
    KeyWanted(usize),
    /// The process ends before it is ready: why.
    CannotRun(String),
    /// A module does not come back: its number. The process is to be ended.
    ModuleHangs(usize),
    /// The master may go ([`ToWorker::OrphanMode`]).
    Outlives,
}

/// The scoreboard row of an application slot, if the file has one for it: one pool after the other.
pub fn slot_row(config: &Config, id: SlotId) -> Option<usize> {
    let pools = config.pools.iter().take(usize::from(id.pool));
    let before: usize = pools.map(|pool| usize::from(pool.workers.slots())).sum();
    let row = before + usize::from(id.slot);
    (row < maitred_base::bounds::SLOTS_MAX).then_some(row)
}

/// Something that is to be answered while the authority looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// The number of the challenge, counted over the agent's life.
    pub serial: u64,
    /// The name that is validated.
    pub name: String,
    /// How.
    pub answer: Answer,
}

impl Challenge {
    /// In the form that is sent to a worker process.
    pub fn for_worker(&self) -> Challenge {
        let answer = match &self.answer {
            Answer::TlsAlpn(_) => Answer::InHandshakes,
            other => other.clone(),
        };
        Challenge { serial: self.serial, name: self.name.clone(), answer }
    }
}

/// How a challenge is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// `/.well-known/acme-challenge/TOKEN` has this content (RFC 8555 section 8.3).
    Http {
        /// The last part of the path.
        token: String,
        /// What is there.
        key_authorization: String,
    },
    /// A TLS handshake for the name, with the protocol `acme-tls/1`, gets this certificate (RFC 8737 section 3).
    TlsAlpn(Pair),
    /// The same in the form that is sent to a worker process: the certificate and its key come with all others
    /// (`maitred_tls::material::Material::challenges`).
    InHandshakes,
}

/// How a site's certificate stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The site.
    pub name: String,
    /// When the certificate that is there ends, in seconds of Unix time.
    pub not_after: Option<u64>,
    /// When it is going to be renewed.
    pub renew_at: Option<u64>,
    /// When the next order may begin, if the last one failed.
    pub retry_at: Option<u64>,
    /// Why the last order failed.
    pub error: Option<String>,
    /// How many orders in a row have failed.
    #[serde(default)]
    pub failures: u32,
}

/// What an application process said in HELLO.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// How many requests it takes at a time.
    pub capacity: u32,
    /// Whether the process takes one descriptor per message, and only stream sockets.
    pub sockets_only: bool,
    /// How many files it may have open, if it has said so.
    #[serde(default)]
    pub open_files: Option<u32>,
    /// Whether the process takes bodies while they come.
    #[serde(default)]
    pub streams: bool,
    /// Whether the process waits for another channel when its worker process dies.
    pub recovers: bool,
    /// The adapter's name.
    pub name: String,
}

/// What the admin address can ask of the master.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// As `SIGHUP`.
    Reload,
    /// As `SIGTERM`.
    Stop,
    /// As `SIGUSR2`.
    Upgrade,
    /// Something about the pool of this name.
    Pool(String, PoolCommand),
    /// Something about the servers of the pool of this name.
    Upstream(String, UpstreamCommand),
    /// Something about the configuration itself.
    Config(ConfigCommand),
}

/// What can be asked about the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigCommand {
    /// The text of the file that is in force.
    Show,
    /// Put the text that came in [`FromWorker::ConfigPiece`]s before this in force, and in the place of the file.
    Put {
        /// Only if the text in force has one of these entity tags; if there are none, whatever it has.
        expected: Vec<String>,
    },
}

/// The answer to a command, with its status and type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// The status code of the response.
    pub status: u16,
    /// The media type of the text.
    pub content_type: String,
    /// The entity tag of the text, with its quotes.
    pub etag: Option<String>,
    /// The body of the response.
    pub text: String,
}

impl Document {
    /// The largest document in the form that is sent, in bytes: a configuration of the largest size, escaped.
    pub const BYTES_MAX: u64 = 16 * 1024 * 1024;

    /// JSON, with status 200.
    pub fn json(value: &serde_json::Value) -> Document {
        let (content_type, text) = ("application/json".to_owned(), format!("{value:#}\n"));
        Document { status: 200, content_type, etag: None, text }
    }
}

/// What can be done with a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolCommand {
    /// Replace all its processes, each by a new one that is ready.
    Restart,
    /// The same, once so many new ones have been tried beside the others.
    Canary(u16),
    /// Let the process in this slot finish, and end it.
    Drain(u16),
    /// Keep this many processes, until the next reload.
    Scale(u16),
}

/// How long a worker process that drains may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainTime {
    /// For a connection without a request under way, in milliseconds.
    pub grace_ms: u64,
    /// For requests that are under way; `None` is without a limit.
    pub streams_ms: Option<u64>,
}

impl DrainTime {
    /// Everything is over after so many milliseconds.
    pub fn bounded(grace_ms: u64) -> DrainTime {
        DrainTime { grace_ms, streams_ms: Some(grace_ms) }
    }
}

/// A log that is a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogFile {
    /// The file of `access_file`.
    Access,
    /// The file of the `[access_log.NAME]` of this place in the configuration.
    Named(usize),
    /// The file of `error_file`.
    Errors,
}

/// From the master to a worker process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// An application process; its channel (a stream socket) comes along as the descriptor.
    SlotStarted(SlotId, Started),
    /// Give this application process no more requests, have it finish what it has, and then end.
    Retire(SlotId),
    /// Release this application process's channel as soon as nothing is under way on it, and say
    /// [`FromWorker::SlotReleased`]. If `true`, it gets no more requests until then. With a descriptor: at once, whatever is
    /// under way, which goes on over that (`maitred_worker::handoff::link`).
    Release(SlotId, bool),
    /// The application process of the next [`ToWorker::SlotStarted`] of that name is used by others, too: the descriptor that
    /// comes along is the link to the one that had it before.
    Link(SlotId),
    /// A worker process in which requests wait is to use this application process as well: the descriptor that comes along is the
    /// link to it.
    Guest(SlotId),
    /// Why this pool has no application process and cannot start one; `None` when it can again.
    Trouble(u16, Option<String>),
    /// What the last process of this pool has said before it ended. Only of a server that was started by one line, for the person
    /// at this machine: clients elsewhere must not see it.
    LastWords(u16, String),
    /// The application process has exited, with what wait(2) said in words.
    SlotExited(SlotId, String),
    /// Stop accepting, finish what is there within that time, and exit. With a descriptor: send idle
    /// keep-alive connections over it (`maitred_worker`'s handover) first.
    Drain(DrainTime),
    /// To one that drains: what is left is aborted after so many milliseconds.
    Hurry(u64),
    /// Another worker process has taken over meanwhile: the descriptor that comes along leads there.
    Successor,
    /// The descriptor that comes along brings the idle connections of the predecessor, which is that generation. The message is
    /// only sent by the master that has started this process, so that it can change with the version.
    Adopt(u64),
    /// The descriptor that comes along is a memory file with new keys of TLS (`maitred_tls::material::Material`).
    Certificates,
    /// The descriptor that comes along is a memory file with the keys of this set of the configuration, as JSON.
    KeySet(usize),
    /// The descriptor that comes along is a memory file with the users of this file of the configuration, as JSON.
    Users(usize),
    /// The descriptor that comes along is a memory file with the servers that a pool has now ([`ServerList`]).
    Servers,
    /// The application process can be watched, and ended, by the descriptor that comes along (pidfd_open(2)): for the time
    /// after [`ToWorker::OrphanMode`].
    Watch(SlotId),
    /// The master will be another image of itself soon, which starts with nothing on this socket: its end is then no reason to
    /// stop. Answered with [`FromWorker::Outlives`]. With a descriptor: go on serving until [`maitred_base::upgrade::GO`] comes
    /// over it, then do as after [`ToWorker::Drain`] with that time. Without one: go on draining.
    #[serde(rename = "Outlive")]
    OrphanMode(DrainTime),
    /// What the command of this number waits for. More follows, or its end.
    CommandWaits(u64, String),
    /// How the command of this number ended: whether well, and a text for the client.
    CommandDone(u64, bool, String),
    /// The same with an answer of any size: the descriptor that comes along is a memory file with it ([`Document`]).
    CommandDocument(u64),
    /// Answer this challenge, and say [`FromWorker::ChallengeInPlace`].
    Challenge(Challenge),
    /// The challenge of this number is over.
    ChallengeOver(u64),
    /// How the automatic certificate of a site stands.
    CertificateReport(Report),
    /// Write this log to the descriptor that comes along, which is its file, opened anew.
    LogFile(LogFile),
    /// The name gets no certificate.
    NameRefused(String),
    /// The name has no certificate as yet, but may be asked for again.
    NameLater(String),
}
