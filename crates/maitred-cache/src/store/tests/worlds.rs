//! Stores in the hands of a seed: what is put, written, updated, removed and purged, in what order helper threads do it, what
//! fails, and when processes are killed. Whatever is found has been stored so, as a whole, under that key, and was not purged.

use rustix::io::Errno;

use super::super::super::disk::faults::Fault;
use super::*;

/// Worlds of the test; `MAITRED_CACHE_WORLDS` has it make others: `FIRST..END`.
const WORLDS: std::ops::Range<u64> = 0..1000;
const STEPS: usize = 120;
const KEYS: u64 = 9;
const ENTRIES_MAX: u32 = 7;
const BLOCKS_MAX: u64 = 14;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A response that may be stored.
struct Value {
    key: u64,
    head: Head,
    body: Vec<u8>,
    /// Purges that it is meant by.
    bans: Vec<usize>,
}

/// A purge.
struct Ban {
    process: u64,
    soft: bool,
    /// Whether the purge was said to be complete.
    complete: bool,
    /// The removal of a file that another process may find in the directory, which it reads into the table, before it is removed.
    weak: bool,
}

struct Process {
    number: u64,
    store: Store,
    jobs: Vec<(Job, Option<usize>)>,
    fetches: Vec<(Fetch, usize)>,
    writings: Vec<(Writing, usize)>,
    updates: Vec<(Fetch, Arc<Entry>, usize)>,
}

struct World {
    random: Random,
    directory: tempfile::TempDir,
    settings: Settings,
    table: Table,
    boot: u64,
    values: Vec<Value>,
    bans: Vec<Ban>,
    /// The last one is the worker process; one before it is draining.
    processes: Vec<Process>,
    made: u64,
    found: u64,
}

fn key_text(key: u64) -> String {
    format!("http://{}/{}", if key.is_multiple_of(3) { "three" } else { "other" }, key)
}

impl World {
    fn new(seed: u64) -> World {
        // In memory, if there is such a place: what is synced there is not waited for.
        let memory = tempfile::tempdir_in("/dev/shm");
        let directory = memory.or_else(|_| tempfile::tempdir()).unwrap();
        DirectoryState::plant(&Directory::open(directory.path()).unwrap(), seed);
        let settings = Settings {
            bytes_max: BLOCKS_MAX * 4096,
            entries_max: ENTRIES_MAX,
            memory_bytes_max: 8000,
            inline_bytes_max: 700,
            files_max: 4,
            ..settings(directory.path())
        };
        let mut world = World {
            random: Random::new(seed),
            directory,
            settings,
            table: Table::create(ENTRIES_MAX, 1).unwrap(),
            boot: 1,
            values: Vec::new(),
            bans: Vec::new(),
            processes: Vec::new(),
            made: 0,
            found: 0,
        };
        world.start();
        world
    }

    fn start(&mut self) {
        let store = open(&self.settings, &self.table);
        if self.random.one_in(4) {
            store.core.directory.use_names();
        }
        self.made += 1;
        let jobs = vec![(store.rebuild(NOW), None)];
        let (fetches, writings, updates) = (Vec::new(), Vec::new(), Vec::new());
        self.processes.push(Process { number: self.made, store, jobs, fetches, writings, updates });
        self.weaken_removals();
    }

    fn some_process(&mut self) -> usize {
        self.random.below(self.processes.len() as u64) as usize
    }

    /// A response of a key, asked for now.
    fn value(&mut self, key: u64, body: Option<Vec<u8>>) -> usize {
        let number = self.values.len();
        let tag = format!("tag{}", self.random.below(3));
        let mut head = head(&number.to_string(), &[&tag]);
        for _ in 0..self.random.below(3) {
            let value = vec![b'v'; self.random.below(300) as usize];
            head.fields.push(b"x-more", &value);
        }
        head.lifetime[1] = self.random.next();
        let body = body.unwrap_or_else(|| {
            let length = if self.random.one_in(3) { 9000 } else { 700 };
            let mut bytes = Random::new(number as u64);
            (0..self.random.below(length)).map(|_| bytes.next() as u8).collect()
        });
        self.values.push(Value { key, head, body, bans: Vec::new() });
        number
    }

