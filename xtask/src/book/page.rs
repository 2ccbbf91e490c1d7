//! Markdown pages, parsed as far as the checks need.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// Other names of shells. They would hide a block from the checks: a block is `sh`.
const OTHER_SHELLS: [&str; 4] = ["bash", "console", "shell", "zsh"];
/// The word that excludes a block from running. The text beside it says why.
const NORUN: &str = "norun";

/// A page, and its path from the root of the workspace.
pub(super) struct Page {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// A fenced block, with the words after its opening fence.
struct Block<'a> {
    words: Vec<&'a str>,
    lines: Vec<&'a str>,
}

impl Page {
    pub(super) fn read(path: PathBuf) -> Result<Self> {
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(Page { path, text })
    }

    /// Returns the targets of all links in order. A target is on one line.
    pub(super) fn links(&self) -> Result<Vec<&str>> {
        let mut targets = Vec::new();
        for line in self.split()?.0 {
            for (at, _) in line.match_indices("](") {
                let in_code = line[..at].matches('`').count() % 2 == 1;
                if let Some(end) = line[at..].find(')').filter(|_| !in_code) {
                    targets.push(&line[at + 2..at + end]);
                }
            }
        }
        Ok(targets)
    }

    /// Returns the anchors of its headings, as on GitHub.
    pub(super) fn anchors(&self) -> Result<Vec<String>> {
        let mut anchors: Vec<String> = Vec::new();
        for line in self.split()?.0 {
            let title = line.trim_start_matches('#');
            if title.len() == line.len() || !title.starts_with(' ') {
                continue;
            }
            let anchor = anchor(title.trim());
            let again = anchors.iter().filter(|known| **known == anchor).count();
            anchors.push(if again == 0 { anchor } else { format!("{anchor}-{again}") });
        }
        Ok(anchors)
    }

    /// Returns the shell blocks to run.
    pub(super) fn shell_blocks(&self) -> Result<Vec<String>> {
        let mut shell = Vec::new();
        for block in self.split()?.1 {
            let opening =
                || format!("{}: a block is ```{}", self.path.display(), block.words.join(" "));
            match *block.words {
                ["sh"] => shell.push(block.lines.join("\n")),
                ["sh", NORUN] => {}
                ["sh", ..] => anyhow::bail!("{}; after sh there is only {NORUN}", opening()),
                [name, ..] => ensure!(!OTHER_SHELLS.contains(&name), "{}; write sh", opening()),
                [] => {}
            }
        }
        Ok(shell)
    }

    /// Splits the page into lines outside of fences and fenced blocks.
    fn split(&self) -> Result<(Vec<&str>, Vec<Block<'_>>)> {
        let (mut prose, mut blocks) = (Vec::new(), Vec::new());
        let mut open: Option<Block<'_>> = None;
        for line in self.text.lines() {
            let fence = line.trim_start().strip_prefix("```");
            match (open.take(), fence) {
                (None, None) => prose.push(line),
                (None, Some(info)) => {
                    let words = info.split_whitespace().collect();
                    open = Some(Block { words, lines: Vec::new() });
                }
                (Some(block), Some("")) => blocks.push(block),
                (Some(mut block), _) => {
                    block.lines.push(line);
                    open = Some(block);
                }
            }
        }
        ensure!(open.is_none(), "{}: a block has no end", self.path.display());
        Ok((prose, blocks))
    }
}

/// Returns the anchor of a title: letters, digits, `-` and `_` in lower case, with `-` for blanks.
fn anchor(title: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let kept = title.chars().filter(kept);
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn page(path: &str, text: &str) -> Page {
        Page { path: path.into(), text: text.into() }
    }

    #[test]
    fn blocks_of_sh_are_found() {
        let text = "a\n```sh\necho 1\necho 2\n```\n```text\nno\n```\n```sh norun\nno\n```\n";
        assert_eq!(page("a.md", text).shell_blocks().unwrap(), ["echo 1\necho 2"]);
    }

    #[test]
    fn blocks_that_would_be_missed_are_errors() {
        for text in ["```bash\na\n```\n", "```sh later\na\n```\n", "```sh\na\n"] {
            assert!(page("a.md", text).shell_blocks().is_err(), "{text}");
        }
    }

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "[a](b.md) and ![c](d.png) `[e](f)`\n```text\n[g](h)\n```\n[i\nj](k.md#l)\n";
        assert_eq!(page("a.md", text).links().unwrap(), ["b.md", "d.png", "k.md#l"]);
    }

    #[test]
    fn anchors_are_those_of_github() {
        let text = "# The paper's `datasets`\n## A_b, c-d\n## A_b, c-d\n#no\n```sh\n# no\n```\n";
        let anchors = page("a.md", text).anchors().unwrap();
        assert_eq!(anchors, ["the-papers-datasets", "a_b-c-d", "a_b-c-d-1"]);
    }
}
