//! How many of its parts one server can have: the scoreboard has rows for so many, and the configuration takes no more.

/// Event-loop threads.
pub const THREADS_MAX: usize = 256;
/// Pools.
pub const POOLS_MAX: usize = 64;
/// Limits by client.
pub const CLIENT_LIMITS_MAX: usize = 64;
/// Servers of one pool, however they are found.
pub const SERVERS_MAX: usize = 256;
/// Application slots, over all pools.
pub const SLOTS_MAX: usize = 1024;
/// The longest text of a configuration that comes by the admin address, in bytes. A site takes some 150: ten thousand have
/// room.
pub const CONFIG_TEXT_BYTES_MAX: u64 = 2 * 1024 * 1024;
