//! What is known of the last minutes, and of the hour before them, in a memory file of the master: a reload replaces the worker
//! process, and neither charts nor figures begin anew.
//!
//! Every worker process adds what has come since it added last, once a second: two that are there side by side, the one that
//! serves and one that finishes what it has, count together. Time is the machine's monotonic clock, which all of them share. Time
//! is cut into periods; each has a [place](Slice) in a ring, which is emptied by the process that comes first with a new period.
//!
//! | what | of | period | for |
//! |---|---|---|---|
//! | charts | the server | 1 s | [`HISTORY_SECS_MAX`] |
//! | latency | each route, each pool | 10 s | 5 minutes |
//! | latency | each pool | 60 s | the hour before these |
//!
//! A row belongs to a route or a pool by its key, a hash of its name. The master alone sets keys: before it starts a worker
//! process ([`HistoryFile::settle`]), and when a configuration has come into force: that frees the rows of what is gone.
//! A process that still counts for one of those finds another key, and its counts are dropped. There are twice as many rows as a
//! configuration needs. All of the file are 4.5 MB; what no row uses takes no memory.
//!
//! As in the scoreboard, nothing in here is ever used as an index, a size or a process id. A number that is wrong is shown, and
//! does nothing else.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use maitred_base::bounds::POOLS_MAX;
use maitred_config::Config;
use maitred_sys::memfile::SharedMap;

use super::histogram::BOUNDS_US;
use super::latency::{PoolWindow, TIMING_NUMBERS, TimingFacts};
use super::rates::{HISTORY_SECS_MAX, Second};
use super::routes::{self, ROUTES_SHOWN_MAX};
use super::scoreboard::Cell;

/// Numbers of one place; what needs fewer leaves the rest at 0.
const NUMBERS_MAX: usize = TIMING_NUMBERS;
/// Seconds that the file has places for: some more than are shown, so that none is emptied that is.
const SECONDS: usize = HISTORY_SECS_MAX + 20;
/// How long a period of the last minutes is, and how many of them are a window, besides the present one.
const RECENT_SECS: u64 = 10;
const RECENT_WINDOW: u64 = super::latency::WINDOW.as_secs() / RECENT_SECS;
const RECENT: usize = RECENT_WINDOW as usize + 2;
/// The same of the hour before.
const BEFORE_SECS: u64 = 60;
const BEFORE_WINDOW: u64 = 60;
const BEFORE: usize = (BEFORE_WINDOW + RECENT_WINDOW * RECENT_SECS / BEFORE_SECS) as usize + 3;
/// Rows: those of the configuration in force, and as many for the next one.
const ROUTE_ROWS: usize = 2 * ROUTES_SHOWN_MAX;
const POOL_ROWS: usize = 2 * POOLS_MAX;

/// In the stamp of a place: it is being emptied.
const EMPTYING: u64 = 1 << 63;
/// How often a process looks whether another one is done with that, which takes it less than a microsecond.
const LOOKS_MAX: usize = 1_000;

/// What the file begins with. Another executable may have another layout: its file is not used.
const LAYOUT: u64 = {
    // To be raised when numbers get another meaning. What has another size is found by that.
    let mut layout = 1;
    let mut index = 0;
    while index < BOUNDS_US.len() {
        layout = mixed(layout, BOUNDS_US[index]);
        index += 1;
    }
    mixed(mixed(mixed(layout, RECENT_SECS), BEFORE_SECS), SECONDS as u64)
};

const fn mixed(layout: u64, number: u64) -> u64 {
    (layout ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17)
}

