//! DOC hand_off.rs

use maitred_http::request::{Method, Request, Version};
use maitred_http::response::ResponsePolicy;

use super::Exchanges;
use crate::config::Pool;
use crate::worker::forward::{may_be_informed, protocol, takes_trailers};

impl Exchanges {
    /// What is wanted of the response to a request that does not go to the client's socket by itself. `keep`: the connection
    /// is kept afterwards.
    pub(in crate::worker) fn wanted(
        &self,
        index: u32,
        request: &Request<'_, '_>,
        keep: bool,
        pool: &'static Pool,
    ) -> ResponsePolicy {
        let connection = &self.connections[index as usize];
        ResponsePolicy {
            head_request: request.method == Method::Head,
            http10: request.version == Version::Http10,
            informational: may_be_informed(connection, request, pool),
            trailers: takes_trailers(connection, request),
            framed: connection.is_stream(),
            keep,
            switch: protocol(request, pool),
        }
    }
}
