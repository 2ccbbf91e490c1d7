//! What people should look at before they believe an experiment or buy what it picked.

use std::collections::BTreeMap;

use crate::{Round, Study, Warning};

/// Returns a sentence for every kind of thing that looks wrong: a model that is near chance on the
/// test, and what guards found when batches were selected.
pub fn cautions(studies: &[Study]) -> Vec<String> {
    let rounds = || studies.iter().flat_map(|study| &study.rounds);
    let mut said: Vec<String> = Vec::new();
    let tested = || rounds().filter_map(|round| Some((round, round.test.first()?)));
    let mut useless = tested().filter(|(_, test)| test.is_near_chance() == Some(true));
    if let Some((round, test)) = useless.next() {
        let (count, all) = (1 + useless.count(), tested().count());
        said.push(format!(
            "The model is near chance on the test ({}: R@1 text {:.1} %, image {:.1} %, with {} \
             images) in {count} of {all} rounds: what such a model picks is no better than random.",
            place(round),
            test.text.r1,
            test.image.r1,
            test.images
        ));
    }
    let mut kinds: BTreeMap<&str, Vec<(&Round, &Warning)>> = BTreeMap::new();
    for round in rounds() {
        for warning in round.batch.iter().flat_map(|batch| &batch.warnings) {
            kinds.entry(&warning.kind).or_default().push((round, warning));
        }
    }
    let batches = rounds().filter(|round| round.batch.is_some()).count();
    for found in kinds.values() {
        let (round, warning) = found[0];
        let (count, text, place) = (found.len(), &warning.text, place(round));
        said.push(format!("In {count} of {batches} batches; {place}: {text}."));
    }
    said
}

fn place(round: &Round) -> String {
    let strategy =
        round.strategy.map_or_else(|| "all strategies".to_owned(), |arm| arm.to_string());
    format!("{strategy}, seed {}, round {}", round.seed, round.round)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn every_kind_is_said_once() {
        let fixture = Fixture::default();
        let mut study = fixture.study();
        assert_eq!(cautions(&[study.clone()]), Vec::<String>::new());
        let batches = study.rounds.iter_mut().filter_map(|round| round.batch.as_mut());
        for batch in batches.take(2) {
            let (kind, text) = ("hubs".to_owned(), "picks are near to everything".to_owned());
            batch.warnings.push(Warning { kind, text });
        }
        study.rounds[0].test[0].text.r1 = 0.1;
        study.rounds[0].test[0].image.r1 = 0.1;
        study.rounds[0].test[0].image.mean_rank = 500.0;
        let said = cautions(&[study]);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("The model is near chance on the test (all strategies, seed"));
        assert!(said[1].starts_with("In 2 of ") && said[1].ends_with("near to everything."));
    }
}
