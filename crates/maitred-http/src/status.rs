//! Status codes and what they are called.

/// The least status that is none of HTTP: clients take it for an error of the server (9110-15). Servers use such statuses all the
/// same, to turn robots away for example, and what they answer is passed on.
pub const BEYOND: u16 = 600;

/// The greatest status that can be written.
pub const MAX: u16 = 999;

/// Whether a status is one that the server knows what is to be stored of (9111-5.2.2.3): those of RFC 9110 and of the RFCs that
/// add to it for every resource. Statuses of WebDAV and of protocols that hardly anyone speaks are not among them.
pub fn is_understood(status: u16) -> bool {
    !reason(status).is_empty() && !matches!(status, 102 | 104 | 207 | 208 | 226 | 418 | 506 | 510)
}

/// A status and its reason phrase, as text says them.
pub fn text(status: u16) -> String {
    format!("{status} {}", reason(status)).trim_end().to_owned()
}

/// The reason phrase of a status code, as registered with IANA, and that of 418 (RFC 2324), which is reserved; nothing for a code
/// that is not in use: a status line may have an empty phrase (9112-4), and no client needs one.
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        104 => "Upload Resumption Supported",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400..=499 => client_error(status),
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        510 => "Not Extended",
        511 => "Network Authentication Required",
        _ => "",
    }
}

fn client_error(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_the_server_answers_with() {
        assert_eq!(reason(200), "OK");
        assert_eq!(reason(431), "Request Header Fields Too Large");
        assert_eq!(reason(505), "HTTP Version Not Supported");
        assert_eq!((text(404).as_str(), text(599).as_str()), ("404 Not Found", "599"));
    }

    #[test]
    fn phrases_can_stand_in_a_status_line() {
        for status in 0..=u16::MAX {
            let may = |byte: u8| byte.is_ascii_alphabetic() || b" -'".contains(&byte);
            assert!(reason(status).bytes().all(may), "{status}");
        }
    }
}
