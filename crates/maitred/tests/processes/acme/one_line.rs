//! `maitred app --domain`: the configuration that it stands for gets a certificate.

use std::process::Command;

use crate::acme::pebble::{Manners, Pebble};
use crate::acme::tls::get;
use crate::support::{Setup, binary, eventually};

/// What the command prints for a directory of files, with the ports, the authority and the state directory of this test. As
/// root it needs an account, which cannot look into directories of tests.
fn configuration(pebble: &Pebble, directory: &str) -> String {
    let mut app = Command::new(binary());
    app.args(["app", directory, "--domain", "a.example", "--print-config"]);
    if rustix::process::geteuid().is_root() {
        app.args(["--user", "www-data"]);
    }
    let printed = app.output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let mut text = String::from_utf8(printed.stdout).unwrap();
    text = text.replace("user = \"www-data\"\n", "").replace("share_user = true\n", "");
    let state = pebble.path("state");
    for (line, here) in [
        ("[server]\n", format!("[server]\nshare_user = true\nstate = \"{}\"\n", state.display())),
        ("address = \":80\"\n", format!("address = \"{}\"\n", pebble.http)),
        ("address = \":443\"\n", format!("address = \"{}\"\n", pebble.tls)),
        ("agree = true", format!("retry = \"1s\"\n{}agree = true", pebble.authority_lines())),
    ] {
        assert_eq!(text.matches(line).count(), 1, "{line}{text}");
        text = text.replace(line, &here);
    }
    text
}

#[test]
fn a_directory_with_a_domain_is_served_with_a_certificate_and_http_leads_there() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let public = pebble.path("public");
    std::fs::create_dir(&public).unwrap();
    std::fs::write(public.join("a.txt"), "over TLS").unwrap();
    let text = configuration(&pebble, &public.to_string_lossy());
    let server = Setup::with_files().start_as(&text);
    pebble.next_certificate("a.example", None);
    let root = pebble.root();
    eventually("the page is there, with a certificate of the authority", || {
        get(&pebble, "a.example", &root).is_ok_and(|response| response.ends_with("over TLS"))
    });
    let mut client = crate::support::Client::connect(pebble.http);
    let redirected = client.ask("GET /a.txt HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(redirected.status, 308, "{redirected:?}");
    assert!(redirected.need("location").starts_with("https://a.example"), "{redirected:?}");
    server.stop();
}
