//! `/status`: the page. One file, without a request to anywhere but `/status/events`.

/// The page.
pub const PAGE: &str = include_str!("page.html");

/// The media type of the page.
pub const CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// The value of its `Content-Security-Policy`. Style and script are named by their hashes, so that nothing else can run, and
/// nothing can be loaded or sent but the events; a test says what the hashes have to be.
pub const POLICY: &str = concat!(
    "default-src 'none'; connect-src 'self'; img-src data:; ",
    "style-src 'sha256-+YmFBGn6TgAAzFnGnP3T4VCsc1DWM3vfKL5hV5QZc8Q='; ",
    "script-src 'sha256-9YEgvDXKydUxV7JgVksPxM3z/m7hnpSHEhndmaDgfAI='; ",
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