    fn step(&mut self) {
        let at = self.some_process();
        match self.random.below(100) {
            0..14 => self.fetch(at),
            14..28 => self.put(at),
            28..34 => self.begin(at),
            34..46 => self.write(at),
            46..52 => self.update(at),
            52..74 => self.work(at),
            74..76 => self.forget_job(at),
            76..79 => self.remove(at),
            79..82 => self.purge(at),
            82..94 => {
                self.processes[at].store.core.storing.turn_on();
                for _ in 0..3 {
                    let key = self.random.below(KEYS);
                    self.look(at, key);
                }
            }
            94..96 => self.fail(at),
            96 => self.scribble(),
            97 => self.reload(),
            _ => self.kill(),
        }
    }

    fn fetch(&mut self, at: usize) {
        let key = self.random.below(KEYS);
        if self.random.one_in(3)
            && let Some(entry) = self.look(at, key)
        {
            let value = self.number_of(&entry);
            let new = self.value(key, Some(self.values[value].body.clone()));
            let process = &mut self.processes[at];
            process.updates.push((process.store.fetch(&process.store.key(entry.key())), entry, new));
            return;
        }
        let value = self.value(key, None);
        let process = &mut self.processes[at];
        let fetch = process.store.fetch(&process.store.key(key_text(key).as_bytes()));
        process.fetches.push((fetch, value));
    }

    fn taken<T>(random: &mut Random, some: &mut Vec<T>) -> Option<T> {
        let at = random.below(some.len() as u64) as usize;
        (!some.is_empty()).then(|| some.swap_remove(at))
    }

    fn put(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let Some((fetch, number)) = Self::taken(&mut self.random, &mut process.fetches) else { return };
        let value = &self.values[number];
        let (_, job) = process.store.put(&fetch, value.head.clone(), value.body.clone().into());
        process.jobs.extend(job.map(|job| (job, None)));
    }

    fn begin(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let Some((fetch, number)) = Self::taken(&mut self.random, &mut process.fetches) else { return };
        process.writings.extend(process.store.begin(&fetch).map(|writing| (writing, number)));
    }

    /// Goes on with a response that is being written, ends it, or gives it up.
    fn write(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let Some((mut writing, number)) = Self::taken(&mut self.random, &mut process.writings) else {
            return;
        };
        let value = &self.values[number];
        let rest = &value.body[writing.len() as usize..];
        if self.random.one_in(8) {
            process.jobs.push((writing.into(), None));
        } else if rest.is_empty() {
            let _ = writing.finish(value.head.clone());
        } else {
            let length = if self.random.one_in(2) {
                rest.len()
            } else {
                self.random.below(rest.len() as u64) as usize
            };
            if writing.append(&rest[..length]).is_ok() {
                process.writings.push((writing, number));
            }
        }
    }

    fn update(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let Some((fetch, entry, number)) = Self::taken(&mut self.random, &mut process.updates) else {
            return;
        };
        // What was purged by now is not brought back.
        let process_number = process.number;
        let before = self.number_of(&entry);
        let hard = |ban: &&usize| {
            let ban = &self.bans[**ban];
            !ban.soft && (ban.complete || ban.process == process_number)
        };
        let inherited: Vec<usize> = self.values[before].bans.iter().filter(hard).copied().collect();
        self.values[number].bans.extend(inherited);
        let process = &mut self.processes[at];
        let (_, job) = process.store.update(&fetch, &entry, self.values[number].head.clone());
        process.jobs.extend(job.map(|job| (job, None)));
    }

    fn work(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let Some((job, ban)) = Self::taken(&mut self.random, &mut process.jobs) else { return };
        // Some parts of what has many.
        let mut outcome = job.run();
        let mut parts = self.random.below(400);
        while let (Outcome::Again(_), 1..) = (&outcome, parts) {
            let Outcome::Again(job) = outcome else { break };
            outcome = job.run();
            parts -= 1;
        }
        match outcome {
            Outcome::Again(job) => process.jobs.push((job, ban)),
            Outcome::Purged { failed: None, .. } => {
                if let Some(ban) = ban {
                    self.bans[ban].complete = true;
                }
            }
            _ => {}
        }
    }

    /// As if too many were waiting.
    fn forget_job(&mut self, at: usize) {
        let process = &mut self.processes[at];
        Self::taken(&mut self.random, &mut process.jobs);
    }

