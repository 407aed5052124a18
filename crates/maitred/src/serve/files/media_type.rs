//! The media type of a file, from its name.

use std::path::Path;

/// Types that are newer than the library's table, or that it names in an obsolete way.
const NEWER: [(&str, &str); 16] = [
    ("avif", "image/avif"),
    ("cjs", "text/javascript"),
    ("geojson", "application/geo+json"),
    ("heic", "image/heic"),
    ("js", "text/javascript"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("map", "application/json"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("opus", "audio/ogg"),
    ("parquet", "application/vnd.apache.parquet"),
    ("wasm", "application/wasm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("zst", "application/zstd"),
];

/// The `Content-Type` of a path: text comes with `charset=utf-8`; a name that says nothing is
/// `application/octet-stream`, so that a browser offers to save it instead of guessing what it may run.
pub(super) fn of(path: &[u8]) -> String {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let name = String::from_utf8_lossy(name);
    let extension =
        Path::new(&*name).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let newer =
        NEWER.iter().find(|(known, _)| extension.eq_ignore_ascii_case(known)).map(|(_, media)| *media);
    let media = newer.or_else(|| mime_guess::from_ext(extension).first_raw());
    match media.unwrap_or("application/octet-stream") {
        text if text.starts_with("text/") => format!("{text}; charset=utf-8"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn names_have_the_types_that_browsers_expect() {
        for (path, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/b.CSS", "text/css; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
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
            assert_eq!(of(path.as_bytes()), expected, "{path}");
        }
        assert_eq!(of(b"odd.\xff\xfe"), "application/octet-stream");
    }
}
