//! Which part of a path is the script.

use super::super::script::*;

/// Script and `PATH_INFO`, with a bar between; `-` for no script.
fn php(path: &str) -> Result<String, Refused> {
    let script = split(path.as_bytes(), Some(b"index.php"), b".php")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(script.map_or("-".into(), |script| {
        format!("{}{}|{}", text(script.name), text(script.index), text(script.path_info))
    }))
}

#[test]
fn scripts_are_found_as_nginx_finds_them() {
    let cases = [
        ("/a.php", "/a.php|"),
        ("/a.php/", "/a.php|/"),
        ("/a.php/b/c", "/a.php|/b/c"),
        ("/dir/a.php/b.txt", "/dir/a.php|/b.txt"),
        ("/a.php.php", "/a.php.php|"),
        ("/a.phpx/b.php", "/a.phpx/b.php|"),
        ("/x.php.jpg/y", "-"),
        ("/x.phps", "-"),
        ("/xphp", "-"),
        ("/image.png", "-"),
        ("/dir", "-"),
        // fastcgi_index
        ("/", "/index.php|"),
        ("/dir/", "/dir/index.php|"),
        ("/a.php/dir/", "/a.php|/dir/"),
    ];
    for (path, expected) in cases {
        assert_eq!(php(path).as_deref(), Ok(expected), "{path}");
    }
}

#[test]
fn the_first_script_of_a_path_is_the_script() {
    // The rest is its PATH_INFO, and never a second script.
    assert_eq!(php("/a.php/b.php").as_deref(), Ok("/a.php|/b.php"));
    assert_eq!(php("/a.php/b.php/c").as_deref(), Ok("/a.php|/b.php/c"));
    assert_eq!(php("/a.php/x.PHP").as_deref(), Ok("/a.php|/x.PHP"));
    assert_eq!(php("/a.php/.php").as_deref(), Ok("/a.php|/.php"));
}

#[test]
fn an_upload_is_not_the_script_by_its_name() {
    // The script is what the whole name says. The caller has to see that the file exists: PHP would fall back to evil.jpg.
    assert_eq!(php("/upload/evil.jpg/x.php").as_deref(), Ok("/upload/evil.jpg/x.php|"));
    assert_eq!(php("/upload/evil.jpg/x.php/y").as_deref(), Ok("/upload/evil.jpg/x.php|/y"));
    assert_eq!(php("/upload/evil.php.jpg").as_deref(), Ok("-"));
    assert_eq!(php("/upload/evil.jpg").as_deref(), Ok("-"));
}

#[test]
fn nul_bytes_are_refused_wherever_they_are() {
    for path in ["/evil.jpg\0.php", "/a.php\0", "/a.php/\0", "/\0", "/x\0y"] {
        assert_eq!(php(path), Err(Refused::Nul), "{path:?}");
    }
}

#[test]
fn an_ending_is_no_script() {
    for path in ["/.php", "/.php/x", "/dir/.php", "/.PHP", "/dir/.Php/a.php"] {
        assert_eq!(php(path), Err(Refused::NoName), "{path}");
    }
    assert_eq!(php("/..php").as_deref(), Ok("/..php|"));
}

#[test]
fn an_ending_in_another_case_is_neither_run_nor_served() {
    for path in ["/a.PHP", "/a.Php/x", "/dir/a.pHp", "/a.PHP/b.php"] {
        assert_eq!(php(path), Err(Refused::Case), "{path}");
    }
    // Letters that fold to others of another length moved the place where a path was cut (CVE-2026-27590).
    assert_eq!(php("/\u{23a}\u{23a}.php/x").as_deref(), Ok("/\u{23a}\u{23a}.php|/x"));
    assert_eq!(php("/\u{212a}.php.txt/x.php").as_deref(), Ok("/\u{212a}.php.txt/x.php|"));
    // Not the letters that they look like.
    assert_eq!(php("/a.\u{ff50}hp").as_deref(), Ok("-"));
}

#[test]
fn a_line_break_is_a_byte_as_any_other() {
    // CVE-2019-11043 needed an expression in which a dot is no line break.
    assert_eq!(php("/index.php/a\nb").as_deref(), Ok("/index.php|/a\nb"));
    assert_eq!(php("/a\nb.php").as_deref(), Ok("/a\nb.php|"));
    assert_eq!(php("/a.php\n").as_deref(), Ok("-"));
}

#[test]
fn a_path_begins_with_a_slash() {
    for path in ["", "*", "a.php", "http://a.example/a.php"] {
        assert_eq!(php(path), Err(Refused::NotAbsolute), "{path:?}");
    }
}

#[test]
fn an_index_that_is_no_script_is_none() {
    assert_eq!(split(b"/", Some(b"index.html"), b".php"), Ok(None));
    assert_eq!(split(b"/", Some(b".php"), b".php"), Ok(None));
    assert_eq!(split(b"/", None, b".php"), Ok(None));
    // Without an ending nothing is a script.
    assert_eq!(split(b"/a.php/", Some(b"index.php"), b""), Ok(None));
    let other = Script { name: b"/a.pl", index: b"", path_info: b"/x.php" };
    assert_eq!(split(b"/a.pl/x.php", None, b".pl"), Ok(Some(other)));
}

#[test]
fn sources_are_known_in_any_case() {
    for name in ["a.php", "/dir/a.PHP", ".php", ".pHp"] {
        assert!(has_ending(name.as_bytes(), b".php"), "{name}");
    }
    for name in ["", "php", "a.phps", "a.php ", "a.php/"] {
        assert!(!has_ending(name.as_bytes(), b".php"), "{name:?}");
    }
    assert!(!has_ending(b"a", b""));
}
