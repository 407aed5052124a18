//! What a proxy can do besides passing on, with it and without it; and calls of gRPC.
//!
//! The servers behind are those of Maitred with a fixed response, whose CPU time is not counted: the figure is that of the proxy
//! alone. Each row has Maitred and nginx, without what the row is about and with it.

use std::fs;
use std::net::SocketAddr;

use super::grid::{self, Grid, Line, Way};
use super::h2load::{self, Length};
use super::load;
use super::peers::Kind;
use super::protocol::Protocol;
use super::server::{Passing, Running, Setup, free_address};
use super::{Bench, Result};

/// Connections of wrk.
const CONNECTIONS: u32 = 64;
/// Servers of one pool, in the row about their number.
const SERVERS: usize = 100;
/// Length of the response.
const BODY_BYTES: usize = 1 << 10;
/// Connections and streams of h2load.
const STREAMS: (u32, u32) = (16, 32);

/// The same front without something and with it.
struct Pair {
    label: &'static str,
    /// What is behind; ends with this.
    behind: Vec<Running>,
    /// The end of Maitred's configuration.
    maitred: [String; 2],
    /// How nginx passes on; `None` if it has no such thing.
    nginx: [Option<Passing>; 2],
}

/// Many servers, TLS, mapped references and cookies, traces, copies.
pub(super) fn run(bench: &Bench) -> Result<Grid> {
    let pairs =
        [many_servers(bench), over_tls(bench), mapping(bench), tracing(bench), copies(bench)].into_iter();
    let rows = pairs.map(|pair| pair.map(|pair| row(bench, pair))).collect::<Result<_>>()?;
    let what = "1 KB from servers behind a proxy, 64 connections: without what the row is about, and with it. CPU of the proxy alone";
    let columns = ["maitred", "maitred with", "nginx", "nginx with"].map(str::to_owned).to_vec();
    let [name, corner, base] = ["upstreams", "with", "maitred"].map(str::to_owned);
    Ok(Grid { name, what: what.to_owned(), corner, base, columns, rows })
}

fn row(bench: &Bench, pair: Pair) -> Line {
    let Pair { label, behind, maitred, nginx } = pair;
    let way =
        |server: Result<Running>| Way { server, path: "/app/1k".to_owned(), body_bytes: BODY_BYTES as u64 };
    let backend = behind.first().map_or_else(|| SocketAddr::from(([127, 0, 0, 1], 9)), |first| first.address);
    let front = |kind: Kind, place: usize, change: &dyn Fn(&mut Setup)| {
        let mut setup = Setup { backend, ready: "/app/1k".to_owned(), ..bench.setup(Vec::new()) };
        change(&mut setup);
        Running::start_as(kind, &format!("{}-upstreams-{place}", kind.name()), &setup)
    };
    let mut ways: Vec<Way> = Vec::new();
    for (place, lines) in maitred.iter().enumerate() {
        ways.push(way(front(Kind::Maitred, place, &|setup| setup.maitred_more.clone_from(lines))));
    }
    for (place, passing) in nginx.into_iter().enumerate() {
        let Some(passing) = passing else {
            ways.push(way(Err("nginx has no such thing in Debian's packages".into())));
            continue;
        };
        ways.push(way(front(Kind::Nginx, place, &|setup| setup.passing = passing.clone())));
    }
    let line = grid::measure(bench, label, None, CONNECTIONS, ways);
    drop(behind);
    line
}

/// A server behind: Maitred with a fixed response, and further lines.
pub(super) fn behind(bench: &Bench, name: &str, change: impl FnOnce(&mut Setup)) -> Result<Running> {
    let mut setup = bench.setup(Vec::new());
    let body = "x".repeat(BODY_BYTES);
    setup.maitred_more =
        format!("[[site.route]]\npath = \"/app/*\"\nrespond = {{ status = 200, body = \"{body}\" }}\n");
    change(&mut setup);
    Running::start_as(Kind::Maitred, &format!("maitred-{name}"), &setup)
}

