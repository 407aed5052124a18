//! `forward_auth` with the real oauth2-proxy and the configurations of docs/access.md, with other addresses.
//! `MAITRED_OAUTH2_PROXY` names the program. Without it the tests here do nothing, and say so.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use crate::access::provider::{CLIENT, Provider, USER};
use crate::support::h2::Connection;
use crate::support::upstream::Upstream;
use crate::support::{Client, Response, Server, Setup, eventually, skip_missing};

/// The host that the page's configurations are for.
const HOST: &str = "www.example.com";
const CALLBACK: &str = "https://www.example.com/oauth2/callback";
const COOKIE: &str = "_oauth2_proxy";

/// The block of the page's section in that language.
fn block(language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/access.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("\n### oauth2-proxy\n").expect("the page has the section");
    let mut blocks = section.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    blocks.find(|(of, _)| *of == language).expect("the section has a block").1.to_owned()
}

/// A text with others in place of some that it has.
#[track_caller]
fn with(mut text: String, places: &[(&str, &str)]) -> String {
    for (old, new) in places {
        assert!(text.contains(old), "{old} is not in\n{text}");
        text = text.replace(old, new);
    }
    text
}

/// Says who it was told that the client is, and echoes what comes after a switch of protocols.
fn application() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let all = |name: &str| {
                let found = asked.fields.iter().filter(|(found, _)| found == name);
                found.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(",")
            };
            if asked.field("upgrade").is_some() {
                let user = all("x-auth-request-user");
                peer.send(format!(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n{user}!"
                ))?;
                return peer.echo();
            }
            let (user, email) = (all("x-auth-request-user"), all("x-auth-request-email"));
            peer.answer(format!("{user}|{email}|{}|{}", all("x-auth-request-groups"), asked.body.len()))?;
        }
    })
}

/// All of them, in the order in which they end.
struct World {
    server: Server,
    oauth2_proxy: Mutex<Child>,
    provider: Provider,
    application: Upstream,
}

impl World {
    /// With changes to the configurations of Maitred and of oauth2-proxy; `None` if the latter is not there.
    fn start(changes: &[(&str, &str)], changes_there: &[(&str, &str)]) -> Option<World> {
        let Some(program) = std::env::var_os("MAITRED_OAUTH2_PROXY") else {
            skip_missing(
                "MAITRED_OAUTH2_PROXY is not set; `cargo xtask test` builds oauth2-proxy and sets it",
            );
            return None;
        };
        let (provider, application) = (Provider::start(CALLBACK), application());
        let setup = Setup::new().outside("client-secret", CLIENT.1.as_bytes());
        let place = |name: &str| setup.directory.path().join(name).to_str().unwrap().to_owned();
        let socket = place("oauth2.sock");
        let config = with(
            block("ini"),
            &[
                ("127.0.0.1:4180", &format!("unix://{socket}")),
                ("https://id.example.com", provider.issuer()),
                ("/etc/oauth2-proxy/client-secret", &place("client-secret")),
                ("COOKIE-SECRET", "0123456789abcdef0123456789abcdef"),
            ],
        );
        std::fs::write(place("oauth2-proxy.cfg"), with(config, changes_there)).unwrap();
        let mut command = Command::new(program);
        command.arg("--config").arg(place("oauth2-proxy.cfg")).stdin(Stdio::null());
        let mut oauth2_proxy = command.stdout(Stdio::null()).spawn().unwrap();
        eventually("oauth2-proxy listens", || {
            assert_eq!(oauth2_proxy.try_wait().unwrap(), None, "it has ended");
            UnixStream::connect(&socket).is_ok()
        });
        let text = with(
            block("toml"),
            &[
                ("http://127.0.0.1:3000", application.name()),
                ("http://127.0.0.1:4180", &format!("http+unix:{socket}")),
            ],
        );
        let general = "[server]\nshare_user = true\nadmin = \"unix:admin.sock\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
                       [log]\naccess = \"json\"\naccess_file = \"access.log\"\n";
        let server = setup.start_as(&format!("{general}{}", with(text, changes)));
        Some(World { server, oauth2_proxy: Mutex::new(oauth2_proxy), provider, application })
    }

