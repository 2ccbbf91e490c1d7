//! NumPy's `.npy` format: one array after a short header that is a Python dictionary.

mod header;

use std::io::{self, Write};
use std::path::Path;

use crate::mapping::{self, Bytes};
use crate::{Dtype, Error, Matrix, integer, shape};
use header::MAGIC;
pub use header::{Header, parse};

/// Maps a 2-D or 3-D array of floating-point numbers.
pub fn open(path: &Path) -> Result<Matrix, Error> {
    matrix(mapping::map(path)?).map_err(|what| Error::format(path, what))
}

/// Like [`open`], for a file in memory.
pub fn from_bytes(bytes: Vec<u8>) -> Result<Matrix, String> {
    matrix(bytes.into())
}

/// Reads a 1-D array of integers of any width, signed or not.
pub fn read_integers(path: &Path) -> Result<Vec<i64>, Error> {
    mapping::read(path, |bytes| decode_integers(path, bytes))
}

fn decode_integers(path: &Path, bytes: &Bytes) -> Result<Vec<i64>, Error> {
    let format = |what| Error::format(path, what);
    let header = parse(bytes.as_slice()).map_err(format)?;
    let (size, signed) = integer_type(&header.descr).map_err(format)?;
    let [count] = header.shape[..] else {
        let found = shape::display(&header.shape);
        return Err(format(format!("shape {found}, expected one dimension of integers")));
    };
    let expected = shape::product([count, size])
        .ok_or_else(|| format(format!("shape ({count},) is larger than any file")))?;
    let data = data(bytes, &header, expected).map_err(format)?;
    integer::decode_all(path, data.as_slice(), size, signed)
}

/// Writes pairs of 64-bit numbers, byte for byte as `numpy.save` writes an array of dtype `u8,u8`:
/// DataComp's format for uids.
pub fn write_uids(writer: &mut impl Write, uids: &[(u64, u64)]) -> io::Result<()> {
    write_header(writer, "[('f0', '<u8'), ('f1', '<u8')]", &[uids.len()])?;
    for (high, low) in uids {
        writer.write_all(&high.to_le_bytes())?;
        writer.write_all(&low.to_le_bytes())?;
    }
    Ok(())
}

