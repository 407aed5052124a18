//! What is spoken with clients, and the lines of each server's configuration that bring it about.
//!
//! All servers have the same certificate (ECDSA P-256), TLS 1.3, and no resumption: generators such as wrk resume by
//! themselves, and a benchmark of handshakes would measure something else.

use std::path::{Path, PathBuf};

use super::peers::Kind;

/// What a generator and a server speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.1 in cleartext.
    Http1,
    /// HTTP/1.1 over TLS.
    Http1Tls,
    /// HTTP/2 in cleartext, with prior knowledge (RFC 9113 section 3.3).
    Http2,
    /// HTTP/2 over TLS, by ALPN.
    Http2Tls,
    /// HTTP/3, with HTTP/1.1 over TLS beside it.
    Http3,
}

/// Files of the certificate that all servers have.
pub(super) struct Certificate {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Certificate {
    /// Below the scratch directory.
    pub(super) fn in_work(work: &Path) -> Certificate {
        let directory = work.join("certificate");
        Certificate { certificate: directory.join("certificate.pem"), key: directory.join("key.pem") }
    }
}

impl Protocol {
    pub(super) const ALL: [Protocol; 5] =
        [Protocol::Http1, Protocol::Http1Tls, Protocol::Http2, Protocol::Http2Tls, Protocol::Http3];

    pub(super) fn is_tls(self) -> bool {
        matches!(self, Protocol::Http1Tls | Protocol::Http2Tls | Protocol::Http3)
    }

    pub(super) fn is_http2(self) -> bool {
        matches!(self, Protocol::Http2 | Protocol::Http2Tls)
    }

    pub(super) fn scheme(self) -> &'static str {
        if self.is_tls() { "https" } else { "http" }
    }

    /// What a server's directory has behind the server's name.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Protocol::Http1 => "",
            Protocol::Http1Tls => "-tls",
            Protocol::Http2 => "-h2c",
            Protocol::Http2Tls => "-h2",
            Protocol::Http3 => "-h3",
        }
    }

    /// What stands behind the address in nginx's `listen`.
    pub(super) fn nginx_listen(self) -> &'static str {
        match self {
            Protocol::Http1 => "",
            Protocol::Http1Tls | Protocol::Http3 => " ssl",
            Protocol::Http2 => " http2",
            Protocol::Http2Tls => " ssl http2",
        }
    }

    /// What stands in place of `@PROTOCOL@` in the server's configuration.
    pub(super) fn lines(self, kind: Kind, files: &Certificate) -> String {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        let mut lines = String::new();
        let mut add = |wanted: bool, text: String| {
            if wanted {
                lines.push_str(&text);
            }
        };
        let (tls, http2) = (self.is_tls(), self.is_http2());
        match kind {
            Kind::Nginx | Kind::NginxUnbuffered | Kind::NginxAio | Kind::NginxDeferred => add(
                tls,
                format!(
                    "ssl_certificate {certificate};\n        ssl_certificate_key {key};\n        ssl_protocols TLSv1.3;\n        \
                     ssl_session_tickets off;\n        ssl_session_cache off;"
                ),
            ),
            Kind::H2o => add(
                tls,
                format!(
                    "  ssl:\n    certificate-file: {certificate}\n    key-file: {key}\nssl-session-resumption:\n  mode: off"
                ),
            ),
            Kind::Lighttpd => {
                add(
                    tls,
                    format!(
                        "server.modules += (\"mod_openssl\")\nssl.engine = \"enable\"\nssl.pemfile = \"{certificate}\"\n\
                         ssl.privkey = \"{key}\"\n\
                         ssl.openssl.ssl-conf-cmd = (\"MinProtocol\" => \"TLSv1.3\", \"Options\" => \"-SessionTicket\")\n"
                    ),
                );
                let h2 = "server.feature-flags += (\"server.h2proto\" => \"enable\", \"server.h2c\" => \"enable\")";
                add(http2, h2.to_owned());
            }
            Kind::Apache => {
                add(
                    tls,
                    format!(
                        "LoadModule ssl_module ${{modules}}/mod_ssl.so\nSSLEngine on\nSSLCertificateFile {certificate}\n\
                         SSLCertificateKeyFile {key}\nSSLProtocol TLSv1.3\nSSLSessionTickets off\nSSLSessionCache none\n"
                    ),
                );
                let protocols = if tls { "h2 http/1.1" } else { "h2c http/1.1" };
                let module = "LoadModule http2_module ${modules}/mod_http2.so";
                add(http2, format!("{module}\nProtocols {protocols}"));
            }
            Kind::Caddy => add(http2, "servers {\n\t\tprotocols h1 h2c\n\t}".to_owned()),
            Kind::Maitred | Kind::MaitredBefore => {
                add(tls, format!("certificates = [{{ certificate = \"{certificate}\", key = \"{key}\" }}]"))
            }
            Kind::Floor | Kind::Haproxy => {}
        }
        lines
    }

    /// The arguments of `floor-secure`.
    pub(super) fn floor_arguments(self, files: &Certificate) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.is_http2() {
            arguments.push("-2".to_owned());
        }
        if self.is_tls() {
            let paths = [&files.certificate, &files.key].map(|path| path.display().to_string());
            arguments.extend(["-t".to_owned()].into_iter().chain(paths));
        }
        arguments
    }

    /// Maitred's lines in `[[listen]]`; others may follow.
    pub(super) fn maitred_listen(self) -> &'static str {
        if self.is_tls() { "tls.versions = [\"1.3\"]\ntls.tickets = false\n" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_resumes_and_all_have_the_certificate() {
        let files = Certificate::in_work(Path::new("/scratch"));
        for kind in [Kind::Nginx, Kind::H2o, Kind::Lighttpd, Kind::Apache, Kind::Maitred] {
            let lines = Protocol::Http1Tls.lines(kind, &files);
            assert!(lines.contains("/scratch/certificate/certificate.pem"), "{kind:?}: {lines}");
            assert!(lines.contains("/scratch/certificate/key.pem"), "{kind:?}: {lines}");
            assert!(!Protocol::Http1.lines(kind, &files).contains("certificate"), "{kind:?}");
        }
        assert!(Protocol::Http1Tls.maitred_listen().contains("tickets = false"));
    }
}
