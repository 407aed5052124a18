//! Flags of `RewriteRule`, and what they say of a target.

/// Flags that change nothing here, or that go with others.
pub(crate) const HARMLESS: &[&str] = &[
    "l",
    "last",
    "end",
    "nc",
    "nocase",
    "ne",
    "noescape",
    "qsa",
    "qsappend",
    "qsd",
    "qsdiscard",
    "pt",
    "passthrough",
    "ns",
    "nosubreq",
    "dpi",
    "discardpath",
    "b",
    "bne",
    "bnp",
    "unsafeallow3f",
    "unsafeprefixstat",
    "r",
    "redirect",
    "f",
    "forbidden",
    "g",
    "gone",
    "p",
    "proxy",
];

/// The flags of a rule, with their values.
pub(crate) struct Flags(pub(crate) Vec<(String, String)>);

impl Flags {
    /// `[R=301,L]`
    pub(crate) fn of(text: &str) -> Flags {
        let inside = text.trim().trim_start_matches('[').trim_end_matches(']');
        let flag = |word: &str| {
            let (name, value) = word.trim().split_once('=').unwrap_or((word.trim(), ""));
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Flags(inside.split(',').filter(|word| !word.trim().is_empty()).map(flag).collect())
    }

    /// Whether there is one of these.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        self.0.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    /// The value of the first of these.
    pub(crate) fn value(&self, names: &[&str]) -> Option<&str> {
        self.0.iter().find(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| value.as_str())
    }

    /// Whether no further rule is looked at.
    pub(crate) fn ends(&self) -> bool {
        self.has(&[
            "l",
            "last",
            "end",
            "r",
            "redirect",
            "f",
            "forbidden",
            "g",
            "gone",
            "p",
            "proxy",
            "pt",
            "passthrough",
        ])
    }
}

/// The status of `[R]`.
pub(crate) fn status_of(flags: &Flags) -> Option<u16> {
    let value = flags.value(&["r", "redirect"])?;
    Some(match value.to_ascii_lowercase().as_str() {
        "" | "temp" => 302,
        "permanent" => 301,
        "seeother" => 303,
        number => number.parse().unwrap_or(302),
    })
}

/// The query behind a target: that of the client, unless the target has one, or none is wanted.
pub(crate) fn with_query(mut to: String, given: &str, flags: &Flags) -> String {
    let none = given.ends_with('?') || flags.has(&["qsd", "qsdiscard"]);
    if to.ends_with("{uri}") {
        return to;
    }
    let (append, has) = (flags.has(&["qsa", "qsappend"]), to.contains('?'));
    if has && append && !to.ends_with('?') {
        to.push_str("&{query}");
    } else if has || none {
        let end = to
            .strip_suffix('?')
            .map(str::to_owned)
            .filter(|_| given.contains("://") || flags.has(&["r", "redirect"]));
        to = end.unwrap_or(to);
    } else if let Some(rest) = to.strip_suffix("{path}") {
        to = format!("{rest}{{uri}}");
    } else if !to.contains('#') {
        to.push_str("?{query}");
    }
    to
}
