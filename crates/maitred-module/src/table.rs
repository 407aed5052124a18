//! Tables that are looked up by a key.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use maitred_sys::memfile::{self, SealedMap};

/// Bytes of a table's file. With its places, a table of this size is still addressed by 32 bits.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Bytes of a key or a value: what 16 bits count.
const TEXT_BYTES_MAX: usize = u16::MAX as usize;
/// Bytes of a place: offset (32 bits), length of the key and of the value (16 bits each), in little endian.
const PLACE_BYTES: usize = 8;

/// Keys and their values, from a text file: sorted, in memory that nothing can change any more. A lookup is a binary search, and
/// allocates nothing.
///
/// A line of the file is a key, blanks or tabs, and a value, which may have blanks within. Empty lines and those that begin with
/// `#` are left out. Line ends are LF or CR LF.
///
/// ```text
/// # short links
/// docs     https://docs.example.com/
/// release  /download/2026/
/// ```
///
/// ```
/// use maitred_module::Table;
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("links.txt");
/// # std::fs::write(&path, "docs https://docs.example.com/\n")?;
/// let table = Table::open(&path, |_, value| match value {
///     [b'/', ..] | [b'h', b't', b't', b'p', ..] => Ok(()),
///     _ => Err("a target begins with / or http".to_owned()),
/// })?;
/// assert_eq!(table.get(b"docs"), Some(&b"https://docs.example.com/"[..]));
/// assert_eq!(table.get(b"doc"), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Table {
    /// The places in the order of their keys, then the text that they are in.
    content: SealedMap,
    count: usize,
}

/// Keys in their order, each with its value and the number of its line.
type Places<'a> = BTreeMap<&'a [u8], (&'a [u8], usize)>;

impl Table {
    /// Reads a file of at most 256 MiB. `check` is called with each key and value, and says what is wrong with them. To be called
    /// where a module begins: a confined process may not open the file any more. What is written to the file later has no effect.
    ///
    /// # Errors
    /// The file cannot be read; or a line, with its number: no value, a key that was there before, control characters, more than
    /// 65,535 bytes of a key or a value, or what `check` says.
    pub fn open(
        path: impl AsRef<Path>,
        check: impl Fn(&[u8], &[u8]) -> Result<(), String>,
    ) -> Result<Table, String> {
        let path = path.as_ref();
        let text = read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Table::of(&text, check).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The same of a text.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn of(text: &[u8], check: impl Fn(&[u8], &[u8]) -> Result<(), String>) -> Result<Table, String> {
        let mut places = Places::new();
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let Some((key, value)) = parted(line).map_err(|error| format!("line {number}: {error}"))? else {
                continue;
            };
            check(key, value).map_err(|error| format!("line {number}: {error}"))?;
            if let Some((_, first)) = places.insert(key, (value, number)) {
                let key = String::from_utf8_lossy(key);
                return Err(format!("line {number}: {key:?} is in line {first} as well"));
            }
        }
        let content = memfile::sealed("maitred-table", &laid_out(&places)?);
        let content = content.and_then(SealedMap::open).map_err(|error| error.to_string())?;
        Ok(Table { content, count: places.len() })
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let (mut least, mut end) = (0, self.count);
        while least < end {
            let middle = least + (end - least) / 2;
            let (found, value) = self.at(middle)?;
            match found.cmp(key) {
                std::cmp::Ordering::Less => least = middle + 1,
                std::cmp::Ordering::Equal => return Some(value),
                std::cmp::Ordering::Greater => end = middle,
            }
        }
        None
    }

    /// How many keys there are.
    pub fn count(&self) -> usize {
        self.count
    }

    fn at(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let place = self.content.get(index * PLACE_BYTES..)?.first_chunk::<PLACE_BYTES>()?;
        let [a, b, c, d, key_low, key_high, value_low, value_high] = *place;
        let rest = self.content.get(u32::from_le_bytes([a, b, c, d]) as usize..)?;
        let (key, rest) = rest.split_at_checked(u16::from_le_bytes([key_low, key_high]).into())?;
        let value = rest.get(..u16::from_le_bytes([value_low, value_high]).into())?;
        Some((key, value))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it has more than {FILE_BYTES_MAX} bytes"));
    }
    Ok(text)
}

/// A key and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// What a line has.
fn parted(line: &[u8]) -> Result<Option<Pair<'_>>, String> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    if line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        return Err("it has a control character".to_owned());
    }
    let blank = line.iter().position(|byte| matches!(byte, b' ' | b'\t'));
    let parts = blank.and_then(|blank| line.split_at_checked(blank));
    let (key, value) = parts.ok_or("it has a key and no value")?;
    let value = value.trim_ascii_start();
    if key.len() > TEXT_BYTES_MAX || value.len() > TEXT_BYTES_MAX {
        return Err(format!("its key or its value has more than {TEXT_BYTES_MAX} bytes"));
    }
    Ok(Some((key, value)))
}

