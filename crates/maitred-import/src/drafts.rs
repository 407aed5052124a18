//! Sites, routes and pools before they are written: what the importers have in common.

use super::model::{Block, Value};
use super::report::Place;

/// `match` of a route.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Match {
    /// In `any` and `not` only.
    pub(crate) paths: Vec<String>,
    /// Header fields.
    pub(crate) header: Vec<(String, String)>,
    /// Parameters of the query.
    pub(crate) query: Vec<(String, String)>,
    /// Cookies.
    pub(crate) cookie: Vec<(String, String)>,
    /// `http` or `https`
    pub(crate) scheme: Option<&'static str>,
    /// Networks.
    pub(crate) client: Vec<String>,
    /// Addresses by which the connection has come in.
    pub(crate) listener: Vec<String>,
    /// Whether the connection has TLS.
    pub(crate) tls: Option<bool>,
    /// Whether the client has shown a certificate that is good.
    pub(crate) client_certificate: Option<bool>,
    /// A part of the clients, and what tells them apart.
    pub(crate) share: Option<Box<(String, Option<String>)>>,
    /// At least one of them.
    pub(crate) any: Vec<Match>,
    /// None of them.
    pub(crate) not: Vec<Match>,
    /// Other keys.
    pub(crate) keys: Vec<(&'static str, Value)>,
}

impl Match {
    /// Whether there is no condition.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Match::default()
    }

    /// Both conditions, if one table can say that.
    #[must_use]
    pub(crate) fn and(&self, other: &Match) -> Option<Match> {
        let mut both = self.clone();
        for (ours, theirs) in [
            (&mut both.header, &other.header),
            (&mut both.query, &other.query),
            (&mut both.cookie, &other.cookie),
        ] {
            for (name, value) in theirs {
                match ours.iter().find(|(known, _)| known == name) {
                    Some((_, known)) if known == value => {}
                    Some(_) => return None,
                    None => ours.push((name.clone(), value.clone())),
                }
            }
        }
        for (ours, theirs) in [
            (&mut both.client, &other.client),
            (&mut both.paths, &other.paths),
            (&mut both.listener, &other.listener),
        ] {
            match (ours.is_empty(), theirs.is_empty()) {
                (true, _) => ours.clone_from(theirs),
                (false, true) => {}
                (false, false) if ours == theirs => {}
                (false, false) => return None,
            }
        }
        match (both.scheme, other.scheme) {
            (Some(ours), Some(theirs)) if ours != theirs => return None,
            (ours, theirs) => both.scheme = ours.or(theirs),
        }
        for (ours, theirs) in
            [(&mut both.tls, other.tls), (&mut both.client_certificate, other.client_certificate)]
        {
            match (*ours, theirs) {
                (Some(ours), Some(theirs)) if ours != theirs => return None,
                (known, theirs) => *ours = known.or(theirs),
            }
        }
        match (&both.share, &other.share) {
            (Some(ours), Some(theirs)) if ours != theirs => return None,
            (known, theirs) => both.share = known.clone().or_else(|| theirs.clone()),
        }
        match (both.any.is_empty(), other.any.is_empty()) {
            (true, _) => both.any.clone_from(&other.any),
            (false, true) => {}
            (false, false) => return None,
        }
        for (name, value) in &other.keys {
            match both.keys.iter().find(|(known, _)| known == name) {
                Some((_, known)) if known == value => {}
                Some(_) => return None,
                None => both.keys.push((name, value.clone())),
            }
        }
        both.not.extend(other.not.iter().filter(|set| !self.not.contains(set)).cloned());
        Some(both)
    }

    /// As a table.
    pub(crate) fn value(&self) -> Value {
        let mut entries: Vec<(String, Value)> = Vec::new();
        if !self.paths.is_empty() {
            entries.push(("path".into(), Value::one_or_more(&self.paths)));
        }
        for (key, pairs) in [("header", &self.header), ("query", &self.query), ("cookie", &self.cookie)] {
            if !pairs.is_empty() {
                let pairs = pairs.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
                entries.push((key.into(), Value::Table(pairs.collect())));
            }
        }
        if let Some(scheme) = self.scheme {
            entries.push(("scheme".into(), scheme.into()));
        }
        if !self.client.is_empty() {
            entries.push(("client".into(), Value::texts(&self.client)));
        }
        if !self.listener.is_empty() {
            entries.push(("listener".into(), Value::one_or_more(&self.listener)));
        }
        entries.extend(self.tls.map(|tls| ("tls".to_owned(), tls.into())));
        let certificate =
            self.client_certificate.map(|shown| ("client_certificate".to_owned(), shown.into()));
        entries.extend(certificate);
        if let Some((share, by)) = self.share.as_deref() {
            entries.push(("share".into(), share.as_str().into()));
            entries.extend(by.as_ref().map(|by| ("share_by".to_owned(), by.as_str().into())));
        }
        entries.extend(self.keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        for (key, sets) in [("any", &self.any), ("not", &self.not)] {
            if !sets.is_empty() {
                entries.push((key.into(), Value::List(sets.iter().map(Match::value).collect())));
            }
        }
        Value::Table(entries)
    }
}

