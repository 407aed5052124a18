//! HTTPS to the authority, with what the library leaves open: bounds on time and size, and the `Retry-After` of refusals.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::agents::errors::with_causes;
use maitred_base::unix_time;

/// How long one exchange may take, from the connection to the last byte.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest response. Chains take a few KiB.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// What the exchanges of one attempt have shown besides their content.
#[derive(Debug, Clone, Default)]
pub struct Seen(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    retry_after: Option<Duration>,
    /// The status of the last response; `None` if there was no response to the last request.
    status: Option<u16>,
}

impl Seen {
    /// The `Retry-After` of the last response, if that was an error and had one.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retry_after
    }

    /// The status of the response to the last request, if there was one.
    pub fn status(&self) -> Option<u16> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).status
    }

    pub(super) fn note(&self, status: Option<u16>, retry_after: Option<Duration>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Inner { retry_after, status };
    }
}

/// See the module.
pub struct Client {
    hyper: Hyper<HttpsConnector<HttpConnector>, BodyWrapper<Bytes>>,
    seen: Seen,
}

impl Client {
    /// A client that trusts the authorities in this PEM file, or those of the system.
    ///
    /// # Errors
    /// A text, when they cannot be read.
    pub fn new(ca_file: Option<&Path>, seen: Seen) -> Result<Client, String> {
        let builder = match ca_file {
            Some(path) => HttpsConnectorBuilder::new().with_tls_config(believing(path)?),
            None => HttpsConnectorBuilder::new()
                .with_provider_and_platform_verifier(rustls::crypto::aws_lc_rs::default_provider())
                .map_err(|error| format!("the system's certificate authorities: {error}"))?,
        };
        let connector = builder.https_only().enable_http1().build();
        Ok(Client { hyper: Hyper::builder(TokioExecutor::new()).build(connector), seen })
    }
}

fn believing(path: &Path) -> Result<ClientConfig, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))? {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"there is no certificate in it"));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(builder.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth())
}

impl HttpClient for Client {
    fn request(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (exchange, seen) = (self.hyper.request(request), self.seen.clone());
        seen.note(None, None);
        Box::pin(async move {
            let whole = async {
                let (parts, body) = exchange.await.map_err(|error| with_causes(&error))?.into_parts();
                let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
                Ok((parts, body.map_err(|error| with_causes(&*error))?.to_bytes()))
            };
            let outcome = tokio::time::timeout(EXCHANGE_TIMEOUT, whole).await;
            let (parts, body) = outcome
                .unwrap_or_else(|_| Err(format!("no whole response within {} s", EXCHANGE_TIMEOUT.as_secs())))
                .map_err(|text| Error::Other(text.into()))?;
            let wait = (parts.status.as_u16() >= 400).then(|| retry_after(&parts.headers)).flatten();
            seen.note(Some(parts.status.as_u16()), wait);
            Ok(BytesResponse::from(http::Response::from_parts(parts, Full::new(body))))
        })
    }
}

/// `Retry-After` (9110-10.2.3): seconds, or a date.
fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let now = unix_time::secs();
            let at = maitred_http::date::parse(text.as_bytes(), now)?;
            Some(Duration::from_secs(at.saturating_sub(now)))
        }
    }
}
