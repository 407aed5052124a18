//! TLS towards servers of pools: the configurations of rustls, one per pool.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, WebPkiServerVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde::{Deserialize, Serialize};

use maitred_base::pki::{self, Bytes, Pair, files};
use maitred_config::{Pool, UpstreamTls};

/// What the master reads for a pool whose servers speak TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamMaterial {
    /// The authorities that certificates have to lead to.
    pub roots: Vec<Bytes>,
    /// What this server shows.
    pub identity: Option<Pair>,
}

impl UpstreamMaterial {
    /// Reads the files of a pool; `None` if its servers do not speak TLS.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn load(pool: &Pool) -> Result<Option<UpstreamMaterial>, String> {
        let Some(tls) = &pool.tls else { return Ok(None) };
        let named = |text: String| format!("pool.{}: {text}", pool.name);
        let roots = match &tls.ca {
            Some(path) => {
                let pem = files::read(path)
                    .map_err(|error| named(format!("ca: {}", files::unreadable(&error, path))))?;
                files::certificates(&pem)
                    .map_err(|fault| named(format!("ca: {}: {}", path.display(), fault.text)))?
            }
            None if tls.verify => of_system().map_err(named)?,
            None => Vec::new(),
        };
        let identity = match &tls.identity {
            None => None,
            Some((certificate, key)) => {
                let loaded = files::load(certificate, key, None, &files::read);
                Some(loaded.map_err(|(fault, path)| named(format!("{}: {}", path.display(), fault.text)))?.0)
            }
        };
        let roots = roots.into_iter().map(|der| Bytes(der.to_vec())).collect();
        Ok(Some(UpstreamMaterial { roots, identity }))
    }

    /// Without what every process can read by itself.
    pub fn without_system_roots(&self, tls: &UpstreamTls) -> UpstreamMaterial {
        let roots = if tls.ca.is_some() { self.roots.clone() } else { Vec::new() };
        UpstreamMaterial { roots, identity: self.identity.clone() }
    }

    /// With that again.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn with_system_roots(&self, tls: &UpstreamTls) -> Result<UpstreamMaterial, String> {
        let mut whole = self.clone();
        if tls.ca.is_none() && tls.verify {
            whole.roots = of_system()?.into_iter().map(|der| Bytes(der.to_vec())).collect();
        }
        Ok(whole)
    }

    /// What sessions with the servers of a pool begin with.
    ///
    /// # Errors
    /// A text, if the material cannot be used.
    pub fn config(&self, tls: &UpstreamTls) -> Result<ClientConfig, String> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(pki::provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let verifier = Arc::new(Verifier { inner: self.verifier(tls)?, pins: tls.pins.clone() });
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = pair.chain.iter().map(|der| CertificateDer::from(der.0.clone())).collect();
                let key = PrivateKeyDer::try_from(pair.key.0.clone()).map_err(str::to_owned)?;
                builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())?
            }
        };
        config.alpn_protocols = vec![if tls.http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        Ok(config)
    }

    fn verifier(&self, tls: &UpstreamTls) -> Result<Option<Arc<WebPkiServerVerifier>>, String> {
        if !tls.verify {
            return Ok(None);
        }
        let mut roots = RootCertStore::empty();
        // Some of a system's are too odd for use, and no server's certificate leads to them.
        roots.add_parsable_certificates(self.roots.iter().map(|der| CertificateDer::from(der.0.clone())));
        let made =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(pki::provider())).build();
        made.map(Some).map_err(|error| error.to_string())
    }
}

/// The authorities that this system trusts.
fn of_system() -> Result<Vec<CertificateDer<'static>>, String> {
    let found = rustls_native_certs::load_native_certs();
    match (found.certs.is_empty(), found.errors.first()) {
        (false, _) => Ok(found.certs),
        (true, Some(error)) => Err(format!("the authorities that the system trusts: {error}")),
        (true, None) => {
            Err("the system trusts no authority: install ca-certificates, or name a `ca`".to_owned())
        }
    }
}

/// Verifies certificates of servers: by authorities and name, unless that is not wanted, and by pins, if there are any.
#[derive(Debug)]
struct Verifier {
    inner: Option<Arc<WebPkiServerVerifier>>,
    pins: Vec<[u8; 32]>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.pins.is_empty() {
            let key = files::public_key(leaf).ok_or(CertificateError::BadEncoding)?;
            let found = digest(&SHA256, &key);
            if !self.pins.iter().any(|pin| pin == found.as_ref()) {
                return Err(CertificateError::ApplicationVerificationFailure.into());
            }
        }
        match &self.inner {
            Some(inner) => inner.verify_server_cert(leaf, chain, name, ocsp, now),
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &pki::provider().signature_verification_algorithms;
        verify_tls12_signature(message, leaf, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &pki::provider().signature_verification_algorithms;
        verify_tls13_signature(message, leaf, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        pki::provider().signature_verification_algorithms.supported_schemes()
    }
}
