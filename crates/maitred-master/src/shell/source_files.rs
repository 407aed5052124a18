//! Files of an application that are watched.

use std::time::Instant;

use super::Shell;
use crate::state::events::Event;

impl Shell<'_> {
    /// Has the processes of the application replaced if its files have changed.
    pub(super) fn look_at_sources(&mut self) {
        let changed = self.source_files.as_mut().and_then(|files| files.take(Instant::now()));
        self.events.extend(changed.map(Event::SourceChanged));
    }
}
