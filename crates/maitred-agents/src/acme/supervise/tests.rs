//! The agent's life, and which processes have which challenge.

use std::time::{Duration, Instant};

use super::*;
use crate::acme::messages::HookCall;
use crate::acme::messages::testing::{hook, start};
use maitred_control::Answer;

fn challenge(serial: u64) -> Challenge {
    let answer = Answer::Http { token: "t".into(), key_authorization: "t.k".into() };
    Challenge { serial, name: "a.example".into(), answer }
}

fn is_start(actions: &[Action]) -> bool {
    matches!(actions, [Action::Start(_)])
}

#[test]
fn an_agent_is_there_as_long_as_it_is_wanted() {
    let (now, mut supervisor) = (Instant::now(), Supervisor::default());
    assert!(supervisor.want(now, None).is_empty());
    assert!(is_start(&supervisor.want(now, Some(start("a")))));
    assert!(supervisor.want(now, Some(start("a"))).is_empty(), "a reload that changes nothing");
    let actions = supervisor.want(now, Some(start("b")));
    assert!(matches!(&actions[..], [Action::End, Action::Start(new)] if new.sites[0].name() == "b"));
    assert_eq!(supervisor.want(now, None), [Action::End]);
    assert_eq!(supervisor.next_deadline(), None);
}

#[test]
fn one_that_keeps_dying_is_started_later_and_later() {
    let (mut now, mut supervisor) = (Instant::now(), Supervisor::default());
    supervisor.want(now, Some(start("a")));
    let mut delays = Vec::new();
    for _ in 0..11 {
        assert!(matches!(&supervisor.exited(now, "died")[..], [Action::Log(_)]));
        assert!(supervisor.exited(now, "died").is_empty(), "it is reported once");
        let at = supervisor.next_deadline().unwrap();
        delays.push((at - now).as_secs());
        assert!(supervisor.tick(at - Duration::from_millis(1)).is_empty());
        assert!(is_start(&supervisor.tick(at)));
        now = at;
    }
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert!(matches!(&supervisor.exited(now + Duration::from_secs(60), "died")[..], [Action::Log(_)]));
    assert_eq!(supervisor.next_deadline(), Some(now + Duration::from_secs(60)), "it had lived");
    // Another configuration does not wait for the delay.
    assert!(is_start(&supervisor.want(now, Some(start("b")))));
}

#[test]
fn a_challenge_is_in_place_when_the_current_worker_process_says_so() {
    let mut supervisor = Supervisor::default();
    supervisor.worker_is_current(Some(1));
    let told = supervisor.agent_says(FromAgent::Challenge(challenge(7)));
    assert_eq!(told, [Action::TellWorkers(ToWorker::Challenge(challenge(7)))]);
    assert!(supervisor.in_place(2, 7).is_empty(), "no client connects to that one");
    assert_eq!(supervisor.in_place(1, 7), [Action::Tell(ToAgent::InPlace(7))]);
    assert!(supervisor.in_place(1, 7).is_empty(), "once");
    assert_eq!(supervisor.agent_says(FromAgent::Over(7)), [Action::TellWorkers(ToWorker::ChallengeOver(7))]);
    assert!(supervisor.agent_says(FromAgent::Over(7)).is_empty());
    assert!(supervisor.in_place(1, 7).is_empty());
}

#[test]
fn keys_are_in_no_message_to_a_worker_process() {
    let mut supervisor = Supervisor::default();
    let pair = crate::acme::certificate::for_challenge("a.example", &[7; 32]).unwrap();
    let answer = Answer::TlsAlpn(pair.clone());
    let told = supervisor.agent_says(FromAgent::Challenge(Challenge { answer, ..challenge(1) }));
    let without = Challenge { answer: Answer::InHandshakes, ..challenge(1) };
    assert_eq!(told, [Action::TellWorkers(ToWorker::Challenge(without.clone()))]);
    assert_eq!(supervisor.worker_starts(1), [without]);
    assert_eq!(supervisor.pairs(), [("a.example".to_owned(), pair)]);
}

