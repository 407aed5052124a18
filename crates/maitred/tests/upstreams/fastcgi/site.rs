//! The site: a directory with scripts and files, in front of it Maitred, and nginx for comparison.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;

use crate::fastcgi::nginx::Nginx;
use crate::support::php::{Php, scripts};
use crate::support::stage::{Authority, certificates};
use crate::support::{Client, Gate, Response, Server, Setup};

/// The keys of a pool with the usual front controller.
pub(crate) const FRONT: &str = "root = \"root\"\nphp = true";

/// Maitred in front of `php`; `lines` are further keys of its pool.
pub(crate) fn setup(php: &Php, lines: &str) -> Setup {
    files()
        .route("/*", "pool = \"php\"")
        .table(&format!("[pool.php]\nconnect = \"{}\"\n{lines}\n", php.url()))
        .limit("body_bytes_max = \"64MiB\"")
}

/// The files of the site, and an image with code inside, which was uploaded.
pub(crate) fn files() -> Setup {
    let mut setup =
        Setup::with_files().file("upload/evil.jpg", b"\xff\xd8\xff<?php echo 'IT HAS ', 'RUN'; ?>");
    for script in scripts() {
        let name = script.file_name().unwrap().to_str().unwrap().to_owned();
        setup = setup.file(&name, &fs::read(&script).unwrap());
    }
    let index = include_bytes!("php/index.php");
    let variables = include_bytes!("php/vars.php");
    setup
        .file("sub/index.php", index)
        .file("caf\u{e9}/a b.php", variables)
        .file("shop/app.php", variables)
        .file("upload/script.php", b"<?php echo 'IT HAS ', 'RUN';")
}

/// A server that a case is tried on.
pub(crate) struct Front<'a> {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    /// With TLS, HTTP/2 included.
    pub(crate) tls: SocketAddr,
    pub(crate) root: &'a Path,
    client: &'a Arc<ClientConfig>,
}

impl Front<'_> {
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    pub(crate) fn connect_tls(&self) -> Client {
        Client::try_connect_tls(self.tls, self.client, "localhost").unwrap()
    }

    /// One request on a connection of its own.
    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> Response {
        self.connect().get(target)
    }
}

/// Tries a case on nginx, which shows that the case is right, and then on Maitred; both are in front of the same PHP and have
/// the same files.
pub(crate) fn on_both(php: &Php, case: impl Fn(&Front<'_>)) {
    on_both_within(php, "60s", case);
}

/// The same with PHP silent for no longer than `timeout`.
pub(crate) fn on_both_within(php: &Php, timeout: &str, case: impl Fn(&Front<'_>)) {
    let authority = Authority::new();
    let client = &authority.client();
    let setup = with_tls(setup(php, &format!("{FRONT}\nrequest_timeout = \"{timeout}\"")), &authority);
    let root = &setup.directory.path().join("root");
    if let Some(nginx) = Nginx::start(root, php, &authority, timeout) {
        case(&Front { name: "nginx", address: nginx.address, tls: nginx.tls, root, client });
    }
    let server = setup.start();
    let (address, tls) = (server.address_of("http"), server.address_of("https"));
    case(&Front { name: "maitred", address, tls, root, client });
    server.stop();
}

/// A second listener, with TLS.
pub(crate) fn with_tls(setup: Setup, authority: &Authority) -> Setup {
    let made = authority.sign(&["localhost"], &rcgen::PKCS_ECDSA_P256_SHA256);
    made.write(setup.directory.path(), "site");
    setup.site(&certificates(&["site"])).table("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = {}\n")
}

/// A script that stands at the gate.
pub(crate) fn at(gate: &Gate, case: &str) -> String {
    format!("/gate.php?case={case}&gate={}", gate.address())
}

/// What a script says as JSON.
#[track_caller]
pub(crate) fn json(response: &Response) -> serde_json::Value {
    assert_eq!(response.status, 200, "{response:?}");
    serde_json::from_slice(&response.body).unwrap_or_else(|error| panic!("{error}: {:?}", response.text()))
}

/// Maitred with a front controller and nothing else.
pub(crate) fn start(php: &Php, lines: &str) -> Server {
    setup(php, &format!("{FRONT}\n{lines}")).start()
}
