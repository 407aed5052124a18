//! The servers of a pool, as all threads of a worker process have them. The list can change while the process runs.
//!
//! A server has a slot, by which requests and connections name it. The server keeps the slot as long as anything refers to it,
//! also when it is no longer in the list: a slot is given away when no thread has a list with its server, and no connection is
//! open to it.

use std::borrow::Cow;
use std::hash::Hasher as _;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::group::{Group, Member};
use super::line::Line;
use super::server::{Moment, Server};
use maitred_base::bounds::SERVERS_MAX;
use maitred_config::{Address, Balance, Outliers, Upstream};
use maitred_control::servers::{ServerEntry, ServerState};

/// Slots of a pool: servers that were taken out of the list may keep theirs for a while.
const SLOTS_MAX: usize = 2 * SERVERS_MAX;
/// The revision of the list that a table was made with.
const FIRST: u64 = 1;

/// How the servers of a pool are chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Which of those that get requests.
    pub balance: Balance,
    /// How long the share of a server rises that comes while others are there.
    pub slow_start: Duration,
    /// If so many percent of the servers are out by checks or ejections, or fewer than are needed are in, that is not believed.
    pub panic_percent: u8,
    /// When a server is ejected for its responses.
    pub outliers: Option<Outliers>,
    /// What servers are hashed with for cookies that name them, if there are such.
    pub cookie_key: Option<[u64; 2]>,
}

impl Policy {
    /// What a cookie says of a server: the same in all processes, and on all machines with the same key.
    fn token_of(&self, server: &Server) -> u64 {
        let Some([one, two]) = self.cookie_key else { return 0 };
        let mut hasher = siphasher::sip::SipHasher13::new_with_keys(one, two);
        hasher.write_u64(server.identity);
        hasher.finish()
    }
}

/// A server as the list says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Where it listens.
    pub upstream: Upstream,
    /// The share of the server.
    pub weight: u16,
    /// The server gets requests only when all others are out.
    pub backup: bool,
    /// Requests that it may have at a time; `u32::MAX` for any number.
    pub max: u32,
    /// The server gets no new requests.
    pub drains: bool,
    /// The checks of the server fail.
    pub unwell: bool,
}

impl Listed {
    /// A server of which nothing more is said.
    pub fn plain(upstream: Upstream) -> Listed {
        Listed { upstream, weight: 1, backup: false, max: u32::MAX, drains: false, unwell: false }
    }

    /// A server of the master's list.
    pub(crate) fn of(entry: &ServerEntry) -> Listed {
        let upstream = match &entry.address {
            Address::Inet(address) => Upstream::Tcp { name: entry.name.clone(), address: *address },
            Address::Unix(path) => Upstream::Unix(path.clone()),
        };
        Listed {
            weight: entry.weight,
            backup: entry.backup,
            max: entry.max_connections.unwrap_or(u32::MAX),
            drains: entry.state == ServerState::Draining,
            unwell: entry.unwell,
            ..Listed::plain(upstream)
        }
    }
}

/// The servers of one pool.
#[derive(Debug)]
pub struct ServerTable {
    /// How servers are chosen.
    pub policy: Policy,
    /// The first moment that a thread has asked for.
    origin: OnceLock<Instant>,
    /// The revision of the present list.
    revision: AtomicU64,
    present: Mutex<Present>,
    /// Requests under way at all servers, where keys are hashed.
    total: AtomicU32,
    /// Requests that wait because all servers have as many as they may have.
    pub line: Line,
    /// The names of the first list, by slot.
    names: Vec<String>,
}

#[derive(Debug)]
struct Present {
    list: Arc<List>,
    /// Slots of servers that are not in the list any more.
    leaving: Vec<(u16, Weak<Server>)>,
    /// The revision of the master's list.
    told: u64,
}

