//! DOC streams.rs

use maitred_http::h2::{Code, StreamKey};

use super::Exchanges;
use crate::worker::wire::Wire;

impl Exchanges {
    /// The client has not taken in time what it asked for. A stream is given up with CANCEL (9113-7): its response is not wanted
    /// any more, and INTERNAL_ERROR would say that something is wrong here.
    pub(in crate::worker) fn abort_stalled(&mut self, index: u32) {
        if let Some(Wire::Stream { session, stream }) =
            self.connections.get(index as usize).map(|connection| connection.wire)
            && let Some(http2) = self.sessions.get_mut(session as usize)
        {
            http2.session.reset(StreamKey(stream), Code::Cancel);
        }
        self.abort(index);
    }

    /// The response of a stream is complete.
    pub(in crate::worker) fn end_stream(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if let Wire::Stream { session, stream } = connection.wire {
            let trailers = connection.exchange.as_deref_mut().and_then(|exchange| exchange.trailers.take());
            if let (Some(trailers), Some(http2)) = (trailers, self.sessions.get_mut(session as usize)) {
                http2.session.trailers(StreamKey(stream), trailers.all());
            }
            self.end_sending(session, stream);
        }
        self.close(index);
    }
}
