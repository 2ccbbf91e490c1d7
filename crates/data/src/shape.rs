//! Checks on the shapes that files declare.

use crate::Dtype;

/// A valid shape of a matrix, and the bytes of its numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CheckedShape {
    pub(crate) rows: usize,
    pub(crate) locals: usize,
    pub(crate) dim: usize,
    pub(crate) bytes: usize,
}

/// Reads `(rows, dim)` or `(rows, locals, dim)`. The numbers come from a file and may be anything,
/// so the product is checked. Zero rows are allowed; zero numbers per row are not.
pub(crate) fn extent(shape: &[usize], dtype: Dtype) -> Result<CheckedShape, String> {
    let (rows, locals, dim) = match *shape {
        [rows, dim] => (rows, 1, dim),
        [rows, locals, dim] => (rows, locals, dim),
        _ => {
            return Err(format!(
                "shape {} has {} dimensions; a matrix has 2 (rows, dim) or 3 (rows, locals, dim)",
                display(shape),
                shape.len()
            ));
        }
    };
    if locals == 0 || dim == 0 {
        return Err(format!("shape {} has rows without numbers", display(shape)));
    }
    let bytes = product([locals, dim, dtype.size(), rows])
        .ok_or_else(|| format!("shape {} is larger than any file", display(shape)))?;
    Ok(CheckedShape { rows, locals, dim, bytes })
}

/// The product, unless it overflows.
pub(crate) fn product(factors: impl IntoIterator<Item = usize>) -> Option<usize> {
    factors.into_iter().try_fold(1, usize::checked_mul)
}

/// Formats a shape like a Python tuple.
pub(crate) fn display(shape: &[usize]) -> String {
    match shape {
        [only] => format!("({only},)"),
        _ => {
            let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
            format!("({})", sizes.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_and_three_dimensions() {
        let flat = CheckedShape { rows: 3, locals: 1, dim: 4, bytes: 48 };
        assert_eq!(extent(&[3, 4], Dtype::F32), Ok(flat));
        let local = CheckedShape { rows: 3, locals: 2, dim: 4, bytes: 48 };
        assert_eq!(extent(&[3, 2, 4], Dtype::F16), Ok(local));
        assert_eq!(extent(&[0, 4], Dtype::F64).unwrap().bytes, 0);
    }

    #[test]
    fn other_shapes_are_explained() {
        for (shape, expected) in [
            (&[][..], "shape () has 0 dimensions"),
            (&[7], "shape (7,) has 1 dimensions"),
            (&[1, 2, 3, 4], "shape (1, 2, 3, 4) has 4 dimensions"),
            (&[3, 0], "shape (3, 0) has rows without numbers"),
            (&[3, 0, 4], "rows without numbers"),
            (&[usize::MAX, 2], "larger than any file"),
            (&[0, usize::MAX], "larger than any file"),
        ] {
            let what = extent(shape, Dtype::F32).unwrap_err();
            assert!(what.contains(expected), "{what}");
        }
    }
}
