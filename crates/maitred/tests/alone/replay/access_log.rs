//! Lines of an access log in Combined Log Format.

use std::path::PathBuf;

/// One request as it was logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The client's address; requests of one client are one session.
    pub(crate) client: String,
    pub(crate) method: String,
    pub(crate) target: String,
    /// `HTTP/1.0` or `HTTP/1.1`.
    pub(crate) version: String,
    pub(crate) status: u16,
    /// Bytes of the body; `None` for `-`.
    pub(crate) bytes: Option<u64>,
    pub(crate) referer: Option<String>,
    pub(crate) agent: Option<String>,
}

/// Where the log is: `MAITRED_ACCESS_LOG`, or beside the repository.
pub(crate) fn path() -> PathBuf {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/access-semicomplete-2015.log");
    std::env::var_os("MAITRED_ACCESS_LOG").map_or_else(|| default.into(), PathBuf::from)
}

/// Reads a line; `None` if it is not in the format.
pub(crate) fn parse(line: &str) -> Option<Entry> {
    let (client, rest) = line.split_once(' ')?;
    let (_, rest) = rest.split_once("] \"")?;
    let (request, rest) = rest.split_once("\" ")?;
    let (status, rest) = rest.split_once(' ')?;
    let (bytes, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut words = request.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    // The last quote of a line may be lost.
    let (referer, agent) =
        rest.strip_prefix('"').and_then(|rest| rest.split_once("\" \"")).unwrap_or(("-", "-"));
    let field =
        |text: &str| Some(text.strip_suffix('"').unwrap_or(text).to_owned()).filter(|text| text != "-");
    Some(Entry {
        client: client.to_owned(),
        method: method.to_owned(),
        target: target.to_owned(),
        version: version.to_owned(),
        status: status.parse().ok()?,
        bytes: bytes.parse().ok(),
        referer: field(referer),
        agent: field(agent),
    })
}

#[test]
fn lines_are_read() {
    let line =
        "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET /a?b HTTP/1.1\" 304 - \"-\" \"An agent (x)\"";
    let entry = parse(line).unwrap();
    assert_eq!(
        (entry.client.as_str(), entry.method.as_str(), entry.target.as_str()),
        ("192.0.2.1", "GET", "/a?b")
    );
    assert_eq!((entry.status, entry.bytes), (304, None));
    assert_eq!((entry.referer, entry.agent.as_deref()), (None, Some("An agent (x)")));
    assert_eq!(parse("no log line"), None);
}
