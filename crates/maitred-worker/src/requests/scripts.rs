//! Requests to a pool of FastCGI with scripts: which script it is, or which file is the answer (`files::scripts` of
//! maitred-files, on a set of the pool's own: `Plan::script_set`). The look-up never waits for a disk: a request that would have
//! to wait does so as requests for files do, and comes here again.

use super::Requests;
use crate::keys::ConnKey;
use crate::step::{RequestInput, Step};
use maitred_files::{RequestContext, ScriptRules, Served};

impl Requests {
    /// Sends a request to its script, or answers it. `set` are the files of the pool.
    pub(crate) fn send_to_script(
        &mut self,
        index: ConnKey,
        (pool, set): (usize, usize),
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Step {
        let settings = self.shared.start.config.pools.get(pool).and_then(|pool| pool.source.fastcgi());
        let front = given.routed.plan.front_controller.as_deref();
        let rules = settings.map(|settings| ScriptRules {
            index: settings.index.as_bytes(),
            php: settings.php,
            front,
        });
        let Some(rules) = rules else { return self.site_error(index, context.request, given, (500, &[])) };
        let reply = self.reply_context(index, context.request, given);
        let (files, mut writer) = self.files_and_writer(index, reply);
        match files.script(set, rules, context, &mut writer) {
            Ok(script) => {
                self.send_to_pool(index, pool, context, RequestInput { script: Some(&script), ..given })
            }
            Err(served) => {
                if !matches!(served, Served::Blocked(_)) {
                    // The connection may go on, and its next request must not find this one's body.
                    self.drop_spool(index);
                }
                self.served(index, context.request, given, reply.persistence, served)
            }
        }
    }

    pub(crate) fn drop_spool(&mut self, index: ConnKey) {
        let connection = self.connections.get_mut(index);
        if let Some(exchange) = connection.and_then(|connection| connection.exchange.as_deref_mut()) {
            exchange.body.spool = None;
        }
    }
}
