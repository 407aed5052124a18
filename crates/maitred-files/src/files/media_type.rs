//! The media type of a file, from its name.

use std::path::Path;

use maitred_config::MediaTypes;

/// Types that are newer than the library's table, or that it names in an obsolete way.
const NEWER: [(&str, &str); 20] = [
    ("avif", "image/avif"),
    ("cjs", "text/javascript"),
    ("geojson", "application/geo+json"),
    ("heic", "image/heic"),
    ("js", "text/javascript"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    // RFC 8216 section 10.
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("map", "application/json"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("opus", "audio/ogg"),
    ("parquet", "application/vnd.apache.parquet"),
    ("rpm", "application/x-rpm"),
    // RFC 3555 section 4.2.9, and RFC 8081 section 4.4.5 below.
    ("ts", "video/mp2t"),
    ("wasm", "application/wasm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("zst", "application/zstd"),
];

/// The `Content-Type` of a path: what the configuration has for the ending of its name comes first. A name that says nothing is
/// `application/octet-stream`, so that a browser offers to save it instead of guessing what it may run.
pub(super) fn of(path: &[u8], rules: &MediaTypes) -> String {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let name = String::from_utf8_lossy(name);
    let own =
        rules.types.iter().find(|(ending, _)| ends_with(&name, ending)).map(|(_, media)| media.as_str());
    let media = own.or_else(|| built_in(&name)).or(rules.default.as_deref());
    let media = media.unwrap_or("application/octet-stream");
    match &rules.charset {
        Some(charset) if has_charset(media, &rules.charset_types) => format!("{media}; charset={charset}"),
        _ => media.to_owned(),
    }
}

/// Whether a name ends with a point and this, and has something in front of it.
fn ends_with(name: &str, ending: &str) -> bool {
    let (name, ending) = (name.as_bytes(), ending.as_bytes());
    let at = name.len().checked_sub(ending.len() + 1).filter(|at| *at > 0);
    let end = at.and_then(|at| name.get(at..)).and_then(|end| end.strip_prefix(b"."));
    end.is_some_and(|end| end.eq_ignore_ascii_case(ending))
}

fn built_in(name: &str) -> Option<&'static str> {
    usual(Path::new(name).extension().and_then(|extension| extension.to_str()).unwrap_or_default())
}

/// The type of names with this ending, unless a configuration says otherwise.
pub fn usual(ending: &str) -> Option<&'static str> {
    let newer = NEWER.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known)).map(|(_, media)| *media);
    newer.or_else(|| mime_guess::from_ext(ending).first_raw())
}

/// Whether a type gets a `charset`: one that has parameters says for itself what it is.
fn has_charset(media: &str, of: &[String]) -> bool {
    let fits = |pattern: &String| match pattern.ends_with('/') {
        true => media.get(..pattern.len()).is_some_and(|start| start.eq_ignore_ascii_case(pattern)),
        false => media.eq_ignore_ascii_case(pattern),
    };
    !media.contains(';') && of.iter().any(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_types_that_browsers_expect() {
        for (path, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/b.CSS", "text/css; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("a.woff", "font/woff"),
            ("live.m3u8", "application/vnd.apple.mpegurl"),
            ("live.ts", "video/mp2t"),
            ("app.mjs", "text/javascript; charset=utf-8"),
            ("data.json", "application/json"),
            ("module.wasm", "application/wasm"),
            ("site.webmanifest", "application/manifest+json"),
            ("a.svg", "image/svg+xml"),
            ("a.woff2", "font/woff2"),
            ("photo.avif", "image/avif"),
            ("clip.mp4", "video/mp4"),
            ("archive.tar.gz", "application/gzip"),
            ("README", "application/octet-stream"),
            ("dir.html/README", "application/octet-stream"),
            (".profile", "application/octet-stream"),
            ("odd.\u{fffd}", "application/octet-stream"),
        ] {
            assert_eq!(of(path.as_bytes(), &MediaTypes::default()), expected, "{path}");
        }
        assert_eq!(of(b"odd.\xff\xfe", &MediaTypes::default()), "application/octet-stream");
    }

    #[test]
    fn the_configuration_comes_first() {
        let pair = |ending: &str, media: &str| (ending.to_owned(), media.to_owned());
        let rules = MediaTypes {
            types: vec![
                pair("user.js", "text/x-userscript"),
                pair("tar.gz", "application/x-tgz"),
                pair("js", "application/javascript"),
                pair("log", "text/plain; charset=iso-8859-1"),
            ],
            default: Some("text/plain".to_owned()),
            charset: Some("koi8-r".to_owned()),
            charset_types: vec!["text/".to_owned(), "application/javascript".to_owned()],
        };
        for (path, expected) in [
            ("a/b.user.JS", "text/x-userscript; charset=koi8-r"),
            ("b.js", "application/javascript; charset=koi8-r"),
            ("a.tar.gz", "application/x-tgz"),
            ("a.gz", "application/gzip"),
            ("a.log", "text/plain; charset=iso-8859-1"),
            ("a.json", "application/json"),
            ("LICENSE", "text/plain; charset=koi8-r"),
            (".js", "text/plain; charset=koi8-r"),
            ("js", "text/plain; charset=koi8-r"),
        ] {
            assert_eq!(of(path.as_bytes(), &rules), expected, "{path}");
        }
        assert_eq!(of(b"a.js", &MediaTypes { charset: None, ..rules }), "application/javascript");
    }
}
