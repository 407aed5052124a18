//! Media types of files.

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind};

/// What `Content-Type` says of files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaTypes {
    /// `types`: by the ending of the name, in lower case and without its first point.
    pub types: Vec<(String, String)>,
    /// The `default` of `types`: for names that say nothing.
    pub default: Option<String>,
    /// `charset`; `None` is `"off"`.
    pub charset: Option<String>,
    /// `charset_types`: in lower case; one that ends with `/` is for all types that begin so.
    pub charset_types: Vec<String>,
}

impl std::default::Default for MediaTypes {
    fn default() -> MediaTypes {
        MediaTypes {
            types: Vec::new(),
            default: None,
            charset: Some("utf-8".to_owned()),
            charset_types: vec!["text/".to_owned()],
        }
    }
}

pub(super) const TYPES: Key = Key::new(
    "types",
    Kind::Map("ending = media type"),
    Default::Absent("the usual ones"),
    "Media types of files by the ending of their names: `{ wasm = \"application/wasm\" }`; before those that are built in. \
     `default` is for names that say nothing, instead of `application/octet-stream`.",
);
pub(super) const CHARSET: Key = Key::new(
    "charset",
    Kind::Text("the name of a character encoding, or `\"off\"`"),
    Default::Text("utf-8"),
    "What `Content-Type` says about the characters of files of `charset_types`.",
);
pub(super) const CHARSET_TYPES: Key = Key::new(
    "charset_types",
    Kind::Texts("media types such as `\"text/*\"`"),
    Default::Texts(&["text/*"]),
    "Media types that `charset` is added to.",
);
