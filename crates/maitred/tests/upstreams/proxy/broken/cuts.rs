//! Servers that close, or reset, at every byte of what they say.

use super::relay::{End, Relay};
use super::{Kind, Seen, TEXT, response, seen};
use crate::proxy::secure::Authority;
use crate::support::framed::head;
use crate::support::h2::frame;
use crate::support::upstream::Upstream;

const ENDS: [End; 3] = [End::Finish, End::Close, End::Reset];

/// Passes more and more of what a server says, up to the whole response, which may look whole only then.
fn cut_at_every_byte(kind: Kind, authority: &Authority, upstream: &Upstream, step: usize) {
    for (end, method) in ENDS.iter().flat_map(|end| [(*end, "GET"), (*end, "POST")]) {
        let relay = Relay::start(upstream.address(), 0, end);
        let server = kind.start(authority, relay.address);
        let (mut before, mut counts) = (Seen::Failed(502), [0; 2]);
        for bytes in (0..).step_by(step) {
            assert!(bytes < 10_000, "{kind:?} {end:?} {method}: it never is whole");
            relay.set(bytes, end);
            let now = seen(&server, method, "/x", TEXT);
            assert!(now >= before, "{kind:?} {end:?} {method}: {now:?} with {bytes} bytes");
            before = now;
            match now {
                Seen::Failed(status) => assert_eq!(status, 502, "{kind:?} {end:?} {method}: {bytes}"),
                Seen::Cut => {}
                Seen::Whole => break,
            }
            counts[usize::from(now == Seen::Cut)] += 1;
        }
        // The head has more bytes than this, of any kind, and so has the content. An end that comes together with all of what is
        // encrypted is known before anything has gone on to the client.
        let content = if kind == Kind::Https { 0 } else { TEXT.len() };
        assert!(counts[0] >= 20 && counts[1] >= content, "{kind:?} {end:?} {method}: {counts:?}");
        server.stop();
    }
}

#[test]
fn a_plain_server_may_close_at_every_byte() {
    let authority = Authority::new();
    cut_at_every_byte(
        Kind::Http,
        &authority,
        &Kind::Http.upstream(&authority, |_, id| response(Kind::Http, id)),
        1,
    );
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n6;x=y\r\n456789\r\n0\r\nX-End: 1\r\n\r\n";
    let chunked = Kind::Http.upstream(&authority, |_, _| vec![chunks.into()]);
    cut_at_every_byte(Kind::Http, &authority, &chunked, 1);
}

#[test]
fn a_server_may_close_at_every_byte_of_its_frames() {
    let authority = Authority::new();
    let plain = Kind::Http2.upstream(&authority, |_, id| response(Kind::Http2, id));
    cut_at_every_byte(Kind::Http2, &authority, &plain, 1);
    // Interim responses, a head in several frames, padding, trailers.
    let rich = Kind::Http2.upstream(&authority, |_, id| {
        let block = crate::support::h2::hpack::block(&[(":status", "200"), ("x-one", "1")]);
        let (first, rest) = block.split_at(3);
        let padded = [&[3][..], &TEXT.as_bytes()[4..], &[0; 3]].concat();
        vec![
            head(id, &[(":status", "103"), ("link", "</x>")], false),
            frame::frame(frame::kind::HEADERS, 0, id, first),
            frame::frame(frame::kind::CONTINUATION, frame::flag::END_HEADERS, id, rest),
            frame::data(id, &TEXT.as_bytes()[..4], false),
            frame::frame(frame::kind::DATA, frame::flag::PADDED, id, &padded),
            head(id, &[("x-end", "1")], true),
        ]
    });
    cut_at_every_byte(Kind::Http2, &authority, &rich, 1);
}

#[test]
fn an_application_of_fastcgi_may_close_at_every_byte() {
    let authority = Authority::new();
    let plain = Kind::FastCgi.upstream(&authority, |_, id| response(Kind::FastCgi, id));
    cut_at_every_byte(Kind::FastCgi, &authority, &plain, 1);
}

/// In the handshake, in tickets, in records of the response.
#[test]
fn a_server_of_tls_may_close_at_any_byte() {
    let authority = Authority::new();
    let plain = Kind::Https.upstream(&authority, |_, id| response(Kind::Https, id));
    // A handshake for each byte would take minutes on a slow machine.
    cut_at_every_byte(Kind::Https, &authority, &plain, 5);
}

/// Whose end is only told by that of its connection: a reset is none.
#[test]
fn a_response_without_length_may_be_reset_at_every_byte() {
    let head = "HTTP/1.1 200 OK\r\n\r\n";
    let authority = Authority::new();
    let upstream = Kind::Http.upstream(&authority, move |_, _| vec![format!("{head}{TEXT}!").into()]);
    let relay = Relay::start(upstream.address(), 0, End::Reset);
    let server = Kind::Http.start(&authority, relay.address);
    for bytes in 0..=head.len() + TEXT.len() {
        relay.set(bytes, End::Reset);
        let seen = seen(&server, "GET", "/x", TEXT);
        let expected = if bytes < head.len() { Seen::Failed(502) } else { Seen::Cut };
        assert!(seen == expected || seen == Seen::Failed(502), "{bytes}: {seen:?}");
    }
    server.stop();
}