maitred_sys::shared! {
    /// The whole file.
    #[derive(Debug)]
    #[repr(C)]
    struct History {
        /// [`LAYOUT`]
        layout: Cell,
        /// Written by the master: whose a row is; 0 where no route has it.
        route_keys: [Cell; ROUTE_ROWS],
        pool_keys: [Cell; POOL_ROWS],
        seconds: [Slice; SECONDS],
        routes: [RouteRow; ROUTE_ROWS],
        pools: [PoolRow; POOL_ROWS],
    }

    #[derive(Debug)]
    #[repr(C)]
    struct RouteRow {
        recent: [Slice; RECENT],
    }

    #[derive(Debug)]
    #[repr(C)]
    struct PoolRow {
        recent: [Slice; RECENT],
        before: [Slice; BEFORE],
    }

    /// What came within one period, as several processes add it.
    #[derive(Debug)]
    #[repr(C)]
    struct Slice {
        /// 1 + the number of the period, and [`EMPTYING`]; 0 if there was none yet.
        stamp: Sum,
        numbers: [Sum; NUMBERS_MAX],
    }

    /// A number that several processes change.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    struct Sum(AtomicU64);
}

impl Slice {
    /// Adds to what came within this period. False if another process empties the place and has not come to an end with it: then
    /// nothing was added.
    fn add(&self, period: u64, numbers: &[u64]) -> bool {
        let wanted = period.wrapping_add(1) & !EMPTYING;
        let mut looks = 0;
        while !self.is_of(wanted) {
            looks += 1;
            if looks > LOOKS_MAX {
                return false;
            }
            std::hint::spin_loop();
        }
        for (sum, number) in self.numbers.iter().zip(numbers).filter(|(_, number)| **number > 0) {
            sum.0.fetch_add(*number, Relaxed);
        }
        true
    }

    /// Whether the place is of this period, or was made one.
    fn is_of(&self, wanted: u64) -> bool {
        let seen = self.stamp.0.load(Acquire);
        if seen == wanted {
            return true;
        }
        let begun = wanted | EMPTYING;
        if seen == begun || self.stamp.0.compare_exchange(seen, begun, AcqRel, Relaxed).is_err() {
            return false;
        }
        self.numbers.iter().for_each(|sum| sum.0.store(0, Relaxed));
        self.stamp.0.compare_exchange(begun, wanted, Release, Relaxed).is_ok()
    }

    /// What came within this period; `None` if nothing did, or it is not known any more.
    fn of<const N: usize>(&self, period: u64) -> Option<[u64; N]> {
        let wanted = period.wrapping_add(1) & !EMPTYING;
        let is_there = || self.stamp.0.load(Acquire) == wanted;
        if !is_there() {
            return None;
        }
        let mut numbers = [0; N];
        for (number, sum) in numbers.iter_mut().zip(&self.numbers) {
            *number = sum.0.load(Relaxed);
        }
        is_there().then_some(numbers)
    }

    fn forget(&self) {
        self.stamp.0.store(0, Release);
    }
}

/// The place of a period in its ring.
fn place(ring: &[Slice], period: u64) -> Option<&Slice> {
    ring.get((period % ring.len().max(1) as u64) as usize)
}

/// What came within these periods.
fn sum(ring: &[Slice], periods: impl Iterator<Item = u64>) -> TimingFacts {
    let mut facts = TimingFacts::default();
    for period in periods {
        if let Some(numbers) = place(ring, period).and_then(|slice| slice.of(period)) {
            facts = facts.with(&TimingFacts::from_numbers(numbers));
        }
    }
    facts
}

/// The file, as the master keeps it.
#[derive(Debug)]
pub struct HistoryFile(SharedMap<History>);

impl HistoryFile {
    /// Makes a file that knows nothing yet.
    ///
    /// # Errors
    /// What the system says about memory files.
    pub fn create() -> io::Result<HistoryFile> {
        let map = SharedMap::<History>::create("maitred-history")?;
        map.layout.set(LAYOUT);
        Ok(HistoryFile(map))
    }

