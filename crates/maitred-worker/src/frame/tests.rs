use maitred_handoff::{FromServer, PAYLOAD_BYTES_MAX, RequestFlags};

use super::*;
use crate::testing::with_request;
use maitred_base::budget::Budget;

/// The head and the body that an application process gets; `None` if the frame is too large.
fn framed(line: &str, body: &[u8], spooled: Option<u64>, max: u32) -> Option<(String, Vec<u8>)> {
    let length = format!("Content-Length: {}", body.len());
    let permit = || Budget::new(0).begin();
    let spool = spooled.map(|bytes| Spool {
        file: tempfile::tempfile().unwrap(),
        bytes,
        on_disk: false,
        kept: permit(),
        held: permit(),
    });
    let mut out = b"another frame".to_vec();
    let written = with_request(&format!("{line} / HTTP/1.1"), &[&length], |request| {
        let head = maitred_handoff::begin_request(&mut out, 1, 1, RequestFlags::default(), 0).head(line, "/");
        append_body(head, request, body, spool.as_ref(), max)
    });
    assert!(out.starts_with(b"another frame"));
    let frame = out.split_off(13);
    if !written {
        assert!(frame.is_empty(), "a frame that is too large leaves nothing behind");
        return None;
    }
    match FromServer::decode(&frame, PAYLOAD_BYTES_MAX) {
        Ok(Some((FromServer::Request(request), used))) => {
            assert_eq!(used, frame.len());
            Some((String::from_utf8_lossy(request.head).into_owned(), request.body.to_vec()))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_frame_says_how_long_the_body_is_wherever_it_is() {
    let head = |length: &str| format!("POST / HTTP/1.1\r\n{length}\r\n");
    let max = PAYLOAD_BYTES_MAX;
    let (inline, body) = framed("POST", b"abc", None, max).unwrap();
    assert_eq!((inline, &*body), (head("content-length: 3\r\n"), &b"abc"[..]));
    let (spooled, body) = framed("POST", b"", Some(5_000_000_000), max).unwrap();
    assert_eq!((spooled, body.len()), (head("content-length: 5000000000\r\n"), 0));
    let (none, _) = framed("GET", b"", None, max).unwrap();
    assert_eq!(none, "GET / HTTP/1.1\r\n\r\n");
}

#[test]
fn the_bound_of_a_frame_is_met_exactly() {
    let whole = (0..400).find(|max| framed("POST", b"abc", None, *max).is_some()).unwrap();
    assert!(framed("POST", b"abcd", None, whole).is_none());
    assert!(framed("POST", b"abcd", None, whole + 1).is_some(), "one byte more has room for one byte more");
    assert!(framed("POST", b"", Some(u64::MAX >> 1), whole + 20).is_some(), "a file takes none");
}

#[test]
fn an_application_expects_its_largest_body_and_a_head() {
    assert_eq!(payload_bytes_max(0), HEAD_ALLOWANCE);
    assert_eq!(payload_bytes_max(1 << 20), (1 << 20) + HEAD_ALLOWANCE);
    assert_eq!(payload_bytes_max(u32::MAX), u32::MAX);
}
