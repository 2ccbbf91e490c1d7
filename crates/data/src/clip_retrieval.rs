//! Folders of embeddings in clip-retrieval's layout.
//!
//! The shards are `img_emb_0.npy`, `text_emb_0.npy`, `metadata_0.parquet` and so on, either all in
//! the folder or in its subfolders `img_emb`, `text_emb` and `metadata`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::{Error, Matrix, Side, Table, npy, parquet};

/// Columns that may hold the ids, the preferred first.
const ID_COLUMNS: [&str; 4] = ["id", "uid", "key", "image_path"];

/// Files by their number.
type Shards = BTreeMap<u64, PathBuf>;

/// Opens the shards of one side as one table. The table has no ids if there is no metadata, or if
/// no id column occurs in every shard of it.
pub(crate) fn open(folder: &Path, side: Side) -> Result<Table, Error> {
    let kind = kind(side);
    let shards = find(folder, kind, "npy")?;
    let (Some(&first), Some(&last)) = (shards.keys().next(), shards.keys().next_back()) else {
        return Err(Error::format(folder, format!("a folder without {kind}_*.npy files")));
    };
    if let Some(missing) = (first..last).find(|number| !shards.contains_key(number)) {
        let what = format!("{kind}_{missing}.npy is missing between {first} and {last}");
        return Err(Error::format(folder, what));
    }
    let matrices = open_matrices(&shards)?;
    let metadata = find(folder, "metadata", "parquet")?;
    let ids = if metadata.is_empty() {
        None
    } else {
        check_metadata(folder, &shards, &matrices, &metadata)?;
        read_ids(&metadata)?
    };
    let matrix = Matrix::concatenate(matrices).expect("the shards agree in shape and type");
    Ok(Table { matrix, ids })
}

/// The embedding files of one side, in order.
pub(crate) fn files(folder: &Path, side: Side) -> Result<Vec<PathBuf>, Error> {
    Ok(find(folder, kind(side), "npy")?.into_values().collect())
}

/// The captions in the metadata, one per row.
pub(crate) fn captions(folder: &Path) -> Result<Option<Vec<Option<String>>>, Error> {
    let mut captions = Vec::new();
    for path in find(folder, "metadata", "parquet")?.values() {
        if !parquet::outline(path)?.0.iter().any(|column| column == "caption") {
            return Ok(None);
        }
        let read = parquet::read_nullable_strings(path, "caption")?.into_iter();
        captions.extend(read.map(|caption| caption.filter(|text| !text.trim().is_empty())));
    }
    Ok(Some(captions).filter(|captions| !captions.is_empty()))
}

fn kind(side: Side) -> &'static str {
    match side {
        Side::Image => "img_emb",
        Side::Text => "text_emb",
    }
}

/// The files `kind_NUMBER.extension` in `folder` and in its subfolder `kind`.
fn find(folder: &Path, kind: &str, extension: &str) -> Result<Shards, Error> {
    let mut shards = Shards::new();
    let subfolder = folder.join(kind);
    let subfolder = subfolder.is_dir().then_some(subfolder);
    for place in [Some(folder), subfolder.as_deref()].into_iter().flatten() {
        for entry in std::fs::read_dir(place).map_err(|e| Error::io(place, e))? {
            let path = entry.map_err(|e| Error::io(place, e))?.path();
            let Some(number) = number(&path, kind, extension) else { continue };
            if let Some(other) = shards.insert(number, path.clone()) {
                let what = format!("has the same number as {}", other.display());
                return Err(Error::format(&path, what));
            }
        }
    }
    Ok(shards)
}

fn number(path: &Path, kind: &str, extension: &str) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(extension)?.strip_suffix('.')?;
    stem.strip_prefix(kind)?.strip_prefix('_')?.parse().ok()
}

/// Opens every shard and checks that it has the shape and type of the first.
fn open_matrices(shards: &Shards) -> Result<Vec<Matrix>, Error> {
    let mut matrices: Vec<Matrix> = Vec::with_capacity(shards.len());
    for path in shards.values() {
        let matrix = npy::open(path)?;
        let (first, found) = (describe(matrices.first().unwrap_or(&matrix)), describe(&matrix));
        if first != found {
            let what = format!("rows of {found}, but the first shard has rows of {first}");
            return Err(Error::format(path, what));
        }
        matrices.push(matrix);
    }
    Ok(matrices)
}

fn describe(matrix: &Matrix) -> String {
    format!("{} x {} {:?}", matrix.locals(), matrix.dim(), matrix.dtype())
}

/// Checks that every shard has metadata with as many rows.
fn check_metadata(
    folder: &Path,
    shards: &Shards,
    matrices: &[Matrix],
    metadata: &Shards,
) -> Result<(), Error> {
    for ((number, shard), matrix) in shards.iter().zip(matrices) {
        let Some(path) = metadata.get(number) else {
            let what = format!("metadata_{number}.parquet is missing beside {}", shard.display());
            return Err(Error::format(folder, what));
        };
        let (_, rows) = parquet::outline(path)?;
        if rows != matrix.rows() {
            let what = format!("{rows} rows, but {} has {}", shard.display(), matrix.rows());
            return Err(Error::format(path, what));
        }
    }
    if let Some((_, path)) = metadata.iter().find(|(number, _)| !shards.contains_key(number)) {
        return Err(Error::format(path, "there are no embeddings of this number"));
    }
    Ok(())
}