    /// Takes over one that another process has made.
    ///
    /// # Errors
    /// `InvalidData` for one of another layout; otherwise what fstat(2) or mmap(2) say.
    pub fn open(file: OwnedFd) -> io::Result<HistoryFile> {
        let map = SharedMap::<History>::open(file)?;
        match map.layout.get() == LAYOUT {
            true => Ok(HistoryFile(map)),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "a history of another layout")),
        }
    }

    /// The memory file, to pass on.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.0.file()
    }

    /// Rows are there for all that one of these configurations names, and for nothing else. Rows that are new begin empty. For
    /// the master alone, or the only process that has the file.
    pub fn settle<'a>(&self, configs: impl IntoIterator<Item = &'a Config>) {
        let (mut routes, mut pools) = (Vec::new(), Vec::new());
        for config in configs {
            let keys = Keys::of(config);
            routes.extend(keys.routes);
            pools.extend(keys.pools);
        }
        let map = &*self.0;
        assign(&map.route_keys, &routes, |row| map.routes.get(row).into_iter().flat_map(|row| &row.recent));
        assign(&map.pool_keys, &pools, |row| {
            map.pools.get(row).into_iter().flat_map(|row| row.recent.iter().chain(&row.before))
        });
    }
}

/// Gives each of these keys a row, and takes the rows of all others away.
fn assign<'a, S: Iterator<Item = &'a Slice>>(rows: &[Cell], wanted: &[u64], slices: impl Fn(usize) -> S) {
    for row in rows.iter().filter(|row| row.get() != 0 && !wanted.contains(&row.get())) {
        row.set(0);
    }
    for key in wanted {
        if rows.iter().any(|row| row.get() == *key) {
            continue;
        }
        let Some((index, row)) = rows.iter().enumerate().find(|(_, row)| row.get() == 0) else { return };
        slices(index).for_each(Slice::forget);
        row.set(*key);
    }
}

/// By what the routes and pools of a configuration are known, in its order.
struct Keys {
    routes: Vec<u64>,
    pools: Vec<u64>,
}

impl Keys {
    fn of(config: &Config) -> Keys {
        // Routes may have the same paths, and other conditions: the second one is the second one in the next configuration, too.
        let mut seen = BTreeMap::<u64, u64>::new();
        let mut numbered = |key: u64| {
            let times = seen.entry(key).or_default();
            *times += 1;
            hash(&(key, *times))
        };
        let names = routes::names(config);
        let names = names.iter().take(ROUTES_SHOWN_MAX).map(|name| hash(&(&name.site, &name.route)));
        Keys {
            routes: names.map(&mut numbered).collect(),
            pools: config.pools.iter().take(POOLS_MAX).map(|pool| hash(&pool.name)).collect(),
        }
    }
}

/// Never 0. With keys that are the same in every process; the names are the operator's.
fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish().max(1)
}

/// The file, as a worker process uses it. Times are seconds of the machine's monotonic clock.
#[derive(Debug)]
pub struct Past {
    file: HistoryFile,
    routes: Vec<Place>,
    pools: Vec<Place>,
}

/// A row, and whose it has to be.
#[derive(Debug, Clone, Copy)]
struct Place {
    row: Option<usize>,
    key: u64,
}

impl Place {
    fn find(rows: &[Cell], key: u64) -> Place {
        Place { row: rows.iter().position(|row| row.get() == key), key }
    }

    /// The row, if it is still this one's.
    fn of<'a, T>(self, keys: &[Cell], rows: &'a [T]) -> Option<&'a T> {
        let row = self.row?;
        keys.get(row).filter(|key| key.get() == self.key).and_then(|_| rows.get(row))
    }
}

impl Past {
    /// For a worker process with this configuration: in the master's file, or in one of its own if none can be used.
    ///
    /// # Errors
    /// What the system says about memory files.
    pub fn new(file: Option<OwnedFd>, config: &Config) -> io::Result<Past> {
        let file = match file.and_then(|file| HistoryFile::open(file).ok()) {
            Some(file) => file,
            None => {
                let file = HistoryFile::create()?;
                file.settle([config]);
                file
            }
        };
        let (keys, map) = (Keys::of(config), &*file.0);
        let routes = keys.routes.into_iter().map(|key| Place::find(&map.route_keys, key)).collect();
        let pools = keys.pools.into_iter().map(|key| Place::find(&map.pool_keys, key)).collect();
        Ok(Past { routes, pools, file })
    }

    fn map(&self) -> &History {
        &self.file.0
    }

