//! Links between pages.

use std::path::{Component, Path, PathBuf};

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

/// Checks that the files of ARCHITECTURE's walks are there, and that a reader can walk them: at most 15 each.
pub(super) fn walks(pages: &[Page]) -> Result<()> {
    let page = pages.iter().find(|page| page.path == Path::new("ARCHITECTURE.md"));
    let text = &page.context("there is no ARCHITECTURE.md")?.text;
    let section = text.split("\n## ").find(|section| section.starts_with("Four walks"));
    for walk in section.context("ARCHITECTURE.md has no walks")?.split("\n- **").skip(1) {
        let (name, files) = walk.split_once("**").context("a walk has a name")?;
        // What follows the first sentence takes the place of some of these files.
        let (way, others) = files.split_once(". ").unwrap_or((files, ""));
        let named = |text: &str| -> Vec<String> {
            let words = text.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs"));
            words.map(str::to_owned).collect()
        };
        let way = named(way);
        ensure!(way.len() <= 15, "{name}: a walk through {} files; 15 are enough", way.len());
        for file in way.iter().chain(&named(others)) {
            let folders = ["crates", "crates/nextpair/src", "."];
            let is_there = folders.iter().any(|folder| Path::new(folder).join(file).exists());
            ensure!(is_there, "ARCHITECTURE.md, {name}: {file} is not there");
        }
    }
    Ok(())
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
