//! Where the samples come from: `/proc/self/task/TID/schedstat`, `/proc/self/task/TID/stat` and `/proc/stat`
//! (proc(5), `Documentation/scheduler/sched-stats.rst`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::process::Pid;

use super::adapt::{CpuSample, ThreadSample};

/// Most that is read of one file, in bytes: `/proc/stat` has about 100 for each CPU, and a number for each interrupt.
const READ_BYTES_MAX: usize = 1024 * 1024;

/// Reads samples. The files are opened once, and read again from their start each time: that costs less, and works on
/// when the process has dropped the right to open files.
#[derive(Debug)]
pub struct Sampler {
    threads: Vec<ThreadFiles>,
    stat: Option<File>,
    tick_ns: u64,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct ThreadFiles {
    schedstat: Option<File>,
    stat: Option<File>,
}

impl Sampler {
    /// For these threads of this process. A file that cannot be opened, in a container or on a kernel without
    /// `CONFIG_SCHED_INFO`, means no samples of that kind.
    pub fn new(threads: &[Pid]) -> Sampler {
        Sampler::at(Path::new("/proc"), rustix::param::clock_ticks_per_second(), threads)
    }

    /// For a tree that looks like `/proc`, which counts so many ticks a second.
    pub fn at(proc: &Path, ticks_per_second: u64, threads: &[Pid]) -> Sampler {
        let files = |tid: &Pid| {
            let task = proc.join(format!("self/task/{}", tid.as_raw_nonzero()));
            ThreadFiles {
                schedstat: File::open(task.join("schedstat")).ok(),
                stat: File::open(task.join("stat")).ok(),
            }
        };
        Sampler {
            threads: threads.iter().map(files).collect(),
            stat: File::open(proc.join("stat")).ok(),
            tick_ns: 1_000_000_000 / ticks_per_second.max(1),
            buffer: Vec::new(),
        }
    }

    /// All threads in their order; `None` for one that is gone.
    pub fn threads(&mut self) -> Vec<Option<ThreadSample>> {
        let Sampler { threads, buffer, .. } = self;
        threads.iter().map(|files| sample(files, buffer)).collect()
    }

    /// All CPUs that are online.
    pub fn cpus(&mut self) -> Vec<CpuSample> {
        let text = read(self.stat.as_ref(), &mut self.buffer).unwrap_or_default();
        text.lines()
            .take_while(|line| line.starts_with("cpu"))
            .filter_map(|line| parse_cpu(line, self.tick_ns))
            .collect()
    }
}

fn sample(files: &ThreadFiles, buffer: &mut Vec<u8>) -> Option<ThreadSample> {
    let (cpu_ns, run_delay_ns) = parse_schedstat(read(files.schedstat.as_ref(), buffer)?)?;
    let last_cpu = read(files.stat.as_ref(), buffer).and_then(parse_last_cpu);
    Some(ThreadSample { cpu_ns, run_delay_ns, last_cpu })
}

/// A file from its start, as far as it is text.
fn read<'a>(file: Option<&File>, buffer: &'a mut Vec<u8>) -> Option<&'a str> {
    let file = file?;
    let mut length = 0;
    while length < READ_BYTES_MAX {
        buffer.resize((length + 4096).max(buffer.len()), 0);
        match file.read_at(buffer.get_mut(length..)?, length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    let bytes = buffer.get(..length)?;
    std::str::from_utf8(bytes).ok()
}

/// `cpu_ns run_delay_ns timeslices`
fn parse_schedstat(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_ascii_whitespace();
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Field 39, `processor`. Field 2 is the name in brackets, which may hold blanks and brackets itself.
fn parse_last_cpu(text: &str) -> Option<u16> {
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(39 - 3)?.parse().ok()
}

/// `cpuN user nice system idle iowait ...`, in ticks.
fn parse_cpu(line: &str, tick_ns: u64) -> Option<CpuSample> {
    let mut words = line.strip_prefix("cpu")?.split(' ');
    // The first line sums up all CPUs and has no number.
    let cpu = words.next()?.parse().ok()?;
    let idle: u64 = words.nth(3)?.parse().ok()?;
    let iowait: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Some(CpuSample { cpu, idle_ns: idle.saturating_add(iowait).saturating_mul(tick_ns) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_and_this_machine_can_be_read() {
        let mut sampler = Sampler::new(&[rustix::thread::gettid()]);
        let mut sample = || sampler.threads().remove(0).expect("the kernel counts");
        let before = sample();
        while sample().cpu_ns <= before.cpu_ns + 1_000_000 {}
        assert!(sample().last_cpu.is_some());
        let cpus: Vec<u16> = sampler.cpus().iter().map(|sample| sample.cpu).collect();
        for cpu in crate::affinity::topology::inherited_mask().expect("a mask") {
            assert!(cpus.contains(&cpu));
        }
    }

    #[test]
    fn a_thread_that_is_gone_has_no_sample() {
        let (tell, told) = std::sync::mpsc::channel();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).expect("the test waits");
            let _ = wait.recv();
        });
        let mut sampler = Sampler::new(&[told.recv().expect("it lives")]);
        assert_ne!(sampler.threads(), [None]);
        drop(release);
        thread.join().expect("no panic");
        // The kernel unhashes a thread just after its parent could wait for it.
        while sampler.threads() != [None] {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_file_longer_than_one_read_is_read_whole() {
        let root = tempfile::tempdir().expect("a directory");
        let lines: String = (0..1000).map(|cpu| format!("cpu{cpu} 1 2 3 {cpu} 0 0 0\n")).collect();
        std::fs::write(root.path().join("stat"), format!("cpu  1 2 3 4 5\n{lines}intr 1 2 3\n"))
            .expect("a file");
        let mut sampler = Sampler::at(root.path(), 1, &[]);
        let expected = CpuSample { cpu: 999, idle_ns: 999_000_000_000 };
        assert_eq!(sampler.cpus().last(), Some(&expected));
        assert_eq!(sampler.cpus().len(), 1000);
    }

    #[test]
    fn files_are_parsed_by_their_manual() {
        assert_eq!(parse_schedstat("123 456 7\n"), Some((123, 456)));
        assert_eq!(parse_schedstat("123"), None);
        let stat = format!("7 (a) b) S {} 5 0\n", vec!["0"; 35].join(" "));
        assert_eq!(parse_last_cpu(&stat), Some(5));
        assert_eq!(parse_last_cpu("7 (a S"), None);
        assert_eq!(parse_cpu("cpu3 1 2 3 40 2 9 9 0", 10), Some(CpuSample { cpu: 3, idle_ns: 420 }));
        for other in ["cpu  1 2 3 4 5", "intr 1 2 3", "cpu3 1 2", ""] {
            assert_eq!(parse_cpu(other, 10), None, "{other}");
        }
    }

    #[test]
    fn what_is_not_there_is_no_sample() {
        let mut sampler = Sampler::at(Path::new("/nonexistent"), 100, &[rustix::thread::gettid()]);
        assert_eq!(sampler.threads(), [None]);
        assert_eq!(sampler.cpus(), []);
    }
}