/// The servers at one moment.
#[derive(Debug)]
pub struct List {
    pub(super) revision: u64,
    /// By slot.
    pub(super) rows: Vec<Option<Row>>,
    /// The servers that get requests: all but the backups, and the backups.
    pub(super) groups: [Group; 2],
    /// Whether each of those takes a limited number of requests, so that all may be full.
    bounded: bool,
}

/// A server in the list.
#[derive(Debug)]
pub struct Row {
    /// What is shared of it.
    pub server: Arc<Server>,
    /// What the list says.
    pub listed: Listed,
    /// What a cookie says of it; 0 if there are none.
    pub token: u64,
}

impl ServerTable {
    /// A pool with these servers, of a list of the master with this number.
    pub fn new(servers: Vec<Listed>, told: u64, policy: Policy) -> ServerTable {
        let empty = List { revision: 0, rows: Vec::new(), groups: Default::default(), bounded: false };
        let present = Present { list: Arc::new(empty), leaving: Vec::new(), told };
        let (revision, total) = (AtomicU64::new(0), AtomicU32::new(0));
        let names = servers.iter().map(|listed| Server::new(listed.upstream.clone()).name()).collect();
        let table = ServerTable {
            policy,
            origin: OnceLock::new(),
            revision,
            present: Mutex::new(present),
            total,
            line: Line::default(),
            names,
        };
        table.replace(servers, None);
        table
    }

    /// The list as it is now.
    pub(crate) fn list(&self) -> Arc<List> {
        Arc::clone(&self.present.lock().unwrap_or_else(PoisonError::into_inner).list)
    }

    /// A list of the master, if it is newer than the present one; what is new in it begins slowly. Gives back how many servers
    /// had no room, if it was taken.
    pub(crate) fn take(&self, told: u64, servers: Vec<Listed>, now: Instant) -> Option<usize> {
        {
            let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
            if told <= present.told {
                return None;
            }
            present.told = told;
        }
        Some(self.replace(servers, Some(now)))
    }

    /// Another list. Servers that were there before stay what they are. `now`: those that are new begin slowly. Gives back how
    /// many had no room.
    fn replace(&self, servers: Vec<Listed>, now: Option<Instant>) -> usize {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let present = &mut *present;
        present.leaving.retain(|(_, server)| server.strong_count() > 0);
        let mut before: Vec<Option<Arc<Server>>> =
            present.list.rows.iter().map(|row| row.as_ref().map(|row| Arc::clone(&row.server))).collect();
        let mut rows: Vec<Option<Row>> = std::iter::repeat_with(|| None).take(SLOTS_MAX).collect();
        let moment = now.map_or(Moment::FIRST, |now| self.moment(now));
        let mut new = Vec::new();
        for listed in servers {
            let is = |server: &Option<Arc<Server>>| {
                server.as_ref().is_some_and(|server| server.upstream == listed.upstream)
            };
            match before.iter().position(is) {
                Some(slot) => {
                    rows[slot] = before[slot].take().map(|server| {
                        server.set_well(!listed.unwell, moment);
                        let token = self.policy.token_of(&server);
                        Row { server, listed, token }
                    });
                }
                None => new.push(listed),
            }
        }
        let gone = before
            .iter()
            .zip(0..)
            .filter_map(|(server, slot)| Some((slot, Arc::downgrade(server.as_ref()?))));
        present.leaving.extend(gone);
        let mut refused = 0;
        for listed in new {
            let is_free = |slot: usize| {
                rows[slot].is_none() && !present.leaving.iter().any(|(taken, _)| usize::from(*taken) == slot)
            };
            let Some(slot) = (0..SLOTS_MAX).find(|slot| is_free(*slot)) else {
                refused += 1;
                continue;
            };
            let server = Arc::new(Server::new(listed.upstream.clone()));
            server.set_well(!listed.unwell, moment);
            if now.is_some() {
                server.begin_service(moment);
            }
            let token = self.policy.token_of(&server);
            rows[slot] = Some(Row { server, listed, token });
        }
        let used = rows.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        rows.truncate(used);
        let revision = present.list.revision + 1;
        present.list = Arc::new(List::new(revision, rows, self.policy.balance == Balance::Hash));
        self.revision.store(revision, Release);
        refused
    }