/// Places and text. Without any key there is one byte, since no empty file can be mapped.
fn laid_out(places: &Places<'_>) -> Result<Vec<u8>, String> {
    let text_bytes: usize = places.iter().map(|(key, (value, _))| key.len() + value.len()).sum();
    let mut content = Vec::with_capacity(places.len() * PLACE_BYTES + text_bytes + 1);
    let mut at = places.len() * PLACE_BYTES;
    let too_large = |_| "it is too large".to_owned();
    for (key, (value, _)) in places {
        content.extend(u32::try_from(at).map_err(too_large)?.to_le_bytes());
        content.extend(u16::try_from(key.len()).map_err(too_large)?.to_le_bytes());
        content.extend(u16::try_from(value.len()).map_err(too_large)?.to_le_bytes());
        at += key.len() + value.len();
    }
    for (key, (value, _)) in places {
        content.extend_from_slice(key);
        content.extend_from_slice(value);
    }
    content.push(0);
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anything(_: &[u8], _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    #[test]
    fn keys_have_the_values_of_their_lines() {
        let text = b"# first\n\nb  2 and more \r\n\ta\t1\n  # not one\nc 3";
        let table = Table::of(text, anything).unwrap();
        assert_eq!(table.count(), 3);
        let wanted =
            [("a", Some("1")), ("b", Some("2 and more")), ("c", Some("3")), ("", None), ("bb", None)];
        for (key, value) in wanted {
            assert_eq!(table.get(key.as_bytes()), value.map(str::as_bytes), "{key}");
        }
        assert_eq!(Table::of(b"", anything).unwrap().get(b""), None);
    }

    #[test]
    fn each_of_many_keys_is_found_and_no_other() {
        let text: String = (0..100_000).map(|number| format!("{} {number}\n", number * 7)).collect();
        let table = Table::of(text.as_bytes(), anything).unwrap();
        for number in 0..100_000 {
            let value = number.to_string();
            assert_eq!(table.get((number * 7).to_string().as_bytes()), Some(value.as_bytes()));
            assert_eq!(table.get((number * 7 + 1).to_string().as_bytes()), None);
        }
    }

    #[test]
    fn lines_that_are_wrong_are_named() {
        let long = format!("a b\nkey {}", "x".repeat(TEXT_BYTES_MAX + 1));
        for (text, wanted) in [
            ("a 1\nb", "line 2: it has a key and no value"),
            ("a 1\n\na 2", "line 3: \"a\" is in line 1 as well"),
            ("a x\ry", "line 1: it has a control character"),
            ("a\0 y", "line 1: it has a control character"),
            (&long, "line 2: its key or its value has more than 65535 bytes"),
        ] {
            assert_eq!(Table::of(text.as_bytes(), anything).unwrap_err(), wanted);
        }
        let refuses = |_: &[u8], value: &[u8]| if value == b"2" { Err("two".to_owned()) } else { Ok(()) };
        assert_eq!(Table::of(b"a 1\nb 2", refuses).unwrap_err(), "line 2: two");
        let missing = Table::open("/none/of/it", anything).unwrap_err();
        assert_eq!(missing, "/none/of/it: No such file or directory (os error 2)");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_table_or_refused(text in "[a-c#\\x00\\x7f \t\r\n]{0,60}") {
            let Ok(table) = Table::of(text.as_bytes(), anything) else { return Ok(()) };
            // As the description of the format reads it.
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            let mut count = 0;
            for line in lines {
                let (key, value) = line.split_once([' ', '\t']).unwrap();
                proptest::prop_assert_eq!(table.get(key.as_bytes()), Some(value.trim().as_bytes()), "{:?}", text);
                count += 1;
            }
            proptest::prop_assert_eq!(table.count(), count);
        }

        #[test]
        fn what_is_written_is_found(
            pairs in proptest::collection::btree_map("[!-\"$-~é]{1,8}", "[!-~]([ -~]{0,8}[!-~])?", 0..40),
            other in "[!-~]{0,8}",
        ) {
            let text: String = pairs.iter().rev().map(|(key, value)| format!("{key}\t{value}\n")).collect();
            let table = Table::of(text.as_bytes(), anything).unwrap();
            for (key, value) in &pairs {
                proptest::prop_assert_eq!(table.get(key.as_bytes()), Some(value.as_bytes()));
            }
            let wanted = pairs.get(&other).map(String::as_bytes);
            proptest::prop_assert_eq!(table.get(other.as_bytes()), wanted);
        }
    }

    #[test]
    fn a_text_is_as_long_as_it_may_be() {
        let (key, value) = ("k".repeat(TEXT_BYTES_MAX), "v".repeat(TEXT_BYTES_MAX));
        let table = Table::of(format!("{key} {value}").as_bytes(), anything).unwrap();
        assert_eq!(table.get(key.as_bytes()), Some(value.as_bytes()));
    }
}
