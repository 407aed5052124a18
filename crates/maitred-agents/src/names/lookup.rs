//! One question to the resolver, bounded in time.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;

use super::answers::{self, Srv, TARGETS_MAX};
use maitred_config::{Found, Query};

/// How long all questions for one name may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(20);
/// How long one name server may take for one question.
const SERVER_TIMEOUT: Duration = Duration::from_secs(3);

/// What a name leads to, and for how long that is good; never empty.
///
/// # Errors
/// A text for the operator.
pub(crate) async fn resolve(
    query: &Query,
    resolver: &[SocketAddr],
) -> Result<(Vec<Found>, Duration), String> {
    let outcome = tokio::time::timeout(LOOKUP_TIMEOUT, ask(query, resolver)).await;
    let ((found, cut), ttl) =
        outcome.map_err(|_| format!("no answer within {} s", LOOKUP_TIMEOUT.as_secs()))??;
    if cut {
        tracing::warn!(
            name = query.host,
            "it leads to more servers than a pool can have: {} are used",
            found.len()
        );
    }
    match found.is_empty() {
        true => Err("it has no address".to_owned()),
        false => Ok((found, ttl)),
    }
}

async fn ask(query: &Query, servers: &[SocketAddr]) -> Result<((Vec<Found>, bool), Duration), String> {
    let resolver = resolver(servers)?;
    if !query.srv {
        let (addresses, ttl) = addresses(&resolver, &query.host).await?;
        return Ok((answers::of_addresses(addresses), ttl));
    }
    let answer = resolver.srv_lookup(query.host.as_str()).await.map_err(|error| error.to_string())?;
    let mut ttl = left(answer.valid_until());
    let records = answer.answers().iter().filter_map(|record| match &record.data {
        RData::SRV(srv) => Some(Srv {
            priority: srv.priority,
            weight: srv.weight,
            port: srv.port,
            target: srv.target.to_utf8().trim_end_matches('.').to_owned(),
        }),
        _ => None,
    });
    let mut resolved = Vec::with_capacity(TARGETS_MAX);
    for target in answers::targets(records.collect()) {
        // A target that is not there leaves the others.
        let (addresses, good_for) =
            addresses(&resolver, &format!("{}.", target.target)).await.unwrap_or_else(|why| {
                tracing::debug!(target = target.target, "{why}");
                (Vec::new(), ttl)
            });
        ttl = ttl.min(good_for);
        resolved.push((target, addresses));
    }
    Ok((answers::of_targets(&resolved), ttl))
}

/// The addresses of both families.
async fn addresses(resolver: &TokioResolver, host: &str) -> Result<(Vec<IpAddr>, Duration), String> {
    let answer = resolver.lookup_ip(host).await.map_err(|error| error.to_string())?;
    let ttl = left(answer.valid_until());
    Ok((answer.iter().collect(), ttl))
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// A new one for each name and time: what resolv.conf(5) and hosts(5) say now counts, and nothing is kept for longer than its own
/// time.
fn resolver(servers: &[SocketAddr]) -> Result<TokioResolver, String> {
    let provider = TokioRuntimeProvider::default();
    let mut builder = match servers.is_empty() {
        true => TokioResolver::builder(provider).map_err(|error| format!("resolv.conf: {error}"))?,
        false => TokioResolver::builder_with_config(configured(servers), provider),
    };
    let options: &mut ResolverOpts = builder.options_mut();
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.timeout = options.timeout.min(SERVER_TIMEOUT);
    options.cache_size = 0;
    builder.build().map_err(|error| error.to_string())
}

/// `resolver` of `[server]`: no search list, and each name server by UDP first.
fn configured(servers: &[SocketAddr]) -> ResolverConfig {
    let server = |address: &SocketAddr| {
        let mut server = NameServerConfig::udp_and_tcp(address.ip());
        let port = |connection: &mut ConnectionConfig| connection.port = address.port();
        server.connections.iter_mut().for_each(port);
        server
    };
    ResolverConfig::from_parts(None, Vec::new(), servers.iter().map(server).collect())
}
