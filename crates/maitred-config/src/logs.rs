//! `[log]`: access log and error log; `[access_log.NAME]`: further access logs.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};
use super::values::is_token;

/// `[log]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// `access`
    pub access: AccessFormat,
    /// `access_file`; `None` is standard output.
    pub access_file: Option<PathBuf>,
    /// `error_file`; `None` is standard error.
    pub error_file: Option<PathBuf>,
    /// `level`: a `tracing` filter directive, already checked.
    pub level: String,
}

/// `access = "combined" | "json" | "off"`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessFormat {
    /// NCSA Combined Log Format.
    Combined,
    /// One JSON object a line.
    Json,
    /// Short and coloured, for a terminal; what `serve` uses there.
    Human,
    /// None.
    Off,
}

/// `[log]`
pub(super) const LOG: Table = Table {
    title: "[log]",
    doc: "Access log and error log. Files are reopened at a reload, for log rotation.",
    example: "[log]\naccess = \"json\"\naccess_file = \"/var/log/maitred/access.log\"\nlevel = \"info\"\n",
    keys: &[
        Key::new(
            "access",
            Kind::Choice(&["combined", "json", "human", "off"]),
            Default::Text("combined"),
            "Format of the access log: Combined Log Format, one JSON object per line, short lines for a terminal, or none.",
        ),
        Key::new(
            "access_file",
            Kind::Text("a path"),
            Default::Absent("standard output"),
            "Where the access log goes. A relative path starts at the configuration file.",
        ),
        Key::new(
            "error_file",
            Kind::Text("a path"),
            Default::Absent("standard error"),
            "Where the error log goes.",
        ),
        Key::new(
            "level",
            Kind::Text(
                "`\"error\"`, `\"warn\"`, `\"info\"`, `\"debug\"`, `\"trace\"`, or a filter such as `\"info,maitred_agents=debug\"`",
            ),
            Default::Text("info"),
            "The least severe level in the error log.",
        ),
    ],
};

/// Access logs besides that of `[log]`: each has a thread of its own.
pub(super) const ACCESS_LOGS_MAX: usize = 16;

/// Parts of one format, and fields of one log: a line is at most so many times as long as a request head.
pub(super) const PARTS_MAX: usize = 64;

/// The members that a line of JSON can have by itself.
pub(super) const JSON_MEMBERS: [&str; 23] = [
    "time",
    "remote",
    "user",
    "host",
    "method",
    "target",
    "version",
    "refused",
    "status",
    "body_bytes",
    "duration_us",
    "referer",
    "user_agent",
    "request_id",
    "pool",
    "queue_us",
    "cache",
    "upstream",
    "upstream_attempts",
    "upstream_status",
    "upstream_connect_us",
    "upstream_header_us",
    "upstream_response_us",
];

/// `[access_log.NAME]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessLog {
    /// NAME
    pub name: String,
    /// `to`
    pub to: LogTarget,
    /// `format`, `fields`
    pub format: LogFormat,
    /// `sample`: one of so many requests has a line; 1 is all.
    pub sample: u32,
}

/// Where the lines of a log go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogTarget {
    /// A file, to whose end they are appended; absolute.
    File(PathBuf),
    /// `"stdout"`
    Stdout,
    /// `"syslog"`, `"syslog:/path"`: a Unix datagram socket that takes what syslog(3) sends.
    SyslogSocket(PathBuf),
    /// `"syslog://192.0.2.1:514"`: messages of RFC 5424 in datagrams (RFC 5426).
    SyslogUdp(SocketAddr),
    /// `"journald"`: its native protocol.
    Journald,
}

/// What a line looks like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogFormat {
    /// A format of `[log]`.
    Known(AccessFormat),
    /// `"json"` with further members: name and value.
    Json(Vec<(String, Vec<LogPart>)>),
    /// A text with placeholders.
    Text(Vec<LogPart>),
}

impl From<AccessFormat> for LogFormat {
    fn from(format: AccessFormat) -> LogFormat {
        LogFormat::Known(format)
    }
}

