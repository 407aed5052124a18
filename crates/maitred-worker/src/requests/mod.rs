//! Requests: what has been received, and what answers it.
//!
//! | file | what |
//! |---|---|
//! | [`receive`] | bytes to requests |
//! | [`proxy_protocol`] | the PROXY header that may come before them |
//! | [`handshakes`] | handshakes that have waited for a certificate |
//! | [`http2`] | HTTP/2 connections |
//! | [`quic`] | HTTP/3 connections |
//! | [`streams`] | requests on streams |
//! | [`passing`] | request bodies that go to an upstream while they come |
//! | [`spool`] | request bodies that are too large for a frame |
//! | [`answer`] | what answers a request |
//! | [`hand_off`] | requests to application processes |
//! | [`server_queue`] | requests that wait for a server |
//! | [`scripts`] | which script a request to a pool of FastCGI is for, or which file answers it |
//! | [`limits`] | the gate of limits by client |
//! | [`gates`] | whether it may be answered at all |
//! | [`modules`] | modules that answer requests, or are asked before others do |
//! | [`delays`] | the gate that holds a request for a while |
//! | [`questions`] | whether it may, by the word of another server |
//! | [`tokens`] | the gate of signed tokens |
//! | [`errors`] | errors about a request whose body is on its way |
//! | [`disk`] | what disk helpers have read or written |
//! | [`reactions`] | carries out what the table of states decides |
//! | [`drain`] | connections that are passed on or closed because the process drains |
//! | [`cache`] | which requests are answered from the store of responses |
//! | [`cache_coding`] | codings of what is kept there |
//! | [`admin`] | the admin address |
//! | [`cache_commands`] | its commands about responses that are kept |
//! | [`configuration`] | the configuration that is sent there |
//! | [`upstreams`] | its commands about the servers of a pool |
//! | [`watch`] | the status, once a second |
//! | [`watchers`] | which connections get the status |
//!
//! A circle of methods goes through [`receive`], [`http2`], [`streams`] and [`reactions`] (`on_readable`, `on_received`,
//! `process`, `take_http2`, `lose_stream`, `abort_any`, `react`, `read_frames`): a frame of HTTP/2 can end a stream, and what the
//! table of states says then could be to read a connection. No row of it does so after `Aborted`, so that the circle is not gone
//! round. `resume` and `settle` call one another as the last thing that each does.

pub(crate) mod admin;
mod answer;
mod cache;
mod cache_coding;
mod cache_commands;
mod configuration;
mod delays;
mod disk;
mod drain;
mod errors;
mod gates;
mod hand_off;
mod handshakes;
mod http2;
mod limits;
mod modules;
mod passing;
pub(crate) mod proxy_protocol;
mod questions;
mod quic;
mod reactions;
mod receive;
mod scripts;
mod server_queue;
mod spool;
mod streams;
mod tokens;
mod upstreams;
mod watch;
pub(crate) mod watchers;

use super::exchanges::Exchanges;
use super::layers::above;
use crate::requests::watchers::Watchers;

/// From received bytes to what answers them.
pub(crate) struct Requests {
    pub(crate) exchanges: Exchanges,
    /// Connections that get the status every second.
    pub(crate) watchers: Watchers,
    /// Checks of passwords so far.
    checks: u32,
}
above!(Requests, exchanges: Exchanges);

impl Requests {
    pub(crate) fn new(exchanges: Exchanges) -> Requests {
        Requests { exchanges, watchers: Watchers::default(), checks: 0 }
    }
}
