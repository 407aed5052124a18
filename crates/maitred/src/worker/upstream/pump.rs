//! Responses of HTTP servers, on their way to the client: read, judged, and sent on at the client's speed.
//!
//! Nothing more is read from the server while anything read before has yet to be sent, so that a slow client is seen by the
//! server as a full socket, and no more than one read is kept here.

use rustix::io::Errno;

use super::connection::{After, State};
use super::proxy::name_of;
use super::reactor::Reactor;
use super::remote_thread;
use super::send::Sent;
use crate::proxy::Failure;
use crate::serve::Summary;

/// Bytes that one client may get in one turn, so that the others get theirs.
const MOVED_PER_TURN: usize = 512 * 1024;

/// What one read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    /// Bytes, and perhaps more behind them.
    More,
    /// Everything that is there for now.
    Drained,
    /// The server has finished sending.
    Ended,
    /// It has failed, which has been dealt with.
    Failed,
}

impl Reactor {
    /// Moves what there is from the server to the client.
    pub(super) fn pump_to_client(&mut self, index: u32) {
        let mut moved = 0;
        if let (Some(key), true) = (self.upstream_of(index), self.is_past_server_total(index)) {
            return self.end_server_total(index, key);
        }
        while let Some(key) = self.upstream_of(index) {
            let unsent = self.has_output(index);
            match self.send_rest(index) {
                Sent::All => {}
                Sent::Waits => return self.count_unsent(index),
                Sent::Share => return self.look_again(index),
                Sent::Broken => return self.abort(index),
            }
            if unsent {
                self.recount_unsent(index);
                self.wait_for_server(index);
            }
            if self.is_answered(index) {
                return self.settle_proxied(index, key);
            }
            if moved >= MOVED_PER_TURN {
                return self.look_again(index);
            }
            let before = moved;
            match self.read_upstream(index, key, &mut moved) {
                Read::More => {}
                Read::Failed => return,
                // What was read may have been the end.
                Read::Drained if moved > before => {}
                Read::Drained => return,
                Read::Ended => {
                    if !self.end_proxied(index) {
                        return;
                    }
                }
            }
        }
    }

    /// Whether the client has yet to take something, over TLS as well: then it is its turn, and not that of who answers.
    pub(super) fn has_output(&self, index: u32) -> bool {
        let exchange =
            self.connections.get(index as usize).and_then(|connection| connection.exchange.as_deref());
        exchange.is_some_and(|exchange| exchange.sent < exchange.output.len()) || self.encrypted(index) > 0
    }

    /// Whether nothing more belongs to the response.
    fn is_answered(&self, index: u32) -> bool {
        let exchange =
            self.connections.get(index as usize).and_then(|connection| connection.exchange.as_deref());
        exchange
            .and_then(|exchange| exchange.proxied.as_deref())
            .is_some_and(|proxied| proxied.filter.complete())
    }

    /// It is the server's turn again, the client having all that there was.
    fn wait_for_server(&mut self, index: u32) {
        let across = self.upstream_of(index).is_some_and(|key| self.is_remote_thread(key));
        let Some(proxied) = self.exchange(index).proxied.as_deref() else { return };
        let (pool, switched) = (proxied.pool, proxied.filter.switched());
        let timeout = match (switched, across) {
            (true, _) => self.shared.start.config.limits.tunnel_idle_timeout,
            // It ends the request by itself.
            (false, true) => self.request_timeout(pool) + remote_thread::TIMEOUT,
            (false, false) => self.request_timeout(pool),
        };
        self.arm_proxied(index, timeout);
    }

    /// Reads once, and sends what became of it; what the client does not take stays in the connection's output.
    fn read_upstream(&mut self, index: u32, key: u32, moved: &mut usize) -> Read {
        let Some(upstream) = self.upstreams.get(key) else { return Read::Failed };
        if !upstream.connected || upstream.untried {
            return Read::Drained;
        }
        let mut rx = self.rx.take();
        let room = rx.capacity();
        let (read, why) = match upstream.receive(&mut rx) {
            Ok(0) => (Read::Ended, None),
            // A short read has emptied the socket: what comes later makes an edge. Only the end of the stream, if it was
            // reported together with these bytes, does not.
            Ok(bytes) if bytes < room && !upstream.hung_up => (Read::Drained, None),
            Ok(_) => (Read::More, None),
            Err(Errno::INTR) => (Read::More, None),
            Err(Errno::AGAIN) => (Read::Drained, None),
            Err(error) => (Read::Failed, Some(error.to_string())),
        };
        *moved += rx.len();
        let why = match rx.is_empty() {
            true => why,
            false => self.pass_on(index, &rx, read == Read::Drained).err(),
        };
        self.rx.put_back(rx);
        match why {
            Some(why) => {
                self.fail_proxy(index, Failure::Broken, 502, &why);
                Read::Failed
            }
            None => read,
        }
    }

