//! The admin address: status, metrics, and commands of the operator for the master.

use std::net::IpAddr;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use maitred_http::fields::FieldLines;
use maitred_http::h1::{self, Persistence};
use maitred_http::request::{Method, Request, Version};
use maitred_http::response::ResponseHead;
use rustix::net::sockopt::socket_peercred;

use super::{Requests, cache_commands, upstreams};
use crate::clients::answer::CONFIG_PATH;
use crate::connection::table::Phase;
use crate::connection::wire::Then;
use crate::connection::{After, State};
use crate::keys::{ConnId, ConnKey};
use crate::shared::Outgoing;
use crate::step::{RequestInput, Step};
use maitred_config::{AdminAddress, Pool};
use maitred_control::servers::UpstreamCommand;
use maitred_control::{Command, ConfigCommand, Document, PoolCommand};
use maitred_files::exchange::{Decision, Field};
use maitred_files::fixed::Reply;
use maitred_status::{metrics, page};

/// The answer to a client that may not send commands.
const NO_TOKEN: &str = "403 Forbidden\nCommands by TCP are off: set `admin_token` in [server], or a Unix socket as `admin`; \
                        signals to the master do the same.\n";

const WRONG_TOKEN: &str =
    "403 Forbidden\nCommands by TCP take the token that is in the file `admin_token` of [server].\n";

const NOT_OPERATOR: &str = "403 Forbidden\nOnly root and the account that started the server command it.\n";

/// How long the master may be silent about a command. The master reports repeatedly what a reload waits for, so a master that
/// is silent does not work on it.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// The field of an interim answer (100) to a command. Not 102, which would be right: clients have to accept any 1xx (RFC 9110
/// section 15.2), but Python's client skips only 100.
const PROGRESS: &[u8] = b"Maitred-Progress";

/// The status is of this moment.
const NO_STORE: Field<'static> = Field::new("Cache-Control", "no-store");

