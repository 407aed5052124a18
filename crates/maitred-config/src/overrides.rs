//! What is said for the whole server, and otherwise for a site or a route: limits, `server_header`, `access_log`,
//! `request_buffering`, `response_buffering`, `grpc_web`, `mirror`, `delay`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};
use super::limits::{GIB, TIME_MAX, TIME_MIN};
use super::mirror::MirrorChoice;
use super::response_buffering::ResponseBuffering;

/// `limits` of a site or a route. What is `None` is as it is for all around it: of a route its site, of a site the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitOverrides {
    /// `body_bytes_max`
    pub body_bytes_max: Option<u64>,
    /// `body_memory_bytes_max`
    pub body_memory_bytes_max: Option<u64>,
    /// `body_timeout`
    pub body_timeout: Option<Duration>,
    /// `body_bytes_per_second_min`; 0 is no minimum.
    pub body_bytes_per_second_min: Option<u32>,
    /// `write_timeout`
    pub write_timeout: Option<Duration>,
    /// `keep_alive_timeout`: of the connection, after the request.
    pub keep_alive_timeout: Option<Duration>,
    /// `request_timeout`, instead of the pool's.
    pub request_timeout: Option<Duration>,
    /// `request_total_timeout`, instead of the pool's.
    pub request_total_timeout: Option<Duration>,
    /// `response_bytes_per_second_max`; 0 is any number.
    pub response_bytes_per_second_max: Option<u64>,
    /// `response_burst_bytes`: at full speed, before that.
    pub response_burst_bytes: Option<u64>,
}

impl LimitOverrides {
    /// The limits of `self`, and where they say nothing, those of `around`.
    #[must_use]
    pub(crate) fn or(self, around: LimitOverrides) -> LimitOverrides {
        LimitOverrides {
            body_bytes_max: self.body_bytes_max.or(around.body_bytes_max),
            body_memory_bytes_max: self.body_memory_bytes_max.or(around.body_memory_bytes_max),
            body_timeout: self.body_timeout.or(around.body_timeout),
            body_bytes_per_second_min: self.body_bytes_per_second_min.or(around.body_bytes_per_second_min),
            write_timeout: self.write_timeout.or(around.write_timeout),
            keep_alive_timeout: self.keep_alive_timeout.or(around.keep_alive_timeout),
            request_timeout: self.request_timeout.or(around.request_timeout),
            request_total_timeout: self.request_total_timeout.or(around.request_total_timeout),
            response_bytes_per_second_max: self
                .response_bytes_per_second_max
                .or(around.response_bytes_per_second_max),
            response_burst_bytes: self.response_burst_bytes.or(around.response_burst_bytes),
        }
    }

    /// Whether responses may leave only so fast.
    #[inline]
    pub fn is_throttled(&self) -> bool {
        self.response_bytes_per_second_max.is_some_and(|rate| rate > 0)
    }
}

/// `access_log` of a site or a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogChoice {
    /// `false`: its requests are in no access log.
    Off,
    /// `true`: they are in that of `[log]`, whatever the site says.
    Main,
    /// A name: they are in this one of `[access_log.NAME]`, as an index into `Config::access_logs`.
    Named(u8),
}

/// `request_buffering`: when the body of a request goes to what answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Buffering {
    /// `auto`: to an HTTP server as it comes, if it is too long for memory; otherwise when all of it is there.
    #[default]
    Auto,
    /// `on`: when all of it is there.
    On,
    /// `off`: as it comes, wherever that is possible.
    Off,
}

/// What a site or a route says otherwise than what is around it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    /// `limits`
    pub limits: LimitOverrides,
    /// `access_log`
    pub access_log: Option<LogChoice>,
    /// `server_header`
    pub server_header: Option<bool>,
    /// `request_buffering`
    pub request_buffering: Option<Buffering>,
    /// `response_buffering`
    pub response_buffering: Option<ResponseBuffering>,
    /// `grpc_web`
    pub grpc_web: Option<bool>,
    /// `mirror`
    pub mirror: Option<MirrorChoice>,
    /// `delay`; 0 is none.
    pub delay: Option<Duration>,
}

