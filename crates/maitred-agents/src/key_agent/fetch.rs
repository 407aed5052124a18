//! One exchange with a provider: bounds on time and size, and no redirects, which would lead elsewhere than the configuration
//! says.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::agents::errors::with_causes;
use maitred_base::jwt::keys::{KeySet, SET_BYTES_MAX};
use maitred_config::UrlKeys;

/// How long one exchange may take, from the name of the host to the last byte.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Fetches a set of keys.
///
/// # Errors
/// A text for the operator.
pub async fn fetch(source: &UrlKeys) -> Result<KeySet, String> {
    let outcome = tokio::time::timeout(EXCHANGE_TIMEOUT, exchange(source)).await;
    let body =
        outcome.map_err(|_| format!("no whole response within {} s", EXCHANGE_TIMEOUT.as_secs()))??;
    KeySet::read(&body)
}

async fn exchange(source: &UrlKeys) -> Result<Bytes, String> {
    let builder = match &source.ca_file {
        Some(path) => HttpsConnectorBuilder::new().with_tls_config(trusting(path)?),
        None => HttpsConnectorBuilder::new()
            .with_provider_and_platform_verifier(rustls::crypto::aws_lc_rs::default_provider())
            .map_err(|error| format!("the system's certificate authorities: {error}"))?,
    };
    let connector = builder.https_or_http().enable_http1().build();
    // A new client for each exchange: a connection that is kept for an hour is of no use.
    let client = Client::builder(TokioExecutor::new()).build::<_, Empty<Bytes>>(connector);
    let request = http::Request::get(&source.url).header("Accept", "application/json");
    let request = request.header("User-Agent", "maitred").body(Empty::new());
    let response = client.request(request.map_err(|error| error.to_string())?).await;
    let response = response.map_err(|error| with_causes(&error))?;
    if response.status() != http::StatusCode::OK {
        return Err(format!("it was answered with {}", response.status().as_u16()));
    }
    let body = Limited::new(response.into_body(), SET_BYTES_MAX).collect().await;
    Ok(body.map_err(|error| with_causes(&*error))?.to_bytes())
}

fn trusting(path: &Path) -> Result<ClientConfig, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))? {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(builder.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth())
}
