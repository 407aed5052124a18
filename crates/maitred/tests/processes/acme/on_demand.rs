//! Certificates for names that stand in no file, when a client asks for one and the operator's service allows it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;

use crate::acme::pebble::{Manners, Pebble};
use crate::acme::tls::{get, with_tls};
use crate::support::{Server, Setup, eventually};

/// The operator's service: names that begin with `no` are refused.
struct Service {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Service {
    fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let notes = Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut line = String::new();
                let _ = BufReader::new(&stream).read_line(&mut line);
                let name = line.split_once("/allowed?domain=").and_then(|(_, rest)| rest.split(' ').next());
                let name = name.unwrap_or_default().to_owned();
                let status = if name.starts_with("no") { "403 Forbidden" } else { "200 OK" };
                notes.lock().unwrap().push(name);
                let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
        Service { address, asked }
    }

    /// How often it was asked about a name.
    fn count(&self, name: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| *asked == name).count()
    }

    fn lines(&self, more: &str) -> String {
        format!("on_demand = {{ ask = \"http://{}/allowed\"{more} }}", self.address)
    }
}

fn setup(pebble: &Pebble, service: &Service, more: &str) -> Setup {
    let site = "hosts = [\"*.a.example\"]\nacme = \"on-demand\"";
    with_tls(pebble, pebble.setup_site(site, &pebble.acme(&service.lines(more))))
}

/// Waits until a name has its certificate.
#[track_caller]
fn served(pebble: &Pebble, name: &'static str) {
    let root = pebble.root();
    eventually("the name has a certificate", || get(pebble, name, &root).is_ok());
}

fn said(server: &Server, name: &str, text: &str) {
    server.wait_for_line(|line| line.contains(&format!("name={name}")) && line.contains(text));
}

#[test]
fn a_name_that_a_client_asks_for_gets_a_certificate_if_the_service_allows_it() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let service = Service::start();
    let server = setup(&pebble, &service, "").start();
    let root = pebble.root();
    // The first client, and another one meanwhile, wait for the certificate.
    let responses = std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| get(&pebble, "x.a.example", &root)));
        both.map(|one| one.join().unwrap().unwrap())
    });
    for response in responses {
        assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("file a\n"), "{response}");
    }
    assert_eq!(service.count("x.a.example"), 1);
    assert_eq!(server.total("tls_failures"), 0);
    assert!(get(&pebble, "no.a.example", &root).unwrap_err().contains("alert"));
    said(&server, "no.a.example", "the service refuses it");
    // Another name is through after it, and a refused one is remembered.
    for _ in 0..3 {
        assert!(get(&pebble, "no.a.example", &root).is_err());
        // A name of no site.
        assert!(get(&pebble, "x.b.example", &root).is_err());
    }
    served(&pebble, "y.x.a.example");
    assert_eq!((service.count("no.a.example"), service.count("x.b.example")), (1, 0));
    // What is there is used from the first handshake on, without a question.
    let server = server.terminate(Signal::TERM).setup.start();
    assert!(get(&pebble, "x.a.example", &root).is_ok());
    server.wait_for_line(|line| line.contains("the authority says when to renew"));
    assert_eq!(service.count("x.a.example"), 1);
    server.terminate(Signal::TERM);
}

#[test]
fn orders_on_demand_have_a_rate_and_names_a_number() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let service = Service::start();
    let root = pebble.root();
    for (more, why) in [
        (", orders_per_minute_max = 1", "`orders_per_minute_max` is reached"),
        (", names_max = 1", "`names_max` of on_demand is reached"),
    ] {
        let server = setup(&pebble, &service, more).start();
        served(&pebble, "x.a.example");
        assert!(get(&pebble, "y.a.example", &root).is_err());
        said(&server, "y.a.example", why);
        assert_eq!(pebble.certificate("y.a.example"), None);
        server.terminate(Signal::TERM);
        std::fs::remove_dir_all(pebble.path("state")).unwrap();
    }
}

#[test]
fn a_service_that_does_not_answer_allows_nothing() {
    let Some(pebble) = Pebble::start(Manners::default()) else { return };
    let mut service = Service::start();
    let nothing = TcpListener::bind("127.0.0.1:0").unwrap();
    service.address = nothing.local_addr().unwrap();
    drop(nothing);
    let server = setup(&pebble, &service, "").start();
    assert!(get(&pebble, "x.a.example", &pebble.root()).is_err());
    said(&server, "x.a.example", "the service cannot be asked");
    assert_eq!(pebble.certificate("x.a.example"), None);
    server.terminate(Signal::TERM);
}
