//! `maitred cache`: the responses that a running server keeps.

use std::fmt::Write as _;

use maitred_http::uri::encode_component;
use serde_json::{Value, json};

use super::exit::Error;
use super::{Cache, CacheAction};
use maitred_status::text::{list, show};

/// Bytes of the parameters of one request; more of them are sent in several.
const QUERY_BYTES_MAX: usize = 4096;

/// What it prints.
///
/// # Errors
/// What is wrong with the arguments, or what the server says.
pub fn run(cache: &Cache) -> Result<String, Error> {
    let paths = paths(cache)?;
    let target = cache.server.target()?;
    if cache.action == CacheAction::Show {
        let text = paths.iter().map(|path| target.question(path)).collect::<Result<String, Error>>()?;
        return Ok(match serde_json::from_str(&text) {
            Ok(document) if !cache.json => report(&document),
            _ => text,
        });
    }
    let mut files = 0;
    for path in &paths {
        let answer: Value = serde_json::from_str(&target.command(path)?).unwrap_or_default();
        files += answer["files"].as_u64().unwrap_or(0);
    }
    let did = if cache.soft { "marked as stale" } else { "removed" };
    Ok(match cache.json {
        true => json!({ "files": files, "soft": cache.soft }).to_string(),
        false => format!("purged; files that were {did}: {files}"),
    })
}

/// The targets of the requests.
fn paths(cache: &Cache) -> Result<Vec<String>, Error> {
    let usage = |text: &str| Err(Error::usage(text, "see `maitred cache --help`"));
    let named = [("prefix", &cache.prefix), ("host", &cache.host), ("tag", &cache.tag)];
    let of_purge = cache.all || cache.soft || named.iter().any(|(_, values)| !values.is_empty());
    if cache.action == CacheAction::Show {
        if of_purge {
            return usage("`show` takes a URL, and --field");
        }
        let [url] = cache.urls.as_slice() else { return usage("`show` takes one URL") };
        let fields = cache.field.iter().map(|field| parameter("field", field));
        let parameters: Vec<String> = std::iter::once(parameter("url", url)).chain(fields).collect();
        return Ok(vec![format!("/cache?{}", parameters.join("&"))]);
    }
    if !cache.field.is_empty() {
        return usage("`purge` takes no --field: it purges the responses for all requests");
    }
    let mut parameters: Vec<String> = cache.urls.iter().map(|url| parameter("url", url)).collect();
    for (name, values) in named {
        parameters.extend(values.iter().map(|value| parameter(name, value)));
    }
    if cache.all {
        parameters.push("all=true".to_owned());
    }
    if parameters.is_empty() {
        return usage("`purge` takes URLs, or --prefix, --host, --tag or --all");
    }
    let mut paths: Vec<String> = Vec::new();
    for parameter in parameters {
        match paths.last_mut() {
            Some(path) if path.len() + parameter.len() < QUERY_BYTES_MAX => {
                let _ = write!(path, "&{parameter}");
            }
            _ => paths.push(format!("/cache/purge?soft={}&{parameter}", cache.soft)),
        }
    }
    Ok(paths)
}

fn parameter(name: &str, value: &str) -> String {
    let mut encoded = Vec::new();
    encode_component(value.as_bytes(), &mut encoded);
    format!("{name}={}", String::from_utf8_lossy(&encoded))
}

/// What is known of each key of a URL.
fn report(document: &Value) -> String {
    let mut text = String::new();
    for key in list(&document["keys"]) {
        // Lines of a key are fields and cookies.
        let lines = key["key"].as_str().unwrap_or("-").lines();
        let lines: Vec<String> = lines.map(|line| show(&line.into())).collect();
        let _ = writeln!(text, "{}", lines.join(" | "));
        let _ = writeln!(text, "  {}", state(key));
        let names = |of: &str| list(&key[of]).iter().map(show).collect::<Vec<_>>().join(", ");
        for (title, of) in [("varies by", "varies"), ("tags", "tags"), ("groups", "groups")] {
            let names = names(of);
            if !names.is_empty() {
                let _ = writeln!(text, "  {title}: {names}");
            }
        }
    }
    text
}

fn state(key: &Value) -> String {
    let state = show(&key["state"]);
    if key["status"].is_null() {
        let why = key["why"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
        let state = if state == "nothing" { "nothing is kept" } else { &state };
        return format!("{state}{why}");
    }
    let soft = if key["soft_purged"] == true { " (soft purge)" } else { "" };
    let ttl = match key["ttl"].as_i64() {
        Some(ttl) if ttl > 0 => format!("fresh for another {ttl} s"),
        Some(ttl) => format!("stale since {} s", ttl.unsigned_abs()),
        None => state,
    };
    format!(
        "{ttl}{soft}: status {}, {} bytes in {}, age {} s",
        show(&key["status"]),
        show(&key["bytes"]),
        match show(&key["in"]).as_str() {
            "file" => "a file".to_owned(),
            place => place.to_owned(),
        },
        show(&key["age"]),
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Arguments, Command};
    use super::*;

    fn paths_of(line: &str) -> Result<Vec<String>, Error> {
        let arguments = Arguments::try_parse_from(format!("maitred cache {line}").split(' '));
        let Command::Cache(cache) = arguments.unwrap().command else { panic!("another command") };
        paths(&cache)
    }

    #[test]
    fn arguments_become_targets() {
        for (line, expected) in [
            ("purge http://a/b?c", "/cache/purge?soft=false&url=http%3A%2F%2Fa%2Fb%3Fc"),
            (
                "purge --soft --prefix http://a/ --host b --tag c --all",
                "/cache/purge?soft=true&prefix=http%3A%2F%2Fa%2F&host=b&tag=c&all=true",
            ),
            ("show http://a --field a:b --json", "/cache?url=http%3A%2F%2Fa&field=a%3Ab"),
        ] {
            assert_eq!(paths_of(line).ok(), Some(vec![expected.to_owned()]), "{line}");
        }
        let many = vec!["http://a.example/b"; 500].join(" ");
        let many = paths_of(&format!("purge {many}")).unwrap_or_default();
        assert!(many.len() > 1 && many.iter().all(|path| path.len() <= QUERY_BYTES_MAX));
        assert_eq!(many.iter().map(|path| path.matches("&url=").count()).sum::<usize>(), 500);
        for wrong in ["purge", "purge --soft", "show", "show a b", "show a --all", "purge a --field b:c"] {
            assert!(paths_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_kept_is_told_in_a_few_lines() {
        let kept = json!({ "keys": [
            { "key": "http://a/b\nx: 1\n", "state": "fresh", "status": 200, "age": 3, "ttl": 7, "bytes": 12, "in": "file",
              "varies": ["accept"], "tags": ["t", "u"], "groups": [] },
            { "key": "http://a/b\n", "state": "nothing", "why": "the response says private" },
        ] });
        assert_eq!(
            report(&kept),
            "http://a/b | x: 1\n  fresh for another 7 s: status 200, 12 bytes in a file, age 3 s\n  varies by: accept\n  \
             tags: t, u\nhttp://a/b\n  nothing is kept: the response says private\n"
        );
    }
}
