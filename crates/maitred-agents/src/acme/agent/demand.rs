//! The agent's part of certificates on demand: which names become sites of the schedule, and what the master gets to know of it.

use std::collections::BTreeSet;
use std::time::Instant;

use super::{Agent, Done};
use crate::acme::messages::{FromAgent, Site, Start};
use crate::acme::on_demand::{self, ASKS_MAX, ASKS_PER_MINUTE, Bucket};
use crate::acme::order::Trouble;
use maitred_base::pki::files;
use maitred_config::Acme;

/// What is under way about names on demand.
pub(super) struct Demand {
    asks: Bucket,
    orders: Bucket,
    /// The names that the service is asked about.
    asking: BTreeSet<String>,
    /// The names whose order a client waits for.
    ordering: BTreeSet<String>,
}

impl Demand {
    pub(super) fn new(acme: &Acme, now: Instant) -> Demand {
        let orders = acme.on_demand.as_ref().map_or(0, |on_demand| on_demand.orders_per_minute_max);
        let (asks, orders) = (Bucket::new(ASKS_PER_MINUTE, now), Bucket::new(orders, now));
        Demand { asks, orders, asking: BTreeSet::new(), ordering: BTreeSet::new() }
    }
}

/// The sites of the configuration, and the names on demand that have certificates already.
pub(super) fn sites(start: &Start) -> Vec<Site> {
    let mut sites = start.sites.clone();
    let Some(on_demand) = &start.acme.on_demand else { return sites };
    let names = files::automatic_names(&start.state).into_iter();
    let names = names.filter(|name| on_demand::covers(&start.on_demand, name));
    let others: Vec<String> =
        names.filter(|name| start.sites.iter().all(|site| site.name() != name)).collect();
    let most = on_demand.names_max as usize;
    sites.extend(others.into_iter().take(most).map(|name| Site { names: vec![name], on_demand: true }));
    sites
}

/// Whether the service still allows a name.
pub(super) async fn allowed(url: &str, name: &str) -> Result<(), Trouble> {
    match on_demand::ask(url, name).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Trouble::refused(format!("{url} refuses {name}"))),
        Err(why) => Err(Trouble::unreachable(why)),
    }
}

impl Agent {
    /// A client has asked for a name.
    pub(super) fn wanted(&mut self, name: String) {
        let Some(on_demand) = self.start.acme.on_demand.clone() else { return self.later(name) };
        if !on_demand::covers(&self.start.on_demand, &name) {
            return self.link.say(FromAgent::NameRefused(name));
        }
        if let Some(index) = self.sites.iter().position(|site| site.names.contains(&name)) {
            let there = self.known.get(index).is_some_and(|known| known.facts.is_some());
            return match (there, self.demand.ordering.contains(&name)) {
                (true, _) => self.link.say(FromAgent::Certificate(name)),
                (false, true) => {}
                // The order has failed; it is tried again in its time.
                (false, false) => self.later(name),
            };
        }
        let count = self.sites.iter().filter(|site| site.on_demand).count();
        if count >= on_demand.names_max as usize {
            tracing::warn!(name, "no certificate on demand: `names_max` of on_demand is reached");
            return self.later(name);
        }
        let now = Instant::now();
        if self.demand.asking.len() >= ASKS_MAX || !self.demand.asks.take(now) {
            return self.later(name);
        }
        self.demand.asking.insert(name.clone());
        let done = self.done.clone();
        tokio::spawn(async move {
            let outcome = on_demand::ask(&on_demand.ask, &name).await;
            let _ = done.send(Done::Asked(name, outcome));
        });
    }

    /// The service has answered.
    pub(super) fn asked(&mut self, name: String, outcome: Result<bool, String>) {
        self.demand.asking.remove(&name);
        match outcome {
            Ok(false) => {
                tracing::info!(name, "no certificate on demand: the service refuses it");
                self.link.say(FromAgent::NameRefused(name));
            }
            Err(why) => {
                tracing::error!(name, "no certificate on demand: the service cannot be asked: {why}");
                self.later(name);
            }
            Ok(true) if !self.demand.orders.take(Instant::now()) => {
                tracing::warn!(name, "no certificate on demand yet: `orders_per_minute_max` is reached");
                self.later(name);
            }
            Ok(true) => {
                let index = self.sites.len();
                self.demand.ordering.insert(name.clone());
                self.sites.push(Site { names: vec![name], on_demand: true });
                self.look(index);
            }
        }
    }

    /// The order of a site has ended: if a client has asked for it, the master gets to know how.
    pub(super) fn settle(&mut self, index: usize) {
        let name = self.name(index);
        let there = self.known.get(index).is_some_and(|known| known.facts.is_some());
        if self.demand.ordering.remove(&name) && !there {
            self.later(name);
        }
    }

    fn later(&self, name: String) {
        self.link.say(FromAgent::NameLater(name));
    }
}
