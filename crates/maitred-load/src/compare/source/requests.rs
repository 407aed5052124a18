//! Requests of a file: a line is `[METHOD] TARGET [HOST]`, or a JSON object.

use serde::Deserialize;
use serde_json::Value;

use super::gathered::{Collector, Gathered, Known};
use crate::compare::request::{Case, FollowUp, Port, Request};

/// An object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default = "get")]
    method: String,
    target: String,
    host: Option<String>,
    /// An object, or a list of pairs where a name stands more than once.
    #[serde(default)]
    fields: Value,
    #[serde(default)]
    body: String,
    /// A configured port, which `--map-port` maps.
    port: Option<u16>,
    /// Whether TLS is spoken at that port; absent: as with the named servers.
    tls: Option<bool>,
    /// What follows with the server's own validator.
    #[serde(default)]
    then: Vec<String>,
    /// No certificate is shown.
    #[serde(default)]
    anonymous: bool,
}

fn get() -> String {
    "GET".to_owned()
}

/// Reads a file's text.
pub(super) fn parse(text: &str, known: &Known) -> Result<Gathered, String> {
    let mut collector = Collector::new(known);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let case = if line.starts_with('{') { object(line, known) } else { words(line) };
        let case = case.map_err(|why| format!("line {number}: {why}"))?;
        case.request.check().map_err(|why| format!("line {number}: {why}"))?;
        collector.push(Case { about: format!("line {number}"), ..case });
    }
    if collector.cases.is_empty() {
        return Err("there is no request in it".to_owned());
    }
    Ok(collector.finish(Vec::new()))
}

fn words(line: &str) -> Result<Case, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (method, target, host) = match *words {
        [target] => ("GET", target, None),
        [target, host] if target.starts_with(['/', '*']) => ("GET", target, Some(host)),
        [method, target] => (method, target, None),
        [method, target, host] => (method, target, Some(host)),
        _ => return Err("wanted a method, a target and a host, or a JSON object".to_owned()),
    };
    let host = host.map(str::to_owned);
    let request = Request { method: method.to_owned(), host, ..Request::get(target) };
    Ok(Case { request, ..Case::default() })
}

fn object(line: &str, known: &Known) -> Result<Case, String> {
    let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let pair = |name: &str, value: &Value| match value.as_str() {
        Some(value) => Ok((name.to_owned(), value.as_bytes().to_vec())),
        None => Err(format!("the value of {name} is no text")),
    };
    let fields = match &line.fields {
        Value::Null => Vec::new(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| pair(name, value)).collect::<Result<_, _>>()?
        }
        Value::Array(fields) => fields
            .iter()
            .map(|field| match (field.get(0).and_then(Value::as_str), field.get(1)) {
                (Some(name), Some(value)) => pair(name, value),
                _ => Err("a field is a name and a value".to_owned()),
            })
            .collect::<Result<_, _>>()?,
        _ => return Err("fields are an object, or a list of pairs".to_owned()),
    };
    let follow = |word: &String| match word.as_str() {
        "etag" => Ok(FollowUp::Tag),
        "date" => Ok(FollowUp::Date),
        "range" => Ok(FollowUp::Range),
        other => Err(format!("{other:?} is none of etag, date and range")),
    };
    if let Some(port) = line.port.filter(|port| !known.ports.contains_key(port)) {
        return Err(format!("port {port} is not mapped (--map-port {port}=LEFT,RIGHT)"));
    }
    let request = Request {
        method: line.method,
        target: line.target.into_bytes(),
        host: line.host,
        fields,
        body: line.body.into_bytes(),
        port: line.port.map(|number| Port { number, is_tls: line.tls.unwrap_or(known.is_tls) }),
        is_anonymous: line.anonymous,
    };
    let follow_ups = line.then.iter().map(follow).collect::<Result<_, _>>()?;
    Ok(Case { request, follow_ups, about: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        Known { cases_max: 100, ports: [(8443, (1, 2))].into(), ..Known::default() }
    }

    #[test]
    fn lines_are_words_or_objects() {
        let text = "# requests\n/a\n/b a.example\nHEAD /c\nPOST /d b.example\n\n\
            {\"target\": \"/e\", \"method\": \"PUT\", \"host\": \"c\", \"fields\": {\"X-A\": \"1\"}, \"body\": \"x\"}\n\
            {\"target\": \"/f\", \"fields\": [[\"a\", \"1\"], [\"a\", \"2\"]], \"port\": 8443, \"then\": [\"etag\"]}\n";
        let cases = parse(text, &known()).unwrap().cases;
        let shown: Vec<String> = cases.iter().map(|case| case.request.shown()).collect();
        let expected = [
            "GET /a",
            "GET /b (host a.example)",
            "HEAD /c",
            "POST /d (host b.example)",
            "PUT /e (host c)",
            "GET /f",
        ];
        assert_eq!(shown, expected);
        assert_eq!(cases[4].request.body, b"x");
        assert_eq!(cases[5].request.fields.len(), 2);
        assert_eq!(
            (cases[5].request.port.unwrap().number, &*cases[5].follow_ups),
            (8443, &[FollowUp::Tag][..])
        );
        assert_eq!(cases[5].about, "line 8");
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, said) in [
            ("", "no request"),
            ("/a\nGET /b c d", "line 2"),
            ("{}", "target"),
            ("{\"target\": \"/\", \"other\": 1}", "other"),
            ("{\"target\": \"/ a\"}", "spaces"),
            ("{\"target\": \"/\", \"port\": 80}", "--map-port"),
            ("{\"target\": \"/\", \"fields\": 1}", "fields"),
            ("{\"target\": \"/\", \"fields\": {\"a\": 1}}", "no text"),
            ("{\"target\": \"/\", \"then\": [\"x\"]}", "etag"),
            ("{\"target\": \"/\", \"fields\": {\"a\": \"b\\r\\nc: d\"}}", "control"),
        ] {
            let error = parse(text, &known()).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
