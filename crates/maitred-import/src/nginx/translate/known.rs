//! Directives that need no translation, or have none: what is said of them when nothing else was.

use crate::report::Kind::{self, Better, Choice, NotNeeded, NotPossible, Worse};

/// Names, separated by white space.
type Group = (Kind, &'static str, &'static str);

const GROUPS: &[Group] = &[
    (
        NotNeeded,
        "threads, connections and system calls are chosen for the machine",
        "worker_processes worker_connections worker_rlimit_nofile worker_cpu_affinity worker_priority multi_accept use \
         accept_mutex accept_mutex_delay sendfile sendfile_max_chunk tcp_nopush tcp_nodelay aio aio_write directio thread_pool \
         events daemon master_process timer_resolution pcre_jit worker_shutdown_timeout worker_aio_requests read_ahead \
         output_buffers postpone_output lingering_close lingering_time lingering_timeout reset_timedout_connection send_lowat \
         connection_pool_size request_pool_size worker_rlimit_core working_directory lock_file",
    ),
    (
        NotNeeded,
        "tables have the size that they need",
        "types_hash_max_size types_hash_bucket_size server_names_hash_bucket_size server_names_hash_max_size \
         variables_hash_max_size variables_hash_bucket_size map_hash_max_size map_hash_bucket_size \
         proxy_headers_hash_max_size proxy_headers_hash_bucket_size zone",
    ),
    (
        Choice,
        "media types follow from the ends of names, and files have validators and ranges (RFC 9110)",
        "types default_type etag if_modified_since max_ranges charset_types charset override_charset",
    ),
    (
        NotNeeded,
        "open files are cached, and noticed when they change",
        "open_file_cache open_file_cache_valid open_file_cache_min_uses open_file_cache_errors",
    ),
    (
        Choice,
        "the path of a route has no empty segments; what an application gets is said by `target`",
        "merge_slashes",
    ),
    (
        NotNeeded,
        "heads and buffers have bounds of their own",
        "large_client_header_buffers client_header_buffer_size ignore_invalid_headers client_body_buffer_size \
         client_body_temp_path client_body_in_single_buffer client_body_in_file_only proxy_max_temp_file_size proxy_temp_path \
         proxy_temp_file_write_size fastcgi_temp_path fastcgi_max_temp_file_size fastcgi_temp_file_write_size uwsgi_temp_path \
         scgi_temp_path",
    ),
    (
        NotNeeded,
        "responses are passed on as they come, in the version that each side speaks",
        "proxy_buffering proxy_buffers proxy_buffer_size proxy_busy_buffers_size fastcgi_buffering fastcgi_buffers \
         fastcgi_buffer_size fastcgi_busy_buffers_size proxy_http_version fastcgi_keep_conn proxy_socket_keepalive \
         fastcgi_socket_keepalive proxy_limit_rate chunked_transfer_encoding",
    ),
    (
        Choice,
        "a process learns that the client has gone, and may go on",
        "proxy_ignore_client_abort fastcgi_ignore_client_abort",
    ),
    (
        Worse,
        "ranges of what an application sends are its own affair, but for what is cached",
        "proxy_force_ranges",
    ),
    (
        NotNeeded,
        "applications get the variables of CGI, and scripts are found",
        "fastcgi_split_path_info fastcgi_catch_stderr fastcgi_pass_header fastcgi_pass_request_headers fastcgi_pass_request_body",
    ),
    (
        NotNeeded,
        "of several servers the one with the fewest requests gets the next; connections are kept, and requests retried",
        "least_conn random keepalive keepalive_requests keepalive_time proxy_next_upstream proxy_next_upstream_tries \
         proxy_next_upstream_timeout fastcgi_next_upstream fastcgi_next_upstream_tries fastcgi_next_upstream_timeout \
         proxy_pass_header proxy_pass_request_headers",
    ),
    (
        Choice,
        "the name servers of the system are asked; `resolver` of [server] names others",
        "resolver resolver_timeout",
    ),
    (
        NotNeeded,
        "sessions, tickets and key exchange of TLS, and HTTP/2, need no settings",
        "ssl_session_cache ssl_session_timeout ssl_session_tickets ssl_session_ticket_key ssl_buffer_size \
         ssl_prefer_server_ciphers ssl_ecdh_curve http2 http2_max_concurrent_streams http2_idle_timeout http2_max_requests \
         http2_recv_timeout http2_max_field_size http2_max_header_size http2_chunk_size http2_body_preread_size \
         ssl_conf_command ssl_verify_depth",
    ),
    (NotNeeded, "the version of the server is not shown", "server_tokens"),
    (
        NotNeeded,
        "servers are always told which name is wanted (SNI)",
        "proxy_ssl_server_name grpc_ssl_server_name",
    ),
    (
        Choice,
        "redirects are relative, so that they need neither host nor port",
        "port_in_redirect server_name_in_redirect absolute_redirect msie_refresh msie_padding keepalive_disable",
    ),
    (
        Choice,
        "compression chooses types and levels by itself",
        "gzip_types gzip_vary gzip_comp_level gzip_min_length gzip_proxied gzip_disable gzip_buffers gzip_http_version \
         brotli_types brotli_comp_level brotli_min_length brotli_buffers brotli_window gunzip zstd_types zstd_comp_level \
         zstd_min_length",
    ),
    (
        NotNeeded,
        "the service manager, `maitred status` and `maitred top` know the process",
        "pid env load_module debug_points debug_connection stub_status ssl_engine",
    ),
    (
        Choice,
        "logs go to standard output and standard error; `access_file` and `error_file` in [log] name files",
        "access_log error_log log_format log_not_found log_subrequest rewrite_log open_log_file_cache uninitialized_variable_warn",
    ),
    (
        Better,
        "the ciphers are those that are safe today; `ciphers` in `tls` chooses among them",
        "ssl_ciphers ssl_dhparam",
    ),
    (
        Choice,
        "a stapled response is a file here (`ocsp` in `certificates`), and clients do without",
        "ssl_stapling ssl_stapling_verify ssl_stapling_file ssl_stapling_responder ssl_trusted_certificate",
    ),
    (
        Choice,
        "clients of HTTP/3 use HTTP/2 instead",
        "http3 http3_hq quic_retry quic_gso quic_bpf ssl_early_data http2_push http2_push_preload",
    ),
    (
        Choice,
        "rates and times of clients and servers are bounded by default ([limits], and `request_timeout` of a pool)",
        "proxy_send_timeout fastcgi_send_timeout uwsgi_send_timeout send_timeout client_body_timeout client_header_timeout",
    ),
    (
        Worse,
        "large files are sent by sendfile(2), and media players ask for ranges",
        "mp4 mp4_buffer_size mp4_max_buffer_size flv slice",
    ),
    (
        NotPossible,
        "which requests pass the cache by is a route of its own, with `match` and `cache = false`",
        "proxy_cache_bypass proxy_no_cache fastcgi_cache_bypass fastcgi_no_cache uwsgi_cache_bypass uwsgi_no_cache",
    ),
    (Choice, "`maitred cache purge` does that", "proxy_cache_purge fastcgi_cache_purge uwsgi_cache_purge"),
    (
        NotNeeded,
        "no route that caches uses it",
        "proxy_cache proxy_cache_valid proxy_cache_path proxy_cache_key \
         proxy_cache_use_stale proxy_cache_lock proxy_cache_lock_timeout proxy_cache_lock_age proxy_cache_background_update \
         proxy_cache_revalidate proxy_cache_min_uses proxy_cache_methods proxy_cache_convert_head fastcgi_cache \
         fastcgi_cache_valid fastcgi_cache_path fastcgi_cache_key \
         fastcgi_cache_use_stale fastcgi_cache_lock fastcgi_cache_lock_timeout fastcgi_cache_background_update \
         fastcgi_cache_revalidate fastcgi_cache_min_uses fastcgi_cache_methods uwsgi_cache uwsgi_cache_valid \
         uwsgi_cache_path uwsgi_cache_key uwsgi_cache_use_stale uwsgi_cache_lock uwsgi_cache_lock_timeout \
         uwsgi_cache_background_update uwsgi_cache_revalidate uwsgi_cache_min_uses uwsgi_cache_methods scgi_cache \
         scgi_cache_valid scgi_cache_path scgi_cache_key",
    ),
    (NotPossible, "responses are stored in a cache only", "proxy_store proxy_store_access"),
    (
        NotNeeded,
        "fields of an application have no effect on the server",
        "proxy_ignore_headers fastcgi_ignore_headers",
    ),
    (
        NotPossible,
        "bodies of responses are not changed",
        "sub_filter sub_filter_once sub_filter_types sub_filter_last_modified add_before_body add_after_body addition_types \
         ssi ssi_types ssi_silent_errors xslt_stylesheet xml_entities image_filter image_filter_buffer \
         image_filter_jpeg_quality subs_filter subs_filter_types pagespeed proxy_set_body",
    ),
    (
        NotPossible,
        "there are no scripts and no modules in the server",
        "perl perl_set perl_modules js_content modsecurity modsecurity_rules_file passenger_enabled passenger_root \
         passenger_ruby passenger_app_root echo vhost_traffic_status vhost_traffic_status_zone \
         vhost_traffic_status_display geoip2 geoip_country geoip_city geoip_org fancyindex upload_pass rtmp",
    ),
    (NotPossible, "only HTTP is served", "stream mail imap ssl_preread protocol"),
    (
        NotPossible,
        "there is no directory that clients write to",
        "dav_methods dav_access create_full_put_path min_delete_depth dav_ext_methods dav_ext_lock",
    ),
    (
        NotPossible,
        "there is no key for this",
        "mirror mirror_request_body split_clients secure_link secure_link_md5 secure_link_secret userid random_index \
         empty_gif proxy_bind proxy_method proxy_cookie_path proxy_cookie_domain proxy_cookie_flags valid_referers \
         auth_jwt_require auth_jwt_header_set \
         disable_symlinks underscores_in_headers",
    ),
    (Worse, "Maitred answers with short texts of its own", "error_page recursive_error_pages"),
    (
        NotNeeded,
        "nothing that is in the output uses it",
        "satisfy auth_delay set break upstream map geo limit_req_zone limit_conn_zone limit_zone auth_basic_user_file auth_request_set \
         auth_jwt_key_file auth_jwt_key_request auth_jwt_key_cache auth_jwt_claim_set auth_jwt_leeway auth_jwt_type \
         proxy_pass_request_body",
    ),
    (
        NotPossible,
        "the output has nothing of it",
        "internal root index try_files autoindex autoindex_exact_size autoindex_localtime autoindex_format add_header expires \
         client_max_body_size gzip gzip_static brotli brotli_static zstd zstd_static proxy_set_header proxy_hide_header \
         proxy_redirect proxy_read_timeout proxy_connect_timeout proxy_intercept_errors fastcgi_param fastcgi_index \
         fastcgi_read_timeout fastcgi_connect_timeout fastcgi_intercept_errors fastcgi_hide_header keepalive_timeout user http \
         ssl ssl_certificate ssl_certificate_key ssl_protocols allow deny auth_basic auth_request auth_jwt real_ip_header \
         real_ip_recursive set_real_ip_from limit_conn limit_conn_status limit_rate \
         limit_rate_after limit_req limit_req_status limit_conn_log_level \
         limit_req_log_level limit_conn_dry_run limit_req_dry_run uwsgi_param scgi_param uwsgi_read_timeout \
         uwsgi_connect_timeout uwsgi_buffers uwsgi_buffer_size uwsgi_busy_buffers_size uwsgi_buffering \
         more_set_headers more_clear_headers proxy_ssl_verify proxy_ssl_name proxy_ssl_protocols \
         proxy_ssl_session_reuse proxy_ssl_trusted_certificate proxy_ssl_verify_depth proxy_ssl_ciphers \
         proxy_ssl_certificate proxy_ssl_certificate_key ssl_verify_client ssl_client_certificate ssl_crl \
         proxy_request_buffering fastcgi_request_buffering uwsgi_request_buffering \
         grpc_set_header grpc_read_timeout grpc_connect_timeout grpc_ssl_verify grpc_ssl_name \
         grpc_ssl_protocols grpc_ssl_session_reuse grpc_ssl_trusted_certificate grpc_ssl_verify_depth grpc_ssl_ciphers \
         grpc_ssl_certificate grpc_ssl_certificate_key \
         proxy_pass fastcgi_pass uwsgi_pass scgi_pass grpc_pass memcached_pass ssl_reject_handshake ssl_password_file server_name listen return rewrite if alias server location limit_except",
    ),
];

/// What is said of a directive that nothing was said of.
pub(crate) fn directive(name: &str) -> Option<(Kind, &'static str)> {
    let found = GROUPS.iter().find(|(_, _, names)| names.split_whitespace().any(|known| known == name));
    let script = name.contains("_by_lua") || name.starts_with("lua_") || name.starts_with("js_");
    let script = script.then_some((NotPossible, "there are no scripts in the server"));
    found.map(|(kind, why, _)| (*kind, *why)).or(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_is_in_one_group() {
        let mut names: Vec<&str> = GROUPS.iter().flat_map(|(_, _, names)| names.split_whitespace()).collect();
        names.sort_unstable();
        let twice: Vec<_> = names.windows(2).filter(|pair| pair.first() == pair.last()).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}
