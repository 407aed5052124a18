use super::*;

fn asked(id: Id, method: &'static str, transport: Transport) -> Asked {
    Asked { id, method, http10: false, keep: true, transport, upgrade: false, fixed: false, body: Vec::new() }
}

fn answer(id: Id, body: &str) -> Answer {
    let head = format!("HTTP/1.1 200 Puppet\r\nX-Id: {id}\r\nContent-Length: {}\r\n\r\n", body.len());
    Answer {
        status: 200,
        head_bytes: head.len(),
        full: [head.as_bytes(), body.as_bytes()].concat(),
        body: body.into(),
        ..Answer::default()
    }
}

/// A connection whose requests are all sent, with answers that are `body` and the request's number.
fn connection(methods: &[&'static str], transport: Transport) -> Connection {
    let requests = methods.iter().zip(0..).map(|(method, id)| {
        let answer = answer(id, &format!("body {id}"));
        Request { sent: true, answer, ..Request::new(asked(id, method, transport)) }
    });
    Connection { requests: requests.collect(), ..Connection::default() }
}

fn end(connection: &mut Connection, at: usize, fate: Fate, offered: usize) {
    let request = &mut connection.requests[at];
    (request.fate, request.offered, request.written) = (fate, offered, offered);
}

/// The request is given to an application, and answered.
fn answered(connection: &mut Connection, at: usize) -> Vec<u8> {
    connection.deliver(at).unwrap();
    let full = connection.requests[at].answer.full.clone();
    end(connection, at, Fate::Whole, full.len());
    full
}

fn error(status: u16) -> Vec<u8> {
    format!("HTTP/1.1 {status} x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno").into_bytes()
}

#[test]
fn requests_are_given_away_one_after_the_other() {
    let mut line = connection(&["GET", "GET"], Transport::Direct);
    line.deliver(0).unwrap();
    assert!(line.deliver(1).unwrap_err().contains("two owners"));
    assert!(line.deliver(0).unwrap_err().contains("given before"));
    end(&mut line, 0, Fate::Whole, 100);
    line.deliver(1).unwrap();
    let mut skipped = connection(&["GET", "GET"], Transport::Direct);
    assert!(skipped.deliver(1).is_err());
    skipped.requests[0].sent = false;
    assert!(skipped.deliver(0).unwrap_err().contains("not sent"));
}

#[test]
fn nothing_follows_a_response_that_closes() {
    let mut line = connection(&["GET", "GET"], Transport::Direct);
    let mut stream = answered(&mut line, 0);
    line.requests[0].answer.closes = true;
    assert!(line.deliver(1).unwrap_err().contains("the last"));
    line.ended(&stream, true).unwrap();
    stream.extend_from_slice(b"x");
    assert!(line.ended(&stream, true).is_err());
}

#[test]
fn only_a_safe_request_that_nobody_saw_is_given_again_and_once() {
    for (method, written, again) in
        [("GET", 0, true), ("HEAD", 0, true), ("POST", 0, false), ("GET", 1, false)]
    {
        let mut line = connection(&[method], Transport::Direct);
        line.deliver(0).unwrap();
        end(&mut line, 0, Fate::Lost, written);
        assert_eq!(line.deliver(0).is_ok(), again, "{method} after {written} bytes");
        end(&mut line, 0, Fate::Lost, written);
        assert!(line.deliver(0).is_err(), "never a third time");
    }
    let mut headless = connection(&["GET"], Transport::Relay);
    headless.deliver(0).unwrap();
    end(&mut headless, 0, Fate::Lost, 10);
    headless.deliver(0).unwrap();
}

#[test]
fn any_request_that_a_server_has_refused_is_given_to_another() {
    for refused in [true, false] {
        let mut line = connection(&["POST"], Transport::Relay);
        line.requests[0].server = Some(0);
        line.deliver(0).unwrap();
        end(&mut line, 0, Fate::Lost, 0);
        line.requests[0].refused = refused;
        assert_eq!(line.deliver(0).is_ok(), refused);
        assert!(!line.requests[0].refused, "the next server has not refused it");
    }
}

#[test]
fn a_client_receives_its_own_responses_in_their_order() {
    let mut line = connection(&["GET", "POST"], Transport::Direct);
    let (first, second) = (answered(&mut line, 0), answered(&mut line, 1));
    line.ended(&[first.clone(), second.clone()].concat(), false).unwrap();
    let swapped = line.progress(&[second, first.clone()].concat()).unwrap_err();
    assert!(swapped.contains("response of request 1"), "{swapped}");
    assert!(
        line.progress(&[first.clone(), first.clone()].concat())
            .unwrap_err()
            .contains("response of request 0")
    );
    assert!(line.ended(&first, false).is_err(), "the second was lost");
    let mut foreign = first;
    let last = foreign.len() - 1;
    foreign[last] = b'?';
    assert!(line.progress(&foreign).unwrap_err().contains("not as written"));
}

#[test]
fn a_response_is_not_longer_than_what_was_written() {
    let mut line = connection(&["GET"], Transport::Direct);
    let full = answered(&mut line, 0);
    line.requests[0].offered = full.len() - 1;
    assert!(line.progress(&full).unwrap_err().contains("more than was written"));
}

#[test]
fn a_response_may_be_cut_only_if_the_application_failed() {
    for (fate, may) in
        [(Fate::Whole, false), (Fate::Broken, true), (Fate::Lost, true), (Fate::UnderWay, false)]
    {
        let mut line = connection(&["GET"], Transport::Direct);
        let full = answered(&mut line, 0);
        line.requests[0].fate = fate;
        assert_eq!(line.ended(&full[..20], true).is_ok(), may, "{fate:?}");
    }
    let mut left = connection(&["GET"], Transport::Direct);
    let full = answered(&mut left, 0);
    left.left = true;
    left.ended(&full[..20], false).unwrap();
}

#[test]
fn errors_of_maitred_need_a_reason() {
    let cases = [
        (Fate::Lost, 0, 502, true),
        (Fate::Lost, 0, 504, false),
        (Fate::Lost, 5, 502, false),
        (Fate::Nothing, 0, 502, true),
        (Fate::Broken, 5, 502, false),
        (Fate::Whole, 0, 502, false),
        (Fate::UnderWay, 0, 502, false),
    ];
    for (fate, written, status, may) in cases {
        let mut line = connection(&["GET"], Transport::Direct);
        line.deliver(0).unwrap();
        end(&mut line, 0, fate, written);
        assert_eq!(
            line.ended(&error(status), true).is_ok(),
            may,
            "{status} for {fate:?} after {written} bytes"
        );
    }
    let mut waiting = connection(&["GET"], Transport::Direct);
    assert!(waiting.ended(&error(502), true).is_err());
    assert!(waiting.ended(&error(503), true).is_err());
    waiting.requests[0].may_be_unseen = true;
    waiting.ended(&error(502), true).unwrap();
    waiting.refusals = true;
    waiting.ended(&error(503), true).unwrap();
}

#[test]
fn a_connection_that_is_to_be_kept_is_not_ended_by_the_server() {
    let mut line = connection(&["GET"], Transport::Direct);
    let full = answered(&mut line, 0);
    line.ended(&full, false).unwrap();
    assert!(line.ended(&full, true).is_err());
    line.cut = true;
    line.ended(&full, true).unwrap();
}

#[test]
fn a_relayed_response_may_be_framed_anew_but_not_changed() {
    let mut line = connection(&["GET", "GET"], Transport::Relay);
    answered(&mut line, 0);
    let head = "HTTP/1.1 200 OK\r\nServer: x\r\nX-Id: 0\r\nTransfer-Encoding: chunked\r\n\r\n";
    let stream = |body: &str| [head, body].concat().into_bytes();
    assert_eq!(line.progress(&stream("3\r\nbod\r\n3\r\ny 0\r\n0\r\n\r\n")).unwrap().answered, 1);
    assert!(line.progress(&stream("3\r\nbod\r\n3\r\ny 1\r\n0\r\n\r\n")).is_err());
    assert!(line.progress(&stream("3\r\nbod\r\n0\r\n\r\n")).is_err(), "the last chunk, before the end");
    assert!(line.progress(&stream("3\r\nbod\r\n")).unwrap().partly);
    assert!(line.progress(b"HTTP/1.1 404 OK\r\nX-Id: 0\r\nContent-Length: 6\r\n\r\nbody 0").is_err());
    assert!(line.progress(b"HTTP/1.1 200 OK\r\nX-Id: 0\r\nContent-Length: 5\r\n\r\nbody ").is_err());
}

#[test]
fn a_whole_response_may_be_taken_along_only_by_one_that_is_cut() {
    let mut line = connection(&["GET", "GET"], Transport::Direct);
    let stream = answered(&mut line, 0);
    let part = &stream[..stream.len() - 1];
    assert!(line.ended(part, true).unwrap_err().contains("its response ended"));
    answered(&mut line, 1);
    assert!(line.ended(part, true).unwrap_err().contains("its response ended"));
    end(&mut line, 1, Fate::Broken, 5);
    line.ended(part, true).unwrap();
}

#[test]
fn a_server_that_stops_ends_a_connection_only_between_two_responses() {
    let mut line = connection(&["GET", "GET"], Transport::Direct);
    let first = answered(&mut line, 0);
    assert!(line.ended(&first, true).is_err(), "the second request was lost");
    line.may_close = true;
    line.ended(&first, true).unwrap();
    line.deliver(1).unwrap();
    assert!(line.ended(&first, true).is_err(), "the second request is under way");
}
