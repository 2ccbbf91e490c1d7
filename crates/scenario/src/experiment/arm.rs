//! Strategies of experiments, by names such as `hard-negative+mini-2560+top-5+count`.

use std::fmt;
use std::str::FromStr;

use nextpair_engine::{Alike, Fill, Guards, ItemFeatures, Scope, Settings, StrategyName, Weight};
use serde::{Deserialize, Serialize};

use super::amount::Amount;

/// A strategy with its settings. Its name lists the settings that are not the default after `+`:
/// `mini-M` (pairs of the mini batch, or a share of the pairs in percent), `top-K`, `count`, `bow`
/// or `encoded` (histograms, or what the model makes of items, instead of means for distances), `max-score-S`, `absolute-margin-M`,
/// `relative-margin-M`, `index` (batches are filled by index), `points-N`, `bandwidth-S`,
/// `temperature-T` (of the entropy), `usable` (without items like those that annotators refused),
/// `dedupe` (without items that are the same as an earlier or a paired one) or `dedupe-C` (or whose
/// cosine is at least C),
/// `queries` (points count by their similarity to what people search for).
///
/// `random-2`, `random-3` and so on draw like `random`, each from a stream of its own: several of
/// them make a baseline with less noise, and show what chance alone does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Arm {
    /// The strategy.
    pub strategy: StrategyName,
    /// Size of the mini batch. `None` takes all pairs.
    pub mini: Option<MiniBatch>,
    /// Rank of the rival similarity that is the threshold.
    pub top_k: usize,
    /// The weight of a hit.
    pub weight: Weight,
    /// The vectors for distances.
    pub features: ItemFeatures,
    /// Bounds beyond which similarities are ignored as likely false negatives.
    pub guards: Guards,
    /// How to fill a batch when the hits run out.
    pub fill: Fill,
    /// Number of points to cover, if not the usual one.
    pub points: Option<usize>,
    /// Width of the kernel that covers them, if not that of the data.
    pub bandwidth: Option<f64>,
    /// Temperature of the entropy, if not the usual one.
    pub temperature: Option<f64>,
    /// Whether to leave out items like those that annotators refused.
    pub usable: bool,
    /// When pool items count as duplicates that are left out.
    pub dedupe: Option<Alike>,
    /// Whether points count by their similarity to the queries of the experiment.
    pub queries: bool,
    /// The stream of draws of a random strategy, from 1.
    pub stream: u32,
}

/// The size of a mini batch.
pub type MiniBatch = Amount;

/// The name of the paper's twelve conditions.
const ALL_CONDITIONS: &str = "all-conditions";
/// The paper's mini batch as a share: 2,560 of 8,700 pairs, to three digits.
const PAPER_MINI: Amount = Amount::Share(0.294);

impl Arm {
    /// Returns a strategy with the settings of the paper.
    pub fn new(strategy: StrategyName) -> Self {
        Arm {
            strategy,
            mini: None,
            top_k: 1,
            weight: Weight::default(),
            features: ItemFeatures::default(),
            guards: Guards::default(),
            fill: Fill::default(),
            points: None,
            bandwidth: None,
            temperature: None,
            usable: false,
            dedupe: None,
            queries: false,
            stream: 1,
        }
    }

    /// Returns the random strategy with this stream of draws, from 1.
    pub fn random(stream: u32) -> Self {
        Arm { stream, ..Arm::new(StrategyName::Random) }
    }

    /// Returns whether the strategy draws at random: the baseline of an experiment.
    pub fn is_random(&self) -> bool {
        self.strategy == StrategyName::Random
    }

    /// Returns the settings of a selection with this many pairs.
    pub(crate) fn settings(&self, pairs: usize, groups: Option<Vec<u32>>, seed: u64) -> Settings {
        let scope = match self.mini {
            None => Scope::Full,
            Some(mini) => Scope::Mini(mini.whole_of(pairs)),
        };
        let usual = Settings::default();
        Settings {
            scope,
            top_k: self.top_k,
            weight: self.weight,
            groups,
            guards: self.guards,
            seed,
            fill: self.fill,
            points: self.points.unwrap_or(usual.points),
            bandwidth: self.bandwidth,
            temperature: self.temperature,
            ..usual
        }
    }