    /// Forgets what is known of the servers, as if they were new.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        self.list().rows.iter().flatten().for_each(|row| row.server.forget());
    }

    /// The moment of `now`.
    pub(crate) fn moment(&self, now: Instant) -> Moment {
        Moment::of(now, *self.origin.get_or_init(|| now))
    }

    /// The name of a server, also of one that has just gone; empty if nothing refers to it any more.
    pub(crate) fn name(&self, slot: u16) -> Cow<'_, str> {
        if self.is_present(FIRST) {
            return self.names.get(usize::from(slot)).map(String::as_str).unwrap_or_default().into();
        }
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = present.list.row(slot) {
            return row.server.name().into();
        }
        let mut gone = present.leaving.iter().filter(|(taken, _)| *taken == slot);
        gone.find_map(|(_, server)| Some(server.upgrade()?.name())).unwrap_or_default().into()
    }

    /// Whether this is the list of now.
    #[inline]
    pub(super) fn is_present(&self, revision: u64) -> bool {
        self.revision.load(Acquire) == revision
    }

    /// Counts a request at a server of this pool; false if it has as many as it may have.
    pub(crate) fn enter(&self, row: &Row) -> bool {
        self.enter_any(row, row.listed.max)
    }

    fn enter_any(&self, row: &Row, max: u32) -> bool {
        let entered = row.server.enter(max);
        if entered && self.policy.balance == Balance::Hash {
            self.total.fetch_add(1, AcqRel);
        }
        entered
    }

    /// Counts a request at the server that it is at already once more, so that its place is not given to another one between
    /// two connections.
    pub(crate) fn hold(&self, row: &Row) {
        self.enter_any(row, u32::MAX);
    }

    /// A request at a server of this pool has ended.
    pub fn leave(&self, server: &Server) {
        server.leave();
        if self.policy.balance == Balance::Hash {
            self.total.fetch_sub(1, AcqRel);
        }
    }

    /// Requests under way at all servers; counted where keys are hashed.
    pub(super) fn total(&self) -> u32 {
        self.total.load(Relaxed)
    }

    /// Requests that all threads have at each server.
    #[cfg(test)]
    pub(crate) fn loads(&self) -> Vec<u32> {
        self.list().rows().map(|(_, row)| row.server.under_way()).collect()
    }
}

impl List {
    fn new(revision: u64, rows: Vec<Option<Row>>, hashes: bool) -> List {
        let group = |backup: bool| {
            let found = rows.iter().zip(0..).filter_map(|(row, slot)| Some((row.as_ref()?, slot)));
            let found = found.filter(|(row, _)| row.listed.backup == backup && !row.listed.drains);
            let member = |(row, slot): (&Row, u16)| Member {
                slot,
                weight: row.listed.weight.max(1),
                identity: row.server.identity,
            };
            Group::new(found.map(member).collect(), hashes)
        };
        let groups = [group(false), group(true)];
        let members = groups.iter().flat_map(|group| &group.members);
        let mut listed = members.filter_map(|member| rows.get(usize::from(member.slot))?.as_ref());
        let bounded = listed.all(|row| row.listed.max < u32::MAX);
        List { revision, rows, groups, bounded }
    }

    /// Whether all servers that get requests may have as many as they may have.
    pub(crate) fn is_bounded(&self) -> bool {
        self.bounded
    }

    /// Whether a server that gets requests may have one more.
    pub(crate) fn has_place(&self) -> bool {
        let mut members = self.groups.iter().flat_map(|group| &group.members);
        members.any(|member| self.row(member.slot).is_some_and(|row| row.server.has_room(row.listed.max)))
    }

