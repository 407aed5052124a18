//! Logs that are rotated: `SIGUSR1` has all processes go on with new files, and does nothing else.

use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::support::upstream::nowhere;
use crate::support::{Server, Setup, eventually};

/// A server whose logs are files, with an agent. The error log becomes one by a reload, because the test learns the addresses
/// from standard error.
fn start() -> Server {
    let (_socket, dead) = nowhere();
    let server = Setup::with_files()
        .log("access = \"combined\"")
        .table("[access_log.own]\nto = \"own.log\"\nformat = '{path}'\n")
        .table(&format!("[pool.gone]\nconnect = \"http://{dead}\"\nhealth = {{ interval = \"100ms\" }}\n"))
        .route("/own", "redirect = \"/new\"\naccess_log = \"own\"")
        .route("/gone/*", "pool = \"gone\"")
        .start();
    let file = server.path("maitred.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("[log]\n", "[log]\nerror_file = \"error.log\"\n", 1)).unwrap();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    server
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

fn standard_error(process: i32) -> PathBuf {
    std::fs::read_link(format!("/proc/{process}/fd/2")).unwrap()
}

#[test]
fn a_signal_has_logs_written_to_new_files_and_changes_nothing_else() {
    let server = start();
    let logs = ["access.log", "own.log", "error.log"].map(|name| server.path(name));
    let rotated = logs.clone().map(|log| log.with_extension("1"));
    let mut client = server.connect();
    assert_eq!((client.get("/a.txt").status, client.get("/own").status), (200, 302));
    eventually("both are logged", || lines(&logs[0]) == 1 && lines(&logs[1]) == 1);
    let checks = || server.agent("checks");
    eventually("there is an agent", || standard_error(checks()) == logs[2]);
    let before = (server.worker(), checks(), server.status()["generation"].clone());

    // An edit that is not finished is no reason to go on with the old files.
    std::fs::write(server.path("maitred.toml"), "[server\n").unwrap();
    logs.iter().zip(&rotated).for_each(|(log, rotated)| std::fs::rename(log, rotated).unwrap());
    rustix::process::kill_process(server.pid(), Signal::USR1).unwrap();
    eventually("all files are there again", || logs.iter().all(|log| log.exists()));
    eventually("all processes write to the new one", || {
        let of_agent = standard_error(checks()) == logs[2];
        standard_error(server.worker()) == logs[2] && of_agent
    });
    // The same connection, and so the same worker process.
    assert_eq!((client.get("/a.txt").status, client.get("/own").status), (200, 302));
    eventually("both are logged there", || lines(&logs[0]) == 1 && lines(&logs[1]) == 1);
    assert_eq!((lines(&rotated[0]), lines(&rotated[1])), (1, 1));
    assert_eq!((server.worker(), checks(), server.status()["generation"].clone()), before);
    let said = std::fs::read_to_string(&logs[2]).unwrap();
    assert!(said.contains("log files are opened anew") && !said.contains("reload"), "{said}");
    server.stop();
}
