//! Files of a world, and disks that are slow: what is asked of helper threads is done when the world does it, in any order.
//! Whether anything is in memory is for the seed to say.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::time;
use super::world::World;
use crate::shared::Shared;
use maitred_base::residency::cold;
use maitred_testing::response;

/// How many bytes the files have; the name of each is its place.
const LENGTHS: [usize; 6] = [0, 1, 900, 20_000, 70_000, 200_000];

/// Makes the files, and says what is in them.
pub(super) fn make(root: &Path) -> Vec<Arc<[u8]>> {
    std::fs::create_dir_all(root.join("files")).unwrap();
    let make = |(place, bytes): (usize, &usize)| {
        let content = response::pattern(9_000_000 + place as u32, *bytes);
        let path = root.join("files").join(place.to_string());
        std::fs::write(&path, &content).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + time::BEGIN).unwrap();
        content.into()
    };
    LENGTHS.iter().enumerate().map(make).collect()
}

/// A file with these bytes that has no name, and is on a disk if there is one.
pub(super) fn nameless(root: &Path, content: &[u8]) -> OwnedFd {
    let file = tempfile::tempfile_in(root).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, content, 0).unwrap();
    file.into()
}

impl World<'_> {
    /// Disks are as slow as the world wants them to be from now on.
    pub(super) fn begin_disks(&mut self) {
        let percent = self.random.weighted(&[(2, 50), (1, 0), (1, 100)]);
        let cold_at = if self.stage.kind.files { percent } else { 0 };
        cold::set(self.random.within(0..usize::MAX >> 17) as u64, cold_at);
    }

    /// Helpers do some of what waits for them. Whether there was anything.
    pub(super) fn help(&mut self, at_most: usize) -> bool {
        let mut moved = false;
        for _ in 0..at_most {
            let all: Vec<&Shared> = self.stage.shared.to_vec();
            let passed = all.iter().flat_map(|shared| &shared.passed).any(|helpers| helpers.work_once());
            let place = self.random.within(0..1000);
            let read = all.iter().any(|shared| shared.disk.work_once(place));
            if !passed && !read {
                break;
            }
            self.note(|| format!("a helper: passed {passed}, read {read}"));
            moved = true;
        }
        moved
    }
}
