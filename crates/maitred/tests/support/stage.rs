//! Certificates, and clients that trust them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod,
    KeyPair, RevokedCertParams, SerialNumber, SignatureAlgorithm,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, HandshakeKind, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};

use crate::support::{Client, Server, Setup, binary};

/// A certificate authority.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub(crate) struct Made {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        Authority::named("Authority of a test")
    }

    /// An authority of another name.
    pub(crate) fn named(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for these names; the first is also its subject.
    pub(crate) fn sign(&self, names: &[&str], algorithm: &'static SignatureAlgorithm) -> Made {
        let names_owned: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names_owned).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Example, Inc.");
        params.distinguished_name.push(DnType::CommonName, names[0]);
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Made { certificate, key: key.serialize_pem() }
    }

    /// A revocation list with these certificates on it, that is good until a year begins.
    pub(crate) fn revoke(&self, revoked: &[&Made], until: i32) -> String {
        let revoked = revoked.iter().map(|made| {
            let der = CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap();
            let (_, parsed) = x509_parser::parse_x509_certificate(&der).unwrap();
            RevokedCertParams {
                serial_number: SerialNumber::from_slice(parsed.raw_serial()),
                revocation_time: rcgen::date_time_ymd(2021, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }
        });
        let params = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2021, 1, 1),
            next_update: rcgen::date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        roots
    }

    /// A client that trusts this authority.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        self.client_of(&[&rustls::version::TLS12, &rustls::version::TLS13], None)
    }

    /// The same with these versions, and perhaps a certificate of its own.
    pub(crate) fn client_of(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        own: Option<&Made>,
    ) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.roots());
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(made) => {
                let chain = CertificateDer::pem_slice_iter(made.certificate.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain.map(Result::unwrap).collect(), key).unwrap()
            }
        })
    }

    /// A client that can do no more than this.
    pub(crate) fn client_with(&self, provider: CryptoProvider) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots());
        Arc::new(builder.with_no_client_auth())
    }

    /// A client that knows only these signatures, and keeps what was stapled.
    pub(crate) fn picky(&self, schemes: &[SignatureScheme]) -> (Arc<ClientConfig>, Arc<Picky>) {
        let provider: Arc<CryptoProvider> = Arc::new(aws_lc_rs::default_provider());
        let inner =
            WebPkiServerVerifier::builder_with_provider(Arc::new(self.roots()), Arc::clone(&provider));
        let picky = Picky {
            inner: inner.build().unwrap(),
            schemes: schemes.to_vec(),
            staple: Mutex::default(),
            seen: Mutex::default(),
        };
        let picky = Arc::new(picky);
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&picky) as _)
            .with_no_client_auth();
        (Arc::new(config), picky)
    }
}

/// Checks certificates as usual, but says that it knows only some signatures.
#[derive(Debug)]
pub(crate) struct Picky {
    inner: Arc<WebPkiServerVerifier>,
    schemes: Vec<SignatureScheme>,
    pub(crate) staple: Mutex<Vec<u8>>,
    /// The certificate that was shown last, good or not.
    pub(crate) seen: Mutex<Option<CertificateDer<'static>>>,
}

impl ServerCertVerifier for Picky {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        staple: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.staple.lock().unwrap() = staple.to_vec();
        *self.seen.lock().unwrap() = Some(end_entity.clone().into_owned());
        self.inner.verify_server_cert(end_entity, intermediates, name, staple, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

impl Made {
    /// Writes `NAME.pem` and `NAME-key.pem` as a renewal does: each beside its place, and then moved there.
    pub(crate) fn write(&self, directory: &Path, name: &str) {
        replace(&directory.join(format!("{name}-key.pem")), self.key.as_bytes());
        replace(&directory.join(format!("{name}.pem")), self.certificate.as_bytes());
    }
}

/// Puts a new file in the place of another.
pub(crate) fn replace(path: &Path, content: &[u8]) {
    let beside = path.with_extension("new");
    fs::write(&beside, content).unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(beside, path).unwrap();
}

/// What files of certificates look like in the configuration.
pub(crate) fn certificates(names: &[&str]) -> String {
    let entry = |name: &&str| format!("{{ certificate = \"{name}.pem\", key = \"{name}-key.pem\" }}");
    format!("certificates = [{}]", names.iter().map(entry).collect::<Vec<_>>().join(", "))
}

/// A site with files and a certificate for localhost; `tls` are keys of that table.
pub(crate) fn setup(authority: &Authority, tls: &str) -> Setup {
    let made = authority.sign(&["localhost", "first"], &rcgen::PKCS_ECDSA_P256_SHA256);
    let setup = Setup::with_files().listen(&format!("tls = {{ {tls} }}")).site(&certificates(&["site"]));
    made.write(setup.directory.path(), "site");
    fs::write(setup.directory.path().join("ca.pem"), &authority.pem).unwrap();
    setup
}

/// `maitred serve --tls` of a site with files, and the fingerprint that it tells of the certificate that it has made.
pub(crate) fn serve() -> (Server, String) {
    let mut command = Command::new(binary());
    command.args(["serve", "root", "--tls", "-l", "127.0.0.1:0", "-t", "1", "--log", "off"]);
    command.env_remove("XDG_RUNTIME_DIR").stdin(Stdio::null());
    let server = Setup::with_files().start_by(command);
    let before = "certificate, self-signed, SHA-256 ";
    let told = server.wait_for_line(|line| line.starts_with(before));
    (server, told.replace(before, ""))
}

/// A connection with its handshake complete.
#[track_caller]
pub(crate) fn connect(server: &Server, client: &Arc<ClientConfig>) -> Client {
    Client::try_connect_tls(server.address_of("https"), client, "localhost").unwrap()
}

/// Connects, makes a request, and says whether the session was resumed.
#[track_caller]
pub(crate) fn resumes(server: &Server, client: &Arc<ClientConfig>) -> bool {
    resumes_and_stays(server, client).0
}

/// The same, with the connection.
#[track_caller]
pub(crate) fn resumes_and_stays(server: &Server, client: &Arc<ClientConfig>) -> (bool, Client) {
    let mut connection = connect(server, client);
    // Tickets come behind the handshake; with the response they have been read.
    assert_eq!(connection.get("/a.txt").text(), "file a\n");
    (connection.tls().handshake_kind() == Some(HandshakeKind::Resumed), connection)
}

/// The certificate that the client was shown, in DER.
pub(crate) fn shown(connection: &mut Client) -> Vec<u8> {
    connection.tls().peer_certificates().unwrap()[0].to_vec()
}

/// Whether a certificate that was shown is this one.
pub(crate) fn is(shown: &[u8], made: &Made) -> bool {
    CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap().as_ref() == shown
}
