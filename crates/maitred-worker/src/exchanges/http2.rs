//! Connections of HTTP/2 to servers: few, with the requests of many clients as their streams ([`streams`](super::streams)).
//!
//! | a connection is | it stays so until |
//! |---|---|
//! | connecting: not `open` | TCP, and TLS with HTTP/2 chosen by ALPN; or an error: its requests are sent elsewhere |
//! | greeting: `open`, not `connected` | the server's SETTINGS, which say how many streams it takes |
//! | in use: `connected` | GOAWAY, or any error; the rest of its streams goes on after a GOAWAY |
//! | idle: it has no stream | the next request; `IDLE_TIMEOUT`; drain |
//!
//! Requests wait for the server's settings, so that no stream is opened that the server would refuse. A connection takes up to
//! `STREAMS_AT_ONCE_MAX` of them, or as many as the server says; for more another one is made. A connection belongs to one
//! thread, as all connections to servers.
//!
//! | what ends | what its requests get |
//! |---|---|
//! | the connection could not be made | another server: nothing of them has left |
//! | GOAWAY, and its stream is above the last | `Cause::Unprocessed`: retried, whatever it is (9113-8.7) |
//! | its stream, with REFUSED_STREAM | `Cause::Overloaded`: retried at another server, or 503 |
//! | its stream, with another code | `Cause::Lost`: retried if that is harmless |
//! | the connection | the same for all of them; that is one failure of the server |
//!
//! What is to be sent is put into frames by each stream, and leaves once per turn.

use std::io;

use maitred_http::h2::{Code, Event, STREAMS_AT_ONCE_MAX, Session, StreamKey};
use maitred_http::request::RequestHead;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};

use super::Exchanges;
use crate::keys::{ConnKey, Key, UpstreamId, UpstreamKey};
use crate::upstream::Attempt;
use crate::upstream::connections::{SWEEP_INTERVAL, UpstreamConnection};
use crate::upstream::failure::Cause;
use crate::upstream::http2::{Http2, Inbox, settings};
use maitred_config::Pool;

/// Reads of one connection in one turn, so that the others get their turn.
const READS_PER_TURN: u32 = 8;

/// Bytes that one connection sends in one turn.
const SENT_PER_TURN: usize = 1 << 20;

/// Connections at which something of a response has come.
type Touched = Vec<ConnKey>;

impl Exchanges {
    /// A connection to this server for the request of the client connection at `index`: one that there is, or a new one.
    ///
    /// # Errors
    /// What socket(2) or connect(2) say at once.
    pub(crate) fn join_http2(&mut self, at: (u16, u16), index: ConnKey) -> io::Result<UpstreamKey> {
        let open: Vec<UpstreamKey> = self.upstreams.idle(at).map(|keys| keys.clone()).unwrap_or_default();
        let known = |key: &UpstreamKey| self.upstreams.connections.get(*key)?.streams_max();
        // What other connections to the same server were told, before this one is told it.
        let most = open.iter().find_map(known).unwrap_or(STREAMS_AT_ONCE_MAX);
        let takes = |key: &UpstreamKey| {
            self.upstreams.connections.get(*key).is_some_and(|found| found.takes_more(most))
        };
        let key = match open.into_iter().find(takes) {
            Some(key) => key,
            None => {
                let key = self.open_upstream(at, index, None)?;
                let (now, pools) = (self.clock.now, &self.shared.start.config.pools);
                let bounds = pools.get(usize::from(at.0)).map(Pool::response_bounds).unwrap_or_default();
                if let Some(connection) = self.upstreams.get(key) {
                    let session = Session::towards_server(&settings(&bounds), now);
                    connection.http2 = Some(Http2::new(session, now));
                    // `connected` says that the server's settings have come.
                    let open = std::mem::take(&mut connection.connected);
                    connection.index = None;
                    connection.http2.iter_mut().for_each(|http2| http2.open = open);
                }
                let server = self.upstreams.get(key).and_then(|connection| connection.server.clone());
                let keys = server.and_then(|server| self.upstreams.idle_of(at, &server));
                keys.into_iter().for_each(|keys| keys.push(key));
                self.touch_http2(key);
                key
            }
        };
        if let Some(connection) = self.upstreams.get(key)
            && let Some(http2) = &mut connection.http2
        {
            http2.waiting.push(index);
        }
        Ok(key)
    }

