//! What two responses have to have in common: all but a written list.

use crate::ask::Answer;

/// Fields of responses that are not compared.
const NOT_COMPARED: &[&str] = &[
    // When, and on which connection.
    "date",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "age",
    // A request that goes past the cache has none, and of two like requests on a busy machine one may. The ledger judges what is
    // kept.
    "cache-status",
    // `Alt-Svc` says where HTTP/3 is, to clients that came by TLS.
    "alt-svc",
    // The example `stamp` says the method, and the status before a cache has made another one of it.
    "server-timing",
    // The application counts its answers.
    "x-number",
    // The relation about forged fields looks at it.
    "x-told-scheme",
    // Not all kinds of pools have it; what it says is judged by itself.
    "x-told-user",
];

/// A response without what may differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    /// Host and number of the request are the same in all.
    pub(crate) fn new(answer: &Answer, host: &str, number: u64) -> Seen {
        let number = format!("n={number:07}");
        let alike = |text: &str| text.replace(host, "HOST").replace(&number, "n=N");
        let fields = answer
            .fields
            .iter()
            .filter(|(name, _)| !NOT_COMPARED.contains(&name.as_str()))
            .map(|(name, value)| match name.as_str() {
                "cache-status" => (name.clone(), without_time(value)),
                _ => (name.clone(), alike(value)),
            })
            .collect();
        let body = alike(&String::from_utf8_lossy(&answer.body));
        Seen { status: answer.status, fields, body }
    }

    /// Without what a cache and a coding say of themselves.
    pub(crate) fn plain(mut self) -> Seen {
        self.fields.retain(|(name, _)| !["cache-status", "content-length"].contains(&name.as_str()));
        let mut varies: Vec<_> = Vec::new();
        self.fields.retain(|(name, value)| {
            if name == "vary" {
                varies.extend(value.split(", ").map(str::to_ascii_lowercase));
            }
            name != "vary"
        });
        varies.retain(|name| name != "accept-encoding");
        varies.sort();
        varies.dedup();
        self.fields.push(("vary".to_owned(), varies.join(", ")));
        for (name, value) in &mut self.fields {
            if name == "etag" {
                *value = value.trim_start_matches("W/").to_owned();
            }
        }
        self
    }

    /// Without how long it is, which padding makes another number.
    pub(crate) fn without(mut self, name: &str) -> Seen {
        self.fields.retain(|(found, _)| found != name);
        self
    }
}

/// `Cache-Status` without the seconds that are left, which pass.
fn without_time(value: &str) -> String {
    value.split("; ").filter(|part| !part.starts_with("ttl=")).collect::<Vec<_>>().join("; ")
}

/// The first difference of two.
pub(crate) fn difference(one: &Seen, other: &Seen) -> Option<String> {
    if one.status != other.status {
        return Some(format!("status {} and {}", one.status, other.status));
    }
    if one.fields != other.fields {
        let only = |these: &[(String, String)], those: &[(String, String)]| {
            let left = these.iter().filter(|field| !those.contains(field));
            left.map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("; ")
        };
        let (left, right) = (only(&one.fields, &other.fields), only(&other.fields, &one.fields));
        return Some(format!("fields [{left}] and [{right}]"));
    }
    if one.body != other.body {
        let pair = one.body.lines().zip(other.body.lines()).find(|(one, other)| one != other);
        let lengths = (one.body.len(), other.body.len());
        return Some(format!("content {pair:?} of {lengths:?} bytes"));
    }
    None
}