    /// Adds to a second of the charts.
    pub(crate) fn add_second(&self, now: u64, second: &Second) {
        if let Some(slice) = place(&self.map().seconds, now) {
            slice.add(now, &second.numbers());
        }
    }

    /// Adds to what came of a route. False if that has to be tried again later.
    pub(crate) fn add_route(&self, number: usize, now: u64, more: &TimingFacts) -> bool {
        let Some(row) = self.route(number) else { return true };
        add(&row.recent, now / RECENT_SECS, more)
    }

    /// The same of a pool.
    pub(crate) fn add_pool(&self, number: usize, now: u64, more: &TimingFacts) -> bool {
        let Some(row) = self.pool(number) else { return true };
        // The hour may miss what the minutes have: where both are tried again, one of them has it twice.
        add(&row.recent, now / RECENT_SECS, more) && {
            add(&row.before, now / BEFORE_SECS, more);
            true
        }
    }

    /// The charts, the oldest second first; seconds in which no process has added anything are left out.
    pub(crate) fn seconds(&self, now: u64) -> Vec<Second> {
        let begin = now.saturating_sub(HISTORY_SECS_MAX as u64 - 1);
        (begin..=now).filter_map(|second| self.second(second)).collect()
    }

    /// The last second for which all processes have added what they have.
    pub(crate) fn last_second(&self, now: u64) -> Option<Second> {
        [now.checked_sub(1)?, now].into_iter().find_map(|second| self.second(second))
    }

    fn second(&self, second: u64) -> Option<Second> {
        place(&self.map().seconds, second)?.of(second).map(Second::from_numbers)
    }

    /// The last minutes of a route.
    pub(crate) fn route_window(&self, number: usize, now: u64) -> TimingFacts {
        self.route(number).map(|row| recent(&row.recent, now)).unwrap_or_default()
    }

    /// The last minutes of a pool, and the hour before.
    pub(crate) fn pool_window(&self, number: usize, now: u64) -> PoolWindow {
        let Some(row) = self.pool(number) else { return PoolWindow::default() };
        let begin = (now / RECENT_SECS).saturating_sub(RECENT_WINDOW) * RECENT_SECS / BEFORE_SECS;
        let before = sum(&row.before, begin.saturating_sub(BEFORE_WINDOW)..begin);
        PoolWindow { recent: recent(&row.recent, now), before }
    }

    fn route(&self, number: usize) -> Option<&RouteRow> {
        let map = self.map();
        self.routes.get(number)?.of(&map.route_keys, &map.routes)
    }

    fn pool(&self, number: usize) -> Option<&PoolRow> {
        let map = self.map();
        self.pools.get(number)?.of(&map.pool_keys, &map.pools)
    }
}

fn add(ring: &[Slice], period: u64, more: &TimingFacts) -> bool {
    place(ring, period).is_none_or(|slice| slice.add(period, &more.numbers()))
}

