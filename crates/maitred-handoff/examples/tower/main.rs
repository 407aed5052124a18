//! Any `tower::Service` of `http` requests behind Maitred: `channel` takes the requests, `exchange` answers one.
//! Many requests run at a time, on one thread.
//!
//! The application answers as the conformance kit's reference application does: `/bytes/N`, `/chunks/N/SIZE`, `/slow/MS`,
//! `/status/N`, `/error`, `/wait`; besides, `/count` says what the body is. Anything else is 404.
//!
//! In `maitred.toml`: `command = ["target/debug/examples/tower"]`, `workers` as many as there are CPUs.

mod channel;
mod exchange;
#[path = "../support/recovery.rs"]
mod recovery;

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use exchange::Incoming;

/// Requests that one process works on at a time.
const CAPACITY: u32 = 256;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let service = tower::service_fn(application);
    tokio::task::LocalSet::new().run_until(channel::serve(service, CAPACITY)).await
}

async fn application(request: Request<Incoming>) -> Result<Response<Pieces>, &'static str> {
    let path = request.uri().path().to_owned();
    let mut parts = path.split('/').skip(1);
    let name = parts.next().unwrap_or_default();
    let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
    let answer = match name {
        "bytes" => number().map(|length| Pieces::whole(vec![b'x'; length].into())),
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

/// The same bytes so many times; of stated length if they are whole.
struct Pieces {
    piece: Bytes,
    left: usize,
    whole: bool,
}

impl Pieces {
    fn whole(piece: Bytes) -> Self {
        Self { left: usize::from(!piece.is_empty()), piece, whole: true }
    }

    fn stream(left: usize, piece: Bytes) -> Self {
        Self { piece, left, whole: false }
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
            return Poll::Ready(None);
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        if self.whole {
            SizeHint::with_exact((self.left * self.piece.len()) as u64)
        } else {
            SizeHint::default()
        }
    }
}
