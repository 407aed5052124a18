//! The numbers of a thread.

use super::{Field, Kind, Unit};
use crate::scoreboard::ThreadRow;

/// What one event-loop thread knows. Label `thread`.
pub(crate) const THREAD: &[Field<ThreadRow>] = &[
    Field {
        key: "cpu",
        metric: "maitred_thread_cpu",
        label: None,
        kind: Kind::Gauge,
        unit: Unit::One,
        help: "CPU that the thread is pinned to; absent while it is not.",
        read: |row| row.cpu_plus_1.get().checked_sub(1),
    },
    cell!(Gauge, One, connections, "maitred_thread_connections", "Open client connections."),
    cell!(Gauge, One, idle, "maitred_thread_connections_idle", "Connections between two requests."),
    cell!(
        Gauge,
        One,
        handed_off,
        "maitred_thread_connections_handed_off",
        "Connections owned by an application process."
    ),
    cell!(
        Gauge,
        One,
        reading,
        "maitred_thread_connections_reading",
        "Connections with a request that has not arrived completely."
    ),
    cell!(
        Gauge,
        One,
        writing,
        "maitred_thread_connections_writing",
        "Connections with a response that is being sent."
    ),
    cell!(
        Gauge,
        One,
        waiting,
        "maitred_thread_connections_waiting",
        "Connections whose request waits for a disk helper, or for the master."
    ),
    cell!(
        Gauge,
        One,
        multiplexed as "http2",
        "maitred_thread_connections_http2",
        "HTTP/2 and HTTP/3 connections. Their streams are counted in the other states, and not as connections."
    ),
    cell!(
        Gauge,
        One,
        lingering,
        "maitred_thread_connections_lingering",
        "Connections after their last response; further received bytes are discarded."
    ),
    cell!(
        Gauge,
        One,
        queued,
        "maitred_thread_requests_queued",
        "Requests that wait for an application process."
    ),
    cell!(Gauge, Bytes, cache_bytes, "maitred_thread_cache_bytes", "Memory held by the file cache."),
    cell!(Gauge, One, cache_entries, "maitred_thread_cache_entries", "Entries of the file cache."),
    cell!(
        Gauge,
        One,
        full,
        "maitred_thread_full",
        "1 while the thread does not accept connections, because it is at its limit of connections."
    ),
    overload!(0, "memory"),
    overload!(1, "descriptors"),
    overload!(2, "delay"),
    cell!(
        Gauge,
        Micros,
        loop_delay_us,
        "maitred_thread_loop_delay_seconds",
        "The shortest iteration of the event loop in the last second: the least time that an event had to wait."
    ),
    cell!(Counter, One, accepted, "maitred_thread_connections_accepted_total", "Connections accepted."),
    cell!(
        Counter,
        One,
        refused_by_address,
        "maitred_thread_connections_refused_by_address_total",
        "Connections closed because their address had reached `connections_per_address_max`."
    ),
    cell!(
        Counter,
        One,
        reclaimed,
        "maitred_thread_connections_reclaimed_total",
        "Idle connections closed to make place for new ones, at `connections_per_thread_max`."
    ),
    cell!(
        Counter,
        One,
        passed_on,
        "maitred_thread_connections_passed_on_total",
        "Connections passed to a less loaded thread of the same bucket."
    ),
    cell!(
        Counter,
        One,
        adopted,
        "maitred_thread_connections_adopted_total",
        "Connections taken over from the previous worker process."
    ),
    cell!(
        Counter,
        One,
        given,
        "maitred_thread_connections_given_total",
        "Connections passed to the next worker process."
    ),
    class!(0, "1xx"),
    class!(1, "2xx"),
    class!(2, "3xx"),
    class!(3, "4xx"),
    class!(4, "5xx"),
    cell!(
        Counter,
        Bytes,
        bytes_sent,
        "maitred_thread_sent_bytes_total",
        "Heads and bodies that Maitred itself wrote."
    ),
    cell!(
        Counter,
        Bytes,
        bytes_handed_off,
        "maitred_thread_handed_off_bytes_total",
        "Bodies that application processes reported as written."
    ),
    cell!(
        Counter,
        One,
        auth_cached,
        "maitred_thread_forward_auth_cached_total",
        "Requests of which an answer of `forward_auth` decided that was kept."
    ),
    cell!(
        Counter,
        One,
        mirrored,
        "maitred_thread_mirrored_total",
        "Requests of which a copy went to another pool (`mirror`)."
    ),
    cell!(
        Counter,
        One,
        mirrors_left_out,
        "maitred_thread_mirrors_left_out_total",
        "Requests without the copy that `mirror` asks for: too many were under way, or the body was too long."
    ),
    cell!(
        Counter,
        One,
        delayed,
        "maitred_thread_delayed_total",
        "Requests that have waited for `delay` of their site or route."
    ),
    cell!(
        Counter,
        One,
        delays_left_out,
        "maitred_thread_delays_left_out_total",
        "Requests that `delay` did not hold: `delayed_requests_max` of them waited."
    ),
    cell!(
        Counter,
        One,
        handoffs,
        "maitred_thread_handoffs_total",
        "Requests handed to an application process."
    ),
    cell!(
        Counter,
        Micros,
        queue_us,
        "maitred_thread_queue_wait_seconds_total",
        "Time that these requests waited for a process; divided by handoffs: the mean wait."
    ),
    cell!(
        Counter,
        One,
        relayed,
        "maitred_thread_relayed_total",
        "Of the requests handed off, those answered through a relay; the others were answered on the client's own socket."
    ),
    cell!(
        Counter,
        One,
        relayed_isolated,
        "maitred_thread_relayed_isolated_total",
        "Of the requests answered through a relay, those whose pool is isolated."
    ),
    cell!(
        Counter,
        One,
        relayed_framed,
        "maitred_thread_relayed_framed_total",
        "Of the requests answered through a relay, those whose client uses TLS or HTTP/2, so that its socket cannot be passed."
    ),
    cell!(
        Counter,
        One,
        response_cache_hits,
        "maitred_thread_response_cache_hits_total",
        "Requests that were answered with a fresh response of the cache."
    ),
    cell!(
        Counter,
        One,
        response_cache_stale,
        "maitred_thread_response_cache_stale_total",
        "Requests that were answered with a stale response of the cache, because it may be given while it is fetched anew, or while the pool fails."
    ),
    cell!(
        Counter,
        One,
        response_cache_misses,
        "maitred_thread_response_cache_misses_total",
        "Requests for which a response had to be fetched, or validated, before they were answered."
    ),
    cell!(
        Counter,
        One,
        response_cache_bypassed,
        "maitred_thread_response_cache_bypassed_total",
        "Requests of routes with `cache` that went to the pool as if there were none."
    ),
    cell!(
        Counter,
        One,
        response_cache_collapsed,
        "maitred_thread_response_cache_collapsed_total",
        "Of the requests for which a response had to be fetched, those that waited for one that another request had begun to fetch."
    ),
    cell!(
        Counter,
        One,
        response_cache_fills,
        "maitred_thread_response_cache_fills_total",
        "Requests to pools for the cache."
    ),
    cell!(
        Counter,
        One,
        response_cache_stored,
        "maitred_thread_response_cache_stored_total",
        "Responses that were stored."
    ),
    cell!(
        Counter,
        One,
        response_cache_validated,
        "maitred_thread_response_cache_validated_total",
        "Stored responses that were found to be still good (304)."
    ),
    cell!(
        Counter,
        One,
        response_cache_failed,
        "maitred_thread_response_cache_failed_total",
        "Responses for the cache that were not received, or not as a whole."
    ),
    cell!(
        Counter,
        One,
        sent_to_threads as "requests_transferred",
        "maitred_thread_requests_transferred_total",
        "Requests transferred to a thread that has a free process, because the connection itself cannot move: it uses HTTP/2, or \
         that thread is at its limit of connections."
    ),
    cell!(
        Counter,
        One,
        relayed_not_tcp,
        "maitred_thread_relayed_not_tcp_total",
        "Of the requests answered through a relay, those whose client's socket cannot be passed. All others were \
         configured (`transport = \"relay\"`), or measured to be cheaper (`\"auto\"`)."
    ),
    cell!(Counter, One, tls_handshakes, "maitred_thread_tls_handshakes_total", "TLS handshakes."),
    cell!(
        Counter,
        One,
        tls_resumed,
        "maitred_thread_tls_resumed_total",
        "Of the TLS handshakes, those that resumed an earlier session."
    ),
    cell!(
        Counter,
        One,
        tls_failures,
        "maitred_thread_tls_failures_total",
        "TLS connections that ended with an error; the error log names it."
    ),
    cell!(
        Counter,
        One,
        tls_by_kernel,
        "maitred_thread_tls_by_kernel_total",
        "TLS connections for which the kernel has begun to encrypt (`ktls`)."
    ),
    cell!(
        Counter,
        One,
        tls_kernel_refused,
        "maitred_thread_tls_kernel_refused_total",
        "TLS connections for which the kernel was to encrypt, and does not; the error log says why."
    ),
    cell!(
        Counter,
        One,
        http2_connections,
        "maitred_thread_http2_connections_total",
        "Connections that used HTTP/2."
    ),
    cell!(
        Counter,
        One,
        http2_streams,
        "maitred_thread_http2_streams_total",
        "Requests on HTTP/2 connections."
    ),
    cell!(
        Counter,
        One,
        http3_connections,
        "maitred_thread_http3_connections_total",
        "Connections of HTTP/3."
    ),
    cell!(
        Counter,
        One,
        http3_streams,
        "maitred_thread_http3_streams_total",
        "Requests on HTTP/3 connections."
    ),
    cell!(
        Counter,
        One,
        datagrams_received,
        "maitred_thread_datagrams_received_total",
        "Datagrams of QUIC that have come."
    ),
    cell!(
        Counter,
        One,
        datagram_sends,
        "maitred_thread_datagram_sends_total",
        "System calls that have sent datagrams of QUIC, of which each may have sent many."
    ),
    cell!(
        Counter,
        One,
        datagrams_forwarded,
        "maitred_thread_datagrams_forwarded_total",
        "Datagrams that were passed on to an earlier worker process, of whose connections they are."
    ),
    cell!(
        Counter,
        One,
        quic_refused,
        "maitred_thread_quic_refused_total",
        "New connections of QUIC that were not accepted, because of a limit."
    ),
    cell!(
        Counter,
        One,
        quic_retries,
        "maitred_thread_quic_retries_total",
        "New connections of QUIC that were asked to come again, to prove their address, because of a limit: many clients had not proved theirs, or that address had all that it may have."
    ),
    cell!(
        Counter,
        One,
        detached,
        "maitred_thread_detached_total",
        "Connections that an application process keeps for another protocol, such as WebSocket."
    ),
    cell!(
        Counter,
        One,
        cancelled,
        "maitred_thread_cancelled_total",
        "Requests that were cancelled at their process, because the client closed the connection before the response."
    ),
    cell!(
        Counter,
        One,
        handoff_batches,
        "maitred_thread_handoff_batches_total",
        "Messages that carried handoffs; handoffs divided by this: the mean batch."
    ),
    cell!(
        Counter,
        One,
        descriptors_passed,
        "maitred_thread_descriptors_passed_total",
        "Descriptors passed to application processes."
    ),
    cell!(
        Counter,
        One,
        queue_refused,
        "maitred_thread_queue_refused_total",
        "Requests refused because the queue was full, or the wait in it too long."
    ),
    cell!(
        Counter,
        One,
        bodies_refused,
        "maitred_thread_bodies_refused_total",
        "Requests refused because the budget for request bodies was exhausted."
    ),
    cell!(
        Counter,
        One,
        handoff_lost,
        "maitred_thread_handoffs_lost_total",
        "Requests whose application process ended before the response."
    ),
    cell!(
        Counter,
        One,
        retried as "handoff_retries",
        "maitred_thread_handoff_retries_total",
        "Of these requests, those retried on another application process."
    ),
    cell!(
        Counter,
        One,
        proxied as "upstream_requests",
        "maitred_thread_upstream_requests_total",
        "Requests forwarded to HTTP and FastCGI servers."
    ),
    cell!(
        Counter,
        One,
        upstream_connections,
        "maitred_thread_upstream_connections_total",
        "Connections made to HTTP and FastCGI servers; requests divided by this: requests per connection."
    ),
    cell!(
        Counter,
        One,
        upstream_failures,
        "maitred_thread_upstream_failures_total",
        "Times that an external server could not be reached, aborted a response, or timed out."
    ),
    cell!(
        Counter,
        One,
        upstream_retries,
        "maitred_thread_upstream_retries_total",
        "Requests that were retried, over another connection or at another server."
    ),
    cell!(
        Counter,
        One,
        upstream_retries_refused,
        "maitred_thread_upstream_retries_refused_total",
        "Requests that were not retried, because `retry.budget_percent` of their pool was used up."
    ),
    cell!(Counter, One, malformed, "maitred_thread_malformed_total", "Requests refused as malformed."),
    cell!(
        Counter,
        One,
        aborted as "client_aborts",
        "maitred_thread_client_aborts_total",
        "Requests that the client aborted before the response was complete; 499 in the access log."
    ),
    cell!(
        Counter,
        One,
        request_timeouts,
        "maitred_thread_request_timeouts_total",
        "Requests that were ended because a process, or an external server, was silent for `request_timeout`, or took longer \
         than `request_total_timeout`."
    ),
    cell!(
        Counter,
        One,
        timed_out_in_response,
        "maitred_thread_request_timeouts_in_response_total",
        "Of these, those aborted after a part of the response was sent; 598 in the access log. The others got 504."
    ),
    cell!(
        Counter,
        One,
        streams_refused,
        "maitred_thread_streams_refused_total",
        "HTTP/2 and HTTP/3 streams refused because of overload, or because the client does not read its responses."
    ),
    cell!(
        Counter,
        One,
        unsent_aborted,
        "maitred_thread_unsent_aborted_total",
        "Responses that were aborted because `unsent_memory_bytes_max` was reached."
    ),
    cell!(
        Counter,
        One,
        files_broken,
        "maitred_thread_files_broken_total",
        "Responses that were aborted because a file was shorter than announced, or could not be read."
    ),
    cell!(Counter, One, timeouts, "maitred_thread_timeouts_total", "Connections that exceeded a timeout."),
    cell!(
        Counter,
        One,
        slow,
        "maitred_thread_slow_total",
        "Of the connections that exceeded a timeout, those whose client received a response below the minimal rate, or exceeded \
         `response_total_timeout`."
    ),
    cell!(Counter, One, cache_hits, "maitred_thread_cache_hits_total", "Files found in the cache."),
    cell!(Counter, One, cache_misses, "maitred_thread_cache_misses_total", "Files not found in the cache."),
    cell!(
        Gauge,
        One,
        encoders,
        "maitred_thread_encoders",
        "Responses of applications and servers that are being compressed; at most `compress_encoders_max`."
    ),
    coded!(0, "zstd"),
    coded!(1, "gzip"),
    cell!(
        Counter,
        One,
        compress_refused,
        "maitred_thread_compress_refused_total",
        "Responses that were sent as they are, because all encoders were in use."
    ),
    cell!(
        Counter,
        Bytes,
        compress_bytes_in,
        "maitred_thread_compress_in_bytes_total",
        "Content of responses that encoders have taken."
    ),
    cell!(
        Counter,
        Bytes,
        compress_bytes_out,
        "maitred_thread_compress_out_bytes_total",
        "Compressed content that encoders have made."
    ),
    cell!(Counter, One, disk_waits, "maitred_thread_disk_waits_total", "Reads from disk by a helper thread."),
    cell!(Counter, One, log_dropped, "maitred_thread_log_lines_dropped_total", "Access-log lines dropped."),
    cell!(
        Gauge,
        One,
        log_dropped_at,
        "maitred_thread_log_lines_dropped_time_seconds",
        "Unix time of the last access-log line that was dropped; 0 if none was."
    ),
    cell!(Counter, One, panics, "maitred_thread_panics_total", "Panics that ended a connection."),
    cell!(Counter, One, turns, "maitred_thread_turns_total", "Iterations of the event loop."),
    cell!(
        Counter,
        One,
        slow_turns,
        "maitred_thread_slow_turns_total",
        "Iterations of the event loop that took longer than 100 ms; the error log says which events they handled."
    ),
    cell!(
        Gauge,
        Micros,
        longest_turn_us,
        "maitred_thread_longest_turn_seconds",
        "The longest iteration of the event loop so far: every connection of the thread waited that long."
    ),
    cell!(
        Counter,
        One,
        modules_slow,
        "maitred_thread_modules_slow_total",
        "Requests for which an in-process module took longer than 100 ms; the error log names the module."
    ),
    cell!(Counter, Nanos, cpu_ns, "maitred_thread_cpu_seconds_total", "CPU time used."),
    cell!(
        Counter,
        Nanos,
        run_delay_ns,
        "maitred_thread_run_delay_seconds_total",
        "Time spent ready to run, but waiting for a CPU."
    ),
    cell!(
        Counter,
        One,
        affinity_released,
        "maitred_thread_affinity_releases_total",
        "Times that the thread was unpinned, because another process used its CPU."
    ),
    cell!(
        Counter,
        One,
        affinity_moved,
        "maitred_thread_affinity_moves_total",
        "Times that the thread was pinned to another CPU, or back to its own."
    ),
];
