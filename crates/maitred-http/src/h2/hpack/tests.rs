//! The examples of RFC 7541 Appendix C, and what each part promises.

mod encoder;
mod rfc;
