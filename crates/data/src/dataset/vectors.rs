//! Feature sets of vectors that were made elsewhere.

use std::io;
use std::path::PathBuf;

use half::f16;

use super::{Dataset, FeatureSet, Lock, Per};
use crate::{AtomicFile, Dtype, Error, Matrix, Side, npy};

impl Dataset {
    /// Adds vectors of items (images) or captions (texts) as features of this name. Returns how many items or
    /// captions have none.
    ///
    /// Without `ids` there is a row for every item or caption, in their order. With them, row `i` belongs to
    /// the item `ids[i]`; rows of one item belong to its captions, one after the other. If there are features of
    /// this name, the rows fill what is missing in them, unless `replace` is set.
    pub fn add_vectors(
        &mut self,
        (name, side): (&str, Side),
        matrix: &Matrix,
        ids: Option<&[String]>,
        replace: bool,
    ) -> Result<usize, Error> {
        check_name(self, name)?;
        let lock = self.lock()?;
        let per = per(side);
        let sets = self.manifest.features.iter();
        let mut named = sets.filter(|set| (set.side, set.name.as_str()) == (side, name));
        let known = named.next().filter(|_| !replace).cloned();
        let mut rows = match &known {
            Some(set) if set.per != per => {
                let what = format!("{side} features {name} are not one per {}", word(per));
                return Err(Error::format(&self.folder, what));
            }
            Some(set) => {
                let features = self.open_features(set)?;
                (0..self.owners(per)).map(|owner| features.row(owner)).collect()
            }
            None => vec![None; self.owners(per)],
        };
        let first = match &known {
            Some(set) => self.open_features(set)?.matrix().rows(),
            None => 0,
        };
        match ids {
            Some(ids) if ids.len() != matrix.rows() => {
                let what = format!("{} ids for {} rows", ids.len(), matrix.rows());
                return Err(Error::format(&self.folder, what));
            }
            Some(ids) => self.give_rows(per, ids, first, &mut rows)?,
            None if known.is_some() => {
                let what = format!(
                    "{side} features {name} exist already; --ids with the item of each row fills what is \
                     missing, --replace makes them anew, and --name gives others a name"
                );
                return Err(Error::format(&self.folder, what));
            }
            None if matrix.rows() != rows.len() => {
                let (found, wanted) = (matrix.rows(), rows.len());
                let what = format!(
                    "{found} rows for {wanted} {}s; --ids names the item of each row",
                    word(per)
                );
                return Err(Error::format(&self.folder, what));
            }
            None => rows = (0..matrix.rows()).map(Some).collect(),
        }
        let without = rows.iter().filter(|row| row.is_none()).count();
        match known {
            Some(set) => self.fill(&lock, set, matrix, &rows)?,
            None => {
                let all = rows.iter().copied().eq((0..matrix.rows()).map(Some));
                let rows = (!all).then(|| as_numbers(&rows));
                self.write_features(&lock, (name, side, per), matrix, rows.as_deref())?;
            }
        }
        Ok(without)
    }

    /// Writes features that were made elsewhere, in the place of those of the same name. There is a row for each
    /// item or caption, or for those that `rows` names.
    pub fn write_features(
        &mut self,
        lock: &Lock,
        (name, side, per): (&str, Side, Per),
        matrix: &Matrix,
        rows: Option<&[i64]>,
    ) -> Result<(), Error> {
        check_name(self, name)?;
        // Before their files change: never old rows with new numbers.
        self.remove_features(lock, side, name)?;
        let stem = format!("{name}.{side}");
        let file =
            self.write_own(&format!("{stem}.npy"), |file| npy::write_matrix(file, matrix))?;
        let rows = rows.map(|rows| {
            self.write_own(&format!("{stem}.rows.npy"), |file| npy::write_i64(file, rows))
        });
        let (files, rows) = (vec![file], rows.transpose()?);
        let (name, made_by, digests) = (name.to_owned(), None, Default::default());
        let set = FeatureSet { name, side, per, files, rows, made_by, digests };
        self.add_features(lock, set)
    }

    /// Puts more rows behind those of a feature set.
    fn fill(
        &mut self,
        lock: &Lock,
        mut set: FeatureSet,
        matrix: &Matrix,
        rows: &[Option<usize>],
    ) -> Result<(), Error> {
        let features = self.open_features(&set)?;
        let like = features.matrix();
        check_shape(self, &set, like, matrix)?;
        // A name of its own: the files in use stay as they are.
        let stem = format!("{}.{}.{}", set.name, set.side, set.files.len() + 1);
        let numbers = numbers_of(matrix, (0..matrix.rows()).map(Some));
        let matrix = in_type_of(self, &set, like, numbers)?;
        let file =
            self.write_own(&format!("{stem}.npy"), |file| npy::write_matrix(file, &matrix))?;
        set.files.push(file);
        let numbers = as_numbers(rows);
        let rows =
            self.write_own(&format!("{stem}.rows.npy"), |file| npy::write_i64(file, &numbers))?;
        set.list_rows_in(rows);
        self.add_features(lock, set)
    }