/// Writes a `(rows, dim)` array in single precision. `values` must yield `rows * dim` numbers.
pub fn write_f32(
    writer: &mut impl Write,
    rows: usize,
    dim: usize,
    values: impl IntoIterator<Item = f32>,
) -> io::Result<()> {
    write_header(writer, "'<f4'", &[rows, dim])?;
    let mut written = 0;
    for value in values {
        writer.write_all(&value.to_le_bytes())?;
        written += 1;
    }
    if shape::product([rows, dim]) != Some(written) {
        let what = format!("{written} numbers for {rows} rows of {dim}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(())
}

/// Writes a one-dimensional array of 64-bit integers.
pub fn write_i64(writer: &mut impl Write, values: &[i64]) -> io::Result<()> {
    write_header(writer, "'<i8'", &[values.len()])?;
    values.iter().try_for_each(|value| writer.write_all(&value.to_le_bytes()))
}

/// Writes a `(rows, dim)` array of 32-bit numbers.
pub fn write_u32(writer: &mut impl Write, dim: usize, values: &[u32]) -> io::Result<()> {
    let rows = values.len().checked_div(dim).filter(|rows| rows * dim == values.len());
    let Some(rows) = rows else {
        let what = format!("{} numbers do not make rows of {dim}", values.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    };
    write_header(writer, "'<u4'", &[rows, dim])?;
    values.iter().try_for_each(|value| writer.write_all(&value.to_le_bytes()))
}

/// Reads a `(rows, dim)` array of 32-bit numbers from a file in memory: `dim`, and the numbers row by row.
pub fn read_u32(bytes: Vec<u8>) -> Result<(usize, Vec<u32>), String> {
    let bytes: Bytes = bytes.into();
    let header = parse(bytes.as_slice())?;
    let ([rows, dim], "<u4", false) = (&header.shape[..], &*header.descr, header.fortran_order)
    else {
        let found = shape::display(&header.shape);
        return Err(format!("'{}' of shape {found}, expected '<u4' rows", header.descr));
    };
    let size = shape::product([*rows, *dim, 4]);
    let size = size.ok_or_else(|| "a shape larger than any file".to_owned())?;
    let data = data(&bytes, &header, size)?;
    let (numbers, _) = data.as_slice().as_chunks::<4>();
    Ok((*dim, numbers.iter().map(|number| u32::from_le_bytes(*number)).collect()))
}

/// Writes a matrix in its storage type ([`Dtype::in_npy`]), as `(rows, dim)` or `(rows, locals, dim)`.
pub fn write_matrix(writer: &mut impl Write, matrix: &Matrix) -> io::Result<()> {
    let (rows, locals, dim) = (matrix.rows(), matrix.locals(), matrix.dim());
    writer.write_all(&header_of(rows, locals, dim, matrix.dtype()))?;
    if matrix.dtype().in_npy() == matrix.dtype() {
        return (0..rows).try_for_each(|row| writer.write_all(matrix.row_bytes(row)));
    }
    let mut numbers = vec![0f32; locals * dim];
    (0..rows).try_for_each(|row| {
        matrix.read_f32(row, &mut numbers);
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        writer.write_all(&bytes)
    })
}

/// The header of a matrix of this type ([`Dtype::in_npy`]). Its length does not depend on `rows`, so a file may grow and get its
/// header last.
pub fn header_of(rows: usize, locals: usize, dim: usize, dtype: Dtype) -> Vec<u8> {
    let descr = match dtype {
        Dtype::F16 => "'<f2'",
        Dtype::F32 | Dtype::Bf16 => "'<f4'",
        Dtype::F64 => "'<f8'",
    };
    let shape = [rows, locals, dim];
    let shape = if locals == 1 { &[rows, dim][..] } else { &shape };
    let mut header = Vec::new();
    write_header(&mut header, descr, shape).expect("a short header fits into memory");
    header
}

/// The shape and the type of a 2-D or 3-D array of floating-point numbers.
pub(crate) fn layout(header: &Header) -> Result<(shape::CheckedShape, Dtype), String> {
    let dtype = float_type(&header.descr)?;
    let extent = shape::extent(&header.shape, dtype)?;
    if header.fortran_order {
        return Err("Fortran order; save np.ascontiguousarray(array) instead".into());
    }
    Ok((extent, dtype))
}

/// A matrix over the bytes of a file.
pub(crate) fn matrix(bytes: Bytes) -> Result<Matrix, String> {
    let header = parse(bytes.as_slice())?;
    let (extent, dtype) = layout(&header)?;
    let data = data(&bytes, &header, extent.bytes)?;
    Ok(Matrix::over(data, extent.rows, extent.locals, extent.dim, dtype))
}

/// The bytes after the header, if there are exactly as many as the shape requires.
fn data(bytes: &Bytes, header: &Header, expected: usize) -> Result<Bytes, String> {
    let end = bytes.as_slice().len();
    let actual = end - header.data_start;
    let what = match actual.cmp(&expected) {
        std::cmp::Ordering::Equal => return Ok(bytes.slice(header.data_start..end)),
        std::cmp::Ordering::Less => "the data is cut off",
        std::cmp::Ordering::Greater => "there are bytes after the data",
    };
    let shape = shape::display(&header.shape);
    Err(format!("{what}: shape {shape} takes {expected} bytes, the file has {actual}"))
}

fn float_type(descr: &str) -> Result<Dtype, String> {
    match descr {
        "<f2" => Ok(Dtype::F16),
        "<f4" => Ok(Dtype::F32),
        "<f8" => Ok(Dtype::F64),
        _ => Err(refused(descr, "'<f2', '<f4' and '<f8'", "<f4")),
    }
}

fn integer_type(descr: &str) -> Result<(usize, bool), String> {
    Ok(match descr {
        "|i1" | "<i1" => (1, true),
        "|u1" | "<u1" => (1, false),
        "<i2" => (2, true),
        "<u2" => (2, false),
        "<i4" => (4, true),
        "<u4" => (4, false),
        "<i8" => (8, true),
        "<u8" => (8, false),
        _ => return Err(refused(descr, "integers of 1, 2, 4 or 8 bytes", "<i8")),
    })
}

/// Explains why an element type is not supported, with the NumPy call that converts it.
fn refused(descr: &str, accepted: &str, convert: &str) -> String {
    if descr.starts_with('[') {
        return format!("structured dtype {descr}; accepted are {accepted}");
    }
    match descr.strip_prefix('>') {
        Some(kind) => format!(
            "dtype '{descr}' is big-endian; save array.astype('<{kind}') instead \
             (accepted are {accepted})"
        ),
        None => format!(
            "dtype '{descr}'; accepted are {accepted}: save array.astype('{convert}') instead"
        ),
    }
}

fn write_header(writer: &mut impl Write, descr: &str, shape: &[usize]) -> io::Result<()> {
    let mut header = format!(
        "{{'descr': {descr}, 'fortran_order': False, 'shape': {}, }}",
        shape::display(shape)
    );
    // NumPy leaves room for the first dimension to grow to 21 digits in place, and then pads to 64
    // bytes, by a whole 64 if it is already aligned.
    let digits = shape.first().map_or(0, |rows| rows.to_string().len());
    let start = MAGIC.len() + 4;
    let unpadded = start + header.len() + (21 - digits) + 1;
    let total = (unpadded / 64 + 1) * 64;
    header.extend(std::iter::repeat_n(' ', total - start - header.len() - 1));
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(io::Error::other)?;
    writer.write_all(MAGIC)?;
    writer.write_all(&[1, 0])?;
    writer.write_all(&length.to_le_bytes())?;
    writer.write_all(header.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage;

    fn file(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let text = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn small() -> Vec<u8> {
        let mut bytes = Vec::new();
        write_f32(&mut bytes, 2, 3, [1.0, -2.0, 0.5, 4.0, 5.0, 6.0]).unwrap();
        bytes
    }

    /// Returns whether the bytes open; if so, reads every row.
    fn opens(bytes: &[u8]) -> bool {
        let Ok(matrix) = from_bytes(bytes.to_vec()) else { return false };
        (0..matrix.rows()).for_each(|row| assert!(!matrix.row_bytes(row).is_empty()));
        true
    }

    #[test]
    fn what_was_written_is_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        std::fs::write(&path, small()).unwrap();
        let matrix = open(&path).unwrap();
        assert_eq!((matrix.rows(), matrix.locals(), matrix.dim()), (2, 1, 3));
        let mut row = [0.0; 3];
        matrix.read_f64(1, &mut row);
        assert_eq!(row, [4.0, 5.0, 6.0]);
        assert!(write_f32(&mut Vec::new(), 2, 3, [1.0]).is_err());
    }

    #[test]
    fn every_type_and_rank() {
        for (descr, size) in [("'<f2'", 2), ("'<f4'", 4), ("'<f8'", 8)] {
            let bytes = file(descr, "False", "(2, 3, 4)", &vec![0; 24 * size]);
            let matrix = from_bytes(bytes).unwrap();
            assert_eq!((matrix.rows(), matrix.locals(), matrix.dim()), (2, 3, 4));
            assert_eq!(matrix.dtype().size(), size);
        }
        assert_eq!(from_bytes(file("'<f4'", "False", "(0, 8)", b"")).unwrap().rows(), 0);
    }

    #[test]
    fn unsuitable_arrays_are_explained() {
        let data = [0; 16];
        for (descr, order, shape, expected) in [
            ("'>f4'", "False", "(2, 2)", "'>f4' is big-endian; save array.astype('<f4')"),
            ("'<f4'", "True", "(2, 2)", "np.ascontiguousarray"),
            ("'<i8'", "False", "(2, 1)", "dtype '<i8'; accepted are '<f2', '<f4' and '<f8'"),
            ("'|O'", "False", "(2, 1)", "dtype '|O'"),
            ("[('f0', '<u8')]", "False", "(2,)", "structured dtype [('f0', '<u8')]"),
            ("'<f4'", "False", "()", "0 dimensions"),
            ("'<f4'", "False", "(4,)", "1 dimensions"),
            ("'<f4'", "False", "(1, 1, 2, 2)", "4 dimensions"),
            ("'<f4'", "False", "(4, 0)", "rows without numbers"),
            ("'<f4'", "False", "(4611686018427387904, 2)", "larger than any file"),
            ("'<f4'", "False", "(2, 3)", "cut off: shape (2, 3) takes 24 bytes, the file has 16"),
            ("'<f4'", "False", "(1, 3)", "bytes after the data: shape (1, 3) takes 12 bytes"),
        ] {
            let what = from_bytes(file(descr, order, shape, &data)).unwrap_err();
            assert!(what.contains(expected), "{what}");
        }
    }

    #[test]
    fn integers_of_every_width() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("i.npy");
        let read = |descr: &str, shape: &str, data: &[u8]| {
            std::fs::write(&path, file(descr, "False", shape, data)).unwrap();
            read_integers(&path)
        };
        assert_eq!(read("'|i1'", "(2,)", &[1, 255]).unwrap(), [1, -1]);
        assert_eq!(read("'|u1'", "(2,)", &[1, 255]).unwrap(), [1, 255]);
        for descr in ["'<i2'", "'<u2'", "'<i4'", "'<u4'", "'<i8'", "'<u8'"] {
            let size: usize = descr[3..4].parse().unwrap();
            let mut data = vec![0; 2 * size];
            data[size] = 7;
            assert_eq!(read(descr, "(2,)", &data).unwrap(), [0, 7]);
        }
        let too_large = read("'<u8'", "(2,)", &[[0; 8], [255; 8]].concat()).unwrap_err();
        assert!(too_large.to_string().contains("row 1: the integer is larger"), "{too_large}");
        for (descr, shape, expected) in [
            ("'<f4'", "(2,)", "accepted are integers"),
            ("'>i4'", "(2,)", "save array.astype('<i4')"),
            ("'<i4'", "(1, 2)", "expected one dimension"),
            ("'<i4'", "(3,)", "takes 12 bytes, the file has 8"),
            ("'<i4'", "(9223372036854775807,)", "larger than any file"),
        ] {
            let what = read(descr, shape, &[0; 8]).unwrap_err().to_string();
            assert!(what.contains(expected), "{what}");
        }
    }

    #[test]
    fn uids_are_written_as_numpy_does() {
        let mut bytes = Vec::new();
        write_uids(&mut bytes, &[(1, 2), (3, u64::MAX)]).unwrap();
        let fields = "[('f0', '<u8'), ('f1', '<u8')]";
        let header = format!("{{'descr': {fields}, 'fortran_order': False, 'shape': (2,), }}");
        assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(bytes[10..128], *format!("{header:<117}\n").as_bytes());
        assert_eq!(bytes[128..], [1u64, 2, 3, u64::MAX].map(u64::to_le_bytes).concat());
    }

    #[test]
    fn damaged_files_never_panic() {
        assert!(opens(&small()));
        damage::truncate(&small(), opens);
        damage::mutate(&small(), 5000, opens);
    }
}