impl LogFormat {
    /// Whether a line has this field of the request, besides those that all formats have.
    pub fn wants(&self, name: &str) -> bool {
        let names = |part: &LogPart| match part {
            LogPart::Field(LogField::Header(wanted)) => wanted.eq_ignore_ascii_case(name),
            _ => false,
        };
        match self {
            LogFormat::Known(_) => false,
            LogFormat::Json(members) => members.iter().any(|(_, parts)| parts.iter().any(names)),
            LogFormat::Text(parts) => parts.iter().any(names),
        }
    }
}

/// A part of a format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogPart {
    /// As it is.
    Text(String),
    /// A placeholder.
    Field(LogField),
}

/// What a placeholder in a format stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogField {
    /// `{remote}`: the client's address.
    Remote,
    /// `{host}`: the authority that was asked for.
    Host,
    /// `{request}`: the request line.
    Request,
    /// `{method}`
    Method,
    /// `{target}`: path and query, as sent.
    Target,
    /// `{path}`: the target without its query.
    Path,
    /// `{query}`: without `?`.
    Query,
    /// `{version}`, such as `HTTP/1.1`.
    Version,
    /// `{status}`
    Status,
    /// `{body_bytes}`: bytes of the response's body.
    BodyBytes,
    /// `{duration}`: seconds, with three decimals.
    Duration,
    /// `{duration_us}`: microseconds.
    DurationUs,
    /// `{time}`: as in the Common Log Format.
    Time,
    /// `{time_iso}`: RFC 3339, in UTC.
    TimeIso,
    /// `{user}`
    User,
    /// `{referer}`
    Referer,
    /// `{user_agent}`
    UserAgent,
    /// `{request_id}`
    RequestId,
    /// `{pool}`: the pool that answered.
    Pool,
    /// `{queue_us}`: how long the request waited for a process, in microseconds.
    QueueUs,
    /// `{cache}`: what the cache of responses did.
    Cache,
    /// `{upstream}`: the server that the request was passed on to, the last one if there were several.
    Upstream,
    /// `{upstream_status}`: the status of its response.
    UpstreamStatus,
    /// `{upstream_attempts}`: servers and connections that were tried.
    UpstreamAttempts,
    /// `{upstream_connect}`: seconds from giving the request away to the connection, with three decimals.
    UpstreamConnect,
    /// `{upstream_header}`: to the first byte of the response.
    UpstreamHeader,
    /// `{upstream_response}`: to its last byte.
    UpstreamResponse,
    /// `{header.X}`: a field of the request; its name.
    Header(String),
}

impl LogField {
    /// All but `{header.X}`.
    const KNOWN: [(&str, LogField); 27] = [
        ("remote", LogField::Remote),
        ("host", LogField::Host),
        ("request", LogField::Request),
        ("method", LogField::Method),
        ("target", LogField::Target),
        ("path", LogField::Path),
        ("query", LogField::Query),
        ("version", LogField::Version),
        ("status", LogField::Status),
        ("body_bytes", LogField::BodyBytes),
        ("duration", LogField::Duration),
        ("duration_us", LogField::DurationUs),
        ("time", LogField::Time),
        ("time_iso", LogField::TimeIso),
        ("user", LogField::User),
        ("referer", LogField::Referer),
        ("user_agent", LogField::UserAgent),
        ("request_id", LogField::RequestId),
        ("pool", LogField::Pool),
        ("queue_us", LogField::QueueUs),
        ("cache", LogField::Cache),
        ("upstream", LogField::Upstream),
        ("upstream_status", LogField::UpstreamStatus),
        ("upstream_attempts", LogField::UpstreamAttempts),
        ("upstream_connect", LogField::UpstreamConnect),
        ("upstream_header", LogField::UpstreamHeader),
        ("upstream_response", LogField::UpstreamResponse),
    ];