    /// Something was written for a connection, which leaves at the end of the turn.
    pub(crate) fn touch_http2(&mut self, key: UpstreamKey) {
        let Some(connection) = self.upstreams.get(key) else { return };
        let serial = connection.serial;
        let Some(http2) = &mut connection.http2 else { return };
        if !std::mem::replace(&mut http2.dirty, true) {
            self.upstreams.unsent_http2.push(UpstreamId { key, serial });
        }
    }

    /// A connection has more than one turn takes.
    fn put_off_http2(&mut self, key: UpstreamKey) {
        if let Some(serial) = self.upstreams.get(key).map(|connection| connection.serial) {
            self.upstreams.later_http2.push(UpstreamId { key, serial });
        }
    }

    /// Once per turn: goes on with the connections that had more than one turn takes.
    pub(crate) fn resume_http2(&mut self) {
        for id in std::mem::take(&mut self.upstreams.later_http2) {
            if self.upstreams.current(id).is_some() {
                self.touch_http2(id.key);
            }
        }
    }

    /// Something has happened on the socket of a connection.
    pub(crate) fn on_http2(&mut self, key: UpstreamKey, flags: EventFlags) {
        use EventFlags as F;
        let Some(connection) = self.upstreams.get(key) else { return };
        if !connection.http2.as_ref().is_some_and(|http2| http2.open) {
            let refused = match sockopt::socket_error(connection.socket()) {
                Ok(Ok(())) if !flags.intersects(F::ERR | F::HUP) => None,
                Ok(Ok(())) => Some("no connection".to_owned()),
                Ok(Err(error)) | Err(error) => Some(error.to_string()),
            };
            let prepared = match refused {
                Some(why) => Err(why),
                None => connection.prepare_http2(),
            };
            match prepared {
                Ok(true) => {}
                Ok(false) => return,
                Err(why) => return self.end_http2(key, Cause::Unreachable { late: false }, &why),
            }
        }
        self.touch_http2(key);
        self.read_http2(key);
    }

    /// Reads what has come, and passes it on.
    pub(crate) fn read_http2(&mut self, key: UpstreamKey) {
        let mut touched = Touched::new();
        let mut rx = self.buffers.rx.take();
        let mut ended = None;
        for read in 1..=READS_PER_TURN {
            let Some(connection) = self.upstreams.get(key) else { break };
            let Some(http2) = &mut connection.http2 else { break };
            // With too much unsent nothing is read: room in the socket comes next.
            http2.readable = http2.session.is_full() || read == READS_PER_TURN;
            if http2.readable {
                break;
            }
            rx.clear();
            rx.append(&mut http2.rest);
            rx.reserve(super::super::step::JOINED_BYTES);
            let received = connection.receive(&mut rx);
            let more = match received {
                Ok((0, _)) => {
                    ended = Some("it closed the connection".to_owned());
                    false
                }
                Ok((_, more)) => more,
                Err(Errno::INTR) => true,
                Err(Errno::AGAIN) => false,
                Err(error) => {
                    ended = Some(error.to_string());
                    false
                }
            };
            if !rx.is_empty()
                && let Err(why) = self.take_frames(key, &rx, &mut touched)
            {
                ended = Some(why);
            }
            if !more || ended.is_some() {
                break;
            }
        }
        let now = self.clock.now;
        if !touched.is_empty()
            && let Some(http2) = self.upstreams.http2(key)
        {
            http2.heard_at = now;
        }
        self.buffers.rx.put_back(rx);
        if self.upstreams.get(key).is_some_and(|connection| connection.has_more_http2()) {
            self.put_off_http2(key);
        }
        self.greet_http2(key);
        for index in touched {
            self.on_stream(key, index);
        }
        if let Some(why) = ended {
            self.end_http2(key, Cause::Lost, &why);
        }
    }