    fn remove(&mut self, at: usize) {
        let key = self.random.below(KEYS);
        let store = &self.processes[at].store;
        let job = store.remove(&store.key(key_text(key).as_bytes()));
        self.ban(at, job, false, |value| value.key == key);
        self.weaken_removals();
    }

    fn purge(&mut self, at: usize) {
        let key = self.random.below(KEYS);
        let soft = self.random.one_in(2);
        let text = key_text(key).into_bytes().into_boxed_slice();
        let tag = format!("tag{}", self.random.below(3)).into_bytes().into_boxed_slice();
        let (purge, which): (Purge, &dyn Fn(&Value) -> bool) = match self.random.below(9) {
            0..3 => (Purge::Exact(text), &|value| value.key == key),
            3..5 => (Purge::Prefix(text.clone()), &|value| key_text(value.key).as_bytes().starts_with(&text)),
            5 => (Purge::Host(b"Three".as_slice().into()), &|value| value.key.is_multiple_of(3)),
            6 | 7 => (Purge::Tag(tag.clone()), &|value| value.head.tags.contains(&tag)),
            _ => (Purge::All, &|_| true),
        };
        let Ok(job) = self.processes[at].store.purge(purge, soft) else { return };
        self.ban(at, job, soft, which);
        self.weaken_removals();
    }

    fn weaken_removals(&mut self) {
        if self.processes.len() > 1 && self.table.progress() <= 256 {
            self.bans.iter_mut().filter(|ban| !ban.soft).for_each(|ban| ban.weak = true);
        }
    }

    fn ban(&mut self, at: usize, job: Job, soft: bool, which: impl Fn(&Value) -> bool) {
        let number = self.bans.len();
        let process = &mut self.processes[at];
        self.bans.push(Ban { process: process.number, soft, complete: false, weak: false });
        process.jobs.push((job, Some(number)));
        self.values.iter_mut().filter(|value| which(value)).for_each(|value| value.bans.push(number));
    }

    fn number_of(&self, entry: &Entry) -> usize {
        std::str::from_utf8(entry.head.fields.all().get(b"x-value").unwrap()).unwrap().parse().unwrap()
    }

    /// Looks for a key, and judges what is found.
    fn look(&mut self, at: usize, key: u64) -> Option<Arc<Entry>> {
        let process = &self.processes[at];
        let store = &process.store;
        let entry = match store.find(&store.key(key_text(key).as_bytes()), NOW) {
            Found::Entry(entry) => entry,
            Found::OnDisk(job) if !self.random.one_in(8) => match run(job) {
                Outcome::Loaded(Ok(Some(entry))) => entry,
                _ => return None,
            },
            _ => return None,
        };
        let value = &self.values[self.number_of(&entry)];
        assert_eq!(value.key, key);
        assert_eq!(entry.key(), key_text(key).as_bytes());
        assert_eq!(entry.head, value.head);
        assert!(bytes_of(&entry.body) == value.body, "the body of {key} is another one");
        for ban in value.bans.iter().map(|ban| &self.bans[*ban]) {
            let holds = ban.complete || (ban.process == process.number && !ban.weak);
            assert!(!holds || (ban.soft && entry.is_soft_purged()), "{key} was purged (soft: {})", ban.soft);
        }
        self.found += 1;
        Some(entry)
    }

    fn fail(&mut self, at: usize) {
        let errno = [Errno::NOSPC, Errno::IO, Errno::ROFS, Errno::DQUOT][self.random.below(4) as usize];
        let (after, part) = (self.random.below(6), self.random.below(3000));
        let core = &self.processes[at].store.core;
        core.storing.turn_on();
        core.directory.faults.plan(after, Fault::Once(errno), part);
    }

    fn scribble(&mut self) {
        for _ in 0..self.random.below(20) {
            let place = self.random.below(u64::from(self.table.places())) as u32;
            self.table.scribble(place, self.random.below(6) as usize, self.random.next());
        }
    }

    /// Another process takes over; this one may go on for a while, or ends.
    fn reload(&mut self) {
        if self.processes.len() > 1 || self.random.one_in(3) {
            self.processes.remove(0);
        }
        self.start();
    }

