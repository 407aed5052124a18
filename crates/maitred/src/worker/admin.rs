//! The admin address: status, metrics, and what the operator can ask of the master.

use std::time::Duration;

use maitred_http::request::{Method, Request};

use super::answer::Step;
use super::connection::{After, State};
use super::event_loop::Thread;
use super::shared::Outgoing;
use crate::control::Command;
use crate::serve::Persistence;
use crate::serve::fixed::{Manner, Reply};
use crate::status::metrics;

/// How long the master may take for a command: a reload waits for the new worker process, and it for its applications.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

impl Thread {
    /// Answers on the admin listener.
    pub(super) fn answer_admin(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        persistence: Persistence,
    ) -> Step {
        let command = match (request.method, request.path) {
            (Method::Get | Method::Head, "/status.json") => {
                let text = self.shared.status_json(self.clock.unix_secs);
                return self.admin_reply(index, request, 200, "application/json", &text, persistence);
            }
            (Method::Get | Method::Head, "/metrics") => {
                let text = self.shared.metrics(self.clock.unix_secs);
                return self.admin_reply(index, request, 200, metrics::CONTENT_TYPE, &text, persistence);
            }
            (Method::Post, "/reload") => Command::Reload,
            (Method::Post, "/stop") => Command::Stop,
            (_, "/status.json" | "/metrics") => {
                return self.plain_error(index, request, 405, b"Allow: GET, HEAD\r\n", persistence);
            }
            (_, "/reload" | "/stop") => {
                return self.plain_error(index, request, 405, b"Allow: POST\r\n", persistence);
            }
            _ => return self.plain_error(index, request, 404, b"", persistence),
        };
        // A page in a browser on this machine can send a POST to a loopback address, but not without naming itself.
        if request.fields.iter().any(|field| field.name.eq_ignore_ascii_case("origin")) {
            return self.plain_error(index, request, 403, b"", persistence);
        }
        if !self.tx.is_empty() {
            return Step::FlushFirst;
        }
        let serial = self.connections[index as usize].serial;
        let asked = Outgoing::Ask { command, thread: self.number, index, serial };
        self.shared.outbox.send(asked);
        self.enter(index, State::Command);
        self.wheel.arm(index, self.clock.now + COMMAND_TIMEOUT);
        Step::Waits
    }

    fn admin_reply(
        &mut self,
        index: u32,
        request: &Request<'_, '_>,
        status: u16,
        content_type: &str,
        body: &str,
        persistence: Persistence,
    ) -> Step {
        let manner = Manner {
            clock: &self.clock,
            persistence,
            head_only: request.method == Method::Head,
            server_header: true,
        };
        let reply =
            Reply { status, fields: b"Cache-Control: no-store\r\n", content_type, body: body.as_bytes() };
        let summary = reply.write(&manner, &mut self.tx);
        self.whole(index, request, summary, persistence)
    }

    /// The master has answered a command.
    pub(super) fn on_command_done(&mut self, index: u32, serial: u32, well: bool, text: &str) {
        if self.is_current(index, serial) && self.connections[index as usize].state == State::Command {
            self.end_command(index, if well { 200 } else { 409 }, text);
        }
    }

    /// Answers a command, and closes: whoever asked has nothing more to ask.
    pub(super) fn end_command(&mut self, index: u32, status: u16, text: &str) {
        let body = format!("{text}\n");
        let manner = Manner {
            clock: &self.clock,
            persistence: Persistence::Close,
            head_only: false,
            server_header: true,
        };
        let reply =
            Reply { status, fields: b"", content_type: "text/plain; charset=utf-8", body: body.as_bytes() };
        reply.write(&manner, &mut self.tx);
        self.count(index, status);
        self.enter(index, State::Idle);
        self.send_joined(index, Some(After::Close));
    }
}
