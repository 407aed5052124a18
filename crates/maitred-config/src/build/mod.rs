//! From tables to meaning: each value checked, and then the values against each other.
//!
//! Every function here gives a result whatever it finds; the findings decide whether it is used.

mod access;
mod accounts;
mod acme;
mod arrivals;
mod balancing;
mod cache;
mod claims;
mod client_limits;
mod common;
mod compress;
mod conditions;
mod cors;
mod discovery;
mod environment;
mod expires;
mod external;
mod fastcgi;
mod files;
mod headers;
mod health;
mod hosts;
mod jwt;
mod listen;
mod logs;
mod media;
mod mirror;
mod modules;
mod overrides;
mod paths;
mod pools;
mod reach;
mod retry;
mod rewrites;
mod routes;
mod security;
mod server;
mod shadowed;
mod sites;
mod stateful;
mod tls;
mod trace;
mod upstream_tls;

use super::meaning::{Config, Limits, Network};
use super::networks::LOOPBACK;
use super::reader::Section;
use common::{directory, given_time, networks, not_above, path, user};

pub(super) use accounts::DEFAULT_USER;
pub(super) use server::{admin, admin_address, admin_token};

/// The whole file.
pub(super) fn config(root: &Section<'_>) -> Config {
    let access_logs = logs::access_logs(root);
    let named = root.named("pool");
    root.cx.resolver_given.set(root.section("server").given("resolver").is_some());
    let mut pools: Vec<_> = named.iter().map(|(name, section)| pools::pool(name, section)).collect();
    named.iter().zip(&pools).for_each(|((_, section), pool)| stateful::question(section, pool));
    let mut client_limits = client_limits::limits(root);
    let mut acme = acme::acme(root);
    let section = root.section("server");
    let mut server = server::server(&section);
    // Sites and conditions name them.
    let listens = listen::listens(root, &server.trusted_proxies.networks);
    let (mut sites, certified) = sites::sites(root, &pools::Known::new(&named, &pools), acme.as_ref());
    for pool in &mut pools {
        pool.request_headers.client_address.clone_from(&server.trusted_proxies.field);
    }
    acme::add_certificates(&mut sites, &server.state);
    listen::check_any(root);
    listen::check_admin(&section, server.admin.as_ref(), &listens);
    arrivals::check_together(root.cx, &listens, &sites);
    tls::check_together(root.cx, &listens, &sites, &certified);
    let of_server = root.section("limits");
    let limits = limits(&of_server, &server.trusted_proxies.networks);
    overrides::check(root, &of_server, &limits, &pools);
    let listens: Vec<_> = listens.into_iter().map(|(listen, _)| listen).collect();
    pools::check_together(root, &named, &pools, &sites, &listens);
    accounts::assign(root, &section, &named, &mut server, &pools);
    if let Some(acme) = &mut acme {
        accounts::of_agent(root, acme, &server, &pools);
    }
    client_limits.extend(client_limits::of_addresses(&limits, &listens));
    let log = logs::log(&root.section("log"));
    let (key_sets, auth_caches) = (root.cx.key_sets.take(), root.cx.auth_caches.take());
    let users_files = root.cx.users_files.take();
    let trace = trace::trace(root);
    let cache = cache::needed(root, &sites);
    cache::check_certificates(root, &listens);
    modules::check_number(root, &sites);
    Config {
        listens,
        server,
        sites,
        pools,
        acme,
        limits,
        client_limits,
        key_sets,
        users_files,
        auth_caches,
        log,
        access_logs,
        trace,
        cache,
    }
}

