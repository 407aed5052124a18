//! What is done when an upstream fails: one rule for all of them.
//!
//! | what has happened | the client has received nothing | an informational response | a part of the response |
//! |---|---|---|---|
//! | it has not read the request, or has refused it without reading it | retried | – | – |
//! | it has ended, and may have read the request; that may be sent twice | retried | 502 | aborted |
//! | the same, and it may not be sent twice | 502 | 502 | aborted |
//! | it has answered with a status that its pool retries; the request may be sent twice | retried | retried | – |
//! | it was silent, or took too long | 504 | 504 | aborted |
//! | what it has sent is no response | 502 | 502 | aborted |
//!
//! `retry` of a pool of servers takes rows out ([`Rules`]), and adds one: silence of a server that has sent nothing yet is
//! retried if the request may be sent twice. An idle connection that its server has closed is replaced in any case.
//!
//! The rule applies to processes, by a relay or on the client's own socket, to servers, and to other threads.
//!
//! A request of whose body something was passed on, and is not here any more, is refused wherever others would be retried.
//!
//! **Retried** is bounded where it is carried out: at a process once, at a server as often as there are other servers
//! (`retry.attempts`), and within its budget (`retries`). A request may be sent twice if its method is safe (9110-9.2.1), or one
//! of `retry.methods`, and head and body are still there. An informational response means that the upstream has begun to work on
//! it.

use maitred_config::Retry;

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// No connection, or none in time: nothing of the request has left.
    Unreachable {
        /// The reason was `connect_timeout`.
        late: bool,
    },
    /// The upstream has refused the request because it has too much to do: nothing was done.
    Overloaded,
    /// The upstream has said that it has not looked at the request, and will not (9113-8.7): nothing was done.
    Unprocessed,
    /// The process, or the connection, has ended.
    Lost,
    /// The upstream was silent for `request_timeout`, or took longer than `request_total_timeout`.
    Late,
    /// What came is no response.
    Bad,
    /// The server had closed the connection while it was idle.
    Stale,
    /// The server has answered with this status, for which the request is to be retried; the client has nothing of it.
    Status(u16),
}

/// What is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    /// What has reached no upstream.
    pub unreachable: bool,
    /// What an upstream may have read, and did not answer.
    pub broken: bool,
    /// What an upstream did not answer in time.
    pub timeout: bool,
}

impl Rules {
    /// The rules for processes.
    pub(crate) const DEFAULT: Rules = Rules { unreachable: true, broken: true, timeout: false };

    /// The rules of a pool of servers.
    pub(crate) fn of(retry: &Retry) -> Rules {
        Rules { unreachable: retry.unreachable, broken: retry.broken, timeout: retry.timeout }
    }
}

impl Cause {
    /// Whether a retry sends an upstream more than its clients did: it counts for the budget.
    pub(crate) fn costs(self, reached: Reached) -> bool {
        reached.seen && matches!(self, Cause::Lost | Cause::Late | Cause::Status(_))
    }
}

/// How far an attempt had come when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reached {
    /// The upstream may have read a part of the request.
    pub seen: bool,
    /// The request may be sent twice.
    pub safe: bool,
    /// Something of a response has come, if only an informational one.
    pub begun: bool,
    /// The head of the response is with the client.
    pub head_written: bool,
    /// A part of the body was passed on, and is not here any more.
    pub spent: bool,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The request is sent to another process, or server, if there is one; otherwise it is refused with this status.
    Retry(u16),
    /// The client gets an error of this status.
    Refuse(u16),
    /// The connection is aborted, so the response is visibly not whole.
    Abort,
}

/// The rule of the table at the top of the file.
pub(crate) fn judge(cause: Cause, reached: Reached, rules: Rules) -> Verdict {
    if reached.head_written {
        return Verdict::Abort;
    }
    match verdict_on(cause, reached, rules) {
        Verdict::Retry(status) if reached.spent => Verdict::Refuse(status),
        verdict => verdict,
    }
}

