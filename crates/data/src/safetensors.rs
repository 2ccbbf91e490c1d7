//! Tensors of a `.safetensors` file.

mod sealed;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ::safetensors::tensor::{Dtype as Stored, Metadata, SafeTensors, TensorInfo};
use half::{bf16, f16};

use crate::guard::guard;
use crate::mapping::{self, Bytes};
use crate::{Dtype, Element, Error, Matrix, integer, listed, shape};
pub use sealed::{check_sealed, sealed};

/// Maps one 2-D or 3-D tensor of floating-point numbers. The name may be left out if the file has
/// only one tensor.
pub fn open(path: &Path, tensor: Option<&str>) -> Result<Matrix, Error> {
    SafetensorsFile::open(path)?.matrix(tensor)
}

/// A mapped file and its header.
#[derive(Debug)]
pub struct SafetensorsFile {
    path: PathBuf,
    bytes: Bytes,
    header: Metadata,
    data_start: usize,
}

impl SafetensorsFile {
    /// Maps `path` and reads its header.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::over(path, mapping::map(path)?)
    }

    /// Like [`open`](Self::open), for a file in memory; errors name `path`.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self, Error> {
        Self::over(path, bytes.into())
    }

    fn over(path: &Path, bytes: Bytes) -> Result<Self, Error> {
        let (length, header) = guard(path, || {
            SafeTensors::read_metadata(bytes.as_slice())
                .map_err(|e| Error::format(path, format!("not a whole safetensors file: {e}")))
        })?;
        // The file begins with the length of the header in 8 bytes; the data follows the header.
        Ok(SafetensorsFile { path: path.to_path_buf(), bytes, header, data_start: 8 + length })
    }

    /// Fails unless the file is as [`sealed`] made it.
    pub fn check_sealed(&self) -> Result<(), Error> {
        check_sealed(&self.path, self.bytes.as_slice())
    }

    /// The names of the tensors, in the order of the file.
    pub fn names(&self) -> Vec<String> {
        self.header.offset_keys()
    }

    /// The texts under `__metadata__`, by key.
    pub fn metadata(&self) -> BTreeMap<&str, &str> {
        let texts = self.header.metadata().iter().flatten();
        texts.map(|(key, text)| (key.as_str(), text.as_str())).collect()
    }

    /// One 2-D or 3-D tensor as a matrix, without a copy. The name may be left out if the file has
    /// only one tensor.
    pub fn matrix(&self, tensor: Option<&str>) -> Result<Matrix, Error> {
        let names = self.names();
        let name = match (tensor, &names[..]) {
            (Some(name), _) => name,
            (None, [only]) => only,
            (None, _) => {
                let what = format!("holds {}; name one as FILE:TENSOR", tensors(&names));
                return Err(self.error(what));
            }
        };
        let info = self.info(name)?;
        let dtype = match info.dtype {
            Stored::F16 => Dtype::F16,
            Stored::BF16 => Dtype::Bf16,
            Stored::F32 => Dtype::F32,
            Stored::F64 => Dtype::F64,
            other => return Err(self.refused(name, other, "F16, BF16, F32 and F64")),
        };
        let extent = shape::extent(&info.shape, dtype)
            .map_err(|what| self.error(format!("tensor '{name}': {what}")))?;
        let (start, end) = info.data_offsets;
        let bytes = self.bytes.slice(self.data_start + start..self.data_start + end);
        Ok(Matrix::over(bytes, extent.rows, extent.locals, extent.dim, dtype))
    }

    /// The shape and the numbers of a tensor of any rank stored as F16, BF16, F32 or F64.
    pub fn f64s(&self, name: &str) -> Result<(Vec<usize>, Vec<f64>), Error> {
        let info = self.info(name)?;
        let bytes = self.data(info);
        let numbers = match info.dtype {
            Stored::F16 => floats::<f16>(bytes),
            Stored::BF16 => floats::<bf16>(bytes),
            Stored::F32 => floats::<f32>(bytes),
            Stored::F64 => floats::<f64>(bytes),
            other => return Err(self.refused(name, other, "F16, BF16, F32 and F64")),
        };
        self.bytes.check_unchanged()?;
        Ok((info.shape.clone(), numbers))
    }

    /// The shape and the numbers of a tensor of any rank stored as I32, I64, U8, U32 or U64.
    pub fn i64s(&self, name: &str) -> Result<(Vec<usize>, Vec<i64>), Error> {
        let info = self.info(name)?;
        let (size, signed) = match info.dtype {
            Stored::I32 => (4, true),
            Stored::I64 => (8, true),
            Stored::U8 => (1, false),
            Stored::U32 => (4, false),
            Stored::U64 => (8, false),
            other => return Err(self.refused(name, other, "I32, I64, U8, U32 and U64")),
        };
        let numbers = integer::decode_all(&self.path, self.data(info), size, signed);
        self.bytes.check_unchanged()?;
        let numbers = numbers?;
        Ok((info.shape.clone(), numbers))
    }

    fn info(&self, name: &str) -> Result<&TensorInfo, Error> {
        self.header.info(name).ok_or_else(|| {
            self.error(format!("no tensor '{name}'; it holds {}", tensors(&self.names())))
        })
    }

    fn data(&self, info: &TensorInfo) -> &[u8] {
        let (start, end) = info.data_offsets;
        &self.bytes.as_slice()[self.data_start + start..self.data_start + end]
    }

    fn error(&self, what: String) -> Error {
        Error::format(&self.path, what)
    }

    fn refused(&self, name: &str, dtype: Stored, accepted: &str) -> Error {
        self.error(format!("tensor '{name}' has dtype {dtype:?}; accepted are {accepted}"))
    }
}