/// What a rule does with a header field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Replace.
    Set,
    /// Put beside.
    Add,
    /// Take away.
    Remove,
    /// Put there, if there is none.
    IfAbsent,
}

/// A rule for a header field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Header {
    /// What to do.
    pub(crate) how: How,
    /// The field.
    pub(crate) name: String,
    /// The value of the field; empty with [`How::Remove`].
    pub(crate) value: String,
}

/// What stands for the braces of a placeholder in a value of [`Header`], whose own braces are written twice. No value of a field
/// has such characters.
pub(crate) const BRACES: [char; 2] = ['\u{2}', '\u{3}'];

/// A placeholder in a value of [`Header`].
pub(crate) fn placeholder(name: &str) -> String {
    let [open, close] = BRACES;
    format!("{open}{name}{close}")
}

/// What answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Target {
    /// Files.
    Files(Files),
    /// A pool.
    Pool {
        /// The name of the pool.
        name: String,
        /// `strip_prefix` and `replace_prefix`
        strip: Option<(String, String)>,
        /// `rewrite`
        rewrite: Option<String>,
    },
    /// A redirect.
    Redirect {
        /// With placeholders.
        to: String,
        /// 301, 302, 303, 307 or 308.
        status: u16,
    },
    /// A fixed response.
    Respond {
        /// 200 to 599.
        status: u16,
        /// The body and its media type.
        body: Option<(String, String)>,
    },
    /// Another route.
    Reroute(String),
}

/// Files below a directory.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Files {
    /// The directory, an absolute path.
    pub(crate) root: String,
    /// Whether it is there.
    pub(crate) missing: bool,
    /// `strip_prefix`
    pub(crate) strip: Option<String>,
    /// `rewrite`
    pub(crate) rewrite: Option<String>,
    /// `index`; none is the default.
    pub(crate) index: Vec<String>,
    /// Directories are not served, whatever is in them.
    pub(crate) no_index: bool,
    /// `listing`
    pub(crate) listing: bool,
    /// `try`
    pub(crate) tries: Vec<String>,
    /// `precompressed`
    pub(crate) precompressed: Vec<String>,
    /// `hidden`
    pub(crate) hidden: bool,
    /// `headers`
    pub(crate) headers: Vec<(String, String)>,
    /// `types`
    pub(crate) types: Vec<(String, String)>,
    /// `charset`
    pub(crate) charset: Option<String>,
    /// Where the directory is named.
    pub(crate) place: Option<Place>,
}

