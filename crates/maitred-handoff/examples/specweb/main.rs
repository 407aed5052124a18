//! The dynamic part of the workload of `maitred-load specweb`, as a `tower::Service` behind Maitred.
//! `examples/specweb/README.md` says what it is asked and what it answers; `app.py` and `app.php` there answer the same, byte
//! for byte. In the manner of SPECweb99 as far as that is published; not SPECweb99.
//!
//! In `maitred.toml`: `command = ["target/release/examples/specweb"]`, and `SPECWEB_ROOT` in its environment.

#[path = "../tower/channel.rs"]
mod channel;
#[path = "../tower/exchange.rs"]
mod exchange;
#[path = "../tower/named.rs"]
mod named;
#[path = "../support/recovery.rs"]
mod recovery;
#[path = "../tower/serve.rs"]
mod serve;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::rc::Rc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, COOKIE, HeaderValue, SET_COOKIE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};

use exchange::Incoming;

/// Requests that one process works on at a time. Files are read at once, so more would only wait inside.
const CAPACITY: u32 = 16;
const BODY_BYTES_MAX: usize = 4096;
const ADS: u32 = 360;
/// Places of the bits of a person: gender, age, region and two interests; and how many bits each has.
const TRAITS: [(u32, u32); 5] = [(28, 2), (24, 4), (20, 4), (10, 10), (0, 10)];
const PAGE_END: &[u8] = b"\n</pre></body></html>\n";

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = variable("SPECWEB_ROOT").unwrap_or_else(|| PathBuf::from("data"));
    let log = variable("SPECWEB_LOG").unwrap_or_else(|| root.join("post.log"));
    let site = Rc::new(Site { root, log, advertisements: (0..ADS).map(Advertisement::new).collect() });
    let service = tower::service_fn(move |request| answer(site.clone(), request));
    tokio::task::LocalSet::new().run_until(serve::serve(service, CAPACITY)).await
}

struct Site {
    root: PathBuf,
    /// Where users who register are noted, a line each.
    log: PathBuf,
    advertisements: Vec<Advertisement>,
}

struct Advertisement {
    /// The group of users that it is for.
    wanted: u32,
    /// The weight of each trait, four bits each.
    weights: u32,
    /// The weight that it takes to be shown.
    enough: u32,
}

/// A number that looks random; the same in every language.
fn mix(number: u32) -> u32 {
    let number = number.wrapping_mul(2_654_435_761);
    let number = (number ^ number >> 15).wrapping_mul(739_982_445);
    number ^ number >> 13
}

/// What is known of a user: one bit of each trait.
fn person(user: u32) -> u32 {
    let mut rest = mix(user);
    TRAITS.iter().fold(0, |bits, (place, count)| {
        let bit = 1 << (place + rest % count);
        rest /= count;
        bits | bit
    })
}

impl Advertisement {
    fn new(number: u32) -> Self {
        let weights = mix(2_000_000 + number);
        Self { wanted: mix(1_000_000 + number), weights, enough: 25 + (weights >> 20) % 15 }
    }

    fn weight(&self, person: u32) -> u32 {
        let common = self.wanted & person;
        let traits = TRAITS.iter().enumerate();
        let shared = traits.filter(|(_, (place, count))| common & ((1 << count) - 1) << place != 0);
        shared.map(|(at, _)| self.weights >> (4 * at) & 15).sum()
    }
}

impl Site {
    /// The first advertisement behind the last one that is for this user, and its weight.
    fn choose(&self, user: u32, last: u32) -> (u32, u32) {
        let person = person(user);
        let (mut number, mut weight) = (last % ADS, 0);
        for _ in 0..ADS {
            number = (number + 1) % ADS;
            let Some(advertisement) = self.advertisements.get(number as usize) else { break };
            weight = advertisement.weight(person);
            if weight >= advertisement.enough {
                break;
            }
        }
        (number, weight)
    }

