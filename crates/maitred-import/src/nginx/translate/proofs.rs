//! Why a directive that is not in the output has no effect: each rule looks at what stands around the directive.
//!
//! What no rule proves is not possible. A rule may only say that nothing would change if the directive were not there.

use crate::nginx::tree::Directive;

/// Blocks around a directive, from the outermost to the one that it stands in.
pub(crate) type Around<'a> = [&'a [Directive]];

/// Why the directive has no effect; `None` if nothing proves that.
pub(crate) fn reason(directive: &Directive, around: &Around<'_>) -> Option<&'static str> {
    let name = directive.name.as_str();
    let own = around.last().copied().unwrap_or_default();
    if has(own, "stub_status") && ["allow", "deny", "satisfy", "auth_basic"].contains(&name) {
        return Some("no client gets an answer there: `maitred status` shows what the page would");
    }
    if let Some(upstream) = upstream(around) {
        return match is_named(around, upstream) {
            false => Some("no location passes requests to this `upstream`"),
            true if name == "keepalive_timeout" => Some("connections are kept as long as servers keep them"),
            true => None,
        };
    }
    if is_default(directive, around) {
        return Some("nginx does that without the directive, too, and nothing around it says otherwise");
    }
    if let Some(needs) = without(name) {
        let (name, value) = needs;
        if !set_below_or_around(around, name, value) {
            return Some("the directive that it is about is off there");
        }
    }
    if name == "fastcgi_index" && answers_scripts_only(around) {
        return Some("no path of this location ends in a slash");
    }
    let user = user(name)?;
    let used = inherits(own, name, user) || (!own.is_empty() && of_conditions(around, user));
    (!used).then_some("nothing that inherits it does what it is about")
}

fn has(block: &[Directive], name: &str) -> bool {
    block.iter().any(|directive| directive.name == name)
}

/// The name of the `upstream` around.
fn upstream<'a>(around: &Around<'a>) -> Option<&'a str> {
    let [.., outer, own] = around else { return None };
    let found = outer.iter().find(|one| one.name == "upstream" && std::ptr::eq(one.inside(), *own))?;
    Some(found.arg(0))
}

/// Whether a directive outside of `upstream` blocks has the name in it, or a variable that may be any name.
fn is_named(around: &Around<'_>, upstream: &str) -> bool {
    fn search(block: &[Directive], upstream: &str) -> bool {
        block.iter().filter(|one| one.name != "upstream").any(|one| {
            let passes = one.name.ends_with("_pass");
            let names = |arg: &String| arg.contains(upstream) || (passes && arg.contains('$'));
            one.args.iter().any(names) || search(one.inside(), upstream)
        })
    }
    around.first().is_some_and(|http| search(http, upstream))
}

/// What nginx does without a directive (its documentation, "Default").
const DEFAULTS: &[(&str, &str)] = &[
    ("gzip", "off"),
    ("brotli", "off"),
    ("zstd", "off"),
    ("gzip_static", "off"),
    ("autoindex", "off"),
    ("expires", "off"),
    ("fastcgi_intercept_errors", "off"),
    ("proxy_intercept_errors", "off"),
    ("uwsgi_intercept_errors", "off"),
    ("satisfy", "all"),
    ("merge_slashes", "on"),
    ("auth_basic", "off"),
    ("auth_request", "off"),
    ("auth_jwt", "off"),
    ("proxy_request_buffering", "on"),
    ("fastcgi_request_buffering", "on"),
    ("limit_rate", "0"),
    ("ssl_verify_client", "off"),
    ("ssl_reject_handshake", "off"),
];

/// The directive says what holds without it, and no block around it says anything else.
fn is_default(directive: &Directive, around: &Around<'_>) -> bool {
    let says = |one: &Directive| {
        one.args.len() == 1
            && DEFAULTS.contains(&(one.name.as_str(), one.arg(0).to_ascii_lowercase().as_str()))
    };
    let of_name = |block: &&[Directive]| block.iter().filter(|one| one.name == directive.name).all(says);
    says(directive) && around.iter().all(of_name)
}

