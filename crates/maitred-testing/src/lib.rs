//! Helpers that tests of several crates share.
//!
//! | module | what |
//! |---|---|
//! | here | certificates, and a configuration that uses them |
//! | [`channel`] | an application's end of a channel, which puppets hold |
//! | [`model`] | what may happen to a connection: the judge of the simulated worlds and of random events in the real binary |
//! | [`response`] | what clients ask there, and what applications answer |
//! | [`random`] | a generator that chooses by a seed |
//! | [`h2`] | frames and HPACK of HTTP/2 clients that share nothing with the server |

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "only tests use this crate")]
#![allow(missing_docs, reason = "most fields and constants say by their names what they are")]

pub mod channel;
pub mod h2;
pub mod model;
pub mod random;
pub mod response;

use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SignatureAlgorithm};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use rustls::{
    ClientConfig, ClientConnection, Error, HandshakeKind, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};

use maitred_base::pki::files::{self, Leaf};
use maitred_config::{self as config, Config, Origin, System};

/// A certificate authority.
pub struct Authority {
    /// The certificate of the authority, in PEM.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A configuration of this machine.
pub fn config(dir: &Path, text: &str) -> Config {
    let origin = Origin { name: "maitred.toml".into(), base: dir.to_owned() };
    // The account that runs the tests.
    let text = format!("{text}\n[server]\nshare_user = true\n");
    config::read(&text, &origin, &System).unwrap_or_else(|errors| panic!("{errors}")).0
}

/// Writes certificate and key as `NAME.pem` and `NAME-key.pem`.
pub fn write(dir: &Path, name: &str, made: &Made) {
    std::fs::write(dir.join(format!("{name}.pem")), &made.certificate).unwrap();
    std::fs::write(dir.join(format!("{name}-key.pem")), &made.key).unwrap();
}

/// How a handshake ended.
#[derive(Debug)]
pub struct Session {
    /// The side of the client.
    pub client: ClientConnection,
    /// The side of the server.
    pub server: ServerConnection,
}

/// Connects a client that asks for `name` to a server, in memory, until both have nothing more to say.
pub fn connect(client: &Arc<ClientConfig>, server: Arc<ServerConfig>, name: &str) -> Result<Session, Error> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::clone(client), name).unwrap();
    let mut server = ServerConnection::new(server).unwrap();
    let mut wire = Vec::new();
    while client.wants_write() || server.wants_write() {
        client.write_tls(&mut wire).unwrap();
        let mut rest = &wire[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets()?;
        }
        wire.clear();
        server.write_tls(&mut wire).unwrap();
        let mut rest = &wire[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets()?;
        }
        wire.clear();
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(Session { client, server })
}

impl Session {
    /// The names of the certificate that the client was shown.
    pub fn names(&self) -> Vec<String> {
        Leaf::read(&self.client.peer_certificates().unwrap()[0]).unwrap().names
    }

    /// The handshake resumed an earlier session.
    pub fn resumed(&self) -> bool {
        self.server.handshake_kind() == Some(HandshakeKind::Resumed)
    }
}

/// A certificate and its key, in PEM.
pub struct Made {
    /// The certificate, in PEM.
    pub certificate: String,
    /// The private key, in PEM.
    pub key: String,
}

impl Authority {
    /// An authority of that name, with a key of its own.
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// A client that trusts this authority, and shows a certificate if it has one.
    pub fn client(&self, versions: &[&'static SupportedProtocolVersion], own: Option<&Made>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(rustls::pki_types::CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::clone(maitred_base::pki::provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        match own {
            None => builder.with_no_client_auth(),
            Some(made) => {
                let chain = files::certificates(made.certificate.as_bytes()).unwrap();
                let key = files::private_key(made.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        }
    }

    /// A revocation list without entries, good until this year begins.
    pub fn revocation_list(&self, until: i32) -> String {
        let params = rcgen::CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2020, 1, 1),
            next_update: rcgen::date_time_ymd(until, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: Vec::new(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    /// A certificate for these names, good from 2020 to 2040.
    pub fn sign(&self, names: &[&str], algorithm: &'static SignatureAlgorithm) -> Made {
        self.sign_for(names, algorithm, 2020, 2040)
    }

    /// From the first of January of one year to that of the other.
    pub fn sign_for(
        &self,
        names: &[&str],
        algorithm: &'static SignatureAlgorithm,
        from: i32,
        to: i32,
    ) -> Made {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(to, 1, 1);
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Made { certificate, key: key.serialize_pem() }
    }
}
