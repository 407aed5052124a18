mod decoding;
mod encoding;
mod heads;
mod properties;
mod scripts;
mod variables;

/// A record of request 1 with this content, without padding.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    padded(kind, content, 0)
}

/// A record of request 1 with padding that is not zero.
fn padded(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [length1, length0] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let mut record = vec![1, kind, 0, 1, length1, length0, padding, 0];
    record.extend_from_slice(content);
    record.extend(vec![0xaa; usize::from(padding)]);
    record
}

/// `END_REQUEST` with both statuses 0.
const END: [u8; 16] = [1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
