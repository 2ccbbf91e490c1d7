//! A person who was invited: their links and sessions.

use serde::Serialize;

use crate::event::{Millis, PersonId, Role};

/// How long a link signs in. Sessions that it began may last longer.
pub(crate) const LINK_LIFETIME: Millis = 30 * DAY;
/// Shortest remaining time of a link that is given out.
pub(crate) const SHORTEST_LINK: Millis = 7 * DAY;
/// Most valid links of a person; more are a mistake.
pub(crate) const MOST_LINKS: usize = 20;
const DAY: Millis = 24 * 60 * 60 * 1000;

/// A person who was invited.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Person {
    pub(crate) id: PersonId,
    pub(crate) name: String,
    pub(crate) role: Role,
    /// All links ever made, by number.
    links: Vec<Link>,
    /// The sessions that the person ended early, identified by the time at which they would have
    /// ended.
    ended: Vec<Millis>,
    pub(crate) removed: bool,
    /// The last version of the guidelines that the person has read; 0 if none.
    pub(crate) guidelines_read: u32,
}

/// A link that signs a person in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    until: Millis,
    revoked: bool,
}

/// A valid link, without its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LinkView {
    pub(crate) number: u32,
    pub(crate) until: Millis,
}

impl Person {
    /// A new person, with a link.
    pub(crate) fn new(id: PersonId, name: String, role: Role, at: Millis) -> Self {
        let (links, ended) = (Vec::new(), Vec::new());
        let mut person =
            Person { id, name, role, links, ended, removed: false, guidelines_read: 0 };
        person.add_link(at);
        person
    }

    pub(super) fn add_link(&mut self, at: Millis) {
        self.links.push(Link { until: at + LINK_LIFETIME, revoked: false });
    }

    pub(super) fn revoke_link(&mut self, link: u32) {
        if let Some(link) = self.links.get_mut(link as usize) {
            link.revoked = true;
        }
    }

    pub(super) fn revoke_all_links(&mut self) {
        self.links.iter_mut().for_each(|link| link.revoked = true);
    }

    pub(super) fn end_session(&mut self, until: Millis, at: Millis) {
        self.ended.retain(|end| *end > at && *end != until);
        self.ended.push(until);
    }

    /// Returns whether this process knows of a link.
    pub(super) fn has_link(&self, link: u32) -> bool {
        (link as usize) < self.links.len()
    }

    /// Returns whether a link signs in.
    pub(crate) fn lets_in(&self, link: u32, now: Millis) -> bool {
        let link = self.links.get(link as usize);
        link.is_some_and(|link| !link.revoked && link.until > now)
    }

    /// Returns whether a session that a link began is still valid.
    pub(crate) fn stays_in(&self, link: u32, until: Millis, now: Millis) -> bool {
        let link = self.links.get(link as usize);
        until > now && link.is_some_and(|link| !link.revoked) && !self.ended.contains(&until)
    }

    /// The valid links.
    pub(crate) fn links(&self, now: Millis) -> impl DoubleEndedIterator<Item = LinkView> {
        let links = self.links.iter().enumerate();
        let works = move |link: &Link| !link.revoked && link.until > now;
        links
            .filter(move |(_, link)| works(link))
            .map(|(number, link)| LinkView { number: number as u32, until: link.until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_end_one_by_one() {
        let mut ann = Person::new(1, "ann".into(), Role::Annotator, 0);
        ann.add_link(DAY);
        let numbers =
            |ann: &Person, now| ann.links(now).map(|link| link.number).collect::<Vec<_>>();
        assert_eq!(numbers(&ann, DAY), [0, 1]);
        assert_eq!(numbers(&ann, LINK_LIFETIME), [1], "the first one is too old");
        assert!(
            !ann.lets_in(0, LINK_LIFETIME) && ann.lets_in(1, LINK_LIFETIME) && !ann.lets_in(2, 0)
        );
        // A session outlasts its link, but not the revocation of it.
        assert!(ann.stays_in(0, LINK_LIFETIME + DAY, LINK_LIFETIME));
        ann.revoke_link(0);
        assert!(
            !ann.stays_in(0, LINK_LIFETIME + DAY, LINK_LIFETIME)
                && ann.stays_in(1, LINK_LIFETIME + DAY, LINK_LIFETIME)
        );
        ann.revoke_all_links();
        assert!(!ann.lets_in(1, 0));
    }

    #[test]
    fn sessions_end_one_by_one() {
        let mut ann = Person::new(1, "ann".into(), Role::Annotator, 0);
        ann.end_session(500, 100);
        assert!(!ann.stays_in(0, 500, 100) && ann.stays_in(0, 501, 100));
        // A session that has expired need not be stored.
        ann.end_session(900, 600);
        assert_eq!(ann.ended, [900]);
    }
}
