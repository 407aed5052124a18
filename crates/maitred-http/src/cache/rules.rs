//! The operator's word about a route.

/// What the operator says for a route. All times are seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// A response that says nothing of its lifetime gets one by its `Last-Modified` (9111-4.2.2). Off by default.
    pub heuristic: bool,
    /// The lifetime of a response that says nothing of its own, if its status may be stored without saying so
    /// ([`is_heuristically_cacheable`](super::is_heuristically_cacheable)).
    pub default_ttl: Option<u32>,
    /// The same for statuses, whichever they are; these come before `default_ttl`. The first that fits counts.
    pub ttl_by_status: Box<[StatusTtl]>,
    /// Takes the place of whatever lifetime a response says, or has by the other rules. `no-store`, `private` and `no-cache`
    /// still count, unless directives are ignored altogether.
    pub override_ttl: Option<u32>,
    /// For responses that have no `stale-while-revalidate` of their own.
    pub stale_while_revalidate: Option<u32>,
    /// For responses that have no `stale-if-error` of their own.
    pub stale_if_error: Option<u32>,
    /// Responses with `Set-Cookie` are stored, the field included.
    pub store_set_cookie: bool,
    /// Responses to requests with `Authorization` are stored as others are, even if they do not allow that (9111-3.5).
    pub store_authorization: bool,
    /// `Cache-Control`, its targeted forms, `Expires` and `Pragma` of responses count for nothing.
    pub ignore_response_directives: bool,
    /// `Cache-Control` and `Pragma` of requests count for nothing: clients cannot make the cache ask its server.
    pub ignore_request_directives: bool,
    /// `Accept-Language` in [`Vary`](super::Vary) is taken for a set with weights, without regard to the order and case of its
    /// tags.
    pub normalise_language: bool,
    /// Names of targeted fields that this cache follows instead of `Cache-Control`, the most specific one first (9213-2.2).
    pub targets: Box<[Box<str>]>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            heuristic: false,
            default_ttl: None,
            ttl_by_status: Box::default(),
            override_ttl: None,
            stale_while_revalidate: None,
            stale_if_error: None,
            store_set_cookie: false,
            store_authorization: false,
            ignore_response_directives: false,
            ignore_request_directives: false,
            normalise_language: false,
            targets: Box::new(["CDN-Cache-Control".into()]),
        }
    }
}

/// A lifetime for statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusTtl {
    /// The first status that has it.
    pub from: u16,
    /// The last one.
    pub to: u16,
    /// In seconds.
    pub ttl: u32,
}
