//! What one image of the master leaves to the next, in a sealed memory file: sockets and pipes by their numbers, processes by
//! their ids, and what the machine has to know ([`InheritedState`]).
//!
//! Other processes of the master's account can read that file between execve(2) and the first instructions of the new image, if
//! that account is not root. Secrets of TLS wait in a socket instead, which cannot be opened a second time.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use maitred_sys::{inherit, memfile};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::endpoints::Endpoints;
use super::sockets::Group;
use super::state::events::{InheritedState, OldWorker};
use super::unix_sockets::{self, SocketFile};
use maitred_base::pki::Pair;
use maitred_base::unix_time;
use maitred_base::upgrade::{FORMAT, READS, VARIABLE};
use maitred_config::{Address, AdminAddress};
use maitred_control::SlotId;
use maitred_tls::quic::secrets::Secret;
use maitred_tls::tickets::Seed;

/// The largest upgrade state. A thousand processes and a hundred sockets take a tenth of a megabyte.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Largest secrets: a certificate for the names of a machine has a hundredth of it.
const SECRETS_BYTES_MAX: usize = 128 * 1024;

/// See the module. Numbers of descriptors are those of the process, which stays the same.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct UpgradeState {
    /// [`FORMAT`]
    pub format: u32,
    /// Version of the executable that has packed it.
    pub version: String,
    /// What the machine has to know.
    #[serde(rename = "legacy")]
    pub inherited_state: InheritedState,
    /// Worker processes: generation and process id.
    pub workers: Vec<(u64, u32)>,
    /// Application processes.
    pub apps: Vec<PackedApp>,
    /// Other children that were asked to end, or end by themselves.
    pub others: Vec<u32>,
    /// Sockets of `[[listen]]`.
    pub listens: Vec<PackedGroup>,
    /// Sockets of listen pools.
    pub pools: Vec<PackedGroup>,
    /// What a service manager has passed.
    pub inherited: Vec<PackedGroup>,
    /// A Unix socket that it has passed.
    pub inherited_admin: Option<i32>,
    /// The admin listener.
    pub admin: Option<PackedAdmin>,
    /// The file with the process id.
    pub pid_file: Option<PathBuf>,
    /// Leads to the worker process that serves.
    pub end: Option<i32>,
    /// Standard error as it was at the very start.
    pub stderr: Option<i32>,
    /// The limit on open files at the very start: soft and hard.
    pub open_files: (Option<u64>, Option<u64>),
    /// When the master was started, in Unix time.
    pub started_at: u64,
    /// Where keys of session tickets come from. In the file stands another one, for executables that know nothing of `secrets`.
    pub tickets: Seed,
    /// The certificate that this server has made for itself; not in the file.
    pub self_signed: Option<Pair>,
    /// A socket in which [`Secrets`] wait, as one message.
    #[serde(default)]
    pub secrets: Option<i32>,
    /// Tables of limits by client, by name.
    #[serde(default)]
    pub limits: Vec<(String, i32)>,
    /// The index of the cache, and the directory that it is about.
    #[serde(default)]
    pub cache: Option<(PathBuf, i32)>,
    /// What is known of the last minutes, for the status.
    #[serde(default)]
    pub history: Option<i32>,
    /// The Unix sockets of listen entries. Apart from `listens`, for executables that know only IP addresses there.
    #[serde(default)]
    pub unix: Vec<PackedUnix>,
    /// Likewise, of `inherited`.
    #[serde(default)]
    pub inherited_unix: Vec<PackedUnix>,
    /// The UDP sockets of listen entries, in the order of each group. Apart from `listens`, for executables that know only
    /// listening sockets.
    #[serde(default)]
    pub datagrams: Vec<PackedGroup>,
    /// What connection ids and the like of QUIC are made with; not in the file. An executable that knows nothing of QUIC leaves
    /// none.
    #[serde(skip)]
    pub datagram_secret: Option<Secret>,
    /// What is known of the servers of pools besides the configuration.
    #[serde(default)]
    pub endpoints: Endpoints,
}

/// What must not stand in a file that others may see.
#[derive(Debug, Serialize, Deserialize)]
struct Secrets {
    tickets: Seed,
    self_signed: Option<Pair>,
    #[serde(default)]
    datagrams: Option<Secret>,
}

