//! What every test image contributes to a difference, from the ranks of its queries.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::{Arm, Error, RoundRanks, Study};

/// Contributions to the differences of a strategy, by seed and image. Those of a seed add up to 0.
pub(super) struct Parts {
    /// To the R@1-sum.
    pub(super) sum: Vec<Vec<f64>>,
    /// To the mean log rank of both directions after the last round.
    pub(super) last_log_rank: Vec<Vec<f64>>,
}

/// The files of ranks of some experiments, each read once.
pub(super) struct RankFiles<'a> {
    studies: &'a [&'a Study],
    test: usize,
    known: RefCell<HashMap<Place, Option<Rc<RoundRanks>>>>,
}

/// The name of a strategy, a seed and a round.
type Place = (String, u64, usize);

impl<'a> RankFiles<'a> {
    /// Reads the ranks by the test of this number.
    pub(super) fn of(studies: &'a [&'a Study], test: usize) -> Self {
        RankFiles { studies, test, known: RefCell::default() }
    }

    /// Returns what images contribute to the differences between a strategy and the mean of others.
    /// `None` if ranks are not known, or not of the same images for all seeds.
    pub(super) fn parts(
        &self,
        (arm, others): (&Arm, &[Arm]),
        seeds: &[u64],
        rounds: usize,
    ) -> Result<Option<Parts>, Error> {
        let mut parts = Parts { sum: Vec::new(), last_log_rank: Vec::new() };
        let mut queries: Option<Queries> = None;
        for &seed in seeds {
            let mut r1 = Vec::new();
            let mut log = Vec::new();
            // All strategies share round 0.
            for round in 1..=rounds {
                for (number, of) in std::iter::once(arm).chain(others).enumerate() {
                    let Some(ranks) = self.ranks(of, seed, round)? else { return Ok(None) };
                    let Some((text, image)) = ranks.of_test(self.test) else { return Ok(None) };
                    let folds = self.folds(seed, of, round);
                    let all = queries.get_or_insert_with(|| Queries::of(&ranks, folds));
                    if !all.are_of(&ranks) {
                        return Ok(None);
                    }
                    let share = if number == 0 { 1.0 } else { -1.0 / others.len() as f64 };
                    r1.resize(text.len() + image.len(), 0.0);
                    for (sum, &rank) in r1.iter_mut().zip(text.iter().chain(image)) {
                        *sum += if rank == 1 { 100.0 * share } else { 0.0 };
                    }
                    if round == rounds {
                        log.resize(text.len() + image.len(), 0.0);
                        let ranks = log.iter_mut().zip(text.iter().chain(image));
                        ranks.for_each(|(sum, &rank)| *sum += share * f64::from(rank).ln() / 2.0);
                    }
                }
            }
            let Some(queries) = &queries else { return Ok(None) };
            parts.sum.push(queries.of_both(&r1));
            parts.last_log_rank.push(queries.of_both(&log));
        }
        Ok((!seeds.is_empty()).then_some(parts))
    }

    fn ranks(&self, arm: &Arm, seed: u64, round: usize) -> Result<Option<Rc<RoundRanks>>, Error> {
        let key = (arm.to_string(), seed, round);
        if let Some(known) = self.known.borrow().get(&key) {
            return Ok(known.clone());
        }
        let mut found = None;
        for study in self.studies {
            let lane = study.lane(seed, arm);
            if let Some(of_round) = lane.iter().find(|other| other.round == round) {
                found = found.or(study.ranks(of_round)?.map(Rc::new));
            }
        }
        self.known.borrow_mut().insert(key, found.clone());
        Ok(found)
    }

    /// Returns the folds of the test.
    fn folds(&self, seed: u64, arm: &Arm, round: usize) -> usize {
        let lanes = self.studies.iter().flat_map(|study| study.lane(seed, arm));
        let mut rounds = lanes.filter(|other| other.round == round);
        rounds.find_map(|round| round.test.first()).map_or(1, |test| test.folds.max(1))
    }
}

/// The queries of a test, and how much each of them counts.
struct Queries {
    images: Vec<u32>,
    captions: Vec<u32>,
    /// The number of the image of every caption.
    image_of: Vec<usize>,
    /// How much a caption counts: folds are averaged, and may have different numbers of captions.
    weights: Vec<f64>,
}

impl Queries {
    fn of(ranks: &RoundRanks, folds: usize) -> Self {
        let (images, captions) = (ranks.images().to_vec(), ranks.captions().to_vec());
        let numbers: HashMap<u32, usize> =
            images.iter().enumerate().map(|(number, &item)| (item, number)).collect();
        let image_of: Vec<usize> =
            captions.iter().map(|item| numbers.get(item).copied().unwrap_or(0)).collect();
        let fold = |&image: &usize| image * folds / images.len().max(1);
        let mut sizes = vec![0.0f64; folds];
        image_of.iter().for_each(|image| sizes[fold(image)] += 1.0);
        let weights = image_of.iter().map(|image| 1.0 / (sizes[fold(image)] * folds as f64));
        let weights = weights.collect();
        Queries { images, captions, image_of, weights }
    }

    fn are_of(&self, ranks: &RoundRanks) -> bool {
        self.images == ranks.images() && self.captions == ranks.captions()
    }

    /// Returns what each image and its captions contribute as queries, less their fair share: values of images,
    /// then of captions.
    fn of_both(&self, values: &[f64]) -> Vec<f64> {
        let (text, image) = values.split_at(self.images.len());
        let mut parts = self.of_images(text);
        let of_captions = self.of_captions(image);
        parts.iter_mut().zip(of_captions).for_each(|(part, more)| *part += more);
        parts
    }

    /// Returns what each image contributes as a query, less its fair share.
    fn of_images(&self, values: &[f64]) -> Vec<f64> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        values.iter().map(|value| (value - mean) / count).collect()
    }

    /// Returns what the captions of each image contribute as queries, less their fair share.
    fn of_captions(&self, values: &[f64]) -> Vec<f64> {
        let mean: f64 =
            values.iter().zip(&self.weights).map(|(value, weight)| value * weight).sum();
        let mut parts = vec![0.0; self.images.len()];
        for ((value, weight), &image) in values.iter().zip(&self.weights).zip(&self.image_of) {
            parts[image] += weight * (value - mean);
        }
        parts
    }
}
