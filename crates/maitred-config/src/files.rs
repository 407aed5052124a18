//! Keys about files, which a site with a `root` and a route with a `root` have in common.

use super::keys::{Default, Key, Kind, Table};

pub(super) const INDEX: Key = Key::new(
    "index",
    Kind::Texts("file names"),
    Default::Texts(&["index.html"]),
    "Names that are tried in a directory, in order.",
);
pub(super) const LISTING: Key = Key::new(
    "listing",
    Kind::Flag,
    Default::Flag(false),
    "Whether a directory without an index file is listed.",
);
pub(super) const HIDDEN: Key = Key::new(
    "hidden",
    Kind::Flag,
    Default::Flag(false),
    "Whether names that start with a dot are served. `.well-known` always is.",
);
pub(super) const SYMLINKS: Key = Key::new(
    "symlinks",
    Kind::Choice(&["inside", "anywhere"]),
    Default::Text("inside"),
    "Where symbolic links may lead: inside the root only, or anywhere.",
);
pub(super) const PRECOMPRESSED: Key = Key::new(
    "precompressed",
    Kind::Choices(&["br", "zstd", "gzip"]),
    Default::Texts(&[]),
    "Compressed siblings to look for (`name.br`, `name.zst`, `name.gz`), the preferred one first.",
);
pub(super) const TRY: Key = Key::new(
    "try",
    Kind::Texts(
        "`\"{path}\"`, `\"{path}.html\"`, `\"/app.html\"`, and last perhaps `\"=404\"` or `\"pool:web\"`",
    ),
    Default::Texts(&[]),
    "Paths that are tried, in order, instead of the request path alone: for single-page applications, for example. A last \
     `\"pool:NAME\"` hands requests for what is not there to that pool, and so all that are neither GET nor HEAD.",
);
pub(super) const HEADERS: Key = Key::new(
    "headers",
    Kind::Section(&RULES),
    Default::Absent("as they are"),
    "Header fields to set on, or remove from, responses of files.",
);

/// `headers`
pub(super) const RULES: Table = Table {
    title: "headers",
    doc: "Header fields of responses of files. Fields that delimit the message (`Content-Length`, `Transfer-Encoding`, \
          `Connection` and similar ones) are written by Maitred and cannot be named.",
    example: "[[site]]\nroot = \"/srv/www\"\n\
              headers = { set = { \"Cache-Control\" = \"max-age=3600\" }, remove = [\"ETag\"] }\n",
    keys: &[
        Key::new(
            "set",
            Kind::Map("name = value"),
            Default::Absent("none"),
            "Fields to set; an existing field is replaced.",
        ),
        Key::new("remove", Kind::Texts("field names"), Default::Texts(&[]), "Fields to remove."),
    ],
};