impl Overrides {
    /// The settings of `self`, and where they say nothing, those of `around`.
    #[must_use]
    pub fn or(self, around: Overrides) -> Overrides {
        Overrides {
            limits: self.limits.or(around.limits),
            access_log: self.access_log.or(around.access_log),
            server_header: self.server_header.or(around.server_header),
            request_buffering: self.request_buffering.or(around.request_buffering),
            response_buffering: self.response_buffering.or(around.response_buffering),
            grpc_web: self.grpc_web.or(around.grpc_web),
            mirror: self.mirror.or(around.mirror),
            delay: self.delay.or(around.delay),
        }
    }
}

/// `limits`
pub(super) const LIMITS_KEY: Key = Key::new(
    "limits",
    Kind::Section(&LIMITS),
    Default::Absent("those around it"),
    "Limits of requests, where they differ from those of `[limits]` and of the pool. A route's come before those of its site.",
);

/// `access_log`
pub(super) const ACCESS_LOG: Key = Key::new(
    "access_log",
    Kind::FlagOrText("the NAME of an `[access_log.NAME]`"),
    Default::Absent("that of `[log]`"),
    "Where its requests are logged: in the access log of this name, in none (`false`), or in that of `[log]` (`true`).",
);

/// `server_header`
pub(super) const SERVER_HEADER: Key = Key::new(
    "server_header",
    Kind::Flag,
    Default::Absent("as in `[server]`"),
    "Whether responses that name no server say `Server: maitred`, also those of application processes.",
);

/// `request_buffering`
pub(super) const REQUEST_BUFFERING: Key = Key::new(
    "request_buffering",
    Kind::Choice(&["auto", "on", "off"]),
    Default::Absent("`auto`"),
    "When the body of a request goes to the pool. `on`: when all of it is there. `off`: as it comes, to HTTP servers, to FastCGI \
     applications if its length is announced, and to application processes whose adapter takes that. `auto`: as it comes to HTTP \
     servers if it is announced to be longer than `body_memory_bytes_max`, and otherwise as with `on`.",
);

/// `grpc_web`
pub(super) const GRPC_WEB: Key = Key::new(
    "grpc_web",
    Kind::Flag,
    Default::Absent("`false`"),
    "Whether calls of gRPC-Web (`application/grpc-web`, `application/grpc-web-text`) to a pool of HTTP/2 become calls of gRPC, and \
     the responses those of gRPC-Web: see [gRPC-Web](grpc.md#grpc-web). Calls from other origins need `cors` as well.",
);

/// The longest `delay`: longer than all timeouts of clients that are worth a test, and shorter than the least that a stop waits
/// for a stream.
const DELAY_MAX: Duration = Duration::from_secs(60);

/// `delay`
pub(super) const DELAY: Key = Key {
    reason: "A minute is longer than clients wait that are worth a test. A delayed request takes its connection, and its head in \
             memory; their number is bounded by `delayed_requests_max`.",
    ..Key::new(
        "delay",
        Kind::Time { min: Duration::ZERO, max: DELAY_MAX },
        Default::Absent("none"),
        "How long each request waits before it is answered or goes on, for tests of what is slow: a file, a fixed response, a \
         pool. With `share` of `match`, a part of the requests. `0`: none, whatever the site says. See \
         [fault injection](routing.md#fault-injection).",
    )
};

const TIME: Kind = Kind::Time { min: TIME_MIN, max: TIME_MAX };
const AROUND: Default = Default::Absent("as in `[limits]`");
const OF_POOL: Default = Default::Absent("that of the pool");