    /// All servers, with their slots.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u16, &Row)> {
        (0..).zip(&self.rows).filter_map(|(slot, row)| Some((slot, row.as_ref()?)))
    }

    /// The server that a cookie names.
    pub(crate) fn slot_of(&self, token: u64) -> Option<u16> {
        self.rows().find_map(|(slot, row)| (row.token == token).then_some(slot))
    }

    /// The server of a slot.
    pub fn row(&self, slot: u16) -> Option<&Row> {
        self.rows.get(usize::from(slot))?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(name: &str) -> Listed {
        Listed::plain(Upstream::Unix(name.into()))
    }

    fn table(names: &[&str]) -> ServerTable {
        let policy = Policy {
            balance: Balance::LeastRequests,
            slow_start: Duration::ZERO,
            panic_percent: 50,
            outliers: None,
            cookie_key: None,
        };
        ServerTable::new(names.iter().map(|name| listed(name)).collect(), 0, policy)
    }

    fn names(list: &List) -> Vec<(u16, String)> {
        list.rows().map(|(slot, row)| (slot, row.server.name())).collect()
    }

    #[test]
    fn a_server_keeps_its_slot_and_what_is_known_of_it() {
        let table = table(&["/a", "/b", "/c"]);
        assert_eq!([0, 2, 3].map(|slot| table.name(slot)), ["/a", "/c", ""]);
        let first = table.list();
        let kept = Arc::clone(&first.row(2).unwrap().server);
        assert!(table.enter(first.row(2).unwrap()));
        table.replace(vec![listed("/c"), listed("/d")], Some(Instant::now()));
        let second = table.list();
        // The slots of those that have gone are not given away while a thread has the list with them.
        assert_eq!(names(&second), [(2, "/c".to_owned()), (3, "/d".to_owned())]);
        assert!(Arc::ptr_eq(&kept, &second.row(2).unwrap().server));
        assert_eq!(second.row(2).unwrap().server.under_way(), 1);
        assert!(table.is_present(second.revision) && !table.is_present(first.revision));
        assert_eq!([0, 2, 3, 9].map(|slot| table.name(slot)), ["/a", "/c", "/d", ""]);
        // A connection to one of them is still open.
        let open = Arc::clone(&first.row(0).unwrap().server);
        drop(first);
        table.replace(vec![listed("/c"), listed("/d"), listed("/e"), listed("/f")], None);
        let third = table.list();
        let expected =
            [(1, "/e"), (2, "/c"), (3, "/d"), (4, "/f")].map(|(slot, name)| (slot, name.to_owned()));
        assert_eq!(names(&third), expected);
        drop((second, open));
        table.replace(vec![listed("/g"), listed("/c")], None);
        assert_eq!(names(&table.list()), [(0, "/g".to_owned()), (2, "/c".to_owned())]);
    }

    #[test]
    fn however_often_the_list_changes_slots_are_bounded() {
        let table = table(&["/a"]);
        let held: Vec<_> = (0..2 * SERVERS_MAX)
            .map(|number| {
                let list = table.list();
                table.replace(vec![listed(&format!("/{number}"))], None);
                list
            })
            .collect();
        assert_eq!(table.replace(vec![listed("/z")], None), 1, "all slots are held");
        assert_eq!(table.list().rows().count(), 0);
        drop(held);
        assert_eq!(table.replace(vec![listed("/z")], None), 0);
        assert_eq!(names(&table.list()), [(0, "/z".to_owned())]);
    }

    #[test]
    fn the_same_address_twice_is_two_servers() {
        let table = table(&["/a", "/a"]);
        assert_eq!(table.list().rows().count(), 2);
        table.replace(vec![listed("/a"), listed("/a")], None);
        assert_eq!(names(&table.list()), [(0, "/a".to_owned()), (1, "/a".to_owned())]);
    }
}
