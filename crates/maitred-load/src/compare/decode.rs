//! Content without its codings (`Content-Encoding`), within a bound.

use std::io::Read;

/// Codings of one content.
const CODINGS_MAX: usize = 4;

/// The content without the codings that `field` names, the last one first. Longer content is truncated at `max`.
///
/// # Errors
/// The coding that is not known, or that the content has not.
pub(super) fn decoded(body: &[u8], field: &str, max: usize) -> Result<Vec<u8>, String> {
    let mut content = body.to_vec();
    let codings: Vec<&str> = field.split(',').map(str::trim).filter(|coding| !coding.is_empty()).collect();
    if codings.len() > CODINGS_MAX {
        return Err("too many codings".to_owned());
    }
    for coding in codings.iter().rev() {
        content = without(&content, &coding.to_ascii_lowercase(), max)?;
    }
    Ok(content)
}

fn without(body: &[u8], coding: &str, max: usize) -> Result<Vec<u8>, String> {
    match coding {
        "identity" => Ok(body.to_vec()),
        "gzip" | "x-gzip" => read(flate2::read::MultiGzDecoder::new(body), coding, max),
        // RFC 9110 section 8.4.1.2: the zlib format, which some leave out.
        "deflate" => read(flate2::read::ZlibDecoder::new(body), coding, max)
            .or_else(|_| read(flate2::read::DeflateDecoder::new(body), coding, max)),
        "br" => read(brotli::Decompressor::new(body, 4096), coding, max),
        "zstd" => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(body);
            read(decoder.map_err(|_| coding.to_owned())?, coding, max)
        }
        other => Err(other.to_owned()),
    }
}

fn read(decoder: impl Read, coding: &str, max: usize) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    decoder.take(max as u64).read_to_end(&mut content).map_err(|_| coding.to_owned())?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 1 << 20;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn codings_are_undone() {
        let content = b"content".repeat(100);
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(&content).unwrap();
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::fast());
        deflate.write_all(&content).unwrap();
        let mut br = Vec::new();
        brotli::CompressorWriter::new(&mut br, 4096, 3, 20).write_all(&content).unwrap();
        let zstd = ruzstd::encoding::compress_to_vec(&*content, ruzstd::encoding::CompressionLevel::Fastest);
        for (body, field) in [
            (gzip(&content), "gzip"),
            (zlib.finish().unwrap(), "Deflate"),
            (deflate.finish().unwrap(), "deflate"),
            (br, "br"),
            (zstd, "zstd"),
            (gzip(&gzip(&content)), "gzip, x-gzip"),
            (content.clone(), "identity"),
            (content.clone(), ""),
        ] {
            assert_eq!(decoded(&body, field, MAX).as_deref(), Ok(&*content), "{field}");
        }
    }

    #[test]
    fn what_is_small_stays_so() {
        let bomb = gzip(&vec![0; 10 * MAX]);
        assert_eq!(decoded(&bomb, "gzip", MAX).unwrap().len(), MAX);
        assert!(decoded(b"", "gzip, gzip, gzip, gzip, gzip", MAX).is_err());
        assert_eq!(decoded(b"no gzip", "gzip", MAX), Err("gzip".to_owned()));
        assert_eq!(decoded(b"a", "rot13", MAX), Err("rot13".to_owned()));
    }

    proptest! {
        #[test]
        fn nothing_panics(body: Vec<u8>, coding in "gzip|deflate|br|zstd") {
            let _ = decoded(&body, &coding, 1 << 16);
        }
    }
}
