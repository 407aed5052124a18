//! Any `tower::Service` of `http` requests behind Maitred: `serve` takes the requests, `exchange` answers one.
//! Many requests run at a time, on one thread.
//!
//! The application answers as the conformance kit's reference application does: `/bytes/N`, `/chunks/N/SIZE`, `/slow/MS`,
//! `/status/N`, `/error`, `/wait`, `/hop`, `/426`, `/early-hints`, `/trailers`, `/request-trailers`, `/sendfile/N`,
//! `/sendfile-path?PATH`; besides, `/count` says what the body is. Anything else is 404.
//!
//! In `maitred.toml`: `command = ["target/debug/examples/tower"]`, `workers` as many as there are CPUs.

mod channel;
mod exchange;
mod named;
#[path = "../support/recovery.rs"]
mod recovery;
mod serve;

use std::convert::Infallible;
use std::io::{self, Write};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LINK, TRAILER};
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use exchange::{Hints, Incoming};

/// Requests that one process works on at a time.
const CAPACITY: u32 = 256;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let service = tower::service_fn(application);
    tokio::task::LocalSet::new().run_until(serve::serve(service, CAPACITY)).await
}

async fn application(request: Request<Incoming>) -> Result<Response<Pieces>, &'static str> {
    let path = request.uri().path().to_owned();
    let mut parts = path.split('/').skip(1);
    let name = parts.next().unwrap_or_default();
    let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
    let answer = match name {
        "bytes" => number().map(|length| Pieces::whole(vec![b'x'; length].into())),
        "user" => Some(Pieces::whole(user_of(&request).into())),
        "chunks" => {
            number().zip(number()).map(|(count, size)| Pieces::stream(count, vec![b'y'; size].into()))
        }
        "slow" => match number() {
            Some(ms) => {
                tokio::time::sleep(Duration::from_millis(ms as u64)).await;
                Some(Pieces::whole(Bytes::from_static(b"slow")))
            }
            None => None,
        },
        "status" => {
            let status = number().and_then(|number| StatusCode::from_u16(number as u16).ok());
            let mut response = Response::new(Pieces::whole(Bytes::new()));
            *response.status_mut() = status.unwrap_or(StatusCode::NOT_FOUND);
            return Ok(response);
        }
        "count" => {
            let body = request.into_body().collect().await.map_err(|_| "the body cannot be read")?.to_bytes();
            let others = body.iter().filter(|byte| **byte != b'x').count();
            Some(Pieces::whole(format!("{} bytes, {others} of them not x", body.len()).into()))
        }
        "error" => return Err("asked for by /error"),
        "hop" => return hop(),
        "426" => return with(StatusCode::UPGRADE_REQUIRED, &[("upgrade", "websocket")], ""),
        "early-hints" => {
            if let Some(hints) = request.extensions().get::<Hints>() {
                let link = HeaderValue::from_static("</style.css>; rel=preload; as=style");
                let _ = hints.try_send([(LINK, link)].into_iter().collect());
            }
            Some(Pieces::whole(Bytes::from_static(b"hinted")))
        }
        "trailers" => return Ok(with_trailers()),
        "request-trailers" => Some(trailers_of(request.into_body()).await?),
        "sendfile" => return sendfile(number().unwrap_or_default()),
        "sendfile-path" => {
            let path = unescaped(request.uri().query().unwrap_or_default());
            return with(StatusCode::OK, &[("x-sendfile", &path)], "instead");
        }
        "wait" => std::future::pending().await,
        _ => None,
    };
    let found = answer.is_some();
    let mut response = Response::new(answer.unwrap_or_else(|| Pieces::whole(Bytes::from_static(b"missing"))));
    if !found {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// The user, and how Maitred has found out who that is.
fn user_of(request: &Request<Incoming>) -> String {
    let meta = request.extensions().get::<String>().map(String::as_str).unwrap_or_default();
    let said = |key: &str| meta.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    said("user").map_or_else(String::new, |user| format!("{user} {}", said("auth_type").unwrap_or_default()))
}

/// A response with these fields.
fn with(
    status: StatusCode,
    fields: &[(&'static str, &str)],
    body: &str,
) -> Result<Response<Pieces>, &'static str> {
    let mut response = Response::new(Pieces::whole(Bytes::copy_from_slice(body.as_bytes())));
    *response.status_mut() = status;
    for (name, value) in fields {
        let value = HeaderValue::from_str(value).map_err(|_| "a value that no field can have")?;
        response.headers_mut().append(*name, value);
    }
    Ok(response)
}

/// A checksum behind the content, and a field that may not stand there.
fn with_trailers() -> Response<Pieces> {
    let mut body = Pieces::stream(1, Bytes::from_static(b"body"));
    let fields = [(HeaderName::from_static("x-sum"), "4"), (CONTENT_LENGTH, "9")];
    body.trailers =
        Some(fields.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect());
    let mut response = Response::new(body);
    response.headers_mut().insert(TRAILER, HeaderValue::from_static("X-Sum"));
    response
}

/// How long the body of a request is, and what came behind it.
async fn trailers_of(body: Incoming) -> Result<Pieces, &'static str> {
    let collected = body.collect().await.map_err(|_| "the body cannot be read")?;
    let fields = collected.trailers().cloned().unwrap_or_default();
    let mut lines: Vec<Vec<u8>> = fields
        .keys()
        .map(|name| {
            let values: Vec<&[u8]> = fields.get_all(name).iter().map(HeaderValue::as_bytes).collect();
            [name.as_str().as_bytes(), b": ", &values.join(b", ".as_slice()), b"\n"].concat()
        })
        .collect();
    lines.sort();
    let count = format!("{}\n", collected.to_bytes().len());
    Ok(Pieces::whole([count.into_bytes(), lines.concat()].concat().into()))
}

/// Fields of the connection, as applications set them that know another server.
fn hop() -> Result<Response<Pieces>, &'static str> {
    let fields = [
        ("connection", "keep-alive"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("transfer-encoding", "chunked"),
    ];
    with(StatusCode::OK, &fields, "hop")
}

/// A file that is there as long as the response, in whose extensions this is.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Bytes 0, 1, … 250, 0, … from a file that is named.
fn sendfile(length: usize) -> Result<Response<Pieces>, &'static str> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("maitred-tower-{}-{number}", std::process::id()));
    let pattern: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
    // Never opens an existing file.
    let created = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
    created.and_then(|mut file| file.write_all(&pattern)).map_err(|_| "the file cannot be written")?;
    let name = path.to_str().ok_or("a directory that no field can name")?;
    let mut response = with(StatusCode::OK, &[("x-sendfile", name)], "")?;
    response.extensions_mut().insert(Arc::new(Removed(path)));
    Ok(response)
}

/// Each `%XX` becomes its byte.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.split_at_checked(2).map(|(digits, rest)| (u8::from_str_radix(digits, 16), rest)) {
            Some((Ok(byte), rest)) => {
                out.push(byte);
                out.extend_from_slice(rest.as_bytes());
            }
            _ => out.extend_from_slice(part.as_bytes()),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The same bytes so many times; of stated length if they are whole.
struct Pieces {
    piece: Bytes,
    left: usize,
    whole: bool,
    trailers: Option<HeaderMap>,
}

impl Pieces {
    fn whole(piece: Bytes) -> Self {
        Self { left: usize::from(!piece.is_empty()), piece, whole: true, trailers: None }
    }

    fn stream(left: usize, piece: Bytes) -> Self {
        Self { piece, left, whole: false, trailers: None }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.whole {
            SizeHint::with_exact((self.left * self.piece.len()) as u64)
        } else {
            SizeHint::default()
        }
    }
}
