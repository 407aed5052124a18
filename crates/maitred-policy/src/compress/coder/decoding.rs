//! Decoders of other projects, for tests.

use std::io::Read;

use maitred_config::Coding;

/// The content that was coded.
pub(in crate::compress) fn decoded(coding: Coding, made: &[u8]) -> Vec<u8> {
    match coding {
        Coding::Gzip => {
            let (content, ended) = gzip(made);
            assert!(ended, "it has no end");
            content
        }
        Coding::Zstd => {
            let (mut content, mut input) = (Vec::new(), made);
            let mut decoder = ruzstd::decoding::StreamingDecoder::new(&mut input).unwrap();
            decoder.read_to_end(&mut content).unwrap();
            drop(decoder);
            assert!(input.is_empty(), "something follows");
            content
        }
        Coding::Brotli => {
            let (mut content, mut input) = (Vec::new(), made);
            brotli::BrotliDecompress(&mut input, &mut content).unwrap();
            content
        }
    }
}

/// What can be read of a beginning.
pub(in crate::compress) fn readable(coding: Coding, made: &[u8]) -> Vec<u8> {
    if coding == Coding::Gzip {
        return gzip(made).0;
    }
    // The other project's decoder keeps what is in its window until it has more. The decoder below gives all that it can.
    let mut decoder = zstd_safe::DCtx::create();
    let mut content = Vec::with_capacity(1 << 20);
    let mut input = zstd_safe::InBuffer::around(made);
    loop {
        content.reserve(1 << 17);
        let (at, before) = (content.len(), input.pos());
        let mut output = zstd_safe::OutBuffer::around_pos(&mut content, at);
        decoder.decompress_stream(&mut output, &mut input).unwrap();
        if output.pos() == at && input.pos() == before {
            return content;
        }
    }
}

/// RFC 1952, with a header that has no further fields.
fn gzip(made: &[u8]) -> (Vec<u8>, bool) {
    use miniz_oxide::inflate::TINFLStatus;
    use miniz_oxide::inflate::core::inflate_flags::{
        TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
    };
    use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
    let Some((header, deflated)) = made.split_at_checked(10) else { return (Vec::new(), false) };
    assert_eq!(header[..4], [0x1f, 0x8b, 8, 0]);
    let mut content = vec![0; 1 << 20];
    let (mut decoder, mut at, mut read) = (Box::<DecompressorOxide>::default(), 0, 0);
    let status = loop {
        let rest = &deflated[read..];
        let flags = TINFL_FLAG_HAS_MORE_INPUT | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let (status, taken, written) = decompress(&mut decoder, rest, &mut content, at, flags);
        (read, at) = (read + taken, at + written);
        match status {
            TINFLStatus::HasMoreOutput => content.resize(content.len() * 2, 0),
            other => break other,
        }
    };
    content.truncate(at);
    let trailer = &deflated[read..];
    let ended = status == TINFLStatus::Done && trailer.len() == 8;
    if ended {
        let number = |at: usize| u32::from_le_bytes(trailer[at..at + 4].try_into().unwrap());
        assert_eq!((number(0), number(4)), (crc32(&content), content.len() as u32));
    } else {
        assert!(matches!(status, TINFLStatus::NeedsMoreInput | TINFLStatus::Done), "{status:?} {made:x?}");
    }
    (content, ended)
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}
