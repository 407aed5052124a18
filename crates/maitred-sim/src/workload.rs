//! How long requests take.

use std::path::Path;

use crate::random::Random;
use crate::{Micros, micros};

/// Sizes of responses, ascending; each stands for an equal share of the requests. Made from the access log that
/// `data/README.md` names, by [`sizes_of_log`].
const SIZES: &str = include_str!("../data/sizes.csv");

/// How many sizes stand for a log.
const SHARES: usize = 200;

/// The mix of a real site, whose responses go to clients of different speed. The worker is taken for as long as the
/// client takes: that is so in all servers modelled here, and the worst case for Maitred, which takes over from a worker
/// what a slow client has not read.
#[derive(Debug, Clone)]
pub struct Service {
    sizes: Vec<f64>,
    /// What every request takes, in seconds.
    pub base: f64,
    /// What an ordinary client receives, in bytes per second.
    pub rate: f64,
    /// Share of slow clients, and how much slower they are.
    pub slow: (f64, f64),
}

impl Service {
    /// The mix, without what is larger than `bytes_max`: that many bytes are sent of it.
    pub fn new(base: f64, rate: f64, slow: (f64, f64), bytes_max: f64) -> Service {
        let sizes = SIZES.lines().filter_map(|line| line.parse::<f64>().ok()).map(|size| size.min(bytes_max));
        Service { sizes: sizes.collect(), base, rate, slow }
    }

    /// The same mix, made faster or slower so that a request takes `mean` seconds on average.
    pub fn with_mean(self, mean: f64) -> Service {
        let factor = mean / self.mean();
        Service { base: self.base * factor, rate: self.rate / factor, ..self }
    }

    /// The mean, in seconds.
    pub fn mean(&self) -> f64 {
        let size = self.sizes.iter().sum::<f64>() / self.sizes.len() as f64;
        let (share, factor) = self.slow;
        self.base + size / self.rate * (1.0 + share * (factor - 1.0))
    }

    /// The time that one request takes.
    pub fn draw(&self, random: &mut Random) -> Micros {
        let size = self.sizes.get(random.below(self.sizes.len())).copied().unwrap_or_default();
        let (share, factor) = self.slow;
        let slower = if random.unit() < share { factor } else { 1.0 };
        // Half of what every request takes varies, so that no two are alike.
        let base = self.base * (0.5 + random.unit());
        micros(base + size / self.rate * slower).max(1)
    }
}

/// Reads an access log in Common or Combined Log Format, and makes the table of sizes: one line per share, the mean of it.
///
/// # Errors
/// When the file cannot be read, or has no responses.
pub fn sizes_of_log(log: &Path) -> std::io::Result<String> {
    let text = std::fs::read_to_string(log)?;
    let size = |line: &str| line.split('"').nth(2)?.split_whitespace().nth(1)?.parse::<u64>().ok();
    let mut sizes: Vec<u64> = text.lines().filter_map(size).collect();
    sizes.sort_unstable();
    if sizes.len() < SHARES {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "too few responses in this log"));
    }
    let part = |share: usize| {
        let part =
            sizes.get(sizes.len() * share / SHARES..sizes.len() * (share + 1) / SHARES).unwrap_or_default();
        part.iter().sum::<u64>() / part.len().max(1) as u64
    };
    Ok((0..SHARES).map(|share| format!("{}\n", part(share))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_what_is_drawn() {
        let service = Service::new(0.2, 50_000.0, (0.05, 10.0), 4e6).with_mean(2.0);
        assert!((service.mean() - 2.0).abs() < 1e-9);
        let mut random = Random::new(1);
        let drawn: f64 = (0..300_000).map(|_| crate::seconds(service.draw(&mut random))).sum();
        assert!((drawn / 300_000.0 - 2.0).abs() < 0.1, "{}", drawn / 300_000.0);
    }

    #[test]
    fn a_log_becomes_a_table() {
        let line = |size: usize| format!("1.1.1.1 - - [a b] \"GET / HTTP/1.1\" 200 {size} \"-\" \"x\"\n");
        let log = tempfile::NamedTempFile::new().unwrap();
        let lines = (0..400).rev().map(line).chain(["broken\n".to_owned()]);
        std::fs::write(log.path(), lines.collect::<String>()).unwrap();
        let table = sizes_of_log(log.path()).unwrap();
        assert_eq!(table.lines().count(), SHARES);
        assert_eq!(table.lines().take(3).collect::<Vec<_>>(), ["0", "2", "4"]);
    }

    /// The table is that of the log, where the log is.
    #[test]
    fn the_table_is_made_from_the_log() {
        let default =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/access-semicomplete-2015.log");
        let log = std::env::var_os("MAITRED_ACCESS_LOG").unwrap_or_else(|| default.into());
        match sizes_of_log(Path::new(&log)) {
            Ok(table) => assert_eq!(table, SIZES),
            Err(error) => println!("skipped: no access log at {}: {error}", log.display()),
        }
    }
}
