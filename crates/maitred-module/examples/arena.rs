//! The dynamic answers of `cargo xtask bench arena`: sums of numbers, and JSON that is made for each request of a data set.
//!
//! ```toml
//! module = { path = "/usr/local/lib/maitred/libarena.so", config = { data = "items.json" } }
//! ```
//!
//! | path | answer |
//! |---|---|
//! | `/baseline…?a=1&b=2` | the sum of the integers of the query, and of that in the body of a POST |
//! | `/json/10?m=3`, `/json?m=3` | the first 10 items, or all, each with `total`: price × quantity × m |

use std::cell::RefCell;

use maitred_module::{Config, Field, Module, Outcome, Request, Response, module};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    data: String,
}

#[derive(serde::Deserialize)]
struct Rating {
    score: i64,
    count: i64,
}

#[derive(serde::Deserialize)]
struct Item {
    id: i64,
    name: String,
    category: String,
    price: i64,
    quantity: i64,
    active: bool,
    tags: Vec<String>,
    rating: Rating,
}

module!(begin);

fn begin(config: Config<'_>) -> Result<Module, String> {
    let path = config.parse::<Settings>()?.data;
    let text = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    let items: Vec<Item> = serde_json::from_slice(&text).map_err(|error| format!("{path}: {error}"))?;
    Ok(Module::new().reads_body().on_request(move |request| answer(request, &items)))
}

fn answer(request: Request<'_>, items: &[Item]) -> Outcome {
    let path = request.path();
    if path.starts_with(b"/baseline") {
        return sum(request);
    }
    match path.strip_prefix(b"/json") {
        Some(b"" | b"/") => list(request, items),
        Some([b'/', count @ ..]) => match number(count).and_then(|count| usize::try_from(count).ok()) {
            Some(count) if count <= items.len() => list(request, items.get(..count).unwrap_or_default()),
            _ => request.answer(&Response::new(404, &[], b"")),
        },
        _ => request.pass(),
    }
}

fn bad(request: Request<'_>) -> Outcome {
    request.answer(&Response::new(400, &[], b""))
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The values of the query.
fn values<'a>(request: &Request<'a>) -> impl Iterator<Item = Option<(&'a str, i64)>> {
    let pairs = request.query().split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name, value.parse().ok()?))
    })
}

fn sum(request: Request<'_>) -> Outcome {
    let mut sum = values(&request).try_fold(0i64, |sum, pair| sum.checked_add(pair?.1));
    if request.method() == "POST" {
        sum = sum.zip(number(request.body().trim_ascii())).and_then(|(sum, more)| sum.checked_add(more));
    }
    match sum {
        Some(sum) => {
            let mut digits = itoa::Buffer::new();
            let fields = [Field::new("Content-Type", b"text/plain")];
            request.answer(&Response::new(200, &fields, digits.format(sum).as_bytes()))
        }
        None => bad(request),
    }
}

thread_local! {
    /// What an answer is written into: it keeps its memory for the next one.
    static CONTENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn list(request: Request<'_>, items: &[Item]) -> Outcome {
    if !matches!(request.method(), "GET" | "HEAD") {
        return request.answer(&Response::new(405, &[Field::new("Allow", b"GET, HEAD")], b""));
    }
    let factor = values(&request).flatten().find(|(name, _)| *name == "m");
    let Some((_, factor)) = factor else { return bad(request) };
    CONTENT.with_borrow_mut(|content| {
        content.clear();
        content.extend(b"{\"items\":[");
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                content.push(b',');
            }
            write(content, item, factor);
        }
        content.extend(b"],\"count\":");
        integer(content, items.len() as i64);
        content.push(b'}');
        request.answer(&Response::json(content))
    })
}

fn write(content: &mut Vec<u8>, item: &Item, factor: i64) {
    let Item { id, name, category, price, quantity, active, tags, rating } = item;
    content.extend(b"{\"id\":");
    integer(content, *id);
    content.extend(b",\"name\":");
    string(content, name);
    content.extend(b",\"category\":");
    string(content, category);
    content.extend(b",\"price\":");
    integer(content, *price);
    content.extend(b",\"quantity\":");
    integer(content, *quantity);
    content.extend(if *active { &b",\"active\":true"[..] } else { b",\"active\":false" });
    content.extend(b",\"tags\":[");
    for (at, tag) in tags.iter().enumerate() {
        if at > 0 {
            content.push(b',');
        }
        string(content, tag);
    }
    content.extend(b"],\"rating\":{\"score\":");
    integer(content, rating.score);
    content.extend(b",\"count\":");
    integer(content, rating.count);
    content.extend(b"},\"total\":");
    integer(content, price.wrapping_mul(*quantity).wrapping_mul(factor));
    content.push(b'}');
}

fn integer(content: &mut Vec<u8>, number: i64) {
    content.extend(itoa::Buffer::new().format(number).as_bytes());
}

/// A string of JSON. Most have nothing to escape, and are copied as they are.
fn string(content: &mut Vec<u8>, text: &str) {
    content.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        let (plain, [special, after @ ..]) = rest.split_at(at) else { break };
        content.extend(plain);
        match special {
            b'"' | b'\\' => content.extend([b'\\', *special]),
            control => {
                let digit = |half: u8| *b"0123456789abcdef".get(usize::from(half)).unwrap_or(&b'0');
                content.extend(b"\\u00");
                content.extend([digit(control >> 4), digit(control & 15)]);
            }
        }
        rest = after;
    }
    content.extend(rest);
    content.push(b'"');
}
