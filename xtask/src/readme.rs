//! Runs the shell blocks of the README, in order, as a reader would.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::succeed;

/// Commands of the README that are this very run, or take too long to repeat.
const SKIPPED: [&str; 4] =
    ["cargo xtask test", "cargo xtask bench", "cargo xtask fuzz", "cargo xtask soak"];
/// The whole quickstart takes minutes; the fast one beside it does the same.
const TOO_LONG: &str = "cargo run --release -- quickstart";

/// Every ```sh block, in a scratch folder that has the workspace's program on its path.
pub(crate) fn run() -> Result<()> {
    let root = crate::root()?;
    let text = std::fs::read_to_string(root.join("README.md"))?;
    let blocks = shell_blocks(&text);
    ensure!(!blocks.is_empty(), "the README has no shell block");
    let scratch = root.join("target/readme");
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch)?;
    }
    std::fs::create_dir_all(&scratch)?;
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", root.join("target/release").display());
    for block in &blocks {
        eprintln!("{block}");
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", block]).current_dir(&scratch).env("PATH", &path);
        succeed(&mut shell)?;
    }
    println!("{} passed, 0 failed", blocks.len());
    Ok(())
}

/// The blocks without the commands that are skipped. `cargo run` finds the workspace from below it.
fn shell_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<Vec<&str>> = None;
    for line in text.lines() {
        match &mut block {
            None if line == "```sh" => block = Some(Vec::new()),
            Some(lines) if line == "```" => {
                if !lines.is_empty() {
                    blocks.push(lines.join("\n"));
                }
                block = None;
            }
            Some(lines) if line != TOO_LONG && !SKIPPED.iter().any(|s| line.starts_with(s)) => {
                lines.push(line);
            }
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::shell_blocks;

    #[test]
    fn blocks_are_found_and_this_run_is_skipped() {
        let text =
            "a\n```sh\necho 1\necho 2\n```\n```text\nno\n```\n```sh\ncargo xtask test\n```\n";
        assert_eq!(shell_blocks(text), ["echo 1\necho 2"]);
    }
}
