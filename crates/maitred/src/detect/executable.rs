//! A program that is there as a file, without a runtime.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::place::Place;
use super::{Advice, Application, Kind};

/// The variable that each adapter reads: what has its name speaks to Maitred.
const CHANNEL: &[u8] = b"MAITRED_CHANNEL";
/// More of a program is not read.
const PROGRAM_BYTES_MAX: u64 = 256 << 20;

/// The one program of a directory: started if it speaks to Maitred.
pub fn only(place: Place<'_>) -> Option<Result<Application, Advice>> {
    let mut programs = place.names().into_iter().filter(|name| is_program(&place.path(name)));
    let (Some(program), None) = (programs.next(), programs.next()) else { return None };
    let because = format!("the program {program}");
    Some(if speaks_to_maitred(&place.path(&program)) {
        Ok(Application::new("Executable", because, Kind::Command(vec![format!("./{program}")])))
    } else {
        Err(listens(&format!("./{program}")))
    })
}

/// What to do about a program that listens by itself.
pub fn listens(program: &str) -> Advice {
    Advice::new(
        format!("{program} has no adapter for Maitred, so it listens by itself"),
        format!(
            "start {program}, and write a pool with its address: [pool.web] connect = \"http://127.0.0.1:9000\" (docs/upstreams.md); \
             or build it with the adapter: docs/start-go.md"
        ),
    )
}

/// Whether it is a program in machine code that may be executed.
pub fn is_program(path: &Path) -> bool {
    let executable =
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    executable && starts_with(path, b"\x7fELF")
}

/// Whether the program has an adapter in it.
pub fn speaks_to_maitred(path: &Path) -> bool {
    let Ok(file) = std::fs::File::open(path) else { return false };
    let (mut file, mut room, mut kept) = (file.take(PROGRAM_BYTES_MAX), vec![0; 1 << 16], 0);
    while let Ok(bytes @ 1..) = file.read(room.get_mut(kept..).unwrap_or_default()) {
        let read = room.get(..kept + bytes).unwrap_or_default();
        if read.windows(CHANNEL.len()).any(|window| window == CHANNEL) {
            return true;
        }
        // The name may go on in the next piece.
        let end = read.len();
        kept = (CHANNEL.len() - 1).min(end);
        room.copy_within(end - kept..end, 0);
    }
    false
}

fn starts_with(path: &Path, what: &[u8]) -> bool {
    let mut begin = vec![0; what.len()];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == what
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_across_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        for before in [0, 100, (1 << 16) - 7, 3 << 16] {
            let mut text = vec![b'M'; before];
            text.extend_from_slice(CHANNEL);
            std::fs::write(&path, &text).unwrap();
            assert!(speaks_to_maitred(&path), "{before}");
            text.pop();
            std::fs::write(&path, &text).unwrap();
            assert!(!speaks_to_maitred(&path), "{before}");
        }
    }
}
