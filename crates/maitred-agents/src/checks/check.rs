//! One question to one server, bounded in time and size.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, TE, USER_AGENT};
use http::{Request, Response, Version};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use maitred_http::proxy_protocol::{Passed, write};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use super::grpc;
use super::messages::{Checked, Target};
use crate::agents::errors::with_causes;
use maitred_config::{Address, Health, Question};

/// Bytes of the fields of a response over HTTP/2.
const HEADERS_BYTES_MAX: u32 = 64 * 1024;

/// How the servers of a pool are asked.
#[derive(Debug)]
pub struct Asking {
    /// What is asked.
    pub pool: Checked,
    /// For servers that are spoken to over TLS.
    pub tls: Option<Arc<ClientConfig>>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Whether a server is well.
///
/// # Errors
/// Why it is not.
pub async fn check(asking: &Asking, target: &Target) -> Result<(), String> {
    let health = &asking.pool.health;
    match tokio::time::timeout(health.timeout, ask(asking, target)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("no answer within {} ms", health.timeout.as_millis())),
    }
}

async fn ask(asking: &Asking, target: &Target) -> Result<(), String> {
    let stream = connect(asking, target).await?;
    match &asking.pool.health.question {
        Question::Tcp => Ok(()),
        Question::Http { method, path, host, statuses, contains } => {
            let request = request(method, path, asking, target, host.as_deref())?;
            let (response, _connection) = exchange(stream, asking.pool.http2, request).await?;
            let status = response.status().as_u16();
            if !statuses.iter().any(|(first, last)| (*first..=*last).contains(&status)) {
                return Err(format!("it answers with {status}"));
            }
            judge_body(response.into_body(), contains).await
        }
        Question::Grpc { service } => {
            let mut request = request("POST", grpc::PATH, asking, target, None)?;
            request.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/grpc"));
            request.headers_mut().insert(TE, http::HeaderValue::from_static("trailers"));
            *request.body_mut() = Full::new(Bytes::from(grpc::question(service)));
            let (response, _connection) = exchange(stream, true, request).await?;
            judge_grpc(response).await
        }
    }
}

/// Reads a body up to its end, or as far as [`Health::BODY_BYTES_MAX`], and looks for a text in that.
async fn judge_body(mut body: Incoming, contains: &str) -> Result<(), String> {
    let (mut kept, mut bytes) = (Vec::new(), 0);
    while bytes < Health::BODY_BYTES_MAX
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|error| format!("it aborts its response: {}", with_causes(&error)))?;
        let Some(data) = frame.data_ref() else { continue };
        let piece = data.get(..Health::BODY_BYTES_MAX - bytes).unwrap_or(data);
        bytes += piece.len();
        if !contains.is_empty() {
            kept.extend_from_slice(piece);
        }
    }
    match memchr::memmem::find(&kept, contains.as_bytes()) {
        Some(_) => Ok(()),
        None => Err(format!("its body does not contain {contains:?}")),
    }
}

/// What a response of gRPC says: its status stands behind the message, or in the head if there is none.
async fn judge_grpc(response: Response<Incoming>) -> Result<(), String> {
    if response.status() != 200 {
        return Err(format!("it answers with {}", response.status().as_u16()));
    }
    let said = |headers: &http::HeaderMap| {
        let status = headers.get("grpc-status").filter(|status| status.as_bytes() != b"0")?;
        Some(format!("gRPC status {}", String::from_utf8_lossy(status.as_bytes())))
    };
    if let Some(wrong) = said(response.headers()) {
        return Err(wrong);
    }
    let body = Limited::new(response.into_body(), grpc::ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| format!("it aborts its response: {}", with_causes(&*error)))?;
    if let Some(wrong) = body.trailers().and_then(said) {
        return Err(wrong);
    }
    grpc::read(&body.to_bytes())
}