/// A route.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Route {
    /// Where it comes from, and what stands there.
    pub(crate) origin: (Place, String),
    /// What else is to be known.
    pub(crate) notes: Vec<String>,
    /// Patterns; none is any path.
    pub(crate) paths: Vec<String>,
    /// `path_regex`
    pub(crate) regex: Option<String>,
    /// `match`
    pub(crate) condition: Match,
    /// Methods; none is all.
    pub(crate) methods: Vec<String>,
    /// What answers.
    pub(crate) target: Target,
    /// Rules for responses.
    pub(crate) response: Vec<Header>,
    /// Rules for requests.
    pub(crate) request: Vec<Header>,
    /// The largest body of a request.
    pub(crate) body_max: Option<u64>,
    /// Other keys of `limits`, in milliseconds.
    pub(crate) times: Vec<(&'static str, u64)>,
    /// `limits` that are sizes, in bytes, besides `body_max`.
    pub(crate) rates: Vec<(&'static str, u64)>,
    /// Whether responses are compressed, and with which keys of `compress`.
    pub(crate) compress: Option<Vec<(String, Value)>>,
    /// Whether responses are kept, and with which keys of `cache`.
    pub(crate) cache: Option<Vec<(String, Value)>>,
    /// `mirror`
    pub(crate) mirror: Option<Value>,
    /// `access_log = false`
    pub(crate) quiet: bool,
    /// `access_log`: a name, unless it is that of the site.
    pub(crate) log: Option<String>,
    /// `request_buffering = "off"`
    pub(crate) streamed: bool,
    /// `error_pages`, besides those of the site.
    pub(crate) error_pages: Vec<(u16, String)>,
    /// `limit`: names of limits by client.
    pub(crate) limits: Vec<String>,
    /// `allow`, `deny`, `basic_auth`, `jwt`, `forward_auth`, `satisfy`
    pub(crate) gates: Vec<(&'static str, Value)>,
    /// Gates that are comments, and when they can be used: until then the route is closed.
    pub(crate) later: Option<(&'static str, Value, String)>,
    /// `expires`: kinds of responses and what is said of them.
    pub(crate) expires: Vec<(String, String)>,
    /// `front_controller`
    pub(crate) front_controller: Option<String>,
    /// `query`: parameters that are set.
    pub(crate) query: Vec<(String, String)>,
    /// What is no file goes to scripts of FastCGI; whether whatever is left goes to the front controller.
    pub(crate) scripts: Option<bool>,
    /// Other keys.
    pub(crate) keys: Vec<(&'static str, Value)>,
}

impl Route {
    /// A route without conditions.
    pub(crate) fn new(place: &Place, what: &str, target: Target) -> Route {
        Route {
            origin: (place.clone(), what.to_owned()),
            notes: Vec::new(),
            paths: Vec::new(),
            regex: None,
            condition: Match::default(),
            methods: Vec::new(),
            target,
            response: Vec::new(),
            request: Vec::new(),
            body_max: None,
            times: Vec::new(),
            rates: Vec::new(),
            compress: None,
            cache: None,
            mirror: None,
            quiet: false,
            log: None,
            streamed: false,
            error_pages: Vec::new(),
            limits: Vec::new(),
            gates: Vec::new(),
            later: None,
            expires: Vec::new(),
            front_controller: None,
            query: Vec::new(),
            scripts: None,
            keys: Vec::new(),
        }
    }

    /// Whether every request would be taken.
    pub(crate) fn takes_all(&self) -> bool {
        let any_path = self.paths.is_empty() || self.paths.iter().any(|path| path == "/*" || path == "*");
        any_path && self.regex.is_none() && self.condition.is_empty() && self.methods.is_empty()
    }
}

/// A site.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// Where it comes from, and what stands there.
    pub(crate) origin: (Place, String),
    /// What else is to be known.
    pub(crate) notes: Vec<String>,
    /// The names of the site.
    pub(crate) hosts: Vec<String>,
    /// The addresses at which it answers; none is all.
    pub(crate) listen: Vec<String>,
    /// All of it is a comment, for this reason.
    pub(crate) off: Option<String>,
    /// Certificate and key, and whether they can be used.
    pub(crate) certificates: Vec<(String, String, bool, Place)>,
    /// `error_pages`
    pub(crate) error_pages: Vec<(u16, String)>,
    /// The directory of these pages, where it is named, and whether it is missing.
    pub(crate) error_root: Option<(String, Place, bool)>,
    /// `access_log`: a name.
    pub(crate) log: Option<String>,
    /// The routes of the site, in their order.
    pub(crate) routes: Vec<Route>,
}

/// A table with a name: a pool, a limit, an access log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    /// The name of the table.
    pub(crate) name: String,
    /// The keys of the table.
    pub(crate) block: Block,
}

/// A name for a table: letters, digits, `-` and `_`, and none of these.
pub(crate) fn free_name(wanted: &str, taken: &[Named]) -> String {
    let clean: String = wanted
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' })
        .take(48)
        .collect();
    let clean = match clean.trim_matches('-') {
        "" => "app".to_owned(),
        clean => clean.to_owned(),
    };
    let free = |name: &str| !taken.iter().any(|named| named.name == name);
    if free(&clean) {
        return clean;
    }
    let mut numbered = (2..).map(|number| format!("{clean}-{number}"));
    numbered.find(|name| free(name)).unwrap_or(clean)
}
