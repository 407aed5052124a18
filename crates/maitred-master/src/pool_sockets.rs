//! The sockets of listen pools, and how they are divided among buckets.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use maitred_sys::tcp;

use super::sockets::{self, Group};
use super::surroundings::Surroundings;
use maitred_config::{Buckets, Listen, Misdirected, Pool, Source, UnixFile};

/// Length of each socket's accept queue, in connections, as that of `[[listen]]`. A program that calls listen(2) again on what it
/// inherits sets its own.
const BACKLOG: u32 = 4096;

/// The sockets of one pool; none for a pool that does not listen.
#[derive(Debug, Clone, Default)]
pub(crate) struct PoolSockets {
    /// Groups, one per address, in the order of the configuration.
    groups: Vec<Group>,
    /// Sockets by bucket; each has at least one.
    buckets: Vec<Vec<Rc<OwnedFd>>>,
}

/// Binds what the pools need; what is in `present` or was passed by a service manager is used as it is.
///
/// # Errors
/// A text for the operator that names pool and address.
pub(crate) fn bind(
    pools: &[Pool],
    threads: u16,
    around: &Surroundings,
    present: &[PoolSockets],
) -> Result<Vec<PoolSockets>, String> {
    let listens: Vec<Vec<Listen>> = pools.iter().map(|pool| listens(pool, threads)).collect();
    let all: Vec<Listen> = listens.iter().flatten().cloned().collect();
    let kept: Vec<Group> = present.iter().flat_map(|one| &one.groups).cloned().collect();
    let is_kept = |group: &&Group| !kept.iter().any(|one| one.local == group.local);
    let passed: Vec<Group> = around.inherited.iter().filter(is_kept).cloned().collect();
    let known = [kept, passed].concat();
    let mut bound = sockets::bind_all(&all, threads, around.reuseport, &known)
        .map_err(|text| format!("`listen` of a pool: {text}"))?
        .into_iter();
    let mut result = Vec::with_capacity(pools.len());
    for (pool, listens) in pools.iter().zip(&listens) {
        let groups: Vec<Group> = bound.by_ref().take(listens.len()).collect();
        for socket in groups.iter().flat_map(|group| &group.buckets) {
            // Programs expect what a service manager would give them. What is in use is left as its processes have set it.
            if !known.iter().flat_map(|group| &group.buckets).any(|one| Rc::ptr_eq(one, socket)) {
                rustix::io::ioctl_fionbio(socket, false)
                    .map_err(|error| format!("pool {}: {error}", pool.name))?;
            }
        }
        let buckets = divide(&groups, pool.workers.max, around.reuseport);
        result.push(PoolSockets { groups, buckets });
    }
    Ok(result)
}

/// What a listen pool binds; nothing for other pools.
pub(crate) fn addresses_of(pool: &Pool) -> Vec<SocketAddr> {
    match &pool.source {
        Source::Listen { addresses, .. } => addresses.clone(),
        _ => Vec::new(),
    }
}

/// What a listen pool binds, as entries of `[[listen]]`.
fn listens(pool: &Pool, threads: u16) -> Vec<Listen> {
    let Source::Listen { addresses, sharing, .. } = &pool.source else { return Vec::new() };
    // A bucket without a process would leave its connections waiting.
    let buckets = sharing.buckets.count(threads, true).min(pool.workers.max).max(1);
    let listen = |address: &SocketAddr| Listen {
        name: None,
        address: (*address).into(),
        unix_file: UnixFile::default(),
        buckets: Buckets::Number(buckets),
        backlog: BACKLOG,
        steer_by_cpu: false,
        defer_accept: false,
        proxy_protocol_from: None,
        tls: None,
        http2: false,
        redirect_http: false,
        redirect_status: 308,
        http3: false,
        misdirected: Misdirected::default(),
    };
    addresses.iter().map(listen).collect()
}

