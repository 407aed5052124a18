//! How the descriptors that the process may have (`RLIMIT_NOFILE`) are divided, so that new connections wait in the accept queue
//! before descriptors for the requests of accepted ones run out.

use super::upstream::connections::IDLE_PER_UPSTREAM_MAX;
use maitred_config::Pool;
use maitred_control::Start;

/// Descriptors of a process that are neither connections nor cached files: listeners, channels, logs, disk jobs.
const DESCRIPTORS_RESERVED: u64 = 256;
/// Descriptors of a thread that are neither: epoll, eventfd, its listeners, and what adaptive affinity reads.
const DESCRIPTORS_PER_THREAD: u64 = 8;
/// Where there are pools: a client's socket, the relay or the connection to a server that its request is answered by, and the
/// file of its body.
const DESCRIPTORS_PER_CONNECTION: u64 = 3;

/// What one thread may have open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// Client connections.
    pub connections: u64,
    /// Files in its cache.
    pub cached_files: u64,
    /// What requests need besides their clients' sockets.
    pub requests: u64,
}

/// What the configuration asks for.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    connections: u64,
    cached_files: u64,
    pools: bool,
    /// HTTP servers of all pools.
    servers: u64,
}

impl Share {
    /// What was configured, or what `RLIMIT_NOFILE` leaves of it.
    pub(super) fn of(start: &Start, threads: u64) -> Share {
        let open_files =
            rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        let (limits, pools) = (&start.config.limits, &start.config.pools);
        let wanted = Wanted {
            connections: limits.connections_per_thread_max.into(),
            cached_files: limits.file_cache_files_max.into(),
            pools: !pools.is_empty(),
            servers: pools.iter().map(servers).sum::<usize>() as u64,
        };
        let share = Share::out_of(open_files, threads, wanted);
        let connections = share.connections;
        if connections < wanted.connections {
            tracing::info!(open_files, connections, "connections per thread are limited by RLIMIT_NOFILE");
        }
        share
    }

    /// At most a quarter goes to cached files, and one to idle connections to servers. With pools, each connection can have a
    /// request there whose body is in a file. Requests that need more (many streams of HTTP/2, requests that go to another
    /// thread) use what others do not need, or get 503 with `Retry-After`.
    fn out_of(open_files: u64, threads: u64, wanted: Wanted) -> Share {
        let share = open_files.saturating_sub(DESCRIPTORS_RESERVED) / threads;
        let share = share.saturating_sub(DESCRIPTORS_PER_THREAD).max(4);
        let cached_files = wanted.cached_files.min(share / 4);
        let idle = wanted.servers.saturating_mul(IDLE_PER_UPSTREAM_MAX as u64).min(share / 4);
        let left = share - cached_files;
        let each = if wanted.pools { DESCRIPTORS_PER_CONNECTION } else { 1 };
        let connections = wanted.connections.min(((left - idle) / each).max(1));
        Share { connections, cached_files, requests: left - connections }
    }
}

/// How many external servers a pool has.
pub(super) fn servers(pool: &Pool) -> usize {
    pool.source.servers().map_or(0, <[_]>::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: Wanted = Wanted { connections: 8192, cached_files: 1024, pools: false, servers: 0 };

    #[test]
    fn what_was_configured_is_had_if_there_are_descriptors_for_it() {
        for wanted in [FILES, Wanted { pools: true, ..FILES }, Wanted { pools: true, servers: 4, ..FILES }] {
            let share = Share::out_of(1 << 20, 8, wanted);
            assert_eq!((share.connections, share.cached_files), (8192, 1024), "{wanted:?}");
            assert!(share.requests >= 2 * 8192);
        }
    }

    #[test]
    fn all_shares_together_are_no_more_than_there_is() {
        for open_files in [0, 64, 256, 300, 512, 1024, 4096, 20_000, 65_536, u64::MAX] {
            for threads in [1, 2, 7, 64] {
                for servers in [0, 1, 100, u64::MAX] {
                    for pools in [false, true] {
                        let share = Share::out_of(open_files, threads, Wanted { pools, servers, ..FILES });
                        let sum = share.connections + share.cached_files + share.requests;
                        let least = 4 * threads;
                        assert!(sum * threads <= open_files.saturating_sub(DESCRIPTORS_RESERVED).max(least));
                        assert!(share.connections > 0);
                        let needed = share.connections * if pools { 2 } else { 0 };
                        assert!(share.requests >= needed || sum == 4, "{share:?} of {open_files}");
                    }
                }
            }
        }
    }

    #[test]
    fn pools_take_their_part() {
        let connections = |wanted| Share::out_of(4096, 1, wanted).connections;
        // 4096 - 256 - 8 = 3832, a quarter of which is for files.
        assert_eq!(connections(FILES), 2874);
        assert_eq!(connections(Wanted { pools: true, ..FILES }), 2874 / 3);
        assert_eq!(connections(Wanted { pools: true, servers: 1, ..FILES }), (2874 - 256) / 3);
    }
}
