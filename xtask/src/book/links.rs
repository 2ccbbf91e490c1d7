//! Links between pages.

use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::page::Page;

/// Checks that every link within the repository leads to a file, and to a heading if it names one.
/// Returns the number of links. External links are not followed.
pub(super) fn check(pages: &[Page]) -> Result<usize> {
    let mut checked = 0;
    for page in pages {
        for target in page.links()?.into_iter().filter(|target| !is_elsewhere(target)) {
            let place = || format!("{}: the link to {target}", page.path.display());
            check_one(pages, page, target).with_context(place)?;
            checked += 1;
        }
    }
    Ok(checked)
}

/// Returns the chapters of a summary in order, and checks that it lists every page of its folder
/// once.
pub(super) fn chapters(pages: &[Page], summary: &Path) -> Result<Vec<PathBuf>> {
    let page = pages.iter().find(|page| page.path == summary).context("there is no summary")?;
    let links = page.links()?;
    let chapters = links.into_iter().map(|target| resolve(page, target));
    let chapters = chapters.collect::<Result<Vec<_>>>()?;
    let folder = summary.parent().context("the summary lies in a folder")?;
    for page in pages.iter().filter(|page| page.path.starts_with(folder) && page.path != summary) {
        let times = chapters.iter().filter(|chapter| **chapter == page.path).count();
        let name = page.path.display();
        ensure!(times == 1, "{name} is in {} {times} times; once is right", summary.display());
    }
    Ok(chapters)
}

/// Checks that what ARCHITECTURE names is there: its files, and the test that keeps each invariant. A reader can walk its
/// walks, of at most 15 files each.
pub(super) fn architecture(pages: &[Page]) -> Result<()> {
    let page = pages.iter().find(|page| page.path == Path::new("ARCHITECTURE.md"));
    let text = &page.context("there is no ARCHITECTURE.md")?.text;
    for path in named(text).filter(|word| word.ends_with(".rs") || word.ends_with('/')) {
        let folders = ["crates", "crates/nextpair/src", "."];
        let is_there = folders.iter().any(|folder| Path::new(folder).join(path).exists());
        ensure!(is_there, "ARCHITECTURE.md: {path} is not there");
    }
    let section = |name: &str| {
        let found = text.split("\n## ").find(|section| section.starts_with(name));
        found.with_context(|| format!("ARCHITECTURE.md has no section {name}"))
    };
    for walk in section("Four walks")?.split("\n- **").skip(1) {
        // What follows the first sentence takes the place of some of these files.
        let way = walk.split_once(". ").map_or(walk, |(way, _)| way);
        let files = named(way).filter(|word| word.ends_with(".rs")).count();
        ensure!((1..=15).contains(&files), "a walk through {files} files; 15 are enough: {way}");
    }
    for row in section("Invariants")?.lines().filter(|line| line.starts_with("| ")).skip(2) {
        let tests = row.rsplit('|').nth(1).unwrap_or_default();
        ensure!(named(tests).next().is_some(), "no test keeps this invariant: {row}");
        for test in named(tests) {
            let mut search = Command::new("git");
            search.args(["grep", "--quiet", &format!("fn {test}("), "--", "*.rs"]);
            ensure!(search.status()?.success(), "ARCHITECTURE.md: there is no test {test}");
        }
    }
    Ok(())
}

/// Words in the type of code.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn check_one(pages: &[Page], page: &Page, target: &str) -> Result<()> {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { page.path.clone() } else { resolve(page, file)? };
    let found = pages.iter().find(|page| page.path == path);
    ensure!(found.is_some() || path.exists(), "{} is not there", path.display());
    if heading.is_empty() {
        return Ok(());
    }
    let anchors = found.context("only pages have headings")?.anchors()?;
    ensure!(anchors.iter().any(|anchor| anchor == heading), "no heading is #{heading}");
    Ok(())
}

fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// Resolves the target of a link to a path from the root.
fn resolve(page: &Page, file: &str) -> Result<PathBuf> {
    let mut path = page.path.parent().unwrap_or(Path::new("")).to_path_buf();
    for part in Path::new(file).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => ensure!(path.pop(), "{file} leads out of the repository"),
            _ => anyhow::bail!("{file} is not a relative path"),
        }
    }
    // An empty path is the root itself.
    Ok(if path.as_os_str().is_empty() { ".".into() } else { path })
}

#[cfg(test)]
mod tests {
    use super::super::page::tests::page;
    use super::*;

    #[test]
    fn links_lead_to_files_and_headings() {
        // Tests run in the folder of this crate.
        let right = "[](#one) [](main.rs) [](../Cargo.toml) [](https://c.d)\n# One\n";
        assert_eq!(check(&[page("src/a.md", right)]).unwrap(), 3);
        let missing = check(&[page("src/a.md", "[](b.md)")]).unwrap_err();
        assert!(format!("{missing:#}").contains("src/b.md is not there"), "{missing:#}");
        for wrong in ["[](#two)", "[](../../../x)", "[](/etc/passwd)", "[](../Cargo.toml#a)"] {
            assert!(check(&[page("src/a.md", wrong)]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_page_is_in_the_summary_once() {
        let summary = Path::new("docs/SUMMARY.md");
        let book = |text| [page("docs/SUMMARY.md", text), page("docs/a.md", ""), page("b.md", "")];
        assert_eq!(chapters(&book("- [a](a.md)"), summary).unwrap(), [Path::new("docs/a.md")]);
        assert!(chapters(&book(""), summary).is_err());
        assert!(chapters(&book("[a](a.md) [a](a.md)"), summary).is_err());
    }
}
