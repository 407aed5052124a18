//! Pebble, a small authority for tests, with a name server that has every name at our address. The authority and the name
//! server are real programs: `MAITRED_PEBBLE` names the directory that has them. Without it the tests here do nothing, and say
//! so.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;

use crate::support::{Setup, TIMEOUT, eventually};

/// How the authority behaves.
#[derive(Debug, Clone)]
pub(crate) struct Manners {
    /// Of how many requests in a hundred the nonce is refused.
    pub(crate) nonce_reject: u32,
    /// Of how many names in a hundred an earlier proof counts.
    pub(crate) authz_reuse: u32,
    /// Accounts are taken only with a key from elsewhere: its name, and the key in base64url.
    pub(crate) external_account: Option<(&'static str, &'static str)>,
    /// Seconds that certificates of the profile `short` last.
    pub(crate) short: u64,
}

impl Default for Manners {
    fn default() -> Self {
        Manners { nonce_reject: 0, authz_reuse: 0, external_account: None, short: 3600 }
    }
}

/// An authority, its name server, and an address of its own.
#[derive(Debug)]
pub(crate) struct Pebble {
    pub(crate) ip: IpAddr,
    directory: tempfile::TempDir,
    programs: PathBuf,
    manners: Manners,
    listen: SocketAddr,
    management: SocketAddr,
    dns: SocketAddr,
    /// Where the name server is told about records.
    pub(crate) names_management: SocketAddr,
    /// Where the server under test has to be for HTTP-01.
    pub(crate) http: SocketAddr,
    /// Where the server under test has to be for TLS-ALPN-01.
    pub(crate) tls: SocketAddr,
    authority: Option<Child>,
    names: Option<Child>,
}

/// An address of the loopback network for each test, so that tests at the same time cannot meet.
fn own_address() -> IpAddr {
    static COUNT: AtomicU8 = AtomicU8::new(1);
    let pid = std::process::id();
    let byte = |number: u32| u8::try_from(1 + number % 250).unwrap();
    Ipv4Addr::new(127, byte(pid / 250), byte(pid), COUNT.fetch_add(1, Ordering::Relaxed)).into()
}

/// Ports of that address that are free, and no two the same: none is given back before the last is there.
pub(crate) fn free<const COUNT: usize>(ip: IpAddr) -> [SocketAddr; COUNT] {
    let taken: [TcpListener; COUNT] = std::array::from_fn(|_| TcpListener::bind((ip, 0)).unwrap());
    taken.map(|listener| listener.local_addr().unwrap())
}

/// Whether a name server answers a question (RFC 1035 section 4.1: for the address of `a.`).
pub(crate) fn has_names(server: SocketAddr) -> bool {
    let question = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
    let socket = UdpSocket::bind((server.ip(), 0)).unwrap();
    // A question that comes too early is lost.
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    socket.connect(server).unwrap();
    socket.send(question).is_ok() && socket.recv(&mut [0; 512]).is_ok()
}

impl Pebble {
    /// Starts both programs; `None` if they are not there.
    pub(crate) fn start(manners: Manners) -> Option<Pebble> {
        let pebble = Pebble::without_authority(manners)?;
        Some(pebble.with_authority())
    }

