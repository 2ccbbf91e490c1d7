//! Expected picks from the plain reference, as rows of a JSONL file.

use nextpair::engine::{
    BuiltIn, HardNegative, Hits as Rules, Metric, Rule, Settings, Weight, reference,
};
use serde_json::{Value, json};

use super::{Vectors, World};

/// The settings of a selection, for the reference.
#[derive(Clone, Debug)]
pub struct Asked {
    pub strategy: BuiltIn,
    /// The parameters of all strategies that look at hits.
    pub hits: HardNegative,
    pub text_pool: bool,
    pub metric: Metric,
    pub settings: Settings,
    pub budget: usize,
}

impl Asked {
    /// Returns the settings of [`World::select`].
    pub fn usual() -> Self {
        Asked {
            strategy: HardNegative::default().into(),
            hits: HardNegative::default(),
            text_pool: false,
            metric: Metric::Cosine,
            settings: Settings::default(),
            budget: 9,
        }
    }
}

/// The hits of every item, and the thresholds they exceed.
struct Hits {
    anchors: Vec<usize>,
    thresholds: Vec<f64>,
    /// Similarities of the anchors' own pairs.
    own_pairs: Vec<f64>,
    of_item: Vec<Vec<(usize, f64)>>,
    /// Similarities of pool items to all anchors.
    cross: Vec<Vec<f64>>,
}

impl World {
    /// Returns the expected rows. Pool items and pairs are named by their index.
    pub fn expected(&self, asked: &Asked) -> Vec<Value> {
        let own = if asked.text_pool { &self.texts } else { &self.images };
        let chosen = match asked.strategy {
            BuiltIn::Random(_) => panic!("a draw has no reference"),
            BuiltIn::CoreSet(_) => {
                return rows(
                    &reference::k_center(&own.rows(), &self.pool.rows(), asked.budget),
                    |_| (Value::Null, json!([])),
                );
            }
            _ => self.hits(asked),
        };
        let Hits { anchors, thresholds, own_pairs, of_item, cross } = &chosen;
        let weight = asked.hits.weight;
        let hard = of_item.iter().filter(|hits| !hits.is_empty()).count();
        let scores = |weight, wanted| {
            let mut scores = reference::scores(of_item, thresholds, weight);
            let without = (0..scores.len()).filter(|&i| of_item[i].is_empty() && hard < wanted);
            for i in without {
                scores[i] = reference::nearest_miss(&cross[i], anchors, thresholds);
            }
            scores
        };
        let best = |weight, count: usize| {
            let scores: Vec<f64> = scores(weight, count.min(of_item.len()));
            let order = reference::order(&scores).into_iter().take(count);
            order.map(|i| (i, scores[i])).collect::<Vec<_>>()
        };
        let picks = match asked.strategy {
            BuiltIn::Coverage(_) => {
                let fillers = scores(Weight::Surplus, asked.budget);
                reference::coverage(of_item, thresholds, weight, &fillers, asked.budget)
            }
            BuiltIn::Hybrid(_) => {
                let mut candidates: Vec<usize> =
                    best(Weight::Surplus, 3 * asked.budget).into_iter().map(|(i, _)| i).collect();
                candidates.sort_unstable();
                let pool = self.pool.rows();
                let vectors: Vec<_> = candidates.iter().map(|&i| pool[i].clone()).collect();
                let picks = reference::k_center(&own.rows(), &vectors, asked.budget);
                picks.into_iter().map(|(slot, distance)| (candidates[slot], distance)).collect()
            }
            _ => best(weight, asked.budget),
        };
        rows(&picks, |item| {
            let mut why: Vec<(usize, f64, f64, f64, f64)> = of_item[item]
                .iter()
                .map(|&(p, s)| (anchors[p], s, thresholds[p], s - thresholds[p], own_pairs[p]))
                .collect();
            let hits = json!(why.len());
            why.sort_by(|a, b| b.3.total_cmp(&a.3).then(a.0.cmp(&b.0)));
            why.truncate(asked.settings.explain);
            let why = why.into_iter().map(|(anchor, similarity, threshold, surplus, own)| {
                json!({
                    "anchor": anchor,
                    "anchor_id": anchor.to_string(),
                    "similarity": similarity,
                    "threshold": threshold,
                    "surplus": surplus,
                    "own": own,
                })
            });
            (hits, why.collect())
        })
    }

    /// Returns the thresholds of the anchors in scope.
    pub fn thresholds(&self, asked: &Asked) -> Vec<f64> {
        self.hits(asked).thresholds
    }

    fn hits(&self, asked: &Asked) -> Hits {
        let (rivals, columns) =
            if asked.text_pool { (&self.texts, &self.images) } else { (&self.images, &self.texts) };
        let columns = columns.rows();
        let table = |vectors: &Vectors| -> Vec<Vec<f64>> {
            let row = |x: &Vec<f64>| {
                columns.iter().map(|y| reference::similarity(asked.metric, x, y)).collect()
            };
            vectors.rows().iter().map(row).collect()
        };
        let (own, cross) = (table(rivals), table(&self.pool));
        let HardNegative { sample, top_k, guards, fill, .. } = asked.hits;
        let rules = Rules { sample, top_k, guards, fill };
        let rule = Rule::new(rules, &asked.settings, columns.len()).unwrap();
        let whole = |indices: &[u32]| indices.iter().map(|&i| i as usize).collect::<Vec<_>>();
        let (anchors, rivals) = (whole(rule.anchors()), whole(rule.rivals()));
        let alone = || (0..columns.len() as u32).collect();
        let group = asked.settings.groups.clone().unwrap_or_else(alone);
        let thresholds = reference::thresholds(&own, &anchors, &rivals, &group, top_k);
        let thresholds: Vec<f64> = thresholds.into_iter().map(Option::unwrap).collect();
        let positives: Vec<f64> = anchors.iter().map(|&j| own[j][j]).collect();
        let of_item = reference::hits(&cross, &anchors, &thresholds, &positives, &guards);
        Hits { anchors, thresholds, own_pairs: positives, of_item, cross }
    }
}

/// Returns rows of picks, with hits and reasons from `hits`.
pub fn rows(picks: &[(usize, f64)], hits: impl Fn(usize) -> (Value, Value)) -> Vec<Value> {
    let row = |(place, &(item, score)): (usize, &(usize, f64))| {
        let (hits, why) = hits(item);
        json!({
            "rank": place + 1,
            "index": item,
            "id": item.to_string(),
            "score": score,
            "hits": hits,
            "why": why,
        })
    };
    picks.iter().enumerate().map(row).collect()
}
