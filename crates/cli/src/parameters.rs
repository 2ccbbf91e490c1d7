//! Flags of the parameters of strategies, as the strategies declare them.

use anyhow::{Result, anyhow, ensure};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Command, value_parser};
use nextpair::core::Amount;
use nextpair::engine::{BuiltIn, Kind, Strategy};

/// A parameter of one or several strategies.
struct Declared {
    flag: String,
    about: &'static str,
    kind: Kind,
    letter: String,
    default: String,
    strategies: Vec<&'static str>,
}

/// The parameters of all strategies, in the order in which they are declared first.
fn declared() -> Vec<Declared> {
    let mut all: Vec<Declared> = Vec::new();
    for mut strategy in BuiltIn::all() {
        let name = strategy.name();
        for parameter in strategy.parameters() {
            let flag = parameter.flag();
            match all.iter_mut().find(|known| known.flag == flag) {
                Some(known) => known.strategies.push(name),
                None => all.push(Declared {
                    flag,
                    about: parameter.about,
                    kind: parameter.value.kind(),
                    letter: parameter.letter(),
                    default: parameter.value.text(),
                    strategies: vec![name],
                }),
            }
        }
    }
    all
}

impl Declared {
    fn help(&self) -> String {
        let default = match self.default.is_empty() {
            true => String::new(),
            false => format!(" [default: {}]", self.default),
        };
        format!("{}: {}{default}", self.strategies.join(", "), self.about)
    }

    fn arg(&self) -> Arg {
        let arg = Arg::new(self.flag.clone()).long(self.flag.clone()).help(self.help());
        let (arg, name) = (arg.allow_negative_numbers(true), self.letter.clone());
        match self.kind {
            Kind::Whole => arg.value_name(name).value_parser(value_parser!(usize)),
            Kind::Number => arg.value_name(name).value_parser(value_parser!(f64)),
            Kind::Amount => arg.value_name(name).value_parser(sample),
            Kind::Choice(words) => {
                let name = self.flag.to_uppercase();
                arg.value_name(name).value_parser(PossibleValuesParser::new(words))
            }
        }
    }

    /// The text of what was typed, if anything was.
    fn typed(&self, matches: &ArgMatches) -> Option<String> {
        let flag = self.flag.as_str();
        match self.kind {
            Kind::Whole => matches.get_one::<usize>(flag).map(ToString::to_string),
            Kind::Number => matches.get_one::<f64>(flag).map(ToString::to_string),
            Kind::Amount => matches.get_one::<Amount>(flag).map(ToString::to_string),
            Kind::Choice(_) => matches.get_one::<String>(flag).cloned(),
        }
    }
}

/// The parameters of a strategy, as typed.
#[derive(Debug)]
pub(crate) struct ParameterArgs(Vec<(String, String)>);

impl ParameterArgs {
    /// Returns the strategy of this name with these parameters. Those of other strategies are checked.
    pub(crate) fn strategy(&self, name: &str) -> Result<BuiltIn> {
        let mut strategy = BuiltIn::named(name).map_err(|what| anyhow!(what))?;
        for (flag, text) in &self.0 {
            if set(&mut strategy, flag, text)? {
                continue;
            }
            ensure!(
                !SPECIAL.contains(&flag.as_str()),
                "--{flag} is for {}",
                listed(&having(flag), "and")
            );
            for mut other in having(flag) {
                set(&mut other, flag, text)?;
                other.check()?;
            }
        }
        strategy.check()?;
        Ok(strategy)
    }

    /// Returns the default strategy with these parameters. Those of others say that another one was meant.
    pub(crate) fn default_strategy(&self) -> Result<BuiltIn> {
        let usual = BuiltIn::default();
        for (flag, _) in &self.0 {
            let having = having(flag);
            let own = having.iter().any(|strategy| strategy.name() == usual.name());
            ensure!(own, "--{flag} is for {}; name one with --strategy", listed(&having, "and"));
        }
        self.strategy(usual.name())
    }

    /// Returns what was typed for a flag.
    pub(crate) fn typed(&self, flag: &str) -> Option<&str> {
        self.0.iter().find(|(typed, _)| typed == flag).map(|(_, text)| text.as_str())
    }
}

/// Parameters that say that another strategy was meant. The others may stand in one line of flags for all strategies.
const SPECIAL: [&str; 3] = ["points", "bandwidth", "entropy-temperature"];

