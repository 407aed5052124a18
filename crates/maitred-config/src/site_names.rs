//! Which site a request is for: by the name that the client has written, among the sites of the listener that it has come in by.
//! Which certificate a client gets is asked here, too.

use std::collections::HashMap;

use super::meaning::{HostPattern, Site};

/// Longest host name in octets (RFC 1035 section 2.3.4); a longer one can only be the default site's.
const HOST_BYTES_MAX: usize = 255;

/// No site: for listeners at which none answers.
const NO_SITE: usize = usize::MAX;

/// The site of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteFound {
    /// The number of the site. Of a listener without sites one that no site has.
    pub site: usize,
    /// Whose the name is.
    pub named: Named,
}

/// Whose a name is at a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// The site's.
    Here,
    /// The name of a site which does not answer at the listener: the one found is the default site.
    Elsewhere,
    /// No site's: likewise.
    Nowhere,
}

/// The names of all sites, and where these answer.
#[derive(Debug, Default)]
pub struct SiteNames {
    exact: HashMap<Box<[u8]>, Sites>,
    /// `.example.com` → site, longest first, so that the most specific wins.
    suffixes: Vec<(Box<[u8]>, usize)>,
    /// By site: the listeners at which it answers; `None`: at all.
    listens: Vec<Option<Box<[u16]>>>,
    /// By listener: the first site that answers there.
    defaults: Vec<usize>,
    /// The site of connections whose listener is not in the configuration: the first site that answers everywhere.
    default_nowhere: usize,
    /// Whether one site is all, and answers everywhere.
    is_single: bool,
}

/// Sites of one name, in the order of the file. Mostly it is one.
#[derive(Debug)]
struct Sites {
    first: usize,
    further: Vec<usize>,
}

impl SiteNames {
    /// The names of these sites, and the listeners where they answer, of which there are so many.
    pub fn new(sites: &[Site], listeners: usize) -> SiteNames {
        let mut names = SiteNames::default();
        for (number, site) in sites.iter().enumerate() {
            for host in &site.hosts {
                match host {
                    HostPattern::Exact(name) => {
                        let same = names.exact.entry(name.as_bytes().into());
                        same.and_modify(|sites| sites.further.push(number))
                            .or_insert(Sites { first: number, further: Vec::new() });
                    }
                    HostPattern::Suffix(suffix) => names.suffixes.push((suffix.as_bytes().into(), number)),
                }
            }
            names.listens.push(site.listens.as_deref().map(Into::into));
        }
        names.suffixes.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
        let first =
            |listener| (0..sites.len()).find(|site| names.answers(*site, listener)).unwrap_or(NO_SITE);
        let defaults = (0..).take(listeners).map(|listener| first(Some(listener))).collect();
        let default_nowhere = first(None);
        let is_single = matches!(names.listens.as_slice(), [None]);
        SiteNames { defaults, default_nowhere, is_single, ..names }
    }

    /// Whether a site answers at a listener; `None`: one that the configuration does not have.
    fn answers(&self, site: usize, listener: Option<u16>) -> bool {
        match (self.listens.get(site), listener) {
            (Some(None), _) => true,
            (Some(Some(listens)), Some(listener)) => listens.contains(&listener),
            _ => false,
        }
    }

    /// Of sites with the same right to a name, the first one that answers there; whether there is any.
    fn among(&self, mut sites: impl Iterator<Item = usize>, listener: Option<u16>) -> (Option<usize>, bool) {
        let mut any = false;
        let here = sites.find(|site| {
            any = true;
            self.answers(*site, listener)
        });
        (here, any)
    }

    /// The site that an authority (with or without port) belongs to: the exact name, then the longest `*.name`, of those that
    /// answer at the listener; otherwise the first one that does.
    pub fn find(&self, listener: Option<u16>, authority: &str) -> SiteFound {
        let mut room = [0u8; HOST_BYTES_MAX];
        let (mut known, mut here) = (false, None);
        if let Some(host) = lower_case_host(authority, &mut room) {
            let exact = self.exact.get(host).into_iter();
            let exact = exact.flat_map(|sites| std::iter::once(&sites.first).chain(&sites.further).copied());
            let suffixes = self.suffixes.iter();
            let suffixes = suffixes.filter(|(end, _)| host.len() > end.len() && host.ends_with(end));
            (here, known) = self.among(exact.chain(suffixes.map(|(_, site)| *site)), listener);
        }
        let named = match (here, known) {
            (Some(_), _) => Named::Here,
            (None, true) => Named::Elsewhere,
            (None, false) => Named::Nowhere,
        };
        SiteFound { site: here.unwrap_or_else(|| self.default_at(listener)), named }
    }

    /// Whether all requests are for the same site: then no name has to be looked up.
    pub fn are_single(&self) -> bool {
        self.is_single
    }

