//! `PUT /config` at the admin address: another configuration, as the body of the request.

use std::os::unix::fs::FileExt as _;

use maitred_http::request::Request;

use super::Requests;
use crate::keys::ConnKey;
use crate::step::{RequestInput, Step};
use maitred_control::{Command, ConfigCommand};

const PLAIN: &str = "text/plain; charset=utf-8";

impl Requests {
    /// Sends the configuration of a request to the master.
    pub(super) fn configure(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Step {
        // The body can be taken only once: not before what was answered earlier has left.
        if !self.buffers.tx.is_empty() {
            return Step::FlushFirst;
        }
        let text = match self.whole_body(index, given.body) {
            Ok(text) => text,
            Err(why) => return self.admin_reply(index, request, 400, PLAIN, &why, given),
        };
        let expected = expected(request);
        let command = Command::Config(ConfigCommand::Put { expected });
        self.ask_master(index, request, given, command, Some(text.into_boxed_str()))
    }

    /// The body, from wherever it was kept: it is short, and was written a moment ago.
    fn whole_body(&mut self, index: ConnKey, inline: &[u8]) -> Result<String, String> {
        let bad = |why: &str| format!("400 Bad Request\n{why}\n");
        let exchange = self.connections.get_mut(index).and_then(|found| found.exchange.as_deref_mut());
        let bytes = match exchange.and_then(|exchange| exchange.body.spool.take()) {
            None => inline.to_vec(),
            Some(spool) => {
                let mut bytes = vec![0; usize::try_from(spool.bytes).unwrap_or(0)];
                spool.file.read_exact_at(&mut bytes, 0).map_err(|error| bad(&error.to_string()))?;
                bytes
            }
        };
        if bytes.is_empty() {
            return Err(bad("The body is the configuration: it is empty."));
        }
        String::from_utf8(bytes).map_err(|error| {
            let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
            let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
            bad(&format!("Line {line} is not UTF-8."))
        })
    }
}

/// The entity tags of `If-Match` (RFC 9110 section 13.1.1): none for `*`, or without the field. A weak one never matches:
/// its `W/` is compared as well.
fn expected(request: &Request<'_, '_>) -> Vec<String> {
    let fields = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("if-match"));
    let lists = fields.filter_map(|field| std::str::from_utf8(field.value).ok());
    let tags = lists.flat_map(|list| list.split(',')).map(str::trim).filter(|tag| !tag.is_empty());
    let tags: Vec<String> = tags.map(str::to_owned).collect();
    if tags.iter().any(|tag| tag == "*") { Vec::new() } else { tags }
}
