//! `limits`, `access_log` and `server_header` of sites and routes; `[access_log.NAME]`.

use std::time::Duration;

use super::meaning::EVERYTHING;
use super::{brief, good};
use crate::config::{LimitOverrides, LogChoice, LogField, LogFormat, LogPart, LogTarget, Overrides};

fn log(lines: &str) -> String {
    format!("listen = [{{ address = \":1\" }}]\nsite = [{{ root = \"www\" }}]\n[access_log.x]\n{lines}\n")
}

#[test]
fn what_differs_for_a_site_and_a_route_reaches_its_meaning() {
    let config = good(EVERYTHING);
    let time = |seconds| Some(Duration::from_secs(seconds));
    let limits = LimitOverrides {
        body_bytes_max: Some(2 << 20),
        body_memory_bytes_max: Some(1 << 20),
        body_timeout: time(1),
        body_bytes_per_second_min: Some(2),
        write_timeout: time(3),
        request_timeout: time(4),
        request_total_timeout: time(5),
    };
    let site = &config.sites[0];
    let of_site = Overrides { limits, access_log: Some(LogChoice::Named(0)), server_header: Some(true) };
    assert_eq!(site.overrides, of_site);
    assert_eq!(config.access_logs[0].to, LogTarget::File("/etc/maitred/shop.log".into()));
    assert_eq!(config.access_logs[0].sample, 10);
    let tenant = vec![LogPart::Field(LogField::Header("X-Tenant".into()))];
    assert_eq!(config.access_logs[0].format, LogFormat::Json(vec![("tenant".into(), tenant)]));
    let route = site.routes.iter().find(|route| !route.error_pages.is_empty()).unwrap();
    assert_eq!(route.error_pages, [(502, "/502.html".into())]);
    let of_route = LimitOverrides { body_bytes_max: Some(3), ..LimitOverrides::default() };
    let of_route =
        Overrides { limits: of_route, access_log: Some(LogChoice::Off), server_header: Some(false) };
    assert_eq!(route.overrides, of_route);
    assert_eq!(site.routes[0].methods, ["GET"], "its own");
    assert!(site.routes[1..].iter().all(|route| route.methods == ["GET", "POST"]), "those of the site");
}

#[test]
fn a_log_goes_to_a_file_a_daemon_or_an_address() {
    for (to, expected) in [
        ("stdout", LogTarget::Stdout),
        ("journald", LogTarget::Journald),
        ("syslog", LogTarget::SyslogSocket("/dev/log".into())),
        ("syslog:/run/x", LogTarget::SyslogSocket("/run/x".into())),
        ("syslog://[::1]:514", LogTarget::SyslogUdp("[::1]:514".parse().unwrap())),
        ("/var/log/x", LogTarget::File("/var/log/x".into())),
    ] {
        assert_eq!(good(&log(&format!("to = \"{to}\""))).access_logs[0].to, expected, "{to}");
    }
}

#[test]
fn what_is_wrong_with_a_log_is_said_where_it_stands() {
    assert_eq!(
        brief(&log("to = \"syslog://example.com\"")),
        [
            "4:6 `to`: \"syslog://example.com\" is not the address of a syslog server | it is an IP address with a port, such as \
             192.0.2.1:514"
        ]
    );
    assert_eq!(
        brief(&log("to = \"syslog:x\"")),
        ["4:6 `to`: \"x\" is not the path of a socket | it is absolute, as in \"syslog:/dev/log\""]
    );
    assert!(brief(&log(""))[0].starts_with("3:1 [access_log.x] has no `to`"), "{:?}", brief(&log("")));
    assert_eq!(
        brief(&log("to = \"x\"\nformat = \"jsn\"")),
        ["5:10 `format`: \"jsn\" is not a format | did you mean \"json\"?"]
    );
    let unknown = brief(&log("to = \"x\"\nformat = \"{staus}\""));
    assert!(
        unknown[0].starts_with("5:10 `format`: \"{staus}\" cannot be a line | there is no `{staus}`"),
        "{unknown:?}"
    );
    assert_eq!(
        brief(&log("to = \"x\"\nfields = { a = \"{status}\" }")),
        ["5:1 `fields` are members of JSON objects | write `format = \"json\"`"]
    );
    assert_eq!(
        brief(&log("to = \"x\"\nformat = \"json\"\nfields = { status = \"{status}\" }")),
        ["6:12 `fields`: each line has a member \"status\" already | take another name"]
    );
    let of_site = |value: &str| {
        format!(
            "listen = [{{ address = \":1\" }}]\n[[site]]\nroot = \"www\"\naccess_log = {value}\n[access_log.shop]\nto = \"x\"\n"
        )
    };
    assert_eq!(brief(&of_site("\"shp\"")), ["4:14 there is no access log \"shp\" | did you mean \"shop\"?"]);
    assert_eq!(
        brief(&of_site("\"other\"")),
        ["4:14 there is no access log \"other\" | add [access_log.other] with `to`"]
    );
    let many: String = (0..17).map(|number| format!("[access_log.l{number:02}]\nto = \"x\"\n")).collect();
    let text = format!("listen = [{{ address = \":1\" }}]\nsite = [{{ root = \"www\" }}]\n{many}");
    assert!(brief(&text)[0].contains("more than 16 access logs"));
}