async fn connect(asking: &Asking, target: &Target) -> Result<Box<dyn Stream>, String> {
    let wrong = |error: std::io::Error| format!("no connection: {error}");
    let port = asking.pool.health.port;
    let mut stream: Box<dyn Stream> = match &target.address {
        Address::Inet(address) => {
            let address = SocketAddr::new(address.ip(), port.unwrap_or(address.port()));
            Box::new(TcpStream::connect(address).await.map_err(wrong)?)
        }
        Address::Unix(path) => Box::new(UnixStream::connect(path).await.map_err(wrong)?),
    };
    // What listens elsewhere is no server of requests, and expects no header.
    if let Some(protocol) = asking.pool.proxy_protocol.filter(|_| port.is_none()) {
        let mut header = Vec::new();
        write(protocol.version(), Passed::Local, &mut header);
        stream.write_all(&header).await.map_err(wrong)?;
    }
    let (Some(config), Some((settings, _))) = (&asking.tls, &asking.pool.tls) else { return Ok(stream) };
    let name = settings.server_name.clone().unwrap_or_else(|| host_of(target).to_owned());
    let name = ServerName::try_from(name).map_err(|error| format!("its name: {error}"))?;
    let session = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
    Ok(Box::new(session.map_err(|error| format!("TLS: {error}"))?))
}

/// The host in the name of a server, as worker processes take it (`Upstream::host`).
fn host_of(target: &Target) -> &str {
    match target.address {
        Address::Unix(_) => "localhost",
        Address::Inet(_) => {
            let name = target.name.as_str();
            let host = match name.rsplit_once(':') {
                Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
                _ => name,
            };
            host.trim_start_matches('[').trim_end_matches(']')
        }
    }
}

fn request(
    method: &str,
    path: &str,
    asking: &Asking,
    target: &Target,
    host: Option<&str>,
) -> Result<Request<Full<Bytes>>, String> {
    let own = if target.name.is_empty() { "localhost" } else { &target.name };
    let host = host.unwrap_or(own);
    let builder = Request::builder().method(method).header(USER_AGENT, "Maitred-Health");
    let builder = match asking.pool.http2 {
        true => {
            let scheme = if asking.tls.is_some() { "https" } else { "http" };
            builder.version(Version::HTTP_2).uri(format!("{scheme}://{host}{path}"))
        }
        false => builder.uri(path).header(HOST, host),
    };
    builder.body(Full::default()).map_err(|error| error.to_string())
}

/// The task that drives a connection, which ends with this.
struct Driven(AbortHandle);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn exchange(
    stream: Box<dyn Stream>,
    http2: bool,
    request: Request<Full<Bytes>>,
) -> Result<(Response<Incoming>, Driven), String> {
    let wrong = |error: hyper::Error| with_causes(&error);
    let stream = TokioIo::new(stream);
    if http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.max_header_list_size(HEADERS_BYTES_MAX);
        let (mut sender, connection) = builder.handshake(stream).await.map_err(wrong)?;
        let driven = Driven(tokio::spawn(connection).abort_handle());
        return Ok((sender.send_request(request).await.map_err(wrong)?, driven));
    }
    let (mut sender, connection) = http1::handshake(stream).await.map_err(wrong)?;
    let driven = Driven(tokio::spawn(connection).abort_handle());
    Ok((sender.send_request(request).await.map_err(wrong)?, driven))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_server_is_in_its_name() {
        for (name, host) in [
            ("shop.internal:8080", "shop.internal"),
            ("shop.internal", "shop.internal"),
            ("[::1]:8080", "::1"),
            ("127.0.0.1:80", "127.0.0.1"),
        ] {
            let address = "127.0.0.1:1".parse().unwrap();
            assert_eq!(host_of(&Target { address, name: name.to_owned() }), host);
        }
        let socket = Target { address: Address::Unix("/run/a".into()), name: String::new() };
        assert_eq!(host_of(&socket), "localhost");
    }
}
