//! What logs and metrics say of requests at servers.

use crate::proxy::setup;
use crate::support::upstream::Upstream;
use crate::support::{Setup, eventually};

fn answering(head: &'static str, body: &'static str) -> Upstream {
    Upstream::start(move |peer| {
        loop {
            peer.request()?;
            peer.send(format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))?;
        }
    })
}

#[test]
fn the_log_names_the_server_its_status_and_its_times() {
    let gone = answering("200 OK", "");
    let here = answering("404 Not Found", "none");
    let server = setup(&[&gone, &here], "")
        .log("access = \"json\"")
        .site("access_log = \"all\"")
        .table(
            "[access_log.all]\nto = \"all.log\"\nformat = \"json\"\nfields = { as_text = \"{upstream} {upstream_status} \
             {upstream_attempts} {upstream_connect} {upstream_header} {upstream_response}\" }\n",
        )
        .start();
    let (gone_at, here_at) = (gone.address(), here.address());
    drop(gone);
    eventually("there is no listener", || std::net::TcpStream::connect(gone_at).is_err());
    let mut client = server.connect();
    // Each server is the first for one of two requests.
    assert!((0..2).all(|_| client.get("/x").status == 404));
    client.get("/a.txt");
    let path = server.path("all.log");
    let text = || std::fs::read_to_string(&path).unwrap_or_default();
    eventually("three lines are written", || text().lines().count() == 3);
    let text = text();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (of_servers, of_file) = lines.split_at(2);
    let mut attempts = Vec::new();
    for line in of_servers {
        assert_eq!(line["upstream"], here_at.to_string().as_str(), "{line}");
        assert_eq!(line["upstream_status"], 404, "{line}");
        let us = |key: &str| line[key].as_u64().unwrap_or_else(|| panic!("no {key} in {line}"));
        let (header, response) = (us("upstream_header_us"), us("upstream_response_us"));
        assert!(us("upstream_connect_us") <= header && header <= response.max(1), "{line}");
        assert!(response <= us("duration_us"), "{line}");
        attempts.push(us("upstream_attempts"));
        let as_text: Vec<_> = line["as_text"].as_str().unwrap().split(' ').collect();
        assert_eq!(as_text[..2], [here_at.to_string().as_str(), "404"], "{line}");
        assert!(as_text[3..].iter().all(|seconds| seconds.contains('.')), "{line}");
    }
    attempts.sort_unstable();
    assert_eq!(attempts, [1, 2], "{text}");
    assert!(
        of_file.iter().all(|line| line["upstream"].is_null() && line["as_text"] == "- - - - - -"),
        "{text}"
    );
    server.stop();
}

#[test]
fn a_server_that_does_not_answer_has_no_status_in_the_log() {
    let mute = Upstream::start(|peer| peer.request().map(drop));
    let server = setup(&[&mute], "").log("access = \"json\"").start();
    assert_eq!(server.connect().post("/x", b"body").status, 502);
    let stopped = server.stop();
    let line = stopped.json_lines().pop().unwrap();
    assert_eq!(
        (&line["status"], &line["upstream"]),
        (&502.into(), &mute.address().to_string().as_str().into())
    );
    assert!(line["upstream_status"].is_null() && line["upstream_header_us"].is_null(), "{line}");
}

#[test]
fn metrics_have_a_histogram_of_what_each_pool_takes() {
    let here = answering("200 OK", "yes");
    let server = Setup::with_files()
        .pool("python", None, "")
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", here.name()))
        .start();
    let mut client = server.connect();
    (0..3).for_each(|_| assert_eq!(client.get("/x").status, 200));
    assert_eq!(server.connect().get("/python/hello").status, 200);
    let read = || {
        server
            .admin("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .text()
            .to_owned()
    };
    let value = |metrics: &str, name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not in\n{metrics}")).parse::<f64>().unwrap()
    };
    let count =
        |pool: &str| value(&read(), &format!("maitred_pool_response_seconds_count{{pool=\"{pool}\"}}"));
    eventually("all are counted", || count("app") == 3.0 && count("python") == 1.0);
    let metrics = read();
    assert!(metrics.contains("# TYPE maitred_pool_response_seconds histogram\n"), "{metrics}");
    let bucket = |le: &str| {
        value(&metrics, &format!("maitred_pool_response_seconds_bucket{{pool=\"app\",le=\"{le}\"}}"))
    };
    assert_eq!(bucket("+Inf"), 3.0);
    let bounds = ["0.001", "0.0025", "0.1", "1", "10", "+Inf"].map(bucket);
    assert!(bounds.is_sorted(), "{bounds:?}");
    assert!(value(&metrics, "maitred_pool_response_seconds_sum{pool=\"app\"}") > 0.0, "{metrics}");
    server.stop();
}

#[test]
fn each_server_has_its_figures() {
    let good = Upstream::start(|peer| {
        loop {
            peer.request()?;
            peer.answer("good")?;
        }
    });
    let bad = Upstream::start(|peer| peer.request().map(drop));
    let server = crate::proxy::setup(&[&good, &bad], "").start();
    let mut client = server.connect();
    eventually("one is out", || {
        assert_eq!(client.get("/x").text(), "good");
        server.status()["pools"][0]["servers"][1]["state"] == "out"
    });
    let status = server.status();
    let servers = status["pools"][0]["servers"].as_array().unwrap();
    let of = |at: usize, key: &str| servers[at][key].clone();
    assert_eq!(servers.len(), 2);
    assert_eq!((of(0, "address"), of(0, "state")), (good.address().to_string().into(), "up".into()));
    assert_eq!((of(0, "requests"), of(0, "failures")), (good.requests().into(), 0.into()));
    assert_eq!((of(1, "requests"), of(1, "failures")), (bad.requests().into(), bad.requests().into()));
    let metrics = server.admin("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let labels = |upstream: &Upstream| format!("{{pool=\"app\",server=\"{}\"}}", upstream.address());
    for line in [
        format!("maitred_server_up{} 1", labels(&good)),
        format!("maitred_server_up{} 0", labels(&bad)),
        format!("maitred_server_failures_total{} {}", labels(&bad), bad.requests()),
        format!("maitred_server_under_way{} 0", labels(&good)),
    ] {
        assert!(metrics.text().lines().any(|found| found == line), "{line}\n{}", metrics.text());
    }
    let (_, text) = server.command(&["status"]);
    assert!(text.contains(&format!("  {}: out, 0 in progress", bad.address())), "{text}");
    server.stop();
}
