//! Whether the kernel can encrypt.

/// Where the kernel lists what it can speak above TCP now. To ask with setsockopt(2) would load the module, if root does.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_ulp";

/// What the kernel says, as a line of the status.
pub fn describe() -> String {
    read(std::fs::read_to_string(AVAILABLE).ok().as_deref()).to_owned()
}

fn read(available: Option<&str>) -> &'static str {
    match available {
        Some(names) if names.split_whitespace().any(|name| name == "tls") => "the kernel has it; not used",
        Some(_) => "the kernel's module `tls` is not loaded; not used",
        None => "the kernel does not say",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_is_read() {
        assert_eq!(read(Some("espintcp mptcp tls\n")), "the kernel has it; not used");
        assert_eq!(read(Some("mptcp\n")), "the kernel's module `tls` is not loaded; not used");
        assert_eq!(read(None), "the kernel does not say");
    }

    /// As root, to ask in another way would load it.
    #[test]
    fn asking_does_not_load_the_module() {
        let before = std::fs::read_to_string(AVAILABLE).ok();
        assert_eq!(describe(), read(before.as_deref()));
        assert_eq!(std::fs::read_to_string(AVAILABLE).ok(), before);
    }
}
