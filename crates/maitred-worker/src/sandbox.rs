//! What a worker process may reach: the directories that the configuration names, to read, what adaptive affinity watches, the
//! spool, the directory of the cache, the ports of the external servers that it passes requests to (any port, if some can be
//! added), and nothing else
//! (landlock(7)). Everything else that it
//! needs was opened by the master.

use std::path::Path;

use landlock::{AccessFs, BitFlags, RulesetError};

use maitred_base::sandbox::{self, Connections};
use maitred_config::Config;
use maitred_control::servers::{ServerList, ports};

/// Confines the calling thread, and all threads that it starts later, to reading below the configuration's roots, and, if there
/// is a pool, to files in the spool. Gives back what the kernel made of it, in words.
///
/// # Errors
/// When the kernel has Landlock and refuses the rules.
pub fn confine(config: &Config, servers: &[ServerList]) -> Result<&'static str, String> {
    let files = config.sites.iter().flat_map(|site| {
        let routes = site.routes.iter().flat_map(|route| {
            let files = match &route.target {
                maitred_config::Target::Files(files) => Some(files),
                _ => None,
            };
            files.into_iter().chain(&route.scripts)
        });
        routes.chain(&site.files)
    });
    let files: Vec<_> = files.collect();
    // A root whose links may lead anywhere is no bound.
    let everywhere = files.iter().any(|files| files.symlinks_may_leave);
    let own = maitred_control::affinity::READS.iter().map(Path::new);
    let named = config.pools.iter().flat_map(|pool| &pool.named_files).map(|(_, root)| root.as_path());
    let roots = files.iter().map(|files| files.root.as_path()).chain(own).chain(named);
    let roots: Vec<&Path> = if everywhere { vec![Path::new("/")] } else { roots.collect() };
    let spool = (!config.pools.is_empty()).then_some(config.server.spool.as_path());
    // A server with another port takes another worker process: the master knows these, too.
    let ports: Vec<u16> = ports(config, servers).into_iter().collect();
    let cache = config.cache.as_ref().map(|cache| cache.directory.as_path());
    restrict(&roots, spool, cache, Some(&ports)).map_err(|error| error.to_string())
}

fn restrict(
    roots: &[&Path],
    spool: Option<&Path>,
    cache: Option<&Path>,
    ports: Option<&[u16]>,
) -> Result<&'static str, RulesetError> {
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    // The files of the cache are made, named, and removed by the worker process.
    let keep = read
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir
        | AccessFs::Refer;
    let rules: [(&[&Path], _); 3] = [
        (roots, read),
        (spool.as_slice(), AccessFs::ReadFile | AccessFs::WriteFile),
        (cache.as_slice(), keep),
    ];
    sandbox::restrict(&rules, ports.map_or(Connections::Anywhere, Connections::Ports))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn unnamed_file(dir: &Path) -> std::io::Result<std::fs::File> {
        use std::io::{Seek, Write};
        let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
        let file = rustix::fs::open(dir, flags, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
        let mut file = std::fs::File::from(file);
        file.write_all(b"body")?;
        file.rewind()?;
        Ok(file)
    }

    #[test]
    fn a_confined_thread_reads_its_roots_and_nothing_else() {
        let [inside, outside, spool] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        for dir in [&inside, &outside] {
            std::fs::write(dir.path().join("file"), "text").unwrap();
        }
        let (root, other) = (inside.path().to_owned(), outside.path().to_owned());
        // Landlock binds the thread for good, so it has to be one of its own.
        let confined = std::thread::spawn(move || {
            let status = restrict(&[&root], Some(spool.path()), None, Some(&[])).unwrap();
            unnamed_file(spool.path()).expect("the spool takes files without a name");
            let reads = |dir: &Path| std::fs::read_to_string(dir.join("file")).is_ok();
            (status, reads(&root), reads(&other), std::fs::write(root.join("new"), "").is_ok())
        });
        let (status, own, others, writes) = confined.join().unwrap();
        assert!(own);
        if status.starts_with("on") {
            assert!(!others && !writes, "reads outside: {others}, writes: {writes}");
        } else {
            eprintln!("skipped in part: this kernel has no Landlock");
        }
    }

    #[test]
    fn a_confined_thread_connects_to_its_servers_binds_nothing_and_signals_no_other_process() {
        let [server, other] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let address = |listener: &TcpListener| listener.local_addr().unwrap();
        let (server_address, other_address) = (address(&server), address(&other));
        let confined = std::thread::spawn(move || {
            let status = restrict(&[], None, None, Some(&[server_address.port()])).unwrap();
            let connects = |address| TcpStream::connect(address).is_ok();
            let parent = rustix::process::getppid().unwrap();
            let signals = rustix::process::test_kill_process(parent).is_ok();
            let binds = TcpListener::bind("127.0.0.1:0").is_ok();
            (status, connects(server_address), connects(other_address), binds, signals)
        });
        let (status, to_its_server, to_another, binds, signals) = confined.join().unwrap();
        assert!(to_its_server);
        if status == "on" {
            assert!(
                !to_another && !binds && !signals,
                "connects: {to_another}, binds: {binds}, signals: {signals}"
            );
        } else {
            eprintln!("skipped in part: the kernel's Landlock is {status}");
        }
    }
}