    fn stop_oauth2_proxy(&self) {
        let mut process = self.oauth2_proxy.lock().unwrap();
        let _ = process.kill();
        let _ = process.wait();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop_oauth2_proxy();
    }
}

/// A browser: it keeps cookies, and goes where it is sent when it is told to.
struct Browser<'w> {
    world: &'w World,
    cookies: Vec<(String, String)>,
}

impl<'w> Browser<'w> {
    fn new(world: &'w World) -> Browser<'w> {
        Browser { world, cookies: Vec::new() }
    }

    fn cookie_field(&self) -> String {
        let pairs: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if pairs.is_empty() { String::new() } else { format!("Cookie: {}\r\n", pairs.join("; ")) }
    }

    fn has_session(&self) -> bool {
        self.cookies.iter().any(|(name, _)| name == COOKIE)
    }

    /// Sends a request to the site, with further lines, and keeps the cookies of its response.
    #[track_caller]
    fn ask(&mut self, method: &str, target: &str, fields: &str) -> Response {
        let mut client = self.world.server.connect();
        let cookies = self.cookie_field();
        let response =
            client.ask(format!("{method} {target} HTTP/1.1\r\nHost: {HOST}\r\n{cookies}{fields}\r\n"));
        for (_, value) in response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            let (name, rest) = value.split_once('=').unwrap();
            let text = rest.split(';').next().unwrap().to_owned();
            self.cookies.retain(|(kept, _)| kept != name);
            if !text.is_empty() {
                self.cookies.push((name.to_owned(), text));
            }
        }
        response
    }

    /// Opens a page of the site.
    #[track_caller]
    fn open(&mut self, target: &str) -> Response {
        self.ask("GET", target, "Accept: text/html,*/*;q=0.8\r\n")
    }

    /// From the page where it was sent to sign in, over the provider, to where that ends.
    #[track_caller]
    fn sign_in(&mut self, start: &str) -> String {
        let started = self.open(start);
        assert_eq!(started.status, 302, "{started:?}");
        let there = started.need("location").strip_prefix(self.world.provider.issuer()).unwrap();
        let agreed = Client::connect(self.world.provider.address).get(there);
        assert_eq!(agreed.status, 302, "{}", agreed.text());
        let back = agreed.need("location").strip_prefix("https://www.example.com").unwrap();
        let done = self.open(back);
        assert_eq!(done.status, 302, "{done:?}");
        assert!(self.has_session());
        done.need("location").to_owned()
    }
}

/// What the application says when it knows the user.
fn known(length: usize) -> String {
    format!("{}|{}|staff|{length}", USER.0, USER.1)
}

const PAGE: &str = "/private/a%20b?c=d&e=%26";
const LIES: &str =
    "X-Auth-Request-User: root\r\nX_Auth_Request_User: root\r\nX-Auth-Request-Email: root@example.com\r\n";
const SWITCH: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n";

