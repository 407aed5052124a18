//! Servers that answer before they have read, and that stop sending when they have answered.

use std::io;

use super::{KINDS, Kind, TEXT, response};
use crate::proxy::fastcgi;
use crate::proxy::secure::Authority;
use crate::support::eventually;
use crate::support::framed::{Came, Far, head};
use crate::support::h2::frame;
use crate::support::upstream::Peer;

/// Reads no more than the head of a request, and refuses it.
fn refuse(kind: Kind, peer: &mut Peer) -> io::Result<()> {
    match kind {
        Kind::Http | Kind::Https => {
            peer.piece()?;
            peer.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno\n")?;
            peer.finish()?;
        }
        Kind::FastCgi => {
            fastcgi::head(peer)?;
            peer.send([fastcgi::of(fastcgi::STDOUT, "Status: 413\r\n\r\nno\n"), fastcgi::end(0)].concat())?;
            peer.finish()?;
        }
        Kind::Http2 => {
            let mut far = Far::new(peer, &[])?;
            loop {
                if let Came::Head { id, .. } = far.next()? {
                    far.send(head(id, &[(":status", "413")], false))?;
                    far.send(frame::data(id, b"no\n", true))?;
                    // 9113-8.1: it has no use for the rest.
                    far.send(frame::rst_stream(id, frame::code::NO_ERROR))?;
                }
            }
        }
    }
    peer.wait_for_end()
}

#[test]
fn servers_may_answer_before_the_body() {
    let authority = Authority::new();
    for kind in KINDS {
        let upstream = kind.serving(&authority, move |peer| refuse(kind, peer));
        let server = kind.start(&authority, upstream.address());
        for bytes in [1, 100_000, 10_000_000] {
            let response = server.connect().post("/x", &vec![b'x'; bytes]);
            assert_eq!((response.status, response.text()), (413, "no\n"), "{kind:?} {bytes}");
            // A request that meets the end of an idle connection may not be sent again.
            eventually("its connection is closed", || kind == Kind::Http2 || upstream.open() == 0);
        }
        server.stop();
    }
}

/// What was answered is whole, and the next request, which may not be sent twice, goes over another connection.
#[test]
fn servers_may_stop_sending_behind_each_response() {
    let authority = Authority::new();
    for kind in KINDS {
        let upstream = kind.serving(&authority, move |peer| {
            let id = 1;
            match kind {
                Kind::Http | Kind::Https => drop(peer.request()?),
                Kind::FastCgi => drop(fastcgi::request(peer)?),
                Kind::Http2 => {
                    assert_eq!(Far::new(peer, &[])?.request()?.0, id);
                }
            }
            response(kind, id).into_iter().try_for_each(|piece| peer.send(piece))?;
            peer.finish()?;
            peer.wait_for_end()
        });
        let server = kind.start(&authority, upstream.address());
        let mut client = server.connect();
        for done in 1..=10 {
            assert_eq!(client.post("/x", b"x").text(), TEXT, "{kind:?}");
            eventually("its connection is closed", || upstream.open() == 0);
            assert_eq!(upstream.connections(), done, "{kind:?}");
        }
        assert_eq!(server.total("upstream_failures"), 0, "{kind:?}");
        server.stop();
    }
}