/// An application process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PackedApp {
    /// The process's name.
    pub slot: SlotId,
    /// The generation that it works for.
    pub generation: u64,
    /// The process's id.
    pub pid: u32,
    /// What it writes: the name that is logged with it, and the pipe.
    pub output: Option<(String, i32)>,
}

/// A [`Group`].
#[derive(Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in `Group`")]
pub(crate) struct PackedGroup {
    pub asked: Address,
    pub local: Address,
    pub buckets: Vec<i32>,
    pub inherited: bool,
}

/// A [`Group`] of a Unix socket, with its file, if this server has made that: path, device and inode.
#[derive(Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in `Group`")]
pub(crate) struct PackedUnix {
    pub path: PathBuf,
    pub socket: i32,
    pub file: Option<(PathBuf, u64, u64)>,
}

/// An [`super::admin::AdminListener`].
#[derive(Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in `AdminListener`")]
pub(crate) struct PackedAdmin {
    pub asked: AdminAddress,
    pub local: Option<SocketAddr>,
    pub socket: i32,
    pub file: Option<(PathBuf, u64, u64)>,
}

/// Collects the descriptors that are to stay open.
#[derive(Debug, Default)]
pub(crate) struct Packer<'a> {
    keep: Vec<BorrowedFd<'a>>,
}

impl<'a> Packer<'a> {
    /// Takes one along; gives back its number.
    pub(crate) fn add(&mut self, descriptor: BorrowedFd<'a>) -> i32 {
        self.keep.push(descriptor);
        descriptor.as_raw_fd()
    }

    /// Takes groups along.
    pub(crate) fn groups(&mut self, groups: impl IntoIterator<Item = &'a Group>) -> Vec<PackedGroup> {
        let pack = |group: &'a Group| PackedGroup {
            asked: group.asked.clone(),
            local: group.local.clone(),
            buckets: group.buckets.iter().map(|bucket| self.add(bucket.as_fd())).collect(),
            inherited: group.inherited,
        };
        groups.into_iter().filter(|group| group.local.inet().is_some()).map(pack).collect()
    }

    /// Takes Unix sockets along.
    pub(crate) fn unix(&mut self, groups: &'a [Group]) -> Vec<PackedUnix> {
        let mut pack = |group: &'a Group| {
            let socket = self.add(group.buckets.first()?.as_fd());
            let file = group.file.as_deref().map(SocketFile::parts);
            Some(PackedUnix { path: group.local.path()?.to_owned(), socket, file })
        };
        groups.iter().filter(|group| group.local.path().is_some()).filter_map(&mut pack).collect()
    }

    /// All of them.
    pub(crate) fn keep(&self) -> &[BorrowedFd<'a>] {
        &self.keep
    }
}

