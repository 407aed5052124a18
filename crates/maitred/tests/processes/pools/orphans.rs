//! Processes that applications leave behind, where they become children of the master: in a container, it is process 1.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Signal, geteuid};

use crate::support::processes::send_signal;
use crate::support::{Server, Setup, binary, eventually, skip_here, skip_missing};

/// Processes that are left behind at a time.
const LEFT: usize = 6;

fn setup() -> Setup {
    Setup::new()
        .outside("orphaning.py", include_bytes!("orphaning.py"))
        .route("/app/*", "pool = \"app\"")
        .python("app", "orphaning:application", "", "workers = 1")
}

/// The children of a process, with their states (proc_pid_stat(5)).
fn children(pid: i32) -> Vec<(i32, String)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let state = |child: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        Some((child, stat.rsplit(") ").next()?.split(' ').next()?.to_owned()))
    };
    text.split_whitespace().filter_map(|number| state(number.parse().unwrap())).collect()
}

/// Has the application leave processes behind again and again, and asserts that the master inherits them and reaps them, and
/// that it still sees how its own children end.
fn leave_behind(server: &Server, master: i32) {
    assert_eq!(server.connect().get("/app/fork?0").status, 200);
    let before = children(master).len();
    for _ in 0..3 {
        assert_eq!(server.connect().get(&format!("/app/fork?{LEFT}")).status, 200);
        eventually("the master inherits them", || children(master).len() == before + LEFT);
        assert_eq!(server.connect().get("/app/release").status, 200);
        eventually("it reaps them", || children(master).len() == before);
    }
    for status in [7, 8, 9] {
        assert_eq!(server.connect().get(&format!("/app/fork?{LEFT}")).status, 200);
        // The end of the application closes the pipe: they end at the same time as a child of the master's own.
        let _ = server.connect().get(&format!("/app/exit?{status}"));
        server.wait_for(&format!("exited with status {status}"));
    }
    eventually("none is left", || {
        let found = children(master);
        found.len() == before && found.iter().all(|(_, state)| state != "Z")
    });
}

/// No line says that how a process ended is not known.
fn judge(said: &[String]) {
    let lost: Vec<_> = said.iter().filter(|line| line.contains("cannot be waited for")).collect();
    assert!(lost.is_empty(), "{lost:#?}");
}

#[test]
fn a_child_subreaper_reaps_what_applications_leave_behind() {
    let mut command = Command::new("python3");
    // PR_SET_CHILD_SUBREAPER, which stays over execve(2).
    let wrapper = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])";
    command.args(["-c", wrapper]).arg(binary()).args(["run", "-c", "maitred.toml"]).stdin(Stdio::null());
    let server = setup().start_by(command);
    let master = server.pid().as_raw_nonzero().get();
    leave_behind(&server, master);
    judge(&server.terminate(Signal::TERM).said);
}

#[test]
fn process_1_reaps_what_applications_leave_behind() {
    if !geteuid().is_root() {
        return skip_here("it takes root to make a namespace of process ids");
    }
    if !Path::new("/usr/bin/unshare").exists() {
        return skip_missing("unshare(1)");
    }
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(binary());
    command.args(["run", "-c", "maitred.toml"]).stdin(Stdio::null());
    let server = setup().start_by(command);
    let unshare = server.pid().as_raw_nonzero().get();
    let [(master, _)] = children(unshare)[..] else { panic!("{:?}", children(unshare)) };
    leave_behind(&server, master);
    send_signal(master, Signal::TERM);
    judge(&server.wait_for_exit().said);
}