#[test]
fn a_successor_knows_what_is_under_way() {
    let mut supervisor = Supervisor::default();
    supervisor.agent_says(FromAgent::Challenge(challenge(1)));
    // Without a worker process there is no answer; the first one has it from its start on.
    assert_eq!(supervisor.worker_starts(1), [challenge(1)]);
    assert_eq!(supervisor.worker_is_current(Some(1)), [Action::Tell(ToAgent::InPlace(1))]);
    // A challenge that comes while the next is being started is answered by both, and the next has said so before it takes
    // over.
    assert_eq!(supervisor.worker_starts(2), [challenge(1)]);
    supervisor.agent_says(FromAgent::Challenge(challenge(2)));
    assert!(supervisor.in_place(2, 2).is_empty());
    assert_eq!(supervisor.worker_is_current(Some(2)), [Action::Tell(ToAgent::InPlace(2))]);
}

#[test]
fn what_an_agent_left_open_is_over_with_it() {
    let (now, mut supervisor) = (Instant::now(), Supervisor::default());
    supervisor.want(now, Some(start("a")));
    supervisor.agent_says(FromAgent::Challenge(challenge(1)));
    let actions = supervisor.exited(now, "died");
    assert!(actions.contains(&Action::TellWorkers(ToWorker::ChallengeOver(1))));
    assert!(supervisor.worker_starts(1).is_empty());
}

#[test]
fn challenges_have_a_bound() {
    let mut supervisor = Supervisor::default();
    for serial in 0..CHALLENGES_MAX as u64 {
        supervisor.agent_says(FromAgent::Challenge(challenge(serial)));
    }
    let more = supervisor.agent_says(FromAgent::Challenge(challenge(u64::MAX)));
    assert!(matches!(&more[..], [Action::Log(_)]));
}

#[test]
fn reports_are_kept_for_worker_processes_that_come_later() {
    let (now, mut supervisor) = (Instant::now(), Supervisor::default());
    supervisor.want(now, Some(start("a")));
    let report = Report { name: "a".into(), not_after: Some(1), ..Report::default() };
    supervisor.agent_says(FromAgent::Report(Report { name: "a".into(), ..Report::default() }));
    supervisor.agent_says(FromAgent::Report(report.clone()));
    assert_eq!(supervisor.reports(), [report]);
    supervisor.want(now, Some(start("b")));
    assert!(supervisor.reports().is_empty());
}

#[test]
fn a_name_on_demand_is_asked_for_once_and_its_refusal_is_passed_on() {
    let now = Instant::now();
    let mut supervisor = Supervisor::default();
    supervisor.want(now, Some(start("a")));
    let later = |name: &str| [Action::TellWorkers(ToWorker::NameLater(name.to_owned()))];
    assert_eq!(supervisor.name_wanted("x.a".into()), later("x.a"), "no site has certificates on demand");
    let mut document = start("a");
    document.on_demand = vec!["*.a".into()];
    supervisor.want(now, Some(document));
    let wanted = |supervisor: &mut Supervisor, name: &str| supervisor.name_wanted(name.to_owned());
    assert_eq!(wanted(&mut supervisor, "x.a"), [Action::Tell(ToAgent::Wanted("x.a".into()))]);
    assert!(wanted(&mut supervisor, "x.a").is_empty(), "the agent knows");
    let refused = supervisor.agent_says(FromAgent::NameRefused("x.a".into()));
    assert_eq!(refused, [Action::TellWorkers(ToWorker::NameRefused("x.a".into()))]);
    assert!(supervisor.agent_says(FromAgent::NameRefused("x.a".into())).is_empty(), "nothing was asked");
    for answer in [FromAgent::NameLater("y.a".into()), FromAgent::Certificate("y.a".into())] {
        assert_eq!(wanted(&mut supervisor, "y.a"), [Action::Tell(ToAgent::Wanted("y.a".into()))]);
        let said = supervisor.agent_says(answer);
        assert!(said == later("y.a") || said == [Action::Renewed("y.a".into())], "{said:?}");
    }
    let names: Vec<String> = (0..2 * NAMES_MAX).map(|number| format!("{number}.a")).collect();
    let asked = names.iter().filter(|name| wanted(&mut supervisor, name) != later(name));
    assert_eq!(asked.count(), NAMES_MAX);
    let ended = supervisor.exited(now, "died");
    let told = ended.iter().filter(|action| matches!(action, Action::TellWorkers(ToWorker::NameLater(_))));
    assert_eq!(told.count(), NAMES_MAX, "what was asked for is waited for no longer");
    assert_eq!(wanted(&mut supervisor, "x.a"), later("x.a"), "there is no agent");
}

