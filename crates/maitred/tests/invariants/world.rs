//! A running server with all pools, and the files that it is given.

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, SocketAddr};

use rustix::process::Signal;

use crate::identity::{Credentials, MODULE_KEY};
use crate::pools::Pools;
use crate::support::stage::{Authority, certificates};
use crate::support::{Client, Server, Setup};

/// The server, and what stands behind it.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) pools: Pools,
    pub(crate) credentials: Credentials,
    /// Addresses of [`LISTENERS`].
    addresses: [SocketAddr; 3],
}

const LISTENERS: [&str; 3] = ["plain", "secure", "inner"];

impl World {
    pub(crate) fn start() -> World {
        let authority = Authority::new();
        let made = authority.sign(&["localhost", "*.test"], &rcgen::PKCS_ECDSA_P256_SHA256);
        let credentials = Credentials::new(&authority);
        let setup = Setup::new()
            .file("a.txt", b"file a\n")
            .file("index.html", b"<p>index</p>\n")
            .file("files/b.txt", b"file b, which is long enough to be worth a word about its length\n")
            .file("files/app.3f2a9c1b.js", &b"let a = 1;\n".repeat(300))
            .file("files/dir/c.html", b"<p>c</p>\n")
            .outside("keys.json", credentials.keys.as_bytes())
            .outside("users", Credentials::users().as_bytes())
            .outside("token.key", MODULE_KEY.as_bytes())
            .outside("scripts/index.php", b"<?php\n");
        let directory = setup.directory.path();
        fs::write(directory.join("ca.pem"), &authority.pem).unwrap();
        made.write(directory, "site");
        let pools = Pools::start(directory, &authority);
        let text = whole(&pools.tables, "");
        World::on(setup, &text, pools, credentials)
    }

    fn on(setup: Setup, text: &str, pools: Pools, credentials: Credentials) -> World {
        let server = setup.start_as(text);
        server.wait_for_processes();
        let listens = server.status()["listens"].clone();
        let all = listens.as_array().unwrap().iter().map(|listen| listen["address"].as_str().unwrap());
        let all: Vec<SocketAddr> = all.map(|address| address.parse().unwrap()).collect();
        let at =
            |last: u8| all.iter().copied().find(|address| address.ip() == IpAddr::from([127, 0, 0, last]));
        World { addresses: [1, 2, 3].map(|last| at(last).unwrap()), server, pools, credentials }
    }

    /// Where the listener of this name is.
    pub(crate) fn address(&self, listener: &str) -> SocketAddr {
        self.addresses[LISTENERS.iter().position(|name| *name == listener).unwrap()]
    }

    /// The same, started anew with the file that is in force.
    pub(crate) fn again(self) -> World {
        let World { server, pools, credentials, .. } = self;
        let text = fs::read_to_string(server.path("maitred.toml")).unwrap();
        let setup = server.terminate(Signal::TERM).setup;
        World::on(setup, &text, pools, credentials)
    }

    /// The file with these sites.
    pub(crate) fn file(&self, sites: &str) -> String {
        whole(&self.pools.tables, sites)
    }

    /// Puts a file in force; otherwise, what the server says against it.
    pub(crate) fn put(&self, text: &str) -> Result<(), String> {
        let mut client = Client::connect_unix(&self.server.path("admin.sock"));
        let head =
            format!("PUT /config HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", text.len());
        client.send([head.as_bytes(), text.as_bytes()].concat());
        let response = client.response("PUT");
        match response.status {
            200 => Ok(()),
            status => Err(format!("{status}: {}", response.text())),
        }
    }
}

/// What is before the sites and behind them. Listeners have addresses of their own, by which a reload knows them again.
pub(crate) fn whole(pools: &str, sites: &str) -> String {
    let mut text = format!(
        "[server]\nthreads = 1\naffinity = \"off\"\nadmin = \"unix:admin.sock\"\nshare_user = true\n\
         [[listen]]\nname = \"plain\"\naddress = \"127.0.0.1:0\"\n\
         [[listen]]\nname = \"secure\"\naddress = \"127.0.0.2:0\"\n\
         tls = {{ client_auth = \"optional\", client_ca = \"ca.pem\" }}\nhttp3 = true\n\
         [[listen]]\nname = \"inner\"\naddress = \"127.0.0.3:0\"\n\
         [log]\naccess = \"off\"\n\
         [cache]\ndirectory = \"cache\"\n\
         [limit.wide]\nrate = \"1000000/s\"\n\
         [[site]]\nhosts = [\"localhost\"]\nroot = \"root\"\n{}\n",
        certificates(&["site"])
    );
    let _ = write!(text, "{sites}\n{pools}");
    text
}
