//! The servers with their configurations in `bench/arena`: everything that a profile can ask of them, on one port.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::super::peers::Kind;
use super::super::protocol::{Certificate, Protocol};
use super::super::server::{Running, Setup, free_address};
use super::super::{Bench, peers};
use super::data::Data;
use super::{Profile, build};
use crate::Result;

/// Servers that are measured.
pub(super) const SERVERS: [Kind; 4] = [Kind::Maitred, Kind::Nginx, Kind::H2o, Kind::Caddy];
/// Debian's module of Brotli for nginx.
const BROTLI: &str = "/usr/lib/nginx/modules/ngx_http_brotli_static_module.so";

/// A server that is to be started.
struct Start<'a> {
    bench: &'a Bench,
    profile: &'a Profile,
    data: &'a Data,
    address: SocketAddr,
    /// Name of the server's directory and of its configuration.
    name: String,
    prefix: PathBuf,
}

/// Where things lie as the server sees them.
struct Places {
    prefix: PathBuf,
    root: PathBuf,
    items: PathBuf,
    certificate: Certificate,
}

/// Starts a server for a profile, and waits until it answers.
pub(super) fn start(bench: &Bench, kind: Kind, profile: &Profile, data: &Data) -> Result<Running> {
    let name = format!("arena-{}{}", kind.name(), profile.protocol.suffix());
    let prefix = bench.work.join(&name);
    fs::create_dir_all(&prefix)?;
    let start = Start { bench, profile, data, address: free_address()?, name, prefix };
    let words = match kind {
        Kind::Maitred => start.maitred()?,
        Kind::Nginx => start.nginx()?,
        Kind::H2o => start.h2o()?,
        Kind::Caddy => start.caddy()?,
        _ => return Err("it has no configuration in bench/arena".into()),
    };
    let setup = Setup {
        protocol: profile.protocol,
        ready: "/pipeline".to_owned(),
        environment: vec![("GOMAXPROCS".to_owned(), "1".to_owned())],
        ..bench.setup(Vec::new())
    };
    Running::start_program(&start.name, &words, start.address, &setup, &bench.work)
}

/// What each server says of its version.
pub(super) fn versions(bench: &Bench) -> String {
    let last = |said: String| said.rsplit(' ').next().unwrap_or_default().to_owned();
    let caddy = build::caddy(bench).map(|program| peers::said(&program.display().to_string(), &["version"]));
    let of_caddy =
        caddy.map_or("absent".to_owned(), |said| said.split(' ').next().unwrap_or_default().to_owned());
    let nginx = last(peers::said("nginx", &["-v"]));
    let mut versions = format!("{nginx}, H2O {}, Caddy {of_caddy}", last(peers::said("h2o", &["--version"])));
    if let Some(root) = &bench.nginx_root {
        let said = peers::said("chroot", &[&root.display().to_string(), "nginx", "-v"]);
        versions.push_str(&format!("; HTTP/3 by {}", last(said)));
    }
    versions
}

