//! Whether the kernel could encrypt (kTLS, `Documentation/networking/tls.rst`). It is only asked and shown: with it, an
//! application could write a response to a client's TLS connection by itself.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};

use maitred_sys::sockopt::set_upper_protocol;

/// Asks the kernel, on a connection over the loopback interface. As root this also loads the module.
///
/// # Errors
/// Why not, in words.
pub fn detect() -> Result<(), String> {
    let text = |error: std::io::Error| format!("cannot be asked: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
    let client = TcpStream::connect(listener.local_addr().map_err(text)?).map_err(text)?;
    set_upper_protocol(&client, "tls").map_err(|error| match error.kind() {
        ErrorKind::NotFound => "the kernel does not have it, or its module `tls` is not loaded".into(),
        ErrorKind::PermissionDenied => "not permitted".into(),
        _ => error.to_string(),
    })
}

/// The same as a line of the status.
pub fn describe() -> String {
    match detect() {
        Ok(()) => "the kernel has it; not used".into(),
        Err(why) => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_one_or_the_other() {
        let module = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp");
        match (detect(), module.is_ok_and(|names| names.split_whitespace().any(|name| name == "tls"))) {
            (Ok(()), _) => assert!(describe().contains("not used")),
            (Err(why), false) => assert_eq!(describe(), why),
            // What forbids it here (a sandbox, say) may not be an absence.
            (Err(why), true) => eprintln!("the module is there, and still: {why}"),
        }
    }
}
