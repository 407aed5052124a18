//! An answer that is made by a helper thread of the server, since it has to wait: for a disk, here. The answer is the number of
//! lines of a file.
//!
//! ```toml
//! module = { path = "/usr/local/lib/maitred/libslow.so", config = { file = "/var/lib/app/list.txt", waiting_max = 8 }, timeout = "10s" }
//! ```
//!
//! The server has few helper threads, and all modules share them: `waiting_max` keeps this one from taking all of them. Requests
//! beyond it get 503.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use maitred_module::{Config, Field, Module, OwnedResponse, Response, module};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// Bytes that are read for one answer: a file that grows for ever does not keep a helper for ever.
const FILE_BYTES_MAX: u64 = 1 << 30;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    file: PathBuf,
    waiting_max: usize,
}

module!(begin);

fn begin(config: Config<'_>) -> Result<Module, String> {
    let settings: Settings = config.parse()?;
    // Opened here, and read later by this descriptor: a confined process could not open it.
    let file = File::open(&settings.file).map_err(|error| format!("{}: {error}", settings.file.display()))?;
    let (file, waiting) = (Arc::new(file), Arc::new(AtomicUsize::new(0)));
    Ok(Module::new().may_answer_later().on_request(move |request| {
        let Some(place) = Place::take(&waiting, settings.waiting_max) else {
            return request.answer(&Response::new(503, &[Field::new("Retry-After", b"1")], b""));
        };
        let file = Arc::clone(&file);
        request.answer_by_helper(move || {
            let answer = answer(&file);
            drop(place);
            answer
        })
    }))
}

/// One of the places for requests that wait; free again when it is dropped, also if no helper takes the request.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(waiting: &Arc<AtomicUsize>, waiting_max: usize) -> Option<Place> {
        let one_more = |count| (count < waiting_max).then_some(count + 1);
        waiting.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        Some(Place(Arc::clone(waiting)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// In a helper thread.
fn answer(file: &File) -> OwnedResponse {
    match lines(file) {
        Ok(lines) => OwnedResponse::text(format!("{lines}\n")),
        Err(error) => {
            maitred_module::error(&format!("slow: the file cannot be read: {error}"));
            OwnedResponse::new(500, "text/plain", b"the file cannot be read\n".to_vec())
        }
    }
}

fn lines(file: &File) -> io::Result<usize> {
    let (mut chunk, mut at, mut lines) = (vec![0; CHUNK_BYTES], 0, 0);
    loop {
        // At a place of its own: several threads read the file at the same time.
        let bytes = file.read_at(&mut chunk, at)?;
        let read = chunk.get(..bytes).unwrap_or_default();
        lines += read.iter().filter(|byte| **byte == b'\n').count();
        at += bytes as u64;
        if bytes == 0 {
            return Ok(lines);
        }
        if at > FILE_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("more than {FILE_BYTES_MAX} bytes"),
            ));
        }
    }
}