/// The ids of all shards, from the first id column that every shard has.
fn read_ids(metadata: &Shards) -> Result<Option<Vec<String>>, Error> {
    let mut candidates = ID_COLUMNS.to_vec();
    for path in metadata.values() {
        let (columns, _) = parquet::outline(path)?;
        candidates.retain(|&candidate| columns.iter().any(|column| column == candidate));
    }
    let Some(&column) = candidates.first() else { return Ok(None) };
    let mut ids = Vec::new();
    for path in metadata.values() {
        ids.extend(parquet::read_strings(path, &[column])?.1);
    }
    Ok(Some(ids))
}

#[cfg(test)]
mod tests {
    use ::parquet::basic::Compression;
    use ::parquet::data_type::{ByteArray, ByteArrayType};

    use super::*;
    use crate::parquet::sample::{self, Column};

    fn embeddings(path: PathBuf, dim: usize, values: &[f32]) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = std::fs::File::create(path).unwrap();
        npy::write_f32(&mut file, values.len() / dim, dim, values.iter().copied()).unwrap();
    }

    fn metadata(path: PathBuf, columns: &[&str], ids: &[&str]) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let schema: String =
            columns.iter().map(|name| format!("required binary {name} (UTF8); ")).collect();
        let texts = |name: &str| {
            let texts = ids.iter().map(|id| ByteArray::from(format!("{name}-{id}").as_str()));
            Column::<ByteArrayType>::flat(texts.collect())
        };
        let texts: Vec<_> = columns.iter().map(|name| texts(name)).collect();
        let group: Vec<&dyn sample::Write> =
            texts.iter().map(|t| t as &dyn sample::Write).collect();
        sample::write(&path, Compression::UNCOMPRESSED, &schema, &[&group]);
    }

    fn refused(folder: &Path, side: Side) -> String {
        open(folder, side).unwrap_err().to_string()
    }

    #[test]
    fn shards_are_ordered_by_number_in_both_layouts() {
        for nested in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let place = |kind: &str, file: String| {
                if nested { folder.path().join(kind).join(file) } else { folder.path().join(file) }
            };
            for number in (0..11).rev() {
                let value = number as f32;
                embeddings(place("img_emb", format!("img_emb_{number}.npy")), 2, &[value; 2]);
                embeddings(place("text_emb", format!("text_emb_{number:04}.npy")), 1, &[-value; 1]);
                let path = place("metadata", format!("metadata_{number}.parquet"));
                let columns = ["caption", "image_path", "key"];
                // One shard has an `id`, but only `key` and `image_path` occur in all of them.
                let columns = if number == 3 { ["id", "key", "image_path"] } else { columns };
                metadata(path, &columns, &[&number.to_string()]);
            }
            let images = open(folder.path(), Side::Image).unwrap();
            let texts = open(folder.path(), Side::Text).unwrap();
            assert_eq!((images.matrix.rows(), images.matrix.dim()), (11, 2));
            assert_eq!((texts.matrix.rows(), texts.matrix.dim()), (11, 1));
            let mut row = [0.0; 2];
            images.matrix.read_f64(10, &mut row);
            assert_eq!(row, [10.0; 2]);
            assert_eq!(images.ids.as_ref().unwrap()[10], "key-10");
            assert_eq!(images.ids, texts.ids);
        }
    }

    #[test]
    fn ids_are_optional() {
        let folder = tempfile::tempdir().unwrap();
        embeddings(folder.path().join("img_emb_0.npy"), 1, &[1.0]);
        assert!(open(folder.path(), Side::Image).unwrap().ids.is_none());
        metadata(folder.path().join("metadata_0.parquet"), &["caption"], &["x"]);
        assert!(open(folder.path(), Side::Image).unwrap().ids.is_none());
        assert!(refused(folder.path(), Side::Text).contains("a folder without text_emb_*.npy"));
    }

    #[test]
    fn incomplete_folders_are_explained() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        embeddings(path("img_emb_0.npy"), 2, &[1.0; 4]);
        embeddings(path("img_emb_2.npy"), 2, &[1.0; 2]);
        assert!(refused(folder.path(), Side::Image).contains("img_emb_1.npy is missing"));

        embeddings(path("img_emb_1.npy"), 3, &[1.0; 3]);
        let what = refused(folder.path(), Side::Image);
        assert!(what.contains("img_emb_1.npy: rows of 1 x 3 F32, but the first"), "{what}");

        embeddings(path("img_emb_1.npy"), 2, &[1.0; 2]);
        metadata(path("metadata_0.parquet"), &["id"], &["a", "b"]);
        metadata(path("metadata_1.parquet"), &["id"], &["c", "d"]);
        let what = refused(folder.path(), Side::Image);
        assert!(what.contains("metadata_1.parquet: 2 rows, but "), "{what}");
        assert!(what.contains("img_emb_1.npy has 1"), "{what}");

        metadata(path("metadata_1.parquet"), &["id"], &["c"]);
        assert!(refused(folder.path(), Side::Image).contains("metadata_2.parquet is missing"));

        metadata(path("metadata_2.parquet"), &["id"], &["d"]);
        let ids = open(folder.path(), Side::Image).unwrap().ids.unwrap();
        assert_eq!(ids, ["id-a", "id-b", "id-c", "id-d"]);

        metadata(path("metadata_3.parquet"), &["id"], &["e"]);
        assert!(refused(folder.path(), Side::Image).contains("no embeddings of this number"));

        embeddings(path("img_emb/img_emb_00.npy"), 2, &[1.0; 4]);
        assert!(refused(folder.path(), Side::Image).contains("has the same number as"));
    }
}
