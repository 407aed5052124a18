// What both prototypes answer, so that only their loops differ. Included by each with `include!`.

/// The fixed response: a head of usual length and 1 KiB of body.
fn response() -> Vec<u8> {
    let mut response = b"HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 12:00:00 GMT\r\nContent-Type: text/plain\r\n\
        Content-Length: 1024\r\nConnection: keep-alive\r\n\r\n"
        .to_vec();
    response.resize(response.len() + 1024, b'x');
    response
}

/// Parses the whole heads at the start of `bytes`, and appends a response for each to `out`.
/// Returns how many bytes were consumed, or `None` for a head that is not HTTP.
fn answer(bytes: &[u8], response: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let mut consumed = 0;
    while let Some(rest) = bytes.get(consumed..).filter(|rest| !rest.is_empty()) {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(rest) {
            Ok(httparse::Status::Complete(length)) => {
                std::hint::black_box((request.method, request.path));
                consumed += length;
                out.extend_from_slice(response);
            }
            Ok(httparse::Status::Partial) => break,
            Err(_) => return None,
        }
    }
    Some(consumed)
}
