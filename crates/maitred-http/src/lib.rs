//! HTTP as pure functions: heads, framing, URIs, ranges, conditions, dates, and the limits on them.
//!
//! No I/O, no clock, no `unsafe`. Sections cited as "9110-x" and "9112-x" are those of RFC 9110 and RFC 9112.

pub mod body;
mod bytes;
pub mod cache;
pub mod claims;
mod compression;
pub mod conditional;
pub mod date;
pub mod etag;
pub mod fastcgi;
pub mod fields;
mod floods;
pub mod forwarded;
pub mod framed;
pub mod fuzzing;
pub mod grpc;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod limits;
pub mod mapping;
pub mod negotiate;
pub mod paths;
mod priority;
pub mod proxy_protocol;
pub mod range;
pub mod request;
pub mod response;
mod section;
pub mod status;
pub mod uri;
pub mod websocket;
