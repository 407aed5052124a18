use proptest::prelude::*;

use super::*;

/// A machine of a few CPUs: threads of ours with some demand, and other programs that take a share of a CPU each
/// second. One step is one second.
struct Machine {
    start: Instant,
    second: u64,
    adapter: Adapter,
    usable: usize,
    /// What our threads would use of a CPU, 0 to 1.
    demand: Vec<f64>,
    places: Vec<Place>,
    homes: Vec<u16>,
    threads: Vec<ThreadSample>,
    cpus: Vec<CpuSample>,
    log: Vec<(u64, Decision)>,
}

const SECOND_NS: f64 = 1e9;

impl Machine {
    fn new(usable: usize, homes: &[u16], demand: f64) -> Machine {
        let cpus = (0..usable as u16).map(|id| Cpu { id, core: id, node: 0, capacity: 1024 }).collect();
        Machine::with_cpus(cpus, homes, demand)
    }

    fn with_cpus(cpus: Vec<Cpu>, homes: &[u16], demand: f64) -> Machine {
        let pinned: Vec<Option<u16>> = homes.iter().map(|home| Some(*home)).collect();
        Machine {
            start: Instant::now(),
            second: 0,
            usable: cpus.len(),
            cpus: cpus.iter().map(|cpu| CpuSample { cpu: cpu.id, idle_ns: 5_000_000_000 }).collect(),
            adapter: Adapter::new(&pinned, cpus),
            demand: vec![demand; homes.len()],
            places: vec![Place::Home; homes.len()],
            homes: homes.to_vec(),
            threads: vec![ThreadSample { cpu_ns: 0, run_delay_ns: 0, last_cpu: None }; homes.len()],
            log: Vec::new(),
        }
    }

    /// Lets one second pass, with `foreign` as what others would use of each CPU.
    fn step(&mut self, foreign: &[f64]) {
        let mut wanted = foreign.to_vec();
        let mut on = Vec::new();
        // Pinned threads first; the kernel then puts released ones where there is most room.
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        order.sort_by_key(|thread| self.places[*thread] == Place::Released);
        for thread in order {
            let cpu = match self.places[thread] {
                Place::Home => usize::from(self.homes[thread]),
                Place::Away(cpu) => usize::from(cpu),
                Place::Released => {
                    (0..self.usable).min_by(|a, b| wanted[*a].total_cmp(&wanted[*b])).expect("a CPU")
                }
            };
            wanted[cpu] += self.demand[thread];
            on.push((thread, cpu));
        }
        for (thread, cpu) in on {
            let demand = self.demand[thread];
            // A CPU that is wanted more than once over is shared in proportion; the rest is waiting.
            let used = demand / wanted[cpu].max(1.0);
            let sample = &mut self.threads[thread];
            sample.cpu_ns += (used * SECOND_NS) as u64;
            sample.run_delay_ns += ((demand - used) * SECOND_NS) as u64;
            sample.last_cpu = Some(cpu as u16);
        }
        for (sample, wanted) in self.cpus.iter_mut().zip(&wanted) {
            sample.idle_ns += ((1.0 - wanted.min(1.0)) * SECOND_NS) as u64;
        }
        self.second += 1;
        self.decide();
    }

    fn decide(&mut self) {
        let threads: Vec<_> = self.threads.iter().copied().map(Some).collect();
        let now = self.start + Duration::from_secs(self.second);
        if let Some(decision) = self.adapter.observe(now, &threads, &self.cpus) {
            self.places[decision.thread] = match decision.action {
                Action::Move(cpu) => Place::Away(cpu),
                Action::Release => Place::Released,
                Action::Repin(cpu) => {
                    assert_eq!(cpu, self.homes[decision.thread]);
                    Place::Home
                }
            };
            self.log.push((self.second, decision));
        }
    }

    fn steps(&mut self, seconds: u64, foreign: &[f64]) {
        for _ in 0..seconds {
            self.step(foreign);
        }
    }

    fn actions(&self) -> Vec<(u64, Action)> {
        self.log.iter().map(|(second, decision)| (*second, decision.action)).collect()
    }
}

#[test]
fn quiet_machine_no_decision() {
    let mut machine = Machine::new(4, &[0, 1, 2, 3], 0.9);
    machine.steps(600, &[0.05, 0.0, 0.1, 0.02]);
    assert_eq!(machine.actions(), []);
}

