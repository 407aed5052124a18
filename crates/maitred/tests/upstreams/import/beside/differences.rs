//! What may be different, and why.

use super::Asked;
use super::servers::Answer;

/// Fields that are not compared, each with the reason.
const FIELDS: &[(&str, &str)] = &[
    ("server", "the name of the server"),
    ("date", "the time"),
    ("connection", "of the connection"),
    ("keep-alive", "of the connection"),
    ("transfer-encoding", "of the connection: what has a known length is not chunked here"),
    ("content-length", "the same; of texts for errors, the lengths differ"),
    ("etag", "files have one in both, of another form"),
    ("last-modified", "the stub has none, and files have the same"),
    ("accept-ranges", "Maitred sends it for files only, nginx for fixed texts as well"),
    ("expires", "`Cache-Control: max-age` says the same (RFC 9111 section 5.3)"),
    ("x-request-id", "Maitred numbers requests"),
    ("vary", "Maitred says which responses depend on `Accept-Encoding`"),
    ("allow", "Maitred lists the methods with 405 (RFC 9110 section 15.5.6)"),
];

/// Media types that are the same under two names (RFC 9239), and parameters that Maitred adds.
fn media_type(value: &str) -> String {
    let value = value.to_ascii_lowercase().replace("; charset=utf-8", "");
    value
        .replace("application/javascript", "text/javascript")
        .replace("image/vnd.microsoft.icon", "image/x-icon")
}

fn field(asked: &Asked, (name, value): &(String, String)) -> (String, String) {
    let value = match name.as_str() {
        "content-type" => media_type(value),
        // The parameter says what browsers do anyway (RFC 7617 section 2.1).
        "www-authenticate" => value.replace(", charset=\"UTF-8\"", ""),
        // nginx makes them absolute (`absolute_redirect`), with the port that it listens on.
        "location" => relative(asked, value),
        _ => value.clone(),
    };
    (name.clone(), value)
}

fn relative(asked: &Asked, value: &str) -> String {
    let Some(rest) = value.strip_prefix("http://").and_then(|rest| rest.strip_prefix(asked.host.as_str()))
    else {
        return value.to_owned();
    };
    let port = rest.strip_prefix(":PORT");
    port.unwrap_or(rest).to_owned()
}

fn fields(asked: &Asked, answer: &Answer) -> Vec<(String, String)> {
    let compared = answer.fields.iter().filter(|(name, _)| !FIELDS.iter().any(|(left, _)| left == name));
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, value) in compared.map(|pair| field(asked, pair)) {
        // Two lines of nginx are one here (RFC 9110 section 5.3).
        match found.iter_mut().find(|(known, _)| *known == name) {
            // `add_header Content-Type` makes a second line, of which browsers believe the last one.
            Some((_, before)) if name == "content-type" => *before = value,
            Some((_, before)) => *before = format!("{before}, {value}"),
            None => found.push((name, value)),
        }
    }
    found.sort();
    found
}

/// Fields that every application gets of Maitred, whether nginx sends them or not (docs/proxies.md).
const TOLD: &[&str] = &[
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "forwarded",
    "x-request-id",
    "x-request-start",
];

/// Whether an application was told the same, but for those of these fields that nginx has not sent.
fn is_told_the_same(there: &Answer, here: &Answer) -> bool {
    let name = |line: &str| line.split_once(": ").map(|(name, _)| name.to_owned());
    let sent: Vec<_> = there.body.lines().filter_map(name).collect();
    let more = |line: &&str| name(line).is_some_and(|name| TOLD.contains(&&*name) && !sent.contains(&name));
    there.body.lines().eq(here.body.lines().filter(|line| !more(line)))
}

fn with_body(answer: &Answer, body: String) -> Answer {
    Answer { body, ..answer.clone() }
}

/// A text that a server makes up for an error or a redirect.
fn is_made_up(answer: &Answer) -> bool {
    let by_name = ["<hr><center>nginx", "<!DOCTYPE HTML PUBLIC \"-//"];
    by_name.iter().any(|text| answer.body.contains(text)) || answer.status >= 300 && answer.body.len() < 80
}

/// Whether two responses, that of the other server first, differ in this way.
pub(super) type Is = fn(&Asked, &Answer, &Answer) -> bool;

