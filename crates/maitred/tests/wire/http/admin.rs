//! The admin address, and the commands that ask there.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Server, Setup, eventually, skip_missing};

fn admin(server: &Server, method: &str, path: &str, fields: &str) -> crate::support::Response {
    server.admin(&format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
}

#[test]
fn status_json_is_an_account_of_what_happened() {
    let server = Setup::with_files()
        .server("threads = 2")
        .pool("app", None, "workers = 2\nqueue = { timeout = \"60s\" }")
        .start();
    let mut client = server.connect();
    (0..5).for_each(|_| assert_eq!(client.get("/a.txt").status, 200));
    assert_eq!(client.get("/not-there").status, 404);
    assert_eq!(client.get("/app/hello").status, 200);
    // The process's report comes after its response.
    let done = |status: &serde_json::Value| {
        let slots = status["pools"][0]["slots"].as_array().unwrap();
        slots.iter().filter_map(|slot| slot["requests"].as_u64()).sum::<u64>()
    };
    eventually("the report is there", || done(&server.status()) == 1);
    let status = server.status();
    let routes: Vec<_> = status["routes"].as_array().unwrap().iter().collect();
    let of = |target: &str| *routes.iter().find(|route| route["target"] == target).expect(target);
    let (pool, files) = (of("pool app"), of("files"));
    assert_eq!((&pool["route"], &pool["responses"]["2xx"]), (&"/app/*".into(), &1.into()), "{status}");
    assert!(pool["body_bytes"].as_u64() > Some(0), "{status}");
    assert_eq!(files["responses"]["4xx"], 1, "{status}");
    let totals = &status["totals"];
    assert_eq!((totals["handoffs"].as_u64(), totals["malformed"].as_u64()), (Some(1), Some(0)), "{status}");
    // Responses of the admin address are counted, too.
    assert!(totals["responses"]["2xx"].as_u64() >= Some(6), "{status}");
    assert_eq!(totals["responses"]["4xx"], 1, "{status}");
    assert_eq!(status["threads"].as_array().unwrap().len(), 2);
    assert_eq!(status["listens"][0]["address"], server.address.to_string());
    assert_eq!(status["pools"][0]["name"], "app");
    assert_eq!(status["pools"][0]["max"], 2);
    assert_eq!(
        status["pools"][0]["slots"].as_array().unwrap().len(),
        3,
        "one more, for a process that is replaced"
    );
    assert_eq!(status["generation"], 1);
    server.stop();
}

/// Checks the text format of Prometheus, version 0.0.4, as far as it is used: HELP, TYPE, then samples of that name.
#[test]
fn metrics_are_in_the_text_format() {
    let server = Setup::with_files().pool("app", None, "workers = 1").start();
    server.connect().get("/a.txt");
    let response = admin(&server, "GET", "/metrics", "");
    assert_eq!(response.status, 200);
    assert!(response.need("content-type").starts_with("text/plain; version=0.0.4"), "{response:?}");
    assert!(response.text().ends_with('\n'));
    let (mut current, mut kind, mut seen) = (String::new(), String::new(), Vec::new());
    let mut samples = 0;
    for line in response.text().lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            current = rest.split(' ').next().unwrap().to_owned();
            assert!(!seen.contains(&current), "{current} twice");
            seen.push(current.clone());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, found) = rest.split_once(' ').unwrap();
            assert_eq!(name, current);
            assert!(matches!(found, "gauge" | "counter" | "histogram"), "{line}");
            assert_eq!(found == "counter", name.ends_with("_total"), "{line}");
            kind = found.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let family = match kind.as_str() {
                "histogram" => ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part)),
                _ => Some(name),
            };
            assert_eq!(family, Some(current.as_str()), "{line}");
            assert!(labels.ends_with('}') && labels.matches('"').count() % 2 == 0, "{line}");
            let value: f64 = value.parse().unwrap();
            assert!(value.is_finite() && (kind == "gauge" || value >= 0.0), "{line}");
            samples += 1;
        }
    }
    assert!(samples > 30 && response.text().contains("maitred_thread_responses_total{"), "{samples}");
    server.stop();
}

#[test]
fn other_methods_and_paths_are_refused() {
    let server = Setup::with_files().start();
    for (method, path, status) in [
        ("GET", "/reload", 405),
        ("GET", "/stop", 405),
        ("POST", "/status.json", 405),
        ("GET", "/a.txt", 404),
        ("GET", "/../a.txt", 404),
    ] {
        let response = admin(&server, method, path, "");
        assert!(response.status == status || response.status == 400, "{method} {path}: {response:?}");
    }
    // A page in a browser names itself.
    assert_eq!(admin(&server, "POST", "/stop", "Origin: http://example.com\r\n").status, 403);
    assert_eq!(server.connect().get("/status.json").status, 404, "not on the public address");
    assert_eq!(server.connect().get("/a.txt").status, 200);
    assert_eq!(server.stop().access.len(), 2, "the admin address is not in the access log");
}