/// `limits`
pub(super) const LIMITS: Table = Table {
    title: "limits",
    doc: "Limits of the requests of a site or a route. What is not given here is as it is around it.",
    example: "[pool.api]\nconnect = \"http://127.0.0.1:3000\"\n\n[[site]]\nlimits = { body_bytes_max = \"1m\" }\n\n\
              [[site.route]]\npath = \"/upload/*\"\npool = \"api\"\n\
              limits = { body_bytes_max = \"2g\", request_timeout = \"10min\" }\n",
    keys: &[
        Key::new(
            "body_bytes_max",
            Kind::Size { min: 0, max: 64 * GIB },
            AROUND,
            "Bytes of a request body. A longer one gets 413. Not more than `bodies_disk_bytes_max` of `[limits]`, unless such bodies \
             go on while they come (`request_buffering`).",
        ),
        Key::new(
            "body_memory_bytes_max",
            Kind::Size { min: 0, max: GIB },
            AROUND,
            "Largest request body that is kept in memory; a larger one goes to `spool`. Not more than `bodies_memory_bytes_max`, and \
             not less than `body_inline_bytes_max`, of `[limits]`.",
        ),
        Key::new("body_timeout", TIME, AROUND, "Between two pieces of a request body. Then 408."),
        Key::new(
            "body_bytes_per_second_min",
            Kind::Whole { min: 0, max: 1_000_000_000 },
            AROUND,
            "The minimal rate of a request body, after `body_rate_grace`. 0: no minimum.",
        ),
        Key::new(
            "write_timeout",
            TIME,
            AROUND,
            "How long a response may make no progress before the connection is closed.",
        ),
        Key::new(
            "keep_alive_timeout",
            TIME,
            AROUND,
            "How long a connection may be idle after a request. The last request that began on it decides, over HTTP/1 and HTTP/2. \
             When memory is short, it is shortened as that of `[limits]` is.",
        ),
        Key::new(
            "request_timeout",
            TIME,
            OF_POOL,
            "How long a process, or an external server, may send nothing of the response.",
        ),
        Key::new(
            "request_total_timeout",
            TIME,
            OF_POOL,
            "How long a process, or an external server, may take for a request and its response.",
        ),
        Key::new(
            "response_bytes_per_second_max",
            Kind::Size { min: 0, max: 64 * GIB },
            Default::Absent("any number"),
            "How fast a response may leave, in bytes a second: each by itself, also on one connection of HTTP/2. A file that is kept in \
             memory (`inline_file_bytes_max`) and other small answers leave at once. 0: any number. It is `limit_rate` of nginx.",
        ),
        Key::new(
            "response_burst_bytes",
            Kind::Size { min: 0, max: 64 * GIB },
            Default::Absent("0"),
            "Bytes of a response that leave at full speed before `response_bytes_per_second_max` holds. It is `limit_rate_after` of \
             nginx.",
        ),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_route_says_comes_before_what_its_site_says() {
        let time = |seconds| Some(Duration::from_secs(seconds));
        let site =
            LimitOverrides { body_bytes_max: Some(1), body_timeout: time(1), ..LimitOverrides::default() };
        let route =
            LimitOverrides { body_bytes_max: Some(2), write_timeout: time(2), ..LimitOverrides::default() };
        let both =
            Overrides { limits: route, access_log: None, server_header: Some(true), ..Overrides::default() }
                .or(Overrides {
                    limits: site,
                    access_log: Some(LogChoice::Off),
                    server_header: Some(false),
                    request_buffering: Some(Buffering::Off),
                    response_buffering: Some(ResponseBuffering::OFF),
                    grpc_web: Some(true),
                    mirror: Some(MirrorChoice::Off),
                    delay: time(3),
                });
        assert_eq!(both.limits.body_bytes_max, Some(2));
        assert_eq!((both.limits.body_timeout, both.limits.write_timeout), (time(1), time(2)));
        assert_eq!((both.access_log, both.server_header), (Some(LogChoice::Off), Some(true)));
        assert_eq!((both.request_buffering, both.grpc_web), (Some(Buffering::Off), Some(true)));
        assert_eq!((both.mirror, both.delay), (Some(MirrorChoice::Off), time(3)));
    }
}