impl UpgradeState {
    /// Writes it; the variable of the environment that says where goes with the memory file.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn seal(&self) -> io::Result<(OwnedFd, String)> {
        let file = memfile::sealed("maitred-upgrade", &serde_json::to_vec(self)?)?;
        let place = format!("{}:{}", std::process::id(), file.as_raw_fd());
        Ok((file, place))
    }

    /// Takes the secrets out, into a socket that the new image has to get, too.
    ///
    /// # Errors
    /// What socketpair(2) or send(2) say.
    pub(crate) fn hide_secrets(&mut self) -> io::Result<OwnedFd> {
        let other =
            Seed::new(unix_time::secs()).map_err(|_| io::Error::other("there are no random numbers"))?;
        let tickets = std::mem::replace(&mut self.tickets, other);
        let (self_signed, datagrams) = (self.self_signed.take(), self.datagram_secret.take());
        let secrets = Secrets { tickets, self_signed, datagrams };
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut text = Zeroizing::new(Vec::with_capacity(SECRETS_BYTES_MAX));
        serde_json::to_writer(&mut *text, &secrets)?;
        if text.len() > SECRETS_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        rustix::net::send(&ours, &text, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        self.secrets = Some(theirs.as_raw_fd());
        Ok(theirs)
    }

    /// Puts back what [`UpgradeState::hide_secrets`] took out.
    fn take_secrets(&mut self) -> Result<(), String> {
        let Some(number) = self.secrets.take() else { return Ok(()) };
        let socket = Unpacker::take(number)?;
        let mut room = Zeroizing::new(vec![0; SECRETS_BYTES_MAX]);
        let received = rustix::net::recv(&socket, &mut **room, RecvFlags::DONTWAIT);
        let (length, _) = received.map_err(|error| format!("secrets: {error}"))?;
        let text = room.get(..length).unwrap_or_default();
        let Secrets { tickets, self_signed, datagrams } =
            serde_json::from_slice(text).map_err(|error| format!("secrets: {error}"))?;
        (self.tickets, self.self_signed, self.datagram_secret) = (tickets, self_signed, datagrams);
        Ok(())
    }

    /// What the image before this one has left, if there was one. Call it once, early.
    ///
    /// # Errors
    /// A text when there is something that cannot be used.
    pub(crate) fn find() -> Result<Option<UpgradeState>, String> {
        let Some(place) = std::env::var_os(VARIABLE) else { return Ok(None) };
        let place = place.to_string_lossy().into_owned();
        let parsed = place
            .split_once(':')
            .and_then(|(pid, number)| Some((pid.parse::<u32>().ok()?, number.parse::<i32>().ok()?)));
        let Some((pid, number)) = parsed else {
            return Err(format!("environment: {VARIABLE}={place:?} makes no sense; remove it"));
        };
        if pid != std::process::id() {
            // The state is for another process, as with `LISTEN_PID`.
            return Ok(None);
        }
        let failed = |error: &dyn std::fmt::Display| format!("what the executable before has left: {error}");
        let file = inherit::take(number).map_err(|error| failed(&error))?;
        let bytes = memfile::read(file, BYTES_MAX).map_err(|error| failed(&error))?;
        let mut upgrade_state = UpgradeState::from_bytes(&bytes).map_err(|error| failed(&error))?;
        upgrade_state.take_secrets().map_err(|error| failed(&error))?;
        Ok(Some(upgrade_state))
    }

    /// Removes from the machine's state the processes that do not exist here. A process that does not exist here has been
    /// reaped, and the event that says so ends with this image: the next one would wait for its end for ever. Nor would that
    /// image ever receive the end of a channel to an external server, which ends with the worker process that has it.
    pub(crate) fn leave_out_the_gone(&mut self) {
        let (workers, apps) = (&self.workers, &self.apps);
        let lives = |old: &OldWorker| workers.iter().any(|(generation, _)| *generation == old.generation);
        self.inherited_state.workers.retain(lives);
        self.inherited_state.apps.retain(|old| apps.iter().any(|app| app.slot.epoch == old.epoch));
    }

    fn from_bytes(bytes: &[u8]) -> Result<UpgradeState, String> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let Version { format } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if !READS.contains(&format) {
            return Err(format!("it has format {format}, and this executable reads {READS:?}"));
        }
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    /// An empty one, to be filled.
    pub(crate) fn new(inherited_state: InheritedState, tickets: Seed) -> UpgradeState {
        UpgradeState {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            inherited_state,
            workers: Vec::new(),
            apps: Vec::new(),
            others: Vec::new(),
            listens: Vec::new(),
            pools: Vec::new(),
            inherited: Vec::new(),
            inherited_admin: None,
            admin: None,
            pid_file: None,
            end: None,
            stderr: None,
            open_files: (None, None),
            started_at: 0,
            tickets,
            self_signed: None,
            secrets: None,
            limits: Vec::new(),
            cache: None,
            history: None,
            unix: Vec::new(),
            inherited_unix: Vec::new(),
            datagrams: Vec::new(),
            datagram_secret: None,
            endpoints: Endpoints::default(),
        }
    }
}

/// Takes descriptors out of the upgrade state; several may have packed the same.
#[derive(Debug, Default)]
pub(crate) struct Unpacker {
    shared: BTreeMap<i32, Rc<OwnedFd>>,
}

impl Unpacker {
    /// The descriptor of this number, which no other part has packed.
    ///
    /// # Errors
    /// As [`inherit::take`], in words.
    pub(crate) fn take(number: i32) -> Result<OwnedFd, String> {
        inherit::take(number).map_err(|error| format!("what the executable before has left: {error}"))
    }

