//! `fastcgi_param`: variables of FastCGI applications.

use super::context::Context;
use super::fields;
use super::forward;
use super::tokens;
use crate::drafts::Header;
use crate::model::{Block, Value};
use crate::nginx::scope::Scope;
use crate::nginx::tree::Directive;
use crate::nginx::values;
use crate::report::Kind;
use crate::write;

/// What the variables of a location say of its pool.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// The directory of scripts, as the application sees it.
    pub(crate) script_root: Option<String>,
    /// One program for all requests.
    pub(crate) script: Option<String>,
    /// Further variables.
    params: Vec<(String, Value)>,
    /// `REQUEST_URI` is not what the client has sent.
    passed: bool,
}

impl Given {
    /// The keys of a pool of scripts.
    pub(crate) fn push(&self, block: &mut Block) {
        if !self.passed {
            block.push("request_uri", "sent", None);
        }
        if !self.params.is_empty() {
            block.push("params", Value::Table(self.params.clone()), None);
        }
    }

    /// Those of one that is no script, or one program.
    pub(crate) fn program(&self, block: &mut Block) {
        if let Some(script) = &self.script {
            block.push("script_filename", script.as_str(), None);
        }
        self.push(block);
    }
}

/// Variables that Maitred sends, with the values of nginx for which it sends the same.
const SAME: &[(&str, &[&str])] = &[
    ("QUERY_STRING", &["$query_string", "$args"]),
    ("REQUEST_METHOD", &["$request_method"]),
    ("CONTENT_TYPE", &["$content_type"]),
    ("CONTENT_LENGTH", &["$content_length"]),
    ("SCRIPT_NAME", &["$fastcgi_script_name"]),
    ("DOCUMENT_URI", &["$document_uri", "$uri", "$fastcgi_script_name"]),
    ("DOCUMENT_ROOT", &["$document_root"]),
    ("SERVER_PROTOCOL", &["$server_protocol"]),
    ("REQUEST_SCHEME", &["$scheme"]),
    ("HTTPS", &["$https"]),
    ("GATEWAY_INTERFACE", &["CGI/1.1"]),
    ("REMOTE_ADDR", &["$remote_addr"]),
    ("REMOTE_PORT", &["$remote_port"]),
    ("SERVER_ADDR", &["$server_addr"]),
    ("SERVER_PORT", &["$server_port"]),
    ("SERVER_NAME", &["$host", "$http_host"]),
    ("REDIRECT_STATUS", &["200"]),
    ("PATH_INFO", &["$fastcgi_path_info", "$path_info"]),
    (
        "PATH_TRANSLATED",
        &["$document_root$fastcgi_path_info", "$document_root$path_info", "$realpath_root$fastcgi_path_info"],
    ),
    ("ORIG_PATH_INFO", &["$fastcgi_path_info", "$path_info"]),
];
/// The same where the value is another one, and what it is.
const OTHER: &[(&str, Kind, &str)] = &[
    ("SERVER_NAME", Kind::Choice, "it is the host of the request"),
    ("SERVER_SOFTWARE", Kind::Choice, "it is `maitred`"),
    ("REMOTE_USER", Kind::Better, "it is a user whom the server has asked for a password"),
    ("AUTH_TYPE", Kind::Better, "it is there with a user whom the server has asked for a password"),
    ("HTTPS", Kind::Worse, "it is there where the client uses TLS, or `trusted_proxies` say so"),
    ("REQUEST_SCHEME", Kind::Worse, "it is the scheme of the client, as `trusted_proxies` say"),
    ("REMOTE_ADDR", Kind::Worse, "it is the client's address, as `trusted_proxies` say"),
    ("DOCUMENT_ROOT", Kind::Choice, "it is `root` of the pool, with its links as they are named"),
    ("PATH_INFO", Kind::Choice, "it is what follows the script in the path"),
    ("PATH_TRANSLATED", Kind::Choice, "it is `PATH_INFO` below the root"),
    ("SCRIPT_NAME", Kind::Choice, "it is the path of the script"),
    ("SERVER_PORT", Kind::Choice, "it is the port of the connection"),
];

/// What `fastcgi_param` says. `front`: one script takes all that is no file.
pub(crate) fn of(cx: &Context<'_>, scope: &Scope<'_>, front: bool) -> Given {
    let mut given = Given::default();
    for directive in scope.all("fastcgi_param") {
        let (name, value) = (directive.arg(0), directive.arg(1).replace(['{', '}'], ""));
        match name {
            "SCRIPT_FILENAME" => script(cx, scope, directive, front, &mut given),
            "REQUEST_URI" => {
                given.passed = value != "$request_uri";
                match ["$request_uri", "$uri$is_args$args", "$document_uri$is_args$args"]
                    .contains(&value.as_str())
                {
                    true => cx.translated(directive),
                    false => cx.say(
                        directive,
                        Kind::Worse,
                        "it is the target, as it was sent or as it is passed on",
                    ),
                }
            }
            // `request_headers` has it.
            name if name.starts_with("HTTP_") => {}
            // `jwt` has it.
            "REMOTE_USER" if tokens::is_claim(scope, directive.arg(1)) => {}
            name => variable(cx, scope, directive, (name, &value), &mut given),
        }
    }
    if let Some(split) = scope.last("fastcgi_split_path_info") {
        match split.arg(0).contains(r"\.php)") {
            true => cx.not_needed(split, "the script ends behind `.php`"),
            false => cx.say(
                split,
                Kind::Choice,
                "the script ends behind `.php`, or `mount` says what comes before the path",
            ),
        }
    }
    given
}

