//! A hot small file, while cold large files come from a slow disk.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use serde_json::json;

use super::client::Client;
use super::peers::Kind;
use super::process;
use super::server::Running;
use super::{Bench, Budget, Outcome, Row};
use crate::Result;

const COLD_FILES: usize = 4;
const COLD_BYTES: usize = 64 << 20;
/// What the disk gives to the server, in bytes per second.
const DISK_BYTES_PER_SECOND: u64 = 4 << 20;
/// Pause between two requests for the hot file, so that they sample time evenly.
const PAUSE: Duration = Duration::from_millis(2);
/// Long enough for the throttle to bite, and for several chunks of each file.
const SECONDS: u64 = 15;

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    let setup = bench.setup(Vec::new());
    let files = make_files(&setup.root)?;
    let mut kinds: Vec<Kind> = bench.file_servers().collect();
    if kinds.contains(&Kind::Nginx) && !kinds.contains(&Kind::NginxAio) {
        kinds.push(Kind::NginxAio);
    }
    let mut rows = Vec::new();
    let mut raw = serde_json::Map::new();
    for kind in kinds {
        let throttle = Throttle::new(&setup.root)?;
        let Some(server) = bench.start(kind, &setup)? else { continue };
        throttle.hold(&process::tree(server.pid()))?;
        let latencies = measure(&server, &files)?;
        let (p50, p99, max) =
            (percentile(&latencies, 50.0), percentile(&latencies, 99.0), percentile(&latencies, 100.0));
        throttle.release(&process::tree(server.pid()))?;
        drop(server);
        let note = format!("p50 {p50:.2} ms, max {max:.1} ms, {} requests in {SECONDS} s", latencies.len());
        rows.push(Row { server: kind.name(), cost: p99, note, failures: 0 });
        raw.insert(
            kind.name().to_owned(),
            json!({ "p50_ms": p50, "p99_ms": p99, "max_ms": max, "requests": latencies.len() }),
        );
    }
    let what = "a hot file of 1 KB while four cold files of 64 MB come from a disk throttled to 4 MB/s";
    Ok(Outcome::new("cold-disk", what, Budget::Absolute(2.0), "ms (p99)", rows, raw.into()))
}

fn make_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for number in 0..COLD_FILES {
        let path = root.join(format!("large/cold-{number}.bin"));
        if fs::metadata(&path).map_or(0, |metadata| metadata.len()) != COLD_BYTES as u64 {
            let mut file = File::create(&path)?;
            file.write_all(&vec![b'c'; COLD_BYTES])?;
            file.sync_all()?;
        }
        files.push(path);
    }
    Ok(files)
}

/// Takes the files out of the page cache; their pages are clean.
fn forget(files: &[PathBuf]) -> Result<()> {
    for path in files {
        fadvise(File::open(path)?, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Latencies of the hot file in milliseconds, sorted.
fn measure(server: &Running, files: &[PathBuf]) -> Result<Vec<f64>> {
    let mut hot = server.connect()?;
    hot.get("/1k.txt")?;
    forget(files)?;
    let address = server.address;
    for number in 0..files.len() {
        // The threads end when the server does.
        std::thread::spawn(move || Client::connect(address)?.get(&format!("/large/cold-{number}.bin")));
    }
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let began = Instant::now();
        hot.get("/1k.txt")?;
        latencies.push(began.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(PAUSE);
    }
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}

fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * percent / 100.0).round() as usize).copied().unwrap_or_default()
}

/// A control group whose reads from one disk are slowed down; removed when dropped.
struct Throttle {
    group: PathBuf,
    parent: PathBuf,
}

impl Throttle {
    /// For the disk that a directory is on. Needs root, and version 1 with `blkio` or version 2 with `io`.
    fn new(directory: &Path) -> Result<Throttle> {
        let disk = disk_of(directory)?;
        let first = Path::new("/sys/fs/cgroup/blkio");
        let second = Path::new("/sys/fs/cgroup");
        let has_io = |text: String| text.split_ascii_whitespace().any(|controller| controller == "io");
        let (parent, file, limit) = if first.join("blkio.throttle.read_bps_device").exists()
            || first.join("tasks").exists()
        {
            (first, "blkio.throttle.read_bps_device", format!("{disk} {DISK_BYTES_PER_SECOND}"))
        } else if fs::read_to_string(second.join("cgroup.controllers")).is_ok_and(has_io) {
            fs::write(second.join("cgroup.subtree_control"), "+io")?;
            (second, "io.max", format!("{disk} rbps={DISK_BYTES_PER_SECOND}"))
        } else {
            return Err(
                "no control group can throttle a disk here (blkio of version 1, or io of version 2)".into()
            );
        };
        let group = parent.join(format!("maitred-bench-{}", std::process::id()));
        fs::create_dir_all(&group).map_err(|error| format!("{}: {error}", group.display()))?;
        let throttle = Throttle { group, parent: parent.to_owned() };
        fs::write(throttle.group.join(file), &limit)
            .map_err(|error| format!("{file} = {limit:?}: {error}"))?;
        Ok(throttle)
    }

    fn hold(&self, processes: &[u32]) -> Result<()> {
        processes.iter().try_for_each(|pid| Ok(fs::write(self.group.join("cgroup.procs"), pid.to_string())?))
    }

    /// Back to full speed, so that the server need not wait for the slow disk before it ends.
    fn release(&self, processes: &[u32]) -> Result<()> {
        processes.iter().try_for_each(|pid| Ok(fs::write(self.parent.join("cgroup.procs"), pid.to_string())?))
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // Processes that were started meanwhile are still in it.
        let left = fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default();
        for pid in left.lines() {
            let _ = fs::write(self.parent.join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.group);
    }
}

/// The whole disk below a directory, as "major:minor"; a partition cannot be throttled by itself.
fn disk_of(directory: &Path) -> Result<String> {
    let device = fs::metadata(directory)?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let block = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    if major == 0 || !block.exists() {
        return Err(
            format!("{} is not on a block device; choose another with --work", directory.display()).into()
        );
    }
    let disk = if block.join("partition").exists() {
        fs::canonicalize(&block)?.join("../dev")
    } else {
        block.join("dev")
    };
    Ok(fs::read_to_string(disk)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn percentiles_of_sorted_figures() {
        let figures: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!(super::percentile(&figures, 50.0), 50.0);
        assert_eq!(super::percentile(&figures, 99.0), 99.0);
        assert_eq!(super::percentile(&figures, 100.0), 100.0);
        assert_eq!(super::percentile(&[], 50.0), 0.0);
    }
}