#[test]
fn a_noisy_neighbour_is_left_for_a_free_cpu_and_home_is_taken_again() {
    let mut machine = Machine::new(4, &[0, 1], 0.6);
    machine.steps(60, &[0.0; 4]);
    machine.steps(60, &[1.0, 0.0, 0.3, 0.1]);
    // Three disturbed periods, then the idler of the two free CPUs.
    assert_eq!(machine.actions(), [(63, Action::Move(3))]);
    machine.steps(60, &[0.0; 4]);
    // Quiet since second 121.
    assert_eq!(machine.actions()[1..], [(151, Action::Repin(0))]);
    assert!(machine.log.iter().all(|(_, decision)| decision.thread == 0));
}

#[test]
fn with_a_thread_on_every_cpu_the_disturbed_one_is_released() {
    let mut machine = Machine::new(4, &[0, 1, 2, 3], 0.4);
    machine.steps(10, &[0.0; 4]);
    machine.steps(30, &[0.0, 1.0, 0.0, 0.0]);
    assert_eq!(machine.log.len(), 1);
    assert_eq!(machine.log[0], (13, Decision { thread: 1, action: Action::Release }));
    machine.steps(60, &[0.0; 4]);
    assert_eq!(machine.actions()[1..], [(71, Action::Repin(1))]);
}

#[test]
fn when_all_is_busy_everybody_stays() {
    let mut machine = Machine::new(4, &[0, 1, 2, 3], 0.9);
    machine.steps(300, &[0.9; 4]);
    assert_eq!(machine.actions(), []);
    // Free CPUs that are busy with something else are no better.
    let mut machine = Machine::new(4, &[0, 1], 0.9);
    machine.steps(300, &[0.9; 4]);
    assert_eq!(machine.actions(), []);
}

#[test]
fn one_cpu_is_one_cpu() {
    let mut machine = Machine::new(1, &[0], 0.9);
    machine.steps(300, &[1.0]);
    assert_eq!(machine.actions(), []);
}

#[test]
fn room_that_is_scattered_is_left_to_the_scheduler() {
    // No CPU idles for more than half of the time, but together there is room for the thread.
    let mut machine = Machine::new(4, &[0, 1, 2, 3], 0.6);
    machine.steps(30, &[0.9, 0.0, 0.0, 0.0]);
    assert_eq!(machine.actions(), [(5, Action::Release)]);
}

#[test]
fn a_short_burst_is_sat_out() {
    let mut machine = Machine::new(4, &[0, 1], 0.6);
    for _ in 0..100 {
        machine.steps(2, &[1.0, 0.0, 0.0, 0.0]);
        machine.steps(4, &[0.0; 4]);
    }
    assert_eq!(machine.actions(), []);
}

#[test]
fn a_flapping_neighbour_does_not_make_the_thread_flap() {
    // Five seconds on, five off: home is never quiet for long, so one move is all.
    let mut machine = Machine::new(4, &[0, 1], 0.6);
    for _ in 0..360 {
        machine.steps(5, &[1.0, 0.0, 0.0, 0.0]);
        machine.steps(5, &[0.0; 4]);
    }
    assert_eq!(machine.log.len(), 1, "{:?}", machine.actions());

    // A minute on, a minute off, for six hours: the time away doubles, so that there are a few decisions, not 720.
    let mut machine = Machine::new(4, &[0, 1], 0.6);
    for _ in 0..180 {
        machine.steps(60, &[1.0, 0.0, 0.0, 0.0]);
        machine.steps(60, &[0.0; 4]);
    }
    assert!(machine.log.len() <= 40, "{:?}", machine.actions());
    let late = machine.log.iter().filter(|(second, _)| *second > 5 * 3600).count();
    assert!(late <= 4, "{late} in the last hour");
}

#[test]
fn a_neighbour_that_follows_is_left_again_but_not_at_once() {
    let mut machine = Machine::new(4, &[0], 0.6);
    machine.steps(10, &[0.0; 4]);
    let mut foreign = [1.0, 0.0, 0.0, 0.0];
    for _ in 0..60 {
        let at = match machine.places[0] {
            Place::Away(cpu) => usize::from(cpu),
            _ => 0,
        };
        foreign = [0.0; 4];
        foreign[at] = 1.0;
        machine.step(&foreign);
    }
    let seconds: Vec<u64> = machine.log.iter().map(|(second, _)| *second).collect();
    assert!(seconds.windows(2).all(|pair| pair[1] - pair[0] >= SETTLE.as_secs()), "{seconds:?}");
    assert!(seconds.len() <= 7, "{seconds:?} {foreign:?}");
}

