//! `limits`, `access_log` and `server_header` of sites and routes; `[access_log.NAME]`.

use std::time::Duration;

use super::meaning::EVERYTHING;
use super::{brief, good, read_as};
use crate::{
    Buffering, LimitOverrides, LogChoice, LogField, LogFormat, LogPart, LogTarget, Mirror, MirrorChoice,
    Overrides, ResponseBuffering,
};

fn log(lines: &str) -> String {
    format!("listen = [{{ address = \":1\" }}]\nsite = [{{ root = \"www\" }}]\n[access_log.x]\n{lines}\n")
}

#[test]
fn what_differs_for_a_site_and_a_route_reaches_its_meaning() {
    let config = good(EVERYTHING);
    let time = |seconds| Some(Duration::from_secs(seconds));
    let limits = LimitOverrides {
        body_bytes_max: Some(2 << 10),
        body_memory_bytes_max: Some(19),
        body_timeout: time(1),
        body_bytes_per_second_min: Some(2),
        write_timeout: time(3),
        keep_alive_timeout: time(6),
        request_timeout: time(4),
        request_total_timeout: time(5),
        response_bytes_per_second_max: Some(7 << 10),
        response_burst_bytes: Some(8 << 10),
    };
    let site = &config.sites[0];
    let old = config.pools.iter().position(|pool| pool.name == "old").unwrap();
    let of_site = Overrides {
        limits,
        access_log: Some(LogChoice::Named(0)),
        server_header: Some(true),
        request_buffering: Some(Buffering::Off),
        grpc_web: Some(true),
        response_buffering: Some(ResponseBuffering { memory: 1 << 20, disk: 0 }),
        mirror: Some(MirrorChoice::To(Mirror { pool: old, parts: 5000, concurrent: 7 })),
        delay: Some(Duration::from_millis(150)),
    };
    assert_eq!(site.overrides, of_site);
    assert_eq!(config.access_logs[0].to, LogTarget::File("/etc/maitred/shop.log".into()));
    assert_eq!(config.access_logs[0].sample, 10);
    let tenant = vec![LogPart::Field(LogField::Header("X-Tenant".into()))];
    assert_eq!(config.access_logs[0].format, LogFormat::Json(vec![("tenant".into(), tenant)]));
    let route = site.routes.iter().find(|route| !route.error_pages.is_empty()).unwrap();
    assert_eq!(route.error_pages, [(502, "/502.html".into())]);
    let of_route = LimitOverrides { body_bytes_max: Some(3), ..LimitOverrides::default() };
    let of_route = Overrides {
        limits: of_route,
        access_log: Some(LogChoice::Off),
        server_header: Some(false),
        request_buffering: Some(Buffering::On),
        grpc_web: Some(false),
        response_buffering: Some(ResponseBuffering::OFF),
        mirror: Some(MirrorChoice::Off),
        delay: Some(Duration::ZERO),
    };
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

/// `limits` of a site in line 2, within those of the server in line 5.
fn within(of_site: &str, of_server: &str) -> String {
    format!(
        "listen = [{{ address = \":1\" }}]\nsite = [{{ root = \"www\", limits = {{ {of_site} }} }}]\n\n[limits]\n{of_server}\n"
    )
}

#[test]
fn a_size_of_a_site_has_room_within_the_bounds_of_the_server() {
    assert_eq!(
        brief(&within("body_bytes_max = \"5g\"", "")),
        [
            "2:53 `body_bytes_max` is above `bodies_disk_bytes_max` of [limits] | raise `bodies_disk_bytes_max` in [limits]; it is \
          4GiB"
        ]
    );
    good(&within("body_bytes_max = \"5g\"", "bodies_disk_bytes_max = \"5g\""));
    // What goes on while it comes needs no room.
    let passed = |value: &str| {
        within("body_bytes_max = \"5g\"", "")
            .replace("limits = {", &format!("request_buffering = \"{value}\", limits = {{"))
    };
    good(&passed("off"));
    // So does what is announced to be long, by itself.
    let to_server = |keys: &str| {
        format!(
            "listen = [{{ address = \":1\" }}]\n[pool.api]\nconnect = \"http://127.0.0.1:1\"\n[pool.own]\ncommand = [\"x\"]\n\
             [[site]]\n[[site.route]]\npath = \"/*\"\n{keys}\n"
        )
    };
    good(&to_server("pool = \"api\"\nlimits = { body_bytes_max = \"10g\" }"));
    good(&format!("{}[limits]\nbody_bytes_max = \"10g\"\n", to_server("pool = \"api\"")));
    for kept in ["pool = \"api\"\nrequest_buffering = \"on\"", "pool = \"own\""] {
        let found = brief(&to_server(&format!("{kept}\nlimits = {{ body_bytes_max = \"10g\" }}")));
        assert!(
            found.len() == 1 && found[0].contains("is above `bodies_disk_bytes_max`"),
            "{kept}: {found:?}"
        );
        let found = brief(&format!("{}[limits]\nbody_bytes_max = \"10g\"\n", to_server(kept)));
        assert!(
            found.len() == 1 && found[0].contains("is above `bodies_disk_bytes_max`"),
            "{kept}: {found:?}"
        );
    }
    assert_eq!(brief(&passed("on")).len(), 1);
    assert_eq!(
        brief(&within("body_memory_bytes_max = \"2m\"", "bodies_memory_bytes_max = \"1m\"")),
        ["2:60 `body_memory_bytes_max` is above `bodies_memory_bytes_max` of [limits]"]
    );
    assert_eq!(
        brief(&within("body_memory_bytes_max = 0", "")),
        [
            "2:60 `body_memory_bytes_max` is below `body_inline_bytes_max` of [limits] | bodies up to 64KiB are in memory in \
          any case; `body_inline_bytes_max` is for all sites"
        ]
    );
    good(&within("body_memory_bytes_max = 0", "body_inline_bytes_max = 0"));
    let route = "listen = [{ address = \":1\" }]\n[[site]]\nroot = \"www\"\n[[site.route]]\npath = \"/up\"\nrespond = {}\n\
                 limits = { body_bytes_max = \"5g\" }\n";
    assert!(brief(route)[0].starts_with("7:29 `body_bytes_max` is above"), "{:?}", brief(route));
    let inherited = "listen = [{ address = \":1\" }]\n[defaults]\nlimits = { body_bytes_max = \"5g\" }\n\
                     [[site]]\nroot = \"www\"\n[[site]]\nhosts = [\"a.example\"]\nroot = \"www\"\n";
    assert_eq!(brief(inherited).len(), 1, "once, where it stands: {:?}", brief(inherited));
}

#[test]
fn a_time_that_a_shorter_one_forestalls_is_a_warning() {
    let warnings = |of_site: &str, of_server: &str| {
        let (_, warnings) = read_as(&within(of_site, of_server), false).unwrap();
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let all = "body_timeout = 61, write_timeout = 61, request_timeout = 61, request_total_timeout = 61";
    assert!(warnings(all, "").is_empty(), "{:?}", warnings(all, ""));
    let bounds = "request_total_timeout = \"1m\"\nresponse_total_timeout = \"1m\"";
    let said = warnings(all, bounds);
    assert_eq!(said.len(), 4, "{said:?}");
    let first = "`body_timeout` is longer than `request_total_timeout` of [limits], and has no effect";
    assert!(said[0].contains(first) && said[0].contains("is 60s, and ends"), "{}", said[0]);
    assert!(warnings(&all.replace("61", "60"), bounds).is_empty());
    let said = warnings("request_timeout = 3, request_total_timeout = 2", "");
    assert!(
        said.len() == 1 && said[0].contains("`request_timeout` is longer than `request_total_timeout`"),
        "{said:?}"
    );
}

#[test]
fn calls_of_grpc_web_need_a_pool_of_http_2() {
    let with = |connect: &str| {
        format!(
            "listen = [{{ address = \":1\" }}]\n[pool.app]\nconnect = \"{connect}\"\n[[site]]\n[[site.route]]\n\
             path = \"/*\"\npool = \"app\"\ngrpc_web = true\n"
        )
    };
    good(&with("h2://127.0.0.1:50051"));
    assert_eq!(
        brief(&with("http://127.0.0.1:50051")),
        [
            "8:12 `grpc_web`: the pool \"app\" does not speak HTTP/2 | gRPC needs HTTP/2: `connect = \"h2://…\"`, or `tls = { \
          http2 = true }` with `https://`"
        ]
    );
    good(&with("http://127.0.0.1:50051").replace("grpc_web = true", "grpc_web = false"));
}

#[test]
fn the_example_of_slow_clients_is_good() {
    let manual = include_str!("../../../../docs/routing.md");
    let section = manual.split("## When a client is slower than the pool\n").nth(1).unwrap();
    let example = section.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let config = good(&format!("listen = [{{ address = \":1\" }}]\n{example}"));
    let kept = |overrides: &Overrides| overrides.response_buffering;
    let site = ResponseBuffering { memory: 256 << 10, disk: 1 << 30 };
    assert_eq!(kept(&config.sites[0].overrides), Some(site));
    let routes = config.sites[0].routes.iter().map(|route| kept(&route.overrides));
    assert_eq!(routes.collect::<Vec<_>>(), [Some(ResponseBuffering::OFF), None]);
}