/// Another directive without which this one means nothing, and its value; `None` is any.
fn without(name: &str) -> Option<(&'static str, Option<&'static str>)> {
    Some(match name {
        "autoindex_exact_size" | "autoindex_localtime" | "autoindex_format" => ("autoindex", Some("on")),
        "real_ip_header" | "real_ip_recursive" => ("set_real_ip_from", None),
        "limit_req_status" | "limit_req_log_level" | "limit_req_dry_run" => ("limit_req", None),
        "limit_conn_status" | "limit_conn_log_level" | "limit_conn_dry_run" => ("limit_conn", None),
        "ssl_client_certificate" | "ssl_crl" => ("ssl_verify_client", None),
        "limit_rate_after" => ("limit_rate", None),
        "auth_basic_user_file" => ("auth_basic", None),
        "proxy_cache_bypass" | "proxy_no_cache" => ("proxy_cache", None),
        "fastcgi_cache_bypass" | "fastcgi_no_cache" => ("fastcgi_cache", None),
        "uwsgi_cache_bypass" | "uwsgi_no_cache" => ("uwsgi_cache", None),
        _ => return None,
    })
}

fn set_below_or_around(around: &Around<'_>, name: &str, value: Option<&str>) -> bool {
    let is = |one: &Directive| one.name == name && value.is_none_or(|value| one.arg(0) == value);
    fn below(block: &[Directive], is: &dyn Fn(&Directive) -> bool) -> bool {
        block.iter().any(|one| is(one) || below(one.inside(), is))
    }
    let own = around.last().copied().unwrap_or_default();
    below(own, &is) || around.iter().any(|block| block.iter().any(is))
}

/// The location around takes paths that end in `.php`, and no others.
fn answers_scripts_only(around: &Around<'_>) -> bool {
    let [.., outer, own] = around else { return false };
    let location = outer.iter().find(|one| one.name == "location" && std::ptr::eq(one.inside(), *own));
    location.is_some_and(|location| {
        let [modifier, regex] = location.args.as_slice() else { return false };
        ["~", "~*"].contains(&modifier.as_str()) && regex.ends_with(r"\.php$") && !regex.contains('|')
    })
}

/// Whether a block does what a directive is about.
type User = fn(&[Directive]) -> bool;

fn user(name: &str) -> Option<User> {
    const OF_FILES: &[&str] = &[
        "index",
        "try_files",
        "autoindex",
        "autoindex_exact_size",
        "autoindex_localtime",
        "autoindex_format",
        "gzip_static",
        "brotli_static",
        "zstd_static",
        "log_not_found",
        "open_file_cache",
    ];
    const OF_TLS: &[&str] = &[
        "ssl_protocols",
        "ssl_ciphers",
        "ssl_certificate",
        "ssl_certificate_key",
        "ssl_verify_client",
        "ssl_client_certificate",
        "ssl_crl",
        "ssl_password_file",
        "ssl_dhparam",
        "ssl_verify_depth",
    ];
    Some(match name {
        _ if name.starts_with("proxy_ssl_") => passes_to_tls,
        _ if name.starts_with("proxy_") => |block| has(block, "proxy_pass"),
        _ if name.starts_with("fastcgi_") => |block| has(block, "fastcgi_pass"),
        _ if name.starts_with("uwsgi_") => |block| has(block, "uwsgi_pass"),
        _ if name.starts_with("scgi_") => |block| has(block, "scgi_pass"),
        _ if name.starts_with("grpc_") => |block| has(block, "grpc_pass"),
        "root" => reads_files,
        "add_header" | "more_set_headers" | "more_clear_headers" | "expires" => answers,
        name if OF_FILES.contains(&name) => serves_files,
        name if OF_TLS.contains(&name) => speaks_tls,
        _ => return None,
    })
}

/// The targets may be `https:` by a variable, or by an `upstream`: only what plainly is `http:` is not.
fn passes_to_tls(block: &[Directive]) -> bool {
    block.iter().any(|one| one.name == "proxy_pass" && !one.arg(0).starts_with("http://"))
}