#[test]
fn at_most_one_thread_is_decided_on_in_a_period() {
    let mut machine = Machine::new(6, &[0, 1, 2], 0.6);
    machine.steps(10, &[0.0; 6]);
    machine.demand[2] = 0.8;
    machine.steps(5, &[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
    let mut decided: Vec<_> =
        machine.log.iter().map(|(second, decision)| (*second, decision.thread)).collect();
    assert_eq!(decided[0], (13, 2), "the most disturbed goes first");
    decided.sort_unstable_by_key(|(_, thread)| *thread);
    assert_eq!(decided.iter().map(|(_, thread)| *thread).collect::<Vec<_>>(), [0, 1, 2]);
    let mut targets: Vec<_> = machine.actions().iter().map(|(_, action)| format!("{action:?}")).collect();
    targets.dedup();
    assert_eq!(targets.len(), 3, "no two on one CPU");
}

#[test]
fn a_constant_delay_is_usual_if_it_grew_slowly() {
    let mut machine = Machine::new(2, &[0], 0.5);
    // From no delay to a fifth of the time, over ten minutes.
    for step in 0..600 {
        machine.step(&[0.5 + f64::from(step) / 3000.0, 0.0]);
    }
    assert_eq!(machine.actions(), []);
    machine.steps(10, &[1.5, 0.0]);
    assert_eq!(machine.log.len(), 1, "a jump is a jump");
}

#[test]
fn the_same_node_and_a_whole_core_are_preferred() {
    let cpu = |id, core, node| Cpu { id, core, node, capacity: 1024 };
    // 0 is home; 1 is in another node; 3 shares its core with 2, which is busy; 4 has a core for itself.
    let cpus = vec![cpu(0, 0, 0), cpu(1, 1, 1), cpu(2, 2, 0), cpu(3, 2, 0), cpu(4, 4, 0)];
    let mut machine = Machine::with_cpus(cpus, &[0], 0.6);
    machine.steps(10, &[1.0, 0.0, 0.9, 0.0, 0.2]);
    assert_eq!(machine.actions(), [(5, Action::Move(4))]);
}

#[test]
fn a_machine_that_slept_is_not_judged() {
    let mut machine = Machine::new(2, &[0], 0.6);
    machine.steps(5, &[0.0, 0.0]);
    machine.steps(2, &[1.0, 0.0]);
    // The clock jumps, and so do all counters.
    machine.second += 60;
    machine.step(&[1.0, 0.0]);
    assert_eq!(machine.actions(), []);
    machine.steps(2, &[1.0, 0.0]);
    assert_eq!(machine.actions(), [], "the streak began anew");
    machine.step(&[1.0, 0.0]);
    assert_eq!(machine.log.len(), 1);
}

#[test]
fn threads_that_are_not_pinned_or_given_up_are_left_alone() {
    let mut machine = Machine::new(4, &[0], 0.6);
    machine.adapter.give_up(0);
    machine.steps(60, &[1.0, 0.0, 0.0, 0.0]);
    assert_eq!(machine.actions(), []);
    assert_eq!(machine.adapter.pinned_to(0), None);
    assert_eq!(machine.adapter.pinned_to(7), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever other programs do: decisions keep their distance, targets are free, and a thread that went away
    /// returns once all is quiet.
    #[test]
    fn decisions_are_sane(
        loads in proptest::collection::vec((1_u64..90, proptest::collection::vec(0.0..1.5_f64, 5)), 1..40),
        demand in 0.1..1.0_f64,
    ) {
        let mut machine = Machine::new(5, &[0, 1, 2], demand);
        for (seconds, foreign) in &loads {
            machine.steps(*seconds, foreign);
            let pinned: Vec<u16> = (0..3).filter_map(|thread| machine.adapter.pinned_to(thread)).collect();
            let mut distinct = pinned.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), pinned.len(), "two threads on one CPU");
        }
        for thread in 0..3 {
            let own: Vec<u64> =
                machine.log.iter().filter(|(_, one)| one.thread == thread).map(|(second, _)| *second).collect();
            prop_assert!(own.windows(2).all(|pair| pair[1] - pair[0] >= SETTLE.as_secs()), "{:?}", own);
        }
        machine.steps(HOLD_MAX.as_secs() + QUIET_MIN.as_secs() + 10, &[0.0; 5]);
        prop_assert!(machine.places.iter().all(|place| *place == Place::Home), "{:?}", machine.places);
    }
}
