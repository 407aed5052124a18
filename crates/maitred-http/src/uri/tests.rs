use proptest::prelude::*;

use super::*;
use crate::fuzzing;

fn normal(path: &str) -> Result<String, u16> {
    match normalise(path) {
        Ok(normal) => Ok(String::from_utf8_lossy(&normal).into_owned()),
        Err(reject) => Err(reject.status),
    }
}

#[test]
fn what_is_normal_is_borrowed() {
    for path in ["/", "/a", "/a/", "/a.b/c..d/e.", "/a/b?c"] {
        assert!(matches!(normalise(path), Ok(Cow::Borrowed(normal)) if normal == path.as_bytes()), "{path}");
    }
}

#[test]
fn dot_segments_are_removed() {
    for (path, expected) in [
        ("/a/b/c/./../../g", "/a/g"),
        ("/./a", "/a"),
        ("/a/.", "/a/"),
        ("/a/b/..", "/a/"),
        ("/a/..", "/"),
        ("/a/../", "/"),
        ("/.", "/"),
        ("/..a/...", "/..a/..."),
        ("/.well-known/x", "/.well-known/x"),
    ] {
        assert_eq!(normal(path).as_deref(), Ok(expected), "{path}");
    }
}

#[test]
fn repeated_slashes_are_merged_before_dot_segments_are_removed() {
    assert_eq!(normal("//a///b//").as_deref(), Ok("/a/b/"));
    assert_eq!(normal("/a//../b").as_deref(), Ok("/b"));
    assert_eq!(normal("//").as_deref(), Ok("/"));
    assert_eq!(normal("//.."), Err(400));
}

#[test]
fn encoded_bytes_are_decoded_once() {
    assert_eq!(normal("/a%20b%7e%C3%A9").as_deref(), Ok("/a b~é"));
    assert_eq!(normal("/%252e%252e/").as_deref(), Ok("/%2e%2e/"));
    assert_eq!(normal("/%3F%23").as_deref(), Ok("/?#"));
    assert_eq!(normal("/%5C..%5c").as_deref(), Ok("/\\..\\"));
}

#[test]
fn nothing_hides_behind_encoding() {
    assert_eq!(normal("/a/%2e%2E/b").as_deref(), Ok("/b"));
    assert_eq!(normal("/a%2F..%2fb").as_deref(), Ok("/b"));
    assert_eq!(normal("/a/b/.%2e%2Fc").as_deref(), Ok("/a/c"));
    assert_eq!(normal("/%2E%2e%2fetc"), Err(400));
}

#[test]
fn nothing_leads_above_the_root() {
    for path in ["/..", "/../", "/a/../..", "/a/../../b", "/./..", "/a/b/../../../c", "/a/../b/../../c/d"] {
        assert_eq!(normal(path), Err(400), "{path}");
    }
}

#[test]
fn broken_paths_are_refused() {
    for path in ["", "a", "*", "/%", "/%2", "/%zz", "/%2g", "/a%", "/%00", "/a\0b", "%2Fa", "/%+1", "/% 1"] {
        assert_eq!(normal(path), Err(400), "{path:?}");
    }
}

#[test]
fn encoding_leaves_nothing_that_could_mean_something() {
    let mut out = b"x".to_vec();
    encode_path(b"/a b/\r\n\"<>&'%?#;\xff\\/~-._", &mut out);
    assert_eq!(String::from_utf8_lossy(&out), "x/a%20b/%0D%0A%22%3C%3E%26%27%25%3F%23%3B%FF%5C/~-._");
}

fn canonical(path: &str, slashes: Slashes) -> String {
    let mut form = Vec::new();
    canonical_path(path, slashes, &mut form).unwrap();
    String::from_utf8(form).unwrap()
}

