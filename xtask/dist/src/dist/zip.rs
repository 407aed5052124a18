//! ZIP archives that have the same bytes every time: no times, the given order. Of the format (APPNOTE.TXT 6.3) only what wheels
//! need: deflated files below 4 GiB, names in ASCII, permissions of Unix.

use std::io::Write as _;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use crate::Result;

/// 1 January 1980, the first day of the format, as the fields for time and date.
const TIME_AND_DATE: [u8; 4] = [0, 0, 0x21, 0];
/// Version 2.0 of the format, no flags, deflate.
const NEEDED_FLAGS_METHOD: [u8; 6] = [20, 0, 0, 0, 8, 0];
/// Made by version 2.0 on Unix.
const MADE_BY: [u8; 2] = [20, 3];
/// A regular file, in the mode of Unix.
const REGULAR: u32 = 0o100_000;

/// One file of the archive.
pub(super) struct File {
    /// Path in the archive, with `/`.
    pub(super) name: String,
    pub(super) content: Vec<u8>,
    /// Permissions.
    pub(super) mode: u32,
}

impl File {
    /// A file that is read by all, and not executed.
    pub(super) fn new(name: String, content: impl Into<Vec<u8>>) -> File {
        File { name, content: content.into(), mode: 0o644 }
    }
}

/// The archive of these files, in this order.
///
/// # Errors
/// Too much for the format.
pub(super) fn archive(files: &[File]) -> Result<Vec<u8>> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for file in files {
        let offset = u32::try_from(out.len())?.to_le_bytes();
        let mut crc = Crc::new();
        crc.update(&file.content);
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::best());
        deflate.write_all(&file.content)?;
        let deflated = deflate.finish()?;
        let mut fields = NEEDED_FLAGS_METHOD.to_vec();
        fields.extend(TIME_AND_DATE);
        for number in [crc.sum(), u32::try_from(deflated.len())?, u32::try_from(file.content.len())?] {
            fields.extend(number.to_le_bytes());
        }
        fields.extend(u16::try_from(file.name.len())?.to_le_bytes());
        // No extra field.
        fields.extend([0, 0]);
        out.extend(b"PK\x03\x04");
        out.extend(&fields);
        out.extend(file.name.as_bytes());
        out.extend(deflated);
        directory.extend(b"PK\x01\x02");
        directory.extend(MADE_BY);
        directory.extend(&fields);
        // No comment, the first disk, no internal attributes.
        directory.extend([0; 6]);
        directory.extend(((REGULAR | file.mode) << 16).to_le_bytes());
        directory.extend(offset);
        directory.extend(file.name.as_bytes());
    }
    let count = u16::try_from(files.len())?.to_le_bytes();
    let (size, start) =
        (u32::try_from(directory.len())?.to_le_bytes(), u32::try_from(out.len())?.to_le_bytes());
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([count, count].concat());
    out.extend([size, start].concat());
    out.extend([0, 0]);
    Ok(out)
}
