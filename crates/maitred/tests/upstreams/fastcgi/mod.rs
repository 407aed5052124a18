//! Black-box tests of `connect = "fastcgi://…"`: the real binary in front of a real PHP (Debian's php-fpm and php-cgi). Most
//! cases are tried on nginx in front of the same PHP as well: that shows that the case is right, and where the two differ.

mod bodies;
mod controller;
mod failing;
mod lifetime;
mod nginx;
mod responses;
mod scripts;
mod site;
mod variables;
mod wrapper;