#[test]
fn the_admin_socket_is_for_its_owner() {
    let server = Setup::with_files().start();
    let mode = fs::metadata(server.path("admin.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let setup = server.stop().setup;
    assert!(!setup.directory.path().join("admin.sock").exists(), "it is gone with the server");
}

#[test]
fn status_and_reload_are_commands() {
    let server = Setup::with_files().start();
    let mut kept = server.connect();
    assert_eq!(kept.get("/a.txt").text(), "file a\n");
    let (status, text) = server.command(&["status"]);
    assert!(status.success() && text.contains(&server.address.to_string()), "{text}");
    let (status, text) = server.command(&["status", "--json"]);
    assert!(status.success(), "{text}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["generation"], 1);

    // A reload reads the configuration again, and keeps connections.
    let configuration = server.setup.write();
    let text = fs::read_to_string(&configuration).unwrap();
    fs::write(&configuration, text.replace("root = \"root\"", "root = \"root/dir\"")).unwrap();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    // The old worker process may still take what was on its way to it.
    eventually("new connections get the new root", || server.connect().get("/").text() == "<p>dir</p>\n");
    eventually("so does the old one", || kept.get("/").text() == "<p>dir</p>\n");
    eventually("so does the admin address", || server.status()["generation"] == 2);

    // A bad one changes nothing.
    fs::write(&configuration, text.replace("[limits]", "[limts]")).unwrap();
    let (status, said) = server.command(&["reload"]);
    assert!(!status.success(), "{said}");
    assert_eq!(kept.get("/").text(), "<p>dir</p>\n");
    assert_eq!(server.status()["generation"], 2);
    let stopped = server.terminate(rustix::process::Signal::TERM);
    assert!(stopped.status.success(), "{stopped:?}");
    assert!(stopped.said.iter().any(|line| line.contains("did you mean `limits`")), "{stopped:?}");
}

#[test]
fn stop_is_a_command() {
    let server = Setup::with_files().start();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").status, 200);
    let (status, said) = server.command(&["stop"]);
    assert!(status.success(), "{said}");
    let stopped = server.wait_for_exit();
    assert!(stopped.status.success(), "{stopped:?}");
}

/// A connection to the TCP admin address of a server.
fn over_tcp(server: &Server) -> (String, impl Fn(&str) -> crate::support::Response + use<>) {
    let line = server.wait_for(" admin 127.0.0.1:");
    let address = line.rsplit(' ').next().unwrap().to_owned();
    let at = address.parse().unwrap();
    (address, move |request: &str| crate::support::Client::connect(at).ask(request))
}

#[test]
fn by_tcp_nobody_commands_unless_there_is_a_token() {
    let server = Setup::with_files().server("admin = \"127.0.0.1:0\"").start();
    let (_, ask) = over_tcp(&server);
    for path in ["/reload", "/upgrade", "/stop", "/pool/app/restart"] {
        let refused = ask(&format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(refused.status, 403, "{path}");
        assert!(refused.text().contains("Commands by TCP are off"), "{}", refused.text());
    }
    let status = ask("GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let status: serde_json::Value = serde_json::from_slice(&status.body).unwrap();
    assert_eq!(status["generation"], 1);
    server.stop();
}

#[test]
fn a_token_commands_by_tcp_and_is_a_private_file() {
    let server =
        Setup::with_files().server("admin = \"127.0.0.1:0\"").server("admin_token = \"token\"").start();
    let (address, ask) = over_tcp(&server);
    let file = server.path("token");
    server.wait_for(&format!("commands by TCP take the token in {}", file.display()));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let token = fs::read_to_string(&file).unwrap();
    let said = |field: &str| ask(&format!("POST /reload HTTP/1.1\r\nHost: localhost\r\n{field}\r\n"));
    let half = &token[..32];
    for wrong in ["", "Authorization: Bearer \r\n", &format!("Authorization: Bearer {half}\r\n")] {
        let refused = said(wrong);
        assert_eq!((refused.status, refused.text().contains("take the token")), (403, true), "{wrong}");
    }
    assert_eq!(said(&format!("Authorization: Bearer {}\r\n", token.trim_end())).status, 200);
    let output = std::process::Command::new(crate::support::binary())
        .args(["reload", "--admin", &address, "--token"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.wait_for("worker process 3 has taken over");
    assert_eq!(fs::read_to_string(&file).unwrap(), token, "a reload keeps it");
    server.stop();
    assert!(!file.exists());
}

/// Even if others may write to the socket, as when a service manager made it.
#[test]
fn by_the_socket_root_and_the_servers_account_command_and_nobody_else() {
    if !rustix::process::geteuid().is_root() {
        return crate::support::skip_here("only root can use other accounts");
    }
    use std::os::unix::process::CommandExt as _;
    let server = Setup::with_files().server("user = \"nobody\"").start();
    let path = server.path("admin.sock");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let ask = |uid: u32, method: &str, target: &str| {
        let program = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
                       s.sendall(' '.join(sys.argv[2:]).encode() + b' HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n\
                       print(s.recv(12).decode())\n";
        let mut command = std::process::Command::new("python3");
        command.args(["-c", program]).arg(&path).args([method, target]).current_dir("/").uid(uid).gid(uid);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    // The account of the worker process, and one without an account.
    for uid in [65534, 54321] {
        for target in ["/stop", "/upgrade", "/reload"] {
            assert_eq!(ask(uid, "POST", target), "HTTP/1.1 403", "{uid} {target}");
        }
        assert_eq!(ask(uid, "GET", "/status.json"), "HTTP/1.1 200");
    }
    assert_eq!(server.status()["generation"], 1);
    assert_eq!(ask(0, "POST", "/reload"), "HTTP/1.1 200");
    server.stop();
}

#[test]
fn logs_are_regular_files_where_nobody_else_can_put_a_link() {
    let outside = tempfile::tempdir().unwrap();
    let precious = outside.path().join("precious");
    fs::write(&precious, "before\n").unwrap();
    let root = rustix::process::geteuid().is_root();
    for (line, said) in [
        ("error_file = \"link\"", "log file "),
        ("error_file = \"pipe\"", "this is a pipe"),
        ("error_file = \"open/error.log\"", "may write the directory"),
    ] {
        let setup = Setup::with_files().log(line);
        let setup = if root { setup.server("user = \"nobody\"") } else { setup };
        let at = |name: &str| setup.directory.path().join(name);
        std::os::unix::fs::symlink(&precious, at("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).unwrap();
        fs::create_dir(at("open")).unwrap();
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o777)).unwrap();
        if line.contains("open/") && !root {
            crate::support::skip_here("without root, directories are the server's own");
            continue;
        }
        let server = setup.launch();
        server.wait_for(said);
        assert_eq!(server.wait_for_exit().status.code(), Some(1), "{line}");
    }
    // A file that has become a link is not followed by a reload.
    let server = Setup::with_files().start();
    fs::remove_file(server.path("access.log")).unwrap();
    std::os::unix::fs::symlink(&precious, server.path("access.log")).unwrap();
    let (status, said) = server.command(&["reload"]);
    assert!(!status.success() && said.contains("symbolic link"), "{said}");
    assert_eq!(server.connect().get("/a.txt").status, 200);
    server.terminate(rustix::process::Signal::TERM);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "before\n");
}

/// A file of `pkg/`.
fn shipped(name: &str) -> (std::path::PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pkg").join(name);
    let text = fs::read_to_string(&path).unwrap();
    (path, text)
}

/// Names of metrics in a text.
fn metrics_in(text: &str) -> Vec<&str> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words.filter(|word| word.starts_with("maitred_")).collect()
}

#[test]
fn the_dashboard_and_the_alerts_use_metrics_that_there_are() {
    let (_, documented) = shipped("../docs/metrics.md");
    let known = metrics_in(&documented);
    for name in ["grafana/maitred.json", "prometheus/maitred.rules.yml"] {
        let (_, text) = shipped(name);
        let used = metrics_in(&text);
        assert!(used.len() > 10, "{name}");
        for metric in used {
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| metric.strip_suffix(end));
            assert!(known.contains(&family.unwrap_or(metric)), "{name}: {metric}");
        }
    }
    let (_, dashboard) = shipped("grafana/maitred.json");
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 10);
}

/// What Prometheus' own tool says of the alerts, and of a page of metrics.
#[test]
fn promtool_takes_the_alerts_and_the_metrics() {
    let promtool = |arguments: &[&str], input: &str| {
        let mut command = Command::new("promtool");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().ok()?;
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
    };
    let (rules, _) = shipped("prometheus/maitred.rules.yml");
    let Some((well, said)) = promtool(&["check", "rules", rules.to_str().unwrap()], "") else {
        return skip_missing("no promtool (Debian: prometheus)");
    };
    assert!(well && said.contains("12 rules found"), "{said}");
    let server = Setup::with_files().pool("app", None, "workers = 1").start();
    server.wait_for_processes();
    assert_eq!(server.connect().get("/app/hello?x").status, 200);
    let response = admin(&server, "GET", "/metrics", "");
    let (well, said) = promtool(&["check", "metrics"], response.text()).unwrap();
    assert!(well, "{said}");
    server.stop();
}