/// Whether `Host` names this machine itself: nothing, `localhost`, or a loopback address, with or without a port. Any other name
/// may belong to an attacker, who lets it point here once a page is loaded from it (DNS rebinding).
pub(crate) fn is_local(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.is_empty()
        || host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// What `/pool/NAME/restart`, `/pool/NAME/canary/N`, `/pool/NAME/drain/SLOT` and `/pool/NAME/scale/N` mean; the master checks
/// whether there is such a pool.
pub(crate) fn pool_command(path: &str) -> Option<Command> {
    let (name, wanted) = path.strip_prefix("/pool/")?.split_once('/')?;
    let number =
        |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
    let wanted = match wanted.split_once('/') {
        None if wanted == "restart" => PoolCommand::Restart,
        Some(("canary", count)) => PoolCommand::Canary(number(count)?),
        Some(("drain", slot)) => PoolCommand::Drain(number(slot)?),
        Some(("scale", workers)) => PoolCommand::Scale(number(workers)?),
        _ => return None,
    };
    Pool::is_name(name).then(|| Command::Pool(name.to_owned(), wanted))
}

/// The command that a target stands for.
fn command(path: &str, query: Option<&str>) -> Option<Result<Command, String>> {
    match path {
        "/reload" => Some(Ok(Command::Reload)),
        "/stop" => Some(Ok(Command::Stop)),
        "/upgrade" => Some(Ok(Command::Upgrade)),
        _ => pool_command(path).map(Ok).or_else(|| upstreams::command(path, query)),
    }
}

/// What is asked of the master without that anything changes.
fn question(path: &str) -> Option<Command> {
    if path == CONFIG_PATH {
        return Some(Command::Config(ConfigCommand::Show));
    }
    let name = path.strip_prefix("/upstreams/")?;
    Pool::is_name(name).then(|| Command::Upstream(name.to_owned(), UpstreamCommand::List))
}

impl Requests {
    /// Answers on the admin listener.
    pub(crate) fn answer_admin(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Step {
        if !is_local(request.authority) {
            return self.refuse_host(index, request, given);
        }
        if let Some(asked) = cache_commands::asked(request) {
            return self.ask_about_cache(index, request, given, asked);
        }
        let asked = match request.method {
            Method::Post => command(request.path, request.query),
            Method::Get => question(request.path).map(Ok),
            _ if matches!(given.routed.decision, Decision::Configure) => {
                return self.configure(index, request, given);
            }
            _ => None,
        };
        match asked {
            Some(Ok(command)) => self.ask_master(index, request, given, command, None),
            Some(Err(why)) => {
                let text = format!("400 Bad Request\n{why}\n");
                self.admin_reply(index, request, 400, "text/plain; charset=utf-8", &text, given)
            }
            None => self.answer_page(index, request, given),
        }
    }

    /// What there is to read, and what is wrong with all other requests.
    fn answer_page(&mut self, index: ConnKey, request: &Request<'_, '_>, given: RequestInput<'_>) -> Step {
        match (request.method, request.path) {
            (Method::Get | Method::Head, "/") => {
                let location = Field::new("Location", "/status");
                self.plain_error(index, request, given, 302, &[location])
            }
            (Method::Get | Method::Head, "/status") => self.admin_page(index, request, given),
            (Method::Get, "/status/events") => self.stream_status(index, request, given),
            (Method::Get | Method::Head, "/status.json") => {
                let text = self.status_json();
                self.admin_reply(index, request, 200, "application/json", &text, given)
            }
            (Method::Get | Method::Head, "/metrics") => {
                let text = self.shared.metrics(self.clock.unix_secs);
                self.admin_reply(index, request, 200, metrics::CONTENT_TYPE, &text, given)
            }
            (Method::Get | Method::Head, "/status/history.json") => {
                let text = self.shared.history(self.clock.unix_secs);
                self.admin_reply(index, request, 200, "application/json", &text, given)
            }
            (_, "/status/events") => {
                self.plain_error(index, request, given, 405, &[Field::new("Allow", "GET")])
            }
            (_, "/" | "/status" | "/status.json" | "/status/history.json" | "/metrics") => {
                self.plain_error(index, request, given, 405, &[Field::new("Allow", "GET, HEAD")])
            }
            (_, CONFIG_PATH) => {
                self.plain_error(index, request, given, 405, &[Field::new("Allow", "GET, PUT")])
            }
            (_, cache_commands::SHOW) => {
                self.plain_error(index, request, given, 405, &[Field::new("Allow", "GET")])
            }
            (_, cache_commands::PURGE) => {
                self.plain_error(index, request, given, 405, &[Field::new("Allow", "POST")])
            }
            (_, path) if question(path).is_some() => {
                self.plain_error(index, request, given, 405, &[Field::new("Allow", "GET")])
            }
            (_, path) if command(path, request.query).is_some() => {
                self.plain_error(index, request, given, 405, &[Field::new("Allow", "POST")])
            }
            _ => self.plain_error(index, request, given, 404, &[]),
        }
    }

    /// A command goes to the master, if the client may give it one; the connection waits for the answer.
    pub(super) fn ask_master(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        command: Command,
        text: Option<Box<str>>,
    ) -> Step {
        if let Some(refused) = self.refuse_command(index, request, given) {
            return refused;
        }
        let connection = self.id(index);
        let interim = request.version != Version::Http10;
        let asked = Outgoing::Ask { command, thread: self.number, connection, interim, text };
        self.shared.outbox.send(asked);
        self.await_answer(index)
    }

    /// The connection waits until a command is carried out, or a question is answered.
    pub(super) fn await_answer(&mut self, index: ConnKey) -> Step {
        self.enter(index, State::Command);
        self.arm_in(index, COMMAND_TIMEOUT);
        Step::Waits
    }

    /// What becomes of a command that is not carried out: its client may not give it one, or an earlier answer is on its way.
    pub(super) fn refuse_command(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
    ) -> Option<Step> {
        // A page in a browser on this machine can send a POST to a loopback address, but not without naming itself.
        if request.fields.iter().any(|field| field.name.eq_ignore_ascii_case("origin")) {
            return Some(self.plain_error(index, request, given, 403, &[]));
        }
        if let Err(why) = self.may_command(index, request) {
            return Some(self.admin_reply(
                index,
                request,
                403,
                "text/plain; charset=utf-8",
                why,
                RequestInput { last: true, ..given },
            ));
        }
        (!self.buffers.tx.is_empty()).then_some(Step::FlushFirst)
    }

    /// Whether the client may send commands: over the Unix socket if it is root or the account of the master, by its credentials
    /// (`SO_PEERCRED`, unix(7)); over TCP, which every local user and every application can reach, if it has the token.
    fn may_command(&self, index: ConnKey, request: &Request<'_, '_>) -> Result<(), &'static str> {
        let start = &self.shared.start;
        if let Some(AdminAddress::Tcp(_)) = start.config.server.admin {
            let Some(token) = &start.admin_token else { return Err(NO_TOKEN) };
            let mut said =
                request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("authorization"));
            let said = said.next().and_then(|field| field.value.strip_prefix(b"Bearer "));
            let right = said.is_some_and(|said| verify_slices_are_equal(said, &token.0).is_ok());
            return if right { Ok(()) } else { Err(WRONG_TOKEN) };
        }
        let socket = self.connections.get(index).and_then(|connection| connection.socket.as_ref());
        let peer = socket.and_then(|socket| socket_peercred(socket).ok()).map(|peer| peer.uid.as_raw());
        match peer {
            Some(uid) if uid == 0 || uid == start.master_uid => Ok(()),
            _ => Err(NOT_OPERATOR),
        }
    }

    /// The page; its content security policy says what it may do.
    fn admin_page(&mut self, index: ConnKey, request: &Request<'_, '_>, given: RequestInput<'_>) -> Step {
        let reply = Reply {
            status: 200,
            fields: &[
                NO_STORE,
                Field::new("Content-Security-Policy", page::POLICY),
                Field::new("X-Content-Type-Options", "nosniff"),
                Field::new("Referrer-Policy", "no-referrer"),
            ],
            content_type: page::CONTENT_TYPE,
            body: page::PAGE.as_bytes(),
        };
        self.reply(index, request, given, |writer| reply.write(writer))
    }

    /// A name in `Host` that any owner of a domain can point at this machine: for a browser, a page of that domain would have the
    /// same origin as this server.
    fn refuse_host(&mut self, index: ConnKey, request: &Request<'_, '_>, given: RequestInput<'_>) -> Step {
        let body =
            "421 Misdirected Request\nThe admin address answers for localhost and loopback addresses only.\n";
        let given = RequestInput { last: true, ..given };
        self.admin_reply(index, request, 421, "text/plain; charset=utf-8", body, given)
    }

    pub(super) fn admin_reply(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        status: u16,
        content_type: &str,
        body: &str,
        given: RequestInput<'_>,
    ) -> Step {
        let reply = Reply { status, fields: &[NO_STORE], content_type, body: body.as_bytes() };
        self.reply(index, request, given, |writer| reply.write(writer))
    }

    /// The master reports what a command waits for. The client gets that too, if it accepts interim responses.
    pub(crate) fn on_command_waits(&mut self, connection: ConnId, interim: bool, text: &str) {
        let index = connection.key;
        if !self.is_current(connection) || !self.connections[index].is(Phase::Command) {
            return;
        }
        self.arm_in(index, COMMAND_TIMEOUT);
        if !interim {
            return;
        }
        let line: String = text.chars().filter(|char| !char.is_control()).collect();
        let mut fields = FieldLines::default();
        fields.push(PROGRESS, line.as_bytes());
        let mut head = Vec::new();
        h1::put_interim(&ResponseHead::own(100, fields.all()), &mut head);
        // The socket takes it, unless the other side reads nothing at all.
        if self.send(index, &head, Then::Perhaps) != Ok(head.len()) {
            self.abort(index);
        }
    }

    /// The master has answered a command.
    pub(crate) fn on_command_done(&mut self, connection: ConnId, well: bool, text: &str) {
        let index = connection.key;
        if self.is_current(connection) && self.connections[index].is(Phase::Command) {
            self.end_command(index, if well { 200 } else { 409 }, text);
        }
    }

    /// The master has answered a command with a document.
    pub(crate) fn on_command_document(&mut self, connection: ConnId, document: &Document) {
        let index = connection.key;
        if !self.is_current(connection) || !self.connections[index].is(Phase::Command) {
            return;
        }
        let (status, content_type) = (document.status, &document.content_type);
        let tag = document.etag.as_deref().map(|tag| Field::new("ETag", tag));
        let fields: Vec<Field<'_>> = std::iter::once(NO_STORE).chain(tag).collect();
        self.end_with(
            index,
            &Reply { status, fields: &fields, content_type, body: document.text.as_bytes() },
        );
    }

    /// Answers a command, and closes: a client sends one command per connection.
    pub(crate) fn end_command(&mut self, index: ConnKey, status: u16, text: &str) {
        let body = format!("{text}\n");
        let content_type = "text/plain; charset=utf-8";
        self.end_with(index, &Reply { status, fields: &[], content_type, body: body.as_bytes() });
    }

    fn end_with(&mut self, index: ConnKey, reply: &Reply<'_>) {
        let status = reply.status;
        let context = self.context_of(index, self.shared.router.admin_plan(), Persistence::Close, false);
        let (_, mut writer) = self.files_and_writer(index, context);
        reply.write(&mut writer);
        let plan = self.shared.router.admin_plan();
        self.count(index, plan, status);
        self.enter(index, State::Idle);
        self.send_joined(index, Some(After::Close));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{client, reactor, shared_with, with_request};
    use maitred_base::pki::Bytes;

    #[test]
    fn paths_of_pool_commands_are_strict() {
        let asked = |wanted| Some(Command::Pool("we_b-1".to_owned(), wanted));
        assert_eq!(pool_command("/pool/we_b-1/restart"), asked(PoolCommand::Restart));
        assert_eq!(pool_command("/pool/we_b-1/canary/2"), asked(PoolCommand::Canary(2)));
        assert_eq!(pool_command("/pool/we_b-1/drain/0"), asked(PoolCommand::Drain(0)));
        assert_eq!(pool_command("/pool/we_b-1/scale/65535"), asked(PoolCommand::Scale(65535)));
        for path in [
            "/pool/web",
            "/pool/web/",
            "/pool//restart",
            "/pool/web/restart/",
            "/pool/web/restart/1",
            "/pool/web/drain",
            "/pool/web/drain/",
            "/pool/web/drain/+1",
            "/pool/web/drain/-1",
            "/pool/web/scale/65536",
            "/pool/web/scale/1/2",
            "/pool/web/remove",
            "/pool/w%65b/restart",
            "/pool/../reload",
            "/pools/web/restart",
        ] {
            assert_eq!(pool_command(path), None, "{path}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in ["", "localhost", "LocalHost:80", "127.0.0.1", "127.3.2.1:9180", "[::1]", "[::1]:9180"] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "example.com",
            "example.com:9180",
            "localhost.example.com",
            "127.0.0.1.example.com",
            "192.0.2.1",
            "[2001:db8::1]:80",
            "0.0.0.0",
            "admin",
            "localhost:80:80",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }

    /// Whether a request over TCP with these fields may command.
    fn may_command(token: Option<&str>, fields: &[&str]) -> Result<(), &'static str> {
        let shared = shared_with("[server]\nadmin = \"127.0.0.1:9180\"\n", 1, |shared| {
            shared.start.admin_token = token.map(|token| Bytes(token.as_bytes().to_vec()));
        });
        let mut thread = reactor(shared, 0);
        let (index, _far_end) = client(&mut thread, "127.0.0.1:1");
        let may = with_request("POST /stop HTTP/1.1", fields, |request| thread.may_command(index, request));
        thread.close(index);
        may
    }

    #[test]
    fn over_tcp_the_whole_token_commands_and_nothing_else() {
        assert_eq!(may_command(Some("s3cret"), &["authorization: Bearer s3cret"]), Ok(()));
        for fields in [
            &[][..],
            &["Authorization: Bearer s3cre"],
            &["Authorization: Bearer s3crets"],
            &["Authorization: Bearer S3cret"],
            &["Authorization: Bearer  s3cret"],
            &["Authorization: Bearer"],
            &["Authorization: Basic s3cret"],
            &["Authorization: s3cret"],
            &["X-Authorization: Bearer s3cret"],
            // The first one counts, as for every reader that looks for one.
            &["Authorization: Bearer x", "Authorization: Bearer s3cret"],
        ] {
            assert_eq!(may_command(Some("s3cret"), fields), Err(WRONG_TOKEN), "{fields:?}");
        }
        assert_eq!(
            may_command(None, &["Authorization: Bearer "]),
            Err(NO_TOKEN),
            "without a token commands are off"
        );
    }

    #[test]
    fn over_a_unix_socket_the_kernel_names_the_account() {
        let own = rustix::process::getuid().as_raw();
        for (master_uid, is_operator) in [(own, true), (own + 1, own == 0)] {
            let shared = shared_with("[server]\nadmin = \"unix:/run/m.sock\"\n", 1, |shared| {
                shared.start.master_uid = master_uid;
            });
            let mut thread = reactor(shared, 0);
            let (index, _far_end) = client(&mut thread, "unix");
            let may = |thread: &Requests| {
                with_request("POST /stop HTTP/1.1", &["Authorization: Bearer x"], |request| {
                    thread.may_command(index, request)
                })
            };
            assert_eq!(may(&thread).is_ok(), is_operator, "{own} commands what {master_uid} has started");
            let socket = thread.connections[index].socket.take();
            assert_eq!(may(&thread), Err(NOT_OPERATOR), "without a socket nothing is known of the peer");
            thread.connections[index].socket = socket;
            thread.close(index);
        }
    }
}
