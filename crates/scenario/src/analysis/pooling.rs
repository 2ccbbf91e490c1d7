//! Checks which experiments can be pooled.

use nextpair_data::first_difference;
use toml::Table;

use super::Evidence;
use crate::{Error, Study};

/// Settings that pooled experiments need not share.
const FREE: [&str; 6] = ["seeds", "strategies", "rounds", "price", "dataset", "queries"];

/// Checks that experiments can be pooled. The error names their first difference.
pub(super) fn check(studies: &[&Study]) -> Result<(), Error> {
    let Some((first, others)) = studies.split_first() else { return Ok(()) };
    let expected = settings(first)?;
    for other in others {
        let found = first_difference(&expected, &settings(other)?, "");
        let found = found.or_else(|| data(first, other));
        if let Some(what) = found {
            let what = format!(
                "{what}, unlike {}: the experiments cannot be pooled; --compare puts them side by side",
                first.folder.path().display()
            );
            return Err(Error::file(other.folder.path(), what));
        }
    }
    Ok(())
}

fn settings(study: &Study) -> Result<Table, Error> {
    let path = study.folder.experiment();
    let settings = Table::try_from(&study.experiment);
    let mut settings = settings.map_err(|e| Error::file(&path, e.to_string()))?;
    FREE.iter().for_each(|key| drop(settings.remove(*key)));
    Ok(settings)
}

/// Describes the difference between the data of two experiments, if any.
fn data(one: &Study, other: &Study) -> Option<String> {
    let (one, other) = (&one.manifest, &other.manifest);
    if one.items != other.items {
        return Some(format!("{} items and not {}", other.items, one.items));
    }
    // Settings are compared one by one; what a path names may be the same elsewhere.
    let mut files = one.files.iter().filter(|(name, _)| *name != "settings");
    let changed = files.find(|(name, print)| other.files.get(*name) != Some(*print));
    changed.map(|(name, _)| format!("another {name}"))
}

/// Returns the name of pooled experiments.
pub(super) fn label(studies: &[&Study]) -> String {
    let name = |study: &&Study| {
        let path = study.folder.path();
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let name = whole.file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| path.display().to_string())
    };
    studies.iter().map(name).collect::<Vec<_>>().join(" + ")
}

/// Labels experiments by their whole paths if their folders have the same name.
pub(super) fn tell_apart(runs: &mut [Evidence]) {
    let labels: Vec<String> = runs.iter().map(|run| run.label.clone()).collect();
    for run in runs {
        if labels.iter().filter(|label| **label == run.label).count() > 1 {
            let paths = run.folders.iter().map(|path| path.display().to_string());
            run.label = paths.collect::<Vec<_>>().join(" + ");
            let label = &run.label;
            run.other_tests.iter_mut().for_each(|other| other.label.clone_from(label));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Analysis;
    use crate::fixture::Fixture;

    #[test]
    fn runs_are_pooled_or_compared() {
        let one = Fixture::default().two_arms();
        let other = Fixture::default().two_arms().seeds(&[2, 3]);
        let pooled = Analysis::of(&[one.study(), other.study()], false, None).unwrap();
        assert_eq!(pooled.runs[0].seeds, [0, 1, 2, 3]);
        assert_eq!(pooled.runs[0].arms[1].finished, [0, 1, 2, 3]);
        let mut changed = other.study();
        changed.experiment.training.epochs += 1;
        let what = Analysis::of(&[one.study(), changed.clone()], false, None).unwrap_err();
        assert!(what.to_string().contains("training.epochs"), "{what}");
        let compared = Analysis::of(&[one.study(), changed], true, None).unwrap();
        // Queries may lie elsewhere, but not be others.
        let mut moved = other.study();
        moved.experiment.queries = Some("elsewhere.txt".into());
        moved.manifest.files.insert("settings".to_owned(), "by the path".to_owned());
        let mut asked = one.study();
        asked.experiment.queries = Some("asked.txt".into());
        asked.manifest.files.insert("queries".to_owned(), "1".to_owned());
        moved.manifest.files.insert("queries".to_owned(), "1".to_owned());
        Analysis::of(&[asked.clone(), moved.clone()], false, None).unwrap();
        moved.manifest.files.insert("queries".to_owned(), "2".to_owned());
        let what = Analysis::of(&[asked, moved], false, None).unwrap_err().to_string();
        assert!(what.contains("another queries"), "{what}");
        assert_eq!(compared.runs.len(), 2);
        assert_ne!(compared.runs[0].label, compared.runs[1].label);
        let mut same = one.study();
        same.rounds[3].test[0].text.r1 += 1.0;
        let what = Analysis::of(&[one.study(), same], false, None).unwrap_err().to_string();
        assert!(what.contains("seed 0"), "{what}");
    }
}
