//! The tables of limits by client: they belong to the master, so that what was counted is kept when worker processes are
//! replaced.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

use maitred_base::rates::Table;
use maitred_config::ClientLimit;
use maitred_control::Descriptor;

/// By the names of the limits: a limit that a new configuration has, too, goes on with what was counted, unless its size has
/// changed, or it has got a rate, or `concurrent`.
#[derive(Debug, Default)]
pub struct LimitTables(BTreeMap<String, Table>);

impl LimitTables {
    /// Makes those that are missing for these limits.
    ///
    /// # Errors
    /// What the system says about memory files.
    pub fn prepare(&mut self, limits: &[ClientLimit]) -> io::Result<()> {
        for limit in limits {
            let layout = limit.layout();
            if !self.0.get(&limit.name).is_some_and(|table| table.is_for(layout)) {
                self.0.insert(limit.name.clone(), Table::create(layout)?);
            }
        }
        Ok(())
    }

    /// What a worker process gets of them.
    pub fn descriptors(&self, limits: &[ClientLimit]) -> Vec<(Descriptor, BorrowedFd<'_>)> {
        let of = |(limit, config): (usize, &ClientLimit)| {
            Some((Descriptor::Limit { limit }, self.0.get(&config.name)?.file()))
        };
        limits.iter().enumerate().filter_map(of).collect()
    }

    /// Drops those that none of these limits has.
    pub fn retain(&mut self, limits: &[ClientLimit]) {
        self.0.retain(|name, _| limits.iter().any(|limit| limit.name == *name));
    }

    /// What a worker process has counted that has ended counts no more.
    pub fn process_ended(&self, pid: u32) {
        self.0.values().for_each(|table| table.process_ended(pid));
    }

    /// All of them, by name, for the next executable.
    pub fn files(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        self.0.iter().map(|(name, table)| (name.as_str(), table.file()))
    }

    /// Takes over one that the executable before has left.
    pub fn adopt(&mut self, name: String, table: Table) {
        self.0.insert(name, table);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use maitred_base::rates::{Gcra, Key, Verdict};
    use maitred_config::{LimitKey, Rate};

    fn limit(name: &str, keys_max: u32) -> ClientLimit {
        ClientLimit {
            name: name.to_owned(),
            rate: Some(Rate { count: 1, period: Duration::from_secs(1), burst: 0 }),
            concurrent: None,
            status: 429,
            key: LimitKey::Address,
            keys_max,
            exempt: Vec::new(),
            dry_run: false,
        }
    }

    #[test]
    fn what_was_counted_stays_with_the_name() {
        let mut tables = LimitTables::default();
        let rate = Gcra::new(1, Duration::from_secs(1), 0);
        let refused = |tables: &LimitTables, index: usize, limits: &[ClientLimit]| {
            let file = tables.descriptors(limits)[index].1.try_clone_to_owned().unwrap();
            Table::open(file).unwrap().ask(Key::Route(1), &rate, 1) != Verdict::Pass
        };
        let first = [limit("a", 10), limit("b", 10)];
        tables.prepare(&first).unwrap();
        assert!(!refused(&tables, 0, &first) && refused(&tables, 0, &first) && !refused(&tables, 1, &first));
        // In another order, and with another one.
        let second = [limit("c", 10), limit("a", 10), limit("b", 1000)];
        tables.prepare(&second).unwrap();
        assert!(refused(&tables, 1, &second) && !refused(&tables, 0, &second));
        assert!(!refused(&tables, 2, &second), "another size is another table");
        tables.retain(&second[..1]);
        assert_eq!(tables.files().map(|(name, _)| name.to_owned()).collect::<Vec<_>>(), ["c"]);
    }
}
