//! Responses under way.
//!
//! | file | what |
//! |---|---|
//! | [`upstream`] | what upstreams have in common |
//! | [`pump`] | what comes from an upstream, on its way to the client |
//! | [`buffering`] | what is kept of it for a slow client |
//! | [`relay`] | processes that answer through a relay |
//! | [`server`] | requests to servers |
//! | [`retries`] | which requests go to another server |
//! | [`sessions`] | cookies that name the server of a client |
//! | [`connections`] | connections to servers |
//! | [`proxy_header`] | what such a connection begins with, to name the client |
//! | [`http1`] | requests as HTTP/1.1 |
//! | [`fastcgi`] | requests as FastCGI |
//! | [`http2`] | connections of HTTP/2 to servers |
//! | [`streams`] | requests as streams of these |
//! | [`remote_thread`] | requests that another thread answers |
//! | [`named_file`] | responses that name a file |
//! | [`ask`] | questions to a pool about a request, for a gate |
//! | [`fill`] | responses that are fetched for the cache |
//! | [`follow`] | requests that are answered with what comes of one |
//! | [`mirror`] | copies of requests, to a pool of which nothing is wanted |
//! | [`feed`] | request bodies that go through a relay |
//! | [`passing`] | request bodies that go to a server while they come |
//! | [`tunnel`] | other protocols, after an upgrade |
//! | [`overdue`] | upstreams that take too long |
//! | [`send`] | responses to sent bytes, files, the end of a response |
//! | [`removal`] | connections that are closed |

pub(crate) mod ask;
mod buffering;
mod connections;
mod fastcgi;
mod feed;
pub(crate) mod fill;
pub(crate) mod follow;
mod http1;
mod http2;
mod mirror;
mod named_file;
mod overdue;
mod passing;
mod proxy_header;
mod pump;
mod relay;
mod remote_thread;
mod removal;
mod retries;
pub(crate) mod send;
mod server;
mod sessions;
mod streams;
mod tunnel;
mod upstream;

use self::ask::Question;
use super::layers::above;
use super::processes::Processes;
use super::upstream::connections::Upstreams;
use super::upstream::fill::filling::Filling;
use crate::keys::{FillKey, QuestionKey, Table};

/// Responses under way, from files, processes and servers, and how they end.
pub(crate) struct Exchanges {
    pub(crate) processes: Processes,
    /// Connections to servers.
    pub(crate) upstreams: Upstreams,
    /// Questions to pools about requests that wait for a gate.
    questions: Table<QuestionKey, Question>,
    /// Responses that are fetched for the cache.
    fillings: Table<FillKey, Filling>,
}
above!(Exchanges, processes: Processes);

impl Exchanges {
    pub(crate) fn new(processes: Processes) -> Exchanges {
        let upstreams = Upstreams::new(&processes.shared.pools, processes.number);
        Exchanges { processes, upstreams, questions: Table::new(), fillings: Table::new() }
    }
}
