//! Opening a table in any supported format.

use std::path::Path;

use crate::parquet::Columns;
use crate::{Error, Matrix, Side, clip_retrieval, npy, npz, parquet, safetensors};

const READ: &str = "read are .npy, .npz (or FILE.npz:ARRAY), .safetensors (or \
                    FILE.safetensors:TENSOR), .parquet, and a folder as clip-retrieval writes it";

/// A matrix, and the ids of its rows if the file has them.
#[derive(Clone, Debug)]
pub struct Table {
    /// The rows.
    pub matrix: Matrix,
    /// One id per row.
    pub ids: Option<Vec<String>>,
}

/// Opens a file by its extension, or a folder written by clip-retrieval.
pub fn open(path: &Path, side: Side) -> Result<Table, Error> {
    open_columns(path, side, &Columns::default())
}

/// Like [`open`]; in a Parquet file, ids and rows are those of the named columns.
pub fn open_columns(path: &Path, side: Side, columns: &Columns) -> Result<Table, Error> {
    let without_ids = |matrix| Table { matrix, ids: None };
    if !path.exists()
        && let Some((file, name)) = split_name(path)
    {
        let is_npz = file.extension().is_some_and(|extension| extension == "npz");
        let matrix = match is_npz {
            true => npz::open(file, Some(name)),
            false => safetensors::open(file, Some(name)),
        };
        return matrix.map(without_ids);
    }
    if std::fs::metadata(path).map_err(|e| Error::io(path, e))?.is_dir() {
        return clip_retrieval::open(path, side);
    }
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "npy" => npy::open(path).map(without_ids),
        "npz" => npz::open(path, None).map(without_ids),
        "safetensors" => safetensors::open(path, None).map(without_ids),
        "parquet" => parquet::open_columns(path, columns),
        "" => Err(Error::format(path, format!("no extension; {READ}"))),
        other => Err(Error::format(path, format!("unknown extension .{other}; {READ}"))),
    }
}

/// Splits `FILE.safetensors:TENSOR` or `FILE.npz:ARRAY` at the last colon that leaves an existing
/// file, since both names may contain colons.
fn split_name(path: &Path) -> Option<(&Path, &str)> {
    let text = path.to_str()?;
    text.rmatch_indices(':').find_map(|(at, _)| {
        let file = Path::new(&text[..at]);
        let holds_several = [".safetensors", ".npz"].iter().any(|end| text[..at].ends_with(end));
        let named = holds_several && file.is_file();
        named.then_some((file, &text[at + 1..]))
    })
}

#[cfg(test)]
mod tests {
    use ::safetensors::tensor::{Dtype, TensorView, serialize};

    use super::*;

    #[test]
    fn formats_are_told_by_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut bytes = Vec::new();
        npy::write_f32(&mut bytes, 1, 2, [1.0, 2.0]).unwrap();
        for name in ["a.npy", "A.NPY", "a.txt", "a", "odd.safetensors:x.npy"] {
            std::fs::write(path(name), &bytes).unwrap();
        }
        for name in ["a.npy", "A.NPY", "odd.safetensors:x.npy"] {
            assert_eq!(open(&path(name), Side::Image).unwrap().matrix.dim(), 2);
        }
        for (name, expected) in [("a.txt", "unknown extension .txt"), ("a", "no extension")] {
            let what = open(&path(name), Side::Image).unwrap_err().to_string();
            assert!(what.contains(expected) && what.contains(".parquet"), "{what}");
        }
        for name in ["none.npy", "none.safetensors", "none.safetensors:t", "none.txt"] {
            let error = open(&path(name), Side::Text).unwrap_err();
            assert!(matches!(&error, Error::Io { path: named, .. } if *named == path(name)));
        }
    }

    #[test]
    fn tensors_are_named_behind_a_colon() {
        let folder = tempfile::tempdir().unwrap();
        let data = [0; 16];
        let view = |shape: &[usize]| TensorView::new(Dtype::F32, shape.to_vec(), &data).unwrap();
        let bytes = serialize([("x", view(&[2, 2])), ("y:z", view(&[1, 4]))], None).unwrap();
        for name in ["a.safetensors", "a.safetensors:b.safetensors"] {
            let path = folder.path().join(name);
            std::fs::write(&path, &bytes).unwrap();
            for (tensor, dim) in [("x", 2), ("y:z", 4)] {
                let named = format!("{}:{tensor}", path.display());
                assert_eq!(open(Path::new(&named), Side::Image).unwrap().matrix.dim(), dim);
            }
            assert!(open(&path, Side::Image).unwrap_err().to_string().contains("x, y:z"));
        }
    }
}
