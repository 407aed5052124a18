//! The static table (7541 Appendix A).

/// Entries of the static table; the first one has index 1.
pub(crate) const FIELDS: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Index of the first field that is not a pseudo-field.
const FIRST_NAME: usize = 15;
/// Slots for names: a power of two.
const SLOTS: usize = 128;

/// By [`slot`]: index of the only name that belongs there, or 0.
static NAMES: [u8; SLOTS] = names();

const fn names() -> [u8; SLOTS] {
    let (mut names, mut index) = ([0; SLOTS], FIRST_NAME);
    while index <= FIELDS.len() {
        let name = FIELDS[index - 1].0.as_bytes();
        let slot = slot(name);
        assert!(names[slot] == 0, "two names in one slot");
        names[slot] = index as u8;
        index += 1;
    }
    names
}

/// Length, first and last character tell all names apart, and with these factors in so few slots, too. The factors were found
/// by trying.
const fn slot(name: &[u8]) -> usize {
    let [first, .., last] = name else { return 0 };
    (3 * name.len() + 54 * lower(*first) + 59 * lower(*last)) % SLOTS
}

const fn lower(byte: u8) -> usize {
    (byte | 0x20) as usize
}

/// The field at `index`, if it is in the static table.
#[inline]
pub(super) fn get(index: usize) -> Option<(&'static [u8], &'static [u8])> {
    let (name, value) = FIELDS.get(index.checked_sub(1)?)?;
    Some((name.as_bytes(), value.as_bytes()))
}

/// Index of a name, given in any case; of names without a colon only.
#[inline]
pub(super) fn index_of(name: &[u8]) -> Option<usize> {
    let index = usize::from(NAMES[slot(name)]);
    let (known, _) = get(index)?;
    known.eq_ignore_ascii_case(name).then_some(index)
}

/// Index of a response's status, if the table has it.
#[inline]
pub(super) fn index_of_status(status: u16) -> Option<usize> {
    Some(match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => return None,
    })
}
