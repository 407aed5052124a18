//! `maitred check` says ok if and only if `maitred run` starts.

use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::stage::{self, Authority};
use crate::support::{Setup, binary, skip_here};

/// What `maitred check` says of the configuration of a setup, which is written.
fn check(setup: &Setup) -> (bool, String) {
    setup.write();
    let mut command = Command::new(binary());
    command.args(["check", "-c", "maitred.toml"]).current_dir(setup.directory.path()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// The check and the server refuse it, and say why in the same words.
#[track_caller]
fn refused(what: &str, setup: Setup, why: &str) {
    let before = names(setup.directory.path());
    let (good, said) = check(&setup);
    assert!(
        !good && said.contains(why) && !said.contains(": ok: "),
        "{what}: {why:?} is not in what check says: {said}"
    );
    let mut after = names(setup.directory.path());
    after.retain(|name| name != "maitred.toml");
    assert_eq!(after, before, "{what}: a check makes nothing");
    let stopped = setup.launch().wait_for_exit();
    assert!(!stopped.status.success(), "{what}: it runs");
    assert!(stopped.said.iter().any(|line| line.contains(why)), "{what}: {why:?}: {:#?}", stopped.said);
}

/// The check and the server take it.
#[track_caller]
fn taken(what: &str, setup: Setup) {
    let (good, said) = check(&setup);
    assert!(good && said.contains(": ok: "), "{what}: {said}");
    let server = setup.start();
    assert_eq!(server.connect().get("/a.txt").status, 200, "{what}");
    server.stop();
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn log(to: &str) -> Setup {
    Setup::with_files().site("access_log = \"other\"").table(&format!("[access_log.other]\nto = \"{to}\"\n"))
}

#[test]
fn logs_are_judged_as_they_are_opened() {
    let missing = "No such file or directory";
    refused("access_file", Setup::with_files().log("access_file = \"none/a.log\""), missing);
    refused("error_file", Setup::with_files().log("error_file = \"none/e.log\""), missing);
    refused("access_log", log("none/a.log"), missing);
    refused(
        "standard output",
        Setup::with_files().log("access_file = \"/dev/stdout\""),
        "goes to standard output",
    );
    refused("a directory", Setup::with_files().log("access_file = \"root\""), "Is a directory");
    refused("no daemon", log("syslog:/nonexistent/log.sock"), "is the daemon running");
    let linked = Setup::with_files().log("access_file = \"link.log\"");
    symlink("real.log", linked.directory.path().join("link.log")).unwrap();
    refused("a link", linked, "symbolic link");
    let piped = log("pipe");
    let pipe = piped.directory.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    refused("a pipe", piped, "this is a pipe");
    taken("a new file", log("new.log"));
    taken("nothing is kept", log("/dev/null"));
    taken("nothing is kept of the main log", Setup::with_files().log("access_file = \"/dev/null\""));
    // What such a server says goes there, and not to where a test could wait for it.
    for file in ["/dev/null", "new-errors.log"] {
        let (good, said) = check(&Setup::with_files().log(&format!("error_file = \"{file}\"")));
        assert!(good, "{file}: {said}");
    }
}

#[test]
fn a_log_where_an_account_of_the_server_may_write_is_refused_by_both() {
    if !rustix::process::geteuid().is_root() {
        return skip_here("without root, there are no other accounts");
    }
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap();
    let stranger = accounts.lines().find(|line| line.starts_with("nobody:")).unwrap();
    let uid: u32 = stranger.split(':').nth(2).unwrap().parse().unwrap();
    let why = "the account nobody may write the directory";
    let theirs = |setup: Setup| {
        let logs = setup.directory.path().join("logs");
        std::fs::create_dir(&logs).unwrap();
        chown(&logs, Some(uid), None).unwrap();
        setup
    };
    let pool = "[pool.app]\ncommand = [\"true\"]\nuser = \"nobody\"\n";
    let of_pool = |setup: Setup| theirs(setup.table(pool).route("/app", "pool = \"app\""));
    refused("access_file", of_pool(Setup::with_files().log("access_file = \"logs/a.log\"")), why);
    refused("access_log", of_pool(log("logs/a.log")), why);
    refused("error_file", of_pool(Setup::with_files().log("error_file = \"logs/e.log\"")), why);
    refused("pid_file", of_pool(Setup::with_files().server("pid_file = \"logs/pid\"")), why);
    let worker = Setup::with_files().server("user = \"nobody\"").log("access_file = \"logs/a.log\"");
    refused("the worker process", theirs(worker), why);
    // No other account may write there.
    let own = Setup::with_files().log("access_file = \"own/a.log\"");
    let directory = own.directory.path().join("own");
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    taken("a directory of root", own);
}

#[test]
fn sockets_and_files_of_the_server_are_judged_as_they_are_made() {
    let setup = Setup::with_files;
    refused("admin", setup().server("admin = \"unix:none/of/admin.sock\""), "there is no directory");
    taken("a directory that is made", setup().server("admin = \"unix:run/admin.sock\""));
    refused("admin", setup().server("admin = \"unix:root/a.txt\""), "no socket");
    let long = format!("admin = \"unix:{}/admin.sock\"", "x".repeat(120));
    let (good, said) = check(&setup().server(&long));
    assert!(!good, "a path that is too long for a socket: {said}");
    refused(
        "a socket of a listener",
        setup().replacing_address("unix:none/of/http.sock"),
        "there is no directory",
    );
    refused("pid_file", setup().server("pid_file = \"none/pid\""), "No such file or directory");
    refused("pid_file", setup().server("pid_file = \"root\""), "Is a directory");
    let token = "admin = \"127.0.0.1:0\"\nadmin_token = \"none/token\"";
    refused("admin_token", setup().server(token), "No such file or directory");
    // TEST-NET-1 (RFC 5737) belongs to no machine.
    refused("an address", setup().replacing_address("192.0.2.1:0"), "this machine does not have it");
    let pool = "[pool.own]\ncommand = [\"true\"]\nlisten = \"192.0.2.1:0\"\n";
    refused("an address of a pool", setup().table(pool), "this machine does not have it");
    let cache = |directory: &str| {
        let pool = "[pool.app]\nconnect = \"http://127.0.0.1:1\"\n";
        let setup = setup().table(&format!("[cache]\ndirectory = \"{directory}\"\n{pool}"));
        setup.route("/app", "pool = \"app\"\ncache = true")
    };
    refused("a cache", cache("none/cache"), "`directory` of [cache]");
    refused("a cache", cache("root/a.txt"), "`directory` of [cache]");
    taken("a cache that is made", cache("cache"));
    taken("a file with the process id", setup().server("pid_file = \"maitred.pid\""));
}

#[test]
fn keys_and_their_logs_are_judged_as_they_are_used() {
    let authority = Authority::new();
    let with_tls = |keys: &str| stage::setup(&authority, keys);
    refused("a log of keys", with_tls("keylog = \"none/keys.log\""), "No such file or directory");
    let (good, said) = check(&with_tls(""));
    assert!(good, "{said}");
}

/// The exception, which `docs/configuration.md` names: the server that is to be reloaded uses its addresses.
#[test]
fn an_address_in_use_is_not_looked_at() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let setup = Setup::with_files().replacing_address(&other.local_addr().unwrap().to_string());
    let (good, said) = check(&setup);
    assert!(good, "{said}");
    let stopped = setup.launch().wait_for_exit();
    assert!(
        stopped.said.iter().any(|line| line.contains("is in use by another process")),
        "{:#?}",
        stopped.said
    );
}
