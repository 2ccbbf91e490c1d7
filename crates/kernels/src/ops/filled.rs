//! Where the zeros at the end of rows begin.

use crate::cuda::Unit;
use crate::{Error, Tensor, Values};

/// For every row, how many numbers come before the zeros at its end. A GPU waits for them.
///
/// # Errors
/// If `rows` is not a matrix, or its device failed.
pub fn filled(rows: &Tensor) -> Result<Vec<usize>, Error> {
    let (count, width) = rows.matrix_shape()?;
    let found = match rows.values() {
        Values::Cpu(values) => before_zeros(values, width),
        Values::Reference(values) => before_zeros(values, width),
        Values::Cuda(cuda, values) => {
            let unit = Unit::new(*cuda)?;
            let out = unit.empty::<u32>(count)?;
            let arguments = [(&out).into(), values.into(), width.into()];
            unit.run("filled", Unit::rows(count), &arguments)?;
            out.to_vec()?.into_iter().map(|filled| filled as usize).collect()
        }
    };
    Ok(found)
}

/// The same of numbers that lie in memory.
pub(crate) fn before_zeros<N: PartialEq + Default>(values: &[N], width: usize) -> Vec<usize> {
    let filled = |row: &[N]| row.iter().rposition(|x| *x != N::default()).map_or(0, |at| at + 1);
    values.chunks_exact(width.max(1)).map(filled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    #[test]
    fn every_device_finds_the_zeros_at_the_end() {
        let mut numbers = vec![0.0; 3 * 300];
        (numbers[7], numbers[0], numbers[299 + 300]) = (-1.0, 2.0, 1e-30);
        for device in [Device::Reference].into_iter().chain(Device::available()) {
            let rows = Tensor::new(numbers.clone(), &[3, 300], device).unwrap();
            assert_eq!(filled(&rows).unwrap(), [8, 300, 0], "{device}");
            let none = Tensor::new(Vec::new(), &[0, 300], device).unwrap();
            assert!(filled(&none).unwrap().is_empty(), "{device}");
        }
    }
}