fn call() -> HookCall {
    HookCall { add: true, name: "_acme-challenge.a".into(), text: "x".repeat(43) }
}

fn with_hook() -> Supervisor {
    let mut supervisor = Supervisor::default();
    let mut document = start("a");
    document.acme.dns = vec![hook()];
    supervisor.want(Instant::now(), Some(document));
    supervisor
}

#[test]
fn a_hook_is_the_one_of_the_configuration_and_its_agent_is_told() {
    let mut supervisor = with_hook();
    let actions = supervisor.agent_says(FromAgent::Hook(7, call()));
    let [Action::Hook(hook)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(hook.command, ["/bin/hook", "quiet", "add", "_acme-challenge.a", &"x".repeat(43)]);
    assert_eq!(hook.timeout, Duration::from_secs(9));
    assert_eq!(
        supervisor.hook_ended(hook.number, Err("exited with 1".into())),
        [Action::Tell(ToAgent::HookDone(7, Some("exited with 1".into())))]
    );
    assert!(supervisor.hook_ended(hook.number, Ok(())).is_empty(), "once");
}

#[test]
fn a_hook_runs_for_what_is_configured_only() {
    let told = |actions: Vec<Action>| match &actions[..] {
        [Action::Tell(ToAgent::HookDone(1, Some(why)))] => why.clone(),
        other => panic!("{other:?}"),
    };
    let mut supervisor = with_hook();
    let other = HookCall { name: "_acme-challenge.b".into(), ..call() };
    assert!(told(supervisor.agent_says(FromAgent::Hook(1, other.clone()))).contains("no site"));
    // What an agent before this one has left may be of a site that has gone.
    let remove = supervisor.agent_says(FromAgent::Hook(1, HookCall { add: false, ..other }));
    assert!(matches!(&remove[..], [Action::Hook(_)]));
    let odd = HookCall { text: "$(reboot)".into(), ..call() };
    assert!(told(supervisor.agent_says(FromAgent::Hook(1, odd))).contains("form"));
    let mut without = Supervisor::default();
    without.want(Instant::now(), Some(start("a")));
    assert!(told(without.agent_says(FromAgent::Hook(1, call()))).contains("no hook"));
}

#[test]
fn hooks_have_a_bound_and_end_with_their_agent() {
    let now = Instant::now();
    let mut supervisor = with_hook();
    for serial in 0..HOOKS_MAX as u64 {
        assert!(matches!(&supervisor.agent_says(FromAgent::Hook(serial, call()))[..], [Action::Hook(_)]));
    }
    let more = supervisor.agent_says(FromAgent::Hook(99, call()));
    assert!(matches!(&more[..], [Action::Tell(ToAgent::HookDone(99, Some(_)))]));
    let actions = supervisor.exited(now, "died");
    assert!(actions.contains(&Action::EndHooks));
    assert!(supervisor.hook_ended(1, Ok(())).is_empty(), "the next agent has other numbers");
}
