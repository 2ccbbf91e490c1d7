//! Flags of the parameters of strategies, as the strategies declare them.

use crate::core::Amount;
use crate::engine::{BuiltIn, Kind, Strategy};
use anyhow::{Result, anyhow, bail};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Command, value_parser};

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
    /// Returns the strategy of this name, or the default one, with these parameters. Refuses those that it does not have.
    pub(crate) fn strategy(&self, name: Option<&str>) -> Result<BuiltIn> {
        let named = name.map(BuiltIn::named).transpose().map_err(|what| anyhow!(what))?;
        let mut strategy = named.unwrap_or_default();
        for (flag, text) in &self.0 {
            let mut parameters = strategy.parameters();
            let Some(own) = parameters.iter_mut().find(|own| own.flag() == *flag) else {
                let has =
                    |other: &mut BuiltIn| other.parameters().iter().any(|o| o.flag() == *flag);
                let advice = if name.is_some() { "" } else { "; name one with --strategy" };
                bail!("--{flag} is for {}{advice}", BuiltIn::listed(has, "and"));
            };
            own.value.set(text).map_err(|what| anyhow!("--{flag}: {what}"))?;
        }
        strategy.check()?;
        Ok(strategy)
    }

    /// Returns what was typed for a flag.
    pub(crate) fn typed(&self, flag: &str) -> Option<&str> {
        self.0.iter().find(|(typed, _)| typed == flag).map(|(_, text)| text.as_str())
    }
}

/// Returns whether a flag, without its dashes, is a parameter of a strategy.
pub(crate) fn has_flag(flag: &str) -> bool {
    declared().iter().any(|own| own.flag == flag)
}

/// Parses a draw of pairs.
fn sample(text: &str) -> Result<Amount, String> {
    match text {
        "0" => Err("the sampled pairs are empty".to_owned()),
        _ => text.parse(),
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

    #[test]
    fn parameters_of_other_strategies_are_refused() {
        let strategy = |name: Option<&str>, flags: &[(&str, &str)]| {
            let owned = |(flag, text): &(&str, &str)| ((*flag).to_owned(), (*text).to_owned());
            let made = ParameterArgs(flags.iter().map(owned).collect()).strategy(name);
            made.map(|strategy| strategy.to_string()).map_err(|error| error.to_string())
        };
        let flags = [("top-k", "5"), ("sample", "0.3")];
        let made = strategy(Some("hard-negative"), &flags).unwrap();
        assert_eq!(made, "hard-negative+mini-30%+top-5");
        assert_eq!(strategy(None, &[("prior", "2")]).unwrap(), "v-optimal+prior-2");
        let refused = strategy(None, &flags).unwrap_err();
        let says = "--top-k is for hard-negative, coverage and hybrid; name one with --strategy";
        assert_eq!(refused, says);
        for mut other in BuiltIn::all() {
            let own: Vec<String> = other.parameters().iter().map(|own| own.flag()).collect();
            for Declared { flag, default, .. } in declared() {
                let made = strategy(Some(other.name()), &[(&flag, &default)]);
                match own.contains(&flag) {
                    true => assert_eq!(made.unwrap(), other.name()),
                    false => assert!(made.unwrap_err().starts_with(&format!("--{flag} is for "))),
                }
            }
        }
        assert!(strategy(Some("herding"), &[("points", "0")]).unwrap_err().contains("points is 0"));
    }
}
