//! TLS towards the server: which authorities are trusted, and one connection's session.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::net::{self, SendFlags};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Where Debian and most others keep the authorities that the system trusts.
pub const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Whose certificates are good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// All of them.
    Anyone,
    /// Certificates that authorities in this file (PEM) have signed.
    Authorities(PathBuf),
}

/// A certificate that this side shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, and those between it and its authority (PEM).
    pub certificate: PathBuf,
    /// Its key (PEM).
    pub key: PathBuf,
}

/// What all sessions of a run have in common.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// For a server of this name or address. `resumes`: sessions are resumed, as browsers do.
    ///
    /// # Errors
    /// What is wrong with the name or the authorities, in words.
    pub fn new(host: &str, trust: &Trust, resumes: bool) -> Result<Tls, String> {
        Tls::with_identity(host, trust, resumes, None)
    }

    /// The same, with a certificate of the client's.
    ///
    /// # Errors
    /// What is wrong with the name, the authorities, or the certificate, in words.
    pub fn with_identity(
        host: &str,
        trust: &Trust,
        resumes: bool,
        identity: Option<&Identity>,
    ) -> Result<Tls, String> {
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| format!("{host:?} is no name for TLS"))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let builder = match trust {
            Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider))),
            Trust::Authorities(path) => builder.with_root_certificates(authorities(path)?),
        };
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.read()?;
                builder.with_client_auth_cert(chain, key).map_err(|error| {
                    format!("{} with {}: {error}", identity.certificate.display(), identity.key.display())
                })?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if !resumes {
            config.resumption = Resumption::disabled();
        }
        Ok(Tls { config: Arc::new(config), name })
    }

    /// With a configuration of the caller's: a certificate of the client's, for example.
    ///
    /// # Errors
    /// What is wrong with the name, in words.
    pub fn of(host: &str, config: Arc<ClientConfig>) -> Result<Tls, String> {
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| format!("{host:?} is no name for TLS"))?;
        Ok(Tls { config, name })
    }

    /// A session in which the server is asked for by another name, over one protocol.
    ///
    /// # Errors
    /// What is wrong with the name, in words.
    pub(crate) fn connection(&self, name: &str, protocol: &[u8]) -> Result<ClientConnection, String> {
        let name =
            ServerName::try_from(name.to_owned()).map_err(|_| format!("{name:?} is no name for TLS"))?;
        let config = Arc::new(self.with_protocols(&[protocol], false));
        ClientConnection::new(config, name).map_err(|error| error.to_string())
    }

    /// The same for other protocols. Sessions are resumed as those of this one are: both have one store.
    pub(crate) fn with_protocols(&self, alpn: &[&[u8]], early_data: bool) -> ClientConfig {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        config.enable_early_data = early_data;
        config
    }

    /// The server's name or address, as it is verified.
    pub(crate) fn name(&self) -> String {
        self.name.to_str().into_owned()
    }

    pub(super) fn session(&self) -> Result<Box<Session>, rustls::Error> {
        let connection = ClientConnection::new(self.config.clone(), self.name.clone())?;
        Ok(Box::new(Session { connection, has_ended: false }))
    }

    /// A whole handshake over a blocking connection, to find out what is wrong before everything fails.
    ///
    /// # Errors
    /// What rustls or the connection says.
    pub fn try_out(&self, stream: &mut std::net::TcpStream) -> io::Result<()> {
        let mut connection =
            ClientConnection::new(self.config.clone(), self.name.clone()).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(stream)?;
        }
        Ok(())
    }
}

impl Identity {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let told = |path: &Path, what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| told(&self.certificate, &error))?;
        if chain.is_empty() {
            return Err(told(&self.certificate, &"no certificate in PEM"));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| told(&self.key, &error))?;
        Ok((chain, key))
    }
}

fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let told = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let mut store = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| told(&error))?;
    // A system's file has some that cannot be read any more; what counts is that others can be.
    store.add_parsable_certificates(certificates.filter_map(Result::ok));
    if store.is_empty() {
        return Err(told(&"no certificate of an authority in PEM"));
    }
    Ok(store)
}

/// TLS of one connection.
#[derive(Debug)]
pub(super) struct Session {
    connection: ClientConnection,
    /// The peer has said that nothing more will come.
    has_ended: bool,
}

impl Session {
    pub(super) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the peer has ended the session properly, so that nothing was truncated.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.connection.wants_write()
    }

    /// Takes bytes to be sent; how many, which is fewer than all if much waits already.
    pub(super) fn write(&mut self, bytes: &[u8]) -> usize {
        self.connection.writer().write(bytes).unwrap_or(0)
    }

    /// Tells the peer that nothing more will come (RFC 8446 section 6.1). A failure to send that does not matter.
    pub(super) fn end(&mut self, socket: &OwnedFd) {
        if !self.is_handshaking() && !self.has_ended {
            self.connection.send_close_notify();
            let _ = self.flush(socket);
        }
    }

    /// Sends what waits, as far as the socket takes it.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(super) fn flush(&mut self, socket: &OwnedFd) -> io::Result<u64> {
        let mut sent = 0;
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Socket(socket)) {
                Ok(count) => sent += count as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// Takes what was received, and appends what it says to `out`.
    ///
    /// # Errors
    /// When it is no TLS, or the peer's certificate is not valid for it.
    pub(super) fn receive(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), rustls::Error> {
        while !bytes.is_empty() {
            // Reading from memory fails only if the session has room for nothing more; what it has is read below.
            let taken = self.connection.read_tls(&mut bytes).unwrap_or(0);
            let state = self.connection.process_new_packets()?;
            self.has_ended |= state.peer_has_closed();
            let (start, count) = (out.len(), state.plaintext_bytes_to_read());
            out.resize(start + count, 0);
            if let Some(room) = out.get_mut(start..) {
                // As many as it said.
                let _ = self.connection.reader().read_exact(room);
            }
            if taken == 0 && count == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// A socket that does not wait.
struct Socket<'a>(&'a OwnedFd);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes any certificate; that the peer has its key is checked all the same, so that a session costs what it should.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
