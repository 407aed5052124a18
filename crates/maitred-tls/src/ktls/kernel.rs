//! Whether the kernel can encrypt.

/// Where the kernel lists what it can speak above TCP now. To ask with setsockopt(2) would load the module, if root does.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_ulp";

/// What the kernel says, as a line of the status. `wanted`: an address has `ktls = "on"`.
pub fn describe(wanted: bool) -> String {
    read(std::fs::read_to_string(AVAILABLE).ok().as_deref(), wanted).to_owned()
}

fn read(available: Option<&str>, wanted: bool) -> &'static str {
    let has = available.map(|names| names.split_whitespace().any(|name| name == "tls"));
    match (has, wanted) {
        (Some(true), true) => "the kernel encrypts, where `ktls` is on",
        (Some(true), false) => "the kernel has it; not used",
        (Some(false), true) => "the kernel's module `tls` is not loaded (modprobe tls): the server encrypts",
        (Some(false), false) => "the kernel's module `tls` is not loaded; not used",
        (None, _) => "the kernel does not say",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_is_read() {
        assert_eq!(read(Some("espintcp mptcp tls\n"), false), "the kernel has it; not used");
        assert_eq!(read(Some("tls\n"), true), "the kernel encrypts, where `ktls` is on");
        assert_eq!(read(Some("mptcp\n"), false), "the kernel's module `tls` is not loaded; not used");
        assert!(read(Some("mptcp\n"), true).ends_with("the server encrypts"));
        assert_eq!(read(None, true), "the kernel does not say");
    }

    /// As root, to ask in another way would load it.
    #[test]
    fn asking_does_not_load_the_module() {
        let before = std::fs::read_to_string(AVAILABLE).ok();
        assert_eq!(describe(false), read(before.as_deref(), false));
        assert_eq!(std::fs::read_to_string(AVAILABLE).ok(), before);
    }
}
