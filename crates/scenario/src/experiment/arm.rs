//! Strategies of experiments, by names such as `hard-negative+mini-2560+top-5+count`.

use std::fmt;
use std::str::FromStr;

use nextpair_data::Amount;
use nextpair_engine::{Alike, BuiltIn, HardNegative, Random, Strategy, Weight};
use serde::{Deserialize, Serialize};

/// A strategy, and what it may choose from. Its name lists after `+` the parameters that are not the default, and
/// `usable` (without items like those that annotators refused), `dedupe` (without items that are the same as an earlier or a
/// paired one) or `dedupe-C` (or whose cosine is at least C), and `queries` (points count by their similarity to what
/// people search for).
///
/// `random-2`, `random-3` and so on draw like `random`, each from a stream of its own: several of
/// them make a baseline with less noise, and show what chance alone does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Arm {
    /// The strategy.
    pub strategy: BuiltIn,
    /// Whether to leave out items like those that annotators refused.
    pub usable: bool,
    /// When pool items count as duplicates that are left out.
    pub dedupe: Option<Alike>,
    /// Whether points count by their similarity to the queries of the experiment.
    pub queries: bool,
    /// The stream of draws of a random strategy, from 1.
    pub stream: u32,
}

/// The name of the paper's twelve conditions.
const ALL_CONDITIONS: &str = "all-conditions";
/// The paper's mini batch as a share: 2,560 of 8,700 pairs, to three digits.
const PAPER_MINI: Amount = Amount::Share(0.294);

impl Arm {
    /// Returns a strategy that may choose from the whole pool.
    pub fn new(strategy: impl Into<BuiltIn>) -> Self {
        Arm { strategy: strategy.into(), usable: false, dedupe: None, queries: false, stream: 1 }
    }

    /// Returns the random strategy with this stream of draws, from 1.
    pub fn random(stream: u32) -> Self {
        Arm { stream, ..Arm::new(Random::default()) }
    }

    /// Returns whether the strategy draws at random: the baseline of an experiment.
    pub fn is_random(&self) -> bool {
        matches!(self.strategy, BuiltIn::Random(_))
    }

    fn set(&mut self, option: &str) -> Result<(), String> {
        match option {
            "usable" => self.usable = true,
            "dedupe" => self.dedupe = Some(Alike::Exact),
            "queries" if self.strategy.needs().queries => self.queries = true,
            "queries" => {
                return Err(format!("'queries' is not a setting of {}", self.strategy.name()));
            }
            _ => match option.strip_prefix("dedupe-") {
                Some(cosine) => {
                    self.dedupe = Some(cosine.parse().map_err(|e| format!("'{option}': {e}"))?);
                }
                None => {
                    let own = ", usable, dedupe, dedupe-C, queries";
                    let complete = |what: String| {
                        if what.starts_with("no setting") { what + own } else { what }
                    };
                    self.strategy.set_option(option).map_err(complete)?;
                }
            },
        }
        Ok(())
    }
}

impl FromStr for Arm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('+');
        let name = parts.next().unwrap_or("");
        let mut arm = match name.strip_prefix("random-") {
            Some(stream) => Arm::random(numbered(name, stream)?),
            None => Arm::new(BuiltIn::named(name)?),
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
        for sample in [None, Some(mini)] {
            for top_k in [1, 5, 10] {
                for weight in [Weight::Surplus, Weight::Count] {
                    let condition =
                        HardNegative { sample, top_k, weight, ..HardNegative::default() };
                    arms.push(Arm::new(condition));
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
        let strategy = self.strategy.to_string();
        match self.stream {
            1 => write!(out, "{strategy}")?,
            stream => write!(out, "{strategy}-{stream}")?,
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
        assert_eq!(plain, Arm::new(HardNegative::default()));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (name, says) in [
            ("hardest", "no strategy 'hardest'"),
            ("random-1", "further random ones are random-2"),
            ("random-02", "no strategy 'random-02'"),
            ("random-x", "no strategy 'random-x'"),
            ("random-2+count", "'count' is not a setting of random"),
            ("hard-negative+encoded", "'encoded' is not a setting of hard-negative"),
            ("hard-negative+mini-0", "is 0"),
            ("hard-negative+x-3", "no setting 'x-3'"),
            ("hard-negative+", "no setting ''"),
            ("core-set+queries", "'queries' is not a setting of core-set"),
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
        assert_eq!(arms[6].to_string(), "hard-negative+mini-29.4%");
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
