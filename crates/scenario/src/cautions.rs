//! What people should look at before they believe an experiment or buy what it picked.

use std::collections::BTreeMap;

use nextpair_models::Evaluation;

use crate::{Round, Study, Warning};

/// Returns a sentence for every kind of thing that looks wrong: a model that is near chance on the
/// test, and what guards found when batches were selected.
pub fn cautions(studies: &[Study]) -> Vec<String> {
    let rounds = || studies.iter().flat_map(|study| &study.rounds);
    let mut said: Vec<String> = Vec::new();
    let tested = || rounds().filter_map(|round| Some((round, round.test.first()?)));
    let mut useless = tested().filter(|(_, test)| is_near_chance(test));
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

/// Whether right answers come first no more often than by chance, and their mean rank is that of a
/// weak model too.
fn is_near_chance(test: &Evaluation) -> bool {
    let (images, captions) = (test.images as f64, test.captions as f64);
    let folds = test.folds.max(1) as f64;
    if images / folds < 20.0 {
        return false;
    }
    let right = (test.text.r1 * images + test.image.r1 * captions) / 100.0;
    // An image has a share of its captions among those of its part, and a caption one image.
    let by_chance = folds + captions * folds / images;
    let few = right <= by_chance + 6.0 * by_chance.sqrt() + 2.0;
    few && test.image.mean_rank >= 0.25 * images / folds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, round};

    fn evaluation(r1: f64, mean_rank: f64) -> Evaluation {
        let mut test = round(0, None, 0, 100, r1).test.remove(0);
        (test.image.r1, test.image.mean_rank) = (r1, mean_rank);
        test
    }

    #[test]
    fn a_model_near_chance_is_told_from_a_weak_one() {
        assert!(is_near_chance(&evaluation(0.1, 480.0)));
        assert!(!is_near_chance(&evaluation(2.0, 200.0)));
        assert!(!is_near_chance(&evaluation(0.1, 100.0)));
        let folded = Evaluation { folds: 5, ..evaluation(0.5, 95.0) };
        assert!(is_near_chance(&folded));
    }

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
