//! Handles of what a thread keeps in tables: each table has keys of its own type, so that none is taken for another.
//!
//! A key is the place of an entry, and another entry gets that place once the first has gone: what is remembered across turns is
//! an id, which has the serial number of the entry as well.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use slab::Slab;

/// The place of an entry in a [`Table`].
pub(crate) trait Key: Copy + Eq + fmt::Debug {
    /// What no entry has.
    const NONE: Self;
    /// The key of a place.
    fn of(place: usize) -> Self;
    /// The place.
    fn place(self) -> usize;
}

macro_rules! keys {
    ($($(#[$about:meta])* $name:ident;)+) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(u32);

        impl Key for $name {
            const NONE: $name = $name(u32::MAX);

            #[inline]
            fn of(place: usize) -> $name {
                // A table is bounded by the descriptors of a process, which are fewer.
                $name(place as u32)
            }

            #[inline]
            fn place(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

/// Gives numbers to keys that leave this process's memory: for epoll(7), tickets, the frames of processes, sessions of HTTP.
macro_rules! numbered {
    ($($name:ident)+) => {$(
        impl $name {
            /// The key of a number that [`number`](Self::number) has given.
            #[inline]
            pub(crate) const fn from_number(number: u32) -> $name {
                $name(number)
            }

            /// The number.
            #[inline]
            pub(crate) const fn number(self) -> u32 {
                self.0
            }
        }
    )+};
}

keys! {
    /// A client's connection, a stream of one, or a request that another thread has sent: an entry of
    /// [`Clients::connections`](crate::clients::Clients).
    ConnKey;
    /// A connection to a server, or to another thread: an entry of
    /// [`Upstreams::connections`](crate::upstream::connections::Upstreams).
    UpstreamKey;
    /// The channel of an application process: an entry of [`Pools::channels`](crate::handoff::Pools).
    ChannelKey;
    /// A relay, through which an application process answers: an entry of [`Pools::relays`](crate::handoff::Pools).
    RelayKey;
    /// A link to another worker process that uses a channel of this one: an entry of [`Pools::links`](crate::handoff::Pools).
    LinkKey;
    /// An HTTP/2 or HTTP/3 session: an entry of [`Clients::sessions`](crate::clients::Clients).
    SessionKey;
    /// A TLS session: an entry of [`Clients::tls_sessions`](crate::clients::Clients).
    TlsKey;
    /// A question to a pool about a request that waits, or a copy of a request.
    QuestionKey;
    /// A response on its way into the cache.
    FillKey;
}
numbered! { ConnKey UpstreamKey ChannelKey RelayKey LinkKey QuestionKey FillKey }

/// The key of a connection in a test.
#[cfg(test)]
pub(crate) const fn conn(place: u32) -> ConnKey {
    ConnKey(place)
}

/// An entry of a table, and no later one at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id<K> {
    /// The place.
    pub(crate) key: K,
    /// The number of the entry, which no other one of the thread has had for a long time.
    pub(crate) serial: u32,
}

/// A client's connection.
pub(crate) type ConnId = Id<ConnKey>;
/// A connection to a server, or to another thread.
pub(crate) type UpstreamId = Id<UpstreamKey>;
/// A question to a pool.
pub(crate) type QuestionId = Id<QuestionKey>;
/// A response on its way into the cache.
pub(crate) type FillId = Id<FillKey>;

impl ConnId {
    /// The id of a connection in a test.
    #[cfg(test)]
    pub(crate) const fn of(place: u32, serial: u32) -> ConnId {
        ConnId { key: conn(place), serial }
    }
}

/// Entries with keys of one type. A [`Slab`] that takes no other number.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    slab: Slab<V>,
    key: PhantomData<K>,
}

impl<K: Key, V> Table<K, V> {
    /// An empty one.
    pub(crate) const fn new() -> Table<K, V> {
        Table { slab: Slab::new(), key: PhantomData }
    }

    /// Adds an entry.
    pub(crate) fn insert(&mut self, entry: V) -> K {
        K::of(self.slab.insert(entry))
    }

    /// The key that the next entry gets.
    pub(crate) fn vacant_key(&self) -> K {
        K::of(self.slab.vacant_key())
    }

    /// Removes an entry that is there.
    pub(crate) fn remove(&mut self, key: K) -> V {
        self.slab.remove(key.place())
    }

    /// Removes an entry, if it is there.
    pub(crate) fn try_remove(&mut self, key: K) -> Option<V> {
        self.slab.try_remove(key.place())
    }

    /// An entry, if it is there.
    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.slab.get(key.place())
    }

    /// An entry, if it is there.
    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.slab.get_mut(key.place())
    }

    /// Whether an entry is there.
    pub(crate) fn contains(&self, key: K) -> bool {
        self.slab.contains(key.place())
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.slab.iter().map(|(place, entry)| (K::of(place), entry))
    }

    /// All entries.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut V)> {
        self.slab.iter_mut().map(|(place, entry)| (K::of(place), entry))
    }

    /// How many places there are, with those that are free.
    pub(crate) fn places(&self) -> usize {
        self.slab.capacity()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table { slab: Slab::new(), key: PhantomData }
    }
}

impl<K: Key, V> Index<K> for Table<K, V> {
    type Output = V;

    fn index(&self, key: K) -> &V {
        &self.slab[key.place()]
    }
}

impl<K: Key, V> IndexMut<K> for Table<K, V> {
    fn index_mut(&mut self, key: K) -> &mut V {
        &mut self.slab[key.place()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_key_that_was_vacant_and_a_key_costs_what_its_number_does() {
        let mut table: Table<ConnKey, &str> = Table::new();
        let vacant = table.vacant_key();
        assert_eq!(table.insert("a"), vacant);
        assert_eq!((table[vacant], table.get(ConnKey::NONE)), ("a", None));
        assert_eq!((table.try_remove(vacant), table.try_remove(vacant)), (Some("a"), None));
        assert_eq!((size_of::<ConnKey>(), size_of::<ConnId>()), (4, 8));
    }
}
