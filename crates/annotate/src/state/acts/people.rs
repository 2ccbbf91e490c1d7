//! Acts on people, their links and sessions.

use super::super::MOST_LINKS;
use super::{ActContext, ActResult};
use crate::error::Refusal;
use crate::event::{EventKind, Millis, PersonId, Role};

impl ActContext<'_> {
    /// Refuses an act on a person who does not exist.
    fn check_person(&self, person: PersonId) -> Result<(), Refusal> {
        let known = self.state.person(person).is_some();
        known.then_some(()).ok_or_else(|| Refusal::not_found("there is no such person"))
    }

    pub(super) fn invite(&mut self, name: String, role: Role) -> Result<ActResult, Refusal> {
        if self.state.named(&name).is_some() {
            let message = "there is or was somebody of this name; take another one";
            return Err(Refusal::conflict("taken", message));
        }
        let person = self.state.people.keys().next_back().map_or(1, |last| last + 1);
        self.emit(EventKind::Invited { person, name, role });
        Ok(ActResult::Number(person))
    }

    pub(super) fn add_link(&mut self, person: PersonId) -> Result<ActResult, Refusal> {
        self.check_person(person)?;
        let links =
            self.state.person(person).map_or(0, |person| person.links(self.now.wall).count());
        // The app itself may add one if all others expire soon.
        if self.by.is_some() && links >= MOST_LINKS {
            let message = format!("there are {links} links of this person; revoke some");
            return Err(Refusal::conflict("links", message));
        }
        self.emit(EventKind::LinkAdded { person });
        Ok(ActResult::Nothing)
    }

    pub(super) fn remove(&mut self, person: PersonId) -> Result<ActResult, Refusal> {
        self.check_person(person)?;
        let leads = self.state.people.values().filter(|p| p.role == Role::Lead && !p.removed);
        if leads.map(|lead| lead.id).eq([person]) {
            return Err(Refusal::conflict("last_lead", "the last lead cannot be removed"));
        }
        self.let_go(person)?;
        self.emit(EventKind::Removed { person });
        Ok(ActResult::Nothing)
    }

    pub(super) fn renew_link(&mut self, person: PersonId) -> Result<ActResult, Refusal> {
        self.check_person(person)?;
        self.emit(EventKind::LinkRenewed { person });
        Ok(ActResult::Nothing)
    }

    pub(super) fn revoke_link(
        &mut self,
        person: PersonId,
        link: u32,
    ) -> Result<ActResult, Refusal> {
        let known = self.state.person(person);
        if !known.is_some_and(|person| person.lets_in(link, self.now.wall)) {
            return Err(Refusal::not_found("there is no such link, or it has ended"));
        }
        self.emit(EventKind::LinkRevoked { person, link });
        Ok(ActResult::Nothing)
    }

    pub(super) fn sign_out(&mut self, until: Millis) -> Result<ActResult, Refusal> {
        let person = self.person()?;
        self.let_go(person)?;
        self.emit(EventKind::SignedOut { person, until });
        Ok(ActResult::Nothing)
    }
}
