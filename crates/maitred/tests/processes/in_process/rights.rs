//! What a library may do from its first instruction on, whatever loads it; and libraries that others may write.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::in_process::scene::module;
use crate::support::h3::{reload, upgrade};
use crate::support::libraries::library_of;
use crate::support::{Client, Server, Setup, eventually, skip_here};

/// Notes in `record`, which stands beside `secret`, with which rights it is loaded: when nothing of the module was called yet.
const WITNESS: &str = r##"
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "maitred_module.h"

static int number(const char *name) {
  char line[256];
  int found = -1;
  FILE *status = fopen("/proc/self/status", "r");
  if (status == NULL) {
    return -1;
  }
  while (fgets(line, sizeof(line), status) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) {
      sscanf(line + strlen(name), ":%d", &found);
    }
  }
  fclose(status);
  return found;
}

__attribute__((constructor)) static void note(void) {
  int secret = open(DIRECTORY "/secret", O_RDONLY);
  FILE *record = fopen(DIRECTORY "/record", "a");
  if (record != NULL) {
    fprintf(record, "uid=%d euid=%d secret=%s seccomp=%d no_new_privs=%d\n", (int)getuid(), (int)geteuid(),
            secret < 0 ? "closed" : "open", number("Seccomp"), number("NoNewPrivs"));
    fclose(record);
  }
}

static uint32_t on_request(void *data, maitred_request *request) {
  (void)data;
  (void)request;
  return MAITRED_PASS;
}

static int init(const maitred_server *server, maitred_text config, maitred_instance *instance, maitred_reason *reason) {
  (void)server;
  (void)config;
  (void)reason;
  instance->on_request = on_request;
  return 0;
}

const maitred_module *maitred_module_v1(void) {
  static const maitred_module module = { sizeof(module), MAITRED_MODULE_VERSION, init };
  return &module;
}
"##;

/// A library that says with which rights it is loaded.
fn witness(directory: &Path) -> PathBuf {
    let source = format!("#define DIRECTORY \"{}\"\n{WITNESS}", directory.display());
    library_of(directory, "witness", &source)
}

fn mode(path: &Path, bits: u32) {
    set_permissions(path, Permissions::from_mode(bits)).unwrap();
}

/// What was noted since the last time; empties the record.
fn take_record(server: &Server) -> Vec<String> {
    let path = server.path("record");
    let lines = std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    std::fs::write(path, "").unwrap();
    lines
}

/// The number of the account of that name.
fn stranger() -> u32 {
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = accounts.lines().find(|line| line.starts_with("nobody:")).unwrap();
    line.split(':').nth(2).unwrap().parse().unwrap()
}

#[test]
fn each_way_to_load_a_library_gives_it_the_rights_of_a_worker_process() {
    if !rustix::process::geteuid().is_root() {
        return skip_here("it takes root to have more rights than a worker process");
    }
    let setup = Setup::with_files().outside("record", b"").outside("secret", b"of root");
    mode(&setup.directory.path().join("record"), 0o666);
    mode(&setup.directory.path().join("secret"), 0o600);
    let library = witness(setup.directory.path());
    let server = setup.server("user = \"nobody\"").route("/x", &module(&library, "", "")).start();
    let wanted = format!("uid={0} euid={0} secret=closed seccomp=2 no_new_privs=1", stranger());
    let judge = |what: &str| {
        let noted = take_record(&server);
        assert!(!noted.is_empty(), "{what}: nothing was loaded");
        noted.iter().for_each(|line| assert_eq!(*line, wanted, "{what}"));
    };
    judge("a start");
    let (status, said) = server.command(&["check"]);
    assert!(status.success(), "{said}");
    judge("a check");
    reload(&server, 2);
    judge("a reload");
    let text = std::fs::read_to_string(server.path("maitred.toml")).unwrap() + "\n# again\n";
    let head = format!("PUT /config HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", text.len());
    let mut client = Client::connect_unix(&server.path("admin.sock"));
    client.send(head);
    client.send(text);
    let answer = client.response("PUT");
    assert_eq!(answer.status, 200, "{}", answer.text());
    judge("a configuration that is put");
    upgrade(&server, 4);
    // One by the check of the new executable, one by its worker process.
    eventually("the new worker process answers", || server.connect().get("/a.txt").status == 200);
    judge("an upgrade");
    server.stop();
}

