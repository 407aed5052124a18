//! Black-box tests of `compress`: the real binary between clients that accept codings, and what answers them.

mod dynamic;
mod files;
mod manual;
mod own;
mod rules;

use std::io::Read;

/// The content of a body, by its `Content-Encoding`.
#[track_caller]
fn decoded(coding: Option<&str>, body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    match coding {
        None => content.extend_from_slice(body),
        Some("br") => brotli::BrotliDecompress(&mut &*body, &mut content).unwrap(),
        Some("gzip") => drop(flate2::read::GzDecoder::new(body).read_to_end(&mut content).unwrap()),
        Some("zstd") => {
            let mut decoder = ruzstd::decoding::StreamingDecoder::new(body).unwrap();
            decoder.read_to_end(&mut content).unwrap();
        }
        Some(other) => panic!("{other} was not asked for"),
    }
    content
}

/// What can be read of the beginning of a body in gzip.
fn readable(body: &[u8]) -> Vec<u8> {
    let mut decoder = flate2::Decompress::new_gzip(15);
    let mut content = Vec::with_capacity(1 << 16);
    decoder.decompress_vec(body, &mut content, flate2::FlushDecompress::Sync).unwrap();
    content
}

/// JSON of so many items, some 40 bytes each.
fn json(items: usize) -> String {
    let items: Vec<_> =
        (0..items).map(|at| format!("{{\"id\":{at},\"name\":\"item number {at}\"}}")).collect();
    format!("[{}]", items.join(","))
}