    fn default_at(&self, listener: Option<u16>) -> usize {
        let at = |listener: u16| self.defaults.get(usize::from(listener)).copied();
        listener.and_then(at).unwrap_or(self.default_nowhere)
    }

    /// All sites that an authority may belong to, by one listener or another.
    pub fn all(&self, authority: &str) -> Vec<usize> {
        let listeners = (0..).take(self.defaults.len()).map(Some).chain([None]);
        let mut sites: Vec<usize> = listeners.map(|listener| self.find(listener, authority).site).collect();
        sites.sort_unstable();
        sites.dedup();
        sites
    }
}

/// The host of an authority in lower case, without port and without the root's final dot.
fn lower_case_host<'a>(authority: &str, room: &'a mut [u8; HOST_BYTES_MAX]) -> Option<&'a [u8]> {
    let bytes = authority.as_bytes();
    let end = match bytes.first()? {
        b'[' => bytes.iter().position(|byte| *byte == b']')? + 1,
        _ => bytes.iter().position(|byte| *byte == b':').unwrap_or(bytes.len()),
    };
    let host = bytes.get(..end)?;
    let host = host.strip_suffix(b".").unwrap_or(host);
    let room = room.get_mut(..host.len())?;
    room.copy_from_slice(host);
    room.make_ascii_lowercase();
    Some(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(name: &str) -> HostPattern {
        HostPattern::Exact(name.into())
    }

    fn suffix(name: &str) -> HostPattern {
        HostPattern::Suffix(name.into())
    }

    fn names(sites: &[(&[HostPattern], Option<&[u16]>)], listeners: usize) -> SiteNames {
        let site = |(hosts, listens): &(&[HostPattern], Option<&[u16]>)| Site {
            hosts: hosts.to_vec(),
            listens: listens.map(<[u16]>::to_vec),
            ..Site::default()
        };
        SiteNames::new(&sites.iter().map(site).collect::<Vec<_>>(), listeners)
    }

    #[test]
    fn a_site_is_found_by_exact_name_then_longest_suffix_then_default() {
        let names = names(
            &[
                (&[exact("default.test")], None),
                (&[suffix(".example.com")], None),
                (&[suffix(".deep.example.com")], None),
                (&[exact("www.example.com"), exact("[::1]")], None),
            ],
            1,
        );
        for (authority, expected) in [
            ("www.example.com", 3),
            ("WWW.Example.COM:8080", 3),
            ("www.example.com.", 3),
            ("a.example.com", 1),
            ("a.deep.example.com:1", 2),
            ("example.com", 0),
            ("badexample.com", 0),
            ("[::1]:80", 3),
            ("", 0),
        ] {
            assert_eq!(names.find(Some(0), authority).site, expected, "{authority}");
        }
        assert_eq!(names.find(Some(0), &"a.".repeat(400)).site, 0);
    }

    #[test]
    fn a_site_answers_at_its_listeners_only() {
        let names = names(
            &[
                (&[exact("a.test"), suffix(".wide.test")], Some(&[0])),
                (&[exact("a.test"), exact("in.wide.test")], Some(&[1])),
                (&[exact("b.test")], None),
                (&[], Some(&[2])),
            ],
            4,
        );
        let here = |site| SiteFound { site, named: Named::Here };
        let elsewhere = |site| SiteFound { site, named: Named::Elsewhere };
        let nowhere = |site| SiteFound { site, named: Named::Nowhere };
        for (listener, authority, expected) in [
            (Some(0), "a.test", here(0)),
            (Some(1), "A.TEST:81", here(1)),
            (Some(0), "b.test", here(2)),
            (Some(1), "b.test", here(2)),
            // The more specific name is of a site that is not here.
            (Some(0), "in.wide.test", here(0)),
            (Some(1), "in.wide.test", here(1)),
            (Some(1), "x.wide.test", elsewhere(1)),
            // Names of no site.
            (Some(0), "c.test", nowhere(0)),
            (Some(1), "", nowhere(1)),
            (Some(2), "c.test", nowhere(2)),
            (Some(2), "a.test.", elsewhere(2)),
            (Some(3), "a.test", elsewhere(2)),
            // By a listener that is not in the configuration, or by none.
            (None, "a.test", elsewhere(2)),
            (Some(9), "a.test", elsewhere(2)),
            (None, "b.test", here(2)),
        ] {
            assert_eq!(names.find(listener, authority), expected, "{listener:?} {authority}");
        }
        assert_eq!(names.all("a.test"), [0, 1, 2]);
        assert_eq!(names.all("b.test"), [2]);
    }

    #[test]
    fn a_single_site_may_not_be_everywhere() {
        let names = names(&[(&[], Some(&[1]))], 2);
        assert_eq!(names.find(Some(1), "x"), SiteFound { site: 0, named: Named::Nowhere });
        assert_eq!(names.find(Some(0), "x"), SiteFound { site: NO_SITE, named: Named::Nowhere });
        assert_eq!(names.find(None, "x").site, NO_SITE);
    }
}
