# Varnish with its built-in rules. Those of time are parameters (xtask/src/test_cache/servers.rs): nothing is fresh that does not
# say so, nothing is served stale that does not allow it, and what is stale is kept for an hour to be validated.
vcl 4.1;

backend default {
    .host = "127.0.0.1";
    .port = "@ORIGIN_PORT@";
}