/// A route to a pool with these lines.
fn pool(connect: &str, of_route: &str, of_pool: &str) -> String {
    format!(
        "[[site.route]]\npath = \"/app/*\"\npool = \"app\"\n{of_route}\n[pool.app]\nconnect = {connect}\n{of_pool}\n"
    )
}

fn many_servers(bench: &Bench) -> Result<Pair> {
    let directory = bench.work.join("sockets");
    fs::create_dir_all(&directory)?;
    let paths: Vec<String> =
        (0..SERVERS).map(|number| directory.join(format!("{number}.sock")).display().to_string()).collect();
    let listens = paths.iter().map(|path| format!("\"unix:{path}\"")).collect::<Vec<_>>().join(", ");
    let server = behind(bench, "sockets", |setup| {
        setup.maitred_more.push_str(&format!("[[listen]]\naddress = [{listens}]\n"));
    })?;
    let maitred = |paths: &[String]| {
        let urls: Vec<String> = paths.iter().map(|path| format!("\"http+unix:{path}\"")).collect();
        pool(&format!("[{}]", urls.join(", ")), "", "balance = \"round_robin\"")
    };
    let nginx = |paths: &[String]| {
        let servers: Vec<String> = paths.iter().map(|path| format!("server unix:{path};")).collect();
        Some(Passing { servers: servers.join("\n        "), ..Passing::plain() })
    };
    let (one, all) = (paths.get(..1).unwrap_or_default(), paths.as_slice());
    Ok(Pair {
        label: "100 servers (Unix sockets) instead of one",
        maitred: [maitred(one), maitred(all)],
        nginx: [nginx(one), nginx(all)],
        behind: vec![server],
    })
}

fn over_tls(bench: &Bench) -> Result<Pair> {
    let clear = behind(bench, "behind", |_| {})?;
    let secure = behind(bench, "behind-tls", |setup| setup.protocol = Protocol::Http1Tls)?;
    // The default of nginx leaves out TLS 1.3, which the server behind speaks.
    let location = "proxy_pass https://application;\n            proxy_ssl_protocols TLSv1.3;".to_owned();
    let servers = format!("server {};", secure.address);
    Ok(Pair {
        label: "TLS to the server",
        maitred: [
            pool(&format!("\"http://{}\"", clear.address), "", ""),
            pool(&format!("\"https://{}\"", secure.address), "", "tls = { verify = false }"),
        ],
        nginx: [Some(Passing::plain()), Some(Passing { servers, location, ..Passing::plain() })],
        behind: vec![clear, secure],
    })
}

fn mapping(bench: &Bench) -> Result<Pair> {
    let server = behind(bench, "behind", |setup| {
        setup.maitred_more.push_str(
            "response_headers = { set = { Refresh = \"5; url=http://inner.example/app/next\", Set-Cookie = \
             \"id=1; Domain=inner.example; Path=/\" } }\n",
        );
    })?;
    let connect = format!("\"http://{}\"", server.address);
    let with = "redirects = { \"http://inner.example/\" = \"/\" }\n\
                cookies = { domain = { \"inner.example\" = \"\" }, path = { \"/\" = \"/app/\" } }";
    let plain = Passing::plain();
    let location = format!(
        "{}\n            proxy_redirect http://inner.example/ /;\n            \
         proxy_cookie_domain inner.example www.example.com;\n            proxy_cookie_path / /app/;",
        plain.location
    );
    let without = format!("{}\n            proxy_redirect off;", plain.location);
    Ok(Pair {
        label: "a redirect and a cookie are mapped",
        maitred: [pool(&connect, "", "map_redirects = false"), pool(&connect, "", with)],
        nginx: [
            Some(Passing { location: without, ..Passing::plain() }),
            Some(Passing { location, ..Passing::plain() }),
        ],
        behind: vec![server],
    })
}

fn tracing(bench: &Bench) -> Result<Pair> {
    let server = behind(bench, "behind", |_| {})?;
    let collector = behind(bench, "collector", |_| {})?;
    let connect = format!("\"http://{}\"", server.address);
    let trace = format!("\n[trace]\nsample = 1\notlp = \"http://{}/app/spans\"\n", collector.address);
    Ok(Pair {
        label: "each request has a span, which is sent",
        maitred: [pool(&connect, "", ""), pool(&connect, "", "") + &trace],
        nginx: [Some(Passing::plain()), None],
        behind: vec![server, collector],
    })
}

