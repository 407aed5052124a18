//! The relations.

use std::collections::HashMap;
use std::fmt;

use crate::ask::{ARRIVALS, Answer, Arrival, Ask};
use crate::case::Case;
use crate::echo::ordered;
use crate::identity::Who;
use crate::parts;
use crate::pending::is_pending;
use crate::pools::Kind;
use crate::requests::{FORGED, OF_GATES, Step, spell};
use crate::seen::{Seen, difference};
use crate::site::Guise;
use crate::told;

/// What does not hold.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// The relation, in a few words that stay the same while a failure shrinks.
    pub(crate) relation: &'static str,
    pub(crate) said: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.relation, self.said)
    }
}

pub(crate) type Judged = Result<(), Fault>;

pub(crate) fn fault(relation: &'static str, said: String) -> Judged {
    if is_pending(relation) { Ok(()) } else { Err(Fault { relation, said }) }
}

/// Where answers come from: the server, or what was recorded of it.
pub(crate) trait Source {
    fn ask(&mut self, by: Arrival, guise: Guise, host: &str, ask: &Ask, target: &str) -> Answer;
}

/// The judge of one case.
pub(crate) struct Judge<'j> {
    pub(crate) source: &'j mut dyn Source,
    pub(crate) case: &'j Case,
    /// The number of the request that was made last.
    pub(crate) number: u64,
}

/// So many ways in are tried beside the first: over the seeds, each comes beside each.
const OTHERS_MAX: usize = 3;

/// So many requests a step may make at most.
pub(crate) const REQUESTS_MAX: u64 = 100;

/// An answer, and who was asked for it.
pub(crate) struct Got {
    pub(crate) answer: Answer,
    pub(crate) by: Arrival,
    host: String,
    pub(crate) number: u64,
}

impl Got {
    fn seen(&self) -> Seen {
        Seen::new(&self.answer, &self.host, self.number)
    }

    /// What a response to HEAD has in common with that to GET: an application counts what it would have sent.
    fn without_content(&self) -> Seen {
        let mut seen = self.plain();
        seen.body = String::new();
        seen
    }

    pub(crate) fn plain(&self) -> Seen {
        Seen::new(&self.answer.decoded(), &self.host, self.number).plain()
    }
}