    /// Gives the rows that follow `first` to the items with these ids, or to their captions that have none.
    fn give_rows(
        &self,
        per: Per,
        ids: &[String],
        first: usize,
        rows: &mut [Option<usize>],
    ) -> Result<(), Error> {
        let items = self.items.find(ids.iter().map(String::as_str));
        for (at, id) in ids.iter().enumerate() {
            let wrong = |what: String| Error::format(&self.folder, what);
            let item = items.get(id.as_str()).copied();
            let item = item.ok_or_else(|| wrong(format!("row {at}: there is no item {id}")))?;
            let mut owners = match per {
                Per::Item => item..item + 1,
                Per::Caption => self.items.captions_of(item),
            };
            let owner = owners.find(|&owner| rows[owner].is_none()).ok_or_else(|| {
                let what = match per {
                    Per::Item => "has a row already",
                    Per::Caption => "has no caption without a row",
                };
                wrong(format!("row {at}: the item {id} {what}"))
            })?;
            rows[owner] = Some(first + at);
        }
        Ok(())
    }

    /// Writes a file of features whole and returns its path in the dataset.
    fn write_own(
        &self,
        name: &str,
        write: impl FnOnce(&mut AtomicFile) -> io::Result<()>,
    ) -> Result<PathBuf, Error> {
        let folder = self.folder.join("features");
        std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, e))?;
        let path = folder.join(name);
        let mut file = AtomicFile::create(&path)?;
        write(&mut file).map_err(|e| Error::io(&path, e))?;
        file.commit()?;
        Ok(PathBuf::from("features").join(name))
    }

    /// How many items or captions there are.
    pub fn owners(&self, per: Per) -> usize {
        match per {
            Per::Item => self.items.len(),
            Per::Caption => self.items.captions(),
        }
    }
}

/// What has the rows of features of a side: models take those of items for images, of captions for texts.
pub(super) fn per(side: Side) -> Per {
    match side {
        Side::Image => Per::Item,
        Side::Text => Per::Caption,
    }
}

fn word(per: Per) -> &'static str {
    match per {
        Per::Item => "item",
        Per::Caption => "caption",
    }
}

fn as_numbers(rows: &[Option<usize>]) -> Vec<i64> {
    rows.iter().map(|row| row.map_or(-1, |row| row as i64)).collect()
}

/// Refuses rows that are not like those of a feature set.
pub(super) fn check_shape(
    dataset: &Dataset,
    set: &FeatureSet,
    like: &Matrix,
    matrix: &Matrix,
) -> Result<(), Error> {
    let shape = |matrix: &Matrix| match matrix.locals() {
        1 => format!("{} numbers", matrix.dim()),
        locals => format!("{locals} x {} numbers", matrix.dim()),
    };
    let (found, wanted) = (shape(matrix), shape(like));
    if found == wanted {
        return Ok(());
    }
    let what = format!("rows of {found}, but the {} features {} have {wanted}", set.side, set.name);
    Err(Error::format(&dataset.folder, what))
}

/// Some rows of a matrix, NaN for those that it does not have.
pub(super) fn numbers_of(matrix: &Matrix, rows: impl Iterator<Item = Option<usize>>) -> Vec<f64> {
    let width = matrix.locals() * matrix.dim();
    let mut numbers = Vec::new();
    for row in rows {
        numbers.resize(numbers.len() + width, f64::NAN);
        if let Some(row) = row {
            let first = numbers.len() - width;
            matrix.read_f64(row, &mut numbers[first..]);
        }
    }
    numbers
}

/// Rows of the shape and the storage type of a feature set.
pub(super) fn in_type_of(
    dataset: &Dataset,
    set: &FeatureSet,
    like: &Matrix,
    numbers: Vec<f64>,
) -> Result<Matrix, Error> {
    let dim = like.dim();
    let matrix = match like.dtype() {
        Dtype::F16 => {
            if let Some(number) = numbers.iter().find(|n| n.abs() > f64::from(f16::MAX)) {
                let what = format!("{number} does not fit the features {}, float16", set.name);
                return Err(Error::format(&dataset.folder, what));
            }
            Matrix::from_vec(dim, numbers.into_iter().map(f16::from_f64).collect())
        }
        Dtype::F32 | Dtype::Bf16 => {
            Matrix::from_vec(dim, numbers.into_iter().map(|number| number as f32).collect())
        }
        Dtype::F64 => Matrix::from_vec(dim, numbers),
    };
    Ok(matrix.with_locals(like.locals()))
}