#[test]
fn a_browser_signs_in_and_comes_back_to_its_page() {
    let Some(world) = World::start(&[], &[]) else { return };
    let mut browser = Browser::new(&world);
    let sent = browser.open(PAGE);
    let start = "/oauth2/start?rd=%2Fprivate%2Fa%2520b%3Fc%3Dd%26e%3D%2526";
    assert_eq!((sent.status, sent.need("location"), sent.need("cache-control")), (302, start, "no-store"));
    assert_eq!(browser.ask("HEAD", PAGE, "Accept: text/html\r\n").status, 302);
    // What is no page that a browser opens is told, and not sent elsewhere.
    for (method, fields) in [
        ("GET", "Accept: application/json\r\n"),
        ("GET", ""),
        ("POST", "Accept: text/html\r\nContent-Length: 0\r\n"),
        ("GET", SWITCH),
    ] {
        assert_eq!(browser.ask(method, PAGE, fields).status, 401, "{method} {fields}");
    }
    assert_eq!(world.application.requests(), 0);
    assert_eq!(browser.sign_in(start), PAGE);
    assert_eq!(browser.open(PAGE).text(), known(0));
    assert_eq!(browser.ask("GET", PAGE, LIES).text(), known(0));
    // The same session for all that a page does.
    let mut client = world.server.connect();
    let cookies = browser.cookie_field();
    let body = "x".repeat(100_000);
    client.send(format!(
        "POST {PAGE} HTTP/1.1\r\nHost: {HOST}\r\n{cookies}{LIES}Expect: 100-continue\r\nContent-Length: 100000\r\n\r\n{body}"
    ));
    assert_eq!(client.response("POST").text(), known(body.len()));
    let mut socket = world.server.connect();
    socket.send(format!("GET /ws HTTP/1.1\r\nHost: {HOST}\r\n{cookies}{LIES}{SWITCH}\r\n"));
    let head = String::from_utf8(socket.raw_head().unwrap()).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert_eq!(socket.exactly(4).unwrap(), b"ann!");
    socket.send("to and fro");
    assert_eq!(socket.exactly(10).unwrap(), b"to and fro");
    let mut streams = Connection::new(world.server.address);
    let fields =
        [("cookie", cookies.trim_start_matches("Cookie: ").trim_end()), ("x-auth-request-user", "root")];
    let id = streams.request("GET", PAGE, &fields, true);
    assert_eq!(streams.response(id).text(), known(0));
    // A request without this session is asked about.
    assert_eq!(Browser::new(&world).open(PAGE).status, 302);
    let forged = format!("Cookie: {COOKIE}=forged\r\nAccept: text/html\r\n");
    assert_eq!(Browser::new(&world).ask("GET", PAGE, &forged).status, 302);
}

#[test]
fn an_answer_is_kept_until_the_session_ends_or_is_another_one() {
    let Some(world) = World::start(&[("\"30s\"", "\"1h\"")], &[]) else { return };
    let mut browser = Browser::new(&world);
    browser.sign_in("/oauth2/start?rd=/");
    assert_eq!(browser.open("/a").text(), known(0));
    let kept = world.server.total("auth_cached");
    assert_eq!(browser.open("/b").text(), known(0));
    assert_eq!(world.server.total("auth_cached"), kept + 1, "the session is known");
    // A client that signs out has no cookie any more.
    let signed_out = browser.open("/oauth2/sign_out?rd=/bye");
    assert_eq!((signed_out.status, signed_out.need("location")), (302, "/bye"));
    assert!(!browser.has_session());
    assert_eq!(browser.open("/a").status, 302);
    browser.sign_in("/oauth2/start?rd=/");
    assert_eq!(browser.open("/a").text(), known(0));
    world.stop_oauth2_proxy();
    assert_eq!(browser.open("/oauth2/start?rd=/").status, 502);
    assert_eq!(browser.open("/b").text(), known(0), "what is kept holds");
    browser.cookies = vec![(COOKIE.to_owned(), "another".to_owned())];
    assert_eq!(browser.open("/b").status, 502);
    browser.cookies.clear();
    assert_eq!(browser.open("/b").status, 502);
}

#[test]
fn a_session_that_is_renewed_comes_to_the_client() {
    let changes = [("cache = { time = \"30s\", key = [\"cookie:_oauth2_proxy\"] }\n", "")];
    let Some(world) = World::start(&changes, &[("cookie_refresh = \"1h\"", "cookie_refresh = \"1s\"")])
    else {
        return;
    };
    let mut browser = Browser::new(&world);
    browser.sign_in("/oauth2/start?rd=/");
    eventually("the session is renewed", || {
        let response = browser.open("/a");
        assert_eq!(response.text(), known(0));
        let renewed = response.field("set-cookie").is_some_and(|value| value.starts_with(COOKIE));
        assert!(renewed || !world.provider.has_refreshed(), "the new cookie has to reach the client");
        renewed
    });
    assert!(world.provider.has_refreshed());
    assert_eq!(browser.open("/a").text(), known(0));
}
