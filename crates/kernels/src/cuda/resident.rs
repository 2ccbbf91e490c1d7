//! Rows of features that stay on a GPU.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};

use nextpair_cuda::Array;

use super::Unit;
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
    Kept {
        values: Array<f32>,
        there: Vec<bool>,
    },
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
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let table = match tables.entry(cuda.index) {
            Entry::Occupied(table) => table.into_mut(),
            Entry::Vacant(room) => room.insert(self.table(&unit)?),
        };
        let Table::Kept { values, there } = table else {
            drop(tables);
            return Ok(Tensor::new(read(which)?, shape, device)?);
        };
        let mut missing: Vec<usize> = which.iter().copied().filter(|&row| !there[row]).collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            let new = read(&missing)?;
            for (&row, new) in missing.iter().zip(new.chunks_exact(self.width)) {
                // On the queue that owns the table, and waited for: other queues read it too.
                values.write(row * self.width, new).map_err(Error::from)?;
            }
            values.gpu().wait().map_err(Error::from)?;
            missing.iter().for_each(|&row| there[row] = true);
        }
        let rows = unit.array(&which.iter().map(|&row| row as u32).collect::<Vec<_>>())?;
        let out = unit.empty(which.len() * self.width)?;
        let arguments = [(&out).into(), (&*values).into(), (&rows).into(), self.width.into()];
        let columns = self.width.div_ceil(1024);
        unit.run("gather_wide", nextpair_cuda::Grid::plane(which.len(), columns, 256), &arguments)?;
        Ok(Tensor::of_values(Values::Cuda(cuda, out), shape)?)
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
            values => Ok(Table::Kept { values: values?, there: vec![false; self.rows] }),
        }
    }
}