    /// A line in the log; one write, so that processes do not mix theirs.
    fn note(&self, user: &str, path: &str) -> io::Result<()> {
        let mut log = OpenOptions::new().append(true).create(true).open(&self.log)?;
        log.write_all(format!("{user} {path}\n").as_bytes())
    }

    /// The page around a file of the data set, if there is such a file.
    fn page(&self, said: &str, path: &str) -> Option<Vec<u8>> {
        if !is_path(path) {
            return None;
        }
        let mut file = File::open(self.root.join(path.trim_start_matches('/'))).ok()?;
        let head = "<html><head><title>Dynamic page</title></head><body>";
        let mut page = format!("{head}\n<p>{said}</p>\n<pre>\n").into_bytes();
        file.read_to_end(&mut page).ok()?;
        page.extend_from_slice(PAGE_END);
        Some(page)
    }
}

/// Whether it is `/file_set/dirNNNNN/classN_N`, the only files that there are, so that no path leaves the data set.
fn is_path(path: &str) -> bool {
    let rest = path.strip_prefix("/file_set/dir").and_then(|rest| rest.split_once("/class"));
    let is = |digit: &u8, last: u8| (b'0'..=last).contains(digit);
    let is_file = |name: &str| match name.as_bytes() {
        [class, b'_', file] => is(class, b'3') && is(file, b'8'),
        _ => false,
    };
    rest.is_some_and(|(directory, name)| {
        directory.len() == 5 && directory.bytes().all(|digit| digit.is_ascii_digit()) && is_file(name)
    })
}

/// A number of the cookie; 0 for what it does not say.
fn cookie_number(cookie: &str, name: &str) -> u32 {
    let values = cookie.split(';').filter_map(|pair| pair.trim().split_once('='));
    let value = values.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value);
    value.filter(|value| value.len() < 10).and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// A field of a form. The values here hold nothing that is encoded but slashes.
fn form_field(form: &str, name: &str) -> String {
    let pairs = form.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.into_iter().find(|(found, _)| *found == name).map_or("", |(_, value)| value);
    value.replace("%2F", "/").replace("%2f", "/")
}

async fn answer(site: Rc<Site>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, String> {
    let asked = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let mut path = request.uri().query().unwrap_or_default().to_owned();
    let (mut said, mut cookie) = ("a page".to_owned(), None);
    match asked.as_str() {
        "get" => {}
        "rotate" => {
            let sent = request.headers().get(COOKIE).and_then(|value| value.to_str().ok()).unwrap_or("");
            let (number, weight) =
                site.choose(cookie_number(sent, "user_id"), cookie_number(sent, "last_ad"));
            let (directory, class, file) = (number / 36, number % 36 / 9, number % 9);
            said = format!("<img src=\"/file_set/dir{directory:05}/class{class}_{file}\">");
            let value = format!("found_cookie=ad_id={number}&ad_weight={weight}");
            cookie = Some(HeaderValue::from_str(&value).map_err(|error| error.to_string())?);
        }
        "post" if request.method() == Method::POST => {
            let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
            let body = body.map_err(|error| format!("the body: {error}"))?.to_bytes();
            let form = String::from_utf8_lossy(&body);
            let user = form_field(&form, "user_id");
            path = form_field(&form, "urlroot");
            said = "registered".to_owned();
            let is_user = (1..10).contains(&user.len()) && user.bytes().all(|byte| byte.is_ascii_digit());
            if is_user && is_path(&path) {
                site.note(&user, &path).map_err(|error| format!("{}: {error}", site.log.display()))?;
            } else {
                path.clear();
            }
        }
        _ => path.clear(),
    }
    let page = site.page(&said, &path);
    let is_found = page.is_some();
    let body = page.unwrap_or_else(|| b"no such file in the data set\n".to_vec());
    let mut response = Response::new(Full::new(body.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
    if !is_found {
        *response.status_mut() = StatusCode::NOT_FOUND;
    } else if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}