fn recent(ring: &[Slice], now: u64) -> TimingFacts {
    let present = now / RECENT_SECS;
    sum(ring, present.saturating_sub(RECENT_WINDOW)..=present)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::latency::{Timing, Took};
    use maitred_config::{Origin, System, read};

    /// A configuration with these routes of one site, perhaps with more lines behind their path, and these pools.
    pub(crate) fn config(routes: &[&str], pools: &[&str]) -> Config {
        let mut text =
            "[server]\nshare_user = true\n[[listen]]\naddress = \"127.0.0.1:0\"\n[[site]]\n".to_owned();
        let routes = if routes.is_empty() { &["/"] } else { routes };
        for route in routes {
            let (path, lines) = route.split_once(' ').unwrap_or((route, ""));
            text += &format!("[[site.route]]\npath = \"{path}\"\nrespond = {{ status = 204 }}\n{lines}\n");
        }
        for pool in pools {
            text += &format!("[pool.{pool}]\nconnect = \"http://127.0.0.1:1\"\n");
        }
        let origin = Origin { name: "test.toml".into(), base: "/".into() };
        read(&text, &origin, &System).unwrap().0
    }

    pub(crate) fn facts(requests: &[(u64, bool)]) -> TimingFacts {
        let (timing, mut facts) = (Timing::default(), TimingFacts::default());
        for (whole_us, failed) in requests {
            let (queue_us, answer_us) = (whole_us / 10, whole_us / 2);
            timing.add(&Took { whole_us: *whole_us, queue_us, answer_us, failed: *failed });
        }
        timing.add_to(&mut facts);
        facts
    }

    /// Another route of the same path.
    const TESTED: &str = "/b match = { cookie = { beta = \"1\" } }";

    fn same(file: &HistoryFile) -> Option<OwnedFd> {
        Some(file.file().try_clone_to_owned().unwrap())
    }

    /// A file for this configuration, and a worker process that has it.
    fn begun(config: &Config) -> (HistoryFile, Past) {
        let file = HistoryFile::create().unwrap();
        file.settle([config]);
        let past = Past::new(same(&file), config).unwrap();
        (file, past)
    }

    #[test]
    fn a_window_has_what_came_within_it_and_the_hour_before_what_came_earlier() {
        let (_file, past) = begun(&config(&["/a"], &["web"]));
        // More than an hour with one request each ten seconds; the last five minutes have others.
        let (begin, end) = (777_777, 777_777 + 3_600 + 300);
        for now in (begin..=end).step_by(10) {
            let one = if now > end - 300 { facts(&[(5_000, false)]) } else { facts(&[(50_000, true)]) };
            assert!(past.add_route(2, now, &one) && past.add_pool(0, now, &one));
        }
        let route = past.route_window(2, end);
        assert!((30..=31).contains(&route.took.count()), "{route:?}");
        assert!(route.failed <= 1 && route.took.percentile(90) <= Some(5_000), "{route:?}");
        let pool = past.pool_window(0, end);
        assert_eq!(pool.recent, route);
        assert!(pool.before.failed_percent() > Some(99.0), "{:?}", pool.before);
        assert!((340..=360).contains(&pool.before.took.count()), "{}", pool.before.took.count());
        let nothing = PoolWindow::default();
        assert_eq!(past.pool_window(0, end + 2 * 3_600), nothing, "long after");
        assert_eq!((past.pool_window(1, end), past.route_window(9, end)), (nothing, TimingFacts::default()));
    }

    #[test]
    fn processes_side_by_side_count_together_and_a_route_keeps_its_past_wherever_it_stands() {
        let first = config(&["/a", TESTED, "/b"], &["web", "gone"]);
        let (file, old) = begun(&first);
        let second = config(&["/new", TESTED, "/b", "/a"], &["other", "web"]);
        file.settle([&first, &second]);
        let new = Past::new(same(&file), &second).unwrap();
        let (now, one) = (10_000, facts(&[(7_000, true)]));
        let count = |past: &Past, route| past.route_window(route, now + 20).took.count();
        // Numbers 0 and 1 are no site's, and no route's.
        for (times, route) in [(1, 2), (2, 3), (3, 4)] {
            (0..times).for_each(|_| assert!(old.add_route(route, now, &one)));
        }
        assert!(old.add_pool(0, now, &one) && old.add_pool(1, now, &one) && new.add_pool(1, now + 10, &one));
        assert!(new.add_route(5, now + 10, &one));
        assert_eq!([2, 3, 4, 5].map(|route| count(&new, route)), [0, 2, 3, 2]);
        assert_eq!([0, 1].map(|pool| new.pool_window(pool, now + 20).recent.failed), [0, 2]);
        // What only the old configuration has is dropped, and does not come back in another's row.
        file.settle([&second]);
        assert!(old.add_pool(1, now, &one));
        assert_eq!(old.pool_window(1, now).recent.took.count(), 0);
        let third = config(&["/a"], &["third", "web"]);
        file.settle([&second, &third]);
        let third = Past::new(same(&file), &third).unwrap();
        assert!(old.add_pool(1, now, &one));
        assert_eq!([0, 1].map(|pool| third.pool_window(pool, now + 20).recent.failed), [0, 2]);
        assert_eq!(count(&third, 2), 2);
    }

    #[test]
    fn there_are_rows_for_two_configurations_however_large() {
        let paths = |name: &str| (0..300).map(|number| format!("/{name}/{number}")).collect::<Vec<_>>();
        let configs = ["a", "b", "c"].map(|name| {
            let paths = paths(name);
            config(&paths.iter().map(String::as_str).collect::<Vec<_>>(), &[])
        });
        let file = HistoryFile::create().unwrap();
        file.settle([&configs[0]]);
        for two in configs.windows(2).chain([[configs[2].clone(), configs[0].clone()].as_slice()]) {
            file.settle(two);
            let past = Past::new(same(&file), &two[1]).unwrap();
            assert_eq!(past.routes.len(), ROUTES_SHOWN_MAX);
            assert!((0..ROUTES_SHOWN_MAX).all(|route| past.route(route).is_some()));
            file.settle(&two[1..]);
        }
        assert!(size_of::<History>() < 4_500_000, "{}", size_of::<History>());
    }

    #[test]
    fn seconds_of_all_processes_are_one_chart() {
        let config = config(&[], &[]);
        let (file, old) = begun(&config);
        let new = Past::new(same(&file), &config).unwrap();
        let second = |requests| Second { requests, connections: 2, cpu: 0.25, ..Second::default() };
        for now in 5_000..5_400 {
            old.add_second(now, &second(1.5));
            if now >= 5_398 {
                new.add_second(now, &second(100.0));
            }
        }
        let seconds = new.seconds(5_399);
        assert_eq!(seconds.len(), HISTORY_SECS_MAX);
        assert_eq!((seconds[0].requests, seconds[299].requests, seconds[299].connections), (1.5, 101.5, 4));
        assert_eq!(
            new.last_second(5_399),
            Some(Second { requests: 101.5, connections: 4, cpu: 0.5, ..second(0.0) })
        );
        assert_eq!((new.seconds(9_000).len(), new.last_second(9_000)), (0, None));
    }

    #[test]
    fn a_place_that_another_process_empties_takes_nothing_and_is_taken_over_in_the_next_period() {
        let (_file, past) = begun(&config(&["/a"], &[]));
        let one = facts(&[(7_000, false)]);
        let ring = &past.route(2).unwrap().recent;
        assert!(past.add_route(2, 0, &one));
        // As a process leaves it that dies there.
        place(ring, 100).unwrap().stamp.0.store(101 | EMPTYING, Relaxed);
        assert!(!past.add_route(2, 1_000, &one));
        assert_eq!(past.route_window(2, 1_000).took.count(), 0);
        let again = 1_000 + RECENT as u64 * RECENT_SECS;
        assert!(past.add_route(2, again, &one));
        assert_eq!(past.route_window(2, again).took.count(), 1);
    }

    #[test]
    fn threads_that_add_at_once_lose_nothing() {
        let (file, past) = begun(&config(&["/a"], &[]));
        let one = facts(&[(7_000, false)]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (file, one) = (&file, &one);
                scope.spawn(move || {
                    let past = Past::new(same(file), &config(&["/a"], &[])).unwrap();
                    for now in 0..3_000 {
                        while !past.add_route(2, now / 10, one) {}
                    }
                });
            }
        });
        assert_eq!(past.route_window(2, 299).took.count(), 12_000);
    }

    #[test]
    fn a_file_of_another_layout_is_not_used() {
        let config = config(&["/a"], &[]);
        let (file, past) = begun(&config);
        assert!(past.add_route(2, 100, &facts(&[(7_000, false)])));
        assert_eq!(Past::new(same(&file), &config).unwrap().route_window(2, 100).took.count(), 1);
        file.0.layout.set(LAYOUT + 1);
        assert_eq!(HistoryFile::open(same(&file).unwrap()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(Past::new(same(&file), &config).unwrap().route_window(2, 100).took.count(), 0);
    }
}