fn speaks_tls(block: &[Directive]) -> bool {
    let listens =
        |word: &str| block.iter().any(|one| one.name == "listen" && one.args.iter().any(|arg| arg == word));
    listens("ssl") || listens("quic") || block.iter().any(|one| one.name == "ssl" && one.arg(0) == "on")
}

/// What answers in a location instead of a file.
fn answers_otherwise(block: &[Directive]) -> bool {
    block.iter().any(|one| one.name.ends_with("_pass") || ["return", "stub_status"].contains(&&*one.name))
}

/// All that a server gets goes to its locations.
fn has_location_for_all(block: &[Directive]) -> bool {
    let all = |one: &Directive| one.name == "location" && one.args.last().is_some_and(|path| path == "/");
    block.iter().any(|one| all(one) && one.args.first().is_some_and(|word| word != "="))
}

/// Blocks of `http`, which answer nothing themselves.
fn is_outside(block: &[Directive]) -> bool {
    has(block, "server") || has(block, "http")
}

/// A block that answers requests by itself, whatever stands within it.
fn answers(block: &[Directive]) -> bool {
    let rewrites = ["return", "rewrite", "if"].iter().any(|name| has(block, name));
    !is_outside(block) && (rewrites || !has_location_for_all(block))
}

fn serves_files(block: &[Directive]) -> bool {
    has(block, "try_files") || !(answers_otherwise(block) || has_location_for_all(block) || is_outside(block))
}

/// Scripts are files below `root`, too.
fn reads_files(block: &[Directive]) -> bool {
    let scripts = ["fastcgi_pass", "uwsgi_pass", "scgi_pass"].iter().any(|name| has(block, name));
    !has(block, "alias") && (scripts || serves_files(block))
}

/// Whether a block, or one within it that has no directive of this name itself, is a user.
fn inherits(block: &[Directive], name: &str, user: User) -> bool {
    let nests = |one: &&Directive| {
        let nests = ["http", "server", "location", "limit_except"].contains(&one.name.as_str());
        nests && !has(one.inside(), name)
    };
    user(block) || block.iter().filter(nests).any(|one| inherits(one.inside(), name, user))
}

