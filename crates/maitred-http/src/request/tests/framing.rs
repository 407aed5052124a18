//! How bodies are delimited (9112-6).

use super::*;

fn framing(lines: &str) -> Framing {
    inspect_with("HTTP/1.1", lines, |request| request.framing)
}

#[test]
fn a_stated_length_delimits_the_body() {
    assert_eq!(framing(""), Framing::None);
    assert_eq!(framing("Content-Length: 0\r\n"), Framing::None);
    assert_eq!(framing("content-length:0012 \r\n"), Framing::Length(12));
    assert_eq!(
        inspect_with("HTTP/1.0", "Content-Length: 3\r\n", |request| request.framing),
        Framing::Length(3)
    );
}

#[test]
fn a_length_is_digits_only() {
    for bad in ["", "-1", "+1", "0x1", "1.0", "1 2", "1,1", "1, 1", "1;", "\u{0661}", "1e3", "\"1\""] {
        assert_eq!(status_with(&format!("Content-Length: {bad}\r\n")), 400, "{bad:?}");
    }
}

#[test]
fn a_repeated_length_is_refused_even_if_it_agrees() {
    assert_eq!(status_with("Content-Length: 1\r\nContent-Length: 1\r\n"), 400);
    assert_eq!(status_with("Content-Length: 1\r\ncontent-length: 2\r\n"), 400);
    assert_eq!(status_with("Content-Length: 0\r\nContent-Length: 0\r\n"), 400);
}

#[test]
fn a_length_over_the_limit_is_too_large() {
    assert_eq!(status_with("Content-Length: 1048576\r\n"), 200);
    assert_eq!(status_with("Content-Length: 1048577\r\n"), 413);
    assert_eq!(status_with("Content-Length: 18446744073709551615\r\n"), 413);
}

#[test]
fn a_length_beyond_64_bits_is_too_large_and_does_not_wrap() {
    assert_eq!(status_with("Content-Length: 18446744073709551616\r\n"), 413);
    assert_eq!(status_with("Content-Length: 184467440737095516160000000001\r\n"), 413);
}

#[test]
fn chunked_delimits_the_body() {
    assert_eq!(framing("Transfer-Encoding: chunked\r\n"), Framing::Chunked);
    assert_eq!(framing("transfer-encoding:\tCHUNKED \r\n"), Framing::Chunked);
}

#[test]
fn chunked_must_be_the_last_coding() {
    for bad in
        ["gzip", "identity", "chunked, gzip", "", "xchunked", "chunked;q=1", "\"chunked\"", "chunked ,"]
    {
        assert_eq!(status_with(&format!("Transfer-Encoding: {bad}\r\n")), 400, "{bad:?}");
    }
    assert_eq!(status_with("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n"), 400);
}

#[test]
fn chunked_must_not_be_applied_twice() {
    assert_eq!(status_with("Transfer-Encoding: chunked, chunked\r\n"), 400);
    assert_eq!(status_with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400);
}

#[test]
fn unknown_codings_below_chunked_are_not_implemented() {
    assert_eq!(status_with("Transfer-Encoding: gzip, chunked\r\n"), 501);
    assert_eq!(status_with("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"), 501);
    assert_eq!(status_with("Transfer-Encoding: identity, chunked\r\n"), 501);
}

#[test]
fn length_and_coding_together_are_refused() {
    assert_eq!(status_with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), 400);
    assert_eq!(status_with("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n"), 400);
}

#[test]
fn version_1_0_knows_no_transfer_coding() {
    assert_eq!(status(b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}
