//! What the processes of a pool live in: limits, account, directory, environment; and where what they write goes.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::pools::look::breathing;
use crate::support::{Server, Setup, binary, eventually};

fn around(server: &Server) -> Value {
    serde_json::from_slice(&server.connect().get("/app/around").body).unwrap()
}

#[test]
fn limits_directory_and_environment_are_the_pools() {
    let setup = Setup::new().outside("work/breathing.py", include_bytes!("breathing.py"));
    let lines = "workers = 1\nopen_files = 321\ncwd = \"work\"\nqueue = { timeout = \"60s\" }";
    let server = breathing(setup, "app", None, "WHO = \"the pool\"", lines).start();
    let cwd = server.path("work").canonicalize().unwrap();
    let around = around(&server);
    assert_eq!(around["open_files"], json!([321, 321]));
    assert_eq!(around["cwd"], cwd.display().to_string());
    let env = &around["env"];
    assert_eq!(
        (&env["WHO"], &env["MAITRED_POOL"], &env["MAITRED_SLOT"]),
        (&json!("the pool"), &json!("app"), &json!("0"))
    );
    assert!(env["PATH"].is_string(), "where programs are is the server's to say: {env}");
    server.stop();
}

#[test]
fn without_a_limit_of_its_own_it_is_the_one_that_the_server_was_given() {
    let server =
        breathing(Setup::new(), "app", None, "", "workers = 1\nqueue = { timeout = \"60s\" }").start();
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    assert_eq!(around(&server)["open_files"][0], own.current.map_or(json!(-1), |limit| json!(limit)));
    server.stop();
}

#[test]
fn root_gives_processes_the_account_of_their_pool() {
    if !rustix::process::geteuid().is_root() {
        return crate::support::skip_here("it takes root to become another user");
    }
    let lines = "workers = 1\nuser = \"nobody\"\nqueue = { timeout = \"60s\" }";
    let setup = breathing(Setup::new(), "app", None, "", lines);
    // Beside the application, for the case that the repository is where other accounts may not look.
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/python/maitred");
    let copied = Command::new("cp").arg("-r").arg(adapter).arg(setup.directory.path()).status();
    assert!(copied.unwrap().success());
    let server = setup.start();
    let around = around(&server);
    assert_ne!(around["uid"], 0);
    assert!(!around["groups"].as_array().unwrap().contains(&json!(0)), "{around}");
    server.stop();
}

/// Starts the server with this environment.
fn start_with(setup: Setup, variables: &[(&str, &str)]) -> Server {
    let mut command = Command::new(binary());
    command.args(["run", "-c", "maitred.toml"]).stdin(Stdio::null());
    setup.start_by({
        command.envs(variables.iter().copied());
        command
    })
}

/// What a server may have been given: secrets, what programs need, words of a service manager, and who it is itself.
const GIVEN: [(&str, &str); 10] = [
    ("SECRET_TOKEN", "hunter2"),
    ("LC_TIME", "C.UTF-8"),
    ("TZ", "Europe/Berlin"),
    ("APP_ONE", "1"),
    ("APP_TWO", "2"),
    ("APP", "0"),
    ("WATCHDOG_USEC", "100000000"),
    ("HOME", "/srv/of-the-master"),
    ("USER", "of-the-master"),
    ("BASH_ENV", "/nonexistent"),
];

