//! `fastcgi_param`: which of them applications get anyway (docs/php.md, "Variables").

use crate::nginx::scope::Scope;
use crate::nginx::values::{self, Part};
use crate::report::Kind::{self, Better, Choice, NotNeeded, Worse};

const SENT: &str = "applications get this variable";

/// Names, and the values of nginx that say what is sent under them.
const VARIABLES: &[(&str, &str)] = &[
    ("QUERY_STRING", "$query_string $args"),
    ("REQUEST_METHOD", "$request_method"),
    ("CONTENT_TYPE", "$content_type $http_content_type"),
    ("CONTENT_LENGTH", "$content_length $http_content_length"),
    ("SCRIPT_NAME", "$fastcgi_script_name"),
    ("REQUEST_URI", "$request_uri"),
    ("DOCUMENT_URI", "$document_uri $uri $fastcgi_script_name"),
    ("DOCUMENT_ROOT", "$document_root $realpath_root"),
    ("SERVER_PROTOCOL", "$server_protocol"),
    ("REQUEST_SCHEME", "$scheme"),
    ("HTTPS", "$https"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    ("SERVER_NAME", "$host"),
    ("REMOTE_ADDR", "$remote_addr"),
    ("REMOTE_PORT", "$remote_port"),
    ("SERVER_ADDR", "$server_addr"),
    ("SERVER_PORT", "$server_port"),
    ("REDIRECT_STATUS", "200"),
    ("PATH_INFO", "$fastcgi_path_info"),
    ("PATH_TRANSLATED", "$document_root$fastcgi_path_info $realpath_root$fastcgi_path_info"),
    ("HTTP_HOST", "$host $http_host"),
    ("HTTP_PROXY", ""),
    ("HTTP_X_FORWARDED_FOR", "$proxy_add_x_forwarded_for"),
    ("HTTP_X_FORWARDED_PROTO", "$scheme"),
];

/// What is said of a variable that every application gets; `None`, if this one is none of them, or has another value.
pub(super) fn sent(scope: &Scope<'_>, name: &str, value: &str) -> Option<(Kind, &'static str)> {
    let value: String = values::parts(value, scope)
        .into_iter()
        .map(|part| match part {
            Part::Text(text) => text,
            Part::Variable(name) => format!("${name}"),
        })
        .collect();
    let same = VARIABLES.iter().any(|(known, values)| {
        *known == name && (values.is_empty() && value.is_empty() || values.split(' ').any(|one| one == value))
    });
    if same {
        return Some((NotNeeded, SENT));
    }
    Some(match (name, value.as_str()) {
        ("SERVER_NAME", _) => (Choice, "it is the host that the request names"),
        ("SERVER_SOFTWARE", _) => (Choice, "it is `maitred`"),
        ("REMOTE_USER", "$remote_user") => (Better, "it is a user whose password or token was checked"),
        ("HTTPS", "on") => {
            (Choice, "it is `on` where the client uses TLS; `trusted_proxies` says who tells that")
        }
        ("ORIG_PATH_INFO", _) => (Worse, "the path behind the script is in `PATH_INFO`"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::tree::parse;

    #[test]
    fn what_nginx_ships_is_sent() {
        for name in ["fastcgi_params", "fastcgi.conf"] {
            let text = crate::nginx::shipped::text(name).unwrap();
            for one in parse(&"x".into(), &text).unwrap().iter().filter(|one| one.arg(0) != "SCRIPT_FILENAME")
            {
                let said = sent(&Scope::default(), one.arg(0), one.arg(1));
                assert!(said.is_some_and(|(kind, _)| kind < Worse), "{}: {said:?}", one.shown());
            }
        }
    }

    #[test]
    fn values_decide_and_not_names() {
        let server = parse(&"x".into(), "set $path_info $fastcgi_path_info;").unwrap();
        let scope = Scope::default().within(&server);
        assert_eq!(sent(&scope, "PATH_INFO", "$path_info"), Some((NotNeeded, SENT)));
        for (name, value) in [
            ("PATH_INFO", "/x"),
            ("DOCUMENT_ROOT", "/srv/other"),
            ("REMOTE_ADDR", "$http_x_real_ip"),
            ("OWN", "1"),
        ] {
            assert_eq!(sent(&scope, name, value), None, "{name}");
        }
    }
}