fn variable(
    cx: &Context<'_>,
    scope: &Scope<'_>,
    directive: &Directive,
    (name, value): (&str, &str),
    given: &mut Given,
) {
    let same = SAME.iter().any(|(known, values)| *known == name && values.contains(&value));
    let secure = name == "HTTPS" && value == "on" && is_over_tls(scope);
    let plain = name == "HTTPS" && value == "off" && fields::is_plain(scope);
    let other = OTHER.iter().find(|(known, ..)| *known == name);
    match other {
        _ if same || secure => cx.not_needed(directive, "applications get this variable"),
        _ if plain => {
            cx.say(directive, Kind::Choice, "without TLS the variable is not there, which says the same")
        }
        Some((_, kind, why)) => cx.say(directive, *kind, *why),
        None if SAME.iter().any(|(known, _)| *known == name) => {
            cx.say(directive, Kind::Worse, "applications get this variable with its usual value");
        }
        None => match values::filled(directive.arg(1), scope) {
            Ok(value) if value.contains(crate::drafts::BRACES) && name.starts_with("PHP_") => {
                cx.not_possible(directive, "settings of PHP are fixed");
            }
            Ok(value) => {
                cx.translated(directive);
                let value = match name.starts_with("PHP_") {
                    // Each line is a setting.
                    true => value.replace("\\n", "\n").lines().map(str::trim).collect::<Vec<_>>().join("\n"),
                    false => value,
                };
                given.params.retain(|(known, _)| known != name);
                given.params.push((name.to_owned(), write::written(&value).into()));
            }
            Err(why) => cx.not_possible(directive, why),
        },
    }
}

/// Whether all addresses of the server have TLS.
fn is_over_tls(scope: &Scope<'_>) -> bool {
    let server = scope.of_server();
    let mut listens = server.own().iter().filter(|own| own.name == "listen").peekable();
    listens.peek().is_some() && listens.all(|listen| listen.args.iter().any(|arg| arg == "ssl"))
}

/// `SCRIPT_FILENAME`: the script of the path below a directory, or one program.
fn script(cx: &Context<'_>, scope: &Scope<'_>, directive: &Directive, front: bool, given: &mut Given) {
    let value = directive.arg(1).replace(['{', '}'], "");
    let own =
        ["$document_root$fastcgi_script_name", "$request_filename", "$document_root/$fastcgi_script_name"];
    if own.contains(&value.as_str()) {
        return cx.translated(directive);
    }
    if value.starts_with("$realpath_root$fastcgi_script_name") {
        let why =
            "it has the links of the directory as they are named: after another one is linked there, reload";
        return cx.say(directive, Kind::Choice, why);
    }
    if let Some(root) = directive.arg(1).strip_suffix("$fastcgi_script_name") {
        match values::fixed(root, scope) {
            Some(root) => {
                cx.translated(directive);
                given.script_root = Some(root);
            }
            None => cx.not_possible(directive, "the directory of its scripts is not fixed"),
        }
        return;
    }
    let fixed = |text: &str| values::fixed(text, scope);
    let below = |text: &str| {
        let rest = ["$document_root", "$realpath_root"].iter().find_map(|root| text.strip_prefix(root))?;
        Some(format!("{}{}", fixed(scope.last("root")?.arg(0))?.trim_end_matches('/'), fixed(rest)?))
    };
    match below(&value).or_else(|| fixed(directive.arg(1))).filter(|path| path.starts_with('/')) {
        // The front controller is the index of the directory.
        Some(path) if front && path.ends_with(".php") => cx.translated(directive),
        Some(path) => {
            cx.say(directive, Kind::Choice, "`SCRIPT_NAME` is empty, and `PATH_INFO` is the whole path");
            given.script = Some(path);
        }
        None => cx.not_possible(directive, "a script is that of the path, or a fixed one"),
    }
}

/// `fastcgi_param HTTP_…`: fields of the request.
pub(crate) fn fields(cx: &Context<'_>, scope: &Scope<'_>) -> Vec<Header> {
    let mut rules = Vec::new();
    for directive in scope.all("fastcgi_param") {
        let Some(name) = directive.arg(0).strip_prefix("HTTP_") else { continue };
        let value = directive.arg(1);
        let field = values::field_name(&name.to_ascii_lowercase());
        // `forward_auth`, or `jwt`, has it.
        if forward::is_copied(scope, name, value) || tokens::is_claim(scope, value) {
            continue;
        }
        match name {
            "HOST" => cx.say(directive, Kind::Choice, "`Host` is the client's"),
            _ => fields::field(cx, scope, directive, (&field, value), &mut rules),
        }
    }
    rules
}
