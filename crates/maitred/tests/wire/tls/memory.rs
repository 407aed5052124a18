//! What is left of a key in the memory of the server's processes when it has been handed on.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use crate::support::stage::{Authority, connect, setup};

/// All that a process can write to.
fn memory(pid: i32) -> Vec<Vec<u8>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let file = File::open(format!("/proc/{pid}/mem")).unwrap();
    let region = |line: &str| {
        let mut words = line.split(' ');
        let (from, to) = words.next()?.split_once('-')?;
        let [from, to] = [from, to].map(|digits| u64::from_str_radix(digits, 16).unwrap());
        words.next().filter(|rights| rights.starts_with("rw"))?;
        let mut bytes = vec![0; (to - from) as usize];
        // A mapping may have gone since.
        file.read_exact_at(&mut bytes, from).ok()?;
        Some(bytes)
    };
    maps.lines().filter_map(region).collect()
}

fn count(memory: &[Vec<u8>], needle: &[u8]) -> usize {
    let first = needle[0];
    let at = |bytes: &[u8], place: usize| bytes[place] == first && bytes[place..].starts_with(needle);
    memory.iter().map(|bytes| (0..bytes.len()).filter(|place| at(bytes, *place)).count()).sum()
}

#[test]
fn no_text_of_a_key_is_left_in_memory() {
    if !rustix::process::geteuid().is_root() {
        return crate::support::skip_here("only root can look into the memory of the server");
    }
    let authority = Authority::new();
    let server = setup(&authority, "").start();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    assert_eq!(connect(&server, &authority.client()).get("/a.txt").text(), "file a\n");
    let pem = fs::read_to_string(server.path("site-key.pem")).unwrap();
    let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
    // In PKCS #8, P-256: 36 bytes of what it is, and then the number that must stay secret.
    let number = &der.secret_der()[36..68];
    let digits: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
    let line = pem.lines().nth(1).unwrap();
    for (who, pid) in [("master", server.pid().as_raw_nonzero().get()), ("worker", server.answering_worker())]
    {
        let memory = memory(pid);
        assert!(count(&memory, b"localhost") > 0, "it was looked at, {who}");
        assert_eq!(count(&memory, digits.as_bytes()), 0, "as in the document, {who}");
        assert_eq!(count(&memory, line.as_bytes()), 0, "as in the file, {who}");
        // The master hands it on again to the next worker process; the library has the other's, in a form of its own.
        let kept = if who == "master" { 2 } else { 0 };
        assert!(count(&memory, number) <= kept, "{who}");
    }
    server.stop();
}