    /// Groups, each socket once however many groups have it.
    ///
    /// # Errors
    /// As [`Unpacker::take`].
    pub(crate) fn groups(&mut self, packed: Vec<PackedGroup>) -> Result<Vec<Group>, String> {
        packed.into_iter().map(|group| self.group(group)).collect()
    }

    /// Unix sockets. A socket that was passed by a service manager may be in use as well.
    ///
    /// # Errors
    /// As [`Unpacker::take`].
    pub(crate) fn unix(&mut self, packed: Vec<PackedUnix>) -> Result<Vec<Group>, String> {
        let unpack = |PackedUnix { path, socket, file }| {
            let inherited = file.is_none();
            let socket = self.socket(socket)?;
            // Of one that an older executable has left, only the socket itself says it.
            let path = if path.as_os_str().is_empty() { unix_sockets::path_of(&socket)? } else { path };
            let file = file.map(|file| Rc::new(SocketFile::left(file)));
            let local = Address::Unix(path);
            Ok(Group { asked: local.clone(), local, buckets: vec![socket], inherited, file })
        };
        packed.into_iter().map(unpack).collect()
    }

    fn socket(&mut self, number: i32) -> Result<Rc<OwnedFd>, String> {
        let socket = match self.shared.get(&number) {
            Some(socket) => Rc::clone(socket),
            None => Rc::new(Unpacker::take(number)?),
        };
        self.shared.insert(number, Rc::clone(&socket));
        Ok(socket)
    }

