//! nginx, Maitred, and the server behind both.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};

use super::Asked;
use crate::import::World;
use crate::support::{binary, eventually};

/// How long a response may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Fields of requests that the server behind both does not show: those of the connection to it.
const HIDDEN: &[&str] = &["connection", "keep-alive", "te", "transfer-encoding"];

/// A file that configurations include.
const PROXY_PARAMS: &str = "proxy_set_header Host $http_host;\n";

/// A response as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: String,
}

/// Fields of requests that configurations set. What servers tell of a client by themselves is in the documents.
const OF_CONFIGURATIONS: &[&str] =
    &["accept-encoding", "cookie", "x-site", "x-tenant", "x-custom", "authorization", "x-frame-options"];

impl Answer {
    /// Without the other fields that the application has received.
    pub(super) fn configured(mut self) -> Answer {
        if self.body.contains("\nhost: ") {
            let is_set = |line: &&str| {
                let name = line.split_once(": ").map(|(name, _)| name.to_ascii_lowercase());
                name.is_none_or(|name| OF_CONFIGURATIONS.contains(&name.as_str()))
            };
            self.body = self.body.lines().filter(is_set).collect::<Vec<_>>().join("\n");
        }
        self
    }

    pub(super) fn ask(address: SocketAddr, asked: &Asked) -> Answer {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let Asked { method, host, target, fields } = asked;
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        // nginx resets a connection of which it has not read everything.
        let _ = stream.read_to_end(&mut bytes);
        // What differs from one server, or one request, to the next.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let text = text.replace(&address.port().to_string(), "PORT");
        let text = expression(r"[0-9a-f]{32}").replace_all(&text, "ID");
        Answer::read(&expression(r"t=[0-9]+\.[0-9]+").replace_all(&text, "TIME"))
    }

    fn read(text: &str) -> Answer {
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            return Answer { status: 0, fields: Vec::new(), body: text.to_owned() };
        };
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
        let fields: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let chunked = fields.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if chunked { dechunked(body) } else { body.to_owned() };
        Answer { status, fields, body }
    }
}

fn dechunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || size > after.len() {
            break;
        }
        body.push_str(&after[..size]);
        rest = after.get(size + 2..).unwrap_or_default();
    }
    body
}

/// The server behind both: says what it was asked.
#[derive(Debug)]
pub(super) struct Stub {
    pub(super) address: SocketAddr,
}

impl Stub {
    /// Serves as long as the test process runs.
    pub(super) fn start() -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || serve(stream));
            }
        });
        Stub { address }
    }
}

fn serve(mut stream: TcpStream) {
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    while !received.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(length) if length > 0 => received.extend_from_slice(&buffer[..length]),
            _ => return,
        }
    }
    let text = String::from_utf8_lossy(&received).into_owned();
    let mut lines = text.lines();
    let line = lines.next().unwrap_or_default();
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut shown: Vec<String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
        .filter(|(name, _)| !HIDDEN.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect();
    shown.sort();
    let body = format!("{method} {target}\n{}", shown.concat());
    let sent = if method == "HEAD" { "" } else { &body };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Powered-By: stub\r\nX-Frame-Options: DENY\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{sent}").as_bytes());
}

/// An expression.
pub(super) fn expression(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

/// A text in which all upstreams are this one.
pub(super) fn with_upstream(text: &str, stub: SocketAddr) -> String {
    let replaced =
        |text: &str, pattern: &str, by: &str| expression(pattern).replace_all(text, by).into_owned();
    let server = format!("${{before}}{stub}${{after}}");
    let text = replaced(
        text,
        r"(?<before>proxy_pass[ \t\n]+https?://)(127\.0\.0\.1|localhost|[a-z]+\.invalid)(:[0-9]+)?(?<after>[/;$])",
        &server,
    );
    let text = replaced(
        &text,
        r"(?<before>[ \t\n;{]server[ \t\n]+)(127\.0\.0\.1:[0-9]+|localhost:[0-9]+|unix:[^ \t\n;]+)(?<after>[ \t\n;])",
        &server,
    );
    // One name that has an address here.
    replaced(&text, r"(?<before>)[a-z.]+\.invalid(:[0-9]+)?(?<after>)", &server)
}

/// A port for a server that cannot say which one it got. The socket keeps others from being given the same; as it does not
/// listen, the server may (SO_REUSEADDR, socket(7)).
pub(super) fn reserved_address() -> (OwnedFd, SocketAddr) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = getsockname(&socket).unwrap().try_into().unwrap();
    (socket, address)
}

