//! TLS on the side of the benchmark: the certificate that all servers have, and a client that trusts it.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, StreamOwned};

use super::protocol::Certificate;
use crate::Result;

/// A connection over TLS.
pub(super) type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Makes the certificate: ECDSA P-256, signed by itself, as `openssl req -x509` would.
pub(super) fn make_certificate(work: &Path) -> Result<()> {
    let files = Certificate::in_work(work);
    fs::create_dir_all(files.certificate.parent().ok_or("no directory for the certificate")?)?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names)?;
    fs::write(files.certificate, made.cert.pem())?;
    fs::write(files.key, made.signing_key.serialize_pem())?;
    Ok(())
}

/// A client's configuration, without resumption. Only X25519 is offered, as wrk and h2load with OpenSSL 3.0 have it.
pub(super) fn client(work: &Path) -> Result<Arc<ClientConfig>> {
    let mut config = configuration(work)?;
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn configuration(work: &Path) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(Certificate::in_work(work).certificate)?)?;
    let provider =
        CryptoProvider { kx_groups: vec![aws_lc_rs::kx_group::X25519], ..aws_lc_rs::default_provider() };
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let config = builder.with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// A connection that shakes hands when it is first used.
pub(super) fn connect(stream: TcpStream, config: &Arc<ClientConfig>) -> std::io::Result<Stream> {
    let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
    let session = ClientConnection::new(config.clone(), name).map_err(std::io::Error::other)?;
    Ok(StreamOwned::new(session, stream))
}

/// Refuses a server that would not be measured like the others: one that resumes sessions, or does not speak TLS 1.3. Returns
/// the cipher suite that it takes of those that generators offer (rustls offers them in the same order as OpenSSL).
pub(super) fn check(address: SocketAddr, work: &Path) -> Result<String> {
    let config = Arc::new(configuration(work)?);
    let mut suite = None;
    for _ in 0..2 {
        let mut stream = connect(TcpStream::connect(address)?, &config)?;
        stream.write_all(b"GET /1k.txt HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        // Tickets come with the response or before it. How the stream ends is of no interest here.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        if stream.conn.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
            return Err(format!("it speaks {:?}, not TLS 1.3", stream.conn.protocol_version()).into());
        }
        if stream.conn.handshake_kind() == Some(HandshakeKind::Resumed) {
            return Err("it resumes sessions, so handshakes would not be full ones".into());
        }
        suite = stream.conn.negotiated_cipher_suite().map(|suite| suite.suite());
    }
    let name = suite.and_then(|suite| suite.as_str()).ok_or("it takes an unknown cipher suite")?;
    Ok(name.trim_start_matches("TLS13_").replace('_', "-"))
}
