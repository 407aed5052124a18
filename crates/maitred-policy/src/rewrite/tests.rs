use maitred_http::request::{HeadLimits, HeadRoom, RequestHead};

use super::*;

const LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 8192, header_count_max: 64, target_bytes_max: 8192, body_bytes_max: 0 };

/// Has a look at a request that came from 192.0.2.1 by port 8080.
pub(crate) fn with_facts<R>(head: &str, look: impl FnOnce(&Facts<'_>) -> R) -> R {
    let head = RequestHead::received(head.as_bytes(), &LIMITS).unwrap();
    let mut room = HeadRoom::default();
    let request = head.view(&mut room).unwrap();
    let path = uri::normalise(request.path).unwrap();
    let origin = || Origin { client: "192.0.2.1".parse().ok(), https: false, port: 8080 };
    let local = "192.0.2.9:8080".parse().unwrap();
    let arrival = Arrival::new(Some(0), Some(&local));
    look(&Facts { request: &request, path: &path, arrival: &arrival, origin: &origin })
}

#[test]
fn parts_of_a_request_are_found() {
    let head = "GET /a?x=1&y%20z=a+b&&flag HTTP/1.1\r\nHost: example.com:81\r\nCookie: a=1; b=2\r\n\
                Cookie: c=3\r\nX-A: 1\r\nx-a: 2\r\n\r\n";
    with_facts(head, |facts| {
        assert_eq!(facts.parameters("y z").collect::<Vec<_>>(), ["a+b"]);
        assert_eq!(facts.parameters("flag").collect::<Vec<_>>(), [""]);
        assert_eq!(facts.parameters("z").count(), 0);
        let cookie = |name| facts.cookie(name).map(|value| String::from_utf8_lossy(value).into_owned());
        assert_eq!((cookie("b"), cookie("c"), cookie("")), (Some("2".into()), Some("3".into()), None));
        assert_eq!(facts.fields("X-A").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(facts.host(), "example.com");
    });
    with_facts("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", |facts| assert_eq!(facts.host(), "[::1]"));
    with_facts("GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n", |facts| assert_eq!(facts.host(), "[::1]"));
}
