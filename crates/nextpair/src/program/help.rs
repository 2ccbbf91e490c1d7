//! The first screen, with commands by what people do, and flags of selections by what they are about.

use clap::Command;
use clap::builder::Styles;

use crate::program::parameters;

/// Commands by what people do.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Choose", &["select", "rehearse", "example"]),
    ("Data", &["import", "embed", "inspect", "add"]),
    ("Train", &["train", "eval", "search"]),
    ("People", &["annotate", "ingest"]),
    ("Study", &["quickstart", "run", "report", "watch"]),
];
/// Flags of `select` and `score`, beside the parameters of strategies.
const SECTIONS: [(&str, &[&str]); 5] = [
    (
        "Pool and pairs",
        &[
            "model",
            "feature_set",
            "paired_images",
            "paired_texts",
            "pool",
            "pair_similarities",
            "pool_similarities",
            "pool_side",
            "similarity",
            "groups",
            "ids",
            "paired_ids",
            "id_column",
            "embedding_column",
        ],
    ),
    ("How many", &["budget", "spend", "costs"]),
    (
        STRATEGY,
        &[
            "strategy",
            "scope",
            "sample_indices",
            "rival_indices",
            "bow_sample",
            "bow_iterations",
            "queries",
            "seed",
        ],
    ),
    ("What is left out", &["usable", "dedupe"]),
    ("Output", &["out", "json", "explain", "html", "html_dataset", "tasks", "strict", "unguarded"]),
];
const STRATEGY: &str = "Strategy";
/// The columns of the screen.
const COLUMNS: usize = 80;

/// Returns the program with a first screen in groups. Commands that few people need are named behind.
pub(crate) fn grouped(program: Command) -> Command {
    let styles = Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let width = program.get_subcommands().map(|one| one.get_name().len()).max().unwrap_or(0);
    let mut screen = String::new();
    for (title, names) in GROUPS {
        screen += &format!("{header}{title}:{header:#}\n");
        for name in names {
            let about = program.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let indent = " ".repeat(width + 4);
            let about = wrapped(&about, COLUMNS - indent.len()).join(&format!("\n{indent}"));
            screen += &format!("  {literal}{name:width$}{literal:#}  {about}\n");
        }
        screen.push('\n');
    }
    let is_grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let others = program.get_subcommands().map(Command::get_name).filter(|name| !is_grouped(name));
    let others: Vec<&str> = others.collect();
    screen += &format!("{header}And:{header:#}\n  {}\n", others.join(", "));
    sectioned(program).help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{screen}\n{header}Options:{header:#}\n{{options}}\n\n\
         `nextpair COMMAND --help` tells what a command does.\n"
    ))
}

/// Returns the program with flags of selections in sections.
fn sectioned(program: Command) -> Command {
    let section = |flag: &str| {
        let known = SECTIONS.iter().find(|(_, flags)| flags.contains(&flag)).map(|(name, _)| *name);
        known.or_else(|| parameters::has_flag(flag).then_some(STRATEGY))
    };
    ["select", "score"].into_iter().fold(program, |program, name| {
        program.mut_subcommand(name, |command| {
            command.mut_args(|arg| match section(arg.get_id().as_str()) {
                Some(section) => arg.help_heading(section),
                None => arg,
            })
        })
    })
}

/// Wraps a text into lines of at most `columns` characters.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().map(|line| (line.chars().count(), line));
        match line {
            Some((0, line)) => line.push_str(word),
            Some((count, line)) if count + 1 + word.chars().count() <= columns => {
                *line += &format!(" {word}");
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
