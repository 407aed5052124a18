//! Maitred's JSON access log; the fields are listed in `docs/metrics.md`.

use std::borrow::Cow;

use serde::Deserialize;

use super::{Entry, Malformed, RequestLine, time};

/// The fields that matter here; others are passed over.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow)]
    remote: Cow<'a, str>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    target: Option<Cow<'a, str>>,
    #[serde(borrow)]
    host: Option<Cow<'a, str>>,
    status: u16,
    body_bytes: Option<u64>,
    #[serde(borrow)]
    referer: Option<Cow<'a, str>>,
    #[serde(borrow)]
    user_agent: Option<Cow<'a, str>>,
}

pub(super) fn parse(line: &[u8]) -> Result<Entry<'_>, Malformed> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|_| Malformed::Json)?;
    let request = match (line.method, line.target) {
        (Some(method), Some(target)) if !method.is_empty() && !target.is_empty() => {
            Some(RequestLine { method: bytes(method), target: bytes(target) })
        }
        _ => None,
    };
    let present = |text: &Cow<'_, str>| !text.is_empty();
    Ok(Entry {
        time_us: time::rfc3339(line.time.as_bytes()).ok_or(Malformed::Time)?,
        is_precise: line.time.contains('.'),
        client: Some(line.remote).filter(present).map(bytes).ok_or(Malformed::Client)?,
        request,
        status: Some(line.status).filter(|status| (100..1000).contains(status)).ok_or(Malformed::Status)?,
        body_bytes: line.body_bytes,
        referer: line.referer.filter(present).map(bytes),
        user_agent: line.user_agent.filter(present).map(bytes),
        host: line.host.filter(present).map(bytes),
    })
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}