    /// Acts on the frames in `rx`, and keeps what is left.
    fn take_frames(&mut self, key: UpstreamKey, rx: &[u8], touched: &mut Touched) -> Result<(), String> {
        let (now, mut at, mut head) = (self.clock.now, 0, RequestHead::default());
        loop {
            let Some(http2) = self.upstreams.http2(key) else { return Ok(()) };
            let event = match http2.session.next(now, rx, &mut at, &mut head) {
                Ok(Some(event)) => event,
                Ok(None) => {
                    http2.rest.extend_from_slice(rx.get(at..).unwrap_or_default());
                    return Ok(());
                }
                Err(fatal) => {
                    http2.over = true;
                    return Err(format!("HTTP/2: {fatal}"));
                }
            };
            match event {
                Event::Response { stream, head } => {
                    self.fill(key, stream, touched, |inbox| inbox.put_head(head))
                }
                Event::Data { stream, bytes, ended } => {
                    self.fill(key, stream, touched, |inbox| inbox.put_content(bytes, ended));
                }
                Event::Trailers { stream, fields } => {
                    self.fill(key, stream, touched, |inbox| inbox.put_trailers(fields));
                }
                Event::Reset { stream, .. } => {
                    let code = http2.session.reset_code();
                    let (cause, why) = reset_by(code);
                    self.fill(key, stream, touched, |inbox| inbox.fail(cause, &why));
                }
                Event::PeerLeaves => self.on_server_leaves(key, touched),
                Event::Writable | Event::Request { .. } | Event::Refused { .. } => {}
            }
        }
    }

    /// Puts something of a response where its client's connection will take it.
    fn fill(
        &mut self,
        key: UpstreamKey,
        stream: StreamKey,
        touched: &mut Touched,
        put: impl FnOnce(&mut Inbox),
    ) {
        let Some(http2) = self.upstreams.http2(key) else { return };
        let index = ConnKey::from_number(http2.session.user(stream));
        match self.stream_mut(index, key).filter(|spoken| spoken.stream == Some(stream)) {
            Some(spoken) => put(&mut spoken.inbox),
            None => {
                return self.upstreams.http2(key).into_iter().for_each(|http2| http2.session.leave(stream));
            }
        }
        if touched.last() != Some(&index) {
            touched.push(index);
        }
    }

    /// The server takes no more requests on a connection. What it has not looked at, and will not, is sent elsewhere.
    fn on_server_leaves(&mut self, key: UpstreamKey, touched: &mut Touched) {
        let Some(http2) = self.upstreams.http2(key) else { return };
        http2.over = true;
        let unprocessed = http2.session.users_if(|session, stream| session.is_unprocessed(stream));
        for index in unprocessed.into_iter().map(ConnKey::from_number) {
            if let Some(spoken) = self.stream_mut(index, key) {
                spoken.inbox.fail(Cause::Unprocessed, "it leaves (GOAWAY)");
                touched.push(index);
            }
        }
    }

    /// The server's settings have come: the requests that have waited for them are sent.
    fn greet_http2(&mut self, key: UpstreamKey) {
        let Some(connection) = self.upstreams.get(key) else { return };
        let greeted = connection.http2.as_ref().is_some_and(|http2| http2.session.is_greeted());
        if !greeted || std::mem::replace(&mut connection.connected, true) {
            return;
        }
        let Some(http2) = &mut connection.http2 else { return };
        for index in std::mem::take(&mut http2.waiting) {
            if self.stream_mut(index, key).is_none() {
                continue;
            }
            self.note_heard(index);
            self.pass_request(index);
            self.wait_for_upstream(index);
        }
    }

    /// Sends what is there, and continues the streams that had to wait for room; and reads what was left over.
    pub(crate) fn flush_http2(&mut self, key: UpstreamKey) {
        let mut left = SENT_PER_TURN;
        loop {
            match self.send_http2(key, &mut left) {
                Ok(true) => {}
                Ok(false) => break,
                // What it has said before it closed may still be there to read: that says more.
                Err(error) => return self.end_http2(key, Cause::Lost, &error.to_string()),
            }
            let Some(http2) = self.upstreams.http2(key) else { break };
            let Some(stream) = http2.session.next_writable() else { break };
            let index = ConnKey::from_number(http2.session.user(stream));
            if self.stream_mut(index, key).is_some() {
                self.pass_request(index);
            }
        }
        if self.upstreams.get(key).is_some_and(|connection| connection.has_more_http2()) {
            self.read_http2(key);
        }
        self.rest_http2(key);
    }

    /// Sends once. `Ok(false)`: the socket takes nothing now, or enough was sent for a turn.
    fn send_http2(&mut self, key: UpstreamKey, left: &mut usize) -> Result<bool, Errno> {
        let Some(connection) = self.upstreams.get(key) else { return Ok(false) };
        let Some(mut http2) = connection.http2.take() else { return Ok(false) };
        let result = if http2.open { send_out(connection, &mut http2, left) } else { Ok(false) };
        connection.http2 = Some(http2);
        if *left == 0 && result == Ok(false) {
            self.put_off_http2(key);
        }
        result
    }