    /// Puts bytes of the server through the filter, and sends the result.
    fn pass_on(&mut self, index: u32, input: &[u8], drained: bool) -> Result<(), String> {
        let (now, ends) = (self.clock.now, self.ends_soon(index));
        let Some(proxied) = self.exchange(index).proxied.as_deref_mut() else { return Ok(()) };
        let (headless, switched) = (!proxied.filter.head_written(), proxied.filter.switched());
        (proxied.begun, proxied.drained) = (true, drained);
        proxied.note_heard(now);
        if headless && ends {
            proxied.filter.say_close();
        }
        let result = self.encode(index, |exchange, writer| match exchange.proxied.as_deref_mut() {
            Some(proxied) => proxied.filter.feed(input, writer).map(drop).map_err(|bad| bad.to_string()),
            None => Ok(()),
        });
        let Some(proxied) = self.exchange(index).proxied.as_deref_mut() else { return Ok(()) };
        let headed = headless && proxied.filter.head_written();
        let switches = !switched && proxied.filter.switched();
        let sends = result.is_ok() || proxied.filter.head_written();
        let mut tx = std::mem::take(&mut self.tx);
        if sends {
            self.send_now(index, &tx);
        }
        tx.clear();
        self.tx = tx;
        if headed {
            self.note_response(index);
        }
        if switches {
            self.begin_tunnel(index);
        }
        if result.is_ok() && !self.has_output(index) {
            self.wait_for_server(index);
        }
        result
    }

    /// A server that answers is well.
    fn note_response(&mut self, index: u32) {
        let at = self.upstream_of(index).and_then(|key| self.upstreams.get(key)).map(|upstream| upstream.at);
        let Some(at) = at else { return };
        if self.upstreams.balancer(at.0).is_some_and(|balancer| balancer.succeeded(usize::from(at.1))) {
            let (pool, settings) =
                (self.shared.pool_name(at.0), self.shared.start.config.pools.get(usize::from(at.0)));
            self.limiter.log(self.clock.now, || {
                let server =
                    settings.map(|settings| name_of(settings, usize::from(at.1))).unwrap_or_default();
                tracing::info!(pool, server, "an HTTP server is available again");
            });
        }
    }

    /// The server has finished sending. True if there is more to send to the client.
    fn end_proxied(&mut self, index: u32) -> bool {
        // A filter that has seen nothing is used again.
        let ended = self.encode(index, |exchange, writer| match exchange.proxied.as_deref_mut() {
            Some(proxied) if proxied.begun => proxied.filter.end(writer).map_err(|bad| bad.to_string()),
            _ => Err("it closed the connection without an answer".to_owned()),
        });
        let mut tx = std::mem::take(&mut self.tx);
        if ended.is_ok() {
            self.send_now(index, &tx);
        }
        tx.clear();
        self.tx = tx;
        if let Err(why) = ended {
            self.fail_proxy(index, Failure::Broken, 502, &why);
            return false;
        }
        true
    }

    /// The whole response is out. The server's connection is free, and the client's goes on.
    fn settle_proxied(&mut self, index: u32, key: u32) {
        let Some(mut proxied) = self.exchange(index).proxied.take() else { return };
        self.exchange(index).trailers = proxied.filter.take_framed_trailers();
        let filter = &proxied.filter;
        let (status, body_bytes) = (filter.status().unwrap_or(502), filter.body_bytes());
        let exchange = self.exchange(index);
        exchange.summary = Some(Summary { status, body_bytes });
        exchange.after = Some(match exchange.tunnel.take() {
            // What the client may still say has to be read, or it loses what it was told last.
            Some(_) => After::Linger,
            None if proxied.keep && filter.keeps() => After::Keep,
            None => After::Close,
        });
        self.count(index, status);
        if !self.is_remote_thread(key) {
            self.row.bytes_handed_off.add(body_bytes);
        }
        // Before the connection's next request, which may want it.
        self.enter(index, State::Head);
        let sound = filter.lasts() && proxied.is_sent();
        match sound && (proxied.drained || self.is_clean(key)) {
            true => self.keep_upstream(key),
            false => self.drop_upstream(key),
        }
        self.end_response(index);
    }
}
