//! What crosses from one executable to the next when a running server is upgraded, and the check before.
//!
//! Four things do, and each says which version it is of, or is stable for good: what the old image of the master leaves to the
//! new one (`maitred_master::upgrade_state`), the answer of the check ([`answer`]), the words [`GO`] and [`STOP`] between the
//! new image and the old worker process, and what goes with a connection from it to the new one (`maitred_worker::drain`).
//! Everything else is between processes of one executable.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The version of what one image of the master leaves to the next. An executable that reads others as well lists them in
/// [`READS`].
pub const FORMAT: u32 = 1;
/// The versions that this executable can start from.
pub const READS: [u32; 1] = [FORMAT];
/// What a new image of the master says to the old worker process when another one has taken over: finish, and exit. Whatever
/// follows it in the same message is for later versions.
pub const GO: &[u8] = b"go";
/// The same, begun in the same way, when no new worker process has taken over, because the server stops.
pub const GO_FOR_GOOD: &[u8] = b"go for good";
/// What the old worker process says to a new image that has yet to come up, when it is asked to stop the server. An image that
/// does not know the word ignores it.
pub const STOP: &[u8] = b"stop";
/// What a new image says to the old worker process when an attempt to take over has failed; the reason follows. The old one
/// serves on, and tells it to the clients that wait for the upgrade. A worker process that does not know the word ignores it.
pub const SERVE_ON: &[u8] = b"serve on: ";
/// Room for one word of either side, and for what later versions add to it. A longer one arrives cut: the first version has room
/// for 64 bytes.
pub const WORD_BYTES_MAX: usize = 1024;
/// The environment variable that says where a new image finds what the old one has left: process id, colon, descriptor.
pub const VARIABLE: &str = "MAITRED_UPGRADE";
/// The hidden command that the check is (`maitred::cli::upgrade_check`).
pub const CHECK_COMMAND: &str = "upgrade-check";
/// What the line begins with by which an executable says which versions it reads.
const ANSWER: &str = "maitred-upgrade";

/// The line by which an executable says which versions it reads.
pub fn answer() -> String {
    let reads: Vec<String> = READS.iter().map(u32::to_string).collect();
    format!("{ANSWER} {} {}", env!("CARGO_PKG_VERSION"), reads.join(" "))
}

/// Judges what a check has said. `ended_well`: with status 0.
///
/// # Errors
/// Why that executable cannot take over, and what caused it.
pub fn judge(program: &Path, said: &str, ended_well: bool, how: &str) -> Result<(), String> {
    let program = program.display();
    let answer = said.lines().find_map(|line| line.strip_prefix(ANSWER));
    let Some(answer) = answer.filter(|_| ended_well) else {
        let said = said.trim_end();
        let said = if said.is_empty() { "it said nothing" } else { said };
        return Err(format!("the check by {program} {how}: {said}"));
    };
    let mut words = answer.split_whitespace();
    let version = words.next().unwrap_or_default();
    match words.any(|word| word == FORMAT.to_string()) {
        true => Ok(()),
        false => Err(format!(
            "{program} is version {version}, which cannot take over from {}: stop the server and start it",
            env!("CARGO_PKG_VERSION")
        )),
    }
}

/// Where the executable is that this process was started from, so that another one at the same place is found later. A
/// symbolic link by which it was named is not resolved, because it may lead elsewhere then. Call it early.
pub fn executable() -> Option<PathBuf> {
    let running = std::fs::read_link("/proc/self/exe").ok()?;
    let named = std::env::args_os().next().map(PathBuf::from)?;
    let candidates: Vec<PathBuf> = match named.as_os_str().as_bytes().contains(&b'/') {
        true => vec![named],
        false => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).map(|directory| directory.join(&named)).collect()
        }
    };
    let is_it = |path: &PathBuf| std::fs::canonicalize(path).is_ok_and(|found| found == running);
    let named = candidates.into_iter().find(is_it).and_then(|path| std::path::absolute(path).ok());
    Some(named.unwrap_or_else(|| without_mark(running)))
}

/// Without what proc_pid_exe(5) adds to the path of a file that was removed.
fn without_mark(path: PathBuf) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    match bytes.strip_suffix(b" (deleted)") {
        Some(rest) => PathBuf::from(std::ffi::OsStr::from_bytes(rest)),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_executable_that_reads_the_format_passes() {
        let judged = |said: &str, well| judge(Path::new("/x/maitred"), said, well, "exited with status 0");
        assert_eq!(judged(&answer(), true), Ok(()));
        assert_eq!(judged(&format!("a warning\n{}\n", answer()), true), Ok(()));
        assert!(judged(&answer(), false).is_err());
        let strange = judged("maitred-upgrade 9.0.0 7 8", true).unwrap_err();
        assert!(strange.contains("/x/maitred is version 9.0.0"), "{strange}");
        for said in ["", "hello\n", "maitred-upgrade", "maitred-upgrade 9.0.0"] {
            assert!(judged(said, true).is_err(), "{said}");
        }
        assert!(judged("line 1: no\n", true).unwrap_err().ends_with("line 1: no"));
    }

    #[test]
    fn a_removed_file_is_sought_at_its_place() {
        assert_eq!(without_mark("/x/maitred (deleted)".into()), Path::new("/x/maitred"));
        assert_eq!(without_mark("/x/maitred".into()), Path::new("/x/maitred"));
        assert!(executable().is_some_and(|path| path.is_absolute() && path.exists()));
    }
}