/// Something that lets others decide what is loaded: what is done, and what undoes it.
type Change = (&'static str, Box<dyn Fn()>, Box<dyn Fn()>);

fn writable(path: PathBuf, bits: u32) -> Change {
    let other = path.clone();
    ("may write", Box::new(move || mode(&path, bits)), Box::new(move || mode(&other, 0o755)))
}

#[test]
fn a_library_that_others_may_write_is_refused_by_check_reload_and_upgrade() {
    let setup = Setup::with_files();
    let (outer, inner) = (setup.directory.path().join("outer"), setup.directory.path().join("outer/inner"));
    let links = setup.directory.path().join("links");
    for directory in [&outer, &inner, &links] {
        std::fs::create_dir(directory).unwrap();
        mode(directory, 0o755);
    }
    let library = library_of(&inner, "witness", &format!("#define DIRECTORY \"/none\"\n{WITNESS}"));
    mode(&library, 0o755);
    let link = links.join("libwitness.so");
    symlink("../outer/inner/libwitness.so", &link).unwrap();
    let server = setup.route("/x", &module(&link, "", "")).start();
    let changes = [
        (library.clone(), writable(library.clone(), 0o777)),
        (inner.clone(), writable(inner.clone(), 0o757)),
        (outer.clone(), writable(outer, 0o757)),
        (inner.clone(), writable(inner, 0o1777)),
        (links.clone(), writable(links, 0o757)),
    ];
    for (path, (what, make, undo)) in changes {
        make();
        for command in ["check", "reload", "upgrade"] {
            let (status, said) = server.command(&[command]);
            assert!(!status.success(), "{command}: {what} {}: {said}", path.display());
            let named = format!("{} can be written by others", path.display());
            assert!(
                said.contains(&named) && said.contains("all accounts write"),
                "{command}: {named}: {said}"
            );
        }
        undo();
        let (status, said) = server.command(&["check"]);
        assert!(status.success(), "{said}");
    }
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    crate::in_process::scene::finish(server);
}

#[test]
fn a_library_of_another_account_is_refused_whatever_its_mode() {
    if !rustix::process::geteuid().is_root() {
        return skip_here("it takes root to give a file away");
    }
    let setup = Setup::with_files();
    let library =
        library_of(setup.directory.path(), "witness", &format!("#define DIRECTORY \"/none\"\n{WITNESS}"));
    std::os::unix::fs::chown(&library, Some(stranger()), None).unwrap();
    let server = setup.route("/x", &module(&library, "", "")).launch();
    let stopped = server.wait_for_exit();
    assert_eq!(stopped.status.code(), Some(1), "{:?}", stopped.said);
    let named = format!("it belongs to the account {}", stranger());
    let path = library.display().to_string();
    assert!(
        stopped.said.iter().any(|line| line.contains(&named) && line.contains(&path)),
        "{:?}",
        stopped.said
    );
}

/// Makes the system call that a query says, `socket=FAMILY` or `clone=FLAGS`, and says which error it was.
const CALLER: &str = r##"
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "maitred_module.h"

static const maitred_server *server;

static long make(const char *call) {
  const char *number = strchr(call, '=') + 1;
  long made;
  if (call[0] == 's') {
    return socket(atoi(number), SOCK_DGRAM, 0);
  }
  made = syscall(SYS_clone, strtoul(number, NULL, 10), 0, 0, 0, 0);
  if (made == 0) {
    _exit(0);
  }
  return made;
}

static uint32_t on_request(void *data, maitred_request *request) {
  maitred_text query = server->part(request, MAITRED_QUERY);
  maitred_response response = { 200, NULL, 0, { NULL, 0 } };
  char call[64] = "", text[32];
  (void)data;
  if (query.bytes >= sizeof(call) || memchr(query.at, '=', query.bytes) == NULL) {
    return MAITRED_PASS;
  }
  memcpy(call, query.at, query.bytes);
  errno = 0;
  snprintf(text, sizeof(text), "%d", make(call) < 0 ? errno : 0);
  response.content.at = text;
  response.content.bytes = strlen(text);
  return server->answer(request, &response) ? MAITRED_ANSWERED : MAITRED_FAILED;
}

static int init(const maitred_server *given, maitred_text config, maitred_instance *instance, maitred_reason *reason) {
  (void)config;
  (void)reason;
  server = given;
  instance->on_request = on_request;
  return 0;
}

const maitred_module *maitred_module_v1(void) {
  static const maitred_module module = { sizeof(module), MAITRED_MODULE_VERSION, init };
  return &module;
}
"##;

/// EAFNOSUPPORT (errno(3)).
const NO_SUCH_FAMILY: &str = "97";

#[test]
fn a_worker_process_makes_no_namespace_no_process_and_no_unusual_socket() {
    let setup = Setup::with_files();
    let library = library_of(setup.directory.path(), "caller", CALLER);
    let server = setup.route("/call", &module(&library, "", "")).start();
    let call = |what: &str| server.connect().get(&format!("/call?{what}")).text().to_owned();
    for family in [family::UNIX, family::INET, family::INET6] {
        assert_eq!(call(&format!("socket={family}")), "0", "{family}");
    }
    for family in [family::NETLINK, family::PACKET, family::ALG, family::VSOCK] {
        assert_eq!(call(&format!("socket={family}")), NO_SUCH_FAMILY, "{family}");
    }
    // CLONE_NEWUSER and CLONE_NEWNET, with SIGCHLD; and a plain fork. A module that crashes three times a minute is turned off.
    for flags in [0x1000_0000 + 17, 0x4000_0000 + 17, 17] {
        let worker = server.worker();
        let mut client = server.connect();
        crate::in_process::scene::ask_only(&mut client, &format!("/call?clone={flags}"));
        client.end();
        eventually("another worker process is there", || server.worker_is_not(worker));
        assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    }
    let stopped = crate::in_process::scene::finish(server);
    let killed = stopped.said.iter().filter(|line| line.contains("was killed by SIGSYS")).count();
    assert_eq!(killed, 3, "{:#?}", stopped.said);
}

/// Families of sockets (address_families(7)).
mod family {
    pub(super) const UNIX: i32 = 1;
    pub(super) const INET: i32 = 2;
    pub(super) const INET6: i32 = 10;
    pub(super) const NETLINK: i32 = 16;
    pub(super) const PACKET: i32 = 17;
    pub(super) const ALG: i32 = 38;
    pub(super) const VSOCK: i32 = 40;
}
