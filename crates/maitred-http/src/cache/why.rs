//! Reasons, for those who ask why something was not stored.

/// Why a request or response has nothing to do with the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Another method than GET and HEAD.
    Method,
    /// The request has content.
    RequestContent,
    /// `If-Match` or `If-Unmodified-Since`.
    Precondition,
    /// `no-store` of the request.
    RequestNoStore,
    /// The request asks for another protocol.
    Upgrade,
    /// The request asks the application to take it for one of another method.
    Override,
    /// The response to a HEAD has no content to store.
    Head,
    /// An interim response.
    Interim,
    /// 206.
    Partial,
    /// 304.
    NotModified,
    /// What answered a request with `Range` is not what answers one without.
    Range,
    /// A status beyond those of HTTP.
    Beyond,
    /// `must-understand` with a status that is not known.
    NotUnderstood,
    /// `no-store` of the response.
    NoStore,
    /// `private`.
    Private,
    /// A request with `Authorization`, and a response that does not allow it.
    Authorization,
    /// `Set-Cookie`.
    SetCookie,
    /// `Vary: *`, or too many names in it.
    Vary,
    /// The response does not say how long it is good.
    NoLifetime,
    /// The response is stale already, and has nothing to be validated by.
    Stale,
}

impl Why {
    /// In plain English.
    pub fn text(self) -> &'static str {
        match self {
            Why::Method => "only GET and HEAD are answered from the cache",
            Why::RequestContent => "the request has content",
            Why::Precondition => {
                "the request has If-Match or If-Unmodified-Since, which only its server can judge"
            }
            Why::RequestNoStore => "the request says no-store",
            Why::Upgrade => "the request asks for another protocol",
            Why::Override => "the request says that it stands for another method (X-HTTP-Method-Override)",
            Why::Head => "the response to HEAD has no content",
            Why::Interim => "interim responses are not stored",
            Why::Partial => "partial responses (206) are not stored",
            Why::NotModified => "a 304 is about a response that is not stored",
            Why::Range => "the response is about the Range of its request",
            Why::Beyond => "the status is none of HTTP (600 to 999)",
            Why::NotUnderstood => "the response says must-understand, and its status is not known",
            Why::NoStore => "the response says no-store",
            Why::Private => "the response says private",
            Why::Authorization => {
                "the request has Authorization, and the response does not say public, s-maxage or must-revalidate"
            }
            Why::SetCookie => "the response sets a cookie",
            Why::Vary => "the response varies with everything (Vary: *)",
            Why::NoLifetime => "the response does not say how long it is good",
            Why::Stale => "the response is stale already, and has neither ETag nor Last-Modified",
        }
    }
}
