//! The file of a Unix socket, from the start of the server to its end.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::support::{Client, Server, Setup, binary, eventually};
use crate::unix::{connect, is_served, setup};

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn inode(server: &Server) -> u64 {
    server.path("http.sock").metadata().unwrap().ino()
}

/// Has the server read another configuration, and waits until it is in force.
fn reload(server: &Server, generation: u64, text: &str) {
    std::fs::write(server.path("maitred.toml"), text).unwrap();
    server.signal(Signal::HUP);
    server.wait_for(&format!("reloaded: worker process {generation} has taken over"));
}

#[test]
fn it_is_there_while_the_server_is() {
    let server = setup().start();
    let path = server.path("http.sock");
    server.wait_for(&format!("http+unix:{}  1 thread, 1 bucket", path.display()));
    assert_eq!(mode(&path), 0o660);
    is_served(&mut connect(&server));
    let listens = server.status()["listens"].clone();
    let address = format!("unix:{}", path.display());
    assert!(listens.as_array().unwrap().iter().any(|listen| listen["address"] == *address), "{listens}");
    let metrics = server.admin("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(metrics.status, 200);
    let (status, said) = server.command(&["check"]);
    assert!(status.success() && said.contains("2 addresses"), "{said}");
    let stopped = server.stop();
    assert!(!path.exists());
    assert!(stopped.access[0].starts_with("unix: "), "{:?}", stopped.access);
}

#[test]
fn what_a_killed_server_has_left_is_replaced() {
    let server = setup().start();
    let path = server.path("http.sock");
    let stopped = server.terminate(Signal::KILL);
    assert!(path.exists());
    assert!(UnixStream::connect(&path).is_err());
    let server = stopped.setup.start();
    is_served(&mut connect(&server));
    server.stop();
}

#[test]
fn of_two_servers_the_second_is_told_of_the_first() {
    let first = setup().start();
    let path = first.path("http.sock");
    let second = Setup::with_files().replacing_address(&format!("unix:{}", path.display())).launch();
    second.wait_for(&format!(
        "{}: process {} (maitred) listens there",
        path.display(),
        first.pid().as_raw_nonzero()
    ));
    assert_eq!(second.wait_for_exit().status.code(), Some(1));
    is_served(&mut connect(&first));
    first.stop();
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let server = setup().outside("http.sock", b"precious").launch();
    server.wait_for("there is a file of this name that is no socket");
    let stopped = server.wait_for_exit();
    assert_eq!(stopped.status.code(), Some(1));
    assert_eq!(std::fs::read(stopped.setup.directory.path().join("http.sock")).unwrap(), b"precious");
}

#[test]
fn a_reload_keeps_it_changes_its_mode_and_removes_it() {
    let server = setup().start();
    let (path, before) = (server.path("http.sock"), inode(&server));
    let text = std::fs::read_to_string(server.path("maitred.toml")).unwrap();
    let mut client = connect(&server);
    is_served(&mut client);
    reload(&server, 2, &text.replace("[[listen]]", "[[listen]]\nunix_mode = \"0606\""));
    eventually("the file has its new mode", || mode(&path) == 0o606);
    assert_eq!(inode(&server), before);
    is_served(&mut client);
    is_served(&mut connect(&server));
    // A configuration that is refused changes nothing.
    std::fs::write(server.path("maitred.toml"), text.replace("http.sock", "none/of/http.sock")).unwrap();
    server.signal(Signal::HUP);
    server.wait_for("there is no directory");
    assert_eq!(inode(&server), before);
    is_served(&mut connect(&server));
    reload(&server, 3, &text.replace(", \"unix:http.sock\"", ""));
    eventually("the file is gone", || !path.exists());
    reload(&server, 4, &text);
    eventually("it is there again", || path.exists());
    is_served(&mut connect(&server));
    // Not `stop`: what was refused is an error in the log.
    let stopped = server.terminate(Signal::TERM);
    assert!(stopped.status.success());
    assert!(!path.exists());
}

#[test]
fn an_upgrade_keeps_it_and_its_connections() {
    let server = setup().start();
    let (path, before) = (server.path("http.sock"), inode(&server));
    let mut client = connect(&server);
    is_served(&mut client);
    server.signal(Signal::USR2);
    server.wait_for("upgraded: worker process 2 has taken over from 1");
    assert_eq!(inode(&server), before);
    is_served(&mut client);
    is_served(&mut connect(&server));
    server.signal(Signal::HUP);
    server.wait_for("reloaded: worker process 3 has taken over");
    is_served(&mut client);
    is_served(&mut connect(&server));
    server.stop();
    assert!(!path.exists());
}

#[test]
fn one_of_a_service_manager_is_used_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("http.sock");
    let passed = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let script = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" run -c maitred.toml";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(binary()).stdin(OwnedFd::from(passed));
    let address = format!("address = [\"127.0.0.1:0\", \"unix:{}\"]", path.display());
    let server = Setup::with_files().listen(&address).start_by(command);
    let served = || is_served(&mut Client::connect_unix(&path));
    served();
    assert_eq!(mode(&path), 0o666, "as it was passed");
    server.signal(Signal::USR2);
    server.wait_for("upgraded: worker process 2 has taken over from 1");
    served();
    server.signal(Signal::HUP);
    server.wait_for("reloaded: worker process 3 has taken over");
    served();
    server.stop();
    assert!(path.exists());
}