    /// All processes are killed, in the middle of something.
    fn kill(&mut self) {
        for at in 0..self.processes.len() {
            let (after, part) = (self.random.below(8), self.random.below(3000));
            self.processes[at].store.core.directory.faults.plan(after, Fault::Killed, part);
            for _ in 0..self.random.below(4) {
                if self.random.one_in(2) { self.work(at) } else { self.write(at) }
            }
        }
        self.processes.clear();
        match self.random.below(3) {
            0 => {}
            1 => self.table = Table::create(ENTRIES_MAX, self.boot).unwrap(),
            _ => {
                self.boot += 1;
                self.table = Table::create(ENTRIES_MAX, self.boot).unwrap();
                self.damage();
            }
        }
        self.start();
    }

    fn paths(&self) -> Vec<std::path::PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.directory.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { found.push(path) }
            }
        }
        found.sort();
        found
    }

    /// What a machine may leave that fails; and files of an older format, and of none.
    fn damage(&mut self) {
        // The mark of a soft purge may be what is lost: the head before it is valid.
        self.bans.iter_mut().filter(|ban| ban.soft).for_each(|ban| ban.complete = false);
        for path in self.paths() {
            if !self.random.one_in(3) {
                continue;
            }
            if path.ends_with("state") {
                // Another seed, which has to be one of this world, too.
                let seed = self.random.next();
                DirectoryState::plant(&Directory::open(self.directory.path()).unwrap(), seed);
                continue;
            }
            let mut bytes = std::fs::read(&path).unwrap();
            let at = self.random.below(bytes.len() as u64 + 1) as usize;
            match self.random.below(6) {
                0 => bytes.truncate(at),
                1 => bytes.iter_mut().skip(at).for_each(|byte| *byte = 0),
                2 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1),
                3 => bytes.iter_mut().skip(8).take(4).for_each(|byte| *byte = 0),
                4 => bytes.extend(vec![0x68; at]),
                _ => bytes.iter_mut().skip(at).take(512).for_each(|byte| *byte = self.random.next() as u8),
            }
            std::fs::write(&path, bytes).unwrap();
            if self.random.one_in(4) {
                let other = path.with_file_name(format!("{:032x}", self.random.next()));
                std::fs::rename(&path, other).unwrap();
            }
        }
    }

    /// At last, one process, which does all that there is to do.
    fn end(&mut self) {
        self.processes.clear();
        self.start();
        while !self.processes[0].jobs.is_empty() {
            self.work(0);
        }
        // A process that was killed may have left a head behind a file that is not counted yet.
        let is_entry = |path: &std::path::PathBuf| {
            path.file_name().unwrap().len() == 32 && path.parent().unwrap().file_name().unwrap().len() == 2
        };
        let present = self.paths().into_iter().filter(is_entry);
        let sizes: Vec<u64> = present.map(|path| path.metadata().unwrap().len().div_ceil(4096)).collect();
        let counts = self.processes[0].store.counts();
        assert!(
            sizes.len() as u64 <= counts.entries && counts.entries <= u64::from(ENTRIES_MAX),
            "{counts:?}"
        );
        assert!(
            sizes.iter().sum::<u64>() * 4096 <= counts.bytes + counts.entries * 4096
                && counts.bytes <= BLOCKS_MAX * 4096,
            "{counts:?}"
        );
        assert!(counts.hot_bytes <= 8000 && counts.hot_files <= 4, "{counts:?}");
        assert_eq!(counts.rebuilt, 257);
        let drafts = self.paths().iter().filter(|path| path.to_str().unwrap().contains("tmp-")).count();
        assert_eq!(drafts, 0);
        for key in 0..KEYS {
            self.look(0, key);
        }
    }
}

#[test]
fn whatever_happens_what_is_found_was_stored_so() {
    let worlds = std::env::var("MAITRED_CACHE_WORLDS").ok().map_or(WORLDS, |range| {
        let (first, end) = range.split_once("..").unwrap();
        first.parse().unwrap()..end.parse().unwrap()
    });
    let (mut found, count) = (0, worlds.end - worlds.start);
    for seed in worlds {
        let world = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step();
            }
            world.end();
            world.found
        });
        match world {
            Ok(more) => found += more,
            Err(error) => {
                println!("MAITRED_CACHE_WORLDS={seed}..{}", seed + 1);
                std::panic::resume_unwind(error);
            }
        }
    }
    assert!(found > 5 * count, "only {found} entries were found");
    println!("{count} worlds, {found} entries found");
}