fn floats<E: Element>(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(E::SIZE).map(E::decode).collect()
}

fn tensors(names: &[String]) -> String {
    match names {
        [] => "no tensors".into(),
        _ => format!("the tensors {}", listed(names)),
    }
}

#[cfg(test)]
mod tests {
    use ::safetensors::tensor::{TensorView, serialize};

    use super::*;
    use crate::damage;

    fn file(tensors: &[(&str, Stored, &[usize], &[u8])]) -> Vec<u8> {
        let views = tensors.iter().map(|&(name, dtype, shape, data)| {
            (name, TensorView::new(dtype, shape.to_vec(), data).unwrap())
        });
        let metadata = [("made".to_owned(), "here".to_owned())].into();
        serialize(views, Some(metadata)).unwrap()
    }

    fn bytes<const N: usize>(values: [f32; N]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn from_bytes(bytes: Vec<u8>) -> Result<SafetensorsFile, Error> {
        SafetensorsFile::from_bytes(Path::new("t.safetensors"), bytes)
    }

    /// Returns whether the bytes open as a matrix; if so, reads every row.
    fn opens(bytes: &[u8]) -> bool {
        let Ok(matrix) = from_bytes(bytes.to_vec()).and_then(|file| file.matrix(None)) else {
            return false;
        };
        (0..matrix.rows()).for_each(|row| assert!(!matrix.row_bytes(row).is_empty()));
        true
    }

    #[test]
    fn a_tensor_is_mapped_by_name_or_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        let (a, b) = (bytes([1.0, 2.0]), bytes([3.0, 4.0, 5.0, 6.0]));
        let both: [(&str, Stored, &[usize], &[u8]); 2] =
            [("a", Stored::F32, &[1, 2], &a), ("b", Stored::F32, &[2, 1, 2], &b)];
        std::fs::write(&path, file(&both)).unwrap();
        let matrix = open(&path, Some("b")).unwrap();
        assert_eq!((matrix.rows(), matrix.locals(), matrix.dim()), (2, 1, 2));
        let mut row = [0.0; 2];
        matrix.read_f64(1, &mut row);
        assert_eq!(row, [5.0, 6.0]);
        let what = open(&path, None).unwrap_err().to_string();
        assert!(what.contains("holds the tensors a, b; name one as FILE:TENSOR"), "{what}");
        let what = open(&path, Some("c")).unwrap_err().to_string();
        assert!(what.contains("no tensor 'c'; it holds the tensors a, b"), "{what}");
        drop(matrix);
        std::fs::write(&path, file(&both[..1])).unwrap();
        assert_eq!(open(&path, None).unwrap().rows(), 1);
    }

