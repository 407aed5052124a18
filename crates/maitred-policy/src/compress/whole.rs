//! Something that is there as a whole, coded once: what lasts by a helper thread, or with the configuration, so that it may
//! take its time; a page that was just made at a level of an event loop.

use brotli::enc::BrotliEncoderParams;
use flate2::{Compress, Compression, FlushCompress, Status};

use maitred_config::Coding;

/// Brotli's highest levels take several times as long for two per cent.
const BROTLI_LEVEL: u8 = 9;
/// The last level before the library looks for the best of all ways, which takes several times as long.
const ZSTD_LEVEL: u8 = 15;
const GZIP_LEVEL: u8 = 9;
/// 8 MiB, the largest window that decoders of this content coding have to have (RFC 9659).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// As RFC 1951 has it: 32 KiB.
const GZIP_WINDOW_LOG: u8 = 15;
/// A coding has to save a twentieth, or is not worth that clients decode it.
const SAVING_MIN: usize = 20;

/// `content` in a coding, as small as it gets; `None` if that saves too little.
pub fn encode(coding: Coding, content: &[u8]) -> Option<Vec<u8>> {
    let level = match coding {
        Coding::Brotli => BROTLI_LEVEL,
        Coding::Zstd => ZSTD_LEVEL,
        Coding::Gzip => GZIP_LEVEL,
    };
    encode_at(coding, level, content)
}

/// `content` in a coding at a level, 1 to 9 for an event loop; `None` if that saves too little.
pub fn encode_at(coding: Coding, level: u8, content: &[u8]) -> Option<Vec<u8>> {
    let made = match coding {
        Coding::Brotli => brotli(level, content)?,
        Coding::Zstd => zstd(level, content)?,
        Coding::Gzip => gzip(level, content)?,
    };
    (made.len() <= content.len() - content.len() / SAVING_MIN).then_some(made)
}

fn brotli(level: u8, content: &[u8]) -> Option<Vec<u8>> {
    let params = BrotliEncoderParams {
        quality: level.into(),
        size_hint: content.len(),
        ..BrotliEncoderParams::default()
    };
    let mut made = Vec::with_capacity(content.len() / 4 + 64);
    let mut input = content;
    brotli::BrotliCompress(&mut input, &mut made, &params).ok()?;
    Some(made)
}

fn zstd(level: u8, content: &[u8]) -> Option<Vec<u8>> {
    use zstd_safe::CParameter;
    let mut context = zstd_safe::CCtx::try_create()?;
    context.set_parameter(CParameter::CompressionLevel(level.into())).ok()?;
    context.set_parameter(CParameter::WindowLog(ZSTD_WINDOW_LOG_MAX)).ok()?;
    let mut made = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
    context.compress2(&mut made, content).ok()?;
    made.shrink_to_fit();
    Some(made)
}

fn gzip(level: u8, content: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = Compress::new_gzip(Compression::new(level.into()), GZIP_WINDOW_LOG);
    let mut made = Vec::with_capacity(content.len() / 4 + 64);
    loop {
        let taken = usize::try_from(encoder.total_in()).ok()?;
        made.reserve(content.len() / 4 + 64);
        let rest = content.get(taken..).unwrap_or_default();
        match encoder.compress_vec(rest, &mut made, FlushCompress::Finish).ok()? {
            Status::StreamEnd => return Some(made),
            Status::Ok | Status::BufError => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::coder::decoding::decoded;
    use super::*;

    #[test]
    fn what_is_coded_once_is_read_again_and_is_smaller() {
        let text = "The quick brown fox jumps over the lazy dog, ".repeat(2000);
        let noise: Vec<u8> = (0..60_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for coding in [Coding::Brotli, Coding::Zstd, Coding::Gzip] {
            for content in [text.as_bytes(), &[text.as_bytes(), &noise].concat()] {
                let made = encode(coding, content).unwrap();
                assert!(made.len() < content.len());
                assert_eq!(decoded(coding, &made), content, "{coding:?}");
            }
            assert_eq!(encode(coding, b""), None, "nothing is saved");
        }
    }

    #[test]
    fn what_saves_nothing_is_not_kept() {
        let mut seed = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        })
        .take(5000)
        .collect();
        for coding in [Coding::Brotli, Coding::Zstd, Coding::Gzip] {
            assert_eq!(encode(coding, &noise), None, "{coding:?}");
        }
    }
}
