#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use maitred_config::Coding;
use maitred_policy::compress::fuzzing;

/// By decoders of other projects than the encoders are from; but for Brotli, of which there is one library.
fn decoded(coding: Coding, made: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    match coding {
        Coding::Gzip => {
            let mut decoder = flate2::read::GzDecoder::new(made);
            decoder.read_to_end(&mut content).expect("gzip");
        }
        Coding::Zstd => {
            let mut decoder = ruzstd::decoding::StreamingDecoder::new(made).expect("a frame");
            decoder.read_to_end(&mut content).expect("zstd");
        }
        Coding::Brotli => {
            brotli::BrotliDecompress(&mut &*made, &mut content).expect("Brotli");
        }
    }
    content
}

fuzz_target!(|data: &[u8]| {
    let coded = fuzzing::code(data);
    if let Some(made) = coded.made {
        assert_eq!(decoded(coded.coding, &made), coded.content);
    }
});
