//! Names that stored responses are purged by: those of the application, and groups of `Cache-Groups` (9875-2).

use super::structured::{self, Bare};
use crate::response::ResponseHead;

/// Tags of one response, of each kind; 9875-2 asks for at least 32.
pub const TAGS_MAX: usize = 128;

/// Bytes of a tag; 9875-2 asks for at least 32.
pub const TAG_BYTES_MAX: usize = 256;

/// A name of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag<'a> {
    /// Of `Surrogate-Key` (with spaces between them) or `Cache-Tag` (with commas): the operator purges by it.
    Key(&'a [u8]),
    /// Of `Cache-Groups`: its origin invalidates by it, and only its own responses.
    Group(&'a [u8]),
}

/// Gives the tags of a response: at most [`TAGS_MAX`] keys and as many groups, each at most [`TAG_BYTES_MAX`] long. The rest is
/// ignored.
pub fn for_each_tag(head: &ResponseHead<'_>, mut each: impl FnMut(Tag<'_>)) {
    let mut count = 0;
    head.for_each(|name, line| {
        let comma = name.eq_ignore_ascii_case(b"cache-tag");
        if !comma && !name.eq_ignore_ascii_case(b"surrogate-key") {
            return;
        }
        let between = |byte: &u8| if comma { *byte == b',' } else { matches!(byte, b' ' | b'\t') };
        for tag in line.split(between).map(<[u8]>::trim_ascii) {
            if (1..=TAG_BYTES_MAX).contains(&tag.len()) && count < TAGS_MAX {
                count += 1;
                each(Tag::Key(tag));
            }
        }
    });
    for_each_group(head, b"cache-groups", &mut |group: &[u8]| each(Tag::Group(group)));
}

/// Gives the groups that a field names, each at most [`TAG_BYTES_MAX`] long.
pub(super) fn for_each_group(head: &ResponseHead<'_>, field: &[u8], each: &mut impl FnMut(&[u8])) {
    let (mut count, mut group) = (0, Vec::new());
    head.for_each(|name, line| {
        if !name.eq_ignore_ascii_case(field) || structured::list(line, |_| {}).is_none() {
            return;
        }
        let _ = structured::list(line, |member| {
            if let Bare::String(text) = member
                && count < TAGS_MAX
            {
                group.clear();
                group.extend(structured::unescaped(text));
                if (1..=TAG_BYTES_MAX).contains(&group.len()) {
                    count += 1;
                    each(&group);
                }
            }
        });
    });
}
