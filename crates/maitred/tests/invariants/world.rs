//! A running server with all pools, and the files that it is given.

use std::fmt::Write as _;
use std::fs;

use rustix::process::Signal;

use crate::identity::Credentials;
use crate::pools::Pools;
use crate::support::stage::{Authority, certificates};
use crate::support::{Client, Server, Setup};

/// The server, and what stands behind it.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) pools: Pools,
    pub(crate) credentials: Credentials,
}

impl World {
    pub(crate) fn start() -> World {
        let authority = Authority::new();
        let made = authority.sign(&["localhost", "*.test"], &rcgen::PKCS_ECDSA_P256_SHA256);
        let credentials = Credentials::new();
        let setup = Setup::new()
            .file("a.txt", b"file a\n")
            .file("index.html", b"<p>index</p>\n")
            .file("files/b.txt", b"file b, which is long enough to be worth a word about its length\n")
            .file("files/app.3f2a9c1b.js", &b"let a = 1;\n".repeat(300))
            .file("files/dir/c.html", b"<p>c</p>\n")
            .outside("keys.json", credentials.keys.as_bytes())
            .outside("users", Credentials::users().as_bytes());
        let directory = setup.directory.path();
        fs::write(directory.join("ca.pem"), &authority.pem).unwrap();
        made.write(directory, "site");
        let pools = Pools::start(directory, &authority);
        let text = whole(&pools.tables, "");
        let server = setup.start_as(&text);
        server.wait_for_processes();
        World { server, pools, credentials }
    }

    /// The same, started anew with the file that is in force.
    pub(crate) fn again(self) -> World {
        let World { server, pools, credentials } = self;
        let text = fs::read_to_string(server.path("maitred.toml")).unwrap();
        let setup = server.terminate(Signal::TERM).setup;
        let server = setup.start_as(&text);
        server.wait_for_processes();
        World { server, pools, credentials }
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

/// What is before the sites and behind them.
pub(crate) fn whole(pools: &str, sites: &str) -> String {
    let mut text = format!(
        "[server]\nthreads = 1\naffinity = \"off\"\nadmin = \"unix:admin.sock\"\nshare_user = true\n\
         [[listen]]\naddress = \"127.0.0.1:0\"\n\
         [[listen]]\naddress = \"127.0.0.1:0\"\ntls = {{}}\nhttp3 = true\n\
         [log]\naccess = \"off\"\n\
         [cache]\ndirectory = \"cache\"\n\
         [limit.wide]\nrate = \"1000000/s\"\n\
         [[site]]\nhosts = [\"localhost\"]\nroot = \"root\"\n{}\n",
        certificates(&["site"])
    );
    let _ = write!(text, "{sites}\n{pools}");
    text
}
