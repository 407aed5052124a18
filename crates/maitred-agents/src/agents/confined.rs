//! What an agent may do, as little as it can be: it reads answers from the network.

use std::path::Path;

use landlock::{Access as _, AccessFs, RulesetError};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use maitred_base::sandbox::{self, Connections, WANTED};

/// What resolving names and checking certificates takes: the resolver's files, its modules, and certificates. Whole directories,
/// because files in them are replaced while the agent runs.
const READ: [&str; 6] = ["/etc", "/usr", "/lib", "/lib64", "/run", "/var/run"];

/// Drops all capabilities, and confines the calling thread and all that it starts later: to writing below `writes`, which has to
/// exist, and to reading `reads` and what names and certificates take. Gives back what the kernel made of it, in words.
///
/// # Errors
/// A text, when the kernel refuses.
pub fn confine(reads: &[&Path], writes: Option<&Path>) -> Result<&'static str, String> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(|error| format!("capabilities: {error}"))?;
    let reads: Vec<&Path> = READ.iter().map(Path::new).chain(reads.iter().copied()).collect();
    restrict(&reads, writes).map_err(|error| format!("Landlock: {error}"))
}

/// Without what every agent may read.
///
/// # Errors
/// When the kernel refuses.
pub fn restrict(reads: &[&Path], writes: Option<&Path>) -> Result<&'static str, RulesetError> {
    let rules: [(&[&Path], _); 2] = [
        (reads, AccessFs::from_read(WANTED) & !AccessFs::Execute),
        (writes.as_slice(), AccessFs::from_all(WANTED) & !AccessFs::Execute),
    ];
    // Others say where to connect to: the configuration's names, and what answers there.
    sandbox::restrict(&rules, Connections::Anywhere)
}
