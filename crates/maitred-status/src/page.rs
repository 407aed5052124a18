//! `/status`: the page. One file, without a request to anywhere but `/status/events`.

/// The page.
pub const PAGE: &str = include_str!("page.html");

/// Its media type.
pub const CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// The value of its `Content-Security-Policy`. Style and script are named by their hashes, so that nothing else can run, and
/// nothing can be loaded or sent but the events; a test says what the hashes have to be.
pub const POLICY: &str = concat!(
    "default-src 'none'; connect-src 'self'; img-src data:; ",
    "style-src 'sha256-X5kkaZJppRbxwH5CtUWIJt1FbnE0FhjSE1ZT2Dq2wq0='; ",
    "script-src 'sha256-AmgLnCykz52KM+1dbjuXLzTMgax1QMa8/js1sBP+TWg='; ",
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