    fn set(&mut self, option: &str) -> Result<(), String> {
        let needs = self.strategy.needs();
        let number = |text: &str| {
            let value: Option<f64> = text.parse().ok().filter(|v: &f64| v.is_finite());
            value.ok_or_else(|| format!("'{option}' does not end in a number"))
        };
        let (word, value) = match option {
            "full" | "count" | "surplus" | "bow" | "mean" | "encoded" | "index" | "usable"
            | "queries" | "dedupe" => (option, ""),
            _ => option.rsplit_once('-').unwrap_or((option, "")),
        };
        // A negative number keeps its sign: max-score--0.5.
        let (word, value) = match word.strip_suffix('-') {
            Some(word) => (word, &option[word.len() + 1..]),
            None => (word, value),
        };
        // Whether it looks at hits.
        let hits = matches!(
            self.strategy,
            StrategyName::HardNegative | StrategyName::Coverage | StrategyName::Hybrid
        );
        let fits = match word {
            "bow" | "mean" | "encoded" => needs.features,
            "points" | "bandwidth" | "queries" => needs.queries,
            "usable" | "dedupe" => true,
            "temperature" => {
                matches!(self.strategy, StrategyName::Entropy | StrategyName::Novelty)
            }
            "full" | "mini" => needs.matching,
            _ => hits,
        };
        let positive = |text: &str| {
            let value = number(text)?;
            if value > 0.0 { Ok(value) } else { Err(format!("'{option}' is not above 0")) }
        };
        match word {
            "full" => self.mini = None,
            "mini" => self.mini = Some(value.parse()?),
            "top" => {
                let k = value.parse().ok().filter(|&k| k > 0);
                self.top_k =
                    k.ok_or_else(|| format!("'{option}': top-K needs a K of 1 or more"))?;
            }
            "count" => self.weight = Weight::Count,
            "surplus" => self.weight = Weight::Surplus,
            "bow" => self.features = ItemFeatures::Bow,
            "mean" => self.features = ItemFeatures::Mean,
            "encoded" => self.features = ItemFeatures::Encoded,
            "max-score" => self.guards.max_score = Some(number(value)?),
            "absolute-margin" => self.guards.absolute_margin = Some(number(value)?),
            "relative-margin" => self.guards.relative_margin = Some(number(value)?),
            "index" => self.fill = Fill::Index,
            "usable" => self.usable = true,
            "dedupe" if value.is_empty() => self.dedupe = Some(Alike::Exact),
            "dedupe" => self.dedupe = Some(value.parse().map_err(|e| format!("'{option}': {e}"))?),
            "queries" => self.queries = true,
            "points" => {
                let points = value.parse().ok().filter(|&points| points > 0);
                let what = || format!("'{option}': points-N needs an N of 1 or more");
                self.points = Some(points.ok_or_else(what)?);
            }
            "bandwidth" => self.bandwidth = Some(positive(value)?),
            "temperature" => self.temperature = Some(positive(value)?),
            _ => {
                return Err(format!(
                    "no setting '{option}'; there are full, mini-M, top-K, count, surplus, mean, \
                     bow, encoded, max-score-S, absolute-margin-M, relative-margin-M, index, \
                     points-N, bandwidth-S, temperature-T, usable, dedupe, dedupe-C, queries"
                ));
            }
        }
        if fits { Ok(()) } else { Err(format!("'{option}' is not a setting of {}", self.strategy)) }
    }
}

impl FromStr for Arm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('+');
        let name = parts.next().unwrap_or("");
        let mut arm = match name.strip_prefix("random-") {
            Some(stream) => {
                Arm { stream: numbered(name, stream)?, ..Arm::new(StrategyName::Random) }
            }
            None => Arm::new(name.parse()?),
        };
        parts.try_for_each(|option| arm.set(option)).map_err(|e| format!("{text}: {e}"))?;
        Ok(arm)
    }
}

/// Parses the number of a further random strategy.
fn numbered(name: &str, stream: &str) -> Result<u32, String> {
    // Only as it is shown: random-02 would be another folder for the same draws.
    let number = stream.parse().ok().filter(|number: &u32| number.to_string() == stream);
    number
        .filter(|&number| number >= 2)
        .ok_or_else(|| format!("no strategy '{name}'; further random ones are random-2, random-3"))
}

/// Parses a list of strategies. `all-conditions` expands to the paper's twelve conditions,
/// `all-conditions+mini-2560` to the same with this mini batch.
pub fn expand(names: &[String]) -> Result<Vec<Arm>, String> {
    let mut arms = Vec::new();
    for name in names {
        let conditions = name.strip_prefix(ALL_CONDITIONS);
        let Some(option) = conditions.filter(|rest| rest.is_empty() || rest.starts_with('+'))
        else {
            arms.push(name.parse()?);
            continue;
        };
        let mini = match option.strip_prefix("+mini-") {
            None if option.is_empty() => PAPER_MINI,
            None => return Err(format!("{name}: all-conditions takes +mini-M alone")),
            Some(mini) => mini.parse().map_err(|e| format!("{name}: {e}"))?,
        };
        for mini in [None, Some(mini)] {
            for top_k in [1, 5, 10] {
                for weight in [Weight::Surplus, Weight::Count] {
                    let arm = Arm::new(StrategyName::HardNegative);
                    arms.push(Arm { mini, top_k, weight, ..arm });
                }
            }
        }
    }
    let mut seen = Vec::new();
    for arm in &arms {
        if seen.contains(arm) {
            return Err(format!("{arm} is there twice"));
        }
        seen.push(*arm);
    }
    Ok(arms)
}

