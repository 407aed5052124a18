//! The cache of responses, beside a hot file of Maitred's own, nginx's cache on disk, and Varnish in memory: what a hit costs,
//! what a miss costs, and what becomes of many clients that want what is not there yet.
//!
//! The server behind is not counted. nginx and Maitred write an access log; Varnish's is another program, which is not run.

mod cold;
mod origin;

use std::fs;
use std::net::SocketAddr;

use super::grid::{self, Grid, Way};
use super::load::{self, Asked};
use super::peers::{Kind, installed};
use super::server::{Passing, Running, Setup, free_address};
use super::upstreams::behind;
use super::{Bench, Result};
pub(super) use cold::run as cold;
use origin::Origin;

/// Connections of wrk.
const CONNECTIONS: u32 = 64;
/// Megabytes that a cache may keep where all requests are the same, and where none is: then, giving things up is a part of the
/// cost.
const ROOM: u32 = 1024;
const LITTLE_ROOM: u32 = 64;

/// A server that can have a cache in these scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cache {
    Maitred,
    Nginx,
    Varnish,
}

/// What the cache in front is to do.
#[derive(Debug, Clone, Copy)]
struct Front<'a> {
    /// Tells it from others of its kind.
    name: &'a str,
    backend: SocketAddr,
    /// Megabytes of the cache; `None` for a mere proxy.
    megabytes: Option<u32>,
    /// Whether responses are large: then nginx sends them from its files.
    large: bool,
    /// What is asked for to see whether it answers.
    ready: &'a str,
}

impl Cache {
    const ALL: [Cache; 3] = [Cache::Maitred, Cache::Nginx, Cache::Varnish];

    fn name(self) -> &'static str {
        match self {
            Cache::Maitred => "maitred",
            Cache::Nginx => "nginx",
            Cache::Varnish => "varnish",
        }
    }

    /// Starts it with an empty cache.
    fn start(self, bench: &Bench, front: Front<'_>) -> Result<Running> {
        let name = format!("{}-cache-{}", self.name(), front.name);
        let directory = bench.work.join(&name).join("store");
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        let store = directory.display();
        let mut setup =
            Setup { backend: front.backend, ready: front.ready.to_owned(), ..bench.setup(Vec::new()) };
        match self {
            Cache::Maitred => {
                let (route, table) = front.megabytes.map_or_else(Default::default, |megabytes| {
                    let table =
                        format!("\n[cache]\ndirectory = \"{store}\"\nbytes_max = \"{megabytes}MiB\"\n");
                    ("cache = { heuristic = true }", table)
                });
                setup.maitred_more = format!(
                    "[[site.route]]\npath = \"/app/*\"\npool = \"app\"\n{route}\n\n[pool.app]\nconnect = \"http://{}\"\n{table}",
                    front.backend
                );
                Running::start_as(Kind::Maitred, &name, &setup)
            }
            Cache::Nginx => {
                if let Some(megabytes) = front.megabytes {
                    setup.passing = nginx(&store.to_string(), megabytes, front.large);
                }
                Running::start_as(Kind::Nginx, &name, &setup)
            }
            Cache::Varnish => varnish(bench, &name, &setup, front.megabytes.unwrap_or(ROOM)),
        }
    }
}

/// nginx's cache as its manual would have it: files are written where they stay, and one request for a key is passed on.
fn nginx(store: &str, megabytes: u32, large: bool) -> Passing {
    let plain = Passing::plain();
    let from_files = if large {
        "\n            sendfile on;\n            sendfile_max_chunk 512k;\n            tcp_nopush on;"
    } else {
        ""
    };
    Passing {
        location: format!(
            "{}\n            proxy_cache store;\n            proxy_cache_lock on;{from_files}",
            plain.location
        ),
        http: format!(
            "proxy_cache_path {store} levels=1:2 keys_zone=store:32m max_size={megabytes}m inactive=60m use_temp_path=off;"
        ),
        ..plain
    }
}

