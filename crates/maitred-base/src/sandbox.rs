//! What a process may reach: below the paths that it names, the ports that it names, no process but its own (landlock(7)); which
//! system calls it may make ([`seccomp`]); and that others reach nothing of it.

pub mod seccomp;

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Hides this process from all others of its account: they can neither trace it nor see its memory, its environment and its
/// descriptors (`PR_SET_DUMPABLE`, prctl(2)). A hidden process writes no core file. execve(2) ends the hiding, and so does a
/// change of the account.
///
/// # Errors
/// None that is known to happen.
pub fn hide() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// The kernel interface that is asked for; an older kernel gives what it has.
pub const WANTED: ABI = ABI::V6;

/// Where a process may open TCP connections to.
#[derive(Debug, Clone, Copy)]
pub enum Connections<'a> {
    /// Anywhere, because addresses are learnt later. The rules cannot be widened afterwards.
    Anywhere,
    /// To these ports, whatever the address: Landlock knows no others.
    Ports(&'a [u16]),
}

/// Confines the calling thread, and all that it starts later: below these paths it has the rights beside them, and elsewhere
/// none; it binds no TCP port, connects as `connections` says, signals no process but its own, and finds no abstract Unix socket
/// that others have made. Paths that cannot be opened are left out. An older kernel does what it knows of this. Gives back
/// what the kernel made of it, in words.
///
/// # Errors
/// When the kernel has Landlock and refuses the rules.
pub fn restrict(
    rules: &[(&[&Path], BitFlags<AccessFs>)],
    connections: Connections<'_>,
) -> Result<&'static str, RulesetError> {
    let rules = rules.iter().flat_map(|(paths, rights)| path_beneath_rules(*paths, *rights));
    let (handled, ports) = match connections {
        Connections::Anywhere => (AccessNet::BindTcp.into(), &[][..]),
        Connections::Ports(ports) => (AccessNet::BindTcp | AccessNet::ConnectTcp, ports),
    };
    let ports = ports.iter().map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp)));
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))?
        .handle_access::<_, AccessNet>(handled)?
        .scope(Scope::from_all(WANTED))?
        .create()?
        .add_rules(rules)?
        .add_rules(ports)?
        .restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => "on",
        RulesetStatus::PartiallyEnforced => "on, as far as the kernel knows it",
        RulesetStatus::NotEnforced => "off: the kernel has no Landlock",
    })
}