impl fmt::Display for Arm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.strategy)?;
        if self.stream != 1 {
            write!(out, "-{}", self.stream)?;
        }
        if let Some(mini) = self.mini {
            write!(out, "+mini-{mini}")?;
        }
        if self.top_k != 1 {
            write!(out, "+top-{}", self.top_k)?;
        }
        if self.weight == Weight::Count {
            write!(out, "+count")?;
        }
        match self.features {
            ItemFeatures::Mean => {}
            ItemFeatures::Bow => write!(out, "+bow")?,
            ItemFeatures::Encoded => write!(out, "+encoded")?,
        }
        let Guards { max_score, absolute_margin, relative_margin } = self.guards;
        for (name, value) in [
            ("max-score", max_score),
            ("absolute-margin", absolute_margin),
            ("relative-margin", relative_margin),
        ] {
            if let Some(value) = value {
                write!(out, "+{name}-{value}")?;
            }
        }
        if self.fill == Fill::Index {
            write!(out, "+index")?;
        }
        if let Some(points) = self.points {
            write!(out, "+points-{points}")?;
        }
        for (name, value) in [("bandwidth", self.bandwidth), ("temperature", self.temperature)] {
            if let Some(value) = value {
                write!(out, "+{name}-{value}")?;
            }
        }
        match self.dedupe {
            Some(Alike::Exact) => write!(out, "+dedupe")?,
            Some(Alike::Cosine(cosine)) => write!(out, "+dedupe-{cosine}")?,
            None => {}
        }
        for (name, on) in [("usable", self.usable), ("queries", self.queries)] {
            if on {
                write!(out, "+{name}")?;
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for Arm {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Arm> for String {
    fn from(arm: Arm) -> String {
        arm.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for name in [
            "hard-negative",
            "hard-negative+mini-2560+top-5+count",
            "hard-negative+mini-29.4%",
            "coverage+count+max-score--0.5",
            "hybrid+top-10+bow+absolute-margin-0.05+relative-margin-0.1",
            "core-set+bow",
            "novelty+encoded+points-500",
            "random",
            "random+dedupe",
            "hard-negative+top-5+dedupe-0.98+usable",
            "hard-negative+mini-10+index",
            "novelty+mini-500+points-300+bandwidth-0.2+temperature-0.1",
            "herding+bow+points-10",
            "core-set-margin",
            "novelty+points-9+usable+queries",
            "random+usable",
            "random-2",
            "random-13",
        ] {
            assert_eq!(name.parse::<Arm>().unwrap().to_string(), name);
        }
        let plain: Arm = "hard-negative+surplus+full+top-1".parse().unwrap();
        assert_eq!(plain, Arm::new(StrategyName::HardNegative));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (name, says) in [
            ("hardest", "no strategy 'hardest'"),
            ("random-1", "further random ones are random-2"),
            ("random-02", "no strategy 'random-02'"),
            ("random-x", "no strategy 'random-x'"),
            ("random-2+count", "'count' is not a setting of random"),
            ("random+count", "'count' is not a setting of random"),
            ("core-set+top-5", "'top-5' is not a setting of core-set"),
            ("hard-negative+bow", "'bow' is not a setting of hard-negative"),
            ("hard-negative+encoded", "'encoded' is not a setting of hard-negative"),
            ("hard-negative+top-0", "K of 1 or more"),
            ("hard-negative+mini-0", "is 0"),
            ("hard-negative+x-3", "no setting 'x-3'"),
            ("hard-negative+max-score-x", "does not end in a number"),
            ("hard-negative+", "no setting ''"),
            ("hard-negative+points-3", "'points-3' is not a setting of hard-negative"),
            ("herding+points-0", "N of 1 or more"),
            ("herding+bandwidth-0", "is not above 0"),
            ("herding+temperature-1", "'temperature-1' is not a setting of herding"),
            ("core-set+queries", "'queries' is not a setting of core-set"),
            ("novelty+count", "'count' is not a setting of novelty"),
            ("random+dedupe-x", "'x' is not a number"),
            ("random+dedupe-2", "a cosine above 0 and at most 1"),
            ("random+dedupe--1", "a cosine above 0 and at most 1"),
            ("", "no strategy ''"),
        ] {
            let what = name.parse::<Arm>().unwrap_err();
            assert!(what.contains(says), "{name}: {what}");
        }
    }

    #[test]
    fn all_conditions_are_twelve() {
        let names = |text: &str| expand(&[text.to_owned()]);
        let arms = names("all-conditions").unwrap();
        assert_eq!(arms.len(), 12);
        assert_eq!(arms[0].to_string(), "hard-negative");
        assert_eq!(arms[6].mini, Some(PAPER_MINI));
        let last = names("all-conditions+mini-2560").unwrap()[11];
        assert_eq!(last.to_string(), "hard-negative+mini-2560+top-10+count");
        assert!(names("all-conditions+count").unwrap_err().contains("takes +mini-M alone"));
        let twice = ["all-conditions".to_owned(), "hard-negative".to_owned()];
        assert!(expand(&twice).unwrap_err().contains("hard-negative is there twice"));
        let random = ["random", "random-2"].map(str::to_owned);
        assert_eq!(expand(&random).unwrap()[1].stream, 2);
        assert!(expand(&[&random[..], &random[1..]].concat()).unwrap_err().contains("random-2 is"));
        let shown = arms[6].to_string();
        assert_eq!(shown.parse::<Arm>().unwrap().to_string(), shown);
    }
}