    fn group(&mut self, packed: PackedGroup) -> Result<Group, String> {
        let PackedGroup { asked, local, buckets, inherited } = packed;
        let mut sockets = Vec::with_capacity(buckets.len());
        for number in buckets {
            sockets.push(self.socket(number)?);
        }
        Ok(Group { asked, local, buckets: sockets, inherited, file: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upgrade_state() -> UpgradeState {
        UpgradeState::new(InheritedState::default(), Seed::new(1_800_000_000).unwrap())
    }

    #[test]
    fn what_is_packed_is_read() {
        let (mut packed, file) = (upgrade_state(), std::fs::File::open("/dev/null").unwrap());
        let mut packer = Packer::default();
        let local: Address = "127.0.0.1:80".parse().unwrap();
        let (asked, buckets) = (local.clone(), vec![Rc::new(file.into())]);
        let group = Group { asked, local: local.clone(), buckets, inherited: true, file: None };
        packed.listens = packer.groups([&group]);
        packed.datagrams = packer.groups([&group]);
        packed.workers = vec![(3, 77)];
        let read = UpgradeState::from_bytes(&serde_json::to_vec(&packed).unwrap()).unwrap();
        assert_eq!((read.workers, &read.listens[0].local), (vec![(3, 77)], &local));
        assert_eq!(read.listens[0].buckets, [packer.keep()[0].as_raw_fd()]);
        assert_eq!(
            (&read.datagrams[0].local, &read.datagrams[0].buckets),
            (&local, &read.listens[0].buckets)
        );
        assert_eq!(read.tickets, packed.tickets);
    }

    #[test]
    fn secrets_are_in_a_socket_and_not_in_the_file() {
        let mut packed = upgrade_state();
        let bytes = |text: &[u8]| maitred_base::pki::Bytes(text.to_vec());
        packed.self_signed = Some(Pair { chain: vec![bytes(b"public")], key: bytes(b"private"), ocsp: None });
        packed.datagram_secret = Some(Secret::new().unwrap());
        let (tickets, self_signed) = (packed.tickets.clone(), packed.self_signed.clone());
        let datagrams = packed.datagram_secret.clone();
        let digits = serde_json::to_string(&datagrams).unwrap();
        let socket = packed.hide_secrets().unwrap();
        // Packed sockets are not close-on-exec, which is how those that were left are recognised.
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::empty()).unwrap();
        let _ = std::os::fd::IntoRawFd::into_raw_fd(socket);
        let text = serde_json::to_string(&packed).unwrap();
        assert_eq!(packed.self_signed, None);
        assert!(!text.contains(digits.trim_matches('"')));
        assert_ne!(packed.tickets, tickets);
        let mut read = UpgradeState::from_bytes(text.as_bytes()).unwrap();
        read.take_secrets().unwrap();
        assert_eq!((read.tickets, read.self_signed), (tickets, self_signed));
        assert_eq!(read.datagram_secret, datagrams);
    }

    #[test]
    fn who_was_reaped_in_the_last_moment_is_not_bequeathed() {
        use crate::state::events::{Duty, OldApp, Owner};
        let mut packed = upgrade_state();
        let worker = |generation| OldWorker { generation, duty: Duty::Draining { left_ms: 1 } };
        packed.inherited_state.workers = vec![worker(1), worker(2)];
        packed.inherited_state.apps =
            [7, 8, 9].map(|epoch| OldApp { epoch, owner: Owner::Worker(epoch % 2 + 1) }).to_vec();
        packed.workers = vec![(2, 77)];
        let slot = SlotId { pool: 0, slot: 0, epoch: 8 };
        packed.apps = vec![PackedApp { slot, generation: 1, pid: 78, output: None }];
        packed.leave_out_the_gone();
        assert_eq!(packed.inherited_state.workers, [worker(2)]);
        assert_eq!(packed.inherited_state.apps, [OldApp { epoch: 8, owner: Owner::Worker(1) }]);
    }

    /// As the first executable of format 1 has written it.
    const FORMAT_1: &str = r#"{"format":1,"version":"0.1.0","legacy":{"counts":{"generation":2,"worker_crashes":0,
        "reloads":1,"reloads_refused":0,"upgrades":0,"slots_started":1,"slot_crashes":0,"slots_delayed":0},"epoch_last":8,
        "workers":[{"generation":1,"duty":{"Draining":{"left_ms":5}}},{"generation":2,"duty":{"Serving":{"grace_ms":6}}}],
        "apps":[{"epoch":7,"owner":{"Worker":2}},
        {"epoch":8,"owner":{"Itself":{"pool":"web","signal":"Int","patience_ms":9}}}]},
        "workers":[[1,77],[2,78]],
        "apps":[{"slot":{"pool":0,"slot":0,"epoch":7},"generation":2,"pid":79,"output":["web/0",21]}],
        "others":[80],
        "listens":[{"asked":"127.0.0.1:80","local":"127.0.0.1:80","buckets":[5,6],"inherited":false}],"pools":[],
        "inherited":[],"inherited_admin":4,
        "admin":{"asked":{"Unix":"/run/m.sock"},"local":null,"socket":7,"file":["/run/m.sock",1,2]},
        "pid_file":"/run/m.pid","end":8,"stderr":9,"open_files":[1024,null],"started_at":0,
        "tickets":{"epoch":41665,"chain":"f74ef8d103858e3742a91af2135e66bcccda9a669dbeffb7bf1624c892feef31"},
        "self_signed":{"chain":["0102"],"key":"03","ocsp":null}}"#;

    /// Whatever is added to a format has a default, and nothing is taken away: otherwise an executable that says it reads the
    /// format ends the server, after the point where it could be refused.
    #[test]
    fn what_the_first_of_this_format_has_written_is_read_and_still_written() {
        let read = UpgradeState::from_bytes(FORMAT_1.as_bytes()).unwrap();
        let written = serde_json::to_value(&read).unwrap();
        let first: serde_json::Value = serde_json::from_str(FORMAT_1).unwrap();
        assert!(contains(&written, &first), "{written:#}");
    }

    /// Whether `all` has everything that `part` has; fields may have been added.
    fn contains(all: &serde_json::Value, part: &serde_json::Value) -> bool {
        use serde_json::Value;
        match (all, part) {
            (Value::Object(all), Value::Object(part)) => {
                part.iter().all(|(key, value)| all.get(key).is_some_and(|found| contains(found, value)))
            }
            (Value::Array(all), Value::Array(part)) => {
                all.len() == part.len() && all.iter().zip(part).all(|(all, part)| contains(all, part))
            }
            _ => all == part,
        }
    }

    #[test]
    fn another_format_is_refused_before_anything_else_is_read() {
        let error = UpgradeState::from_bytes(br#"{"format": 999}"#).unwrap_err();
        assert!(error.contains("format 999"), "{error}");
        assert!(UpgradeState::from_bytes(b"nonsense").is_err());
    }
}
