//! What tests of everything that answers need.

use maitred_http::request::{Framing, Known, Method, Request, Version};

/// A request for `/` without any fields.
pub(super) fn request(method: Method) -> Request<'static, 'static> {
    Request {
        method,
        method_text: "GET",
        version: Version::Http11,
        target: "/",
        path: "/",
        query: None,
        authority: "localhost",
        https: false,
        fields: &[],
        framing: Framing::None,
        keep_alive: true,
        expects_continue: false,
        upgrade: false,
        known: Known::default(),
    }
}