/// Sockets by bucket. With `SO_REUSEPORT` each bucket has a socket of each address; without it, each address is a bucket, so
/// that a process waits on one socket only, unless there are more addresses than processes.
fn divide(groups: &[Group], processes_max: u16, reuseport: bool) -> Vec<Vec<Rc<OwnedFd>>> {
    if groups.is_empty() {
        return Vec::new();
    }
    let most = groups.iter().map(|group| group.buckets.len()).max().unwrap_or(1);
    if reuseport || most > 1 {
        let of = |bucket: usize| {
            groups.iter().filter_map(|group| group.buckets.iter().cycle().nth(bucket).cloned()).collect()
        };
        return (0..most).map(of).collect();
    }
    let count = groups.len().min(usize::from(processes_max.max(1)));
    let of = |bucket: usize| {
        groups.iter().skip(bucket).step_by(count).flat_map(|group| &group.buckets).cloned().collect()
    };
    (0..count).map(of).collect()
}

/// The part of `all` that belongs to a bucket: adjacent entries, none left out, and never nothing.
pub(crate) fn share(all: &[u16], bucket: usize, buckets: usize) -> Vec<u16> {
    let (count, buckets) = (all.len(), buckets.max(1));
    let (from, to) = (bucket * count / buckets, (bucket + 1) * count / buckets);
    all.get(from..to.max(from + 1)).map(<[u16]>::to_vec).unwrap_or_default()
}

impl PoolSockets {
    /// The sockets of all pools together, as another image of this program has left them: to be found by [`bind`].
    pub(crate) fn left(groups: Vec<Group>) -> Vec<PoolSockets> {
        vec![PoolSockets { groups, buckets: Vec::new() }]
    }

    /// The groups, one per address.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// How many buckets; at least 1.
    pub(crate) fn buckets(&self) -> u16 {
        u16::try_from(self.buckets.len()).unwrap_or(u16::MAX).max(1)
    }

    /// The sockets of a bucket, in the order of the addresses.
    pub(crate) fn of(&self, bucket: u16) -> Vec<BorrowedFd<'_>> {
        let sockets = self.buckets.get(usize::from(bucket)).map(Vec::as_slice).unwrap_or_default();
        sockets.iter().map(AsFd::as_fd).collect()
    }

    /// Where its addresses are really bound, and how many buckets share them.
    pub(crate) fn addresses(&self) -> (Vec<SocketAddr>, u16) {
        (self.groups.iter().filter_map(|group| group.local.inet()).collect(), self.buckets())
    }

    /// Connections that wait, and how many may, by bucket. What cannot be read is 0.
    pub(crate) fn queues(&self) -> Vec<(u32, u32)> {
        let of = |bucket: &Vec<Rc<OwnedFd>>| {
            let queues = bucket.iter().filter_map(|socket| tcp::accept_queue(socket.as_fd()).ok());
            queues.fold((0, 0), |sum, queue| (sum.0 + queue.length, sum.1 + queue.max))
        };
        self.buckets.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_shared_out_to_the_last() {
        assert_eq!(share(&[0, 1, 2, 3, 4], 0, 2), [0, 1]);
        assert_eq!(share(&[0, 1, 2, 3, 4], 1, 2), [2, 3, 4]);
        // More buckets than CPUs: some share one.
        let all: Vec<Vec<u16>> = (0..4).map(|bucket| share(&[6, 7], bucket, 4)).collect();
        assert_eq!(all, [[6], [6], [7], [7]]);
    }

    fn group(sockets: usize) -> Group {
        let local: maitred_config::Address = "127.0.0.1:1".parse().unwrap();
        let socket = || Rc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        Group {
            asked: local.clone(),
            local,
            buckets: (0..sockets).map(|_| socket()).collect(),
            inherited: false,
            file: None,
        }
    }

    #[test]
    fn with_reuseport_each_bucket_has_every_address_and_without_it_one() {
        let (two, one) = (group(2), group(1));
        let with = divide(&[two.clone(), one.clone()], 8, true);
        assert_eq!(with.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
        assert!(Rc::ptr_eq(&with[0][1], &with[1][1]), "an address with fewer sockets serves several buckets");
        let without = divide(&[group(1), group(1), group(1)], 8, false);
        assert_eq!(without.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
        let few = divide(&[group(1), group(1), group(1)], 2, false);
        assert_eq!(few.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert!(divide(&[], 8, true).is_empty());
    }
}
