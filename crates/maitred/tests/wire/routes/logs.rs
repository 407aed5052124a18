//! Access logs of sites and routes: where requests are logged, and what their lines say.

use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use serde_json::Value;

use crate::support::{Setup, eventually};

fn contents(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn a_route_has_a_log_of_its_own_or_none() {
    let server = Setup::with_files()
        .table(
            "[access_log.api]\nto = \"api.log\"\n\
             format = '{remote} {host} \"{request}\" {method} {path} {query} {version} {status} {body_bytes} {pool} {queue_us} \
             \"{referer}\" \"{user_agent}\" \"{header.X-Tenant}\" {header.none} [{time}] {time_iso} {duration} {duration_us} {request_id}'\n",
        )
        .table("[[site.route]]\npath = \"/api/*\"\nrespond = { body = \"yes\" }\naccess_log = \"api\"\n")
        .table("[[site.route]]\npath = \"/health\"\nrespond = { body = \"ok\" }\naccess_log = false\n")
        .start();
    let mut client = server.connect();
    client.ask("GET /api/x?a=b HTTP/1.1\r\nHost: h:1\r\nX-Tenant: a\"b\r\nUser-Agent: u\r\n\r\n");
    client.get("/health");
    client.get("/index.html");
    let path = server.path("api.log");
    eventually("the line is written", || contents(&path).ends_with('\n'));
    let line = contents(&path);
    let start = "127.0.0.1 h:1 \"GET /api/x?a=b HTTP/1.1\" GET /api/x a=b HTTP/1.1 200 3 - 0 \"-\" \"u\" \"a\\\"b\" - [";
    assert!(line.starts_with(start), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 1, "{:?}", stopped.access);
    assert!(stopped.access[0].contains("/index.html"));
}

#[test]
fn a_site_has_a_log_and_one_of_its_routes_that_of_the_server() {
    let server = Setup::with_files()
        .site("access_log = \"shop\"")
        .table(
            "[access_log.shop]\nto = \"shop.log\"\nformat = \"json\"\nfields = { tenant = \"{header.X-Tenant}!\", at = \"{path}\" }\n",
        )
        .table("[[site.route]]\npath = \"/main\"\nrespond = {}\naccess_log = true\n")
        .start();
    let mut client = server.connect();
    client.ask("GET /index.html HTTP/1.1\r\nHost: h\r\nX-Tenant: \"x\\\r\n\r\n");
    client.get("/main");
    let path = server.path("shop.log");
    eventually("the line is written", || contents(&path).ends_with('\n'));
    let text = contents(&path);
    let line: Value = serde_json::from_str(text.trim_end()).unwrap();
    assert_eq!((&line["tenant"], &line["at"]), (&"\"x\\!".into(), &"/index.html".into()), "{text}");
    assert_eq!((&line["status"], &line["target"]), (&200.into(), &"/index.html".into()), "{text}");
    assert_eq!(server.stop().access.len(), 1);
}

#[test]
fn what_a_line_says_is_kept_until_a_long_response_has_ended() {
    let server = Setup::with_files()
        .file("large.bin", &vec![b'x'; 8 << 20])
        .pool("app", None, "transport = \"relay\"")
        .site("access_log = \"all\"")
        .table("[access_log.all]\nto = \"all.log\"\nformat = '{path} {header.X-Tenant} {status} {body_bytes} {pool}'\n")
        .start();
    let mut client = server.connect();
    for path in ["/large.bin", "/app/large?8000000"] {
        client.ask(format!("GET {path} HTTP/1.1\r\nHost: h\r\nX-Tenant: t\r\n\r\n"));
    }
    let path = server.path("all.log");
    eventually("both lines are written", || contents(&path).lines().count() == 2);
    assert_eq!(contents(&path), "/large.bin t 200 8388608 -\n/app/large t 200 8000000 app\n");
    server.stop();
}

#[test]
fn one_of_many_requests_has_a_line_and_each_failure() {
    let server = Setup::with_files()
        .table("[access_log.few]\nto = \"few.log\"\nformat = \"{path} {status}\"\nsample = 10\n")
        .table("[[site.route]]\npath = \"/many\"\nrespond = {}\naccess_log = \"few\"\n")
        .table("[[site.route]]\npath = \"/fails\"\nrespond = { status = 503 }\naccess_log = \"few\"\n")
        .server("threads = 1")
        .start();
    let mut client = server.connect();
    for _ in 0..30 {
        client.get("/many");
    }
    client.get("/fails");
    client.get("/fails");
    let path = server.path("few.log");
    eventually("all lines are written", || contents(&path).lines().count() == 5);
    assert_eq!(contents(&path), "/many 200\n".repeat(3) + "/fails 503\n/fails 503\n");
    server.stop();
}

#[test]
fn lines_go_to_syslog_on_this_machine_and_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let local = UnixDatagram::bind(directory.path().join("log")).unwrap();
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = Setup::with_files()
        .table(&format!(
            "[access_log.local]\nto = \"syslog:{}\"\nformat = \"{{path}}\"\n",
            directory.path().join("log").display()
        ))
        .table(&format!(
            "[access_log.far]\nto = \"syslog://{}\"\nformat = \"{{path}}\"\n",
            far.local_addr().unwrap()
        ))
        .table("[[site.route]]\npath = \"/local\"\nrespond = {}\naccess_log = \"local\"\n")
        .table("[[site.route]]\npath = \"/far\"\nrespond = {}\naccess_log = \"far\"\n")
        .start();
    let mut client = server.connect();
    client.get("/local");
    client.get("/far");
    let mut room = [0; 4096];
    let count = local.recv(&mut room).unwrap();
    let text = String::from_utf8_lossy(&room[..count]).into_owned();
    // <PRI>Mmm dd hh:mm:ss TAG[PID]: MSG
    assert!(text.starts_with("<190>") && text.ends_with("]: /local"), "{text}");
    assert_eq!(text.find(" maitred["), Some(20), "{text}");
    let count = far.recv(&mut room).unwrap();
    let text = String::from_utf8_lossy(&room[..count]).into_owned();
    let words: Vec<&str> = text.split(' ').collect();
    assert_eq!(
        (words[0], words[3], &words[5..]),
        ("<190>1", "maitred", &["access", "-", "/far"][..]),
        "{text}"
    );
    server.stop();
}

#[test]
fn a_log_that_cannot_be_opened_is_an_error_with_its_name() {
    let setup = Setup::with_files().table("[access_log.x]\nto = \"syslog:/no/such/socket\"\n");
    let stopped = setup.launch().wait_for_exit();
    assert!(!stopped.status.success());
    let said = stopped.said.join("\n");
    assert!(said.contains("[access_log.x]: /no/such/socket"), "{said}");
}
