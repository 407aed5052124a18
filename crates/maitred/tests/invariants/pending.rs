//! Relations that today's server does not keep, each with what it waits for. Taking a line out switches the relation on.

/// Relation and reason.
pub(crate) const PENDING: &[(&str, &str)] = &[
    ("kept from another pool", "the pool of a route is no part of the key of the cache yet"),
    ("kept for another user", "users that `jwt` and `forward_auth` find do not count for the cache yet"),
    (
        "the field Server",
        "`server_header = false` does not reach processes that write to the client's own socket",
    ),
];

pub(crate) fn is_pending(relation: &str) -> bool {
    PENDING.iter().any(|(pending, _)| *pending == relation)
}