    fn of(name: &str) -> Option<LogField> {
        if let Some(field) = name.strip_prefix("header.") {
            return is_token(field).then(|| LogField::Header(field.to_owned()));
        }
        LogField::KNOWN.iter().find(|(known, _)| *known == name).map(|(_, field)| field.clone())
    }
}

/// Cuts a format at its placeholders.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parts(text: &str) -> Result<Vec<LogPart>, String> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((before, from)) = rest.split_once('{') {
        let (name, after) =
            from.split_once('}').ok_or("a placeholder has no end: `{` stands only at the start of one")?;
        if !before.is_empty() {
            parts.push(LogPart::Text(before.to_owned()));
        }
        parts.push(LogPart::Field(LogField::of(name).ok_or_else(|| {
            let known: Vec<String> = LogField::KNOWN.iter().map(|(name, _)| format!("{{{name}}}")).collect();
            format!("there is no `{{{name}}}`: the placeholders are {} and {{header.NAME}}", known.join(", "))
        })?));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(LogPart::Text(rest.to_owned()));
    }
    match parts {
        _ if text.contains(char::is_control) => Err("a line has no control characters".into()),
        parts if parts.len() > PARTS_MAX => Err(format!("it has more than {PARTS_MAX} parts")),
        parts => Ok(parts),
    }
}

/// `[access_log.NAME]`
pub(super) const ACCESS_LOG: Table = Table {
    title: "[access_log.NAME]",
    doc: "An access log besides that of `[log]`. Sites and routes name it in `access_log`, and their requests are then in this one \
          only. At most 16. See [access logs](logs.md).",
    example: "[access_log.shop]\nto = \"/var/log/maitred/shop.log\"\n\
              format = '{remote} {host} \"{request}\" {status} {body_bytes} {duration} \"{header.X-Tenant}\"'\n\n\
              [[site]]\nroot = \"/srv/www\"\naccess_log = \"shop\"\n",
    keys: &[
        Key::new(
            "to",
            Kind::Text(
                "a path, `\"stdout\"`, `\"journald\"`, `\"syslog\"`, `\"syslog:/path/of/socket\"` or `\"syslog://192.0.2.1:514\"`",
            ),
            Default::Required,
            "Where its lines go. A relative path starts at the configuration file. `\"syslog\"` is the socket `/dev/log`; with an \
             address, messages of RFC 5424 go there by UDP. To both, facility and severity are local7 and info.",
        ),
        Key::new(
            "format",
            Kind::Text("`\"combined\"`, `\"json\"`, `\"human\"`, or a text with placeholders"),
            Default::Text("combined"),
            "What a line looks like: one of the formats of `[log]`, or a text of your own, such as `{remote} \"{request}\" {status}`. \
             [Access logs](logs.md#formats) lists the placeholders. What is unknown is `-`, and bytes that could end a line or a \
             quotation are escaped.",
        ),
        Key::new(
            "fields",
            Kind::Map("name = text with placeholders"),
            Default::Absent("none"),
            "With `format = \"json\"`: further members of each object.",
        ),
        Key::new(
            "sample",
            Kind::Whole { min: 1, max: 1_000_000 },
            Default::Whole(1),
            "One of so many requests has a line. Those with a status of 500 and above always have.",
        ),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_cut_at_its_placeholders() {
        let field = LogPart::Field;
        let text = |text: &str| LogPart::Text(text.into());
        let parsed =
            vec![field(LogField::Remote), text(" \""), field(LogField::Header("X-A".into())), text("\"")];
        assert_eq!(parts("{remote} \"{header.X-A}\""), Ok(parsed));
        assert_eq!(parts("x"), Ok(vec![text("x")]));
        for (wrong, why) in [
            ("{remote", "has no end"),
            ("{nothing}", "there is no `{nothing}`"),
            ("{header.a b}", "there is no"),
            ("a\nb", "control characters"),
        ] {
            let found = parts(wrong).expect_err(wrong);
            assert!(found.contains(why), "{wrong}: {found}");
        }
        assert!(parts(&"{status} ".repeat(PARTS_MAX)).is_err_and(|why| why.contains("more than")));
    }
}