fn copies(bench: &Bench) -> Result<Pair> {
    let server = behind(bench, "behind", |_| {})?;
    let connect = format!("\"http://{}\"", server.address);
    let next =
        format!("{}\n[pool.next]\nconnect = {connect}\n", pool(&connect, "mirror = { pool = \"next\" }", ""));
    let plain = Passing::plain();
    let location = format!("mirror /copy;\n            {}", plain.location);
    let beside = "location = /copy {\n            internal;\n            proxy_pass http://application/app/copy;\n        }";
    Ok(Pair {
        label: "each request has a copy",
        maitred: [pool(&connect, "", ""), next],
        nginx: [Some(plain), Some(Passing { location, beside: beside.to_owned(), ..Passing::plain() })],
        behind: vec![server],
    })
}

/// Calls that a server of gRPC's own tests answers with an empty message.
const CALL: &str = "/grpc.testing.TestService/EmptyCall";

/// Unary calls: each peer that passes gRPC on, before the server in Go of gRPC's interop cases.
pub(super) fn grpc(bench: &Bench) -> Result<Grid> {
    let programs = xtask::test_grpc::install(&bench.target).ok_or("gRPC's server is not there")?;
    let peers =
        bench.peers.iter().copied().filter(|kind| matches!(kind, Kind::Nginx | Kind::Haproxy | Kind::Caddy));
    let kinds: Vec<Kind> = [Kind::Maitred].into_iter().chain(peers).collect();
    let server = go_server(bench, &programs.join("server"))?;
    let message = bench.work.join("empty-message");
    // Not compressed, and no bytes.
    fs::write(&message, [0; 5])?;
    let further: Vec<String> =
        ["-H", "content-type: application/grpc", "-H", "te: trailers", "-d", &message.display().to_string()]
            .map(str::to_owned)
            .to_vec();
    let ways = kinds.iter().map(|kind| Way {
        server: grpc_front(bench, *kind, server.address),
        path: CALL.to_owned(),
        body_bytes: 5,
    });
    let line = grid::measure_with(bench, "unary", None, ways.collect(), &|front, path| {
        load::round_with(front, || {
            h2load::run_with(bench, &front.url(path), STREAMS, Length::Seconds(bench.seconds), &further)
        })
    });
    let what = "Unary calls of gRPC without content, 16 connections × 32 streams, to a server written in Go. CPU of the proxy alone";
    let columns = kinds.iter().map(|kind| kind.name().to_owned()).collect();
    let [name, corner, base] = ["grpc", "calls", "maitred"].map(str::to_owned);
    Ok(Grid { name, what: what.to_owned(), corner, base, columns, rows: vec![line] })
}

fn go_server(bench: &Bench, program: &std::path::Path) -> Result<Running> {
    let address = free_address()?;
    let words = [program.display().to_string(), "--port".to_owned(), address.port().to_string()];
    let setup = Setup { protocol: Protocol::Http2, ..bench.setup(Vec::new()) };
    Running::start_program("grpc-server", &words, address, &setup, &bench.work)
}

fn grpc_front(bench: &Bench, kind: Kind, backend: SocketAddr) -> Result<Running> {
    let mut setup = Setup { backend, protocol: Protocol::Http2, ..bench.setup(Vec::new()) };
    setup.passing = Passing {
        prefix: "/grpc.testing.TestService/".to_owned(),
        http2: true,
        location: "grpc_pass grpc://application;".to_owned(),
        ..Passing::plain()
    };
    setup.maitred_more = format!(
        "[[site.route]]\npath = \"/grpc.testing.TestService/*\"\npool = \"app\"\n\n[pool.app]\nconnect = \"h2://{backend}\"\n"
    );
    Running::start_as(kind, &format!("{}-grpc", kind.name()), &setup)
}
