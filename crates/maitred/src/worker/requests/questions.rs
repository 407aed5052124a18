//! `forward_auth`: a gate that asks another server, by a sub-request (`exchanges::ask`).

use maitred_http::fields::FieldLines;
use maitred_http::request::Request;

use super::Requests;
use crate::access::forward::{Forward, Meaning};
use crate::exchange::ResponseWriter;
use crate::serve::Summary;
use crate::worker::connection::gated::{Denial, Verdict, Waits};
use crate::worker::connection::refusal::RETRY_SOON;
use crate::worker::connection::table::Phase;
use crate::worker::exchanges::ask::Answer;

impl Requests {
    /// Has another server asked about a request.
    pub(super) fn ask_server(&mut self, index: u32, request: &Request<'_, '_>, forward: &Forward) -> Verdict {
        match self.ask(index, request, forward) {
            Some(key) => {
                self.gated(index).waits =
                    Some(Waits { place: 0, whole: false, question: Some(key), check: None });
                Verdict::Wait
            }
            None => {
                self.log_limited(|| tracing::warn!("503: `forward_auth` could not ask about a request"));
                Verdict::Refuse(Denial::with(503, RETRY_SOON.to_vec()))
            }
        }
    }

    /// Something of an answer to a question has come.
    pub(in crate::worker) fn on_question(&mut self, key: u32, serial: u32) {
        let Some((index, answer)) = self.on_answer(key, serial) else { return };
        let Some(connection) = self.connections.get(index as usize).filter(|found| found.is(Phase::Gate))
        else {
            return;
        };
        let exchange = connection.exchange.as_deref();
        let waits = exchange.and_then(|exchange| exchange.dispatch.gated.as_deref()?.waits.as_ref());
        let routed = exchange
            .and_then(|exchange| exchange.routed)
            .filter(|_| waits.is_some_and(|waits| waits.question == Some(key)));
        let gates = routed.and_then(|routed| routed.plan.gates.as_deref());
        let Some(forward) = gates.and_then(|gates| gates.forward.as_ref()) else { return };
        let verdict = self.judge_answer(index, forward, answer);
        self.on_verdict(index, verdict);
    }

    fn judge_answer(&mut self, index: u32, forward: &Forward, answer: Answer) -> Verdict {
        match Meaning::of(answer.status) {
            Meaning::Admitted => {
                let gated = self.gated(index);
                for (name, value) in answer.fields.all().iter() {
                    let Some(copied) = forward.copies(name) else { continue };
                    gated.fields.push(copied.as_bytes(), value);
                    if forward.names_user(copied) && gated.user.is_none() {
                        gated.user = std::str::from_utf8(value).ok().map(Into::into);
                    }
                }
                Verdict::Pass
            }
            Meaning::PassedOn => {
                let whole = Some(Box::new((answer.fields, answer.content)));
                Verdict::Refuse(Denial { status: answer.status, fields: Vec::new(), answer: whole })
            }
            Meaning::Failed => {
                let (status, pool) = (answer.status, self.shared.pool_name(forward.pool as u16));
                self.base_log(status, pool);
                Verdict::Refuse(Denial::of(if answer.status == 504 { 504 } else { 502 }))
            }
        }
    }

    fn base_log(&mut self, status: u16, pool: &str) {
        self.log_limited(|| match status {
            0 => tracing::warn!(pool, "502: no whole answer to `forward_auth`"),
            _ => tracing::warn!(pool, status, "`forward_auth` was answered with an error"),
        });
    }
}

/// Writes the answer of another server, which refuses a request.
pub(super) fn pass_on(
    status: u16,
    fields: &FieldLines,
    content: &[u8],
    writer: &mut ResponseWriter<'_>,
) -> Summary {
    let has_body = !matches!(status, 204 | 304);
    let sent = if has_body && !writer.head_only() { content } else { b"" };
    writer.make(status, false, sent.is_empty(), |lines| {
        if has_body {
            lines.push_number(b"Content-Length", content.len() as u64);
        }
        lines.extend(fields.all());
    });
    writer.put(sent);
    Summary { status, body_bytes: sent.len() as u64 }
}
