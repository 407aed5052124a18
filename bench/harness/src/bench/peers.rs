//! What can be measured: the floor, Maitred, and the peers, with their configurations in `bench/peers/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::protocol::{Certificate, Protocol};
use super::server::Setup;
use crate::Result;

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `bench/floor/floor.c`
    Floor,
    /// The release binary of this project.
    Maitred,
    /// Another one, from before a change (`--before`).
    MaitredBefore,
    /// nginx, access log buffered.
    Nginx,
    /// nginx, each line of the access log written by itself.
    NginxUnbuffered,
    /// nginx with `aio threads`.
    NginxAio,
    /// nginx with `listen … deferred`.
    NginxDeferred,
    /// H2O.
    H2o,
    /// lighttpd.
    Lighttpd,
    /// Caddy.
    Caddy,
    /// Apache httpd with the event MPM.
    Apache,
    /// HAProxy, which serves no files.
    Haproxy,
}

impl Kind {
    pub(super) const PEERS: [Kind; 10] = [
        Kind::MaitredBefore,
        Kind::Nginx,
        Kind::NginxUnbuffered,
        Kind::NginxAio,
        Kind::NginxDeferred,
        Kind::H2o,
        Kind::Lighttpd,
        Kind::Caddy,
        Kind::Apache,
        Kind::Haproxy,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Floor => "floor",
            Kind::Maitred => "maitred",
            Kind::MaitredBefore => "maitred-before",
            Kind::Nginx => "nginx",
            Kind::NginxUnbuffered => "nginx-unbuffered",
            Kind::NginxAio => "nginx-aio",
            Kind::NginxDeferred => "nginx-deferred",
            Kind::H2o => "h2o",
            Kind::Lighttpd => "lighttpd",
            Kind::Caddy => "caddy",
            Kind::Apache => "apache",
            Kind::Haproxy => "haproxy",
        }
    }

    pub(super) fn from_name(name: &str) -> Result<Kind> {
        let known = || Kind::PEERS.map(Kind::name).join(", ");
        let found = Kind::PEERS.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("there is no peer {name:?}; there are {}", known()).into())
    }

    pub(super) fn serves_files(self) -> bool {
        self != Kind::Haproxy
    }

    /// The program, and the Debian package that has it; `None` for what is built here.
    pub(super) fn program(self) -> Option<(&'static str, &'static str)> {
        match self {
            Kind::Floor | Kind::Maitred | Kind::MaitredBefore => None,
            Kind::Nginx | Kind::NginxUnbuffered | Kind::NginxAio | Kind::NginxDeferred => {
                Some(("nginx", "nginx-light"))
            }
            Kind::H2o => Some(("h2o", "h2o")),
            Kind::Lighttpd => Some(("lighttpd", "lighttpd")),
            Kind::Caddy => Some(("caddy", "caddy")),
            Kind::Apache => Some(("apache2", "apache2-bin")),
            Kind::Haproxy => Some(("haproxy", "haproxy")),
        }
    }

    /// How the program is asked which version it is.
    pub(super) fn version_argument(self) -> &'static str {
        match self {
            Kind::Caddy => "version",
            Kind::H2o => "--version",
            _ => "-v",
        }
    }

    /// Name of its configuration, below `bench/peers/` and beside the results.
    pub(super) fn configuration(self, protocol: Protocol) -> Option<&'static str> {
        match self {
            // Tickets can be turned off in its JSON only.
            Kind::Caddy if protocol.is_tls() => Some("caddy-tls.json"),
            Kind::Floor => None,
            Kind::Maitred | Kind::MaitredBefore => Some("maitred.toml"),
            Kind::Nginx | Kind::NginxUnbuffered | Kind::NginxAio | Kind::NginxDeferred => Some("nginx.conf"),
            Kind::H2o => Some("h2o.yaml"),
            Kind::Lighttpd => Some("lighttpd.conf"),
            Kind::Caddy => Some("caddy.conf"),
            Kind::Apache => Some("apache.conf"),
            Kind::Haproxy => Some("haproxy.cfg"),
        }
    }

    /// The program and its arguments, so that it stays in the foreground.
    pub(super) fn command(self, setup: &Setup, prefix: &Path, configuration: &Path) -> Vec<String> {
        let maitred = if self == Kind::MaitredBefore { &setup.before } else { &setup.maitred };
        let maitred = maitred.display().to_string();
        let (prefix, configuration) = (prefix.display().to_string(), configuration.display().to_string());
        let words: &[&str] = match self {
            Kind::Floor => &[],
            Kind::Maitred | Kind::MaitredBefore => &[&maitred, "run", "-c", &configuration],
            Kind::Nginx | Kind::NginxUnbuffered | Kind::NginxAio | Kind::NginxDeferred => {
                &["nginx", "-p", &prefix, "-c", &configuration, "-g", "daemon off;"]
            }
            Kind::H2o => &["h2o", "-c", &configuration],
            Kind::Lighttpd => &["lighttpd", "-D", "-f", &configuration],
            Kind::Caddy => {
                let words = &["env", "GOMAXPROCS=1", "caddy", "run", "--config", &configuration];
                let adapter: &[&str] =
                    if setup.protocol.is_tls() { &[] } else { &["--adapter", "caddyfile"] };
                return words.iter().chain(adapter).map(|&word| word.to_owned()).collect();
            }
            // Apache passes the signal that ends it to its process group, which would be the benchmark's.
            Kind::Apache => &["setsid", "apache2", "-d", &prefix, "-f", &configuration, "-D", "FOREGROUND"],
            Kind::Haproxy => &["haproxy", "-db", "-f", &configuration],
        };
        words.iter().map(|&word| word.to_owned()).collect()
    }

    /// Fills in the template of the server's configuration.
    pub(super) fn configure(self, setup: &Setup, prefix: &Path, port: u16) -> Result<PathBuf> {
        let protocol = setup.protocol;
        let name = self.configuration(protocol).ok_or("the floor has no configuration")?;
        let template = setup.bench.join("peers").join(name);
        let text =
            fs::read_to_string(&template).map_err(|error| format!("{}: {error}", template.display()))?;
        let (threads, aio) = match self {
            Kind::NginxAio => ("thread_pool default threads=32;", "aio threads;"),
            _ => ("", ""),
        };
        let buffering = if self == Kind::NginxUnbuffered { "" } else { " buffer=64k flush=1s" };
        let files = Certificate::in_work(&setup.work);
        let own = if self == Kind::MaitredBefore { setup.newer_keys.as_str() } else { "" };
        let is_new = |line: &&str| own.split(',').any(|key| !key.is_empty() && line.starts_with(key));
        let text: String = text.split_inclusive('\n').filter(|line| !is_new(line)).collect();
        let text = text
            .replace("@PORT@", &port.to_string())
            .replace("@ROOT@", &setup.root.display().to_string())
            .replace("@PREFIX@", &prefix.display().to_string())
            .replace("@ACCESS_LOG@", &format!("{}/access.log combined{buffering}", prefix.display()))
            .replace("@THREADS@", threads)
            .replace("@AIO@", aio)
            .replace(
                "@LISTEN@",
                if self == Kind::NginxDeferred { " deferred" } else { protocol.nginx_listen() },
            )
            .replace("@PROTOCOL@", &protocol.lines(self, &files))
            .replace("@CERTIFICATE@", &files.certificate.display().to_string())
            .replace("@KEY@", &files.key.display().to_string())
            .replace("@SENDFILE@", if setup.mixed_sizes { "on" } else { "off" })
            .replace("@PREFIX_OF_APP@", &setup.passing.prefix)
            .replace("@SERVERS@", &setup.passing.servers)
            .replace("@LOCATION@", &setup.passing.location)
            .replace("@BESIDE@", &setup.passing.beside)
            .replace("@HTTP@", &setup.passing.http)
            .replace("@HAPROXY_HTTP2@", if setup.passing.http2 { " proto h2" } else { "" })
            .replace("@CADDY_SCHEME@", if setup.passing.http2 { "h2c://" } else { "" })
            .replace("@BACKEND@", &setup.backend.to_string())
            .replace("@BACKEND_HOST@", &setup.backend.ip().to_string())
            .replace("@BACKEND_PORT@", &setup.backend.port().to_string())
            .replace("@BACKEND_PATH@", &setup.backend_path)
            .replace("@MAITRED_THREADS@", &setup.maitred_threads.to_string())
            .replace("@MAITRED_SERVER@", &setup.maitred_server)
            .replace("@MAITRED_LISTEN@", &format!("{}{}", protocol.maitred_listen(), setup.maitred_listen))
            .replace("@MAITRED_MORE@", &setup.maitred_more);
        let path = prefix.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    /// What is missing for this server, in words; `None` if nothing.
    pub(super) fn absent(self, setup: &Setup) -> Option<String> {
        let maitred = if self == Kind::MaitredBefore { &setup.before } else { &setup.maitred };
        match self.program() {
            None if self == Kind::Floor && !setup.floor_program().exists() => {
                Some("it does not compile: apt-get install libssl-dev".to_owned())
            }
            None if self == Kind::Maitred && !maitred.exists() => {
                Some(format!("no {}: cargo build --profile dist -p maitred", maitred.display()))
            }
            None if self == Kind::MaitredBefore && !maitred.exists() => {
                Some(format!("no {}: name an older binary with --before", maitred.display()))
            }
            None => None,
            Some((program, package)) => {
                (!installed(program)).then(|| format!("no {program}: apt-get install {package}"))
            }
        }
    }
}

/// Whether a program is in `PATH`.
pub(super) fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// The first line that a command prints, or "absent".
pub(super) fn said(program: &str, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else { return "absent".to_owned() };
    let bytes = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().trim().to_owned()
}
