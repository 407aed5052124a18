//! What records mean, within bounds. Pure.

use std::net::IpAddr;

use maitred_base::bounds::SERVERS_MAX;
use maitred_config::Found;
use maitred_control::servers::ServerEntry;

/// Targets of a name's SRV records that are looked at; each takes questions of its own.
pub(crate) const TARGETS_MAX: usize = 64;

/// A record of type SRV (RFC 2782).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Srv {
    /// The lowest are asked first.
    pub priority: u16,
    /// The share among those of one priority.
    pub weight: u16,
    /// Where it listens.
    pub port: u16,
    /// The target's name, without a dot at its end.
    pub target: String,
}

/// What addresses of a name are, in an order that does not depend on that of the answer; and whether some were left out.
pub(crate) fn of_addresses(addresses: impl IntoIterator<Item = IpAddr>) -> (Vec<Found>, bool) {
    let found = addresses.into_iter();
    bounded(found.map(|ip| Found { ip, port: 0, target: String::new(), weight: 1, backup: false }).collect())
}

/// The records to look at, the best first; none where the service is said not to be there (a target of `.`).
pub(crate) fn targets(mut records: Vec<Srv>) -> Vec<Srv> {
    records.retain(|record| !record.target.is_empty() && record.port != 0);
    records.sort();
    records.dedup();
    records.truncate(TARGETS_MAX);
    records
}

/// What these records mean, with the addresses of each target. Targets of the lowest priority get requests, the others are
/// backups.
pub(crate) fn of_targets(targets: &[(Srv, Vec<IpAddr>)]) -> (Vec<Found>, bool) {
    let resolved = || targets.iter().filter(|(_, addresses)| !addresses.is_empty());
    let best = resolved().map(|(record, _)| record.priority).min();
    let heaviest = targets.iter().map(|(record, _)| record.weight).max().unwrap_or(0);
    let found = resolved().flat_map(|(record, addresses)| {
        addresses.iter().map(|ip| Found {
            ip: *ip,
            port: record.port,
            target: record.target.clone(),
            weight: weight(record.weight, heaviest),
            backup: Some(record.priority) != best,
        })
    });
    bounded(found.collect())
}

/// A weight of 0 is "a very small chance" (RFC 2782). Weights that are too great are scaled down together.
fn weight(weight: u16, heaviest: u16) -> u16 {
    let most = u32::from(ServerEntry::WEIGHT_MAX);
    let scaled = match u32::from(heaviest) > most {
        true => u32::from(weight) * most / u32::from(heaviest),
        false => u32::from(weight),
    };
    u16::try_from(scaled).unwrap_or(ServerEntry::WEIGHT_MAX).max(ServerEntry::WEIGHT_MIN)
}

/// In a fixed order, each address with its port once, the best if a server has several records.
fn bounded(mut found: Vec<Found>) -> (Vec<Found>, bool) {
    found.sort_by_key(|one| (one.backup, one.ip, one.port));
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|one| seen.insert((one.ip, one.port)));
    let cut = found.len() > SERVERS_MAX;
    found.truncate(SERVERS_MAX);
    (found, cut)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ip(number: u32) -> IpAddr {
        IpAddr::from([10, (number >> 16) as u8, (number >> 8) as u8, number as u8])
    }

    fn srv(priority: u16, weight: u16, port: u16, target: &str) -> Srv {
        Srv { priority, weight, port, target: target.to_owned() }
    }

    #[test]
    fn a_thousand_addresses_are_cut_and_their_order_does_not_matter() {
        let (found, cut) = of_addresses((0..1000).map(ip));
        assert_eq!((found.len(), cut), (SERVERS_MAX, true));
        assert_eq!(of_addresses((0..1000).rev().map(ip)), (found, true));
        assert_eq!(of_addresses([ip(1), ip(1)]).0.len(), 1);
        assert_eq!(of_addresses([]), (Vec::new(), false));
    }

    #[test]
    fn priorities_make_backups_and_weights_are_shares() {
        let records = vec![
            srv(20, 10, 80, "c"),
            srv(10, 0, 80, "a"),
            srv(10, 65535, 81, "b"),
            srv(10, 1, 0, "no port"),
            srv(0, 1, 1, ""),
            srv(1, 1, 80, "unknown"),
        ];
        let targets = targets(records);
        let addresses = |name: &str| match name {
            "a" => vec![ip(1)],
            "b" => vec![ip(2), ip(3)],
            "c" => vec![ip(4), ip(1)],
            _ => Vec::new(),
        };
        let resolved: Vec<_> = targets.into_iter().map(|one| (one.clone(), addresses(&one.target))).collect();
        let (found, _) = of_targets(&resolved);
        let show =
            |one: &Found| format!("{}:{} {} {} {}", one.ip, one.port, one.target, one.weight, one.backup);
        assert_eq!(
            found.iter().map(show).collect::<Vec<_>>(),
            [
                "10.0.0.1:80 a 1 false",
                "10.0.0.2:81 b 1000 false",
                "10.0.0.3:81 b 1000 false",
                "10.0.0.4:80 c 1 true"
            ],
            "the backup that is also a server is none"
        );
    }

    proptest! {
        #[test]
        fn whatever_comes_is_bounded(
            records in prop::collection::vec((any::<u16>(), any::<u16>(), any::<u16>(), "[a-c.]{0,2}", 0_u32..400), 0..200),
        ) {
            let of = |(priority, weight, port, target, _): &(u16, u16, u16, String, u32)| srv(*priority, *weight, *port, target);
            let targets = targets(records.iter().map(of).collect());
            prop_assert!(targets.len() <= TARGETS_MAX);
            let many = records.first().map_or(0, |record| record.4);
            let resolved: Vec<_> = targets.into_iter().map(|one| (one, (0..many).map(ip).collect())).collect();
            let (found, _) = of_targets(&resolved);
            prop_assert!(found.len() <= SERVERS_MAX);
            prop_assert!(found.iter().all(|one| (1..=1000).contains(&one.weight) && one.port != 0));
            prop_assert!(found.is_empty() || found.iter().any(|one| !one.backup));
        }
    }
}
