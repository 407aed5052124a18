//! The events: requests come, wait, are served; processes start, drain and die.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::outcome::{Outcome, Sample};
use crate::policy::{Layout, Orders, Policy};
use crate::process::{Process, Request, State, View};
use crate::random::Random;
use crate::scenario::{Clients, Scenario};
use crate::{Micros, SECOND, micros, seconds};

/// A process: bucket, slot, and which one of that slot.
type Id = (usize, usize, u32);

#[derive(Debug, Clone, Copy)]
enum Event {
    Arrives,
    Returns,
    ThreadReady(Id),
    Done(Id, Request),
    Dies(Id),
    AllDie,
    Decide,
    Sample,
}

/// Runs a scenario under a policy.
pub fn run(scenario: &Scenario, policy: &mut dyn Policy) -> Outcome {
    let mut world = World::new(scenario, policy.layout());
    world.outcome.policy = policy.name();
    while let Some((now, event)) = world.next() {
        if now > scenario.length {
            break;
        }
        world.now = now;
        world.happens(event, policy);
    }
    world.outcome.length = scenario.length;
    world.outcome
}

struct World<'a> {
    scenario: &'a Scenario,
    layout: Layout,
    now: Micros,
    events: BinaryHeap<Reverse<(Micros, u64, usize)>>,
    /// The events themselves, so that the heap holds what can be compared.
    kept: Vec<Event>,
    free: Vec<usize>,
    serial: u64,
    buckets: Vec<Vec<Process>>,
    queues: Vec<VecDeque<Request>>,
    busy: u32,
    /// What clients do, which is the same under every policy.
    of_clients: Random,
    of_servers: Random,
    /// The most requests per second.
    peak: f64,
    outcome: Outcome,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, layout: Layout) -> World<'a> {
        let buckets = scenario.buckets.len();
        let mut world = World {
            scenario,
            layout,
            now: 0,
            events: BinaryHeap::new(),
            kept: Vec::new(),
            free: Vec::new(),
            serial: 0,
            buckets: vec![vec![Process::default(); layout.slots]; buckets],
            queues: vec![VecDeque::new(); buckets],
            busy: 0,
            of_clients: Random::new(scenario.seed),
            of_servers: Random::new(scenario.seed ^ u64::MAX),
            peak: 0.0,
            outcome: Outcome::default(),
        };
        world.at(0, Event::Decide);
        world.at(0, Event::Sample);
        if let Some(crashes) = scenario.crashes.filter(|crashes| crashes.all) {
            world.at(crashes.from, Event::AllDie);
        }
        world.begin();
        world
    }

    /// The first requests.
    fn begin(&mut self) {
        match self.scenario.clients {
            Clients::Closed { count, away } => {
                for _ in 0..count {
                    let at = micros(self.of_clients.exponential(away));
                    self.at(at, Event::Returns);
                }
            }
            Clients::Open(rate) => {
                let times = 0..=self.scenario.length / SECOND;
                self.peak = times.map(|at| rate(at as f64)).fold(0.0, f64::max);
                self.at(0, Event::Arrives);
            }
        }
    }

    fn at(&mut self, time: Micros, event: Event) {
        let place = match self.free.pop() {
            Some(place) => {
                self.kept[place] = event;
                place
            }
            None => {
                self.kept.push(event);
                self.kept.len() - 1
            }
        };
        self.serial += 1;
        self.events.push(Reverse((time, self.serial, place)));
    }

    fn next(&mut self) -> Option<(Micros, Event)> {
        let Reverse((time, _, place)) = self.events.pop()?;
        self.free.push(place);
        Some((time, self.kept[place]))
    }

    fn happens(&mut self, event: Event, policy: &mut dyn Policy) {
        match event {
            Event::Arrives => self.arrives(),
            Event::Returns => self.request(true),
            Event::ThreadReady(id) => self.thread_ready(id),
            Event::Done(id, request) => self.done(id, request),
            Event::Dies(id) => self.dies(id, policy),
            Event::AllDie => {
                for (bucket, slot) in self.all_slots() {
                    self.dies((bucket, slot, self.buckets[bucket][slot].epoch), policy);
                }
            }
            Event::Decide => {
                self.forget_the_impatient();
                let queued: Vec<u32> = self.queues.iter().map(|queue| queue.len() as u32).collect();
                let orders = policy.decide(&View { now: self.now, buckets: &self.buckets, queued: &queued });
                self.carry_out(&orders);
                self.at(self.now + self.layout.interval, Event::Decide);
            }
            Event::Sample => {
                self.sample();
                self.at(self.now + SECOND, Event::Sample);
            }
        }
    }

    fn all_slots(&self) -> Vec<(usize, usize)> {
        let slots = self.layout.slots;
        (0..self.buckets.len()).flat_map(|bucket| (0..slots).map(move |slot| (bucket, slot))).collect()
    }

    /// A request of the open kind may arrive: candidates come at the highest rate, and as many are taken as there should be.
    fn arrives(&mut self) {
        let Clients::Open(rate) = self.scenario.clients else { return };
        if self.of_clients.unit() * self.peak < rate(seconds(self.now)) {
            self.request(false);
        }
        let next = micros(self.of_clients.exponential(1.0 / self.peak)).max(1);
        self.at(self.now + next, Event::Arrives);
    }

    fn request(&mut self, returns: bool) {
        let service = self.scenario.service.draw(&mut self.of_clients);
        let service = (service as f64 * self.scenario.swell.at(self.now, self.scenario.seed)) as Micros + 1;
        let bucket = self.of_clients.weighted(self.scenario.buckets);
        self.queues[bucket].push_back(Request { arrived: self.now, service, returns });
        self.accept(bucket);
    }

    fn goes_away(&mut self, request: Request) {
        if let (true, Clients::Closed { away, .. }) = (request.returns, self.scenario.clients) {
            let at = self.now + micros(self.of_clients.exponential(away));
            self.at(at, Event::Returns);
        }
    }

    /// How many requests more a process would accept.
    fn room(&self, process: &Process) -> u32 {
        if process.state != State::Serving {
            return 0;
        }
        let limit = if self.layout.eager { self.layout.threads + process.ready } else { process.ready };
        limit.saturating_sub(process.busy + process.pending.len() as u32)
    }

    /// Any of the processes with room.
    fn choose(&mut self, bucket: usize) -> Option<usize> {
        let rooms = self.buckets[bucket].iter().filter(|process| self.room(process) > 0).count();
        if rooms == 0 {
            return None;
        }
        let chosen = self.of_servers.below(rooms);
        let slots = self.buckets[bucket].iter().enumerate();
        slots.filter(|(_, process)| self.room(process) > 0).nth(chosen).map(|(slot, _)| slot)
    }

    /// Empties the accept queue, as far as there is room.
    fn accept(&mut self, bucket: usize) {
        while !self.queues[bucket].is_empty() {
            let Some(slot) = self.choose(bucket) else { return };
            if let Some(request) = self.queues[bucket].pop_front() {
                self.buckets[bucket][slot].pending.push_back(request);
                self.work(bucket, slot);
            }
        }
    }

    /// Threads take what their process has accepted.
    fn work(&mut self, bucket: usize, slot: usize) {
        let now = self.now;
        let process = &mut self.buckets[bucket][slot];
        let id = (bucket, slot, process.epoch);
        let mut begun = Vec::new();
        while process.busy < process.ready {
            let Some(request) = process.pending.pop_front() else { break };
            if process.busy == 0 && process.state == State::Serving {
                process.since = now;
            }
            process.busy += 1;
            process.handled += 1;
            begun.push(request);
        }
        self.busy += begun.len() as u32;
        for request in begun {
            self.outcome.waits.add(now - request.arrived);
            self.at(now + request.service, Event::Done(id, request));
        }
    }

    fn is_alive(&self, (bucket, slot, epoch): Id) -> bool {
        let process = &self.buckets[bucket][slot];
        process.epoch == epoch && process.state != State::Empty
    }

    fn done(&mut self, id: Id, request: Request) {
        if !self.is_alive(id) {
            return;
        }
        let (bucket, slot, _) = id;
        let process = &mut self.buckets[bucket][slot];
        process.busy -= 1;
        self.busy -= 1;
        self.outcome.done += 1;
        if process.busy == 0 && process.state == State::Serving {
            process.since = self.now;
        }
        self.goes_away(request);
        self.work(bucket, slot);
        self.end_if_drained(bucket, slot);
        self.accept(bucket);
    }

    fn end_if_drained(&mut self, bucket: usize, slot: usize) {
        let process = &mut self.buckets[bucket][slot];
        if process.state == State::Draining && process.busy == 0 && process.pending.is_empty() {
            *process = Process { epoch: process.epoch + 1, ..Process::default() };
        }
    }

    fn start(&mut self, bucket: usize) {
        let empty = |process: &Process| process.state == State::Empty;
        let Some(slot) = self.buckets[bucket].iter().position(empty) else { return };
        let process = &mut self.buckets[bucket][slot];
        let epoch = process.epoch + 1;
        let (since, started) = (self.now, self.now);
        *process = Process { state: State::Starting, since, started, epoch, ..Process::default() };
        self.outcome.starts += 1;
        // No two processes take the same time.
        let startup = self.scenario.startup as f64 * (0.8 + 0.4 * self.of_servers.unit());
        self.at(self.now + startup as Micros, Event::ThreadReady((bucket, slot, epoch)));
        if let Some(crashes) = self.scenario.crashes
            && (crashes.from..crashes.until).contains(&self.now)
        {
            self.at(self.now + crashes.age, Event::Dies((bucket, slot, epoch)));
        }
    }

    /// How long the next thread takes: creating one competes with those that work, and with others that create.
    fn thread_startup(&self) -> Micros {
        let creates = |process: &&Process| {
            matches!(process.state, State::Starting | State::Serving)
                && (1..self.layout.threads).contains(&process.ready)
        };
        let creators = self.buckets.iter().flatten().filter(creates).count().max(1);
        let slower = 1.0 + f64::from(self.busy) / self.scenario.contention;
        (self.scenario.thread_startup as f64 * slower * creators as f64) as Micros
    }

    fn thread_ready(&mut self, id: Id) {
        let (bucket, slot, _) = id;
        if !self.is_alive(id) || self.buckets[bucket][slot].state == State::Draining {
            return;
        }
        let layout = self.layout;
        let process = &mut self.buckets[bucket][slot];
        process.ready += 1;
        if process.state == State::Starting && (layout.eager || process.ready == layout.threads) {
            (process.state, process.since) = (State::Serving, self.now);
        }
        if process.ready < layout.threads {
            let next = self.thread_startup();
            self.at(self.now + next, Event::ThreadReady(id));
        }
        self.work(bucket, slot);
        self.accept(bucket);
    }

    fn dies(&mut self, id: Id, policy: &mut dyn Policy) {
        if !self.is_alive(id) {
            return;
        }
        let (bucket, slot, epoch) = id;
        let process = &mut self.buckets[bucket][slot];
        let (started, was_ready) = (process.started, process.state == State::Serving);
        self.busy -= process.busy;
        self.outcome.deaths += 1;
        self.outcome.lost += u64::from(process.busy) + process.pending.len() as u64;
        *process = Process { epoch: epoch + 1, ..Process::default() };
        policy.died(self.now, bucket, self.now - started, was_ready);
    }

    fn carry_out(&mut self, orders: &Orders) {
        for &(bucket, slot) in &orders.drain {
            let process = &mut self.buckets[bucket][slot];
            if matches!(process.state, State::Starting | State::Serving) {
                let ready = process.state == State::Serving;
                (process.state, process.since) = (State::Draining, self.now);
                self.outcome.kills += 1;
                if !ready {
                    *process = Process { epoch: process.epoch + 1, ..Process::default() };
                }
            }
            self.end_if_drained(bucket, slot);
        }
        for &(bucket, count) in &orders.start {
            (0..count).for_each(|_| self.start(bucket));
        }
    }

    fn forget_the_impatient(&mut self) {
        for bucket in 0..self.queues.len() {
            let (now, timeout) = (self.now, self.scenario.timeout);
            let late = |request: &Request| now - request.arrived > timeout;
            while let Some(request) = self.queues[bucket].front().copied().filter(late) {
                self.queues[bucket].pop_front();
                self.outcome.refused += 1;
                self.goes_away(request);
            }
        }
    }

    fn sample(&mut self) {
        let mut sample = Sample { at: self.now, ..Sample::default() };
        sample.queued = self.queues.iter().map(|queue| queue.len() as u32).sum();
        let mut held = 0;
        for process in self.buckets.iter().flatten().filter(|process| process.state != State::Empty) {
            sample.processes += 1;
            sample.busy += process.busy;
            sample.queued += process.pending.len() as u32;
            held += self.layout.threads;
            match process.state {
                State::Draining => sample.draining += 1,
                State::Starting if !self.layout.eager => sample.starting += self.layout.threads,
                _ => {
                    sample.starting += self.layout.threads - process.ready;
                    sample.idle += process.ready - process.busy;
                }
            }
        }
        self.outcome.held += f64::from(held);
        self.outcome.used += f64::from(sample.busy);
        self.outcome.peak = self.outcome.peak.max(held);
        self.outcome.samples.push(sample);
    }
}
