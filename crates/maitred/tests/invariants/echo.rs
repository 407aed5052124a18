//! The application behind all pools: its answer says what it was asked, and its query says how it answers. `echo.py` is the same
//! application for processes.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A request as an application sees it, whatever it came by.
#[derive(Debug, Default)]
pub(crate) struct Saw {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Names in small letters, with `-` between words.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Who the client is, where the interface has its own way to say so.
    pub(crate) user: Option<String>,
}

/// What the application answers.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

/// Fields about which neither answers nor routes say anything: connections, and what is another value each time.
/// The scheme stands in a field of the answer, so that contents are as long for each.
const NOT_TOLD: [&str; 17] = [
    "connection",
    "content-length",
    "forwarded",
    "host",
    // A cache asks by them whether what it has is still good.
    "if-modified-since",
    "if-none-match",
    "if-range",
    "keep-alive",
    "range",
    "te",
    "transfer-encoding",
    "x-request-id",
    "x-request-start",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-ssl-cipher",
    "x-ssl-protocol",
];

static NUMBER: AtomicU64 = AtomicU64::new(1);

/// A target with its parameters in order, and without those that a key may leave out: a cache asks for what its key has, and a
/// request that goes past it is whole.
pub(crate) fn ordered(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else { return target.to_owned() };
    let mut parts: Vec<_> = query.split('&').filter(|part| !part.starts_with("utm_")).collect();
    parts.sort_unstable();
    format!("{path}?{}", parts.join("&"))
}

/// The answer of the pool of this name.
pub(crate) fn answer(pool: &str, saw: &Saw) -> Reply {
    let query = saw.target.split_once('?').map_or("", |(_, query)| query);
    let said = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let number =
        |name: &str, default: usize| said(name).and_then(|text| text.parse().ok()).unwrap_or(default);
    let status = number("status", 200) as u16;
    let mut fields =
        vec![("x-number", format!("rust-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed)))];
    let scheme = saw.fields.iter().find(|(name, _)| name == "x-forwarded-proto");
    fields.push(("x-told-scheme", scheme.map_or_else(|| "-".to_owned(), |(_, value)| value.clone())));
    // As fields as well, for answers without content.
    fields.push(("x-told-pool", pool.to_owned()));
    fields.push(("x-told-target", ordered(&saw.target)));
    fields.extend(saw.user.iter().map(|user| ("x-told-user", user.clone())));
    let mut body = told(pool, saw);
    if !matches!(status, 204 | 304) {
        fields.push(("content-type", said("type").unwrap_or("text/plain").replace('_', "/")));
        let wanted = number("bytes", 0).min(1 << 20);
        while body.len() < wanted {
            body.push_str("0123456789abcdefghijklmnopqrstuvwxyz padding, line by line, of what is said\n");
        }
    } else {
        body.clear();
    }
    let steered = [
        ("cc", "cache-control"),
        ("vary", "vary"),
        ("etag", "etag"),
        ("cookie", "set-cookie"),
        ("loc", "location"),
        ("x", "x-powered-by"),
    ];
    for (key, name) in steered {
        if let Some(value) = said(key) {
            fields.push((name, plain(value)));
        }
    }
    let mut reply = Reply { status, fields, body: body.into_bytes() };
    if said("part").is_some() && saw.method == "GET" && status == 200 {
        cut(&mut reply, saw);
    }
    reply
}

/// An application that answers ranges itself: only the plain form of them.
fn cut(reply: &mut Reply, saw: &Saw) {
    let field = |name: &str| saw.fields.iter().find(|(found, _)| found == name).map(|(_, value)| value);
    let range = field("range").filter(|_| field("if-range").is_none());
    let bounds = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let bounds = bounds.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let whole = reply.body.len();
    let Some((first, last)) = bounds.filter(|(first, last): &(usize, usize)| first <= last && *last < whole)
    else {
        return;
    };
    reply.status = 206;
    reply.body = reply.body[first..=last].to_vec();
    reply.fields.push(("content-range", format!("bytes {first}-{last}/{whole}")));
}

/// Values of parameters have no blanks, quotes and equals signs: these stand for them.
fn plain(value: &str) -> String {
    value.replace('~', "=").replace('!', "\"").replace('_', ", ")
}

fn told(pool: &str, saw: &Saw) -> String {
    let mut text = format!("pool {pool}\nmethod {}\ntarget {}\n", saw.method, ordered(&saw.target));
    let host = saw.fields.iter().find(|(name, _)| name == "host").map_or("-", |(_, value)| value);
    let sum: u64 = saw.body.iter().map(|byte| u64::from(*byte)).sum();
    let _ = write!(text, "host {host}\nbody {} {sum}\n", saw.body.len());
    let mut fields: Vec<_> =
        saw.fields.iter().filter(|(name, _)| !NOT_TOLD.contains(&name.as_str())).collect();
    fields.sort();
    // FastCGI has the media type of the request twice (RFC 3875 section 4.1.3, and as a field).
    fields.dedup();
    for (name, value) in fields {
        let _ = writeln!(text, "{name}: {value}");
    }
    text
}
