//! How the agent begins and what it may reach, as little as it can be: it reads answers from the network, and holds keys.

use std::path::Path;

use super::messages::Start;
use super::store;
use crate::agents::process::Document;
use maitred_config::DnsBy;

impl Document for Start {
    fn log_level(&self) -> &str {
        &self.log_level
    }

    fn seccomp(&self) -> bool {
        self.seccomp
    }

    fn prepare(&self) -> Result<(), String> {
        let made = store::make_directory(&self.state);
        made.map_err(|error| format!("state directory: {}: {error}", self.state.display()))
    }

    fn reads(&self) -> Vec<&Path> {
        let own = self.acme.authorities.iter().flat_map(|authority| {
            let external =
                authority.external_account.as_ref().map(|external| external.hmac_key_file.as_path());
            authority.ca_file.as_deref().into_iter().chain(external)
        });
        let updates = self.acme.dns.iter().filter_map(|dns| match &dns.by {
            DnsBy::Update(update) => Some(update.key_file.as_path()),
            DnsBy::Hook(_) => None,
        });
        own.chain(updates).collect()
    }

    fn writes(&self) -> Option<&Path> {
        Some(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use crate::acme::store::Store;
    use crate::agents::confined::restrict;

    #[test]
    fn a_confined_thread_keeps_certificates_and_writes_nothing_else() {
        let [state, outside] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        std::fs::write(outside.path().join("ca.pem"), "text").unwrap();
        let (inside, other) = (state.path().to_owned(), outside.path().to_owned());
        // The sandbox binds the thread for good, so the thread has to be one of its own.
        let confined = std::thread::spawn(move || {
            let status = restrict(&[&other.join("ca.pem")], Some(&inside)).unwrap();
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