#[test]
fn processes_get_what_is_listed_of_the_servers_environment_and_no_secrets() {
    let lines = "workers = 1\nqueue = { timeout = \"60s\" }\nenv_inherit = [\"APP_*\", \"NO_SUCH_VARIABLE\"]";
    let setup = breathing(Setup::new(), "app", None, "APP_TWO = \"of the pool\"", lines);
    let whole = "workers = 1\nqueue = { timeout = \"60s\" }\nenv_inherit = [\"*\"]";
    let server = start_with(breathing(setup, "whole", None, "", whole), &GIVEN);
    let shown = around(&server);
    let env = &shown["env"];
    let expected =
        [("LC_TIME", "C.UTF-8"), ("TZ", "Europe/Berlin"), ("APP_ONE", "1"), ("APP_TWO", "of the pool")];
    for (name, value) in expected {
        assert_eq!(env[name], value, "{name}: {env}");
    }
    // The account is the master's, and so is its home.
    assert_eq!((&env["HOME"], &env["USER"]), (&json!("/srv/of-the-master"), &json!("of-the-master")));
    for name in ["SECRET_TOKEN", "APP", "WATCHDOG_USEC", "BASH_ENV", "NO_SUCH_VARIABLE"] {
        assert!(env.get(name).is_none(), "{name}: {env}");
    }
    let whole: Value = serde_json::from_slice(&server.connect().get("/whole/around").body).unwrap();
    assert_eq!((&whole["env"]["SECRET_TOKEN"], &whole["env"]["APP"]), (&json!("hunter2"), &json!("0")));
    assert!(whole["env"].get("WATCHDOG_USEC").is_none(), "{whole}");
    server.stop();
}

#[test]
fn processes_of_another_account_are_at_home_there() {
    if !rustix::process::geteuid().is_root() {
        return crate::support::skip_here("it takes root to become another user");
    }
    let lines = "workers = 1\nuser = \"nobody\"\nqueue = { timeout = \"60s\" }\nenv_inherit = [\"*\"]";
    let setup = breathing(Setup::new(), "app", None, "", lines);
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/python/maitred");
    let copied = Command::new("cp").arg("-r").arg(adapter).arg(setup.directory.path()).status();
    assert!(copied.unwrap().success());
    let server = start_with(setup, &GIVEN);
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap();
    let stranger: Vec<&str> =
        accounts.lines().find(|line| line.starts_with("nobody:")).unwrap().split(':').collect();
    let shown = around(&server);
    let env = &shown["env"];
    assert_eq!((&env["HOME"], &env["SHELL"]), (&json!(stranger[5]), &json!(stranger[6])), "{env}");
    assert_eq!((&env["USER"], &env["LOGNAME"]), (&json!("nobody"), &json!("nobody")), "{env}");
    assert_eq!(env["SECRET_TOKEN"], "hunter2", "all of it is passed on, as the configuration says");
    // The worker process is not dumpable: its environment is for root to see.
    let worker = std::fs::read(format!("/proc/{}/environ", server.worker())).unwrap();
    let worker = String::from_utf8_lossy(&worker).into_owned();
    assert!(worker.contains("PATH=") && worker.contains("TZ=Europe/Berlin"), "{worker}");
    for name in ["SECRET_TOKEN", "APP_ONE", "WATCHDOG_USEC", "HOME="] {
        assert!(!worker.contains(name), "{name}: {worker}");
    }
    server.stop();
}

#[test]
fn what_processes_write_is_in_the_log_with_their_pool_and_slot() {
    let server =
        breathing(Setup::new(), "app", None, "", "workers = 1\nqueue = { timeout = \"60s\" }").start();
    assert_eq!(server.connect().get("/app/say?something").status, 200);
    for line in ["out something", "err something"] {
        server.wait_for_line(|said| said.contains(line) && said.contains("app/0"));
    }
    server.stop();
}

/// The process writes as fast as it can, and nothing else is held up: not the master, not the others, not its own requests.
#[test]
fn a_process_that_never_stops_writing_holds_nobody_up() {
    let lines = "workers = 1\nqueue = { timeout = \"60s\" }";
    let setup = Setup::new().limit("output_bytes_per_second_max = \"16KiB\"");
    let setup = breathing(setup, "app", None, "WRITES = \"1\"", lines);
    let server = breathing(setup, "calm", None, "", lines).start();
    eventually("both answer", || {
        ["/app/hello?x", "/calm/hello?x"].iter().all(|target| server.connect().get(target).status == 200)
    });
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    assert_eq!(server.connect().get("/app/hello?x").status, 200);
    server.wait_for_line(|line| line.contains("is dropped: it exceeds") && line.contains("process=app/0"));
    server.stop();
}