fn verdict_on(cause: Cause, reached: Reached, rules: Rules) -> Verdict {
    let verdict = |retried, status| if retried { Verdict::Retry(status) } else { Verdict::Refuse(status) };
    let twice = reached.safe && !reached.begun;
    let unread = !reached.seen && !reached.begun;
    match cause {
        Cause::Unreachable { late } => verdict(rules.unreachable, if late { 504 } else { 502 }),
        Cause::Overloaded => verdict(rules.unreachable, 503),
        Cause::Stale | Cause::Unprocessed => Verdict::Retry(502),
        Cause::Lost => verdict(unread && rules.unreachable || twice && rules.broken, 502),
        Cause::Bad => Verdict::Refuse(502),
        Cause::Late => verdict(twice && rules.timeout, 504),
        Cause::Status(status) => verdict(reached.safe, status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAUSES: [Cause; 9] = [
        Cause::Unreachable { late: false },
        Cause::Unreachable { late: true },
        Cause::Overloaded,
        Cause::Unprocessed,
        Cause::Lost,
        Cause::Late,
        Cause::Bad,
        Cause::Stale,
        Cause::Status(429),
    ];

    fn all() -> impl Iterator<Item = (Cause, Reached)> {
        CAUSES.into_iter().flat_map(|cause| {
            (0..32).map(move |bits| {
                let bit = |at: u32| bits >> at & 1 == 1;
                let (seen, safe, begun, head_written) = (bit(0), bit(1), bit(2), bit(3));
                (cause, Reached { seen, safe, begun, head_written, spent: bit(4) })
            })
        })
    }

    #[test]
    fn a_client_that_has_a_part_of_a_response_gets_no_other_one() {
        assert!(all().all(|(cause, reached)| (judge(cause, reached, Rules::DEFAULT) == Verdict::Abort)
            == reached.head_written));
    }

    #[test]
    fn what_may_have_been_acted_on_is_sent_again_only_if_that_does_no_harm() {
        for (cause, reached) in all().filter(|(_, reached)| reached.seen && !reached.safe) {
            let connected = !matches!(
                cause,
                Cause::Unreachable { .. } | Cause::Overloaded | Cause::Unprocessed | Cause::Stale
            );
            assert!(
                !connected || !matches!(judge(cause, reached, Rules::DEFAULT), Verdict::Retry(_)),
                "{cause:?} {reached:?}"
            );
        }
        let seen = Reached { seen: true, safe: true, begun: false, head_written: false, spent: false };
        assert_eq!(judge(Cause::Lost, seen, Rules::DEFAULT), Verdict::Retry(502));
        assert_eq!(judge(Cause::Lost, Reached { begun: true, ..seen }, Rules::DEFAULT), Verdict::Refuse(502));
        assert_eq!(
            judge(Cause::Lost, Reached { seen: false, safe: false, ..seen }, Rules::DEFAULT),
            Verdict::Retry(502)
        );
        assert_eq!(judge(Cause::Overloaded, seen, Rules::DEFAULT), Verdict::Retry(503));
    }

    #[test]
    fn a_request_whose_body_is_not_here_any_more_is_not_sent_again() {
        for (cause, reached) in all().filter(|(_, reached)| reached.spent) {
            let whole = judge(cause, Reached { spent: false, ..reached }, Rules::DEFAULT);
            match (judge(cause, reached, Rules::DEFAULT), whole) {
                (Verdict::Refuse(status), Verdict::Retry(other)) => assert_eq!(status, other),
                (verdict, other) => assert!(verdict == other && !matches!(verdict, Verdict::Retry(_))),
            }
        }
    }

    #[test]
    fn the_status_says_whether_it_was_time_that_had_passed() {
        for (cause, reached) in all().filter(|(_, reached)| !reached.head_written) {
            let late = matches!(cause, Cause::Late | Cause::Unreachable { late: true });
            let status = match judge(cause, reached, Rules::DEFAULT) {
                Verdict::Retry(status) | Verdict::Refuse(status) => status,
                Verdict::Abort => panic!("{cause:?}"),
            };
            let expected = match cause {
                Cause::Overloaded => 503,
                Cause::Status(status) => status,
                _ if late => 504,
                _ => 502,
            };
            assert_eq!(status, expected);
        }
    }

    #[test]
    fn a_pool_says_what_is_retried() {
        let all_rules = (0..8).map(|bits: u32| Rules {
            unreachable: bits & 1 == 1,
            broken: bits & 2 == 2,
            timeout: bits & 4 == 4,
        });
        for (rules, (cause, reached)) in all_rules.flat_map(|rules| all().map(move |one| (rules, one))) {
            let twice = reached.safe && !reached.begun;
            let by_cause = match cause {
                Cause::Unreachable { .. } | Cause::Overloaded => rules.unreachable,
                Cause::Lost if !reached.seen && !reached.begun => rules.unreachable || twice && rules.broken,
                Cause::Lost => twice && rules.broken,
                Cause::Late => twice && rules.timeout,
                Cause::Bad => false,
                Cause::Stale | Cause::Unprocessed => true,
                Cause::Status(_) => reached.safe,
            };
            let expected = by_cause && !reached.head_written && !reached.spent;
            let found = matches!(judge(cause, reached, rules), Verdict::Retry(_));
            assert_eq!(found, expected, "{cause:?} {reached:?} {rules:?}");
        }
    }

    #[test]
    fn what_no_server_has_read_costs_nothing() {
        let seen = Reached { seen: true, safe: true, begun: false, head_written: false, spent: false };
        for cause in CAUSES {
            let costs = matches!(cause, Cause::Lost | Cause::Late | Cause::Status(_));
            assert_eq!(cause.costs(seen), costs, "{cause:?}");
            assert!(!cause.costs(Reached { seen: false, ..seen }), "{cause:?}");
        }
    }
}
