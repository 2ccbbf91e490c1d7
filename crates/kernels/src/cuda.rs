//! Forms of the operations for NVIDIA GPUs: kernels of this crate in CUDA C, and products by cuBLAS.

mod factor;
mod grouping;
mod lines;
mod matching;
mod resident;
mod scoring;
mod tables;

use std::sync::Arc;

use nextpair_cuda::{Argument, Array, Element, Gpu, Grid, Kernels, Operand, Product};

use crate::device::Cuda;
use crate::{Error, Precision};

pub(crate) use matching::{Matched, Prepared};
pub use resident::Resident;
pub(crate) use scoring::{Scoring, can_score};
pub(crate) use tables::{EvenRows, MemoryArrays, Rows};

/// The kernels of this crate, but for those of `scoring`. The first source declares what the others
/// use.
static KERNELS: Kernels = Kernels {
    name: "nextpair-kernels",
    sources: &[
        include_str!("../cuda/common.cu"),
        include_str!("../cuda/elementwise.cu"),
        include_str!("../cuda/optimiser.cu"),
        include_str!("../cuda/gru.cu"),
        include_str!("../cuda/losses.cu"),
        include_str!("../cuda/attention.cu"),
        include_str!("../cuda/norms.cu"),
        include_str!("../cuda/spans.cu"),
        include_str!("../cuda/sets.cu"),
        include_str!("../cuda/tables.cu"),
        include_str!("../cuda/matching.cu"),
        include_str!("../cuda/pair_products.cu"),
        include_str!("../cuda/pair_products_tf32.cu"),
        include_str!("../cuda/rounding.cu"),
    ],
};

/// A queue of a GPU with the precision of its products: what computes an operation.
pub struct Unit {
    gpu: Arc<Gpu>,
    precision: Precision,
}

/// Threads of a block that handles a row.
const ROW_THREADS: u32 = 128;

impl Unit {
    pub(crate) fn new(cuda: Cuda) -> Result<Self, Error> {
        Ok(Unit { gpu: cuda.gpu()?, precision: cuda.precision })
    }

    /// The queue.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The precision of its products.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// A copy of numbers on the device.
    ///
    /// # Errors
    /// If the device has no memory left, or failed.
    pub fn array<T: Element>(&self, values: &[T]) -> Result<Array<T>, Error> {
        Ok(Array::of(&self.gpu, values)?)
    }

    pub(crate) fn empty<T: Element>(&self, len: usize) -> Result<Array<T>, Error> {
        Ok(Array::empty(&self.gpu, len)?)
    }

    pub(crate) fn zeros<T: Element>(&self, len: usize) -> Result<Array<T>, Error> {
        Ok(Array::zeros(&self.gpu, len)?)
    }

    /// Offsets of items on the device.
    pub(crate) fn offsets(&self, offsets: &[usize]) -> Result<Array<u32>, Error> {
        self.array(&offsets.iter().map(|&offset| offset as u32).collect::<Vec<_>>())
    }

    /// Launches a kernel of this crate.
    pub(crate) fn run(
        &self,
        kernel: &'static str,
        grid: Grid,
        arguments: &[Argument],
    ) -> Result<(), Error> {
        self.run_of(&KERNELS, kernel, grid, arguments)
    }

    /// Launches one of these kernels.
    fn run_of(
        &self,
        kernels: &Kernels,
        kernel: &'static str,
        grid: Grid,
        arguments: &[Argument],
    ) -> Result<(), Error> {
        // SAFETY: each caller passes what its kernel declares, and arrays of the sizes it passes.
        unsafe { self.gpu.launch(kernels, kernel, grid, arguments)? };
        Ok(())
    }

    /// `out = left right + keep * out` in the precision of this unit.
    pub(crate) fn multiply(
        &self,
        (rows, columns, depth): (usize, usize, usize),
        left: Operand,
        right: Operand,
        keep: f32,
        out: Operand,
    ) -> Result<(), Error> {
        self.multiply_each(1, (rows, columns, depth), left, right, keep, out)
    }

    /// The same for `count` matrices each.
    pub(crate) fn multiply_each(
        &self,
        count: usize,
        size: (usize, usize, usize),
        left: Operand,
        right: Operand,
        keep: f32,
        out: Operand,
    ) -> Result<(), Error> {
        let product = self.product(size, left, right, keep);
        Ok(self.gpu.multiply_each(product, out, count)?)
    }

    fn product(
        &self,
        (rows, columns, depth): (usize, usize, usize),
        left: Operand,
        right: Operand,
        keep: f32,
    ) -> Product {
        let precision = self.precision.of_products();
        Product { rows, columns, depth, left, right, keep, precision }
    }

    /// Applies a kernel to every number: `kernel(out, inputs..., count)`.
    pub(crate) fn each(
        &self,
        kernel: &'static str,
        inputs: &[&Array<f32>],
    ) -> Result<Array<f32>, Error> {
        let count = inputs[0].len();
        let out = self.empty(count)?;
        let mut arguments = vec![Argument::from(&out)];
        arguments.extend(inputs.iter().map(|&input| Argument::from(input)));
        arguments.push(count.into());
        self.run(kernel, Grid::each(count), &arguments)?;
        Ok(out)
    }

