//! Listen pools: starting and stopping their processes, asking the kernel about them, and showing what is known.

use std::time::{Duration, Instant};

use super::{App, Process, Shell, log_failure, resident_bytes};
use crate::cpu_time::CpuTime;
use crate::process;
use crate::state::events::{AcceptSeen, Event};
use crate::state::listen_pool::{ListenPool, SlotFace};
use maitred_base::unix_time;
use maitred_config::StopSignal;
use maitred_control::SlotId;
use maitred_status::scoreboard::{SlotRow, SlotState, StartRow};

/// The generation of processes that belong to none.
const NO_GENERATION: u64 = 0;

impl Shell<'_> {
    pub(super) fn spawn_accepting(&mut self, plan: u64, slot: SlotId, bucket: u16) -> std::io::Result<()> {
        let gone = || std::io::Error::other("its configuration is gone");
        let prepared = self.plans.get(&plan).ok_or_else(gone)?;
        let pool = prepared.config.pools.get(usize::from(slot.pool)).ok_or_else(gone)?;
        let (child, output) = process::start_accepting(prepared, pool, slot, bucket, self.open_files)?;
        let cpu = CpuTime::default();
        let (process, output, generation) = (Process::Own(child), Some(output), NO_GENERATION);
        let (channel, recovery) = (None, None);
        let app = App { process, slot, generation, channel, link: None, recovery, output, memory: 0, cpu };
        self.apps.insert(slot.epoch, app);
        Ok(())
    }

    pub(super) fn stop_app(&self, epoch: u64, signal: StopSignal) {
        if let Some(Process::Own(child)) = self.apps.get(&epoch).map(|app| &app.process) {
            log_failure("ending an application process", child.signal(process::signal_of(signal)));
        }
    }

    /// Asks the kernel about listen pools: queues each time, processes when `weighs` says so.
    pub(super) fn observe_accepting(&mut self, weighs: bool) {
        let Some(prepared) = self.plan_present.and_then(|number| self.plans.get(&number)) else { return };
        if self.machine.listen_pools().next().is_none() {
            return;
        }
        let queues = (0..prepared.config.pools.len()).map(|pool| {
            let queues = prepared.pool_sockets(pool).map(|sockets| sockets.queues()).unwrap_or_default();
            queues.into_iter().map(|(length, _)| length).collect()
        });
        let queues: Vec<Vec<u32>> = queues.collect();
        let (mut seen, now) = (Vec::new(), Instant::now());
        for (epoch, app) in self.apps.iter_mut().filter(|(_, app)| app.generation == NO_GENERATION) {
            if weighs {
                app.cpu.look(now, app.process.pid());
                app.memory = resident_bytes(app.process.pid()).unwrap_or(0);
            }
            seen.push(AcceptSeen { epoch: *epoch, share: app.cpu.share, memory: app.memory });
        }
        self.events.push_back(Event::Accepting { queues, seen });
    }

    /// Writes the rows of listen pools, which no thread of a worker process writes.
    pub(super) fn show_listen_pools(&self) {
        let Some(prepared) = self.plan_present.and_then(|number| self.plans.get(&number)) else { return };
        let unix = unix_time::now();
        for pool in self.machine.listen_pools() {
            let Some(sockets) = prepared.pool_sockets(usize::from(pool.index())) else { continue };
            let queues = sockets.queues();
            let before = (0..usize::from(pool.index())).filter_map(|other| prepared.pool_sockets(other));
            let first_bucket: usize = before.map(|sockets| sockets.queues().len()).sum();
            for worker in self.workers.values().filter(|worker| Some(worker.plan) == self.plan_present) {
                for (row, (length, max)) in worker.board.buckets.iter().skip(first_bucket).zip(&queues) {
                    row.queue.set(u64::from(*length));
                    row.queue_max.set(u64::from(*max));
                }
                let slots = prepared.config.pools.get(usize::from(pool.index()));
                let slots = slots.map_or(0, |pool| pool.workers.slots());
                for (slot, face) in (0..slots).zip(pool.faces()) {
                    let id = SlotId { pool: pool.index(), slot, epoch: face.epoch };
                    let Some(row) = prepared.slot_row(id) else { continue };
                    let Some(cells) = worker.board.slots.get(row) else { continue };
                    self.show_slot(cells, face, unix);
                    if let Some(start) = worker.board.starts.get(row) {
                        show_delay(start, pool, slot);
                    }
                }
            }
        }
    }

    fn show_slot(&self, cells: &SlotRow, face: SlotFace, unix: Duration) {
        let micros = u64::try_from(unix.as_micros()).unwrap_or(u64::MAX);
        let pid = self.apps.get(&face.epoch).map_or(0, |app| u64::from(app.process.pid()));
        if cells.starts.get() != face.starts {
            cells.starts.set(face.starts);
            cells.started_at.set(unix.as_secs());
        }
        cells.pid.set(if face.state == SlotState::Dead { 0 } else { pid });
        cells.enter(face.state, micros);
    }
}

fn show_delay(row: &StartRow, pool: &ListenPool, slot: u16) {
    match pool.delay().filter(|(number, ..)| *number == slot) {
        Some((_, until, deaths)) => row.delay(unix_time::secs_at(until), deaths),
        None => row.clear(),
    }
}
