//! What a process may reach in the filesystem: what it asks for, and nothing else (landlock(7)); and that others reach nothing
//! of it.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, path_beneath_rules,
};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Hides this process from all others of its account: they can neither trace it nor see its memory, its environment and its
/// descriptors (`PR_SET_DUMPABLE`, prctl(2)). It writes no core file. execve(2) ends it, and so does a change of the account.
///
/// # Errors
/// None that is known to happen.
pub fn hide() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// The kernel interface that is asked for; an older kernel gives what it has.
pub const WANTED: ABI = ABI::V5;

/// Confines the calling thread, and all that it starts later: below these paths it has the rights beside them, and elsewhere
/// none. Paths that cannot be opened are left out. Gives back what the kernel made of it, in words.
///
/// # Errors
/// When the kernel has Landlock and refuses the rules.
pub fn restrict(rules: &[(&[&Path], BitFlags<AccessFs>)]) -> Result<&'static str, RulesetError> {
    let rules = rules.iter().flat_map(|(paths, rights)| path_beneath_rules(*paths, *rights));
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))?
        .create()?
        .add_rules(rules)?
        .restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => "on",
        RulesetStatus::NotEnforced => "off: the kernel has no Landlock",
    })
}