pub(super) fn check_name(dataset: &Dataset, name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(plain) {
        let what = format!("{name:?} is not a name for features: letters, digits, - _ and .");
        return Err(Error::format(&dataset.folder, what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{NewImages, sample};
    use super::*;
    use crate::queue::{Answer, AnswerContent};

    fn numbers(dataset: &Dataset, name: &str) -> Vec<Option<[f32; 2]>> {
        let (set, features) = dataset.features(Side::Text, Some(name)).unwrap();
        let row = |owner| {
            let mut numbers = [0.0; 2];
            features.matrix().read_f32(features.row(owner)?, &mut numbers);
            Some(numbers)
        };
        (0..dataset.owners(set.per)).map(row).collect()
    }

    #[test]
    fn vectors_of_captions_are_added_and_filled_in_later() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("old");
        std::fs::create_dir(&old).unwrap();
        let mut bare = sample::item("c", None, &[]);
        bare.image = Some("c.png".into());
        let items = [sample::item("a", None, &["x", "y"]), sample::item("b", None, &["z"]), bare];
        let mut dataset = sample::dataset(&old, &items, |_| {});
        let matrix = Matrix::from_f32(2, &[1.0, 0.0, 2.0, 0.0, 3.0, 0.0]);
        let few = dataset.add_vectors(("own", Side::Text), &matrix.slice(0..2), None, false);
        let few = few.unwrap_err().to_string();
        assert!(few.contains("2 rows for 3 captions; --ids names the item of each row"), "{few}");
        assert_eq!(dataset.add_vectors(("own", Side::Text), &matrix, None, false).unwrap(), 0);
        let twice = dataset.add_vectors(("own", Side::Text), &matrix, None, false).unwrap_err();
        assert!(twice.to_string().contains("own exist already; --ids"), "{twice}");

        let said = AnswerContent::Caption("new".into());
        let answer = Answer { id: "c".into(), said, annotator: None, provenance: None };
        let new = folder.path().join("new");
        let mut larger = dataset.enlarged(&new, &[answer], &[], &NewImages::default()).unwrap();
        assert_eq!(numbers(&larger, "own")[3], None);
        let one = Matrix::from_f64(2, &[4.0, 0.5]);
        let fill = |larger: &mut Dataset, id: &str, matrix: &Matrix| {
            larger.add_vectors(("own", Side::Text), matrix, Some(&[id.to_owned()]), false)
        };
        for (id, matrix, says) in [
            ("a", &one, "row 0: the item a has no caption without a row"),
            ("d", &one, "row 0: there is no item d"),
            (
                "c",
                &Matrix::from_f32(1, &[1.0]),
                "rows of 1 numbers, but the text features own have 2",
            ),
        ] {
            let error = fill(&mut larger, id, matrix).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(fill(&mut larger, "c", &one).unwrap(), 0);
        let larger = Dataset::open(&new).unwrap();
        let all = numbers(&larger, "own");
        assert_eq!(all, [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.5]].map(Some));
        assert_eq!(numbers(&dataset, "own").len(), 3);
    }

    #[test]
    fn rows_with_ids_may_leave_others_without() {
        let folder = tempfile::tempdir().unwrap();
        let items = [sample::item("a", None, &["x", "y"]), sample::item("b", None, &["z"])];
        let mut dataset = sample::dataset(folder.path(), &items, |_| {});
        let matrix = Matrix::from_f32(2, &[1.0, 0.0, 2.0, 0.0]);
        let ids = ["b", "a"].map(str::to_owned);
        let without = dataset.add_vectors(("own", Side::Text), &matrix, Some(&ids), false).unwrap();
        assert_eq!(without, 1);
        assert_eq!(numbers(&dataset, "own"), [Some([2.0, 0.0]), None, Some([1.0, 0.0])]);
        let wrong = dataset.add_vectors(("../own", Side::Text), &matrix, Some(&ids), false);
        assert!(wrong.unwrap_err().to_string().contains("is not a name for features"));
        // In the place of the others.
        let again = dataset.add_vectors(("own", Side::Text), &matrix, Some(&ids[..1]), true);
        assert!(again.is_err(), "two rows for one id");
    }
}
