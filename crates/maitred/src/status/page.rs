//! `/status`: the page. One file, without a request to anywhere but `/status/events`.

/// The page.
pub const PAGE: &str = include_str!("page.html");

/// Its media type.
pub const CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// Further fields of its response. Style and script are named by their hashes, so that nothing else can run, and nothing
/// can be loaded or sent but the events; a test says what the hashes have to be.
pub const FIELDS: &str = concat!(
    "Cache-Control: no-store\r\n",
    "Content-Security-Policy: default-src 'none'; connect-src 'self'; img-src data:; ",
    "style-src 'sha256-aSAqb0zZTa0KbO42T1WW3fXNxXz7IozlbBCprYnLNKQ='; ",
    "script-src 'sha256-pqs7M9YGETPWDaiTC2AW6Hg0/mpMIM7UIiF3V8TByfY='; ",
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n",
    "X-Content-Type-Options: nosniff\r\n",
    "Referrer-Policy: no-referrer\r\n",
);
