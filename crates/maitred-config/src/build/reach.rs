//! Which requests routes can get, by what is known without them: patterns of paths, methods, and where a site answers.

use super::super::arrivals::Listeners;
use super::super::conditions::{ArrivalCondition, ConditionSet, Conditions};
use super::super::finding::{Context, Span};
use super::super::listen::Listen;
use super::super::reader::Section;

/// What a listener says of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    Never,
    Sometimes,
    Always,
}

impl Holds {
    fn of(always: bool) -> Holds {
        if always { Holds::Always } else { Holds::Never }
    }
}

/// The listeners of a site: their indexes among all.
fn of_site<'l>(
    known: &'l Listeners,
    listens: Option<&'l [u16]>,
) -> impl Iterator<Item = (u16, &'l Listen)> + Clone {
    (0..).zip(&known.all).filter(move |(index, _)| listens.is_none_or(|listens| listens.contains(index)))
}

/// Whether the condition holds for connections of a listener.
fn at(condition: &ArrivalCondition, (index, listen): (u16, &Listen)) -> Holds {
    let listener = condition.listeners.as_ref().map(|listeners| Holds::of(listeners.contains(&index)));
    let port = condition.port.map(|port| match listen.address.port() {
        // The kernel chooses it.
        Some(0) => Holds::Sometimes,
        own => Holds::of(own == Some(port)),
    });
    let tls = condition.tls.map(|tls| Holds::of(tls == listen.tls.is_some()));
    let certificate = condition.certificate.map(|wanted| {
        match (listen.may_have_certificate(), listen.always_has_certificate()) {
            (_, true) => Holds::of(wanted),
            (true, false) => Holds::Sometimes,
            (false, _) => Holds::of(!wanted),
        }
    });
    [listener, port, tls, certificate].into_iter().flatten().min().unwrap_or(Holds::Always)
}

/// Whether everything that meets the later conditions meets the earlier ones, at the listeners of the site. May miss some; is
/// never wrong when it says yes.
pub(super) fn includes(
    cx: &Context<'_>,
    listens: Option<&[u16]>,
    (earlier, later): (&Conditions, &Conditions),
) -> bool {
    if earlier.is_empty() {
        return true;
    }
    if earlier.any != later.any && !earlier.any.is_empty()
        || earlier.not != later.not && !earlier.not.is_empty()
    {
        return false;
    }
    let without = |set: &ConditionSet| ConditionSet { arrival: ArrivalCondition::default(), ..set.clone() };
    let others = without(&earlier.all);
    if others != ConditionSet::default() && others != without(&later.all) {
        return false;
    }
    let known = cx.listeners.borrow();
    earlier.all.arrival == later.all.arrival
        || of_site(&known, listens).all(|listener| {
            at(&later.all.arrival, listener) == Holds::Never
                || at(&earlier.all.arrival, listener) == Holds::Always
        })
}

/// Reports conditions that no connection to the listeners of the site can meet.
pub(super) fn check(route: &Section<'_>, listens: Option<&[u16]>, conditions: &Conditions) {
    if route.given("match").is_none() {
        return;
    }
    let section = route.section("match");
    let all = &conditions.all.arrival;
    check_set(&section, listens, &[all]);
    for (table, set) in section.sections("any").iter().zip(&conditions.any) {
        check_set(table, listens, &[all, &set.arrival]);
    }
}

fn check_set(section: &Section<'_>, listens: Option<&[u16]>, together: &[&ArrivalCondition]) {
    let Some(own) = together.last().filter(|own| !own.is_empty()) else { return };
    let known = section.cx.listeners.borrow();
    let mut here = of_site(&known, listens);
    // What is wrong with listeners was said there.
    let unknown = own.listeners.as_ref().is_some_and(Vec::is_empty) || here.clone().next().is_none();
    let can = |listener| together.iter().all(|condition| at(condition, listener) != Holds::Never);
    if unknown || here.any(can) {
        return;
    }
    let keys = ["listener", "local_port", "tls", "client_certificate"];
    let given: Vec<(&str, Span)> =
        keys.into_iter().filter_map(|key| Some((key, section.given(key)?))).collect();
    let Some((_, span)) = given.first() else { return };
    let names: Vec<String> = given.iter().map(|(key, _)| format!("`{key}`")).collect();
    let hint = match own.certificate {
        Some(true) if !of_site(&known, listens).any(|(_, listen)| listen.may_have_certificate()) => {
            "clients show certificates where `tls` of the [[listen]] has `client_auth`"
        }
        _ => "a route gets what comes in by the listeners of its site (`listen`)",
    };
    section.cx.error_with(
        span,
        format!(
            "no request reaches this route: no listener of its site has {} as it stands here",
            names.join(" and ")
        ),
        hint,
    );
}
