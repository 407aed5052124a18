//! nginx in front of the same PHP, configured as its users do: Debian's `snippets/fastcgi-php.conf`, and `try_files` with a
//! front controller.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::php::{Php, program, reserved_address};
use crate::support::stage::Authority;
use crate::support::{eventually, skip_missing};

/// An nginx that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Nginx {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) tls: SocketAddr,
    _ports: [OwnedFd; 2],
    directory: TempDir,
}

/// As Debian's `snippets/fastcgi-php.conf` has it.
const CAREFUL: &str = "
            fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
            try_files $fastcgi_script_name =404;
            set $path_info $fastcgi_path_info;
            fastcgi_param PATH_INFO $path_info;";

/// As many tutorials have it: whether the script exists is PHP's affair.
const CARELESS: &str = "";

impl Nginx {
    /// In front of `php`, with the files below `root`; `None` (which is said) if it is not installed.
    pub(crate) fn start(root: &Path, php: &Php, authority: &Authority, timeout: &str) -> Option<Nginx> {
        Nginx::with(root, php, authority, CAREFUL, timeout)
    }

    /// An nginx that does not look whether a script exists.
    pub(crate) fn careless(root: &Path, php: &Php, authority: &Authority) -> Option<Nginx> {
        Nginx::with(root, php, authority, CARELESS, "60s")
    }

    fn with(root: &Path, php: &Php, authority: &Authority, split: &str, timeout: &str) -> Option<Nginx> {
        let Some(program) = program("nginx") else {
            skip_missing("no nginx (Debian: nginx-light)");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let ((first, address), (second, tls)) = (reserved_address(), reserved_address());
        authority.sign(&["localhost"], &rcgen::PKCS_ECDSA_P256_SHA256).write(directory.path(), "site");
        let configuration = directory.path().join("nginx.conf");
        fs::write(&configuration, text(root, php, split, timeout, [address, tls])).unwrap();
        let mut command = Command::new(program);
        command.arg("-p").arg(directory.path()).arg("-c").arg(configuration).stdin(Stdio::null());
        let log = fs::File::create(directory.path().join("output")).unwrap();
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let nginx = Nginx { child, address, tls, _ports: [first, second], directory };
        eventually("nginx listens", || TcpStream::connect(nginx.tls).is_ok());
        Some(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
        if std::thread::panicking() {
            for name in ["output", "error.log"] {
                let said = fs::read_to_string(self.directory.path().join(name)).unwrap_or_default();
                eprintln!("nginx said in {name}:\n{said}");
            }
        }
    }
}

fn text(root: &Path, php: &Php, split: &str, timeout: &str, [address, tls]: [SocketAddr; 2]) -> String {
    let account = if rustix::process::geteuid().is_root() { "user nobody nogroup;" } else { "" };
    format!(
        "{account}
daemon off;
worker_processes 1;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 512; }}
http {{
    include /etc/nginx/mime.types;
    access_log off;
    client_max_body_size 64m;
    client_body_temp_path temp_body;
    fastcgi_temp_path temp_fastcgi;
    proxy_temp_path temp_proxy;
    scgi_temp_path temp_scgi;
    uwsgi_temp_path temp_uwsgi;
    server {{
        listen {address};
        listen {tls} ssl http2;
        ssl_certificate site.pem;
        ssl_certificate_key site-key.pem;
        server_name localhost;
        root {root};
        index index.php index.html;
        fastcgi_read_timeout {timeout};
        location / {{ try_files $uri $uri/ /index.php$is_args$args; }}
        location ~ \\.php(/|$) {{{split}
            fastcgi_index index.php;
            include /etc/nginx/fastcgi.conf;
            fastcgi_pass {name};
        }}
    }}
}}
",
        root = root.display(),
        name = php.nginx_name()
    )
}
