//! Certificates that change while the server runs.

use std::time::Instant;

use super::{Shell, Worker, log_failure};
use crate::certificates::Certificates;
use maitred_control::ToWorker;

impl Shell<'_> {
    /// When the files of certificates are to be looked at next.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.plans.get(&self.plan_present?)?.tls.as_ref().and_then(Certificates::next_look)
    }

    /// Looks at the files of certificates when that is due, and hands on what is new.
    pub(super) fn look_at_certificates(&mut self) {
        if self.next_look().is_some_and(|due| due <= Instant::now()) {
            self.look_again();
        }
    }

    /// Looks at the files of certificates now, and hands on what is new.
    pub(super) fn look_again(&mut self) {
        let now = Instant::now();
        let Some(prepared) = self.plan_present.and_then(|number| self.plans.get_mut(&number)) else { return };
        let Some(certificates) = &mut prepared.tls else { return };
        if certificates.look(&prepared.config, &self.around, now) {
            self.send_certificates();
            // What is shown to servers, and what theirs have to lead to, may be others.
            self.want_checks();
        }
    }

    /// Gives a worker process its first keys and certificates, those of its configuration. Without them it would wait for ever.
    pub(super) fn give_keys(&mut self, generation: u64) {
        let Some(worker) = self.workers.get_mut(&generation) else { return };
        let Some(tls) = self.plans.get_mut(&worker.plan).and_then(|plan| plan.tls.as_mut()) else { return };
        let pairs = self.supervisor.pairs();
        tls.material.challenges.clone_from(&pairs);
        match tls.seal(&self.around) {
            Ok(file) => {
                worker.channel.send(&ToWorker::Certificates, Some(file));
                worker.challenges = Some(pairs);
            }
            Err(error) => {
                tracing::error!(generation, %error, "TLS keys cannot be sent to the worker process; killing it");
                log_failure("kill", worker.child.kill());
            }
        }
    }

    /// Gives the keys and certificates of the configuration in force to the worker processes that run by it.
    pub(super) fn send_certificates(&mut self) {
        let Some(number) = self.plan_present else { return };
        let Some(certificates) = self.plans.get_mut(&number).and_then(|prepared| prepared.tls.as_mut())
        else {
            return;
        };
        let hidden = |worker: &&mut Worker| worker.plan == number && worker.challenges.is_some();
        for worker in self.workers.values_mut().filter(hidden) {
            match certificates.seal(&self.around) {
                Ok(file) => worker.channel.send(&ToWorker::Certificates, Some(file)),
                Err(error) => tracing::error!(%error, "certificates cannot be sent to the worker process"),
            }
        }
    }
}
