//! The README and the book in `docs/`: every link leads somewhere, every page is in the summary, the
//! reference says what the program says, and every block of shell commands runs.

mod links;
mod page;
mod reference;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::bench::build_nextpair;
use crate::succeed;
use page::Page;

/// Where the pages of the book are, the folder of a reader who types along, and folders with pages
/// beside the book.
const BOOK: &str = "docs";
const SCRATCH: &str = "target/book";
const BESIDE: [&str; 3] = [".", "bench", "experiments"];
/// The table of contents, in the form of mdBook.
const SUMMARY: &str = "docs/SUMMARY.md";
const README: &str = "README.md";

/// Commands that are this very run, or take too long to repeat.
const SKIPPED: [&str; 4] =
    ["cargo xtask test", "cargo xtask bench", "cargo xtask fuzz", "cargo xtask soak"];
/// The whole quickstart takes minutes; the fast one beside it does the same.
const TOO_LONG: &str = "cargo run --release -- quickstart";

/// Checks everything and runs the blocks of the README and then of the book, as a reader would.
pub(crate) fn run() -> Result<()> {
    let pages = read_pages()?;
    let chapters = links::chapters(&pages, Path::new(SUMMARY))?;
    let links = links::check(&pages)?;
    println!("{} pages, {links} links", pages.len());
    // Before the blocks: they call the program by its name.
    let binary = build_nextpair()?.canonicalize()?;
    reference::check(&binary)?;
    let in_order = std::iter::once(PathBuf::from(README)).chain(chapters);
    let mut blocks = Vec::new();
    for path in in_order {
        let page = pages.iter().find(|page| page.path == path).context("a chapter is a page")?;
        blocks.extend(page.shell_blocks()?.iter().filter_map(|block| without_skipped(block)));
    }
    run_blocks(&blocks, &binary)?;
    println!("{} passed, 0 failed", blocks.len());
    Ok(())
}

/// `cargo xtask book`: writes the pages of the book that are made of the program.
pub(crate) fn write() -> Result<()> {
    reference::write(&build_nextpair()?.canonicalize()?)
}

/// The pages of the book and those beside it, by paths from the root.
fn read_pages() -> Result<Vec<Page>> {
    let mut paths = Vec::new();
    let mut folders = vec![PathBuf::from(BOOK)];
    while let Some(folder) = folders.pop() {
        paths.extend(markdown_files(&folder)?);
        let entries = std::fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
        folders.extend(entries.iter().map(|entry| entry.path()).filter(|path| path.is_dir()));
    }
    for folder in BESIDE {
        paths.extend(markdown_files(Path::new(folder))?);
    }
    paths.sort();
    paths.into_iter().map(Page::read).collect()
}

fn markdown_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path.strip_prefix(".").unwrap_or(&path).to_path_buf());
        }
    }
    Ok(files)
}

/// A block without the commands that are skipped; `None` if nothing is left.
fn without_skipped(block: &str) -> Option<String> {
    let skipped = |line: &str| line == TOO_LONG || SKIPPED.iter().any(|s| line.starts_with(s));
    let kept: Vec<&str> = block.lines().filter(|line| !skipped(line)).collect();
    if kept.is_empty() { None } else { Some(kept.join("\n")) }
}

/// Runs blocks in one fresh folder that has the workspace's program on its path. `cargo run` finds
/// the workspace from below it.
fn run_blocks(blocks: &[String], binary: &Path) -> Result<()> {
    ensure!(!blocks.is_empty(), "the README and the book have no shell block");
    let scratch = Path::new(SCRATCH);
    if scratch.exists() {
        std::fs::remove_dir_all(scratch)?;
    }
    std::fs::create_dir_all(scratch)?;
    let programs = binary.parent().context("a program lies in a folder")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", programs.display());
    for block in blocks {
        eprintln!("{block}");
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", block]).current_dir(scratch).env("PATH", &path);
        succeed(&mut shell)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_run_is_skipped() {
        assert_eq!(without_skipped("cargo xtask test"), None);
        let quickstart = format!("{TOO_LONG}\n{TOO_LONG} --fast");
        assert_eq!(without_skipped(&quickstart), Some(format!("{TOO_LONG} --fast")));
    }
}
