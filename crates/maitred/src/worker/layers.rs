//! The layers of a thread. Each consists of the one below it and of what it adds; its methods are those of the modules that need no
//! more than that. Calls go down, which the compiler holds: a module of a lower layer cannot name what is above it. What has to
//! follow above goes by the [agenda](super::agenda).
//!
//! | layer | what it adds | modules |
//! |---|---|---|
//! | [`Base`] | what every part is given: shared state, epoll, clock, timers, agenda, scoreboard | `addresses` |
//! | [`Clients`] | connections, what carries their bytes, buffers, the access log, files | `wire`, `tls_session`, `http2`, `streams`, `unsent`, `answer`, `errors`, `aborted` |
//! | [`Processes`] | channels to application processes, relays, places in queues | `channels`, `links`, `passed`, `processes`, `sticky`, `transport_tuner`, `overdue` |
//! | [`Exchanges`] | connections to servers; responses under way, and how they end | `send`, `tunnel`, `upstream` |
//! | [`Requests`] | from received bytes to what answers them | `receive`, `reactions`, `hand_off`, `spool`, `scripts`, `proxy_protocol`, `admin`, `watch` |
//! | [`Admission`] | listeners; who is let in, who has to go | `accept`, `reclaim`, `rates`, `drain`, `unsent` |
//!
//! On top is the [reactor](super::reactor), which has the loop and nothing else.

/// A layer has the methods and the fields of the one below it. Where two fields of different layers are borrowed at a time, the
/// path is written out.
macro_rules! above {
    ($layer:ident, $below:ident: $lower:ty) => {
        impl std::ops::Deref for $layer {
            type Target = $lower;

            fn deref(&self) -> &$lower {
                &self.$below
            }
        }

        impl std::ops::DerefMut for $layer {
            fn deref_mut(&mut self) -> &mut $lower {
                &mut self.$below
            }
        }
    };
}
pub(in crate::worker) use above;