#[test]
fn an_application_gets_one_form_of_a_path() {
    for (path, form) in [
        ("/a|b^{c}`[d]", "/a%7Cb%5E%7Bc%7D%60%5Bd%5D"),
        ("/a%7cb%5e%7Bc%7d%60%5bd%5D", "/a%7Cb%5E%7Bc%7D%60%5Bd%5D"),
        ("/%7euser/%41%2d%2E%5f", "/~user/A-._"),
        ("/a;b=c,d&e'f!", "/a;b=c,d&e'f!"),
        ("/a%3bb%26%27%21%3A%40", "/a%3Bb%26%27%21%3A%40"),
        ("//a/./b/..//c%20d%C3%a9", "/a/c%20d%C3%A9"),
        ("/a%2f%2E%2e/b%5c", "/b%5C"),
        ("/@scope%2fpkg", "/@scope/pkg"),
        ("/%252f%2500", "/%252f%2500"),
    ] {
        assert_eq!(canonical(path, Slashes::Decode), form, "{path}");
        assert_eq!(canonical(form, Slashes::Decode), form, "{path}");
    }
    assert_eq!(canonical("/@scope%2fpkg/-//x", Slashes::Keep), "/@scope%2Fpkg/-/x");
    assert_eq!(canonical("/api/queues/%2f/q", Slashes::Keep), "/api/queues/%2F/q");
    let mut query = Vec::new();
    canonical_query("a[]={\"b\"}^`|\\<>&c=%7c%zz?/", &mut query);
    assert_eq!(String::from_utf8(query).unwrap(), "a[]=%7B%22b%22%7D%5E%60%7C%5C%3C%3E&c=%7c%zz?/");
}

#[test]
fn what_an_application_may_read_in_another_way_can_be_refused() {
    let status =
        |path, slashes, parameters| judge(path, slashes, parameters).err().map(|reject| reject.status);
    for path in ["/a%2Fb", "/a%2fb", "/a%5cb", "/%5C"] {
        assert_eq!(status(path, Slashes::Decode, true), None, "{path}");
        assert_eq!(status(path, Slashes::Keep, true), None, "{path}");
        assert_eq!(status(path, Slashes::Reject, true), Some(400), "{path}");
    }
    // The first is /public to a route, and below /admin to an application; the third is the other way round.
    for path in
        ["/admin/..%2Fpublic", "/admin/x%2F..%2f../public", "/public%2Fx/../admin", "/a/%2e%2Fb", "/a%2F."]
    {
        assert_eq!(status(path, Slashes::Decode, true), None, "{path}");
        assert_eq!(status(path, Slashes::Keep, true), Some(400), "{path}");
    }
    assert_eq!(status("/a/../b%5Cc", Slashes::Keep, true), None);
    for path in ["/admin;x/y", "/a;", "/;/"] {
        assert_eq!(status(path, Slashes::Decode, true), None, "{path}");
        assert_eq!(status(path, Slashes::Decode, false), Some(400), "{path}");
    }
    assert_eq!(status("/a%3Bb", Slashes::Decode, false), None, "an encoded one is no parameter");
}

/// The same by another way: segments on a stack, decoded one byte at a time.
fn model(path: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        (decoded, rest) = if *byte == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
            decoded.push(u8::from_str_radix(digits, 16).ok()?);
            (decoded, &after[2..])
        } else {
            decoded.push(*byte);
            (decoded, after)
        };
    }
    if decoded.contains(&0) || !path.starts_with('/') {
        return None;
    }
    let mut stack: Vec<&[u8]> = Vec::new();
    let segments: Vec<&[u8]> = decoded.split(|byte| *byte == b'/').collect();
    for segment in &segments {
        match *segment {
            b"" | b"." => {}
            b".." => drop(stack.pop()?),
            name => stack.push(name),
        }
    }
    let mut normal = b"/".to_vec();
    normal.extend(stack.join(&b'/'));
    if !stack.is_empty() && matches!(segments.last(), Some(&(b"" | b"." | b".."))) {
        normal.push(b'/');
    }
    Some(normal)
}

proptest! {
    #[test]
    fn agrees_with_a_model(path in "/([a./]|%2[eEfF5]|%00|%){0,16}") {
        prop_assert_eq!(normalise(&path).ok().map(Cow::into_owned), model(&path));
    }

    #[test]
    fn normal_paths_keep_the_invariants(path in "/?([ab./]|%2[eEfF5]|\\PC){0,24}") {
        fuzzing::uri(path.as_bytes());
    }

    #[test]
    fn any_path_comes_back_from_its_encoding(segments in proptest::collection::vec("[^/\0]{1,5}", 0..5)) {
        prop_assume!(!segments.iter().any(|segment| segment == "." || segment == ".."));
        let path = format!("/{}", segments.join("/"));
        let mut encoded = Vec::new();
        encode_path(path.as_bytes(), &mut encoded);
        prop_assert_eq!(normalise(&String::from_utf8(encoded).unwrap()).unwrap().into_owned(), path.into_bytes());
    }
}
