//! Which authorities may have signed clients' certificates.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::bytes::Bytes;

/// Checks clients' certificates. With revocation lists, all certificates but the root have to be on none, and to have one of
/// their issuer's that is not out of date: what cannot be known is not good, as OpenSSL has it.
///
/// # Errors
/// A text, if no root or a list cannot be used.
pub fn verifier(
    optional: bool,
    roots: &[Bytes],
    crls: &[Bytes],
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut store = RootCertStore::empty();
    for root in roots {
        let added = store.add(CertificateDer::from(root.0.as_slice()));
        added.map_err(|error| format!("client_ca: a certificate cannot be used: {error}"))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(store), Arc::clone(super::provider()));
    let builder = if optional { builder.allow_unauthenticated() } else { builder };
    let builder = match crls {
        [] => builder,
        crls => builder
            .with_crls(crls.iter().map(|list| CertificateRevocationListDer::from(list.0.clone())))
            .enforce_revocation_expiration(),
    };
    builder.build().map_err(|error| match crls {
        [] => format!("client_ca: {error}"),
        _ => format!("client_ca, client_crl: {error}"),
    })
}
