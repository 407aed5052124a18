//! `[defaults]`: what all sites have in common.

use super::keys::{Key, Table};
use super::tables::SITE;

/// Keys of a site that are its own: its names, where it answers, its files and routes.
const OWN: [&str; 5] = ["hosts", "listen", "root", "certificates", "route"];

/// `[defaults]`
pub(crate) const DEFAULTS: Table = Table {
    title: "[defaults]",
    doc: "Keys of `[[site]]` for all sites. A site's own value replaces that of `[defaults]`; of a table, such as \
          `response_headers` or `error_pages`, only the keys that the site has, too. See \
          [several files](configuration-files.md#what-all-sites-have-in-common).",
    example: "[defaults]\nhsts = \"max-age=31536000\"\nerror_pages = { 404 = \"/404.html\" }\n\n[[site]]\n\
              hosts = [\"example.com\"]\nroot = \"/srv/www\"\n",
    keys: &KEYS,
};

const KEYS: [Key; inherited_keys()] = {
    let mut keys = [SITE.keys[0]; inherited_keys()];
    let (mut from, mut to) = (0, 0);
    while from < SITE.keys.len() {
        if is_inherited(SITE.keys[from].name) {
            keys[to] = SITE.keys[from];
            to += 1;
        }
        from += 1;
    }
    keys
};

const fn inherited_keys() -> usize {
    let (mut at, mut count) = (0, 0);
    while at < SITE.keys.len() {
        if is_inherited(SITE.keys[at].name) {
            count += 1;
        }
        at += 1;
    }
    count
}

/// Whether a key of a site can stand in `[defaults]`.
const fn is_inherited(name: &str) -> bool {
    let mut at = 0;
    while at < OWN.len() {
        if is_same(name.as_bytes(), OWN[at].as_bytes()) {
            return false;
        }
        at += 1;
    }
    true
}

/// Strings cannot be compared in a constant.
const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}
