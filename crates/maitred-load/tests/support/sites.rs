//! The servers of `examples/specweb`, each in a directory of its own and on a free port, or why one cannot be started here.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::maitred::{Maitred, maitred};
use super::wait::eventually;

/// How long a server may take until it answers; only a failure takes so long.
const START_MAX: Duration = Duration::from_secs(60);

/// A server of the example. Whatever was started is ended when it goes.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) data: PathBuf,
    _front: Option<Maitred>,
    _others: Vec<Other>,
    _reserved: Option<OwnedFd>,
    _directory: tempfile::TempDir,
}

/// A server that is not Maitred.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A copy of the example, with this port and absolute paths, and a data set of two directories.
fn copy(port: u16) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    std::fs::set_permissions(directory.path(), mode(0o755)).unwrap();
    for entry in std::fs::read_dir(repository().join("examples/specweb")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !["py", "php", "toml", "conf"].iter().any(|ending| name.ends_with(&format!(".{ending}"))) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let built = Path::new(env!("CARGO_BIN_EXE_maitred-load")).parent().unwrap();
        let text = text
            .replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"))
            .replace("../../target/release", built.to_str().unwrap())
            .replace("../../adapters", repository().join("adapters").to_str().unwrap());
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let data = directory.path().join("data");
    let made = super::program(&["specweb", data.to_str().unwrap(), "--make", "--directories", "2"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // Started by root, Apache and nginx run as another account.
    std::fs::write(data.join("post.log"), b"").unwrap();
    std::fs::set_permissions(data.join("post.log"), mode(0o666)).unwrap();
    directory
}

/// A port for a server that cannot say which one it got. The socket keeps others from being given the same, and its look at
/// whether there is a listener from being answered by itself; as it does not listen, the server may (SO_REUSEADDR, socket(7)).
fn reserved_port() -> (OwnedFd, u16) {
    let (socket, address) = super::reserved_address();
    (socket, address.port())
}

fn installed(program: &str, package: &str) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .any(|directory| directory.join(program).is_file());
    if is_there { Ok(()) } else { Err(format!("no {program} (Debian: {package})")) }
}

impl Site {
    /// Files by Maitred, and the application that `config` names.
    pub(crate) fn maitred(config: &str) -> Result<Site, String> {
        let binary = maitred().ok_or("no maitred binary beside maitred-load: build the workspace first")?;
        let directory = copy(0);
        if config == "maitred-rust.toml" {
            let example = binary.with_file_name("examples").join("specweb");
            if !example.exists() {
                return Err("no example specweb of maitred-handoff: build it first".to_owned());
            }
        }
        Ok(Site::behind(&binary, config, directory, Vec::new()))
    }

    fn behind(binary: &Path, config: &str, directory: tempfile::TempDir, others: Vec<Other>) -> Site {
        let path = directory.path().join(config);
        let text = std::fs::read_to_string(&path).unwrap();
        let admin = directory.path().join("admin.sock");
        // However long the application takes to start on a busy machine.
        let text = text.replace("workers = ", "queue = { timeout = \"60s\" }\nworkers = ");
        let with_admin = format!("[server]\nadmin = \"unix:{}\"\n", admin.display());
        assert!(text.contains("[server]\n"));
        std::fs::write(&path, text.replace("[server]\n", &with_admin)).unwrap();
        let front = Maitred::start(binary, &["run", "-c", path.to_str().unwrap()]);
        let address = front.url.trim_start_matches("http://").parse().unwrap();
        Site::new(address, directory, Some(front), others, None)
    }

    fn new(
        address: SocketAddr,
        directory: tempfile::TempDir,
        front: Option<Maitred>,
        others: Vec<Other>,
        reserved: Option<OwnedFd>,
    ) -> Site {
        let data = directory.path().join("data");
        Site { address, data, _front: front, _others: others, _reserved: reserved, _directory: directory }
    }

    /// Apache with mod_php, alone or behind Maitred.
    pub(crate) fn apache(is_behind: bool) -> Result<Site, String> {
        installed("apache2", "apache2-bin")?;
        let modules = std::fs::read_dir("/usr/lib/apache2/modules").into_iter().flatten().flatten();
        if !modules.into_iter().any(|module| module.file_name().to_string_lossy().starts_with("libphp")) {
            return Err("no module of PHP for Apache (Debian: libapache2-mod-php)".to_owned());
        }
        let (reserved, port) = reserved_port();
        let directory = copy(port);
        let mut command = Command::new("apache2");
        command.env("SPECWEB", directory.path()).env("PATH", "/usr/sbin:/usr/bin:/bin").arg("-d");
        command.arg(directory.path()).args(["-f", "apache.conf", "-D", "FOREGROUND"]);
        if !is_behind {
            let apache = Other(quiet(&mut command));
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            eventually("Apache listens", || TcpStream::connect(address).is_ok());
            return Ok(Site::new(address, directory, None, vec![apache], Some(reserved)));
        }
        installed("apxs", "apache2-dev")?;
        let binary = maitred().ok_or("no maitred binary beside maitred-load: build the workspace first")?;
        let built =
            Command::new("make").args(["-s", "-C"]).arg(repository().join("adapters/apache")).output();
        let built = built.map_err(|error| format!("make: {error}"))?;
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let apache = Other(quiet(command.args(["-D", "MAITRED"])));
        let socket = directory.path().join("apache.sock");
        eventually("Apache makes its socket", || socket.exists());
        // Maitred chooses its own port.
        let config = directory.path().join("maitred-php.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:0")).unwrap();
        Ok(Site::behind(&binary, "maitred-php.toml", directory, vec![apache]))
    }

    /// nginx, with PHP over FastCGI.
    pub(crate) fn nginx() -> Result<Site, String> {
        installed("nginx", "nginx-light")?;
        installed("php-cgi", "php-cgi")?;
        let (reserved, port) = reserved_port();
        let directory = copy(port);
        let socket = directory.path().join("php.sock");
        let mut command = Command::new("php-cgi");
        command.env("PHP_FCGI_CHILDREN", "2").env("PHP_FCGI_MAX_REQUESTS", "0").arg("-b").arg(&socket);
        let php = Other(quiet(&mut command));
        eventually("php-cgi makes its socket", || socket.exists());
        let mut command = Command::new("nginx");
        command
            .env("PATH", "/usr/sbin:/usr/bin:/bin")
            // A socket's relative path begins there, and not at the prefix.
            .current_dir(directory.path())
            .arg("-p")
            .arg(directory.path())
            .args(["-c", "nginx.conf"]);
        let nginx = Other(quiet(&mut command));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        eventually("nginx listens", || TcpStream::connect(address).is_ok());
        Ok(Site::new(address, directory, None, vec![nginx, php], Some(reserved)))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Status, `Set-Cookie` and body of the answer to a request.
    pub(crate) fn ask(&self, request: &str) -> (u16, Option<String>, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(START_MAX)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let cookie = head.lines().filter_map(|line| line.split_once(": "));
        let mut cookie = cookie.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, cookie.next().map(|(_, value)| value.to_owned()), bytes.split_off(end + 4))
    }
}

/// In a process group of its own: php-cgi passes the signal that ends it to its whole group.
fn quiet(command: &mut Command) -> Child {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
