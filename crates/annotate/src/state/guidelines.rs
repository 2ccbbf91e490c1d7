//! The guidelines of the lead, and who has read which version of them.

use std::sync::Arc;

use crate::event::{Event, PersonId};

/// The guidelines and their version, from 1; 0 before there were any.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Guidelines {
    pub(crate) version: u32,
    /// Markdown; empty if there are none.
    pub(crate) text: Arc<str>,
    /// What the file of the settings said last. A lead may have changed the guidelines since, and a
    /// restart with the same file must not take that back.
    pub(super) from_file: Option<Arc<str>>,
}

impl Guidelines {
    pub(super) fn change(&mut self, event: &Event, text: &str) {
        self.version += 1;
        self.text = text.into();
        if event.by.is_none() {
            self.from_file = Some(Arc::clone(&self.text));
        }
    }

    /// The current version, unless there are no guidelines.
    pub(crate) fn current(&self) -> Option<u32> {
        (!self.text.is_empty()).then_some(self.version)
    }
}

impl super::State {
    /// The version of the guidelines that a person has yet to read, if any.
    pub(crate) fn unread_guidelines(&self, person: PersonId) -> Option<u32> {
        let read = self.people.get(&person).map_or(0, |person| person.guidelines_read);
        self.guidelines.current().filter(|version| *version > read)
    }
}