    /// The same without the authority: there is no listener where it would be.
    pub(crate) fn without_authority(manners: Manners) -> Option<Pebble> {
        let Some(programs) = std::env::var_os("MAITRED_PEBBLE").map(PathBuf::from) else {
            crate::support::skip_missing(
                "MAITRED_PEBBLE is not set; `cargo xtask test` installs Pebble and sets it",
            );
            return None;
        };
        let ip = own_address();
        let [listen, management, dns, dns_management, http, tls] = free(ip);
        let mut pebble = Pebble {
            ip,
            directory: tempfile::tempdir().unwrap(),
            programs,
            manners,
            listen,
            management,
            dns,
            names_management: dns_management,
            http,
            tls,
            authority: None,
            names: None,
        };
        pebble.write_identity();
        let mut command = Command::new(pebble.programs.join("pebble-challtestsrv"));
        command.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""]);
        command.args(["-dnsserver", &dns.to_string(), "-defaultIPv4", &ip.to_string()]);
        command.args(["-management", &dns_management.to_string()]);
        pebble.names = Some(spawn(&mut command));
        eventually("the name server answers", || has_names(dns));
        Some(pebble)
    }

    /// The authority is going to ask another name server.
    pub(crate) fn with_names(mut self, server: SocketAddr) -> Pebble {
        self.dns = server;
        self
    }

    pub(crate) fn with_authority(mut self) -> Pebble {
        self.restart();
        self
    }

    /// Starts the authority, which has forgotten everything.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let config = self.directory.path().join("pebble.json");
        std::fs::write(&config, self.config().to_string()).unwrap();
        let mut command = Command::new(self.programs.join("pebble"));
        command.arg("-strict").arg("-config").arg(config).arg("-dnsserver").arg(self.dns.to_string());
        command.env("PEBBLE_VA_NOSLEEP", "1");
        command.env("PEBBLE_WFE_NONCEREJECT", self.manners.nonce_reject.to_string());
        command.env("PEBBLE_AUTHZREUSE", self.manners.authz_reuse.to_string());
        self.authority = Some(spawn(&mut command));
        for address in [self.listen, self.management] {
            eventually("the authority listens", || TcpStream::connect(address).is_ok());
        }
    }

    /// Ends the authority.
    pub(crate) fn stop(&mut self) {
        self.authority.take().iter_mut().for_each(end);
    }

    fn config(&self) -> serde_json::Value {
        let external = self.manners.external_account;
        let keys: serde_json::Map<String, serde_json::Value> =
            external.iter().map(|(id, key)| ((*id).to_owned(), json!(key))).collect();
        json!({ "pebble": {
            "listenAddress": self.listen.to_string(),
            "managementListenAddress": self.management.to_string(),
            "certificate": self.directory.path().join("server.pem"),
            "privateKey": self.directory.path().join("server.key"),
            "httpPort": self.http.port(),
            "tlsPort": self.tls.port(),
            "ocspResponderURL": "",
            "externalAccountBindingRequired": external.is_some(),
            "externalAccountMACKeys": keys,
            "domainBlocklist": ["blocked.example"],
            "retryAfter": { "authz": 1, "order": 1 },
            "keyAlgorithm": "ecdsa",
            "profiles": {
                "default": { "description": "usual", "validityPeriod": 7_776_000 },
                "short": { "description": "short", "validityPeriod": self.manners.short },
            },
        }})
    }

    /// The certificate by which the authority's own server is known.
    fn write_identity(&self) {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut root = rcgen::CertificateParams::new(Vec::new()).unwrap();
        root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let root = rcgen::CertifiedIssuer::self_signed(root, key).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let server = rcgen::CertificateParams::new(vec![self.ip.to_string()]).unwrap();
        let server = server.signed_by(&key, &root).unwrap();
        let write =
            |name: &str, text: String| std::fs::write(self.directory.path().join(name), text).unwrap();
        write("ca.pem", root.pem());
        write("server.pem", server.pem());
        write("server.key", key.serialize_pem());
    }

    /// A file in this world's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A server that can be validated by HTTP-01, with these lines of `[acme]`, and whose first site has these names.
    pub(crate) fn setup(&self, names: &[&str], acme: &str) -> Setup {
        self.setup_with(names, &self.acme(acme))
    }

    /// The same with this `[acme]`.
    pub(crate) fn setup_with(&self, names: &[&str], acme: &str) -> Setup {
        self.setup_site(&format!("hosts = {names:?}\nacme = true"), acme)
    }

    /// The same with these lines of the first site.
    pub(crate) fn setup_site(&self, site: &str, acme: &str) -> Setup {
        let state = format!("state = \"{}\"", self.path("state").display());
        let address = format!("address = \"{}\"", self.http);
        Setup::with_files()
            .server(&state)
            .listen(&address)
            .site(site)
            .log("level = \"info,maitred_agents::acme=debug\"")
            .table(acme)
    }

    /// `[acme]` with this authority.
    pub(crate) fn acme(&self, lines: &str) -> String {
        let retry = if lines.contains("retry") { "" } else { "retry = \"1s\"" };
        format!("[acme]\nagree = true\n{}{retry}\n{lines}\n", self.authority_lines())
    }

    /// The lines that name this authority.
    pub(crate) fn authority_lines(&self) -> String {
        let ca = self.path("ca.pem");
        format!("directory = \"https://{}/dir\"\nca_file = \"{}\"\n", self.listen, ca.display())
    }

    /// Key and certificates of a site, in PEM, as they are now.
    pub(crate) fn certificate(&self, site: &str) -> Option<String> {
        std::fs::read_to_string(self.path("state").join("certificates").join(format!("{site}.pem"))).ok()
    }

    /// Waits for the certificate of a site to be another than `old`.
    #[track_caller]
    pub(crate) fn next_certificate(&self, site: &str, old: Option<&str>) -> String {
        eventually("there is a new certificate", || {
            self.certificate(site).is_some_and(|new| Some(new.as_str()) != old)
        });
        self.certificate(site).unwrap()
    }

    /// The certificate, in PEM, that all issued ones lead to.
    pub(crate) fn root(&self) -> String {
        self.manage("GET", "/roots/0", "")
    }

    /// What the authority says about when to renew a certificate, whatever it be.
    pub(crate) fn set_renewal_info(&self, pem: &str, info: &serde_json::Value) {
        let leaf = pem.find("-----BEGIN CERTIFICATE").unwrap();
        let body = json!({ "certificate": &pem[leaf..], "ARIResponse": info.to_string() });
        self.manage("POST", "/set-renewal-info/", &body.to_string());
    }

    /// A request to the management address; the body of a 200.
    fn manage(&self, method: &str, path: &str, body: &str) -> String {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
        let session = rustls::ClientConnection::new(Arc::new(config), self.ip.into()).unwrap();
        let stream = TcpStream::connect(self.management).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut stream = rustls::StreamOwned::new(session, stream);
        let (host, length) = (self.management, body.len());
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: test\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut response = String::new();
        // Pebble may close without a farewell.
        let _ = stream.read_to_string(&mut response);
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{response}"));
        assert!(head.split(' ').nth(1) == Some("200"), "{response}");
        body.to_owned()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.stop();
        self.names.take().iter_mut().for_each(end);
    }
}

/// Ends a process that was started here.
pub(crate) fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Starts a program, and shows what it says when `PEBBLE_LOG` is set.
fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let output = child.stdout.take().unwrap();
    let shown = std::env::var_os("PEBBLE_LOG").is_some();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if shown {
                eprintln!("{line}");
            }
        }
    });
    child
}

/// The mode of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