fn limits(section: &Section<'_>, trusted: &[Network]) -> Limits {
    let limits = Limits {
        connections_per_thread_max: section.number("connections_per_thread_max").value,
        connections_per_address_max: section.number("connections_per_address_max").value,
        connections_per_address_exempt: exempt(section, trusted),
        tls_handshakes_per_address_per_second_max: section
            .number("tls_handshakes_per_address_per_second_max")
            .value,
        http2_resets_per_address_per_second_max: section
            .number("http2_resets_per_address_per_second_max")
            .value,
        head_bytes_max: section.number("head_bytes_max").value,
        header_count_max: section.number("header_count_max").value,
        target_bytes_max: section.number("target_bytes_max").value,
        body_bytes_max: section.number("body_bytes_max").value,
        body_inline_bytes_max: section.number("body_inline_bytes_max").value,
        body_memory_bytes_max: section.number("body_memory_bytes_max").value,
        bodies_memory_bytes_max: section.number("bodies_memory_bytes_max").value,
        bodies_disk_bytes_max: section.number("bodies_disk_bytes_max").value,
        unsent_memory_bytes_max: section.number("unsent_memory_bytes_max").value,
        unsent_connection_bytes_max: section.number("unsent_connection_bytes_max").value,
        unsent_files_bytes_max: section.number("unsent_files_bytes_max").value,
        requests_per_connection_max: section.number("requests_per_connection_max").value,
        streams_per_connection_max: section.number("streams_per_connection_max").value,
        ranges_max: section.number("ranges_max").value,
        head_timeout: section.time("head_timeout"),
        head_timeout_max: section.time("head_timeout_max"),
        head_bytes_per_second_min: section.number("head_bytes_per_second_min").value,
        body_timeout: section.time("body_timeout"),
        body_bytes_per_second_min: section.number("body_bytes_per_second_min").value,
        body_rate_grace: section.time("body_rate_grace"),
        request_total_timeout: given_time(section, "request_total_timeout"),
        keep_alive_timeout: section.time("keep_alive_timeout"),
        write_timeout: section.time("write_timeout"),
        response_bytes_per_second_min: section.number("response_bytes_per_second_min").value,
        response_rate_window: section.time("response_rate_window"),
        response_total_timeout: given_time(section, "response_total_timeout"),
        tunnel_idle_timeout: section.time("tunnel_idle_timeout"),
        relay_idle_timeout: section.time("relay_idle_timeout"),
        linger_timeout: section.time("linger_timeout"),
        loop_delay_max: section.time("loop_delay_max"),
        file_cache_bytes_max: section.number("file_cache_bytes_max").value,
        file_cache_files_max: section.number("file_cache_files_max").value,
        inline_file_bytes_max: section.number("inline_file_bytes_max").value,
        compress_encoders_max: section.number("compress_encoders_max").value,
        compress_file_bytes_max: section.number("compress_file_bytes_max").value,
        delayed_requests_max: section.number("delayed_requests_max").value,
        output_bytes_per_second_max: section.number("output_bytes_per_second_max").value,
        log_buffer_bytes_max: section.number("log_buffer_bytes_max").value,
    };
    check_limits(section, &limits);
    limits
}

/// Limits of which one bounds another.
fn check_limits(section: &Section<'_>, limits: &Limits) {
    let not_above = |small, value, large, bound| not_above(section, (small, value), (large, bound));
    not_above(
        "body_inline_bytes_max",
        limits.body_inline_bytes_max.into(),
        "body_memory_bytes_max",
        limits.body_memory_bytes_max.into(),
    );
    not_above(
        "body_memory_bytes_max",
        limits.body_memory_bytes_max.into(),
        "bodies_memory_bytes_max",
        limits.bodies_memory_bytes_max,
    );
    not_above(
        "unsent_connection_bytes_max",
        limits.unsent_connection_bytes_max,
        "unsent_memory_bytes_max",
        limits.unsent_memory_bytes_max,
    );
    not_above(
        "target_bytes_max",
        limits.target_bytes_max.into(),
        "head_bytes_max",
        limits.head_bytes_max.into(),
    );
    not_above(
        "inline_file_bytes_max",
        limits.inline_file_bytes_max.into(),
        "file_cache_bytes_max",
        limits.file_cache_bytes_max,
    );
}

/// Whose connections are not counted by address.
fn exempt(section: &Section<'_>, trusted: &[Network]) -> Vec<Network> {
    let networks = networks(section, "connections_per_address_exempt");
    match section.given("connections_per_address_exempt") {
        Some(_) => networks,
        None => LOOPBACK.iter().chain(trusted).copied().collect(),
    }
}
