//! nginx and HAProxy in front, as docs/proxies.md has them: the page's own configurations, with other paths, in the real
//! programs.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Client, Server, eventually, skip_missing};
use crate::unix::setup;

/// The block of the page that begins so, of that language.
fn block(language: &str, begin: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/proxies.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut blocks = page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    let found = blocks.find(|(of, text)| *of == language && text.starts_with(begin));
    found.unwrap_or_else(|| panic!("the page has no {language} that begins with {begin}")).1.to_owned()
}

/// A text with another in place of one that it has.
#[track_caller]
fn with(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "{old} is not in\n{text}");
    text.replace(old, new)
}

/// The program, wherever administrators' programs are.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|directory| directory.join(name)).find(|file| file.exists())
}

/// A proxy that runs, and where it listens.
struct Front {
    process: Child,
    socket: PathBuf,
}

impl Front {
    fn start(command: &mut Command, socket: PathBuf) -> Front {
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let front = Front { process, socket };
        eventually("the proxy listens", || UnixStream::connect(&front.socket).is_ok());
        front
    }

    fn connect(&self) -> Client {
        Client::connect_unix(&self.socket)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A server with an application that shows what it knows of a client, on `http.sock` and, by the PROXY protocol, `proxied.sock`.
fn behind() -> Server {
    let server = setup()
        .server("trusted_proxies = [\"unix\"]")
        .pool("app", None, "workers = 1")
        .table("[[listen]]\naddress = \"unix:proxied.sock\"\nproxy_protocol = true\n")
        .start();
    server.wait_for_processes();
    server
}

/// Files, bodies both ways, and who the client is, on one connection.
#[track_caller]
fn is_served_through(client: &mut Client, fields: &str) {
    for _ in 0..3 {
        let response = client.method("GET", "/a.txt", fields);
        assert_eq!((response.status, response.text()), (200, "file a\n"));
    }
    assert_eq!(client.post("/app/echo", &[7; 300_000]).body, [7; 300_000]);
    let response = client.method("GET", "/app/show", fields);
    let shown: Value = serde_json::from_slice(&response.body).unwrap();
    for (key, value) in [("REMOTE_ADDR", "192.0.2.9"), ("wsgi.url_scheme", "http"), ("SERVER_PORT", "80")] {
        assert_eq!(shown[key], value, "{key} of {shown}");
    }
}

#[test]
fn nginx_in_front_names_the_client() {
    let Some(program) = found("nginx") else { return skip_missing("no nginx (Debian: nginx-light)") };
    let server = behind();
    let (socket, directory) = (server.path("front.sock"), server.path(""));
    let page = block("nginx", "upstream maitred");
    let page = with(&page, "/run/maitred/http.sock", &server.path("http.sock").display().to_string());
    // A client on a socket has no address: the test names one, which nginx takes for that of its client.
    let listen = format!(
        "listen unix:{};\n    set_real_ip_from unix:;\n    real_ip_header X-Test-Client;",
        socket.display()
    );
    let page = with(&page, "listen 80;", &listen);
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {}/{kind};\n", directory.display()))
        .concat();
    let text = format!(
        "daemon off;\nmaster_process off;\nerror_log stderr;\npid {}/nginx.pid;\nevents {{}}\n\
         http {{\naccess_log off;\n{temporary}{page}}}\n",
        directory.display()
    );
    std::fs::write(server.path("nginx.conf"), text).unwrap();
    let mut command = Command::new(program);
    command.args(["-e", "stderr", "-p"]).arg(&directory).arg("-c").arg(server.path("nginx.conf"));
    let front = Front::start(&mut command, socket);
    is_served_through(&mut front.connect(), "X-Test-Client: 192.0.2.9\r\n");
    drop(front);
    server.stop();
}

#[test]
fn haproxy_in_front_names_the_client_by_a_field_or_by_the_proxy_protocol() {
    let Some(program) = found("haproxy") else { return skip_missing("no haproxy (Debian: haproxy)") };
    let server = behind();
    let page = block("haproxy", "defaults");
    let to_http = with(&page, "/run/maitred/http.sock", &server.path("http.sock").display().to_string());
    let proxied = server.path("proxied.sock").display().to_string();
    let to_proxied = with(&page, "/run/maitred/http.sock", &format!("{proxied} send-proxy-v2"));
    for (number, text) in [to_http, with(&to_proxied, "option forwardfor\n", "\n")].into_iter().enumerate() {
        let socket = server.path(&format!("front{number}.sock"));
        // As for nginx; here the PROXY protocol names the client.
        let text = with(&text, "bind :80", &format!("bind unix@{} accept-proxy", socket.display()));
        let file = server.path(&format!("haproxy{number}.cfg"));
        std::fs::write(&file, text).unwrap();
        let front = Front::start(Command::new(&program).args(["-q", "-db", "-f"]).arg(file), socket);
        let mut client = front.connect();
        client.send("PROXY TCP4 192.0.2.9 127.0.0.1 1000 80\r\n");
        is_served_through(&mut client, "");
        drop(front);
    }
    server.stop();
}
