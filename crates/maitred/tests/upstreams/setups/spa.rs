//! A single-page application with its API and a WebSocket.

use crate::setups::{application, example, get, place};
use crate::support::{Client, Setup};

#[test]
fn each_location_answers_as_in_nginx() {
    let setup = Setup::new()
        .outside("app/index.html", b"<p>app</p>\n")
        .outside("app/assets/app.0123456789abcdef.js", b"let a;\n")
        .outside("app/assets/plain.txt", b"plain\n");
    let root = place(&setup, "app");
    place(&setup, "app/assets");
    let api = application();
    let address = api.address().to_string();
    let server = example("spa", setup, &[("/srv/app", &root), ("127.0.0.1:3000", &address)]);
    let host = server.address.to_string();
    // `try_files $uri /index.html`, and `expires -1` for it.
    for target in ["/", "/index.html", "/deep/link?x=1"] {
        let page = get(&server, &host, target, "");
        assert_eq!((page.status, page.text()), (200, "<p>app</p>\n"), "{target}");
        assert_eq!(page.need("cache-control"), "no-cache", "{target}");
    }
    let script = get(&server, &host, "/assets/app.0123456789abcdef.js", "");
    assert!(script.need("cache-control").contains("immutable") && script.text() == "let a;\n", "{script:?}");
    assert_eq!(get(&server, &host, "/assets/plain.txt", "").field("cache-control"), None);
    // `proxy_pass http://127.0.0.1:3000/` takes the prefix away.
    let told = get(&server, &host, "/api/users?id=%2F", "");
    assert_eq!(told.text(), format!("GET /users?id=%2F of {host} over http with 0"));
    let mut client = Client::connect(server.address);
    client.send(format!(
        "POST /api/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        21 << 20
    ));
    assert_eq!(client.head().unwrap().status, 413);
    // `proxy_set_header Upgrade` has no line here: the application gets it.
    let asked = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    let told = get(&server, &host, "/ws", asked);
    assert_eq!(told.text(), format!("GET /ws of {host} over http with 0"));
}
