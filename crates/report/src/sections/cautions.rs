//! What the reader should check first.

use nextpair_scenario::{Study, cautions};

use super::super::page::escaped;
use super::Sections;

impl Sections {
    /// Adds a section if anything looks wrong.
    pub(super) fn cautions(&mut self, studies: &[Study]) {
        let said = cautions(studies);
        if said.is_empty() {
            return;
        }
        let items: String =
            said.iter().map(|sentence| format!("<li>{}</li>", escaped(sentence))).collect();
        self.section("check", "What to check", &format!("<ul>{items}</ul>"));
    }
}
