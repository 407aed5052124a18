use std::fs;
use std::time::Duration;

use super::testing::{Bench, files};

#[test]
fn a_small_file_is_sent_whole() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a.txt"), "hello").unwrap();
    let mut bench = Bench::of(files(root.path()));
    for _ in 0..2 {
        let answer = bench.get("/a.txt");
        assert_eq!((answer.status, answer.text(), answer.streamed), (200, "hello", false));
        assert_eq!(answer.field("Content-Type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.field("Accept-Ranges"), Some("bytes"));
    }
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.get("/a.txt").text(), "hello");
    assert_eq!(bench.get("/b.txt").status, 404);
    // Now the filesystem knows from memory that there is no such file.
    let missing = bench.get("/b.txt");
    assert_eq!((missing.status, missing.blocked, missing.text()), (404, false, "404 Not Found\n"));
}
