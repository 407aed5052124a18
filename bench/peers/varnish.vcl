# Varnish with its built-in rules, in memory. Filled in by `cargo xtask bench`.
vcl 4.1;

backend default {
    .host = "@BACKEND_HOST@";
    .port = "@BACKEND_PORT@";
}
