//! Three hosts: files, an administration with passwords and networks, an API with a limited rate.

use crate::setups::{application, example, get, place};
use crate::support::Setup;

#[test]
fn each_host_answers_as_in_nginx() {
    let setup = Setup::new().outside("www/index.html", b"<p>www</p>\n");
    let root = place(&setup, "www");
    let (admin, api) = (application(), application());
    let (for_admin, for_api) = (admin.address().to_string(), api.address().to_string());
    // The peers of the test are on the loopback interface, and have to give a password here.
    let places = [
        ("/srv/www", root.as_str()),
        ("127.0.0.1:3001", &for_admin),
        ("127.0.0.1:3002", &for_api),
        (", \"@loopback\"]", "]"),
    ];
    let server = example("three-hosts", setup, &places);
    for host in ["www.example.com", "example.com", "unknown.example"] {
        assert_eq!(get(&server, host, "/", "").text(), "<p>www</p>\n", "{host}");
    }
    // `auth_basic`, `satisfy any`
    let refused = get(&server, "admin.example.com", "/", "");
    assert_eq!(refused.status, 401);
    assert!(refused.need("www-authenticate").contains("Administrators"));
    let wrong = get(&server, "admin.example.com", "/", "Authorization: Basic YWxpY2U6d3Jvbmc=\r\n");
    assert_eq!(wrong.status, 401);
    assert_eq!(admin.requests(), 0);
    // `limit_req zone=login burst=5 nodelay`, of one location alone.
    let statuses: Vec<u16> = (0..8).map(|_| get(&server, "api.example.com", "/login", "").status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 429, 429]);
    assert_eq!(get(&server, "api.example.com", "/data", "").status, 200);
}

#[test]
fn networks_and_passwords_open_the_administration() {
    let setup = Setup::new().outside("www/index.html", b"<p>www</p>\n");
    let root = place(&setup, "www");
    let (admin, api) = (application(), application());
    let (for_admin, for_api) = (admin.address().to_string(), api.address().to_string());
    let places = [("/srv/www", root.as_str()), ("127.0.0.1:3001", &for_admin), ("127.0.0.1:3002", &for_api)];
    let server = example("three-hosts", setup, &places);
    let told = get(&server, "admin.example.com", "/users", "");
    assert_eq!((told.status, told.text()), (200, "GET /users of admin.example.com over http with 0"));
}