    /// A connection without a request is idle from now on, or closed if it takes no other.
    pub(crate) fn rest_http2(&mut self, key: UpstreamKey) {
        let (now, drains) = (self.clock.now, self.drain.is_some());
        let Some(connection) = self.upstreams.get(key) else { return };
        let (connected, unsent) = (connection.connected, connection.hung_up);
        let Some(http2) = &mut connection.http2 else { return };
        if !http2.is_idle() {
            return;
        }
        let useless = http2.over || !http2.session.lasts() || !connected || unsent || drains;
        if useless {
            return self.drop_upstream(key);
        }
        connection.idle_since = now;
        self.upstreams.next_sweep.get_or_insert(now + SWEEP_INTERVAL);
    }

    /// A connection has ended: so have its streams, and its requests are judged one by one.
    pub(crate) fn end_http2(&mut self, key: UpstreamKey, cause: Cause, why: &str) {
        let Some(connection) = self.upstreams.get(key) else { return };
        let (at, server) = (connection.at, connection.server.clone());
        let cause = match connection.connected {
            true => cause,
            // No request has left: those that wait have no stream.
            false => Cause::Unreachable { late: false },
        };
        let Some(http2) = &mut connection.http2 else { return };
        (http2.over, http2.ended) = (true, true);
        let users = http2.users();
        if let Some(open) = self.upstreams.idle(at) {
            open.retain(|other| *other != key);
        }
        for index in users {
            if let Some(spoken) = self.stream_mut(index, key) {
                spoken.inbox.fail(cause, why);
                self.on_stream(key, index);
            }
            // The client of the request has yet to take what came before, and needs no connection for that.
            if self.stream_mut(index, key).is_some()
                && let Some(call) = self.attempt_mut(index).and_then(Attempt::call_mut)
            {
                call.upstream = UpstreamKey::NONE;
                self.end_at_server(at.0, server.as_deref());
            }
        }
        self.drop_upstream(key);
    }

    /// The server of a connection has been taken out of its pool: its requests go on, and no others come.
    pub(crate) fn retire_http2(&mut self, key: UpstreamKey) {
        let Some(connection) = self.upstreams.get(key) else { return };
        let at = connection.at;
        connection.http2.iter_mut().for_each(|http2| http2.over = true);
        if let Some(open) = self.upstreams.idle(at) {
            open.retain(|other| *other != key);
        }
        self.rest_http2(key);
    }

    /// After a panic: the requests of a connection end with it.
    pub(crate) fn lose_http2(&mut self, key: UpstreamKey) {
        let users = self.upstreams.http2(key).map(Http2::users).unwrap_or_default();
        for index in users {
            if self.stream_mut(index, key).is_some() {
                self.close(index);
            }
        }
        self.drop_upstream(key);
    }
}

/// Sends what is in the session's buffer. `Ok(true)`: all of it has left.
fn send_out(connection: &mut UpstreamConnection, http2: &mut Http2, left: &mut usize) -> Result<bool, Errno> {
    let mut far_end = connection.far_end();
    if !far_end.flush()? {
        return Ok(false);
    }
    let out = http2.session.out();
    let mut sent = 0;
    let result = loop {
        let rest = out.get(sent..).unwrap_or_default();
        let rest = rest.get(..*left).unwrap_or(rest);
        if rest.is_empty() {
            break Ok(sent == out.len());
        }
        match far_end.send(rest, SendFlags::empty()) {
            Ok(0) => break Ok(false),
            Ok(bytes) => (sent, *left) = (sent + bytes, *left - bytes),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break Ok(false),
            Err(error) => break Err(error),
        }
    };
    out.drain(..sent);
    result
}

/// What a code of RST_STREAM means for the request (9113-7).
fn reset_by(code: u32) -> (Cause, String) {
    const REFUSED: u32 = Code::RefusedStream as u32;
    const CALM: u32 = Code::EnhanceYourCalm as u32;
    match code {
        REFUSED => (Cause::Overloaded, "it refused the stream (REFUSED_STREAM)".to_owned()),
        CALM => (Cause::Lost, "it ended the stream (ENHANCE_YOUR_CALM)".to_owned()),
        code => (Cause::Lost, format!("it ended the stream (code {code})")),
    }
}