    #[test]
    fn names_metadata_and_numbers() {
        let wide = [7i64, -8].map(i64::to_le_bytes).concat();
        let narrow = [f16::from_f64(0.5), f16::from_f64(-2.0)].map(f16::to_le_bytes).concat();
        let file = from_bytes(file(&[
            ("h", Stored::F16, &[2], &narrow),
            ("d", Stored::F64, &[], &1.25f64.to_le_bytes()),
            ("i", Stored::I64, &[1, 2], &wide),
            ("u", Stored::U8, &[3], &[1, 2, 255]),
            ("big", Stored::U64, &[1], &[255; 8]),
        ]))
        .unwrap();
        let mut names = file.names();
        names.sort();
        assert_eq!(names, ["big", "d", "h", "i", "u"]);
        assert_eq!(file.metadata(), [("made", "here")].into());
        assert_eq!(file.f64s("h").unwrap(), (vec![2], vec![0.5, -2.0]));
        assert_eq!(file.f64s("d").unwrap(), (vec![], vec![1.25]));
        assert_eq!(file.i64s("i").unwrap(), (vec![1, 2], vec![7, -8]));
        assert_eq!(file.i64s("u").unwrap(), (vec![3], vec![1, 2, 255]));
        for (what, expected) in [
            (file.i64s("big").unwrap_err(), "row 0: the integer is larger"),
            (file.i64s("h").unwrap_err(), "'h' has dtype F16; accepted are I32, I64"),
            (file.f64s("i").unwrap_err(), "'i' has dtype I64; accepted are F16, BF16, F32 and F64"),
            (file.matrix(Some("i")).unwrap_err(), "'i' has dtype I64; accepted are F16"),
            (file.matrix(Some("h")).unwrap_err(), "tensor 'h': shape (2,) has 1 dimensions"),
        ] {
            assert!(what.to_string().contains(expected), "{what}");
        }
    }

    #[test]
    fn a_message_has_room_for_few_names() {
        let header: Vec<String> = (0..10_000)
            .map(|i| format!(r#""t{i}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#))
            .collect();
        let header = format!("{{{}}}", header.join(","));
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
        let file = from_bytes(bytes).unwrap();
        for what in [file.matrix(None).unwrap_err(), file.f64s("none").unwrap_err()] {
            let what = what.to_string();
            assert!(what.contains(" and 9980 more") && what.len() < 1000, "{what}");
        }
    }

    #[test]
    fn offsets_that_overflow_are_errors() {
        let size = usize::MAX / 8;
        let tensors: Vec<String> = (0..8)
            .map(|i| {
                let (start, end) = (i * size, (i + 1) * size);
                format!(r#""{i}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{start},{end}]}}"#)
            })
            .collect();
        let header = format!("{{{}}}", tensors.join(","));
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        from_bytes(bytes).unwrap_err();
        let what = from_bytes(file(&[])).unwrap().matrix(None).unwrap_err();
        assert!(what.to_string().contains("holds no tensors"), "{what}");
    }

    #[test]
    fn damaged_files_never_panic() {
        let data = bytes([1.0, 2.0, 3.0, 4.0]);
        let whole = file(&[("a", Stored::F32, &[2, 2], &data)]);
        assert!(opens(&whole));
        damage::truncate(&whole, opens);
        damage::mutate(&whole, 5000, opens);
    }
}
