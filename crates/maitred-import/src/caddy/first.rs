//! Caddyfiles of Caddy 1, which Caddy 2 does not start with: nothing of them is guessed at.

use super::tree::Directive;

/// Directives of Caddy 1 that Caddy 2 does not have under these names.
const NAMES: &[&str] = &[
    "browse",
    "errors",
    "expvar",
    "ext",
    "fastcgi",
    "gzip",
    "internal",
    "markdown",
    "mime",
    "pprof",
    "proxy",
    "shutdown",
    "startup",
    "websocket",
];

/// Refuses directives of sites that show that the file is one of Caddy 1.
///
/// # Errors
/// Where it stands, and what to do.
pub(crate) fn refuse(directives: &[Directive]) -> Result<(), String> {
    // Without braces, all of a file is one site.
    let bare = directives.iter().filter(|directive| directive.block.is_none());
    let sites = directives.iter().filter(|directive| !directive.words.is_empty());
    let inside = sites.flat_map(Directive::inside);
    let is_old = |directive: &&Directive| {
        NAMES.contains(&directive.name()) || (directive.name() == "tls" && directive.args() == ["off"])
    };
    match bare.chain(inside).find(is_old) {
        Some(found) => Err(format!(
            "{}: `{}` is a directive of Caddy 1, and Caddy 2 does not start with it: make it a Caddyfile of Caddy 2 first \
             (https://caddyserver.com/docs/v2-upgrade)",
            found.place,
            found.name()
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::text;

    #[test]
    fn files_of_caddy_1_are_refused_with_their_line() {
        for (old, line) in [
            ("example.com {\n gzip\n}\n", "text:2: `gzip`"),
            ("example.com\nproxy / localhost:3000\n", "text:2: `proxy`"),
            ("example.com {\n tls off\n}\n", "text:2: `tls`"),
        ] {
            let why = text(old).map(|_| ()).unwrap_err();
            assert!(why.starts_with(line), "{why}");
        }
        for new in
            ["example.com {\n encode gzip\n}\n", "example.com {\n tls internal\n file_server browse\n}\n"]
        {
            assert!(text(new).is_ok(), "{new}");
        }
    }
}