impl Start<'_> {
    fn places(&self) -> Places {
        Places {
            prefix: self.prefix.clone(),
            root: self.data.root.clone(),
            items: self.data.items.clone(),
            certificate: Certificate::in_work(&self.bench.work),
        }
    }

    /// Fills in a template.
    fn fill(&self, template: &str, places: &Places, more: &[(&str, String)]) -> Result<String> {
        let path = self.bench.directory.join("arena").join(template);
        let mut text = fs::read_to_string(&path).map_err(|error| format!("{template}: {error}"))?;
        for (mark, value) in more {
            text = text.replace(mark, value);
        }
        Ok(text
            .replace("@PORT@", &self.address.port().to_string())
            .replace("@PREFIX@", &places.prefix.display().to_string())
            .replace("@ROOT@", &places.root.display().to_string())
            .replace("@DATA@", &places.items.display().to_string())
            .replace("@CERTIFICATE@", &places.certificate.certificate.display().to_string())
            .replace("@KEY@", &places.certificate.key.display().to_string()))
    }

    /// Writes a configuration into the server's directory, and a copy to where those of the run are kept.
    fn write(&self, extension: &str, text: &str) -> Result<String> {
        let name = format!("{}.{extension}", self.name);
        let path = self.prefix.join(&name);
        fs::write(&path, text)?;
        let kept = kept(self.bench);
        fs::create_dir_all(&kept)?;
        fs::write(kept.join(name), text)?;
        Ok(path.display().to_string())
    }

    /// A module that only profiles with dynamic answers cannot do without.
    fn module(&self, built: Result<PathBuf>) -> Result<Option<PathBuf>> {
        match built {
            Err(why) if self.profile.is_dynamic() => Err(why),
            built => Ok(built.ok()),
        }
    }

    fn installed(&self, kind: Kind) -> Result<()> {
        kind.absent(&self.bench.setup(Vec::new())).map_or(Ok(()), |why| Err(why.into()))
    }

    fn maitred(&self) -> Result<Vec<String>> {
        self.installed(Kind::Maitred)?;
        let protocol = self.profile.protocol;
        let listen = match protocol {
            Protocol::Http3 => format!("{}http3 = true\n", protocol.maitred_listen()),
            _ => protocol.maitred_listen().to_owned(),
        };
        let certificates = if protocol.is_tls() {
            "certificates = [{ certificate = \"@CERTIFICATE@\", key = \"@KEY@\" }]".to_owned()
        } else {
            String::new()
        };
        let module = if let Some(library) = self.module(build::maitred_module(self.bench))? {
            let route = |path: &str| {
                let library = library.display();
                format!(
                    "[[site.route]]\npath = \"{path}\"\nmodule = {{ path = \"{library}\", config = {{ data = \"@DATA@\" }} }}\n\n"
                )
            };
            ["/baseline11", "/baseline2", "/json/*"].map(route).concat()
        } else {
            String::new()
        };
        let more = [("@LISTEN@", listen), ("@CERTIFICATES@", certificates), ("@MODULE@", module)];
        let path = self.write("toml", &self.fill("maitred.toml", &self.places(), &more)?)?;
        Ok(words(&[&self.bench.maitred.display().to_string(), "run", "-c", &path]))
    }

    fn nginx(&self) -> Result<Vec<String>> {
        if self.profile.protocol == Protocol::Http3 {
            return self.nginx_in_root();
        }
        self.installed(Kind::Nginx)?;
        let module = self.module(build::nginx_module(self.bench))?;
        let text = self.nginx_text(&self.places(), Path::new("/"), module.as_deref())?;
        let path = self.write("conf", &text)?;
        Ok(words(&["nginx", "-p", &self.prefix.display().to_string(), "-c", &path, "-g", "daemon off;"]))
    }

    /// nginx from 1.25 on, below another root, into which everything is copied.
    fn nginx_in_root(&self) -> Result<Vec<String>> {
        let missing = "Debian 12's nginx has no HTTP/3; --nginx-root names a root with one that has";
        let root = self.bench.nginx_root.as_deref().ok_or(missing)?;
        let inside = Path::new("/arena");
        let places = Places {
            prefix: inside.to_owned(),
            root: inside.join("root"),
            items: inside.join("items.json"),
            certificate: Certificate::in_work(inside),
        };
        build::copy(&self.data.root, &root.join("arena/root"))?;
        fs::copy(&self.data.items, root.join("arena/items.json"))?;
        build::copy(&self.bench.work.join("certificate"), &root.join("arena/certificate"))?;
        let module = self.module(build::nginx_module_in(self.bench, root))?;
        let text = self.nginx_text(&places, root, module.as_deref())?;
        self.write("conf", &text)?;
        fs::write(root.join("arena/nginx.conf"), text)?;
        let root = root.display().to_string();
        Ok(words(&["chroot", &root, "nginx", "-c", "/arena/nginx.conf", "-g", "daemon off;"]))
    }

    fn nginx_text(&self, places: &Places, root: &Path, module: Option<&Path>) -> Result<String> {
        let certificate = "        ssl_certificate @CERTIFICATE@;\n        ssl_certificate_key @KEY@;\n        \
                           ssl_protocols TLSv1.3;\n        ssl_session_tickets off;\n        ssl_session_cache off;";
        let protocol = self.profile.protocol;
        let tcp = format!("listen 127.0.0.1:@PORT@ backlog=4096 reuseport{};", protocol.nginx_listen());
        let listen = match protocol {
            Protocol::Http3 => format!(
                "listen 127.0.0.1:@PORT@ quic reuseport rcvbuf=4m sndbuf=4m;\n        {tcp}\n        http3 on;\n        \
                 quic_gso on;\n{certificate}"
            ),
            _ if protocol.is_tls() => format!("{tcp}\n{certificate}"),
            _ => tcp,
        };
        let mut modules = String::new();
        let mut precompressed = "gzip_static on;".to_owned();
        if root.join(BROTLI.trim_start_matches('/')).exists() {
            modules.push_str(&format!("load_module {BROTLI};\n"));
            precompressed.insert_str(0, "brotli_static on;\n            ");
        }
        let mut dynamic = String::new();
        if let Some(module) = module {
            modules.push_str(&format!("load_module {};\n", module.display()));
            dynamic.push_str(
                "location /baseline {\n            arena_sum;\n        }\n        \
                 location /json/ {\n            arena_json @DATA@;\n        }",
            );
        }
        let more = [
            ("@LISTEN@", listen),
            ("@MODULES@", modules),
            ("@PRECOMPRESSED@", precompressed),
            ("@DYNAMIC@", dynamic),
        ];
        self.fill("nginx.conf", places, &more)
    }

    fn h2o(&self) -> Result<Vec<String>> {
        if self.profile.protocol == Protocol::Http3 {
            return Err("Debian 12's H2O (2.2) has no HTTP/3".into());
        }
        self.installed(Kind::H2o)?;
        let places = self.places();
        let handler = self.write("rb", &self.fill("h2o.rb", &places, &[])?)?;
        let tls = self.profile.protocol.lines(Kind::H2o, &places.certificate);
        let text = self.fill("h2o.yaml", &places, &[("@TLS@", tls), ("@HANDLER@", handler)])?;
        Ok(words(&["h2o", "-c", &self.write("yaml", &text)?]))
    }

    fn caddy(&self) -> Result<Vec<String>> {
        let program = build::caddy(self.bench)?;
        let protocol = self.profile.protocol;
        let protocols = match protocol {
            Protocol::Http1 | Protocol::Http1Tls => "[\"h1\"]",
            Protocol::Http2 => "[\"h1\", \"h2c\"]",
            Protocol::Http2Tls => "[\"h1\", \"h2\"]",
            Protocol::Http3 => "[\"h1\", \"h2\", \"h3\"]",
        };
        let tls = if protocol.is_tls() {
            "\"tls_connection_policies\": [{ \"protocol_min\": \"tls1.3\" }],"
        } else {
            ""
        };
        let more = [("@PROTOCOLS@", protocols.to_owned()), ("@TLS@", tls.to_owned())];
        let path = self.write("json", &self.fill("caddy.json", &self.places(), &more)?)?;
        Ok(words(&[&program.display().to_string(), "run", "--config", &path]))
    }
}

/// Where configurations of a run are collected, so that they come to its results.
pub(in super::super) fn kept(bench: &Bench) -> PathBuf {
    bench.work.join("arena/configurations")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
