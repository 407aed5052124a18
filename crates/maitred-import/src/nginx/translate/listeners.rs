//! Addresses with the servers behind them. nginx chooses a server by the address that a connection has come in by, and then by
//! name: a site here names the addresses at which it answers, and is not there at others.

use super::listens::{Listen, Server};
use crate::nginx::tree::Directive;

/// An address, or the two of IPv4 and IPv6 with one port.
pub(crate) struct Listener<'s, 'a> {
    /// As `address` takes it.
    pub(crate) address: String,
    /// The first directive that names it.
    pub(crate) listen: &'s Listen<'a>,
    /// The servers of the address, in their order.
    pub(crate) servers: Vec<&'s Server<'a>>,
    /// The one that takes what no other one names.
    pub(crate) default: &'s Server<'a>,
    /// Whether it has TLS.
    pub(crate) tls: bool,
    /// Whether connections begin with a PROXY header.
    pub(crate) proxy: bool,
    /// Whether there is HTTP/3 at its address, too.
    pub(crate) http3: bool,
    /// Its servers do no more than to redirect to https, which is at another address.
    pub(crate) redirects: bool,
}

impl Listener<'_, '_> {
    /// The status with which all of its servers redirect.
    pub(crate) fn redirect_status(&self) -> Option<u16> {
        let mut all = self.servers.iter().map(|server| redirect_status(server.directive.inside()));
        let first = all.next()??;
        all.all(|other| other == Some(first)).then_some(first)
    }
}

/// The status of the redirects in these blocks, if it is always the same.
fn redirect_status(directives: &[Directive]) -> Option<u16> {
    fn gather(directives: &[Directive], found: &mut Vec<u16>) {
        for directive in directives {
            match (directive.name.as_str(), directive.arg(2)) {
                ("return", _) => {
                    found.extend(directive.arg(0).parse::<u16>().ok().filter(|code| *code < 400))
                }
                ("rewrite", "permanent") => found.push(301),
                ("rewrite", _) => found.push(302),
                _ => {}
            }
            gather(directive.inside(), found);
        }
    }
    let mut found = Vec::new();
    gather(directives, &mut found);
    found.dedup();
    found.first().copied().filter(|_| found.len() == 1)
}

/// All addresses, in the order in which they are named.
pub(crate) fn of<'s, 'a>(servers: &'s [Server<'a>]) -> Vec<Listener<'s, 'a>> {
    let mut all: Vec<Listener<'s, 'a>> = Vec::new();
    for listen in servers.iter().flat_map(|server| &server.listens) {
        if all.iter().any(|known| known.address == listen.address) {
            continue;
        }
        let here = |server: &&Server<'_>| server.listens.iter().any(|other| other.address == listen.address);
        let own: Vec<&Server<'_>> = servers.iter().filter(here).collect();
        let marked = |server: &&&Server<'_>| {
            server.listens.iter().any(|other| other.address == listen.address && other.default)
        };
        let Some(default) = own.iter().find(marked).or(own.first()).copied() else { continue };
        let any = |is: fn(&Listen<'_>) -> bool| {
            let of = own.iter().flat_map(|server| &server.listens);
            of.filter(|other| other.address == listen.address).any(is)
        };
        let (tls, proxy, http3) = (any(|one| one.tls), any(|one| one.proxy), any(|one| one.http3));
        let address = listen.address.clone();
        let redirects = false;
        all.push(Listener { address, listen, servers: own, default, tls, proxy, http3, redirects });
    }
    let mut all = joined(all);
    if all.iter().any(|listener| listener.tls) {
        for listener in all.iter_mut().filter(|listener| !listener.tls) {
            let status = listener.redirect_status();
            listener.redirects = status.is_some() && listener.servers.iter().all(|server| server.redirects);
        }
    }
    all
}

/// An address of IPv6 takes the clients of IPv4 as well, where the same servers are behind both.
fn joined<'s, 'a>(mut all: Vec<Listener<'s, 'a>>) -> Vec<Listener<'s, 'a>> {
    let mut at = 0;
    while let Some(v4) = all.get(at) {
        let same = |v6: &Listener<'_, '_>| {
            let addresses = |one: &'_ Listener<'_, '_>| -> Vec<*const ()> {
                one.servers.iter().map(|server| std::ptr::from_ref(*server).cast()).collect()
            };
            v4.address.starts_with(':')
                && v6.address == format!("[::]{}", v4.address)
                && addresses(v6) == addresses(v4)
                && std::ptr::eq(
                    std::ptr::from_ref(v6.default).cast::<()>(),
                    std::ptr::from_ref(v4.default).cast(),
                )
                && (v6.tls, v6.proxy) == (v4.tls, v4.proxy)
        };
        match all.iter().position(same) {
            Some(other) => {
                let http3 = v4.http3;
                if let Some(v6) = all.get_mut(other) {
                    v6.http3 |= http3;
                }
                all.remove(at);
            }
            None => at += 1,
        }
    }
    all
}
