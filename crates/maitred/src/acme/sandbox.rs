//! What the agent may do, as little as it can be: it reads answers from the network, and holds keys.

use std::path::Path;

use landlock::{Access as _, AccessFs, RulesetError};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::messages::Start;
use crate::config::DnsBy;
use crate::sandbox::{self, Connections, WANTED};

/// What resolving names and checking certificates takes: the resolver's files, its modules, and certificates. Whole directories,
/// because files in them are replaced while the agent runs.
const READ: [&str; 6] = ["/etc", "/usr", "/lib", "/lib64", "/run", "/var/run"];

/// Drops all capabilities, and confines the calling thread and all that it starts later: to writing below the state directory,
/// and to reading what names and certificates take. The state directory has to exist. Gives back what the kernel made of it, in
/// words.
///
/// # Errors
/// A text, when the kernel refuses.
pub fn confine(start: &Start) -> Result<&'static str, String> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(|error| format!("capabilities: {error}"))?;
    let own = start.acme.authorities.iter().flat_map(|authority| {
        let external = authority.external_account.as_ref().map(|external| external.hmac_key_file.as_path());
        authority.ca_file.as_deref().into_iter().chain(external)
    });
    let updates = start.acme.dns.iter().filter_map(|dns| match &dns.by {
        DnsBy::Update(update) => Some(update.key_file.as_path()),
        DnsBy::Hook(_) => None,
    });
    let read: Vec<&Path> = READ.iter().map(Path::new).chain(own).chain(updates).collect();
    restrict(&start.state, &read).map_err(|error| format!("Landlock: {error}"))
}

fn restrict(state: &Path, read: &[&Path]) -> Result<&'static str, RulesetError> {
    let rules: [(&[&Path], _); 2] = [
        (read, AccessFs::from_read(WANTED) & !AccessFs::Execute),
        (&[state], AccessFs::from_all(WANTED) & !AccessFs::Execute),
    ];
    // The authority and the resolver say where to connect to.
    sandbox::restrict(&rules, Connections::Anywhere)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acme::store::Store;

    #[test]
    fn a_confined_thread_keeps_certificates_and_writes_nothing_else() {
        let [state, outside] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        std::fs::write(outside.path().join("ca.pem"), "text").unwrap();
        let (inside, other) = (state.path().to_owned(), outside.path().to_owned());
        // It binds the thread for good, so it has to be one of its own.
        let confined = std::thread::spawn(move || {
            let status = restrict(&inside, &[&other.join("ca.pem")]).unwrap();
            let store = Store::open(&inside).unwrap();
            store.keep_certificate("a.example", "one").unwrap();
            store.keep_certificate("a.example", "two").unwrap();
            let reads = std::fs::read_to_string(other.join("ca.pem")).is_ok();
            let lists = std::fs::read_dir(&other).is_ok();
            (
                status,
                store.certificate("a.example").unwrap(),
                reads,
                lists,
                std::fs::write(other.join("new"), "").is_ok(),
            )
        });
        let (status, kept, reads, lists, writes) = confined.join().unwrap();
        assert_eq!(kept.as_deref(), Some("two"));
        assert!(reads);
        if status.starts_with("on") {
            assert!(!lists && !writes, "lists: {lists}, writes: {writes}");
        } else {
            eprintln!("skipped in part: this kernel has no Landlock");
        }
    }
}