    /// Adds numbers in place.
    pub(crate) fn add(&self, sum: &mut Array<f32>, part: &Array<f32>) -> Result<(), Error> {
        sum.make_own()?;
        let count = sum.len();
        self.run("add", Grid::each(count), &[(&*sum).into(), part.into(), count.into()])
    }

    /// Adds, to each number, the one of `part` at its place.
    pub(crate) fn add_picked(
        &self,
        sum: &mut Array<f32>,
        part: &Array<f32>,
        places: &[u32],
    ) -> Result<(), Error> {
        sum.make_own()?;
        let (places, count) = (self.array(places)?, places.len());
        let arguments = [(&*sum).into(), part.into(), (&places).into(), count.into()];
        self.run("add_picked", Grid::each(count), &arguments)
    }

    /// Numbers divided by one.
    pub(crate) fn divided(&self, values: &Array<f32>, by: f64) -> Result<Array<f32>, Error> {
        let (out, count) = (self.empty(values.len())?, values.len());
        let arguments = [(&out).into(), values.into(), by.into(), count.into()];
        self.run("divide", Grid::each(count), &arguments)?;
        Ok(out)
    }

    /// A number: `factor` times the sum of parts.
    pub(crate) fn total(&self, parts: &Array<f64>, factor: f64) -> Result<Array<f32>, Error> {
        let out = self.empty(1)?;
        let arguments = [(&out).into(), parts.into(), parts.len().into(), factor.into()];
        self.run("total", Grid::blocks(1, 1024), &arguments)?;
        Ok(out)
    }

    /// Numbers times one.
    pub(crate) fn times(&self, values: &Array<f32>, factor: f32) -> Result<Array<f32>, Error> {
        let (out, count) = (self.empty(values.len())?, values.len());
        let arguments = [(&out).into(), values.into(), factor.into(), count.into()];
        self.run("times", Grid::each(count), &arguments)?;
        Ok(out)
    }

    /// Raises and lowers numbers in place to be from `low` to `high`.
    pub(crate) fn bound(&self, values: &mut Array<f32>, low: f32, high: f32) -> Result<(), Error> {
        values.make_own()?;
        let count = values.len();
        let arguments = [(&*values).into(), low.into(), high.into(), count.into()];
        self.run("bound", Grid::each(count), &arguments)
    }

    /// Each of some rows of `columns` numbers, `count` times, one after the other.
    pub(crate) fn each_repeated(
        &self,
        rows: &Array<f32>,
        columns: usize,
        count: usize,
    ) -> Result<Array<f32>, Error> {
        let length = rows.len() * count;
        let out = self.empty(length)?;
        let (each, count) = ((columns * count) as u64, length as u64);
        let arguments = [(&out).into(), rows.into(), columns.into(), each.into(), count.into()];
        self.run("repeat_rows", Grid::each(length), &arguments)?;
        Ok(out)
    }

    /// Copies `length` numbers of each of `count` parts. Arrays come with the first number and the distance
    /// between parts.
    pub(crate) fn copy_parts(
        &self,
        count: usize,
        length: usize,
        (from, from_first, from_apart): (&Array<f32>, usize, usize),
        (to, to_first, to_apart): (&Array<f32>, usize, usize),
    ) -> Result<(), Error> {
        if count == 1 {
            return Ok(to.copy_from(to_first, from, from_first, length)?);
        }
        let arguments = [
            to.at(to_first).into(),
            from.at(from_first).into(),
            (to_apart as u64).into(),
            (from_apart as u64).into(),
            length.into(),
        ];
        self.run("copy_parts", Grid::plane(count, length.div_ceil(1024), 256), &arguments)
    }

    /// Adds the sums of the columns of each of `count` matrices of equal size, one after the other, to
    /// `keep` times what is there.
    pub(crate) fn column_sums_of_each(
        &self,
        count: usize,
        matrices: &Array<f32>,
        columns: usize,
        keep: f32,
        out: &Array<f32>,
    ) -> Result<(), Error> {
        let rows = matrices.len() / (count * columns).max(1);
        let arguments = [out.into(), matrices.into(), rows.into(), columns.into(), keep.into()];
        self.run("column_sums", Grid::plane(columns.div_ceil(32), count, 1024), &arguments)
    }

    /// A warp for each of `count` columns.
    pub(crate) fn warps(count: usize) -> Grid {
        Grid::blocks(count.div_ceil((ROW_THREADS / 32) as usize), ROW_THREADS)
    }

    /// A thread for each number of `count` rows.
    pub(crate) fn numbers(count: usize, dim: usize) -> Grid {
        Grid::plane(count, dim.div_ceil(ROW_THREADS as usize), ROW_THREADS)
    }

    /// One block for each of `count` rows.
    pub(crate) fn rows(count: usize) -> Grid {
        Grid::blocks(count, ROW_THREADS)
    }
}
