//! Evidence for models with several tests, such as COCO's 5K and 1K.

use super::{Evidence, TestSet};
use crate::{Error, Study};

impl Evidence {
    /// Returns the evidence by each test after the first, in the order of the experiment.
    pub(super) fn by_other_tests(
        studies: &[&Study],
        price: Option<f64>,
        error: f64,
    ) -> Result<Vec<Self>, Error> {
        let asked = studies.iter().map(|study| study.experiment.evaluation.folds.len()).max();
        let by_test = |at: usize| {
            let studies: Vec<Study> = studies.iter().map(|study| with_test(study, at)).collect();
            Evidence::of(&studies.iter().collect::<Vec<_>>(), price, at, error)
        };
        (1..asked.unwrap_or(0)).map(by_test).collect()
    }
}

/// Returns an experiment reduced to one of its tests.
fn with_test(study: &Study, at: usize) -> Study {
    let mut study = study.clone();
    for round in &mut study.rounds {
        round.test = round.test.get(at).copied().into_iter().collect();
    }
    study
}

impl TestSet {
    /// Says which queries count, if not all do.
    pub fn about(&self) -> Option<String> {
        let (images, captions) = (self.images, self.captions);
        let words = (!self.words.is_empty()).then(|| self.words.join(", "))?;
        let (images, captions) =
            (crate::numbers::grouped(images), crate::numbers::grouped(captions));
        Some(format!("only queries with {words}: {images} images, {captions} captions"))
    }

    /// Describes the test: `5 parts of 1,000 images, averaged`.
    pub fn manner(&self) -> String {
        let images = crate::numbers::grouped(self.images / self.folds.max(1));
        match self.folds {
            1 => format!("{images} images at once"),
            folds => format!("{folds} parts of {images} images, averaged"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Analysis;
    use crate::fixture::Fixture;

    #[test]
    fn every_test_has_its_own_numbers() {
        let study = Fixture::default().two_arms().tested_in_parts().study();
        let analysis = Analysis::of(&[study.clone(), study], false, None).unwrap();
        let [run] = &analysis.runs[..] else { panic!() };
        let [parts] = &run.other_tests[..] else { panic!() };
        assert_eq!((run.test.folds, parts.test.folds), (1, 5));
        assert_eq!(parts.test.manner(), "5 parts of 200 images, averaged");
        assert_eq!(run.label, parts.label);
        // In parts, text and image R@1 of the fixture start 30 higher, and gains are twice as
        // large.
        for (one, other) in run.arms.iter().zip(&parts.arms) {
            assert_eq!(one.strategy, other.strategy);
            let first = (one.r1()[0].text.mean, other.r1()[0].text.mean);
            assert_eq!(first.1, first.0 + 30.0);
        }
        let sum = |arm: usize| run.arms[arm].difference.as_ref().map(|d| d.sum.mean);
        let in_parts = |arm: usize| parts.arms[arm].difference.as_ref().map(|d| d.sum.mean);
        assert_eq!((sum(1), in_parts(1)), (Some(9.0), Some(18.0)));
        let table = run.table();
        for part in ["1,000 images at once\n", "5 parts of 200 images, averaged\n"] {
            assert!(table.contains(part), "{table}");
        }
        let json = serde_json::to_value(&analysis).unwrap();
        assert_eq!(json["runs"][0]["other_tests"][0]["test"]["folds"], 5);
    }

    #[test]
    fn one_test_is_reported_as_before() {
        let analysis = Analysis::of(&[Fixture::default().study()], false, None).unwrap();
        assert!(analysis.runs[0].other_tests.is_empty());
        assert!(!analysis.runs[0].table().contains("images at once"));
        let json = serde_json::to_value(&analysis).unwrap();
        assert!(json["runs"][0].get("other_tests").is_none());
    }
}
