//! What the fuzz target and a property test code: content in any pieces, flushed anywhere. Target and test have decoders of
//! other projects.

#![allow(clippy::expect_used, reason = "fuzzing looks for panics, and nothing of the server calls this")]

use super::{Encoders, whole};
use maitred_config::Coding;

/// What became of some content.
#[derive(Debug)]
pub struct Coded {
    /// The coding.
    pub coding: Coding,
    /// The content.
    pub content: Vec<u8>,
    /// All that was made of it; `None` if that would save too little.
    pub made: Option<Vec<u8>>,
    /// After each flush: how much of the content had been taken, and how much of the output was there.
    pub flushes: Vec<(usize, usize)>,
}

/// The longest content: enough for several blocks and windows of every coding.
const CONTENT_MAX: usize = 1 << 20;

/// Codes as the bytes say: first coding and level, then steps.
///
/// # Panics
/// If an encoder fails, keeps something back at a flush, or is not given back at the end: that is what fuzzing looks for.
pub fn code(data: &[u8]) -> Coded {
    let (settings, steps) = data.split_at(data.len().min(2));
    let (kind, level) =
        (settings.first().copied().unwrap_or(0), settings.get(1).copied().unwrap_or(0) % 9 + 1);
    match kind % 3 {
        0 => streamed(Coding::Zstd, level, kind, steps),
        1 => streamed(Coding::Gzip, level, kind, steps),
        _ => {
            let content = steps.repeat(usize::from(kind / 3) % 8 + 1);
            let made = whole::encode_at(Coding::Brotli, level, &content);
            Coded { coding: Coding::Brotli, content, made, flushes: Vec::new() }
        }
    }
}

fn streamed(coding: Coding, level: u8, kind: u8, steps: &[u8]) -> Coded {
    let encoders = Encoders::new(1);
    if kind & 64 != 0 {
        // What another response has left in the encoder.
        encoders.begin(coding, level, None).into_iter().for_each(|mut coder| coder.write(steps));
    }
    let (mut content, mut made, mut flushes) = (Vec::new(), Vec::new(), Vec::new());
    let mut coder = encoders.begin(coding, level, None).expect("there is an encoder");
    let mut rest = steps;
    while let Some((step, after)) = rest.split_first() {
        rest = after;
        match step % 4 {
            0 => {
                coder.flush();
                made.append(coder.made().expect("nothing fails"));
                assert!(!coder.holds(), "something is kept back");
                flushes.push((content.len(), made.len()));
            }
            1 => made.append(coder.made().expect("nothing fails")),
            _ => {
                // Some of the bytes that follow, as often as a large response needs it.
                let (bytes, after) = rest.split_at(rest.len().min(usize::from(step / 4)));
                let often = if step % 4 == 2 { 1 } else { 1 + usize::from(*step) * 16 };
                let mut piece = bytes.repeat(often);
                piece.truncate(CONTENT_MAX - content.len());
                coder.write(&piece);
                content.append(&mut piece);
                rest = after;
            }
        }
    }
    coder.finish();
    made.append(coder.made().expect("nothing fails"));
    let counts = encoders.counts();
    assert_eq!((counts.in_use, counts.bytes_out >= made.len() as u64), (0, true));
    Coded { coding, content, made: Some(made), flushes }
}
