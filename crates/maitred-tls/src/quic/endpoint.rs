//! How the QUIC library is set up: keys, connection ids, and what a client may have.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::hkdf::{HKDF_SHA256, Prk};
use aws_lc_rs::hmac;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    BloomTokenLog, ConnectionIdGenerator, Endpoint, EndpointConfig, HashedConnectionIdGenerator, IdleTimeout,
    ServerConfig, TransportConfig, ValidationTokenConfig, VarInt,
};

use super::congestion;
use super::ids::{Ids, Mask, Place};
use super::secrets::Secret;

/// The protocol that is offered (9114-3.1).
pub(crate) const ALPN: &[u8] = b"h3";

/// Bytes of one request's body that may be on their way, or be held by the library.
const STREAM_WINDOW: u32 = 256 << 10;
/// Bytes of all bodies of a connection together: the memory that its uploads can cost.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Bytes that a connection may have under way before its congestion window is known, see `send_window`.
pub const SEND_WINDOW_FIRST: u64 = 256 << 10;
/// Bytes that a connection may have under way: 100 MB/s over 80 ms.
pub const SEND_WINDOW_MAX: u64 = 8 << 20;

/// The shortest time between two stateless resets of one thread (RFC 9000 section 10.3.3). Resets are smaller than what they
/// answer; after a worker process was killed, each of its connections waits for one.
const RESET_EVERY: Duration = Duration::from_micros(100);

/// How long a token is good that was given for another connection (RFC 9000 section 8.1.3).
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Tokens that a client gets with a connection.
const TOKENS_PER_CONNECTION: u32 = 2;
/// Bytes of memory that remember which tokens were used, for each listener.
const TOKEN_LOG_BYTES: usize = 1 << 20;
/// Tokens that are used in a lifetime, by which the memory is divided.
const TOKENS_EXPECTED: u64 = 100_000;

/// Connections whose first datagram has come and that were neither accepted nor refused: this is done at once.
const INCOMING_MAX: usize = 64;
/// Bytes of further datagrams that are kept for one of them.
const INCOMING_BYTES: u64 = 16 << 10;

/// What follows from the secret of the master.
#[derive(Clone)]
pub struct Keys {
    /// How connection ids are made and read.
    pub mask: Mask,
    reset: Arc<hmac::Key>,
    token: Arc<Prk>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl Keys {
    /// The keys of a master.
    ///
    /// # Errors
    /// None that is known to happen.
    pub(crate) fn new(secret: &Secret) -> Result<Keys, String> {
        let failed = |_| "the keys of QUIC cannot be made".to_owned();
        let reset = secret.reset_key().map_err(failed)?;
        let token = secret.token_key().map_err(failed)?;
        Ok(Keys {
            mask: secret.mask().map_err(failed)?,
            reset: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &*reset)),
            token: Arc::new(Prk::new_less_safe(HKDF_SHA256, &*token)),
        })
    }
}

/// What a connection may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Requests at a time.
    pub streams_max: u32,
    /// Unidirectional streams at a time.
    pub unidirectional_max: u32,
    /// How long nothing may be heard of a client.
    pub idle: Duration,
}

/// What connections of a listener begin with. `tls` is a configuration for TLS 1.3 that offers [`ALPN`] and nothing else.
///
/// # Errors
/// A text, if it has not the cipher that QUIC begins with (RFC 9001 section 5.2).
pub(crate) fn server_config(
    tls: rustls::ServerConfig,
    keys: &Keys,
    bounds: Bounds,
) -> Result<Arc<ServerConfig>, String> {
    let crypto = QuicServerConfig::try_from(tls)
        .map_err(|_| "`http3` needs the cipher TLS_AES_128_GCM_SHA256 among `ciphers`".to_owned())?;
    let mut config = ServerConfig::new(Arc::new(crypto), Arc::clone(&keys.token) as _);
    config.transport_config(Arc::new(transport(bounds)));
    let mut tokens = ValidationTokenConfig::default();
    tokens.lifetime(TOKEN_LIFETIME).sent(TOKENS_PER_CONNECTION);
    tokens.log(Arc::new(BloomTokenLog::new_expected_items(TOKEN_LOG_BYTES, TOKENS_EXPECTED)));
    config.validation_token_config(tokens);
    config.max_incoming(INCOMING_MAX);
    config
        .incoming_buffer_size(INCOMING_BYTES)
        .incoming_buffer_size_total(INCOMING_BYTES * INCOMING_MAX as u64);
    Ok(Arc::new(config))
}

fn transport(bounds: Bounds) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let idle = IdleTimeout::try_from(bounds.idle).ok();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(bounds.streams_max))
        .max_concurrent_uni_streams(VarInt::from_u32(bounds.unidirectional_max))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(SEND_WINDOW_FIRST)
        .max_idle_timeout(idle)
        .congestion_controller_factory(Arc::new(congestion::Config::default()))
        // Datagrams (RFC 9221) are not offered.
        .datagram_receive_buffer_size(None);
    transport
}

/// What answers the datagrams of one socket. `whole`: datagrams leave unfragmented, so that it can be found out how large
/// they may be.
///
/// # Errors
/// If there are no random numbers.
pub fn endpoint(keys: &Keys, place: Place, server: Arc<ServerConfig>, whole: bool) -> io::Result<Endpoint> {
    let mut config = EndpointConfig::new(Arc::clone(&keys.reset) as _);
    // The library makes one generator of a function that may be called more often.
    let ids = Mutex::new(Some(Ids::new(keys.mask, place)?));
    config.cid_generator(move || -> Box<dyn ConnectionIdGenerator> {
        match ids.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(ids) => Box::new(ids),
            None => Box::<HashedConnectionIdGenerator>::default(),
        }
    });
    config.min_reset_interval(RESET_EVERY);
    Ok(Endpoint::new(Arc::new(config), Some(server), whole, None))
}
