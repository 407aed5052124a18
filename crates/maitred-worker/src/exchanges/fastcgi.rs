//! Requests to FastCGI applications, and what comes back: records, which `maitred_http::fastcgi` encodes and decodes.
//!
//! | what comes | what becomes of it |
//! |---|---|
//! | `STDOUT` | its header is checked, and goes to the client's `Filter`; so does the content after it |
//! | `STDERR` | lines for the error log, `MESSAGE_BYTES_MAX` of a request |
//! | an empty `STDOUT`, or `END_REQUEST` | the response is complete; the end of the stream is not waited for |
//! | `END_REQUEST` with another status than 0 | `Failed::Overloaded`: nothing was done; or `Failed::Bad` |
//! | the end of the stream before that | `Failed::Bad`: the response is not whole |
//! | anything after the end, an error of the socket as well | nothing: php-fpm closes its side before it has read everything |
//!
//! `Location` without `Status` and with a path alone (a local redirect, RFC 3875 section 6.2.2) is passed on as 302, as nginx
//! does.
//!
//! A request has a connection of its own: the application closes it at the end. php-fpm keeps one process for each connection
//! that is open, idle or not.

use maitred_http::fields::FieldLines;
use maitred_http::request::Framing;

use super::Exchanges;
use crate::clients::forwarded::Outbound;
use crate::forward::content_length;
use crate::origin::Client;
use crate::step::RequestInput;
use crate::upstream::fastcgi::{Asked, write_request};
use maitred_config::{Address, FastCgi, Pool};
use maitred_files::RequestContext;
use maitred_policy::target::Target;

impl Exchanges {
    /// The request as an application gets it, without a body that is spooled.
    ///
    /// # Errors
    /// The status to answer with.
    pub(crate) fn write_fastcgi(
        &mut self,
        index: u32,
        (settings, fastcgi): (&Pool, &FastCgi),
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Result<Vec<u8>, u16> {
        let request = context.request;
        let id = self.forwarded.next_id();
        let across = self.exchange(index).dispatch.begin_outbound(id);
        let peer = &self.connections[index as usize].peer();
        let target = Target::routed(request, given.routed.plan.slashes).for_pool(settings, context.path);
        let client = &Client::of(request, peer, &self.shared.start.config.server.trusted_proxies);
        let mut fields = FieldLines::default();
        let rules = &given.routed.plan.requests;
        let outbound = Outbound {
            request,
            rules,
            settings,
            // Where the client names none, the application has no HTTP_HOST.
            default_host: "",
            switch: None,
            peer,
            client,
            id,
            tls_fields: across.as_deref().map_or(&[], |across| &across.fields),
        };
        let _ = self.append_outbound(index, &mut fields, outbound);
        self.exchange(index).dispatch.across = across;
        let spool = self.exchange_of(index).and_then(|exchange| exchange.body.spool.as_deref());
        let passes = self.passes_body(index);
        let asked = Asked {
            context,
            target: &target,
            host: rules
                .host
                .as_deref()
                .and_then(|host| std::str::from_utf8(host).ok())
                .unwrap_or(request.authority),
            settings: fastcgi,
            mount: &settings.mount,
            script: given.script,
            client,
            local: self.arrival(index).local().and_then(Address::inet),
            fields: &fields,
            user: self.identity(index).user(),
            content_length: match (spool, request.framing) {
                (Some(spool), _) => Some(spool.bytes),
                (None, Framing::Length(length)) if passes => Some(length),
                (None, _) => content_length(request, given.body),
            },
            length_sent: request.framing != Framing::Chunked,
        };
        let mut out = Vec::with_capacity(given.head.len() + given.body.len() + 2048);
        let inline = (spool.is_none() && !passes).then_some(given.body);
        write_request(&mut out, &asked, inline).map_or(Err(431), |()| Ok(out))
    }
}