/// Sets a parameter of a strategy. Returns whether it has it.
fn set(strategy: &mut BuiltIn, flag: &str, text: &str) -> Result<bool> {
    let mut parameters = strategy.parameters();
    let Some(own) = parameters.iter_mut().find(|own| own.flag() == flag) else { return Ok(false) };
    own.value.set(text).map_err(|what| anyhow!("--{flag}: {what}"))?;
    Ok(true)
}

/// The strategies that have a parameter.
fn having(flag: &str) -> Vec<BuiltIn> {
    let mut all: Vec<BuiltIn> = BuiltIn::all().collect();
    all.retain_mut(|strategy| strategy.parameters().iter().any(|own| own.flag() == flag));
    all
}

/// Parses a draw of pairs.
fn sample(text: &str) -> Result<Amount, String> {
    match text {
        "0" => Err("the sampled pairs are empty".to_owned()),
        _ => text.parse(),
    }
}

/// Names as words: `herding and novelty`.
pub(crate) fn listed(strategies: &[BuiltIn], and: &str) -> String {
    let names: Vec<&str> = strategies.iter().map(|strategy| strategy.name()).collect();
    match &names[..] {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} {and} {last}", first.join(", ")),
    }
}

impl clap::Args for ParameterArgs {
    fn augment_args(command: Command) -> Command {
        command.args(declared().iter().map(Declared::arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for ParameterArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let typed = |declared: Declared| Some((declared.typed(matches)?, declared.flag));
        Ok(ParameterArgs(
            declared().into_iter().filter_map(typed).map(|(text, flag)| (flag, text)).collect(),
        ))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the table of parameters, as the strategies declare them.
    fn rows() -> String {
        let mut text = "| flag | in a name | in Python | default | what it does | of |\n| --- | --- | --- | --- | --- | --- |\n".to_owned();
        let mut known = Vec::new();
        for parameter in BuiltIn::all().collect::<Vec<_>>().iter_mut().flat_map(BuiltIn::parameters)
        {
            let flag = parameter.flag();
            if known.contains(&flag) {
                continue;
            }
            let all = declared();
            let of = all.iter().find(|declared| declared.flag == flag).unwrap();
            let form = parameter.form().replace(", ", "`, `+");
            let (name, default) = match parameter.name() {
                // Vectors are given.
                "features" => ("-".to_owned(), of.default.as_str()),
                name => (format!("`{name}`"), of.default.as_str()),
            };
            let strategies =
                of.strategies.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            text += &format!(
                "| `--{flag}` | `+{form}` | {name} | {default} | {} | {strategies} |\n",
                of.about
            );
            known.push(flag);
        }
        text
    }

    #[test]
    fn the_reference_lists_every_parameter() {
        let page = include_str!("../../../docs/reference/strategies.md");
        assert!(
            page.contains(&rows()),
            "docs/reference/strategies.md lacks this table:\n{}",
            rows()
        );
    }

    #[test]
    fn flags_of_other_strategies_are_checked_or_refused() {
        let typed = |flags: &[(&str, &str)]| {
            let owned = |(flag, text): &(&str, &str)| ((*flag).to_owned(), (*text).to_owned());
            ParameterArgs(flags.iter().map(owned).collect())
        };
        let strategy = |name: &str, flags: &[(&str, &str)]| {
            typed(flags)
                .strategy(name)
                .map(|strategy| strategy.to_string())
                .map_err(|error| error.to_string())
        };
        let flags = [("top-k", "5"), ("features", "bow"), ("sample", "0.3")];
        assert_eq!(strategy("hard-negative", &flags).unwrap(), "hard-negative+mini-30%+top-5");
        assert_eq!(strategy("core-set", &flags).unwrap(), "core-set+bow");
        assert_eq!(strategy("random", &flags).unwrap(), "random");
        assert!(
            strategy("random", &[("max-score", "NaN")]).unwrap_err().contains("max-score is NaN")
        );
        let refused = strategy("random", &[("points", "5")]).unwrap_err();
        assert_eq!(refused, "--points is for herding and novelty");
        let refused = strategy("herding", &[("points", "0")]).unwrap_err();
        assert!(refused.contains("points is 0"), "{refused}");
        let usual = |flags: &[(&str, &str)]| typed(flags).default_strategy();
        assert_eq!(usual(&[("prior", "2")]).unwrap().to_string(), "v-optimal+prior-2");
        let refused = usual(&[("top-k", "5")]).unwrap_err().to_string();
        let says = "--top-k is for hard-negative, coverage and hybrid; name one with --strategy";
        assert_eq!(refused, says);
    }
}