fn varnish(bench: &Bench, name: &str, setup: &Setup, megabytes: u32) -> Result<Running> {
    if !installed("varnishd") {
        return Err("no varnishd: apt-get install varnish".into());
    }
    let (prefix, address) = (bench.work.join(name), free_address()?);
    let template = fs::read_to_string(bench.directory.join("peers/varnish.vcl"))?;
    let vcl = prefix.join("varnish.vcl");
    let text = template
        .replace("@BACKEND_HOST@", &setup.backend.ip().to_string())
        .replace("@BACKEND_PORT@", &setup.backend.port().to_string());
    fs::write(&vcl, text)?;
    let (place, vcl) = (prefix.join("run").display().to_string(), vcl.display().to_string());
    let (listen, storage) = (address.to_string(), format!("malloc,{megabytes}M"));
    let words = [
        "varnishd", "-F", "-j", "none", "-n", &place, "-a", &listen, "-f", &vcl, "-T", "none", "-s", &storage,
    ];
    Running::start_program(name, &words.map(str::to_owned), address, setup, &prefix)
}

/// Hits of 1 KB and 100 KB, beside a file of the same length.
pub(super) fn hits(bench: &Bench) -> Result<Grid> {
    let mut rows = Vec::new();
    for ((label, file), (name, bytes)) in
        [("1 KB", "/1k.txt"), ("100 KB", "/large/100k.bin")].into_iter().zip(origin::LENGTHS)
    {
        let origin = Origin::start()?;
        let (path, body_bytes) = (format!("/app/{name}"), bytes as u64);
        let front = Front {
            name,
            backend: origin.address(),
            megabytes: Some(ROOM),
            large: bytes > 1 << 10,
            ready: &path,
        };
        let setup = Setup { ready: file.to_owned(), ..bench.setup(Vec::new()) };
        let hot = Running::start_as(Kind::Maitred, "maitred-cache-file", &setup);
        let mut ways = vec![Way { server: hot, path: file.to_owned(), body_bytes }];
        ways.extend(Cache::ALL.map(|cache| Way {
            server: cache.start(bench, front),
            path: path.clone(),
            body_bytes,
        }));
        rows.push(grid::measure_with(bench, label, Some(bytes as f64), ways, &|server, path| {
            let before = origin.requests();
            let asked = Asked { path, script: "plain.lua", connections: CONNECTIONS, close: false };
            let round = load::round(bench, server, asked)?;
            match origin.requests() - before {
                // The first round may begin with as many misses as there are connections.
                passed if passed > u64::from(CONNECTIONS) => {
                    Err(format!("{} passed {passed} requests on", server.name).into())
                }
                _ => Ok(round),
            }
        }));
    }
    let what = "A response from the cache, the same each time, and a file of the same length; 64 connections";
    let columns = ["file", "maitred", "nginx", "varnish"].map(str::to_owned).to_vec();
    let [name, corner, base] = ["cache-hits", "response", "file"].map(str::to_owned);
    Ok(Grid { name, what: what.to_owned(), corner, base, columns, rows })
}

/// Misses: each request is for something else. The same route without a cache, and with one.
pub(super) fn misses(bench: &Bench) -> Result<Grid> {
    let server = behind(bench, "behind-cache", |setup| {
        setup.maitred_more.push_str("response_headers = { set = { Cache-Control = \"max-age=36000\" } }\n");
    })?;
    let front =
        |name, megabytes| Front { name, backend: server.address, megabytes, large: false, ready: "/app/1k" };
    let way = |cache: Cache, name, megabytes| Way {
        server: cache.start(bench, front(name, megabytes)),
        path: "/app/1k".to_owned(),
        body_bytes: 1 << 10,
    };
    let ways = vec![
        way(Cache::Maitred, "without", None),
        way(Cache::Maitred, "misses", Some(LITTLE_ROOM)),
        way(Cache::Nginx, "without", None),
        way(Cache::Nginx, "misses", Some(LITTLE_ROOM)),
        way(Cache::Varnish, "misses", Some(LITTLE_ROOM)),
    ];
    let line = grid::measure_with(bench, "1 KB", None, ways, &|server, path| {
        let asked = Asked { path, script: "unique.lua", connections: CONNECTIONS, close: false };
        load::round(bench, server, asked)
    });
    let what = "1 KB that may be kept, from a server behind, each request for another URL; 64 connections; room for 64 MB, so that \
                something is given up for what is new. CPU of the proxy alone";
    let columns =
        ["maitred without", "maitred", "nginx without", "nginx", "varnish"].map(str::to_owned).to_vec();
    let [name, corner, base] = ["cache-misses", "response", "maitred without"].map(str::to_owned);
    Ok(Grid { name, what: what.to_owned(), corner, base, columns, rows: vec![line] })
}
