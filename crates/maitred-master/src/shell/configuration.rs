//! The configuration by the admin address: its text, and another one that is to be in force.

use super::Shell;
use crate::config_file::{ConfigText, Proposed, Staged};
use crate::state::events::{Asker, Event, Plan, Proposal, Refusal};
use maitred_config as config;
use maitred_control::{ConfigCommand, Document};

impl Shell<'_> {
    /// Carries out what a client asks about the configuration; `text` is what came before the command.
    pub(super) fn config_command(&mut self, asker: Asker, command: ConfigCommand, text: String) {
        let present = self.plan_present.and_then(|number| self.plans.get(&number));
        let Some(present) = present.and_then(|plan| plan.text.as_ref()) else {
            let why = "there is no configuration file: the server was started with options";
            return self.answer_with(asker, &answer(404, None, why));
        };
        let etag = present.etag();
        match command {
            ConfigCommand::Show => {
                let text = present.text.clone();
                let document = Document {
                    status: 200,
                    content_type: "application/toml".to_owned(),
                    etag: Some(etag),
                    text,
                };
                self.answer_with(asker, &document);
            }
            ConfigCommand::Put { expected } if !expected.is_empty() && !expected.contains(&etag) => {
                let why = "another configuration is in force than the one that was asked for: read it again";
                self.answer_with(asker, &answer(412, Some(etag), why));
            }
            ConfigCommand::Put { .. } if text.len() as u64 > maitred_base::bounds::CONFIG_TEXT_BYTES_MAX => {
                self.answer_with(asker, &answer(413, None, "the configuration is too long"));
            }
            ConfigCommand::Put { .. } => {
                let path = present.path.clone();
                self.events.push_back(Event::Proposed(asker, Box::new(Proposal { path, text })));
            }
        }
    }

    /// Prepares what was proposed: everything that can fail does so before anything changes.
    pub(super) fn prepare_proposed(&mut self, asker: Asker, proposal: Proposal) {
        let text = ConfigText { path: proposal.path, text: proposal.text };
        self.proposed = Some(Proposed { asker, etag: text.etag(), unwritten: None });
        let result = self.prepare_text(text);
        self.events.push_back(Event::Prepared(result));
    }

    fn prepare_text(&mut self, text: ConfigText) -> Result<Plan, Refusal> {
        let refused = |text| Refusal { exit_code: 1, text };
        let present = self.plan_present.and_then(|number| self.plans.get(&number));
        let present = present.and_then(|plan| plan.text.as_ref());
        let present = present.ok_or_else(|| refused("there is no configuration file".to_owned()))?;
        let staged = Staged::write(present, &text.text).map_err(refused)?;
        let loaded = config::load_text(&text.path, text.text).map_err(Refusal::from)?;
        let plan = self.prepare_loaded(loaded)?;
        if let Some(prepared) = self.plans.get_mut(&plan.number) {
            prepared.staged = Some(staged);
        }
        Ok(plan)
    }

    /// A configuration is in force: its text takes the place of the file, if it did not come from there.
    pub(super) fn place_text(&mut self, number: u64) {
        let Some(staged) = self.plans.get_mut(&number).and_then(|plan| plan.staged.take()) else { return };
        if let Err(error) = staged.place() {
            let why = format!("it is in force, but its file could not be replaced: {error}");
            tracing::error!("the configuration that came by the admin address: {why}");
            if let Some(proposed) = &mut self.proposed {
                proposed.unwritten = Some(why);
            }
        }
    }

    /// The answer to one that proposed a configuration, in its form; `None` if another command is answered.
    pub(super) fn answer_to_proposal(&mut self, asker: Asker, well: bool, text: &str) -> Option<Document> {
        let Proposed { etag, unwritten, .. } = self.proposed.take_if(|proposed| proposed.asker == asker)?;
        Some(match (well, unwritten) {
            (true, None) => answer(200, Some(etag), text),
            (true, Some(why)) => answer(500, Some(etag), &why),
            (false, _) => answer(422, None, text),
        })
    }
}

fn answer(status: u16, etag: Option<String>, text: &str) -> Document {
    Document { status, content_type: "text/plain; charset=utf-8".to_owned(), etag, text: format!("{text}\n") }
}