impl Judge<'_> {
    pub(crate) fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub(crate) fn step(&mut self, step: &Step) -> Judged {
        match step {
            Step::Alike(ask) => self.alike(ask),
            Step::Spelled(ask, number) => self.spelled(ask, *number),
            Step::Forged(ask, number) => self.forged(ask, *number),
            Step::Coded(ask) => self.coded(ask),
            Step::Shared(asks) => self.shared(asks),
            Step::Ranged(ask, number) => parts::judge(self, ask, *number),
        }
    }

    /// The arrivals that a request has to get the same answer by, in an order by the seed.
    pub(crate) fn arrivals(&self, ask: &Ask) -> Vec<Arrival> {
        let site = &self.case.site;
        let is_named = ask.certificate != Who::None;
        let mut found: Vec<_> = ARRIVALS
            .into_iter()
            .filter(|by| site.answers_at(by.listener()) && (by.is_secure() || !is_named))
            .collect();
        if site.tells_arrivals_apart() && !found.is_empty() {
            let listener = found[self.case.seed as usize % found.len()].listener();
            found.retain(|by| by.listener() == listener);
        }
        let turn = self.case.seed as usize / 8 % found.len().max(1);
        found.rotate_left(turn);
        found
    }

    fn get(&mut self, by: Arrival, guise: Guise, ask: &Ask) -> Got {
        let number = self.next();
        self.get_as(by, guise, ask, number, &ask.target(number))
    }

    pub(crate) fn get_as(&mut self, by: Arrival, guise: Guise, ask: &Ask, number: u64, target: &str) -> Got {
        let host = self.case.host(guise);
        Got { answer: self.source.ask(by, guise, &host, ask, target), by, host, number }
    }

    fn alike(&mut self, ask: &Ask) -> Judged {
        let [base, turned, plain] = self.case.guises;
        self.elsewhere(ask)?;
        let arrivals = self.arrivals(ask);
        let [first, rest @ ..] = &arrivals[..] else { return Ok(()) };
        let first = self.get(*first, base, ask);
        self.shown(ask, &first)?;
        told::judge(&self.case.site, ask, &first)?;
        // Over TLS, responses with a cookie are never compressed (`cookies_over_tls`), and so do not vary.
        let has_cookie = first.answer.field("set-cookie").is_some();
        let seen = |got: &Got| if has_cookie { got.plain() } else { got.seen() };
        for by in rest.iter().take(OTHERS_MAX) {
            let other = self.get(*by, base, ask);
            told::judge(&self.case.site, ask, &other)?;
            same("arrival", ask, (&first, &seen(&first)), (&other, &seen(&other)))?;
        }
        let by = arrivals[self.case.seed as usize % arrivals.len()];
        let other = self.get(by, turned, ask);
        if is_told_as_sent(turned, ask) {
            told::as_sent(ask, &other)?;
        } else {
            same("kind of pool", ask, (&first, &seen(&first)), (&other, &seen(&other)))?;
            told::judge(&self.case.site, ask, &other)?;
        }
        if ask.method == "GET" {
            let head = Ask { method: "HEAD", ..ask.clone() };
            let other = self.get(by, base, &head);
            same(
                "HEAD as GET",
                &head,
                (&first, &first.without_content()),
                (&other, &other.without_content()),
            )?;
        }
        let other = self.get(by, plain, ask);
        same("cache or compression", ask, (&first, &first.plain()), (&other, &other.plain()))
    }

    /// At a listener that is not its own, a site does not exist: its name is one that nothing has.
    fn elsewhere(&mut self, ask: &Ask) -> Judged {
        let [base, ..] = self.case.guises;
        let others: Vec<_> =
            ARRIVALS.into_iter().filter(|by| !self.case.site.answers_at(by.listener())).collect();
        let Some(by) = others.get(self.case.seed as usize % others.len().max(1)) else { return Ok(()) };
        let got = self.get(*by, base, ask);
        let relation = "a site at the listener of others";
        if by.is_secure() {
            let said = || format!("{ask}\nby {by:?}, where 421 was to come\n{}", got.answer);
            return if got.answer.status == 421 { Ok(()) } else { fault(relation, said()) };
        }
        let number = self.next();
        let host = "nothing.test".to_owned();
        let answer = self.source.ask(*by, base, &host, ask, &ask.target(number));
        let other = Got { answer, by: *by, host, number };
        same(relation, ask, (&got, &got.seen()), (&other, &other.seen()))
    }

    /// What a gate was shown is what the application got.
    fn shown(&mut self, ask: &Ask, got: &Got) -> Judged {
        let rewriting = ["rewrite", "strip_prefix", "query", "reroute"];
        let pairs =
            [("x-guard-uri: ", "target "), ("x-guard-method: ", "method "), ("x-guard-host: ", "host ")];
        for (shown, given) in pairs {
            if given == "target " && rewriting.iter().any(|key| self.case.site.has(key)) {
                continue;
            }
            let (Some(shown), Some(given)) = (got.answer.line(shown), got.answer.line(given)) else {
                continue;
            };
            if ordered(shown) != ordered(given) {
                return fault(
                    "what a gate was shown",
                    format!("{ask}\nit was {shown:?}, and the application got {given:?}"),
                );
            }
        }
        Ok(())
    }

    fn spelled(&mut self, ask: &Ask, number: usize) -> Judged {
        let [base, ..] = self.case.guises;
        let arrivals = self.arrivals(ask);
        if arrivals.is_empty() {
            return Ok(());
        }
        let by = arrivals[number % arrivals.len()];
        let first = self.get(by, base, ask);
        let mut other = ask.clone();
        let slashes = !self.case.site.has("encoded_slashes");
        other.path = spell(&ask.path, number / 3, slashes);
        let at = self.next();
        let mut target = other.target(at);
        if matches!(by, Arrival::Http1 | Arrival::Inner) && number.is_multiple_of(5) {
            target = format!("http://{}{target}", self.case.host(base));
        }
        let other = self.get_as(by, base, ask, at, &target);
        let relation = "spelling";
        same(relation, ask, (&first, &first.seen()), (&other, &other.seen())).map_err(|mut fault| {
            fault.said = format!("as {target}: {}", fault.said);
            fault
        })
    }

    fn forged(&mut self, ask: &Ask, number: usize) -> Judged {
        let [base, ..] = self.case.guises;
        let arrivals = self.arrivals(ask);
        if arrivals.is_empty() {
            return Ok(());
        }
        let by = arrivals[number % arrivals.len()];
        let of_gates = OF_GATES.iter().filter(|(copied, _)| self.case.site.says(copied));
        let of_gates: Vec<_> = of_gates.map(|(_, name)| (*name, "forged")).collect();
        let (name, value) = match of_gates[..] {
            [_, ..] if number.is_multiple_of(4) => of_gates[number / 12 % of_gates.len()],
            _ => FORGED[number / 3 % FORGED.len()],
        };
        let first = self.get(by, base, ask);
        let other = self.get(by, base, &ask.with(&[(name, value.to_owned())]));
        let scheme = |got: &Got| got.answer.field("x-told-scheme").map(str::to_owned);
        let relation = "forged field";
        if scheme(&first) != scheme(&other) {
            return fault(
                relation,
                format!("{ask}\n{name}: {value}: {:?} and {:?}", scheme(&first), scheme(&other)),
            );
        }
        same(relation, ask, (&first, &first.seen()), (&other, &other.seen())).map_err(|mut fault| {
            fault.said = format!("{name}: {value}: {}", fault.said);
            fault
        })
    }

    /// A server that has too much to do sends a response as it is (`compress_encoders_max`): what differs for another reason does
    /// so again.
    fn coded(&mut self, ask: &Ask) -> Judged {
        for _ in 0..3 {
            match self.coded_once(ask) {
                Err(fault) if fault.relation == "coding by arrival" => {}
                judged => return judged,
            }
        }
        self.coded_once(ask)
    }

    fn coded_once(&mut self, ask: &Ask) -> Judged {
        let [base, turned, plain] = self.case.guises;
        let codings = ["gzip", "zstd", "br", "gzip, zstd;q=0.5, br;q=0.1"];
        let coding = codings[self.case.seed as usize % codings.len()];
        let coded = ask.with(&[("accept-encoding", coding.to_owned())]);
        let is_base = self.case.seed.is_multiple_of(8) || is_told_as_sent(turned, ask);
        let guise = if is_base { base } else { turned };
        let mut answers = Vec::new();
        let arrivals = self.arrivals(&coded);
        for by in arrivals.into_iter().take(OTHERS_MAX) {
            let got = self.get(by, guise, &coded);
            // An application may see the field, and what it says of it is another text.
            let other = self.get(by, plain, &coded);
            same("coding", &coded, (&got, &got.plain()), (&other, &other.plain()))?;
            answers.push(got);
        }
        let [first, rest @ ..] = &answers[..] else { return Ok(()) };
        for other in rest {
            let seen = |got: &Got| got.plain().without("etag");
            same("arrival of coded", &coded, (first, &seen(first)), (other, &seen(other)))?;
            let coding = |got: &Got| got.answer.field("content-encoding").map(str::to_owned);
            // Over TLS, responses with a cookie stay as they are (`cookies_over_tls`).
            let has_cookie = first.answer.field("set-cookie").is_some();
            if coding(first) != coding(other) && !has_cookie {
                return fault("coding by arrival", format!("{coded}\n{}{}", first.answer, other.answer));
            }
        }
        Ok(())
    }

    /// The sequence for one URL: each answer is one that this client may get.
    fn shared(&mut self, asks: &[(Arrival, Ask)]) -> Judged {
        let [base, _, plain] = self.case.guises;
        let number = self.next();
        let mut made: HashMap<String, (Ask, Got)> = HashMap::new();
        for (by, ask) in asks {
            let target = ask.target(number);
            if !self.case.site.answers_at(by.listener()) {
                continue;
            }
            let got = self.get_as(*by, base, ask, number, &target);
            let other = self.get_as(*by, plain, ask, number, &target);
            let Some(told) = got.answer.field("x-number") else {
                // Nothing of an application's: it has to be the same as without a cache.
                same("cache, own answer", ask, (&got, &got.plain()), (&other, &other.plain()))?;
                continue;
            };
            match made.get(told) {
                Some((asked, first)) => {
                    let own = self.case.site.says("key_identity");
                    reused((asked, first), ask, (&got, &other), own)?;
                    known_apart(first, &other, ask)?;
                }
                None => {
                    same("cache, new answer", ask, (&got, &got.plain()), (&other, &other.plain()))?;
                    if ask.method == "GET" {
                        made.insert(told.to_owned(), (ask.clone(), got));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether an application gets another target than others do: a front controller gets it as it was sent, others as it was judged.
fn is_told_as_sent(guise: Guise, ask: &Ask) -> bool {
    guise.kind == Kind::Controller && ask.path.contains(['%', '+', ';'])
}

/// Whether a kept answer may be given: by what it says itself (RFC 9111 section 3), and never from another pool or user. `own`:
/// clients may have responses of their own.
fn reused((asked, first): (&Ask, &Got), ask: &Ask, (got, plain): (&Got, &Got), own: bool) -> Judged {
    let why = |what: &str| {
        format!(
            "{what}\nfirst for {asked}\n{}then for {ask}\n{}without a cache\n{}",
            first.answer, got.answer, plain.answer
        )
    };
    // Without a cache it would not have come from an application at all: a gate, or another route.
    if plain.answer.field("x-number").is_none() {
        return fault("kept for another route", why("the application was not to be asked"));
    }
    if got.answer.status != plain.answer.status {
        return fault("kept, another status", why("another status"));
    }
    let line =
        |got: &Got, begin: &str| got.answer.decoded().line(begin).map(|text| text.replace(&got.host, "HOST"));
    let told = |got: &Got, name: &str| got.answer.field(name).map(|text| text.replace(&got.host, "HOST"));
    for (name, relation) in
        [("x-told-pool", "kept from another pool"), ("x-told-target", "kept for another target")]
    {
        if told(first, name) != told(plain, name) {
            return fault(relation, why(name));
        }
    }
    let target = told(first, "x-told-target").unwrap_or_default();
    let said = |name: &str| {
        let query = target.split_once('?').map_or("", |(_, query)| query);
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).unwrap_or("").to_owned()
    };
    let control = said("cc");
    let has = |directive: &str| control.split('_').any(|part| part.split('~').next() == Some(directive));
    if has("no-store")
        || has("private")
        || !(has("max-age") || has("s-maxage"))
        || control.contains("max-age~0")
    {
        return fault("kept what may not be kept", why(&control));
    }
    if !said("cookie").is_empty() {
        return fault("kept with a cookie", why("Set-Cookie"));
    }
    let of = |ask: &Ask, name: &str| {
        ask.fields.iter().find(|(found, _)| *found == name).map(|(_, value)| value.clone())
    };
    let is_open = has("public") || has("s-maxage") || has("must-revalidate");
    let is_own = own && of(asked, "authorization") == of(ask, "authorization");
    if of(asked, "authorization").is_some() && !is_open && !is_own {
        return fault("kept for credentials", why("Authorization"));
    }
    let users = ["x-remote-user: ", "x-guard-user: ", "x-user: ", "x-ssl-client-s-dn: "];
    let user = |got: &Got| users.map(|name| line(got, name));
    if user(first).iter().any(Option::is_some)
        && ask.method == "GET"
        && user(first) != user(plain)
        && !is_open
    {
        return fault("kept for another user", why("the user"));
    }
    for name in said("vary").split('_').filter(|name| !name.is_empty()) {
        if of(asked, name) != of(ask, name) {
            return fault("kept for another variant", why(name));
        }
    }
    Ok(())
}

/// Who is known, by a gate or a certificate, gets what was made for one who is; who is not, never that.
fn known_apart(first: &Got, plain: &Got, ask: &Ask) -> Judged {
    let is_known = |got: &Got| {
        let names = ["x-remote-user: ", "x-guard-user: ", "x-user: ", "x-ssl-client-verify: "];
        names.iter().any(|name| got.answer.decoded().line(name).is_some())
    };
    let is_told = |got: &Got| got.answer.decoded().line("method ").is_some();
    if !is_told(first) || !is_told(plain) || is_known(first) == is_known(plain) {
        return Ok(());
    }
    let said = format!("first\n{}then for {ask}\nwithout a cache\n{}", first.answer, plain.answer);
    fault("kept for one who is known, or not", said)
}

pub(crate) fn same(relation: &'static str, ask: &Ask, one: (&Got, &Seen), other: (&Got, &Seen)) -> Judged {
    let ((got, seen), (other, seen_other)) = (one, other);
    match difference(seen, seen_other) {
        None => Ok(()),
        Some(what) => {
            let is_server =
                difference(&seen.clone().without("server"), &seen_other.clone().without("server")).is_none();
            let relation = if is_server { "the field Server" } else { relation };
            let (host, other_host) = (&got.host, &other.host);
            fault(
                relation,
                format!("{ask}\n{what}\nfrom {host}\n{}from {other_host}\n{}", got.answer, other.answer),
            )
        }
    }
}
