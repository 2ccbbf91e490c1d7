//! Rows of features that stay on a GPU.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nextpair_cuda::Array;

use super::Unit;
use crate::ops::before_zeros;
use crate::{Device, Error, Tensor, Values};

/// The rows of a table, such as the features of images. On a GPU, those that were asked for stay,
/// if the whole table fits; so an epoch reads no features but the first.
pub struct Resident {
    rows: usize,
    width: usize,
    /// By the number of the GPU.
    tables: Mutex<HashMap<u16, Table>>,
}

enum Table {
    /// There is no room for it.
    TooLarge,
    Kept(Kept),
}

struct Kept {
    values: Array<f32>,
    /// Of rows that are there, how many numbers come before the zeros at their end.
    filled: Vec<Option<u32>>,
}

/// The share of the free memory that a table may take.
const SHARE: f64 = 0.5;

impl Resident {
    /// A table of so many rows of `width` numbers, none of which is on a GPU yet.
    pub fn new(rows: usize, width: usize) -> Self {
        Resident { rows, width, tables: Mutex::default() }
    }

    /// Some rows as a tensor of this shape. `read` gives rows that are not on the device: of a CPU,
    /// all of them.
    ///
    /// # Errors
    /// Those of `read`, and if the device failed.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn gather<E: From<Error>>(
        &self,
        device: Device,
        which: &[usize],
        shape: &[usize],
        read: impl Fn(&[usize]) -> Result<Vec<f32>, E>,
    ) -> Result<Tensor, E> {
        let Device::Cuda(cuda) = device else {
            return Ok(Tensor::new(read(which)?, shape, device)?);
        };
        let unit = Unit::new(cuda)?;
        // Reading uses rayon, whose worker may take on something that wants the lock: it must be open by then.
        let missing = {
            let mut tables = self.tables();
            self.kept(&mut tables, cuda.index, &unit)?.map(|kept| missing(&kept.filled, which))
        };
        let Some(missing) = missing else {
            return Ok(Tensor::new(read(which)?, shape, device)?);
        };
        let new = if missing.is_empty() { Vec::new() } else { read(&missing)? };
        let mut tables = self.tables();
        let Some(Kept { values, filled }) = self.kept(&mut tables, cuda.index, &unit)? else {
            drop(tables);
            return Ok(Tensor::new(read(which)?, shape, device)?);
        };
        if !missing.is_empty() {
            let new_rows = missing.iter().zip(new.chunks_exact(self.width));
            // Others may have brought some of them meanwhile.
            for (&row, new) in new_rows.filter(|(row, _)| filled[**row].is_none()) {
                // On the queue that owns the table, and waited for: other queues read it too.
                values.write(row * self.width, new).map_err(Error::from)?;
            }
            values.gpu().wait().map_err(Error::from)?;
            for (row, numbers) in missing.into_iter().zip(before_zeros(&new, self.width)) {
                filled[row] = Some(numbers as u32);
            }
        }
        let rows = unit.array(&which.iter().map(|&row| row as u32).collect::<Vec<_>>())?;
        let out = unit.empty(which.len() * self.width)?;
        let arguments = [(&out).into(), (&*values).into(), (&rows).into(), self.width.into()];
        let columns = self.width.div_ceil(1024);
        unit.run("gather_wide", nextpair_cuda::Grid::plane(which.len(), columns, 256), &arguments)?;
        Ok(Tensor::of_values(Values::Cuda(cuda, out), shape)?)
    }

    /// For each of some rows that were gathered, how many numbers come before the zeros at its end.
    /// Nothing if the device does not keep them.
    pub fn filled(&self, device: Device, which: &[usize]) -> Option<Vec<usize>> {
        let Device::Cuda(cuda) = device else { return None };
        let tables = self.tables();
        let Table::Kept(Kept { filled, .. }) = tables.get(&cuda.index)? else { return None };
        which.iter().map(|&row| filled[row].map(|numbers| numbers as usize)).collect()
    }

    fn tables(&self) -> MutexGuard<'_, HashMap<u16, Table>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table on a GPU, and which of its rows are there. Nothing if it has no room.
    fn kept<'a>(
        &self,
        tables: &'a mut HashMap<u16, Table>,
        index: u16,
        unit: &Unit,
    ) -> Result<Option<&'a mut Kept>, Error> {
        let table = match tables.entry(index) {
            Entry::Occupied(table) => table.into_mut(),
            Entry::Vacant(room) => room.insert(self.table(unit)?),
        };
        Ok(match table {
            Table::Kept(kept) => Some(kept),
            Table::TooLarge => None,
        })
    }

    fn table(&self, unit: &Unit) -> Result<Table, Error> {
        let (free, _) = unit.gpu().available()?;
        let count = self.rows * self.width;
        if (4 * count) as f64 > SHARE * free as f64 {
            return Ok(Table::TooLarge);
        }
        match unit.empty(count) {
            // Others were faster.
            Err(error) if error.is_out_of_memory() => Ok(Table::TooLarge),
            values => Ok(Table::Kept(Kept { values: values?, filled: vec![None; self.rows] })),
        }
    }
}

/// The rows that are not there yet, each once.
fn missing(filled: &[Option<u32>], which: &[usize]) -> Vec<usize> {
    let is_missing = |&row: &usize| filled[row].is_none();
    let mut missing: Vec<usize> = which.iter().copied().filter(is_missing).collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_that_were_read_and_their_zeros_are_known() {
        let table = [[1.0, 0.0, 2.0, 0.0], [0.0; 4], [3.0, 0.0, 0.0, 4.0]];
        for device in Device::available() {
            let resident = Resident::new(3, 4);
            assert_eq!(resident.filled(device, &[0]), None);
            for which in [vec![2, 0, 2], vec![0, 1]] {
                let read = |rows: &[usize]| -> Result<Vec<f32>, Error> {
                    Ok(rows.iter().flat_map(|&row| table[row]).collect())
                };
                let found = resident.gather(device, &which, &[which.len(), 4], read).unwrap();
                assert_eq!(found.to_f32s().unwrap(), read(&which).unwrap(), "{device}");
            }
            // Who reads may meet others who ask for rows, even the same ones.
            let resident = Resident::new(3, 4);
            let read = |rows: &[usize]| -> Result<Vec<f32>, Error> {
                let plain = |rows: &[usize]| Ok(rows.iter().flat_map(|&row| table[row]).collect());
                resident.gather::<Error>(device, &[2, 1], &[2, 4], plain)?;
                plain(rows)
            };
            let found = resident.gather(device, &[1, 0], &[2, 4], read).unwrap();
            assert_eq!(found.to_f32s().unwrap(), [table[1], table[0]].concat(), "{device}");
            resident.gather(device, &[2], &[1, 4], read).unwrap();
            let known = matches!(device, Device::Cuda(_)).then(|| vec![0, 4, 3]);
            assert_eq!(resident.filled(device, &[1, 2, 0]), known, "{device}");
        }
    }
}