/// Responses that differ on purpose, each with the reason and how it is known.
const DIFFERENCES: &[(&str, Is)] = &[
    ("names that begin with a dot are withheld (`hidden`)", |asked, there, _| {
        asked.target.contains("/.") && there.status == 200
    }),
    ("a directory without an index is nothing: 404, or the next item of `try`", |asked, there, _| {
        let directory = asked.target.ends_with('/') || asked.target == "/assets" || asked.target == "/docs";
        directory && [301, 403].contains(&there.status)
    }),
    ("what is not there has no methods: 404", |_, there, here| there.status == 405 && here.status == 404),
    ("a fixed text has one media type; nginx goes by the ending of the path", |asked, there, here| {
        let name =
            asked.target.split('?').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let fixed = !here.fields.iter().any(|(field, _)| field == "etag" || field == "x-powered-by");
        fixed && name.contains('.') && there.status == here.status && there.body == here.body
    }),
    ("`//` at the beginning of a path that was changed is one slash", |_, there, here| {
        is_told_the_same(&with_body(there, there.body.replacen(" //", " /", 1)), here)
    }),
    ("a path that is changed keeps `%2B`, and has `%3B` for `;`", |_, there, here| {
        let changed = here.body.replacen("%3B", ";", 1).replacen("%2B", "+", 1);
        is_told_the_same(there, &with_body(here, changed))
    }),
    ("a path that `rewrite` has changed is in its canonical form", |asked, there, here| {
        ["/git/a%2F", "/userContenta%2F"].iter().any(|changed| asked.target.starts_with(changed))
            && there.status == here.status
    }),
    ("redirects have the target in its canonical form", |asked, there, here| {
        let odd = ["%2F", "//", "%7E", ";"].iter().any(|odd| asked.target.contains(odd));
        odd && there.status / 100 == 3 && here.status / 100 == 3
    }),
    ("the scheme and the host of the request are facts: the import says so", |_, there, here| {
        let without = |answer: &Answer| {
            let facts = ["x-forwarded-proto: ", "x-forwarded-host: "];
            let left = answer.body.lines().filter(|line| !facts.iter().any(|fact| line.starts_with(fact)));
            with_body(answer, left.map(|line| format!("{line}\n").replacen("%2B", "+", 1)).collect())
        };
        is_told_the_same(&without(there), &without(here))
    }),
    (
        "what `location = /index.html` says of caches holds for that file in every directory",
        |asked, there, here| {
            let told = |answer: &Answer| answer.fields.iter().any(|(name, _)| name == "cache-control");
            let other = asked.target.ends_with("s/") || asked.target.ends_with("s/index.html");
            other && there.body == here.body && told(here) && !told(there)
        },
    ),
    ("listings are pages of the server's own", |_, there, here| {
        there.body.contains("<title>Index of") && here.body.contains("<title>Index of")
    }),
];

/// What is different, if it may not be.
pub(super) fn between(asked: &Asked, there: &Answer, here: &Answer) -> Option<String> {
    beside(DIFFERENCES, asked, there, here)
}

/// The same with another list.
pub(super) fn beside(list: &[(&str, Is)], asked: &Asked, there: &Answer, here: &Answer) -> Option<String> {
    let found = difference(asked, there, here)?;
    (!list.iter().any(|(_, is)| is(asked, there, here))).then_some(found)
}

fn difference(asked: &Asked, there: &Answer, here: &Answer) -> Option<String> {
    if there.status != here.status {
        return Some(format!("status {} and not {}", here.status, there.status));
    }
    let (mut theirs, mut ours) = (fields(asked, there), fields(asked, here));
    // Without `always`, nginx leaves out of errors what Maitred sends with them as well.
    if here.status >= 400 {
        ours.retain(|pair| theirs.contains(pair) || pair.0 == "location" || pair.0 == "www-authenticate");
    }
    let made_up = is_made_up(there);
    for fields in [&mut theirs, &mut ours] {
        // A redirect is no response that caches keep: `expires` is for what is found.
        let redirect = there.status / 100 == 3;
        fields
            .retain(|(name, _)| !(made_up && name == "content-type" || redirect && name == "cache-control"));
    }
    if theirs != ours {
        return Some(format!("fields {ours:?} and not {theirs:?}"));
    }
    (there.body != here.body && !is_told_the_same(there, here) && !made_up).then(|| "the body".to_owned())
}
