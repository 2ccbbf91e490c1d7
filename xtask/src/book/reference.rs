//! Pages of the reference that must match the program.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nextpair_engine::{BuiltIn, Strategy};
use serde_json::Value;

const COMMANDS: &str = "docs/reference/commands.md";
const STRATEGIES: &str = "docs/reference/strategies.md";
const API: &str = "docs/reference/http-api.md";
const OPENAPI: &str = "crates/annotate/src/openapi.json";

/// The head of the table of parameters.
const PARAMETERS: &str = "\
| flag | in a name | in Python | default | what it does | of |
| --- | --- | --- | --- | --- | --- |
";

const HEAD: &str = "# Commands and flags

This page lists every command and flag of `nextpair`, as its own `--help` does. `cargo xtask book` writes it.
";

/// Writes the page of commands, and the parameters on that of strategies.
pub(super) fn write(binary: &Path) -> Result<()> {
    for (path, text) in generated(binary)? {
        std::fs::write(path, text)?;
        println!("{path}");
    }
    Ok(())
}

/// Checks what [`write()`] writes, and the page of the API.
pub(super) fn check(binary: &Path) -> Result<()> {
    for (path, text) in generated(binary)? {
        let same = std::fs::read_to_string(path)? == text;
        ensure!(same, "{path} is not what the program says; `cargo xtask book` writes it anew");
    }
    let page = std::fs::read_to_string(API)?;
    for request in requests(&std::fs::read_to_string(OPENAPI)?)? {
        ensure!(page.contains(&format!("`{request}`")), "{API} lacks {request}");
    }
    Ok(())
}

fn generated(binary: &Path) -> Result<[(&'static str, String); 2]> {
    let strategies = with_parameters(&std::fs::read_to_string(STRATEGIES)?)?;
    Ok([(COMMANDS, commands(binary)?), (STRATEGIES, strategies)])
}

/// Returns a page with the parameters of all strategies in the place of those in its table.
fn with_parameters(page: &str) -> Result<String> {
    let (before, rest) = page.split_once(PARAMETERS).context("no table of parameters")?;
    let (_, after) = rest.split_once("\n\n").context("the table of parameters does not end")?;
    Ok(format!("{before}{PARAMETERS}{}\n{after}", parameters()))
}

/// Returns a row for every parameter that strategies declare.
fn parameters() -> String {
    let mut rows: Vec<(String, String, Vec<String>)> = Vec::new();
    for mut strategy in BuiltIn::all() {
        let of = format!("`{}`", strategy.name());
        for parameter in strategy.parameters() {
            let flag = parameter.flag();
            if let Some((_, _, all)) = rows.iter_mut().find(|(known, _, _)| *known == flag) {
                all.push(of.clone());
                continue;
            }
            let form = parameter.form().replace(", ", "`, `+");
            let name = match parameter.name() {
                // Vectors are given.
                "features" => "-".to_owned(),
                name => format!("`{name}`"),
            };
            let (default, about) = (parameter.value.text(), parameter.about);
            let row = format!("| `--{flag}` | `+{form}` | {name} | {default} | {about} |");
            rows.push((flag, row, vec![of.clone()]));
        }
    }
    rows.into_iter().map(|(_, row, of)| format!("{row} {} |\n", of.join(", "))).collect()
}

/// Returns the help of all commands. Subcommands follow their command.
fn commands(binary: &Path) -> Result<String> {
    let mut page = HEAD.to_owned();
    // A stack: the next command is taken from the end.
    let mut left = vec![Vec::new()];
    while let Some(words) = left.pop() {
        let help = help(binary, &words)?;
        let title = [&["nextpair".to_owned()], words.as_slice()].concat().join(" ");
        write!(page, "\n## {title}\n\n```text\n{}\n```\n", help.trim_end())?;
        let below = subcommands(&help).into_iter().rev();
        left.extend(below.map(|name| [words.as_slice(), &[name.to_owned()]].concat()));
    }
    Ok(page)
}

/// Returns the help of a command, wrapped to a fixed width.
fn help(binary: &Path, words: &[String]) -> Result<String> {
    let mut command = Command::new(binary);
    command.args(words).arg("--help").env_remove("COLUMNS");
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?} ended with {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the commands in a help text, except `help` itself: lines that begin with a name, or names with commas
/// between them. Further lines of a description have a larger indent.
fn subcommands(help: &str) -> Vec<&str> {
    let listed = help.lines().filter_map(|line| line.strip_prefix("  "));
    let listed = listed.filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    let names = listed.flat_map(|line| match line.split(' ').next() {
        Some(name) if name.ends_with(',') => line.split(", ").collect(),
        name => Vec::from_iter(name),
    });
    names.filter(|name| *name != "help").collect()
}

/// Returns the requests of an OpenAPI document, such as `GET /health`.
fn requests(document: &str) -> Result<Vec<String>> {
    let document: Value = serde_json::from_str(document)?;
    let mut requests = Vec::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        let methods = methods.as_object().into_iter().flatten().map(|(method, _)| method);
        let methods =
            methods.filter(|name| ["get", "post", "put", "delete"].contains(&name.as_str()));
        requests.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    ensure!(!requests.is_empty(), "{OPENAPI} has no paths");
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_every_parameter() {
        let page = include_str!("../../../docs/reference/strategies.md");
        assert!(with_parameters(page).unwrap() == page, "`cargo xtask book` writes the table");
    }

    #[test]
    fn subcommands_are_found() {
        let help = "Try\n\nCommands:\n  one  First,\n       and more\n  two  Second\n  help Print\n\nOptions:\n  -h\n";
        assert_eq!(subcommands(help), ["one", "two"]);
        let groups = "Try\n\nChoose:\n  one  First\n\nAnd:\n  two, three\n\nOptions:\n  -h\n";
        assert_eq!(subcommands(groups), ["one", "two", "three"]);
        assert!(subcommands("Try\n\nOptions:\n  -h\n").is_empty());
    }

    #[test]
    fn requests_are_found() {
        let document = r#"{"paths": {"/a": {"get": {}, "parameters": []}, "/b/{c}": {"put": {}}}}"#;
        assert_eq!(requests(document).unwrap(), ["GET /a", "PUT /b/{c}"]);
        assert!(requests("{}").is_err());
    }
}