/// The program.
pub(super) struct Nginx(PathBuf);

impl Nginx {
    pub(super) fn found() -> Option<Nginx> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
        directories.map(|directory| directory.join("nginx")).find(|program| program.exists()).map(Nginx)
    }
}

/// A server of the test; killed when dropped.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    pub(super) address: SocketAddr,
    _port: OwnedFd,
    directory: tempfile::TempDir,
}

impl Running {
    pub(super) fn start(
        mut command: Command,
        port: (OwnedFd, SocketAddr),
        directory: tempfile::TempDir,
    ) -> Running {
        let log = fs::File::create(directory.path().join("output")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut child = command.spawn().unwrap();
        let (_port, address) = port;
        eventually("a server listens", || {
            assert!(child.try_wait().unwrap().is_none(), "{}", said(&directory));
            TcpStream::connect(address).is_ok()
        });
        Running { child, address, _port, directory }
    }
}

fn said(directory: &tempfile::TempDir) -> String {
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap_or_default();
    format!("{}{}\n{}", read("output"), read("error.log"), read("site.conf"))
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", said(&self.directory));
        }
    }
}

/// The text with an address of this test in the place of its own.
fn listening(text: &str, address: SocketAddr) -> String {
    let listen = expression(r"listen[ \t\n]+[^;]*?(?<default>[ \t\n]+default_server)?([ \t\n]+[^;]*)?;");
    let v6 = expression(r"listen[ \t\n]+\[::\][^;]*;");
    let text = v6.replace_all(text, "");
    listen.replace_all(&text, format!("listen {address}${{default}};")).into_owned()
}

pub(super) fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

pub(super) fn nginx(program: &Nginx, world: &World, text: &str) -> Running {
    fs::set_permissions(world.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let directory = directory();
    let (socket, address) = reserved_address();
    let text = listening(text, address);
    // Logs of the configuration would go to the machine's.
    // brotli is a module of its own.
    let logs = expression(r"((access_log|error_log)[ \t\n]+/|brotli_static)[^;]*;");
    let text = logs.replace_all(&text, "");
    fs::write(directory.path().join("site.conf"), text.as_bytes()).unwrap();
    fs::write(directory.path().join("proxy_params"), PROXY_PARAMS).unwrap();
    let account = if rustix::process::geteuid().is_root() { "user nobody nogroup;" } else { "" };
    let whole = format!(
        "{account} daemon off; worker_processes 1; pid nginx.pid; error_log error.log;\nevents {{ }}\nhttp {{\n\
         include /etc/nginx/mime.types; access_log off;\n\
         client_body_temp_path t1; fastcgi_temp_path t2; proxy_temp_path t3; scgi_temp_path t4; uwsgi_temp_path t5;\n\
         include site.conf;\n}}\n"
    );
    fs::write(directory.path().join("nginx.conf"), whole).unwrap();
    let mut command = Command::new(&program.0);
    command.arg("-p").arg(directory.path()).arg("-c").arg(directory.path().join("nginx.conf"));
    Running::start(command, (socket, address), directory)
}

pub(super) fn maitred(text: &str) -> Running {
    let directory = directory();
    let (socket, address) = reserved_address();
    let source = directory.path().join("site.conf");
    fs::write(directory.path().join("proxy_params"), PROXY_PARAMS).unwrap();
    fs::write(&source, listening(text, address)).unwrap();
    let imported = crate::import::maitred(&["import", "nginx", source.to_str().unwrap()]);
    let toml = crate::import::text(&imported.stdout);
    fs::write(directory.path().join("maitred.toml"), &toml).unwrap();
    let mut command = Command::new(binary());
    command.arg("run").current_dir(directory.path()).env("STATE_DIRECTORY", directory.path());
    Running::start(command, (socket, address), directory)
}
