//! The settings of the pool that a process gets in the meta.

use crate::access::users::{BCRYPT, field};
use crate::requests::{setup, setup_with, start};
use crate::support::h2::Connection;

fn lines(meta: &str) -> Vec<&str> {
    let names = ["early_hints=", "sendfile_root=", "trailers=", "server_header="];
    let about_request = |line: &&str| names.iter().any(|name| line.starts_with(name));
    meta.lines().filter(about_request).collect()
}

#[test]
fn the_root_of_files_that_may_be_sent_is_said_with_each_request() {
    for transport in ["direct", "relay"] {
        let server = start(transport, "sendfile_root = \"/usr/share\"");
        let mut client = server.connect();
        for _ in 0..2 {
            assert_eq!(lines(client.get("/meta").text()), ["sendfile_root=/usr/share"], "{transport}");
        }
        server.stop();
        let server = start(transport, "");
        assert_eq!(lines(server.connect().get("/meta").text()), [""; 0], "{transport}");
        server.stop();
    }
}

#[test]
fn who_may_have_early_hints_is_said_with_each_request() {
    for (key, http1, http2) in [
        ("", false, true),
        ("early_hints = \"never\"", false, false),
        ("early_hints = \"always\"", true, true),
    ] {
        let server = start("auto", key);
        let said = |meta: &str| lines(meta).contains(&"early_hints=1");
        assert_eq!(said(server.connect().get("/meta").text()), http1, "{key}");
        assert_eq!(said(Connection::new(server.address).get("/meta").text()), http2, "{key}");
        let old = server.connect().ask("GET /meta HTTP/1.0\r\nHost: h\r\n\r\n");
        assert!(!said(old.text()), "{key}: HTTP/1.0 has none (9110-15.2)");
        server.stop();
    }
}

#[test]
fn who_takes_trailers_is_said_with_each_request() {
    for transport in ["direct", "relay"] {
        let server = start(transport, "");
        let mut client = server.connect();
        for (fields, said) in [
            ("", false),
            ("TE: gzip;q=0.5 , Trailers\r\n", true),
            ("", false),
            ("TE: gzip\r\nTE: trailers\r\n", true),
            ("TE: trailers-too, x=trailers\r\n", false),
        ] {
            let response = client.method("GET", "/meta", fields);
            assert_eq!(lines(response.text()) == ["trailers=1"], said, "{transport} {fields}");
        }
        let old = server.connect().ask("GET /meta HTTP/1.0\r\nHost: h\r\nTE: trailers\r\n\r\n");
        assert_eq!(lines(old.text()), [""; 0], "{transport}: HTTP/1.0 has no chunks");
        let stream = Connection::new(server.address).get("/meta");
        assert_eq!(lines(stream.text()), ["early_hints=1", "trailers=1"], "{transport}");
        server.stop();
    }
}

#[test]
fn that_no_server_is_to_be_named_is_said_with_each_request() {
    let named = "[[site]]\nhosts = [\"named\"]\nserver_header = true\n\
                 [[site.route]]\npath = \"/*\"\npool = \"app\"\n";
    for transport in ["direct", "relay"] {
        let server = setup_with("server_header = false", transport, "").table(named).start();
        server.wait_for_processes();
        let mut client = server.connect();
        for (host, wanted) in [("h", &["server_header=0"][..]), ("named", &[]), ("h", &["server_header=0"])] {
            // What a client says is a field, and no line of the meta part.
            let lies = "server_header: 1\r\nX: 1\r\nserver-header: 0\r\n";
            let ask = format!("GET /meta HTTP/1.1\r\nHost: {host}\r\n{lies}\r\n");
            assert_eq!(lines(client.ask(ask).text()), wanted, "{transport} {host}");
        }
        server.stop();
    }
}

/// Adapters take it from there, and from nowhere else.
#[test]
fn who_the_user_is_is_said_with_each_request_that_has_one() {
    let users = format!("basic_auth = {{ users = {{ \"a=b \u{e9}\" = \"{BCRYPT}\" }} }}");
    let open = "[[site]]\nhosts = [\"open\"]\n[[site.route]]\npath = \"/*\"\npool = \"app\"\n";
    for transport in ["direct", "relay"] {
        let server = setup_with(&users, transport, "").table(open).start();
        server.wait_for_processes();
        let mut client = server.connect();
        let mut said = |host: &str| {
            let fields = format!("{}User: root\r\nRemote-User: root\r\n", field("a=b \u{e9}", "secret"));
            let meta =
                client.ask(format!("GET /meta HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")).text().to_owned();
            assert!(meta.lines().last().unwrap().starts_with("queue_us="), "{meta}: it differs each time");
            let about = |line: &&str| ["user", "auth_type"].contains(&line.split('=').next().unwrap());
            meta.lines().filter(about).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(said("h"), ["user=a=b \u{e9}", "auth_type=Basic"], "{transport}");
        assert_eq!(said("open"), [""; 0], "{transport}");
        assert_eq!(said("h"), ["user=a=b \u{e9}", "auth_type=Basic"], "{transport}");
        server.stop();
    }
}

#[test]
fn a_root_that_is_none_is_found_by_check() {
    for (value, why) in [
        ("/no/such/directory", "there is no such directory"),
        ("/etc/passwd", "this is not a directory"),
        ("files", "is not an absolute path"),
    ] {
        let setup = setup("auto", &format!("sendfile_root = \"{value}\""));
        setup.write();
        let checked = std::process::Command::new(crate::support::binary())
            .args(["check", "-c", "maitred.toml"])
            .current_dir(setup.directory.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(
            !checked.status.success() && said.contains("`sendfile_root`") && said.contains(why),
            "{said}"
        );
    }
}
