//! Reading all of a directory, in parts.

use std::io;

use super::disk::{Directory, Names};
use super::key::Hash;

/// Directories.
pub(super) const FOLDERS: u64 = 256;
/// Names that are read in one part.
const NAMES_PER_PART: usize = 256;

/// How far it was read.
#[derive(Debug, Default)]
pub(super) struct Walk {
    folder: u64,
    names: Option<Names>,
}

/// A part of what is there.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Hashes of which there are files.
    pub(super) hashes: Vec<Hash>,
    /// The number of directories that were read to their end.
    pub(super) read: u64,
}

impl Walk {
    /// The next part. `None` if all was read. Drafts of other processes are removed, and files that are in another directory than
    /// their names say. What has no name that a file of the store has is another program's, and stays.
    ///
    /// # Errors
    /// What the system says about this directory. The walk goes on with the next one.
    pub(super) fn next(&mut self, directory: &Directory) -> io::Result<Option<Part>> {
        let Some(folder) = u8::try_from(self.folder).ok() else { return Ok(None) };
        if self.names.is_none() {
            self.names = directory.names(folder).inspect_err(|_| self.folder += 1)?;
        }
        let mut part = Part::default();
        for _ in 0..NAMES_PER_PART {
            match self.names.as_mut().and_then(Iterator::next) {
                Some(Ok(name)) => match Hash::of_name(&name) {
                    Some(hash) if hash.folder() == folder => part.hashes.push(hash),
                    // No lookup finds it there.
                    Some(_) => directory.remove_name(folder, &name),
                    None if directory.is_lost_draft(&name) => directory.remove_name(folder, &name),
                    None => {}
                },
                Some(Err(error)) => {
                    self.names = None;
                    self.folder += 1;
                    return Err(error);
                }
                None => {
                    self.names = None;
                    self.folder += 1;
                    break;
                }
            }
        }
        part.read = self.folder;
        Ok(Some(part))
    }
}
