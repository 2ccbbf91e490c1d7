//! Pages of the reference that must match the program.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::Value;

const COMMANDS: &str = "docs/reference/commands.md";
const API: &str = "docs/reference/http-api.md";
const OPENAPI: &str = "crates/annotate/src/openapi.json";

const HEAD: &str = "# Commands and flags

This page lists every command and flag of `nextpair`, as its own `--help` does. `cargo xtask book` writes it.
";

/// Writes the page of commands.
pub(super) fn write(binary: &Path) -> Result<()> {
    std::fs::write(COMMANDS, commands(binary)?)?;
    println!("{COMMANDS}");
    Ok(())
}

/// Checks the page of commands and that of the API.
pub(super) fn check(binary: &Path) -> Result<()> {
    let written = std::fs::read_to_string(COMMANDS)?;
    let same = written == commands(binary)?;
    ensure!(same, "{COMMANDS} is not what `--help` says; `cargo xtask book` writes it anew");
    let page = std::fs::read_to_string(API)?;
    for request in requests(&std::fs::read_to_string(OPENAPI)?)? {
        ensure!(page.contains(&format!("`{request}`")), "{API} lacks {request}");
    }
    Ok(())
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

/// Returns the commands in a help text, except `help` itself.
fn subcommands(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // Further lines of a description have a larger indent.
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").collect()
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
    fn subcommands_are_found() {
        let help = "Try\n\nCommands:\n  one  First,\n       and more\n  two  Second\n  help Print\n\nOptions:\n  -h\n";
        assert_eq!(subcommands(help), ["one", "two"]);
        assert!(subcommands("Try\n\nOptions:\n  -h\n").is_empty());
    }

    #[test]
    fn requests_are_found() {
        let document = r#"{"paths": {"/a": {"get": {}, "parameters": []}, "/b/{c}": {"put": {}}}}"#;
        assert_eq!(requests(document).unwrap(), ["GET /a", "PUT /b/{c}"]);
        assert!(requests("{}").is_err());
    }
}
