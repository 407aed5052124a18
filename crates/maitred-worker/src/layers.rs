//! The layers of a thread. Each consists of the one below it and of what it adds; its methods are those that need no more than
//! that. Calls go down, which the compiler checks: a function with a reference to a layer cannot reach the layers above it. What
//! has to follow above goes by the [agenda](super::agenda).
//!
//! | layer | what it adds |
//! |---|---|
//! | `Base` | what every part uses: shared state, epoll, clock, timers, agenda, scoreboard |
//! | `Clients` | connections and what carries their bytes, buffers, the access log, files |
//! | `Processes` | channels to application processes, relays, places in queues |
//! | `Exchanges` | connections to servers; responses under way, and how they end |
//! | `Requests` | from received bytes to what answers them |
//! | `Admission` | listeners; which connections are accepted, and which are closed for others |
//!
//! On top is the [reactor](super::reactor), which has the loop and nothing else.
//!
//! Beside the layers, and below all of them, stand the values that they work on: [`facts`](super::facts),
//! [`connection`](super::connection) (which does no I/O: a test holds that), [`upstream`](super::upstream) and
//! [`step`](super::step).

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
pub(crate) use above;
