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
//! that is open, idle or not. Until the response is complete in this sense, and not only with its last announced byte, the
//! connection stays open: PHP aborts a script whose connection is closed before it has ended.

use std::borrow::Cow;

use maitred_http::fields::FieldLines;
use maitred_http::request::{Framing, Request};

use super::Exchanges;
use crate::clients::forwarded::Outbound;
use crate::forward::content_length;
use crate::keys::ConnKey;
use crate::origin::{Client, hexadecimal};
use crate::step::RequestInput;
use crate::upstream::fastcgi::{Asked, write_request};
use maitred_config::{Address, FastCgi, Pool, Template};
use maitred_files::RequestContext;
use maitred_policy::plan::Plan;
use maitred_policy::rewrite::put_variable;
use maitred_policy::target::Target;

impl Exchanges {
    /// The request as an application gets it, without a body that is spooled.
    ///
    /// # Errors
    /// The status to answer with.
    pub(crate) fn write_fastcgi(
        &mut self,
        index: ConnKey,
        (settings, fastcgi): (&Pool, &FastCgi),
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Result<Vec<u8>, u16> {
        let request = context.request;
        let new_id = self.forwarded.next_id();
        let (id, across) = self.exchange(index).dispatch.begin_outbound(new_id);
        let peer = &self.connections[index].peer();
        let target = Target::routed(request, given.routed.plan.slashes).for_pool(settings, context.path);
        let client = &Client::of(request, peer, &self.shared.start.config.server.trusted_proxies);
        let (mut fields, rules) = (FieldLines::default(), &given.routed.plan.requests);
        let outbound = Outbound {
            request,
            rules,
            settings,
            // Where the client names none, the application has no HTTP_HOST.
            default_host: "",
            switch: None,
            peer,
            client,
            target: &target,
            id,
            tls_fields: across.as_deref().map_or(&[], |across| &across.fields),
        };
        let _ = self.append_outbound(index, &mut fields, outbound);
        self.exchange(index).dispatch.across = across;
        let spool = self.exchange_of(index).and_then(|exchange| exchange.body.spool.as_deref());
        let passes = self.passes_body(index);
        let uri = request_uri(fastcgi, request, (given.routed.plan, &target));
        let params = self.fastcgi_params(index, &fastcgi.params, request, (&target, client, id));
        let asked = Asked {
            context,
            target: &target,
            uri: &uri,
            host: rules.host_text().unwrap_or(request.authority),
            settings: fastcgi,
            mount: &settings.mount,
            script: given.script,
            client,
            local: self.arrival(index).local().and_then(Address::inet),
            fields: &fields,
            params: &params,
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

    /// The variables of the operator's.
    fn fastcgi_params<'p>(
        &self,
        index: ConnKey,
        params: &'p [(String, Template)],
        request: &Request<'_, '_>,
        (target, client, id): (&str, &Client, u128),
    ) -> Vec<(&'p str, Vec<u8>)> {
        if params.is_empty() {
            return Vec::new();
        }
        let (origin, id) = (|| self.origin(index, request), hexadecimal(id));
        let request_id = client.given_request_id(request).unwrap_or(&id);
        let told = self.told(index, request, (&origin, target, request_id));
        let filled = params.iter().map(|(name, value)| {
            let mut out = Vec::new();
            put_variable(value, &told, &mut out);
            (name.as_str(), out)
        });
        filled.collect()
    }
}

/// `REQUEST_URI`: `target`, or what the client has sent.
fn request_uri<'r>(
    fastcgi: &FastCgi,
    request: &Request<'r, 'r>,
    (plan, target): (&Plan, &'r str),
) -> Cow<'r, str> {
    match fastcgi.uri_as_sent || plan.front_controller.is_some() {
        true => Target::asked(request, plan.slashes).as_asked(),
        false => Cow::Borrowed(target),
    }
}
