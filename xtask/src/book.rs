//! Checks the README and the book in `docs/`: links resolve, the summary lists every page, the
//! reference matches the program, and every block of shell commands runs.

mod links;
mod page;
mod reference;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::bench::build_nextpair;
use crate::{succeed, without_own_package};
use page::Page;

/// The folder of the book, the working folder for its blocks, and folders with pages beside the
/// book.
const BOOK: &str = "docs";
const SCRATCH: &str = "target/book";
const BESIDE: [&str; 3] = [".", "bench", "experiments"];
/// The table of contents, in mdBook's format.
const SUMMARY: &str = "docs/SUMMARY.md";
const README: &str = "README.md";

/// Commands that would run this again, or take too long.
const SKIPPED: [&str; 4] =
    ["cargo xtask test", "cargo xtask bench", "cargo xtask fuzz", "cargo xtask soak"];
/// The whole quickstart takes minutes. The fast one beside it does the same.
const TOO_LONG: &str = "cargo run --release -- quickstart";

/// Runs all checks, then the blocks of the README and of the book, like a reader.
pub(crate) fn run() -> Result<()> {
    let pages = read_pages()?;
    let chapters = links::chapters(&pages, Path::new(SUMMARY))?;
    let links = links::check(&pages)?;
    links::architecture(&pages)?;
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

/// Runs `cargo xtask book`: writes the generated pages of the book.
pub(crate) fn write() -> Result<()> {
    reference::write(&build_nextpair()?.canonicalize()?)
}

/// Reads the pages of the book and those beside it, with paths from the root.
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

/// Returns a block without skipped commands, or `None` if nothing is left.
fn without_skipped(block: &str) -> Option<String> {
    let skipped = |line: &str| line == TOO_LONG || SKIPPED.iter().any(|s| line.starts_with(s));
    let kept: Vec<&str> = block.lines().filter(|line| !skipped(line)).collect();
    if kept.is_empty() { None } else { Some(kept.join("\n")) }
}

/// Runs blocks in one fresh folder, with the program of the workspace on the path. The folder is
/// below the workspace, so `cargo run` works too.
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
        // The README asks cargo to run the program, which is compiled already.
        let mut shell = without_own_package(Command::new("bash"));
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