/// An `if` has the handler of the location around it.
fn of_conditions(around: &Around<'_>, user: User) -> bool {
    let [.., outer, own] = around else { return false };
    outer.iter().any(|one| one.name == "if" && std::ptr::eq(one.inside(), *own)) && user(outer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::tree::parse;

    /// Whether the first directive of this name in the text of a server is proved to have no effect.
    fn is_proved(name: &str, text: &str) -> bool {
        let http = parse(&"text".into(), &format!("server {{ {text} }}")).unwrap();
        fn search<'a>(
            name: &str,
            block: &'a [Directive],
            around: &mut Vec<&'a [Directive]>,
        ) -> Option<Option<&'static str>> {
            around.push(block);
            for one in block {
                if one.name == name {
                    return Some(reason(one, around));
                }
                if let Some(found) = search(name, one.inside(), around) {
                    return Some(found);
                }
            }
            around.pop();
            None
        }
        search(name, &http, &mut Vec::new()).unwrap().is_some()
    }

    #[test]
    fn what_nobody_inherits_has_no_effect() {
        for (name, text) in [
            ("root", "root /a; location / { proxy_pass http://b; }"),
            ("root", "root /a; return 404;"),
            ("root", "root /a; location / { root /b; }"),
            ("root", "root /a; location / { alias /b/; }"),
            ("proxy_set_header", "proxy_set_header A b; location / { root /a; }"),
            ("fastcgi_param", "location / { fastcgi_param A b; return 404; }"),
            ("index", "index a.html; location / { proxy_pass http://b; }"),
            ("ssl_protocols", "listen 80; ssl_protocols TLSv1.2; return 404;"),
            ("proxy_ssl_name", "location / { proxy_pass http://b; proxy_ssl_name b; }"),
            (
                "add_header",
                "add_header A b; location / { add_header C d; root /a; location /b { root /a; } }",
            ),
        ] {
            assert!(is_proved(name, text), "{text}");
        }
    }

    #[test]
    fn what_something_uses_has_an_effect() {
        for (name, text) in [
            ("root", "root /a;"),
            ("root", "root /a; location / { try_files $uri @b; } location @b { proxy_pass http://b; }"),
            ("root", "root /a; location /x { proxy_pass http://b; }"),
            ("root", "root /a; location / { proxy_pass http://b; location ~ css$ { expires 1d; } }"),
            ("root", r"root /a; location / { return 404; } location ~ \.php$ { fastcgi_pass b; }"),
            ("proxy_set_header", "proxy_set_header A b; location / { proxy_pass http://b; }"),
            ("proxy_ssl_name", "location / { proxy_pass https://b; proxy_ssl_name b; }"),
            ("proxy_ssl_name", "location / { proxy_pass $b; proxy_ssl_name b; }"),
            ("ssl_protocols", "listen 443 ssl; ssl_protocols TLSv1.2; return 404;"),
            ("perl", "perl a; return 404;"),
            ("add_header", "add_header A b; return 404;"),
            ("add_header", "add_header A b; location / { root /a; }"),
            ("add_header", "add_header A b; location /x { add_header C d; }"),
            ("add_header", "add_header A b; if ($x) { return 403; } location / { add_header C d; }"),
            ("add_header", "add_header A b; location / { add_header C d; } location /x { root /a; }"),
        ] {
            assert!(!is_proved(name, text), "{text}");
        }
    }

    #[test]
    fn what_holds_anyway_has_no_effect() {
        for (text, proved) in [
            ("gzip off; return 404;", true),
            ("location / { gzip off; } gzip on;", false),
            ("gzip off; location / { gzip on; }", true),
        ] {
            assert_eq!(is_proved("gzip", text), proved, "{text}");
        }
        assert!(is_proved("satisfy", "satisfy all;") && !is_proved("satisfy", "satisfy any;"));
    }

    #[test]
    fn what_no_location_passes_requests_to_has_no_effect() {
        let is_proved = |name: &str, rest: &str| {
            let text = format!("upstream app {{ keepalive_timeout 5s; zone a 1m; }} {rest}");
            let http = parse(&"text".into(), &text).unwrap();
            let inside = http[0].inside();
            let directive = inside.iter().find(|one| one.name == name).unwrap();
            reason(directive, &[&http, inside]).is_some()
        };
        assert!(is_proved("zone", "server { location / { proxy_pass http://other.example; } }"));
        for rest in ["proxy_pass http://app;", "proxy_pass http://$backend;", "set $to app;"] {
            let rest = format!("server {{ location / {{ {rest} }} }}");
            assert!(!is_proved("zone", &rest) && is_proved("keepalive_timeout", &rest), "{rest}");
        }
    }

    #[test]
    fn what_is_about_something_that_is_off_has_no_effect() {
        assert!(is_proved("autoindex_format", "autoindex_format json;"));
        assert!(!is_proved("autoindex_format", "autoindex_format json; location /a { autoindex on; }"));
        assert!(is_proved("real_ip_header", "real_ip_header X; return 404;"));
        assert!(!is_proved("real_ip_header", "real_ip_header X; set_real_ip_from 10.0.0.0/8; return 404;"));
        assert!(is_proved("fastcgi_index", r"location ~ \.php$ { fastcgi_index i.php; fastcgi_pass b; }"));
        assert!(!is_proved("fastcgi_index", r"location /a { fastcgi_index i.php; fastcgi_pass b; }"));
        assert!(is_proved(
            "proxy_cache_bypass",
            "location /a { proxy_pass http://b; proxy_cache_bypass $x; } location /b { proxy_cache z; }"
        ));
        assert!(!is_proved(
            "proxy_cache_bypass",
            "proxy_cache z; location /a { proxy_pass http://b; proxy_cache_bypass $x; }"
        ));
        assert!(is_proved("allow", "location /s { stub_status; allow 127.0.0.1; deny all; }"));
    }
}
