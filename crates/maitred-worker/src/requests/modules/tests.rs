use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use crate::attach_modules;
use crate::testing::{client, reactor, shared_with};
use maitred_control::modules::{Confined, Modules, Rights};

/// A thread with this route, a client, and so many requests of that.
fn ask(route: &str, requests: usize) -> String {
    let site = format!("[[site]]\nroot = \"/nonexistent\"\n[[site.route]]\npath = \"/hello\"\n{route}\n");
    let shared = shared_with(&site, 1, |shared| {
        // What counts instructions makes system calls of its own.
        let mut config = shared.start.config.clone();
        config.server.seccomp = false;
        let rights = Rights::own(&config, &[], rustix::process::geteuid().as_raw());
        let (confined, _) = Confined::enter(rights).unwrap();
        shared.modules = Modules::load(&confined, &shared.start.config, &[], |_| ()).unwrap();
        attach_modules(&mut shared.router, &shared.start.config, &shared.modules);
    });
    let mut thread = reactor(shared, 0);
    let (index, far_end) = client(&mut thread, "192.0.2.1:1");
    let mut far_end = UnixStream::from(far_end);
    let mut room = [0; 4096];
    let mut last = 0;
    for _ in 0..requests {
        far_end
            .write_all(b"GET /hello HTTP/1.1\r\nHost: a.example\r\nUser-Agent: x\r\nAccept: */*\r\n\r\n")
            .unwrap();
        thread.connections[index].readable = true;
        thread.on_readable(index);
        last = far_end.read(&mut room).unwrap();
    }
    String::from_utf8_lossy(&room[..last]).into_owned()
}

/// What a hello costs, by a count of its instructions: `valgrind --tool=callgrind` over this test, with `MAITRED_COUNT_ROUTE` and
/// `MAITRED_COUNT_REQUESTS`, twice; the difference is free of what starting costs. `bench/instructions/modules.py` does that.
#[test]
#[ignore = "it is counted, and says nothing about being right"]
fn hello_again_and_again() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let requests = variable("MAITRED_COUNT_REQUESTS").parse().unwrap();
    let said = ask(&variable("MAITRED_COUNT_ROUTE"), requests);
    assert!(said.starts_with("HTTP/1.1 200 ") && said.ends_with("\r\n\r\nHello, world\n"), "{said}");
}
