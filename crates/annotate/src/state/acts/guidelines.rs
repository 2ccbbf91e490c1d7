//! Acts on the guidelines.

use super::{ActContext, ActResult};
use crate::error::Refusal;
use crate::event::EventKind;

impl ActContext<'_> {
    pub(super) fn set_guidelines(
        &mut self,
        text: String,
        after: Option<u32>,
    ) -> Result<ActResult, Refusal> {
        let known = &self.state.guidelines;
        let changed = match after {
            // The settings: only if their file changed, or a lead's version would be lost.
            None => known.from_file.as_deref() != Some(text.as_str()),
            Some(after) if after != known.version && *known.text != *text => {
                let message = "somebody else has changed the guidelines meanwhile; look at theirs";
                return Err(Refusal::conflict("changed", message));
            }
            Some(_) => *known.text != *text,
        };
        if changed {
            self.emit(EventKind::Guidelines { text });
        }
        Ok(ActResult::Number(i64::from(self.state.guidelines.version)))
    }

    pub(super) fn read_guidelines(&mut self, version: u32) -> Result<ActResult, Refusal> {
        let person = self.person()?;
        if self.state.unread_guidelines(person).is_some_and(|unread| version == unread) {
            self.emit(EventKind::GuidelinesRead { person, version });
        }
        Ok(ActResult::Nothing)
    }
}
