//! TLS records that the kernel encrypts (kTLS, `Documentation/networking/tls.rst`): a file goes to the socket without a copy in
//! user space, and an application can write a response to a client's TLS connection by itself.
//!
//! Only sending, and only TLS 1.3. rustls remains in charge of the session: it reads what comes, so that a process which answers
//! on such a socket reads nothing and has no keys; and what it has to say (alerts, key updates) goes through the kernel as well.
//! For that, its ciphers are wrapped here:
//!
//! | until the kernel sends | from then on |
//! |---|---|
//! | the wrapped cipher encrypts as rustls' own does, and counts records | it leaves records as they are, with their types |
//! | the session sends records | the session gives them to the kernel, with their types |
//! | content goes through rustls | content goes to the socket as it is |
//!
//! | | |
//! |---|---|
//! | [`kernel`] | whether the kernel can |
//! | [`transmit`] | the keys of what is sent, and who encrypts with them |

pub mod kernel;
pub mod transmit;
